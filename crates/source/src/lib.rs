//! Turns source code into searchable units: bytes in, units and diagnostics out, no I/O.
//!
//! [`language_for`] detects the language of a file by its name (or its `#!` line), [`extract`] splits its
//! bytes into [`Unit`]s: one for every function, method and type, and further ones for the lines between them, so
//! that every non-blank line of a file can be found. What a function is in each language is data: one file in
//! `rules/` for each language, holding tree-sitter queries and settings; no code knows a language by name.
//!
//! ```
//! use quarry_source::{UnitKind, extract, language_for};
//!
//! let language = language_for("shop/cart.py".as_ref(), b"").unwrap();
//! let extraction = extract(language, b"class Cart:\n    def total(self):\n        \"\"\"Sum of prices.\"\"\"\n        return 0\n");
//! let total = &extraction.units[1];
//! assert_eq!((total.kind, total.name.as_str()), (UnitKind::Method, "Cart.total"));
//! assert_eq!((total.signature.as_str(), total.doc.as_str()), ("def total(self)", "Sum of prices."));
//! assert_eq!((total.start_line, total.end_line), (2, 4));
//! ```
//!
//! A further language is a rule file (`rules/NAME.toml`, whose keys and captures are described at `RuleFile` in
//! `src/rules.rs`), a line in the registry in `src/language.rs`, and a fixture with every construct that the rules
//! name; `UPDATE_EXPECT=1 cargo test -p quarry-source` writes the expected output, to be reviewed before it is
//! committed.
//!
//! The largest grammars are not in every build: the feature `more-languages` brings them. Without it, the files of their
//! languages are split into line windows, with a [`Diagnostic`] that says why.
//!
//! Bad input is never an error: broken syntax, other encodings and files that take too long to parse give
//! [`Diagnostic`]s and as many units as possible. Nothing here recurses, so nesting depth is bounded by memory only.

mod allocator;
mod anonymous;
mod asciidoc;
mod block;
mod check;
mod comment;
mod comparable;
mod definition;
mod embedded;
mod flow;
mod function;
mod highlight;
mod json;
mod language;
mod layout;
mod line;
mod local;
mod magic;
mod markdown;
mod matches;
mod notebook;
mod pair;
mod parse;
mod pattern;
mod prose;
mod reference;
mod restructuredtext;
mod rules;
mod scanner_words;
mod section;
mod shape;
mod size;
mod text;
mod traversal;
mod unit;

pub use comparable::ComparableCode;
pub use flow::{DataFlow, FlowNode};
pub use highlight::Highlight;
pub use language::{HAS_MORE_LANGUAGES, Language, language_called, language_for, language_named, languages};
pub use line::Lines;
pub use notebook::NotebookError;
pub use pair::FunctionPair;
pub use rules::{Content, Manifest, NameScope};
pub use shape::FunctionShape;
pub use size::{MAX_DEFINITION_LINES, MAX_UNIT_BYTES, MAX_WINDOW_LINES};
pub use text::SourceText;
pub use unit::{
    Call, Check, CheckKind, Diagnostic, Extraction, Function, Import, ImportedName, Limits, MAX_NAME_BYTES,
    MAX_SIGNATURE_BYTES, MAX_SYNTAX_DIAGNOSTICS, References, Unit, UnitKind,
};

/// Splits `source`, the bytes of one file in `language`, into units, within the default [`Limits`].
///
/// All spans are in the original bytes, whatever their encoding and line ends. Linear in the length of `source`.
pub fn extract(language: Language, source: &[u8]) -> Extraction {
    extract_within(language, source, &Limits::default())
}

/// Like [`extract`], within other limits.
pub fn extract_within(language: Language, source: &[u8], limits: &Limits) -> Extraction {
    parse::extract(language, source, limits)
}

/// Like [`extract_within`], and also finds calls and imports, in the same syntax tree.
///
/// Files without a syntax tree have none. Finding them may take [`Limits::parse_time`]; after that, a diagnostic says
/// from which line on they are missing.
pub fn extract_with_references(
    language: Language,
    source: &[u8],
    limits: &Limits,
) -> (Extraction, References) {
    parse::extract_with_references(language, source, limits)
}

/// The functions and methods of `source` with their bodies, within the default [`Limits`], in ascending order of their
/// beginnings; nested ones follow the function around them. None without a syntax tree.
pub fn functions(language: Language, source: &[u8]) -> Vec<Function> {
    parse::functions(language, source, &Limits::default())
}

/// The functions and methods of `source` with what they take and give back, within the default [`Limits`], in ascending
/// order of their beginnings; those within others follow them. `None` where there is no syntax tree, or the language has
/// no rules for it.
pub fn function_shapes(language: Language, source: &[u8]) -> Option<Vec<FunctionShape>> {
    parse::function_shapes(language, source, &Limits::default())
}

/// The text of one function with its name replaced by `func` and the names of its variables by `arg_0`, `arg_1` and so
/// on, within the default [`Limits`]; comments and the content of texts stay. A name that the text has already is not
/// given. `None` without a function, without a syntax tree, or where the language has no rules for it.
pub fn hide_names(language: Language, text: &str) -> Option<String> {
    parse::hide_names(language, text, &Limits::default())
}

/// The tokens of one function and the flow of data between them, within the default [`Limits`], as GraphCodeBERT reads
/// them. `None` where there is no syntax tree, or the language has no rules for it.
pub fn data_flow(language: Language, text: &str) -> Option<DataFlow> {
    parse::data_flow(language, text, &Limits::default())
}

/// A code in the form in which its copies are recognized, within the default [`Limits`]. `None` without a syntax tree.
pub fn comparable(language: Language, text: &str) -> Option<ComparableCode> {
    parse::comparable(language, text, &Limits::default())
}

/// The language of a text, of those with rules for [`data_flow`]: the first one whose syntax the whole text has, with a
/// function in it.
pub fn language_of_function(text: &str) -> Option<Language> {
    parse::language_of_function(text, &Limits::default())
}

/// Roles of the parts of `source`, for coloring, within the default [`Limits`]: ascending and disjoint byte ranges.
/// None without a syntax tree.
pub fn highlights(language: Language, source: &[u8]) -> Vec<(std::ops::Range<usize>, Highlight)> {
    parse::highlights(language, source, &Limits::default())
}

/// Checks that the program `source` may contain, within the default [`Limits`]: its assertions, calls and branches, in
/// ascending order of their beginnings. None without a syntax tree or without rules for the language.
pub fn checks(language: Language, source: &[u8]) -> Vec<Check> {
    parse::checks(language, source, &Limits::default())
}
