//! `quarry callers` and `quarry callees`: who calls a definition, and what it calls.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use quarry_answer::{CallsQuestion, Tree, kind_name};
use quarry_index::{CallSite, Callee, Hit, Update};
use quarry_text::{counted, nearest};

use crate::index::SourceArgs;
use crate::output::{self, printable};
use crate::results::FilterArgs;
use crate::settings::{self, Settings};
use crate::similar::{position, relative};

/// Call sites, or callees, that are printed by default.
const DEFAULT_LIMIT: usize = 100;
/// Names that are suggested for one that nothing has.
const N_SUGGESTIONS: usize = 3;

/// Arguments of `quarry callers` and `quarry callees`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// A name, such as open, Index.open or index/open, or a line of the definition: FILE:LINE
    #[arg(value_name = "NAME|FILE:LINE")]
    subject: String,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of calls, or of what is called [default: 100]
    #[arg(short = 'k', long = "limit", value_name = "N", value_parser = settings::at_least_one)]
    limit: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was asked for.
struct Subject {
    tree: Tree,
    filter: quarry_index::Filter,
    definitions: Vec<Hit>,
    /// Whether it was asked for by its name.
    is_name: bool,
    open_time: Duration,
    opened: Instant,
}

impl Subject {
    fn find(args: &CallsArgs) -> anyhow::Result<Self> {
        let start = Instant::now();
        let settings = Settings::load(&args.source.path)?;
        let filter = args.filter.filter(&settings, &args.source.path)?;
        let place = position(&args.subject).ok().filter(|(file, _)| file.is_file());
        let place = match &place {
            Some((file, line)) => Some((relative(file, &args.source.path)?, *line)),
            None => None,
        };
        let opened = args.source.open(&settings, Update::IfPossible)?;
        let tree = Tree::new(std::slice::from_ref(&args.source.path), opened.index)?;
        let opened = Instant::now();
        let is_name = place.is_none();
        let definitions = match place {
            Some((path, line)) => match tree.index.definition_at(&path, line) {
                Some(hit) => vec![hit],
                None => bail!(
                    "{}: no function, method or type is indexed there; name a line in one",
                    args.subject
                ),
            },
            None => tree.index.definitions_of(&args.subject, &quarry_index::Filter::default()),
        };
        let open_time = opened - start;
        Ok(Self { tree, filter, definitions, is_name, open_time, opened })
    }

    /// What programs are told of it.
    fn question<'a>(&'a self, args: &'a CallsArgs) -> CallsQuestion<'a> {
        CallsQuestion {
            query: &args.subject,
            definitions: &self.definitions,
            limit: args.limit.unwrap_or(DEFAULT_LIMIT),
            took: self.opened.elapsed(),
            open_time: self.open_time,
        }
    }

    /// Says that nothing has the name, and what may have been meant.
    fn note_unknown(&self, name: &str) {
        let names: Vec<String> =
            self.tree.index.units(&quarry_index::Filter::default()).map(|hit| hit.name).collect();
        let own =
            names.iter().map(|name| name.rsplit('.').next().unwrap_or(name)).filter(|own| !own.is_empty());
        let near = nearest(name, own, N_SUGGESTIONS);
        let near = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
        output::note(&format!("nothing in the tree defines `{name}`{near}"));
    }
}

/// Runs `quarry callers`.
///
/// # Errors
/// When the tree cannot be indexed or nothing is defined at the place.
pub fn callers(args: &CallsArgs) -> anyhow::Result<ExitCode> {
    let subject = Subject::find(args)?;
    let sites = subject.tree.index.callers(&args.subject, &subject.definitions, &subject.filter)?;
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let shown = &sites[..limit.min(sites.len())];
    if subject.definitions.is_empty() && !args.json {
        subject.note_unknown(&args.subject);
    }
    if args.json {
        output::print_json(&quarry_answer::callers(&subject.tree, &subject.question(args), &sites))?;
    } else {
        let mut text = heading(&subject, &args.subject);
        text.push_str(&sites_by_file(&subject.tree, shown));
        if shown.len() < sites.len() {
            let _ = writeln!(text, "\n{} more; -k {} shows all", sites.len() - shown.len(), sites.len());
        }
        output::print(&text)?;
        if sites.is_empty() {
            output::note(&format!("no call of `{}` found", args.subject));
        }
    }
    Ok(if sites.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Runs `quarry callees`.
///
/// # Errors
/// When the tree cannot be indexed, nothing is defined at the place, or a file cannot be read.
pub fn callees(args: &CallsArgs) -> anyhow::Result<ExitCode> {
    let subject = Subject::find(args)?;
    let mut found: Vec<(&Hit, Vec<Callee>)> = Vec::new();
    for hit in &subject.definitions {
        found.push((hit, subject.tree.index.callees(hit)?));
    }
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let is_empty = found.iter().all(|(_, callees)| callees.is_empty());
    if subject.definitions.is_empty() && !args.json {
        subject.note_unknown(&args.subject);
    }
    if args.json {
        let callees: Vec<Vec<Callee>> = found.into_iter().map(|(_, callees)| callees).collect();
        output::print_json(&quarry_answer::callees(&subject.tree, &subject.question(args), &callees))?;
    } else {
        let mut text = if found.len() > 1 { heading(&subject, &args.subject) } else { String::new() };
        for (hit, callees) in &found {
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
            output::note(&format!("`{}` calls nothing", args.subject));
        }
    }
    Ok(if is_empty { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Which definitions have the name, where there are several.
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
    let place = format!("{}:{}", shown(&tree.shown(hit)), hit.start_line);
    format!("{place}  {} {}", kind_name(hit.kind), printable(&hit.name))
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// Calls below their files, and below what they are in.
fn sites_by_file(tree: &Tree, sites: &[CallSite]) -> String {
    let mut text = String::new();
    let (mut file, mut caller) = (None, None);
    for site in sites {
        let this = (site.root, &site.path);
        if file != Some(this) {
            let space = if file.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{space}{}", shown(&tree.shown_in(site.root, &site.path)));
            (file, caller) = (Some(this), None);
        }
        let unit = site.caller.as_ref().map(|hit| hit.unit);
        if caller != Some(unit) {
            caller = Some(unit);
            let what = site.caller.as_ref().filter(|hit| !hit.name.is_empty());
            let what = what.map(|hit| format!("{} {}", kind_name(hit.kind), printable(&hit.name)));
            let _ = writeln!(text, "  {}", what.as_deref().unwrap_or("outside of definitions"));
        }
        let _ = writeln!(text, "{:>8} │ {}{}", site.line, printable(&site.text), doubt(tree, site));
    }
    text
}

/// What is not sure of a call.
fn doubt(tree: &Tree, site: &CallSite) -> String {
    match (site.is_certain, site.definitions.as_slice()) {
        (true, _) | (_, []) => String::new(),
        (false, [_]) => "  (by its name alone)".to_owned(),
        (false, units) => {
            let places: Vec<String> = units.iter().map(|unit| place_of(tree, *unit)).collect();
            format!("  (could be any of {}: {})", units.len(), first_of(&places))
        }
    }
}

/// Few of many.
fn first_of(texts: &[String]) -> String {
    const N_SHOWN: usize = 3;
    let more = texts.len().saturating_sub(N_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    texts.iter().take(N_SHOWN).cloned().collect::<Vec<_>>().join(", ") + &rest
}

fn place_of(tree: &Tree, unit: usize) -> String {
    let hit = tree.index.unit(unit);
    format!("{}:{}", shown(&tree.shown(&hit)), hit.start_line)
}

/// What is called, below the files that define it; what none does comes last.
fn callees_by_file(tree: &Tree, callees: &[Callee]) -> String {
    let mut text = String::new();
    let mut inside: Vec<(Hit, &Callee)> = Vec::new();
    for callee in callees {
        if let Some(first) = callee.definitions.first() {
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
        let more = match callee.definitions.as_slice() {
            [_] if callee.is_certain => String::new(),
            [_] => "  (by its name alone)".to_owned(),
            units if callee.is_certain => format!("  ({} of that name there)", units.len()),
            units => {
                let places: Vec<String> = units[1..].iter().map(|unit| place_of(tree, *unit)).collect();
                format!("  (or any of {} others: {})", places.len(), first_of(&places))
            }
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
    let external: Vec<String> = callees
        .iter()
        .filter(|callee| callee.definitions.is_empty())
        .map(|callee| format!("{} ({})", printable(&callee.name), numbers(&callee.lines)))
        .collect();
    if !external.is_empty() {
        let _ = writeln!(text, "  external: {}", external.join(", "));
    }
    text
}

fn lines(lines: &[u32]) -> String {
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, numbers(lines))
}

fn numbers(lines: &[u32]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
