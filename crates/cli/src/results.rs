//! What `search`, `similar` and `pick` share: which units are asked for, and how results look.

use std::collections::HashSet;
use std::iter;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice};
use quarry_corpus::walk::FileFlags;
use quarry_index::{Explanation, Filter, Hit, Index, ScoreParts, snippet};
use quarry_source::UnitKind;
use serde::Serialize;

use crate::explain;
use crate::lines::LineMatch;
use crate::output::{self, Block, HitView, Terminal};
use crate::settings::{self, Settings};

/// Units that are looked at for each file where files are asked for.
const UNITS_PER_FILE: usize = 20;

/// Names of the kinds of units.
const KINDS: [(&str, UnitKind); 5] = [
    ("function", UnitKind::Function),
    ("method", UnitKind::Method),
    ("type", UnitKind::Type),
    ("module", UnitKind::Module),
    ("section", UnitKind::Section),
];

/// Which units are asked for.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only files in this language: a name or an extension, such as rust, c++ or py (can be repeated)
    #[arg(short = 't', long = "lang", alias = "type", value_name = "LANGUAGE")]
    languages: Vec<String>,
    /// Only files that this glob matches, or with ! at its start all others (can be repeated)
    #[arg(short = 'g', long = "glob", value_name = "GLOB")]
    globs: Vec<String>,
    /// Only units of this kind (can be repeated)
    #[arg(long = "kind", value_name = "KIND", value_parser = kind_parser())]
    kinds: Vec<UnitKind>,
    /// No code that a program wrote, lock files included (else it stands lower)
    #[arg(long)]
    no_generated: bool,
    /// No copies of others' code, as in vendor and node_modules (else it stands lower)
    #[arg(long)]
    no_vendored: bool,
}

impl FilterArgs {
    /// The filter; globs of the settings come before those of the command line.
    ///
    /// # Errors
    /// When a language is unknown or a glob is malformed.
    pub fn filter(&self, settings: &Settings) -> anyhow::Result<Filter> {
        let mut globs = settings.get(|layer| layer.globs.clone()).unwrap_or_default();
        globs.extend(self.globs.iter().cloned());
        let is_out = |flag, setting: Option<bool>| flag || setting == Some(false);
        let mut without = FileFlags::empty();
        let is_generated_out = is_out(self.no_generated, settings.get(|layer| layer.generated));
        without.set(FileFlags::GENERATED, is_generated_out);
        without.set(FileFlags::VENDORED, is_out(self.no_vendored, settings.get(|layer| layer.vendored)));
        Ok(Filter::new(&self.languages, &self.kinds, &globs)?.without(without))
    }
}

fn kind_parser() -> impl TypedValueParser<Value = UnitKind> {
    PossibleValuesParser::new(KINDS.map(|(name, _)| name)).map(|name| {
        KINDS.iter().find(|(known, _)| *known == name).map_or(UnitKind::Module, |(_, kind)| *kind)
    })
}

/// The word for a kind.
pub fn kind_name(kind: UnitKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name)
}

/// How results are shown.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Greatest number of results [default: 10]
    #[arg(short = 'k', long = "limit", value_name = "N")]
    limit: Option<usize>,
    /// Lines to show of each result; 0 for all [default: 3]
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Lines to show above and below those
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<usize>,
    /// Print the paths of files only, each once
    #[arg(short = 'l', long, conflicts_with_all = ["json", "jsonl", "explain"])]
    files_with_matches: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print one JSON object a line for each result
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    /// Show what each score is made of
    #[arg(long)]
    explain: bool,
    /// Least confidence, 0 to 1, of the best result; below it the exit code is 1 [default: the model's]
    #[arg(long, value_name = "X", value_parser = settings::share)]
    threshold: Option<f32>,
    /// When to colour the output: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    color: Option<ColorChoice>,
}

/// [`OutputArgs`] with the settings of the tree below them.
pub struct Layout {
    /// None where neither the command line nor a settings file says one.
    pub limit: Option<usize>,
    /// Least confidence.
    pub threshold: f32,
    lines: usize,
    context: usize,
    /// Whether each result is to have an explanation.
    pub explain: bool,
    format: Format,
    terminal: Terminal,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Paths,
    Json,
    JsonLines,
}

impl OutputArgs {
    /// What holds in a tree.
    pub fn layout(&self, settings: &Settings) -> Layout {
        let format = match self {
            Self { json: true, .. } => Format::Json,
            Self { jsonl: true, .. } => Format::JsonLines,
            Self { files_with_matches: true, .. } => Format::Paths,
            _ => Format::Text,
        };
        let color = self.color.or_else(|| settings.get(|layer| layer.color)).unwrap_or_default();
        Layout {
            limit: self.limit,
            threshold: self.threshold.or_else(|| settings.get(|layer| layer.threshold)).unwrap_or_default(),
            lines: self.lines.or_else(|| settings.get(|layer| layer.lines)).unwrap_or_default(),
            context: self.context.or_else(|| settings.get(|layer| layer.context)).unwrap_or_default(),
            format,
            explain: self.explain,
            terminal: Terminal::of_stdout(color),
        }
    }
}

impl Layout {
    /// Units to ask the index for, so that `limit` results can be shown.
    pub fn n_units(&self, limit: usize) -> usize {
        if self.format == Format::Paths { limit.saturating_mul(UNITS_PER_FILE) } else { limit }
    }
}

/// What was found for a question; `question` holds the fields that say what was asked.
#[derive(Serialize)]
pub struct Answer<Q> {
    #[serde(flatten)]
    pub question: Q,
    pub results: Vec<ResultView>,
    pub confident: bool,
    pub confidence: f32,
    /// Of the search, without opening or building the index.
    pub took_ms: f64,
    /// Of opening the index, with building it where that was needed.
    pub open_ms: f64,
}

/// A result as programs read it.
#[derive(Serialize)]
pub struct ResultView {
    pub rank: usize,
    pub score: f32,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub name: String,
    kind: &'static str,
    language: String,
    signature: String,
    snippet: String,
    /// Line of the file that `snippet` starts on, 1-based.
    snippet_line: u32,
    /// With -e, the lines that match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    matches: Vec<LineMatch>,
    parts: ScoreParts,
    /// With --explain, how the score comes about.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
    #[serde(skip)]
    blocks: Vec<Block>,
    #[serde(skip)]
    file: PathBuf,
}

impl ResultView {
    /// With how its score comes about.
    pub fn explained(self, explanation: Option<Explanation>) -> Self {
        Self { explanation, ..self }
    }

    /// Of a hit and its rank: the lines that hold most of `terms`, or the lines of `matches` where there are any.
    pub fn new(
        index: &Index,
        (hit, rank): (Hit, usize),
        terms: &[String],
        matches: Vec<LineMatch>,
        layout: &Layout,
    ) -> Self {
        let file = index.absolute_path(&hit.path);
        // A file that has gone since the index was opened has no lines to show.
        let source = index.source(&hit).unwrap_or_default();
        let first = hit.start_line as usize;
        let runs = match (matches.is_empty(), layout.lines) {
            (false, _) => runs(matches.iter().map(|line| line.line as usize), layout.context),
            (true, 0) => iter::once(first..first + source.lines().count()).collect(),
            (true, n) => {
                let best = snippet::best_lines(&source, terms, n);
                let start = (first + best.start).saturating_sub(layout.context).max(1);
                iter::once(start..first + best.end + layout.context).collect()
            }
        };
        // Context reaches beyond the unit.
        let whole = index.text(&hit.path).unwrap_or_default();
        let text: Vec<&str> = whole.lines().collect();
        let blocks: Vec<Block> = runs.into_iter().filter_map(|run| block(&text, &run)).collect();
        Self {
            rank,
            score: hit.score,
            start_line: hit.start_line,
            end_line: hit.end_line,
            kind: kind_name(hit.kind),
            snippet: blocks.first().map(|block| block.lines.join("\n")).unwrap_or_default(),
            snippet_line: blocks.first().map_or(hit.start_line, |block| block.first_line),
            path: hit.path,
            name: hit.name,
            language: hit.language,
            signature: hit.signature,
            matches,
            parts: hit.parts,
            explanation: None,
            blocks,
            file,
        }
    }
}

/// Numbers of lines, ascending, with `context` lines around them, as ranges that do not touch.
fn runs(lines: impl Iterator<Item = usize>, context: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for line in lines {
        let (start, end) = (line.saturating_sub(context).max(1), line + context + 1);
        match runs.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

/// Lines of a file, counted from 1; none where it is shorter.
fn block(text: &[&str], lines: &Range<usize>) -> Option<Block> {
    let taken = text.get(lines.start - 1..lines.end.min(text.len() + 1) - 1)?;
    let first_line = u32::try_from(lines.start).ok()?;
    (!taken.is_empty())
        .then(|| Block { first_line, lines: taken.iter().map(|line| (*line).to_owned()).collect() })
}

/// Prints results as the layout says, and `nothing` to stderr where there are none; `matches` finds what to highlight. The exit code is
/// 0 where something was found, else 1.
///
/// # Errors
/// When stdout cannot be written.
pub fn print<Q: Serialize>(
    answer: &Answer<Q>,
    layout: &Layout,
    nothing: &str,
    matches: impl Fn(&str) -> Vec<Range<usize>>,
) -> anyhow::Result<ExitCode> {
    match layout.format {
        Format::Json => output::print_json(answer)?,
        Format::JsonLines => output::print_json_lines(&answer.results)?,
        Format::Paths => output::print(&paths(answer))?,
        Format::Text => {
            let format = |result: &ResultView| {
                let hit = HitView {
                    rank: result.rank,
                    path: &result.path,
                    file: &result.file,
                    start_line: result.start_line,
                    name: &result.name,
                    // Every line that matches is shown, the declaration too.
                    signature: if result.matches.is_empty() { &result.signature } else { "" },
                    kind: result.kind,
                    score: result.score,
                    blocks: &result.blocks,
                };
                let mut text = output::format_hit(&hit, layout.terminal, &matches);
                if let Some(explanation) = &result.explanation {
                    text.push_str(&explain::tree(explanation));
                }
                text
            };
            output::print(&answer.results.iter().map(format).collect::<Vec<_>>().join("\n"))?;
        }
    }
    if answer.results.is_empty() {
        output::note(nothing);
    } else if !answer.confident {
        output::note("nothing matches well; try other words, or take these as hints");
    }
    let found = answer.confident && !answer.results.is_empty();
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn paths<Q>(answer: &Answer<Q>) -> String {
    answer.results.iter().map(|result| format!("{}\n", result.path)).collect()
}

/// The first `limit` results; where paths are printed, the first of each file.
pub fn ranked(results: impl Iterator<Item = Hit>, limit: usize, layout: &Layout) -> Vec<Hit> {
    let mut seen = HashSet::new();
    results
        .filter(|hit| layout.format != Format::Paths || seen.insert(hit.path.clone()))
        .take(limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_near_each_other_are_one_run() {
        assert_eq!(runs([3, 4, 9].into_iter(), 0), [3..5, 9..10]);
        assert_eq!(runs([1, 4, 9].into_iter(), 1), [1..6, 8..11]);
        assert_eq!(runs(iter::empty(), 1), [0..0; 0]);
    }

    #[test]
    fn a_block_ends_with_its_file() {
        let text = ["a", "b", "c"];
        assert_eq!(
            block(&text, &(2..9)).map(|block| block.lines),
            Some(vec!["b".to_owned(), "c".to_owned()])
        );
        assert!(block(&text, &(4..9)).is_none());
        assert!(block(&text, &(7..9)).is_none());
    }
}
