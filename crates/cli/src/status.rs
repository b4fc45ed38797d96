//! `quarry status`: the contents of the index of a tree, and whether it is fresh.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use indicatif::{HumanBytes, HumanDuration};
use quarry_index::{Index, IndexStatus, Remembered, Status};
use quarry_related::HistoryView;
use quarry_session::models::{Quality, can_rerank};
use quarry_session::{StatusView, kind_name};
use quarry_text::counted;
use quarry_walk::{WalkChoice, count_by_reason, describe_skipped};
use serde::Serialize;

use crate::index::{SourceArgs, warn_ignored};
use crate::model::bundled_model_directories;
use crate::output::{self, printable};
use crate::precompute;
use crate::settings::Settings;

/// Number of files listed for each reason for leaving files out.
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

/// The printed status.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Printed {
    #[serde(flatten)]
    status: StatusView,
    /// Extent of the history read so far; absent if none was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<HistoryView>,
}

/// Runs `quarry status`: exit code 0 if there is an index, else 1.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.source.path)?;
    let status = Index::status(&args.source.path, &args.source.options(&settings))?;
    let there = status.index.is_some();
    // Joining an empty part would add a slash.
    let searched: PathBuf = status.root.join(&status.part).components().collect();
    let history = quarry_walk::base_directory(&searched).ok().and_then(quarry_related::history_status);
    status.ignored.iter().for_each(|path| warn_ignored(path));
    if args.json {
        output::print_json(&Printed { status: StatusView::new(status), history })?;
    } else {
        output::print(&(text(&status, &settings) + &history.map(history_line).unwrap_or_default()))?;
    }
    Ok(if there { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn history_line(history: HistoryView) -> String {
    let head = history.head.as_deref().map_or("", |head| &head[..10]);
    let problem =
        history.problem.as_ref().map(|problem| format!("; {}", printable(problem))).unwrap_or_default();
    format!("history  {} up to {head}{problem}\n", history.extent())
}

fn text(status: &Status, settings: &Settings) -> String {
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
    let options = remembered_options(&index.remembered);
    if !options.is_empty() {
        let _ = writeln!(text, "options  {options}");
    }
    let part = if status.part.is_empty() {
        String::new()
    } else {
        format!(", {} of them in the part", index.files_in_part)
    };
    let _ =
        writeln!(text, "content  {} in {}{part}", counted(index.units, "unit"), counted(index.files, "file"));
    text.push_str(&re_ranking(index, settings));
    let kinds: Vec<(&str, usize)> =
        index.units_by_kind.iter().map(|(kind, n)| (kind_name(*kind), *n)).collect();
    let languages: Vec<(&str, usize)> =
        index.units_by_language.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let _ = writeln!(text, "kinds    {}", counts(kinds));
    let _ = writeln!(text, "in       {}", counts(languages));
    text.push_str(&left_out(index));
    text
}

/// The units with vectors for re-ranking, and what computes the others.
fn re_ranking(index: &IndexStatus, settings: &Settings) -> String {
    let (units, most) = (counted(index.units, "unit"), settings.background_units());
    let is_auto = settings.get(|layer| layer.quality) == Some(Quality::Auto);
    let others = if !is_auto || !can_rerank(&bundled_model_directories()) {
        String::new()
    } else if index.units > most {
        format!(
            "; more units than background_units = {most}: `quarry index --quality best` computes the others"
        )
    } else if precompute::is_paused() {
        "; the others are computed in the background, but not on battery".to_owned()
    } else {
        "; mcp, lsp, serve and index --watch compute the others in the background".to_owned()
    };
    let line = |n: usize, of: &str| {
        let others = if n < index.units { &others } else { "" };
        format!("re-rank  {n} of {units} have vectors{of}{others}\n")
    };
    match index.precomputed.is_empty() {
        true if others.is_empty() => String::new(),
        true => line(0, ""),
        false => index.precomputed.iter().map(|(model, n)| line(*n, &format!(" of {model}"))).collect(),
    }
}

fn remembered_options(remembered: &Remembered) -> String {
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
    for ((reason, &n), words) in counts.iter().zip(describe_skipped(&counts)) {
        let of_reason = index.skipped.iter().filter(|skipped| skipped.reason.to_string() == *reason);
        let examples: Vec<_> = of_reason.map(|skipped| printable(&skipped.path)).take(N_EXAMPLES).collect();
        let more = if n > examples.len() { ", …" } else { "" };
        let _ = writeln!(text, "left out {words}: {}{more}", examples.join(", "));
    }
    text
}
