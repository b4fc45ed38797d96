//! Shared parts of `search`, `similar` and `pick`: filters of units, and the layout of results on a terminal.

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice};
use quarry_index::RankingWeights;
use quarry_session::settings::{Narrowing, SearchDefaults};
use quarry_session::{Answer, DisplayOptions, Excerpt, KINDS, ResultView, UnitsRequest};
use quarry_source::UnitKind;
use serde::Serialize;

use crate::explain;
use crate::output;
use crate::settings::{self, Settings};
use crate::terminal::{self, HitView, Terminal};

/// Filters for units.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// Only files in this language: a name or an extension, such as rust, c++ or py (can be repeated)
    #[arg(short = 't', long = "lang", alias = "type", value_name = "LANGUAGE")]
    languages: Vec<String>,
    /// Only files that match this glob, relative to the current directory or to PATH; with a leading !, only the others
    /// (can be repeated)
    #[arg(short = 'g', long = "glob", value_name = "GLOB")]
    globs: Vec<String>,
    /// Only units of this kind (can be repeated); `quarry search --kind commit` finds commits of the history instead
    #[arg(long = "kind", value_name = "KIND", value_parser = kind_parser())]
    kinds: Vec<KindFilter>,
    /// Leave out generated code and lock files (otherwise ranked lower)
    #[arg(long)]
    no_generated: bool,
    /// Leave out copies of third-party code, as in vendor and node_modules (otherwise ranked lower)
    #[arg(long)]
    no_vendored: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindFilter {
    Unit(UnitKind),
    /// A commit of the history, instead of units.
    Commit,
}

impl FilterArgs {
    /// The restrictions.
    pub fn narrowing(&self) -> anyhow::Result<Narrowing> {
        let kind = |wanted: &KindFilter| match wanted {
            KindFilter::Unit(kind) => Ok(*kind),
            KindFilter::Commit => bail!("commits are found alone: `quarry search --kind commit QUERY PATH`"),
        };
        Ok(Narrowing {
            languages: self.languages.clone(),
            kinds: self.kinds.iter().map(kind).collect::<anyhow::Result<_>>()?,
            globs: self.globs.clone(),
            no_generated: self.no_generated,
            no_vendored: self.no_vendored,
        })
    }

    /// Returns true if commits are requested, without any other restriction.
    pub fn wants_commits(&self) -> bool {
        self.kinds == [KindFilter::Commit] && self.languages.is_empty() && self.globs.is_empty()
    }
}

fn kind_parser() -> impl TypedValueParser<Value = KindFilter> {
    let commit = PossibleValue::new("commit").hide(true);
    let kinds = KINDS.map(|(name, _)| PossibleValue::new(name)).into_iter().chain([commit]);
    PossibleValuesParser::new(kinds).map(|name| {
        let kind = KINDS.iter().find(|(known, _)| *known == name);
        kind.map_or(KindFilter::Commit, |(_, kind)| KindFilter::Unit(*kind))
    })
}

/// Output options for results.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Maximum number of results [default: 10]
    #[arg(short = 'k', long = "limit", value_name = "N", value_parser = settings::at_least_one)]
    limit: Option<usize>,
    /// Lines to show of each result; 0 for all [default: 3]
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Lines to show after those
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<usize>,
    /// Lines to show before those
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<usize>,
    /// Lines to show before and after those
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<usize>,
    /// Print the paths of files only, each once; with --json or --jsonl, results are files
    #[arg(short = 'l', long, conflicts_with_all = ["explain", "vimgrep"])]
    files_with_matches: bool,
    /// With -l, end each path with a NUL byte instead of a line end, as xargs -0 reads it
    #[arg(short = '0', long, requires = "files_with_matches", conflicts_with_all = ["json", "jsonl"])]
    null: bool,
    /// Print path:line:column:text as editors read it: the declaration of each result, or with -e each line
    #[arg(long, conflicts_with_all = ["json", "jsonl", "explain"])]
    vimgrep: bool,
    /// Print nothing but errors; the exit code says whether something was found
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print one JSON object per line for each result
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    /// Explain the rank of each result; with =numbers, how its score is computed
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "words", value_parser = ["words", "numbers"])]
    explain: Option<String>,
    /// Minimum confidence, 0 to 1; below it the exit code is 1 [default: 0.26; without vectors, none for texts of 30 words or more]
    #[arg(long, value_name = "X", value_parser = settings::share)]
    threshold: Option<f32>,
    /// When to color the output: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    color: Option<ColorChoice>,
}

/// [`OutputArgs`] with the settings of the tree below them.
pub struct Layout {
    /// `None` if neither the command line nor a settings file sets one.
    pub limit: Option<usize>,
    /// Minimum confidence, if one is given.
    threshold: Option<f32>,
    lines: usize,
    /// Lines before and after those.
    context: (usize, usize),
    /// Form of the explanation of each result, if any.
    explain: Option<Explain>,
    /// True if results are files rather than units.
    per_file: bool,
    format: Format,
    terminal: Terminal,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Explain {
    Words,
    Numbers,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Nothing,
    Text,
    /// Paths, each with this after it.
    Paths(char),
    Vimgrep,
    Json,
    JsonLines,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CommitFormat {
    Nothing,
    Text,
    Json,
    JsonLines,
}

impl OutputArgs {
    /// The form of commits.
    pub fn commit_format(&self) -> anyhow::Result<CommitFormat> {
        let contexts = [self.lines, self.after_context, self.before_context, self.context];
        let of_code = [
            (self.files_with_matches, "-l"),
            (self.vimgrep, "--vimgrep"),
            (self.explain.is_some(), "--explain"),
            (self.threshold.is_some(), "--threshold"),
            (contexts.iter().any(Option::is_some), "--lines, -A, -B and -C"),
        ];
        if let Some((_, option)) = of_code.iter().find(|(is_given, _)| *is_given) {
            bail!("commits are not code; omit {option}, or --kind commit");
        }
        Ok(match self {
            Self { quiet: true, .. } => CommitFormat::Nothing,
            Self { json: true, .. } => CommitFormat::Json,
            Self { jsonl: true, .. } => CommitFormat::JsonLines,
            _ => CommitFormat::Text,
        })
    }

    pub fn quieten(&self) {
        if self.quiet {
            output::be_quiet();
        }
    }

    pub fn layout(&self, settings: &Settings) -> Layout {
        let format = match self {
            Self { quiet: true, .. } => Format::Nothing,
            Self { json: true, .. } => Format::Json,
            Self { jsonl: true, .. } => Format::JsonLines,
            Self { files_with_matches: true, null, .. } => Format::Paths(if *null { '\0' } else { '\n' }),
            Self { vimgrep: true, .. } => Format::Vimgrep,
            _ => Format::Text,
        };
        let color = self.color.unwrap_or_else(|| settings::color_choice(settings));
        let SearchDefaults { threshold, lines, context, .. } = settings.search();
        let context = self.context.unwrap_or(context);
        Layout {
            limit: self.limit,
            threshold: self.threshold.or(threshold),
            lines: self.lines.unwrap_or(lines),
            context: (self.before_context.unwrap_or(context), self.after_context.unwrap_or(context)),
            explain: self.explain.as_deref().map(|how| match how {
                "numbers" => Explain::Numbers,
                _ => Explain::Words,
            }),
            per_file: self.files_with_matches,
            format,
            terminal: Terminal::detect(color),
        }
    }
}

impl Layout {
    pub fn shown(&self) -> DisplayOptions {
        let excerpt = match (self.format, self.lines) {
            (Format::Vimgrep, _) => Excerpt::Declaration,
            (_, 0) => Excerpt::All,
            // Text has the declaration in a line of its own.
            (Format::Text, n) => Excerpt::BesideDeclaration(n),
            (_, n) => Excerpt::Best(n),
        };
        let units = self.format != Format::Nothing && !self.per_file;
        DisplayOptions { units, excerpt, context: self.context }
    }

    /// A request for at most `limit` results of a tree that was opened with its filters.
    pub fn request<'a>(&self, limit: usize, ranking: &'a RankingWeights) -> UnitsRequest<'a> {
        let (threshold, explain, per_file) = (self.threshold, self.explain.is_some(), self.per_file);
        UnitsRequest { limit, threshold, explain, per_file, ..UnitsRequest::new(ranking) }
    }
}

pub struct Words<'a> {
    /// If there are none.
    pub nothing: &'a str,
    /// If there are some, but none clearly answers.
    pub unsure: &'a str,
}

/// Prints results in the layout, and messages about them: with the results if a person reads them, on stderr if a
/// program may. `matches` finds what to highlight. The exit code is 0 if something was found, else 1.
pub fn print<Q: Serialize>(
    answer: &Answer<Q>,
    layout: &Layout,
    words: &Words,
    matches: impl Fn(&str) -> Vec<Range<usize>>,
) -> anyhow::Result<ExitCode> {
    let is_unsure = answer.confident == Some(false) && !answer.results.is_empty();
    match layout.format {
        Format::Nothing => {}
        Format::Json => output::print_json(answer)?,
        Format::JsonLines => output::print_json_lines(&answer.results)?,
        Format::Paths(end) => {
            let paths = answer.results.iter().map(|result| (result.shown.as_path(), String::new()));
            output::print_paths(paths, end)?;
        }
        Format::Vimgrep => {
            let positions = answer.results.iter().flat_map(|result| vimgrep(result, &matches));
            output::print_positions(positions)?;
        }
        Format::Text => {
            let heading = if is_unsure { format!("{}:\n\n", words.unsure) } else { String::new() };
            let results = answer.results.iter().map(|result| text(result, layout, &matches));
            output::print_bytes((heading + &results.collect::<Vec<_>>().join("\n")).as_bytes())?;
        }
    }
    match layout.format {
        Format::Nothing => {}
        _ if answer.results.is_empty() => output::note(words.nothing),
        Format::Paths(_) | Format::Vimgrep if is_unsure => output::note(words.unsure),
        _ => {}
    }
    if !matches!(layout.format, Format::Nothing | Format::Json) {
        answer.notes.iter().for_each(|note| output::note(note));
    }
    let found = answer.confident != Some(false) && !answer.results.is_empty();
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(result: &ResultView, layout: &Layout, matches: &impl Fn(&str) -> Vec<Range<usize>>) -> String {
    let Some(unit) = &result.unit else { return String::new() };
    let hit = HitView {
        rank: result.rank,
        path: &result.shown,
        start_line: unit.start_line,
        name: &unit.name,
        // Every line that matches is shown, the declaration too.
        signature: if unit.is_declared || !unit.matches.is_empty() { "" } else { &unit.signature },
        kind: unit.kind,
        blocks: &unit.blocks,
    };
    let explanation = match (layout.explain, &unit.explanation) {
        (Some(Explain::Words), _) if !unit.reasons.is_empty() => {
            unit.reasons.iter().map(|reason| format!("    {reason}\n")).collect()
        }
        (Some(_), Some(explanation)) => explain::tree(explanation),
        _ => String::new(),
    };
    terminal::format_hit(&hit, layout.terminal, matches) + &explanation
}

/// A path, and `:line:column:text` after it, for the declaration or each line that matches.
fn vimgrep<'a>(
    result: &'a ResultView,
    matches: &impl Fn(&str) -> Vec<Range<usize>>,
) -> Vec<(&'a Path, String)> {
    let Some(unit) = &result.unit else { return Vec::new() };
    let lines = unit.blocks.iter().flat_map(|block| (block.first_index..).zip(&block.lines));
    let is_match =
        |index: usize| unit.matches.is_empty() || unit.matches.iter().any(|found| found.index == index);
    lines
        .filter(|(index, _)| is_match(*index))
        .map(|(_, (line, text))| {
            let indent = text.len() - text.trim_start().len();
            let column = matches(text).first().map_or(indent, |range| range.start) + 1;
            (result.shown.as_path(), format!(":{line}:{column}:{text}"))
        })
        .collect()
}
