//! `quarry search`: finding code.

use std::io::{self, Read};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use quarry_answer::{SearchQuestion, Tree};
use quarry_index::{Filter, NamedRanking, RANKINGS, Update, rules, snippet};
use quarry_text::counted;
use quarry_walk::{SkipReason, Skipped};

use crate::index::SourcesArgs;
use crate::lines;
use crate::log::{self, Record};
use crate::model_choice::RerankArgs;
use crate::results::{self, FilterArgs, OutputArgs, Words};
use crate::settings::Settings;

/// Bytes of the longest query that is read from stdin.
const MAX_QUERY_BYTES: u64 = 64 << 10;

/// Arguments of `quarry search`.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// What to find: a description in plain words (in quotes), or a symbol; - reads it from stdin. With -e it may be
    /// omitted: a first argument that names a file or directory is a PATH
    #[arg(required_unless_present = "patterns")]
    query: Option<String>,
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
    /// With the query that stdin has, if that is asked for.
    ///
    /// # Errors
    /// When it is too long, not text, or cannot be read.
    pub fn with_query(mut self) -> anyhow::Result<Self> {
        self.query = self.query.map(given_query).transpose()?;
        Ok(self)
    }
}

/// A query as it was given, or the one that stdin has instead of `-`.
///
/// # Errors
/// When that is too long, not text, or cannot be read.
pub fn given_query(query: String) -> anyhow::Result<String> {
    if query == "-" { query_of(io::stdin().lock()) } else { Ok(query) }
}

fn named(ranking: NamedRanking) -> PossibleValue {
    PossibleValue::new(ranking.name).help(ranking.about)
}

/// Runs `quarry search`.
///
/// # Errors
/// When a path is missing or cannot be indexed, the query has no word, or a filter or expression is malformed.
pub fn run(mut args: SearchArgs) -> anyhow::Result<ExitCode> {
    args.output.quieten();
    if let Some(path) = args.query.take_if(|query| !args.patterns.is_empty() && Path::new(query).exists()) {
        args.source.prepend(path.into());
    }
    let paths = args.source.paths();
    check_paths(args.query.as_deref(), &paths)?;
    let start = Instant::now();
    let all: Vec<Settings> = paths.iter().map(|path| Settings::load(path)).collect::<anyhow::Result<_>>()?;
    let settings = Settings::shared(&all);
    let layout = args.output.layout(&settings);
    let filter = |(settings, path): (&Settings, &PathBuf)| args.filter.filter(settings, path);
    let filters: Vec<Filter> = all.iter().zip(&paths).map(filter).collect::<anyhow::Result<_>>()?;
    let is_narrowed = filters.iter().any(|filter| !filter.is_empty());
    let expression = match args.patterns.as_slice() {
        [] => None,
        patterns => Some(lines::expression(patterns, args.ignore_case)?),
    };
    let update = if args.no_index_update { Update::Never } else { Update::IfPossible };
    let query = args.query.as_deref().unwrap_or_default();
    let is_ranked = expression.is_none() || !query.is_empty();
    // Loading models that read nothing would take longer than the search.
    if !rules::is_symbol(query) {
        args.source.rerank(args.rerank);
    }
    let tree = args.source.open(&all, filters, update, is_ranked)?;
    let opened = Instant::now();
    let limit = layout.limit.unwrap_or_else(|| match (&expression, query) {
        (Some(_), "") => usize::MAX,
        _ => settings.get(|layer| layer.limit).unwrap_or_default(),
    });
    let question = SearchQuestion { query: query.to_owned(), patterns: args.patterns.clone() };
    let matching = expression.as_ref().map(|expression| lines::find(&tree.index, expression));
    let ranking = settings.ranking(args.ranking.as_deref());
    let request = layout.request(limit, &ranking);
    let found = quarry_answer::search(&tree.index, question, matching, &request)?;
    log::append(|| Record::of_hits("search", &tree, query, found.hits.iter(), None));
    let terms = found.terms.clone();
    let mut answer = found.answer(&tree, &layout.shown(), opened - start)?;
    // By the paths that were given, although some may hold nothing.
    (answer.root, answer.roots) = quarry_answer::roots(&tree, paths.len());
    let nothing = match &expression {
        Some(_) => "no line in the searched files matches",
        None if is_narrowed => "no match within the filters (`-t`, `-g`, `--kind`, settings)",
        None => "nothing found: no word of the query occurs in the searched files; try other words",
    };
    let nothing = &*match unreadable(&tree) {
        Some(unreadable) if answer.results.is_empty() => format!("{nothing}; {unreadable}"),
        _ => nothing.to_owned(),
    };
    let unsure = "No match clearly answers the query; showing the closest ones";
    results::print(&answer, &layout, &Words { nothing, unsure }, |text| match &expression {
        Some(expression) => lines::ranges(expression, text),
        None => snippet::matches(text, &terms),
    })
}

/// The query in what a program or a file sends, without white space around it.
///
/// # Errors
/// When it is too long, not text, or cannot be read.
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
