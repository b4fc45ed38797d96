//! `quarry status`: what the index of a tree holds, and whether it is fresh.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use indicatif::{HumanBytes, HumanDuration};
use quarry_answer::{StatusView, kind_name};
use quarry_index::{Index, IndexStatus, Remembered, Status};
use quarry_text::counted;
use quarry_walk::{WalkChoice, count_by_reason, skipped_in_words};

use crate::index::{SourceArgs, tell_ignored};
use crate::output::{self, printable};
use crate::settings::Settings;

/// Files that are named for each reason why files were left out.
const N_EXAMPLES: usize = 3;

/// Arguments of `quarry status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Print one JSON object, with all skipped files
    #[arg(long)]
    json: bool,
}

/// Runs `quarry status`: exit code 0 if there is an index, else 1.
///
/// # Errors
/// When the tree cannot be read.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.source.path)?;
    let status = Index::status(&args.source.path, &args.source.options(&settings))?;
    let there = status.index.is_some();
    status.ignored.iter().for_each(|path| tell_ignored(path));
    if args.json {
        output::print_json(&StatusView::of(status))?;
    } else {
        output::print(&text(&status))?;
    }
    Ok(if there { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(status: &Status) -> String {
    let [root, directory] = [&status.root, &status.directory].map(|path| path.to_string_lossy());
    let mut text = format!("tree     {}\nindex    {}\n", printable(&root), printable(&directory));
    if !status.part.is_empty() {
        let _ = writeln!(text, "part     {}", status.part);
    }
    let _ = match &status.stale {
        None => writeln!(text, "state    fresh"),
        Some(reason) => writeln!(text, "state    {reason}; the next search or `quarry index` updates it"),
    };
    let Some(index) = &status.index else { return text };
    let age = SystemTime::now().duration_since(index.made).unwrap_or_default();
    let _ = writeln!(text, "built    {} ago, {}", HumanDuration(age), HumanBytes(index.bytes));
    let models =
        if index.models.is_empty() { "none: words only".to_owned() } else { index.models.join(", ") };
    let _ = writeln!(text, "model    {models}");
    let told = told(&index.remembered);
    if !told.is_empty() {
        let _ = writeln!(text, "options  {told}");
    }
    let part = if status.part.is_empty() {
        String::new()
    } else {
        format!(", {} of them in the part", index.files_in_part)
    };
    let _ =
        writeln!(text, "content  {} in {}{part}", counted(index.units, "unit"), counted(index.files, "file"));
    let kinds: Vec<(&str, usize)> =
        index.units_by_kind.iter().map(|(kind, n)| (kind_name(*kind), *n)).collect();
    let languages: Vec<(&str, usize)> =
        index.units_by_language.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let _ = writeln!(text, "kinds    {}", counts(kinds));
    let _ = writeln!(text, "in       {}", counts(languages));
    text.push_str(&left_out(index));
    text
}

/// The options with which an index was made.
fn told(remembered: &Remembered) -> String {
    let WalkChoice { max_bytes, hidden, ignored } = remembered.walk;
    let or = |choice: Option<bool>, yes: &str, no: &str| {
        choice.map(|choice| if choice { yes.to_owned() } else { no.to_owned() })
    };
    let options = [
        remembered.model.as_ref().map(|model| format!("--model {model}")),
        max_bytes.map(|max_bytes| format!("--max-bytes {max_bytes}")),
        or(hidden, "--hidden", "--no-hidden"),
        or(ignored, "--no-ignore", "--ignore"),
    ];
    options.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Names with their counts, the largest first, without those of zero.
fn counts(mut counts: Vec<(&str, usize)>) -> String {
    counts.retain(|(_, n)| *n > 0);
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

fn left_out(index: &IndexStatus) -> String {
    let mut text = String::new();
    let counts = count_by_reason(&index.skipped);
    for ((reason, &n), words) in counts.iter().zip(skipped_in_words(&counts)) {
        let of_reason = index.skipped.iter().filter(|skipped| skipped.reason.to_string() == *reason);
        let examples: Vec<_> = of_reason.map(|skipped| printable(&skipped.path)).take(N_EXAMPLES).collect();
        let more = if n > examples.len() { ", …" } else { "" };
        let _ = writeln!(text, "left out {words}: {}{more}", examples.join(", "));
    }
    text
}
