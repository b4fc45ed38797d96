//! `quarry related`: places that may have to change with others.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use quarry_related::{
    CommitView, Commits, DEFAULT_COMMITS, Event, HistoryView, Kind, More, OpenOptions, Place, Question,
    Reason, Related, RelatedError, RelatedTree, Subject,
};
use quarry_session::{Snapshot, Tree, kind_name};
use quarry_text::counted;

use crate::calls::{is_position, note_unknown};
use crate::index::{SourceArgs, with_notices};
use crate::output::{self, printable};
use crate::progress::Progress;
use crate::results::CommitFormat;
use crate::settings;
use crate::similar::{position, relative};

/// Number of places listed by default.
const DEFAULT_LIMIT: usize = 20;

/// Maximum size of a diff on stdin, in bytes.
const MAX_DIFF_BYTES: u64 = 64 << 20;

/// Arguments of `quarry related`.
#[derive(Debug, Args)]
pub struct RelatedArgs {
    /// A name, such as open or Index.open; a line of a definition, as FILE:LINE; a file; or - for a diff on stdin. Not
    /// with --diff and --staged
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Changes of a range of commits, such as main..HEAD; main... compares with the last common commit
    #[arg(long, value_name = "REV..REV", conflicts_with = "staged")]
    diff: Option<String>,
    /// Staged changes
    #[arg(long)]
    staged: bool,
    /// Only this kind of reason: test, caller, callee, override, type, change, literal, twin, similar, doc or commit (can
    /// be repeated)
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Maximum number of places, or of commits [default: 20]
    #[arg(short = 'k', long = "limit", value_name = "N", value_parser = settings::at_least_one)]
    limit: Option<usize>,
    /// Maximum number of commits of the history that are read; 0 for none
    #[arg(long, value_name = "N", default_value_t = DEFAULT_COMMITS)]
    commits: usize,
    /// Print the paths of files only, each once
    #[arg(short = 'l', long, conflicts_with = "vimgrep")]
    files_with_matches: bool,
    /// With -l, end each path with a NUL byte instead of a line end, as xargs -0 reads it
    #[arg(short = '0', long, requires = "files_with_matches", conflicts_with = "json")]
    null: bool,
    /// Print path:line:column:text as editors read it, with the reason as text
    #[arg(long, conflicts_with = "json")]
    vimgrep: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "files_with_matches")]
    json: bool,
}

pub fn run(mut args: RelatedArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    if args.kinds.contains(&Kind::Commit) && (args.files_with_matches || args.vimgrep) {
        bail!("commits are not in files; omit -l and --vimgrep, or --kind commit");
    }
    let subject = subject(&mut args)?;
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let ask = |tree: &Tree, snapshot: &Snapshot| {
        let related = open(tree, args.commits);
        let question = Question { subject: &subject, kinds: &args.kinds, limit, open_time: start.elapsed() };
        let found = related.answer(tree, &question).map_err(|error| match error {
            RelatedError::Index(error) => anyhow::Error::new(error),
            error => error.into(),
        });
        anyhow::Ok((found?, snapshot.tree()))
    };
    let session = args.source.session();
    let (found, tree) = with_notices(|notices| session.ask(None, notices, ask))?;
    if args.json {
        output::print_json(&found)?;
    } else if args.files_with_matches {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in found.results.iter().map(|place| tree.shown(&place.hit)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let end = if args.null { '\0' } else { '\n' };
        output::print_paths(paths.iter().map(|path| (path.as_path(), String::new())), end)?;
    } else if args.vimgrep {
        let shown: Vec<PathBuf> = found.results.iter().map(|place| tree.shown(&place.hit)).collect();
        let line = |place: &Place| {
            let reason = place.reasons.first().map(|reason| reason.evidence.as_str()).unwrap_or_default();
            format!(":{}:1:{}: {reason}", place.hit.start_line, place.hit.name)
        };
        let lines = shown.iter().zip(&found.results).map(|(path, place)| (path.as_path(), line(place)));
        output::print_positions(lines)?;
    } else {
        let places = found.results.iter().map(|place| place_text(&tree, place));
        let commits = found.commits.iter().flatten().map(commit_line);
        output::print(&places.chain(commits).collect::<String>())?;
    }
    if !args.json {
        explain_histories(&subject, &tree, &found);
        if let Some(more) = &found.more {
            output::note(&more_text(found.results.len(), more, &args.kinds));
        }
        found.notes.iter().for_each(|note| output::note(&printable(note)));
    }
    Ok(if found.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Prints the answer of `quarry search --kind commit`.
pub fn print_commits(found: &Commits, format: CommitFormat) -> anyhow::Result<ExitCode> {
    let is_empty = found.results.is_empty();
    match format {
        CommitFormat::Nothing => {}
        CommitFormat::Json => output::print_json(found)?,
        CommitFormat::JsonLines => output::print_json_lines(&found.results)?,
        CommitFormat::Text => {
            let lines = found.results.iter().map(|result| commit_line(&result.commit));
            output::print(&lines.collect::<String>())?;
        }
    }
    if is_empty && format != CommitFormat::Json {
        let histories: Vec<String> = found.history.iter().map(HistoryView::sentence).collect();
        output::note(&printable(&format!("nothing found; {}", histories.join("; "))));
    }
    Ok(if is_empty { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn commit_line(commit: &CommitView) -> String {
    format!("{}  {}  {}\n", commit.short_id(), commit.day(), printable(&commit.subject))
}

/// Maximum time that a command reads a history: the next command reads the rest of a long one.
const HISTORY_TIME: Duration = Duration::from_secs(20);

/// The relations and the history of a tree, with the progress of reading them.
pub fn open(tree: &Tree, commits: usize) -> RelatedTree {
    let progress = Progress::new("reading relations", 0);
    let on_event = |event| match event {
        Event::Files(done, total) => progress.set(done as u64, total as u64),
        Event::Commits(n) => {
            progress.rename("reading commits");
            progress.set(n as u64, commits as u64);
        }
    };
    let started = Instant::now();
    let is_cancelled = || started.elapsed() > HISTORY_TIME;
    let options =
        OpenOptions { commits, on_event: &on_event, is_cancelled: &is_cancelled, ..OpenOptions::default() };
    let related = RelatedTree::open(tree, &options);
    for history in related.histories.iter().filter(|history| history.is_interrupted) {
        let next = if history.is_kept { "; run it again to read on" } else { "" };
        output::note(&printable(&format!("{}{next}", history.sentence())));
    }
    related
}

/// The subject of the question; the only argument beside `--diff` and `--staged` is the path.
fn subject(args: &mut RelatedArgs) -> anyhow::Result<Subject> {
    let target = args.target.take();
    if args.diff.is_some() || args.staged || target.as_deref() == Some("-") {
        if let Some(path) = target.filter(|target| target != "-") {
            if args.source.path != Path::new(".") {
                let other = args.source.path.display();
                bail!("expected only PATH beside --diff or --staged, found {path} and {other}");
            }
            args.source.path = path.into();
            return Ok(Subject::Range(args.diff.take()));
        }
        return if args.diff.is_some() || args.staged {
            Ok(Subject::Range(args.diff.take()))
        } else {
            Ok(Subject::Diff(diff_on_stdin()?))
        };
    }
    let Some(target) = target else {
        bail!(
            "expected a name, FILE:LINE or a file, such as src/main.rs:12; or --diff REV..REV, --staged, or - for a \
             diff on stdin"
        );
    };
    if is_position(&target) {
        let (file, line) = position(&target)?;
        return Ok(Subject::Line(0, relative(&file, &args.source.path)?, line));
    }
    Ok(match Path::new(&target).is_file() {
        true => Subject::File(0, relative(Path::new(&target), &args.source.path)?),
        false => Subject::Name(target),
    })
}

fn diff_on_stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_DIFF_BYTES + 1).read_to_end(&mut bytes);
    read.context("stdin cannot be read")?;
    if bytes.len() as u64 > MAX_DIFF_BYTES {
        bail!("expected a diff of at most {MAX_DIFF_BYTES} bytes on stdin; name its revisions with --diff");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reports the histories that were read, if that explains an answer.
fn explain_histories(subject: &Subject, tree: &Tree, found: &Related) {
    let histories = found.histories();
    match (subject, found.targets.as_slice()) {
        (Subject::Name(name), []) if Path::new(name).is_dir() => {
            let name = printable(name);
            output::note(&format!("{name} is a directory; name a file or a definition in it"));
        }
        (Subject::Name(name), []) => note_unknown(tree, name),
        (Subject::Diff(diff), []) if diff.trim().is_empty() => output::note("the diff is empty"),
        (_, []) if found.removed_files.is_some() => {
            output::note("the change touches nothing that is still indexed")
        }
        (_, []) => output::note("the change touches nothing that is indexed"),
        _ if found.is_empty() => {
            let n_places = counted(found.places, "place");
            output::note(&printable(&format!("nothing related found among {n_places}; {histories}")));
        }
        _ if found.history.iter().any(|history| history.head.is_none() || history.problem.is_some()) => {
            output::note(&printable(&histories));
        }
        _ => {}
    }
}

/// Note on the places beyond the limit.
fn more_text(n_shown: usize, more: &More, kinds: &[Kind]) -> String {
    let n_all = n_shown + more.places;
    let at_least = if more.complete { "" } else { "more than " };
    let mut text = format!("{n_shown} of {at_least}{n_all} places; -k shows more");
    // With kinds, the others are of these.
    if let (Some(calls), []) = (more.calls(), kinds) {
        let kinds = [(more.tests, Kind::Test), (more.callers, Kind::Caller)];
        let options = kinds.iter().filter(|(n, _)| *n > 0).map(|(_, kind)| format!("--kind {kind}"));
        let _ = write!(
            text,
            "; of the others, {calls} certainly use it: {}",
            options.collect::<Vec<_>>().join(", ")
        );
    }
    text
}

fn place_text(tree: &Tree, place: &Place) -> String {
    let (path, name) = (tree.shown(&place.hit), printable(&place.hit.name));
    let path = path.to_string_lossy();
    let space = if name.is_empty() { "" } else { " " };
    let percent = match place.probability * 100.0 {
        p if p < 1.0 => "<1".to_owned(),
        p => format!("{p:.0}"),
    };
    let mut text = format!(
        "{percent:>3} %  {}:{}  {}{space}{name}\n",
        printable(&path),
        place.hit.start_line,
        kind_name(place.hit.kind)
    );
    for reason in &place.reasons {
        let Reason { kind, evidence, target, line, commits, .. } = reason;
        let _ = write!(text, "       {kind}: {}", printable(evidence));
        let _ = target.iter().try_for_each(|target| write!(text, " (`{}`)", printable(target)));
        text.push('\n');
        if let Some(line) = line {
            let path = tree.shown_in(place.hit.root, &line.path);
            let (path, shown) = (path.to_string_lossy(), printable(&line.text));
            let _ = writeln!(text, "         {}:{}: {shown}", printable(&path), line.line);
        }
        for commit in commits {
            let _ = writeln!(text, "         {} {}", commit.short_id(), printable(&commit.subject));
        }
    }
    text
}
