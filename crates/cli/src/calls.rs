//! `quarry callers` and `quarry callees`: callers and callees of a definition.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use quarry_index::{CallSite, Callee, Calls, Filter, Hit, UnfinishedFile};
use quarry_session::{CallsQuestion, Snapshot, Tree, kind_name};
use quarry_text::{counted, did_you_mean};

use crate::index::{SourceArgs, with_notices};
use crate::output::{self, printable};
use crate::results::FilterArgs;
use crate::settings::{self, Settings};
use crate::similar::{position, relative};

/// Number of call sites, or callees, printed by default.
const DEFAULT_LIMIT: usize = 100;

/// Maximum number of partially analyzed files that are listed.
const MAX_UNFINISHED_NOTES: usize = 3;

/// Arguments of `quarry callers` and `quarry callees`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// A name, such as open, Index.open or index/open, or a line of the definition: FILE:LINE
    #[arg(value_name = "NAME|FILE:LINE", value_parser = subject_text)]
    subject: String,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of calls, or of called definitions [default: 100]
    #[arg(short = 'k', long = "limit", value_name = "N", value_parser = settings::at_least_one)]
    limit: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A name that has a part, or a position.
fn subject_text(text: &str) -> anyhow::Result<String> {
    if !text.contains(|c: char| !c.is_whitespace() && !matches!(c, '.' | ':' | '#' | '/')) {
        bail!("expected a name, such as open or Index.open, or FILE:LINE, such as src/main.rs:12");
    }
    if is_position(text) {
        position(text)?;
    }
    Ok(text.to_owned())
}

/// Returns true if it can only be `FILE:LINE`: no name ends with a number after a colon.
pub fn is_position(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(_, line)| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()))
}

struct Subject {
    tree: Tree,
    definitions: Vec<Hit>,
    /// True if they were requested by name.
    is_name: bool,
    open_time: Duration,
    opened: Instant,
}

impl Subject {
    /// The subject of a command, and the results of `found` for its definitions.
    fn find<T>(
        args: &CallsArgs,
        found: impl Fn(&Tree, &[Hit]) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        let start = Instant::now();
        let position = match is_position(&args.subject) {
            true => {
                let (file, line) = position(&args.subject)?;
                Some((relative(&file, &args.source.path)?, line))
            }
            false => None,
        };
        let session = args.source.session();
        let find = |tree: &Tree, snapshot: &Snapshot| {
            let opened = Instant::now();
            let definitions = match &position {
                Some((path, line)) => match tree.index.definition_at(path, *line) {
                    Some(hit) => vec![hit],
                    None => bail!(
                        "{}: no function, method or type is indexed there; name a line in one",
                        printable(&args.subject)
                    ),
                },
                None => tree.index.definitions_of(&args.subject, &Filter::default()),
            };
            if definitions.is_empty() && Path::new(&args.subject).is_file() {
                let file = printable(&args.subject);
                bail!("{file} is a file; name a line of a definition in it, such as {file}:12");
            }
            let found = found(tree, &definitions)?;
            let (tree, is_name, open_time) = (snapshot.tree(), position.is_none(), opened - start);
            Ok((Self { tree, definitions, is_name, open_time, opened }, found))
        };
        with_notices(|notices| session.ask(None, notices, find))
    }

    fn question<'a>(&'a self, args: &'a CallsArgs) -> CallsQuestion<'a> {
        CallsQuestion {
            query: &args.subject,
            definitions: &self.definitions,
            limit: args.limit.unwrap_or(DEFAULT_LIMIT),
            took: self.opened.elapsed(),
            open_time: self.open_time,
        }
    }

    fn note_unfinished(&self, files: &[UnfinishedFile]) {
        for file in files.iter().take(MAX_UNFINISHED_NOTES) {
            let path = shown(&self.tree.shown_in(file.root, &file.path));
            output::note(&format!(
                "{path}:{}: calls from here on may be missing: {}",
                file.line, file.reason
            ));
        }
        if files.len() > MAX_UNFINISHED_NOTES {
            let more = counted(files.len() - MAX_UNFINISHED_NOTES, "more file");
            output::note(&format!("calls may be missing in {more}; --json lists all"));
        }
    }
}

/// Reports that nothing has the name, and the names that may have been meant.
pub fn note_unknown(tree: &Tree, name: &str) {
    let names: Vec<String> = tree.index.units(&Filter::default()).map(|hit| hit.name).collect();
    let own = names.iter().map(|name| name.rsplit('.').next().unwrap_or(name)).filter(|own| !own.is_empty());
    let last = name.rsplit(['.', ':', '#', '/']).next().unwrap_or(name);
    let meant = did_you_mean(last, own).map_or_else(String::new, |question| format!("; {question}"));
    output::note(&printable(&format!("nothing in the tree defines `{name}`{meant}")));
}

pub fn callers(args: &CallsArgs) -> anyhow::Result<ExitCode> {
    // The settings narrow the tree as a whole.
    let filter = Settings::defaults().filter(&args.filter.narrowing()?, &args.source.path)?;
    let (subject, calls) = Subject::find(args, |tree, definitions| {
        Ok(tree.index.callers(&args.subject, definitions, &filter)?)
    })?;
    let sites = &calls.found;
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let shown = &sites[..limit.min(sites.len())];
    if subject.definitions.is_empty() && !args.json {
        note_unknown(&subject.tree, &args.subject);
    }
    if args.json {
        output::print_json(&quarry_session::callers(&subject.tree, &subject.question(args), &calls))?;
    } else {
        let mut text = heading(&subject, &args.subject);
        text.push_str(&sites_by_file(&subject.tree, shown));
        if shown.len() < sites.len() {
            let _ = writeln!(text, "\n{} more; -k {} shows all", sites.len() - shown.len(), sites.len());
        }
        output::print(&text)?;
        if let Some(note) = certainty_note(&calls, &printable(&args.subject)) {
            output::note(&note);
        }
        subject.note_unfinished(&calls.unfinished);
    }
    Ok(if sites.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

pub fn callees(args: &CallsArgs) -> anyhow::Result<ExitCode> {
    let (subject, callees) = Subject::find(args, |tree, definitions| {
        let callees = definitions.iter().map(|hit| tree.index.callees(hit));
        Ok(callees.collect::<Result<Vec<_>, _>>()?)
    })?;
    let found: Vec<(&Hit, Calls<Callee>)> = subject.definitions.iter().zip(callees).collect();
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let is_empty = found.iter().all(|(_, callees)| callees.found.is_empty());
    if subject.definitions.is_empty() && !args.json {
        note_unknown(&subject.tree, &args.subject);
    }
    if args.json {
        let callees: Vec<Calls<Callee>> = found.into_iter().map(|(_, callees)| callees).collect();
        output::print_json(&quarry_session::callees(&subject.tree, &subject.question(args), &callees))?;
    } else {
        let mut text = if found.len() > 1 { heading(&subject, &args.subject) } else { String::new() };
        for (hit, Calls { found: callees, .. }) in &found {
            let _ = writeln!(text, "{} calls", definition_line(&subject.tree, hit));
            text.push_str(&callees_by_file(&subject.tree, &callees[..limit.min(callees.len())]));
            if callees.len() > limit {
                let _ = writeln!(text, "  {} more; -k {} shows all", callees.len() - limit, callees.len());
            }
            text.push('\n');
        }
        output::print(text.trim_end_matches('\n'))?;
        if !text.is_empty() {
            output::print("\n")?;
        }
        if is_empty && !subject.definitions.is_empty() {
            output::note(&format!("`{}` calls nothing", printable(&args.subject)));
        }
        let mut unfinished: Vec<UnfinishedFile> =
            found.into_iter().flat_map(|(_, callees)| callees.unfinished).collect();
        unfinished.dedup();
        subject.note_unfinished(&unfinished);
    }
    Ok(if is_empty { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn certainty_note(calls: &Calls<CallSite>, name: &str) -> Option<String> {
    let (n_found, n_by_name) = (calls.found.len(), calls.n_by_name());
    let elsewhere = match calls.n_elsewhere {
        0 => String::new(),
        n => format!("; imports or scopes give {} of that name another target", counted(n, "call")),
    };
    match (n_found, n_by_name) {
        (0, _) => Some(format!("no calls of `{name}` found{elsewhere}")),
        (_, 0) => None,
        _ => Some(format!(
            "{n_by_name} of {n_found} matched by name only: nothing determines what they call{elsewhere}"
        )),
    }
}

/// The definitions with the name, if there are several.
fn heading(subject: &Subject, name: &str) -> String {
    if !subject.is_name || subject.definitions.len() < 2 {
        return String::new();
    }
    let mut text = format!(
        "{} named `{}`; FILE:LINE chooses one:\n",
        counted(subject.definitions.len(), "definition"),
        printable(name)
    );
    for hit in &subject.definitions {
        let _ = writeln!(text, "  {}", definition_line(&subject.tree, hit));
    }
    text.push('\n');
    text
}

fn definition_line(tree: &Tree, hit: &Hit) -> String {
    let position = format!("{}:{}", shown(&tree.shown(hit)), hit.start_line);
    format!("{position}  {} {}", kind_name(hit.kind), printable(&hit.name))
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn sites_by_file(tree: &Tree, sites: &[CallSite]) -> String {
    let mut text = String::new();
    let (mut file, mut caller) = (None, String::new());
    for site in sites {
        let this = (site.root, &site.path);
        if file != Some(this) {
            let space = if file.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{space}{}", shown(&tree.shown_in(site.root, &site.path)));
            (file, caller) = (Some(this), String::new());
        }
        let what = site.caller.as_ref().filter(|hit| !hit.name.is_empty());
        let what = what.map_or_else(
            || "outside of definitions".to_owned(),
            |hit| format!("{} {}", kind_name(hit.kind), printable(&hit.name)),
        );
        // Several units have the same heading: the parts of a long definition, and those between definitions.
        if caller != what {
            let _ = writeln!(text, "  {what}");
            caller = what;
        }
        let _ = writeln!(text, "{:>8} │ {}{}", site.line, printable(&site.text), doubt(tree, site));
    }
    text
}

fn doubt(tree: &Tree, site: &CallSite) -> String {
    match (site.is_certain, &site.definitions[..]) {
        (true, _) | (_, []) => String::new(),
        (false, [_]) => "  (matched by name only)".to_owned(),
        (false, units) => {
            let positions: Vec<String> = units.iter().map(|unit| position_of(tree, *unit)).collect();
            format!("  (matched by name only: any of {}: {})", units.len(), first_of(&positions))
        }
    }
}

fn first_of(texts: &[String]) -> String {
    const N_SHOWN: usize = 3;
    let more = texts.len().saturating_sub(N_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    texts.iter().take(N_SHOWN).cloned().collect::<Vec<_>>().join(", ") + &rest
}

fn position_of(tree: &Tree, unit: usize) -> String {
    let hit = tree.index.unit(unit);
    format!("{}:{}", shown(&tree.shown(&hit)), hit.start_line)
}

/// The callees, grouped by the files that define them; then those matched by name only, and those without
/// a definition in the index.
fn callees_by_file(tree: &Tree, callees: &[Callee]) -> String {
    let mut text = String::new();
    let mut inside: Vec<(Hit, &Callee)> = Vec::new();
    for callee in callees {
        if let Some(first) = callee.definitions.first().filter(|_| callee.is_certain) {
            inside.push((tree.index.unit(*first), callee));
        }
    }
    inside.sort_by(|(a, _), (b, _)| (&a.path, a.start_line).cmp(&(&b.path, b.start_line)));
    let mut file = None;
    for (hit, callee) in inside {
        if file.as_ref() != Some(&hit.path) {
            let _ = writeln!(text, "  {}", shown(&tree.shown(&hit)));
            file = Some(hit.path.clone());
        }
        let more = match callee.definitions.len() {
            1 => String::new(),
            n => format!("  ({n} of that name there)"),
        };
        let _ = writeln!(
            text,
            "{:>8} │ {} {}  on {}{more}",
            hit.start_line,
            kind_name(hit.kind),
            printable(&hit.name),
            lines(&callee.lines)
        );
    }
    let unknown: Vec<&Callee> =
        callees.iter().filter(|callee| !callee.is_certain && !callee.definitions.is_empty()).collect();
    if !unknown.is_empty() {
        text.push_str("  unresolved, matched by name only\n");
    }
    for callee in unknown {
        let positions: Vec<String> = callee.definitions.iter().map(|unit| position_of(tree, *unit)).collect();
        let candidates = match positions.len() {
            1 => format!("perhaps {}", positions[0]),
            n => format!("any of {n}: {}", first_of(&positions)),
        };
        let _ =
            writeln!(text, "    {}  on {}  ({candidates})", printable(&callee.name), lines(&callee.lines));
    }
    let external: Vec<String> = callees
        .iter()
        .filter(|callee| callee.definitions.is_empty())
        .map(|callee| format!("{} ({})", printable(&callee.name), numbers(&callee.lines)))
        .collect();
    if !external.is_empty() {
        let _ = writeln!(text, "  external or local: {}", external.join(", "));
    }
    text
}

fn lines(lines: &[u32]) -> String {
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, numbers(lines))
}

fn numbers(lines: &[u32]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
