//! The parts of an answer: results, and the lines of source that they show.

use std::ops::Range;
use std::path::PathBuf;

use quarry_index::{Explanation, Hit, ScoreParts, snippet};
use quarry_source::{SourceText, UnitKind};
use serde::Serialize;

use crate::Tree;
use crate::preview::preview_lines;

/// Names of the kinds of units.
pub const KINDS: [(&str, UnitKind); 5] = [
    ("function", UnitKind::Function),
    ("method", UnitKind::Method),
    ("type", UnitKind::Type),
    ("module", UnitKind::Module),
    ("section", UnitKind::Section),
];

/// The word for a kind.
pub fn kind_name(kind: UnitKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name)
}

/// Lines of a unit that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excerpt {
    /// All.
    All,
    /// The first line of the declaration; without a declaration, the most relevant one.
    Declaration,
    /// This many of the most relevant ones.
    Best(usize),
    /// This many of the most relevant ones, besides the declaration.
    BesideDeclaration(usize),
    /// About this many, which need not be adjacent: the declaration and the most relevant lines, with those around
    /// them.
    Preview(usize),
}

/// Parts of results that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisplayOptions {
    /// True if results are units; otherwise they are files.
    pub units: bool,
    /// The lines.
    pub excerpt: Excerpt,
    /// Lines before and after those.
    pub context: (usize, usize),
}

/// The roots of an answer: that of a single path, or those of several.
pub fn roots(tree: &Tree, n_paths: usize) -> (Option<String>, Vec<String>) {
    let mut roots = tree.roots();
    if n_paths == 1 { (roots.pop(), roots) } else { (None, roots) }
}

/// Searched files that have changed since the tree was indexed. Servers answer so while they update an index.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ChangedFiles"))]
pub struct BehindView {
    /// Number of files.
    pub total: usize,
    /// The first 20.
    pub files: Vec<ChangedFile>,
}

/// A file that was changed, added or removed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedFile {
    /// Absolute path that `path` is relative to.
    pub root: String,
    /// The file, relative to `root`, `/` between its parts.
    pub path: String,
}

impl BehindView {
    /// The changed files of a tree; none if its index is up to date.
    pub fn for_tree(tree: &Tree) -> Option<Self> {
        let behind = tree.changed_files()?;
        let file =
            |(root, path): &(usize, String)| ChangedFile { root: tree.root(*root), path: path.clone() };
        Some(Self { total: behind.total, files: behind.files.iter().map(file).collect() })
    }
}

/// The results of a query, with the fields of the query.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer<Q> {
    /// The question.
    #[serde(flatten)]
    pub question: Q,
    /// Absolute path that the paths of the results are relative to; null if several paths were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The searched paths if there are several, each once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roots: Vec<String>,
    /// Best first.
    pub results: Vec<ResultView>,
    /// True if the confidence reaches the threshold; null for a long text searched by words alone without a given
    /// threshold.
    pub confident: Option<bool>,
    /// Confidence that a result answers, 0 to 1.
    pub confidence: f32,
    /// The quality that ranked the results of a query: `best` if a re-ranker did, else `fast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<&'static str>,
    /// Notes on the answer: how the query was read, and what was left out.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The files that have changed since, while a server updates the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindView>,
    /// Milliseconds of the search, without opening or building the index.
    pub took_ms: f64,
    /// Milliseconds of opening the index, including building it if needed.
    pub open_ms: f64,
}

/// The end of an [`Answer`] whose results are sent one by one.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerEnd<Q> {
    /// The question.
    #[serde(flatten)]
    pub question: Q,
    /// Absolute path that the paths of the results are relative to; null if several paths were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The searched paths if there are several, each once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roots: Vec<String>,
    /// Number of the results.
    pub total: usize,
    /// True if the confidence reaches the threshold; null for a long text searched by words alone without a given
    /// threshold.
    pub confident: Option<bool>,
    /// Confidence that a result answers, 0 to 1.
    pub confidence: f32,
    /// The quality that ranked the results of a query: `best` if a re-ranker did, else `fast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<&'static str>,
    /// Notes on the answer: how the query was read, and what was left out.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The files that have changed since, while a server updates the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindView>,
    /// Milliseconds of the search, without opening or building the index.
    pub took_ms: f64,
    /// Milliseconds of opening the index, including building it if needed.
    pub open_ms: f64,
}

impl<Q> Answer<Q> {
    /// Splits it into the results and everything else.
    #[must_use]
    pub fn into_parts(self) -> (Vec<ResultView>, AnswerEnd<Q>) {
        let Self {
            question,
            root,
            roots,
            results,
            confident,
            confidence,
            quality,
            notes,
            behind,
            took_ms,
            open_ms,
        } = self;
        let total = results.len();
        let end = AnswerEnd {
            question,
            root,
            roots,
            total,
            confident,
            confidence,
            quality,
            notes,
            behind,
            took_ms,
            open_ms,
        };
        (results, end)
    }
}

/// A search result.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultView {
    /// From 1.
    pub rank: usize,
    /// Larger is better; comparable within one answer.
    pub score: f32,
    /// Absolute path that `path` is relative to.
    pub root: String,
    /// The file, relative to `root`, `/` between its parts.
    pub path: String,
    /// Name of the language.
    pub language: String,
    /// `None` if results are files.
    #[serde(flatten)]
    pub unit: Option<UnitView>,
    /// Path of the file relative to the current directory.
    #[serde(skip)]
    pub shown: PathBuf,
    /// Number of the searched path in which it was found.
    #[serde(skip)]
    pub root_number: usize,
}

/// A unit in an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitView {
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file; empty for parts between definitions.
    pub name: String,
    /// function, method, type, module or section.
    pub kind: &'static str,
    /// Declaration without body.
    pub signature: String,
    /// Lines of the source.
    pub snippet: String,
    /// Line of the file that `snippet` starts on, 1-based.
    pub snippet_line: u32,
    /// The lines that match a regular expression, if one was given.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub matches: Vec<LineMatch>,
    /// The signals that make up the score.
    pub parts: ScoreParts,
    /// Explanation of its rank, in sentences, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reasons: Vec<String>,
    /// The computation of the score, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// The lines that are shown.
    #[serde(skip)]
    pub blocks: Vec<Block>,
    /// True if the blocks show the declaration.
    #[serde(skip)]
    pub is_declared: bool,
    /// True if the file has changed, or is gone, since it was indexed, so that the lines may belong to other code.
    #[serde(skip)]
    pub is_outdated: bool,
}

/// A line that matches a regular expression.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineMatch {
    /// Of the file, 1-based.
    pub line: u32,
    /// Position in the text, counted from 0.
    #[serde(skip)]
    pub index: usize,
    /// Without its end; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Position in `text`, in bytes.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<ByteRange>"))]
    pub ranges: Vec<Range<usize>>,
}

/// The schema of `Range<usize>`.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(inline)]
#[allow(dead_code, reason = "only its schema is used")]
struct ByteRange {
    /// First byte.
    start: usize,
    /// Byte after the last.
    end: usize,
}

/// Consecutive lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The first one, counted from 0.
    pub first_index: usize,
    /// Each with its number in the file, 1-based.
    pub lines: Vec<(u32, String)>,
}

impl Block {
    /// The text without line numbers.
    pub fn text(&self) -> String {
        self.lines.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// Parts of a shown hit that are not in the index.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// The lines that match an expression.
    pub matches: Vec<LineMatch>,
    /// Reasons for its rank.
    pub reasons: Vec<String>,
    /// Computation of the score.
    pub explanation: Option<Explanation>,
}

impl ResultView {
    /// For a hit and its rank: the lines that contain most of `terms`, or the lines of `extras` if there are any.
    pub(crate) fn new(
        tree: &Tree,
        (hit, rank): (Hit, usize),
        terms: &[String],
        extras: Extras,
        shown: &DisplayOptions,
    ) -> Self {
        let unit = shown.units.then(|| UnitView::new(tree, &hit, terms, extras, shown));
        Self {
            rank,
            score: hit.score,
            root: tree.root_of(&hit),
            shown: tree.shown(&hit),
            path: hit.path,
            language: hit.language,
            unit,
            root_number: hit.root,
        }
    }
}

impl UnitView {
    fn new(tree: &Tree, hit: &Hit, terms: &[String], extras: Extras, shown: &DisplayOptions) -> Self {
        let file = tree.text(hit);
        let file = file.as_ref().as_ref();
        let content = file.map(SourceText::to_str).unwrap_or_default();
        let text: Vec<(u32, &str)> = content
            .lines()
            .enumerate()
            .map(|(index, line)| (file.map_or(0, |file| file.line_number(index)), line))
            .collect();
        let Range { start, end } = file.map_or(0..0, |file| tree.index.lines(hit, file));
        let lines = text.get(start..end.min(text.len())).unwrap_or_default();
        let source = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        let declared = snippet::declaration_lines(&source, &hit.signature);
        let runs = match shown.excerpt {
            _ if !extras.matches.is_empty() => {
                runs(extras.matches.iter().map(|line| line.index), shown.context)
            }
            Excerpt::Declaration => {
                let line = snippet::declaration_line(&source, &hit.signature)
                    .unwrap_or_else(|| snippet::best_lines(&source, terms, 1).start);
                runs([start + line].into_iter(), (0, 0))
            }
            Excerpt::All => runs(start..end, shown.context),
            Excerpt::BesideDeclaration(n) => {
                runs_from(start, snippet::best_lines_beside(&source, &declared, terms, n), shown.context)
            }
            Excerpt::Preview(n) => {
                let preview = preview_lines(&source, &declared, terms, n);
                runs(preview.into_iter().flatten().map(|line| start + line), shown.context)
            }
            Excerpt::Best(n) => runs_from(start, snippet::best_lines(&source, terms, n), shown.context),
        };
        let declared = start + declared.start..start + declared.end;
        let shows = |run: &Range<usize>| run.start <= declared.start && declared.end <= run.end;
        let is_declared = !declared.is_empty() && runs.iter().any(shows);
        let blocks: Vec<Block> = runs.into_iter().filter_map(|run| block(&text, &run)).collect();
        Self {
            start_line: hit.start_line,
            end_line: hit.end_line,
            name: hit.name.clone(),
            kind: kind_name(hit.kind),
            snippet: blocks.first().map(Block::text).unwrap_or_default(),
            snippet_line: blocks
                .first()
                .and_then(|block| block.lines.first())
                .map_or(hit.start_line, |line| line.0),
            signature: hit.signature.clone(),
            matches: extras.matches,
            parts: hit.parts,
            reasons: extras.reasons,
            explanation: extras.explanation,
            blocks,
            is_declared,
            is_outdated: !file.is_some_and(|file| tree.index.is_as_indexed(hit, file)),
        }
    }
}

/// The run of `lines`, counted from 0 in a unit whose first line is `first`, with lines around it; none if it is empty.
fn runs_from(first: usize, lines: Range<usize>, context: (usize, usize)) -> Vec<Range<usize>> {
    runs(lines.map(|line| first + line), context)
}

/// Lines, ascending and counted from 0, with this many lines before and after them, as ranges that do not touch.
fn runs(lines: impl Iterator<Item = usize>, (before, after): (usize, usize)) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for line in lines {
        let (start, end) = (line.saturating_sub(before), line.saturating_add(after).saturating_add(1));
        match runs.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

/// Lines of a text, each with its number in the file; none if it is shorter.
fn block(text: &[(u32, &str)], lines: &Range<usize>) -> Option<Block> {
    let taken = text.get(lines.start..lines.end.min(text.len()))?;
    let lines_of = || taken.iter().map(|(number, line)| (*number, (*line).to_owned())).collect();
    (!taken.is_empty()).then(|| Block { first_index: lines.start, lines: lines_of() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_near_each_other_are_one_run() {
        assert_eq!(runs([3, 4, 9].into_iter(), (0, 0)), [3..5, 9..10]);
        assert_eq!(runs([0, 3, 8].into_iter(), (1, 1)), [0..5, 7..10]);
        assert_eq!(runs([5, 9].into_iter(), (0, 2)), [5..8, 9..12]);
        assert_eq!(runs([5, 9].into_iter(), (2, 0)), [3..6, 7..10]);
        assert_eq!(runs([5].into_iter(), (usize::MAX, usize::MAX)), std::slice::from_ref(&(0..usize::MAX)));
        assert_eq!(runs(0..0, (1, 1)), [0..0; 0]);
    }

    #[test]
    fn a_block_ends_with_its_file() {
        let text = [(5, "a"), (5, "b"), (6, "c")];
        let last = block(&text, &(1..9)).unwrap();
        assert_eq!((last.first_index, last.lines), (1, vec![(5, "b".to_owned()), (6, "c".to_owned())]));
        assert!(block(&text, &(3..9)).is_none());
        assert!(block(&text, &(7..9)).is_none());
    }
}
