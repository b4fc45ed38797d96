//! Turns bytes into units: parses within limits, and falls back to line windows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{LanguageError, ParseOptions, ParseState, Parser, QueryCursor, Tree};

use crate::allocator;
use crate::anonymous::find_names;
use crate::check::find_checks;
use crate::comparable::{ComparableCode, find_comparable};
use crate::definition::{Structure, find_definitions};
use crate::embedded;
use crate::flow::{DataFlow, find_data_flow};
use crate::function::find_functions;
use crate::highlight::{Highlight, find_highlights};
use crate::language::{Language, Prose, Reader};
use crate::layout::lay_out;
use crate::line::{Lines, line_number};
use crate::magic;
use crate::matches::TimeLeft;
use crate::reference::{find_references, place_calls};
use crate::rules::Rules;
use crate::section::Headings;
use crate::shape::{FunctionShape, find_shapes};
use crate::traversal::goto_next;
use crate::unit::{
    Check, Diagnostic, Extraction, Function, Limits, MAX_SYNTAX_DIAGNOSTICS, References, UnitKind,
};

/// State for parsing that is costly to create for every file.
struct Workspace {
    parser: Parser,
    query_cursor: QueryCursor,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::new(Workspace::new());
}

impl Workspace {
    fn new() -> Self {
        let mut query_cursor = QueryCursor::new();
        // Queries match at a single node, to the depth of their patterns; the walk chooses the node.
        query_cursor.set_max_start_depth(Some(0));
        Self { parser: Parser::new(), query_cursor }
    }
}

impl Limits {
    /// The time left for searching a tree: as long as parsing it was allowed to take.
    fn time_left(&self) -> TimeLeft {
        TimeLeft::from_now(self.parse_time)
    }
}

/// The reason why a file has no syntax tree.
#[derive(Debug, thiserror::Error)]
enum ParseError {
    #[error("{bytes} bytes exceed the limit of {limit} for parsing")]
    TooLarge { bytes: usize, limit: usize },
    // The remaining part of a file's time is not a round number.
    #[error("parsing took longer than {} s", (.0.as_secs_f64() * 10.0).ceil() / 10.0)]
    TooSlow(Duration),
    #[error("parsing read the file more than {0} times")]
    ReadTooOften(usize),
    #[error("parsing took more than {} MiB of memory", .0 >> 20)]
    TooMuchMemory(usize),
    #[error("the grammar cannot be used")]
    Grammar(#[from] LanguageError),
    #[error("this build has no grammar of {language}, build with the feature {feature}")]
    Lacking { language: &'static str, feature: &'static str },
}

pub(crate) fn extract(language: Language, source: &[u8], limits: &Limits) -> Extraction {
    read_file(language, source, limits, None)
}

pub(crate) fn extract_with_references(
    language: Language,
    source: &[u8],
    limits: &Limits,
) -> (Extraction, References) {
    let mut references = References::default();
    let extraction = read_file(language, source, limits, Some(&mut references));
    place_calls(&mut references.calls, &extraction.units);
    (extraction, references)
}

/// Splits a file into units, and fills `references`, if any; the calls have no unit yet.
pub(crate) fn read_file(
    language: Language,
    source: &[u8],
    limits: &Limits,
    references: Option<&mut References>,
) -> Extraction {
    match language.reader() {
        Reader::Prose(_) | Reader::Markup => embedded::extract(language, source, limits, references),
        _ => read(Part::whole(language, source), limits, references, &mut Headings::default()),
    }
}

fn missing(error: &ParseError) -> Diagnostic {
    Diagnostic { line: 1, message: error.to_string() }
}

/// The syntax tree of a text, if it can be parsed within the limits.
fn tree_of(rules: &Rules, source: &[u8], limits: &Limits) -> Option<Tree> {
    WORKSPACE.with_borrow_mut(|workspace| parse(&mut workspace.parser, rules, source, limits)).ok()
}

pub(crate) fn functions(language: Language, source: &[u8], limits: &Limits) -> Vec<Function> {
    let Reader::Syntax(grammar) = language.reader() else { return Vec::new() };
    let rules = language.rules(grammar);
    let tree = tree_of(rules, source, limits);
    let found = tree.and_then(|tree| find_functions(&tree, rules, source, limits.time_left()));
    found.unwrap_or_default()
}

pub(crate) fn highlights(
    language: Language,
    source: &[u8],
    limits: &Limits,
) -> Vec<(Range<usize>, Highlight)> {
    let Reader::Syntax(grammar) = language.reader() else { return Vec::new() };
    let rules = language.rules(grammar);
    tree_of(rules, source, limits).map_or_else(Vec::new, |tree| find_highlights(&tree))
}

pub(crate) fn function_shapes(
    language: Language,
    source: &[u8],
    limits: &Limits,
) -> Option<Vec<FunctionShape>> {
    let Reader::Syntax(grammar) = language.reader() else { return None };
    if !language.has_shape_rules() {
        return None;
    }
    let rules = language.rules(grammar);
    let tree = tree_of(rules, source, limits)?;
    find_shapes(&tree, rules, language.shape_rules(grammar), source, limits.time_left())
}

/// Text that languages need around a standalone function: nothing, a class, an opening tag, or both.
const AROUND_FUNCTIONS: [(&str, &str); 4] =
    [("", ""), ("class A {\n", "\n}\n"), ("<?php ", ""), ("<?php class A {\n", "\n}\n")];

pub(crate) fn hide_names(language: Language, text: &str, limits: &Limits) -> Option<String> {
    let Reader::Syntax(grammar) = language.reader() else { return None };
    if !language.has_shape_rules() {
        return None;
    }
    let (rules, shape_rules) = (language.rules(grammar), language.shape_rules(grammar));
    let mut best = None;
    for (before, after) in AROUND_FUNCTIONS {
        let source = format!("{before}{text}{after}");
        let Some(tree) = tree_of(rules, source.as_bytes(), limits) else { continue };
        let names = find_names(&tree, rules, shape_rules, source.as_bytes(), limits.time_left());
        let Some(names) = names else { continue };
        let is_whole = !tree.root_node().has_error();
        if is_whole || best.is_none() {
            let (mut hidden, mut end) = (String::with_capacity(text.len()), before.len());
            for (range, name) in names {
                hidden.push_str(&source[end..range.start]);
                hidden.push_str(&name);
                end = range.end;
            }
            hidden.push_str(&source[end..before.len() + text.len()]);
            best = Some(hidden);
        }
        if is_whole {
            break;
        }
    }
    best
}

pub(crate) fn comparable(language: Language, text: &str, limits: &Limits) -> Option<ComparableCode> {
    let Reader::Syntax(grammar) = language.reader() else { return None };
    let rules = language.rules(grammar);
    let mut best: Option<((bool, bool, usize), ComparableCode)> = None;
    for (before, after) in AROUND_FUNCTIONS {
        let source = [before, text, after].concat();
        let Some(tree) = tree_of(rules, source.as_bytes(), limits) else { continue };
        let functions = find_functions(&tree, rules, source.as_bytes(), limits.time_left())?;
        let within = before.len()..before.len() + text.len();
        let found = find_comparable(&tree, &functions, source.as_bytes(), &within);
        let is_function = !tree.root_node().has_error() && !found.bodies.is_empty();
        let quality = (is_function, !tree.root_node().has_error(), found.tokens.len());
        if best.as_ref().is_none_or(|(other, _)| *other < quality) {
            best = Some((quality, found));
        }
        if is_function {
            break;
        }
    }
    best.map(|(_, found)| found)
}

pub(crate) fn data_flow(language: Language, text: &str, limits: &Limits) -> Option<DataFlow> {
    let Reader::Syntax(grammar) = language.reader() else { return None };
    let flow_rules = language.flow_rules()?;
    let rules = language.rules(grammar);
    let [before, after] = match &flow_rules.around {
        [before, _] if before.is_empty() || text.contains(before) => ["", ""],
        [before, after] => [before.as_str(), after.as_str()],
    };
    let source = [before, text, after].concat();
    let tree = tree_of(rules, source.as_bytes(), limits)?;
    Some(find_data_flow(&tree, flow_rules, language.comments(), source.as_bytes()))
}

pub(crate) fn language_of_function(text: &str, limits: &Limits) -> Option<Language> {
    let has_function = |language: &Language| {
        let Reader::Syntax(grammar) = language.reader() else { return false };
        let rules = language.rules(grammar);
        AROUND_FUNCTIONS.iter().any(|(before, after)| {
            let source = [before, text, after].concat();
            tree_of(rules, source.as_bytes(), limits).is_some_and(|tree| {
                !tree.root_node().has_error()
                    && find_functions(&tree, rules, source.as_bytes(), limits.time_left())
                        .is_some_and(|functions| !functions.is_empty())
            })
        })
    };
    crate::languages().filter(|language| language.flow_rules().is_some()).find(has_function)
}

pub(crate) fn checks(language: Language, source: &[u8], limits: &Limits) -> Vec<Check> {
    let Reader::Syntax(grammar) = language.reader() else { return Vec::new() };
    let rules = language.rules(grammar);
    let tree = tree_of(rules, source, limits);
    let rules = language.check_rules(grammar);
    let found = tree.and_then(|tree| find_checks(&tree, rules, source, limits.time_left()));
    found.unwrap_or_default()
}

/// A file, a cell of a notebook, or a part of a file that is in another language.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub language: Language,
    /// The text that is split into units.
    pub source: &'a [u8],
    /// Text that the grammar parses instead: the same text and length, with the parts that belong to no language
    /// replaced.
    pub code: &'a [u8],
}

impl<'a> Part<'a> {
    pub(crate) fn whole(language: Language, source: &'a [u8]) -> Self {
        Self { language, source, code: source }
    }
}

/// Applies [`magic::without_line_magics`] if the grammar cannot parse `code` unchanged.
pub(crate) fn without_line_magics<'a>(
    language: Language,
    code: Cow<'a, [u8]>,
    limits: &Limits,
) -> Cow<'a, [u8]> {
    let Reader::Syntax(grammar) = language.reader() else { return code };
    let Some(masked) = magic::without_line_magics(&code) else { return code };
    let rules = language.rules(grammar);
    let tree = WORKSPACE.with_borrow_mut(|workspace| parse(&mut workspace.parser, rules, &code, limits));
    if tree.is_ok_and(|tree| tree.root_node().has_error()) { Cow::Owned(masked) } else { code }
}

/// Splits a part into units, and fills `references`, if any. Sections of prose are nested below `headings`.
pub(crate) fn read(
    part: Part,
    limits: &Limits,
    mut references: Option<&mut References>,
    headings: &mut Headings,
) -> Extraction {
    let Part { language, source, code } = part;
    let lines = Lines::new(code);
    let mut diagnostics: Vec<Diagnostic> = encoding_diagnostic(&lines).into_iter().collect();
    let (result, between) = match language.reader() {
        Reader::Syntax(grammar) => {
            let rules = language.rules(grammar);
            let result = WORKSPACE.with_borrow_mut(|workspace| {
                let tree = parse(&mut workspace.parser, rules, code, limits)?;
                diagnostics.extend(syntax_diagnostics(&tree, &lines));
                if let Some(references) = references.as_deref_mut() {
                    let rules = language.reference_rules(grammar);
                    *references = find_references(&tree, language, rules, &lines, limits.parse_time);
                    diagnostics.extend(references.missing.clone());
                }
                Ok(find_definitions(&tree, rules, &lines, &mut workspace.query_cursor))
            });
            (result, UnitKind::Module)
        }
        Reader::Prose(prose) => (parse_prose(prose, &lines, limits, headings), UnitKind::Section),
        Reader::Lacking => {
            let feature = language.feature().unwrap_or_default();
            (Err(ParseError::Lacking { language: language.name(), feature }), UnitKind::Module)
        }
        Reader::Markup | Reader::Notebook | Reader::Lines | Reader::Template => {
            (Ok(Structure::default()), UnitKind::Module)
        }
    };
    let structure = result.unwrap_or_else(|error| {
        let message = format!("{error}; split into line windows");
        diagnostics.push(Diagnostic { line: 1, message });
        if let Some(references) = references {
            references.missing = Some(missing(&error));
        }
        Structure::default()
    });
    diagnostics.sort_by_key(|diagnostic| diagnostic.line);
    let lines_of_source = (code != source).then(|| Lines::new(source));
    let units = lay_out(language, lines_of_source.as_ref().unwrap_or(&lines), structure, between);
    Extraction { units, diagnostics }
}

/// Bytes of memory that parsing may always use per byte of a file.
const MEMORY_PER_BYTE: usize = 64;
/// Maximum number of bytes that the parser reads at once.
const CHUNK_BYTES: usize = 16 << 10;
/// Maximum number of times that the parser may read a file, in addition to [`FREE_BYTES`]. A grammar that looks
/// ahead to the end of the file at every byte takes time quadratic in its size. Of 11,710 files in 16 repositories,
/// none was read more than 29 times.
const MAX_READS: usize = 256;
/// Number of bytes that the parser may always read, however small the file.
const FREE_BYTES: usize = 16 << 20;
/// Maximum number of bytes of a character in UTF-8.
const MAX_CHARACTER_BYTES: usize = 4;

fn check_size(source: &[u8], limits: &Limits) -> Result<(), ParseError> {
    match source.len() > limits.parse_bytes {
        true => Err(ParseError::TooLarge { bytes: source.len(), limit: limits.parse_bytes }),
        false => Ok(()),
    }
}

fn parse_prose(
    prose: Prose,
    lines: &Lines,
    limits: &Limits,
    headings: &mut Headings,
) -> Result<Structure, ParseError> {
    check_size(lines.source(), limits)?;
    let structure = prose.find_sections(lines, limits.parse_time, headings);
    structure.ok_or(ParseError::TooSlow(limits.parse_time))
}

fn parse(parser: &mut Parser, rules: &Rules, source: &[u8], limits: &Limits) -> Result<Tree, ParseError> {
    check_size(source, limits)?;
    parser.set_language(&rules.grammar)?;
    let readable = rules.scanner_words.as_ref().map(|words| words.readable(source));
    let source = readable.as_deref().unwrap_or(source);
    let start = Instant::now();
    let held_before = allocator::held();
    let max_held = limits.parse_memory.max(source.len().saturating_mul(MEMORY_PER_BYTE));
    let has_too_much = || usize::try_from(allocator::held() - held_before).is_ok_and(|held| held > max_held);
    let is_over = || start.elapsed() > limits.parse_time || has_too_much();
    let mut watch = |_: &ParseState| match is_over() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut watch);
    // A grammar's own code may look ahead to the end of the file at every byte, without calling `watch`. When time
    // is up, or the file was read too often, the input ends, but not within a character: the parser asks twice for
    // one that crosses the end of its input, and fails if it gets nothing then.
    let mut given = 0;
    let mut bytes_left = source.len().saturating_mul(MAX_READS).saturating_add(FREE_BYTES);
    let mut read = |position: usize, _| {
        let is_cut = start.elapsed() > limits.parse_time || bytes_left == 0;
        given = match is_cut {
            false => source.len().min(position + CHUNK_BYTES),
            true if given.saturating_sub(position) < MAX_CHARACTER_BYTES => given,
            true => position,
        };
        let chunk = match source.get(position..given).unwrap_or_default() {
            // Some scanners wait for the end of a line.
            [] if is_cut && readable.is_some() && position < source.len() => b"\n",
            chunk => chunk,
        };
        bytes_left = bytes_left.saturating_sub(chunk.len());
        chunk
    };
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    let is_too_slow = start.elapsed() > limits.parse_time;
    let has_too_much = has_too_much();
    tree.filter(|_| !is_too_slow && bytes_left > 0).ok_or_else(|| {
        // Otherwise the next parse would resume where this one stopped.
        parser.reset();
        match bytes_left {
            _ if has_too_much => ParseError::TooMuchMemory(max_held),
            0 if !is_too_slow => ParseError::ReadTooOften(MAX_READS),
            _ => ParseError::TooSlow(limits.parse_time),
        }
    })
}

fn encoding_diagnostic(lines: &Lines) -> Option<Diagnostic> {
    let error = str::from_utf8(lines.source()).err()?;
    let line = line_number(lines.row(error.valid_up_to()));
    Some(Diagnostic { line, message: "not UTF-8; bad bytes are replaced in names and docs".into() })
}

/// The first syntax errors of `tree`.
fn syntax_diagnostics(tree: &Tree, lines: &Lines) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut cursor = tree.walk();
    while diagnostics.len() < MAX_SYNTAX_DIAGNOSTICS {
        let node = cursor.node();
        let found = node.is_error() || node.is_missing();
        if found {
            let message = match node.is_missing() {
                true => format!("syntax error: {} is missing", node.kind()),
                false => {
                    let code = lines.source();
                    // The parser may have read an extra line end.
                    let bytes = node.start_byte().min(code.len())..node.end_byte().min(code.len());
                    format!("syntax error at {:?}", excerpt(&code[bytes]))
                }
            };
            diagnostics.push(Diagnostic { line: line_number(node.start_position().row), message });
        }
        if !goto_next(&mut cursor, !found && node.has_error()) {
            break;
        }
    }
    diagnostics
}

/// The beginning of broken code, short enough for a message.
fn excerpt(bytes: &[u8]) -> String {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(160)]).trim().chars().take(40).collect()
}
