//! `quarry search`: finding code.

use std::io::{self, Read};
use std::iter;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use quarry_index::{NamedRanking, RANKINGS, Update, rules};
use quarry_related::DEFAULT_COMMITS;
use quarry_session::settings::{Narrowing, Settings};
use quarry_session::{Query, Snapshot, Tree, UnitsRequest};
use quarry_text::counted;
use quarry_walk::{SkipReason, Skipped};

use crate::index::{SourcesArgs, with_notices};
use crate::log::{self, Record};
use crate::model::RerankArgs;
use crate::related;
use crate::results::{self, FilterArgs, OutputArgs, Words};

/// Maximum bytes of a query that is read from stdin.
const MAX_QUERY_BYTES: u64 = 64 << 10;

/// Arguments of `quarry search`.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// What to find: a description in plain words (in quotes), or a symbol; - reads it from stdin. '"exact phrase"' and
    /// /REGEX/ match lines, and lang:go, path:src/, !path:test, kind:type, name:parse*, tree:NAME and case:yes narrow
    /// (docs/reference/query-syntax.md). With -e it may be omitted: a first argument that names a file or directory is a PATH
    #[arg(required_unless_present = "patterns")]
    query: Option<String>,
    /// True if the query is plain text rather than query syntax.
    #[arg(skip)]
    is_plain: bool,
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Show the lines that match this regular expression: all, or with -k those in the first functions; QUERY then only
    /// ranks them (can be repeated)
    #[arg(short = 'e', long = "regex", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Ignore case in the regular expression of -e
    #[arg(short = 'i', long, requires = "patterns")]
    ignore_case: bool,
    /// Search the existing index, without checking for changed files
    #[arg(long)]
    no_index_update: bool,
    /// Use another ranking, such as `no-rules`; `quarry eval repo` compares rankings on your code [default: default]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(RANKINGS.map(named)), hide_possible_values = true)]
    ranking: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl SearchArgs {
    /// The same arguments, with the query from stdin if requested.
    pub fn with_query(mut self) -> anyhow::Result<Self> {
        self.is_plain = self.query.as_deref() == Some("-");
        self.query = self.query.map(given_query).transpose()?;
        Ok(self)
    }
}

/// A query as given, or the one from stdin for `-`.
pub fn given_query(query: String) -> anyhow::Result<String> {
    if query == "-" { query_of(io::stdin().lock()) } else { Ok(query) }
}

fn named(ranking: NamedRanking) -> PossibleValue {
    PossibleValue::new(ranking.name).help(ranking.about)
}

pub fn run(mut args: SearchArgs) -> anyhow::Result<ExitCode> {
    args.output.quieten();
    if let Some(path) = args.query.take_if(|query| !args.patterns.is_empty() && Path::new(query).exists()) {
        args.source.prepend(path.into());
    }
    if args.filter.wants_commits() {
        return commits(&args);
    }
    let paths = args.source.paths();
    check_paths(args.query.as_deref(), &paths)?;
    let start = Instant::now();
    let query = args.query.as_deref().unwrap_or_default();
    let asked = if args.is_plain { Query::plain(query) } else { Query::parse(query)? };
    let asked = asked.with_patterns(&args.patterns, args.ignore_case)?;
    let update = if args.no_index_update { Update::Never } else { Update::IfPossible };
    // Loading models that read nothing would take longer than the search.
    if !rules::is_symbol(&asked.words) {
        args.source.rerank(args.rerank);
    }
    let is_exact = asked.is_exact();
    let mut session = args.source.session(args.filter.narrowing()?).with_update(update);
    if query.is_empty() {
        session = session.without_model();
    }
    if is_exact {
        session = session.with_all_text();
    }
    let search = |tree: &Tree, snapshot: &Snapshot| {
        let open_time = start.elapsed();
        let layout = args.output.layout(&snapshot.settings);
        let limit = layout.limit.unwrap_or(snapshot.defaults.limit);
        let unranked_limit = layout.limit.or(is_exact.then_some(usize::MAX));
        let (ranking, trees) = (snapshot.settings.ranking(args.ranking.as_deref()), tree.names());
        let request = UnitsRequest { unranked_limit, trees: &trees, ..layout.request(limit, &ranking) };
        let found = quarry_session::search(&tree.index, asked.clone(), &request)?;
        let (hits, marks) = (found.hits.clone(), found.marks());
        let answer = found.answer(tree, &layout.shown(), open_time)?;
        let nothing = match is_exact {
            true => "no line of the searched text files matches",
            false if snapshot.is_narrowed => "no match within the filters (`-t`, `-g`, `--kind`, settings)",
            false => "nothing found: no word of the query occurs in the searched files; try other words",
        };
        let nothing = match unreadable(tree) {
            Some(unreadable) if answer.results.is_empty() => format!("{nothing}; {unreadable}"),
            _ => nothing.to_owned(),
        };
        log::append(|| Record::from_hits("search", tree, query, hits.iter(), None));
        anyhow::Ok((answer, layout, marks, nothing))
    };
    let (answer, layout, marks, nothing) = with_notices(|notices| session.ask(None, notices, search))?;
    // The process ends: freeing indexes and models would take milliseconds.
    mem::forget(session);
    let nothing = nothing.as_str();
    let unsure = "No match clearly answers the query; showing the closest ones";
    results::print(&answer, &layout, &Words { nothing, unsure }, |text| marks.ranges(text))
}

/// Runs `quarry search --kind commit`.
fn commits(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let format = args.output.commit_format()?;
    let paths = args.source.paths();
    let [path] = paths.as_slice() else { bail!("commits are those of one tree; name one PATH") };
    let Some(query) = args.query.as_deref().filter(|_| args.patterns.is_empty()) else {
        bail!("commits are found by a description; omit -e");
    };
    let model = args.source.choice().load_model(&paths, &[Settings::load(path)?])?;
    let session = args.source.session(Narrowing::default());
    let search = |tree: &Tree, snapshot: &Snapshot| {
        let limit = args.output.layout(&snapshot.settings).limit.unwrap_or(snapshot.defaults.limit);
        anyhow::Ok(related::open(tree, DEFAULT_COMMITS).commits(
            tree,
            query,
            Some(model.as_ref()),
            &[],
            limit,
        )?)
    };
    let found = with_notices(|notices| session.ask(None, notices, search))?;
    related::print_commits(&found, format)
}

/// The query in the input of a program or a file, without white space around it.
fn query_of(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_QUERY_BYTES + 1).read_to_end(&mut bytes).context("cannot read the query from stdin")?;
    if bytes.len() as u64 > MAX_QUERY_BYTES {
        bail!("the query on stdin is longer than {} KiB; send less text", MAX_QUERY_BYTES >> 10);
    }
    let text =
        quarry_files::text(bytes).map_err(|error| anyhow!("the query on stdin: {error}; send UTF-8"))?;
    Ok(text.trim().to_owned())
}

/// The searched files that could not be read, if there are any.
fn unreadable(tree: &Tree) -> Option<String> {
    let mut unread = tree.index.unread();
    unread.retain(|(_, file)| matches!(file.reason, SkipReason::Unreadable(_)));
    let (root, Skipped { path, reason }) = unread.first()?;
    let (n, path) = (counted(unread.len(), "path"), tree.shown_in(*root, path));
    Some(format!("{n} could not be read, such as {}: {reason}", path.display()))
}

/// # Errors
/// When one of the paths is missing, which may also be a word of a query without quotes.
fn check_paths(query: Option<&str>, paths: &[PathBuf]) -> anyhow::Result<()> {
    let Some(last) = paths.iter().rposition(|path| !path.exists()) else { return Ok(()) };
    let missing = paths.iter().find(|path| !path.exists()).unwrap_or(&paths[last]).display();
    let Some(query) = query else { bail!("{missing}: no such file or directory; nothing was searched") };
    let words = paths[..=last].iter().map(|path| path.display().to_string());
    let words: Vec<String> = iter::once(query.to_owned()).chain(words).collect();
    bail!(
        "{missing}: no such file or directory; check the path, or put the query in quotes: \"{}\"",
        words.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_on_stdin_is_text_up_to_a_limit() {
        assert_eq!(query_of(&b"retry with\nbackoff\n"[..]).unwrap(), "retry with\nbackoff");
        let longest = "a ".repeat(32 << 10);
        assert_eq!(query_of(longest.as_bytes()).unwrap().len(), longest.len() - 1);
        let problem = |bytes: &[u8]| format!("{:#}", query_of(bytes).unwrap_err());
        assert!(problem(&[longest.as_bytes(), b"a"].concat()).contains("longer than 64 KiB"));
        assert!(problem(b"a\n\xff").contains("line 2 is not valid UTF-8"), "{}", problem(b"a\n\xff"));
    }
}
