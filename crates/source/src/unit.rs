//! The units of a file, and the limits of the work for finding them.

use std::ops::Range;
use std::time::Duration;

use crate::language::Language;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitKind {
    /// A free function, or a function held by a variable or an object literal.
    Function,
    /// A function that belongs to a type.
    Method,
    /// A class, struct, trait, interface, enum, impl block, ...: its doc, header and fields up to the first method
    /// that is a unit of its own.
    Type,
    /// Lines between functions and types: imports, constants, top-level code, the rest of a type after its first
    /// method.
    Module,
    /// A section of a text document, from a heading to the next one.
    Section,
}

/// A part of a file that is indexed and found on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub kind: UnitKind,
    /// Language of its file, or of its cell in a notebook.
    pub language: Language,
    /// Name qualified within the file, joined by dots whatever the language writes (`Class.method`, and
    /// `outer.inner` for a function in a function); of a section its headings, outermost first, joined by ` > `;
    /// empty for module parts. Packages and namespaces that span files are left out. No part of it has more than
    /// [`MAX_NAME_BYTES`].
    pub name: String,
    /// Declaration without body, decorators and comments, white space collapsed, at most [`MAX_SIGNATURE_BYTES`];
    /// of a section its heading; empty for module parts and for all but the first part of a long unit.
    pub signature: String,
    /// Docstring, else the comment directly above; markers, gutters and quotes removed, lines kept. Empty for all
    /// but the first part of a long unit.
    pub doc: String,
    /// Position of `doc` in the file, including markers and quotes: byte ranges, ascending, disjoint. Cutting them out
    /// of the file removes the doc and nothing else.
    pub doc_bytes: Vec<Range<usize>>,
    /// Byte range of the unit in the file, leading comment and decorators included. Ranges of different units are
    /// disjoint, and units are in ascending order; there may be gaps of white space and punctuation between them.
    pub bytes: Range<usize>,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive. Two units share a line where one ends and the next begins on it.
    pub end_line: u32,
    /// Index of the unit that contains the start of the enclosing definition: the type of a method, the function of
    /// an inner function, the first part of a long function. Less than the unit's own index. `None` at the top of a
    /// file, for sections, and within scopes that are not units, such as modules.
    pub parent: Option<usize>,
    /// True if the language marks it as test code, in a file that may contain other code: a test function, or code
    /// in a test module.
    pub is_test: bool,
}

impl Unit {
    /// Returns whether it holds a letter, a digit or a character beyond ASCII; `source` is the file it was taken from.
    ///
    /// Units without words are closing brackets between two definitions. They preserve the guarantee that every
    /// line is in a unit, but contain nothing to find.
    ///
    /// # Panics
    /// If `source` is another, shorter file.
    pub fn has_words(&self, source: &[u8]) -> bool {
        source[self.bytes.clone()].iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
    }
}

/// A check that a program makes of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub kind: CheckKind,
    /// Byte range of the deciding expression: the condition of an assertion or a branch, or the whole call.
    pub bytes: Range<usize>,
    /// Line on which it begins, 1-based.
    pub line: u32,
    /// The conditions or arguments that are constant, each with its truth value.
    pub constants: Vec<(Range<usize>, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckKind {
    /// A statement of the language that fails unless its condition is true.
    Assertion,
    /// A branch: the byte ranges of both alternatives, and of the whole.
    Branch {
        /// The code that runs if the condition is true.
        then: Option<Range<usize>>,
        /// The code that runs otherwise.
        otherwise: Option<Range<usize>>,
        /// The whole branch.
        whole: Range<usize>,
    },
    Call {
        /// Name of the callee as written, with its receiver and a dot before it, if any.
        name: String,
        /// Byte ranges of its arguments; of keyword arguments, only the value.
        arguments: Vec<Range<usize>>,
        /// True if the value is used as a context manager, as by Python's `with`.
        is_entered: bool,
    },
}

/// A function or method with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name as written.
    pub name: String,
    /// Byte range of the statement that defines it and nothing else, including decorators.
    pub bytes: Range<usize>,
    /// Byte range of its body as in the grammar, including braces.
    pub body: Range<usize>,
    /// Byte ranges of the operators, keywords and brackets in the body, in order; none in strings and comments.
    pub symbols: Vec<Range<usize>>,
}

/// Maximum bytes of a part of a [`Unit::name`]; a longer one is truncated at a character boundary.
pub const MAX_NAME_BYTES: usize = 256;

/// Maximum bytes of a [`Unit::signature`]; a longer one is truncated at a character boundary.
pub const MAX_SIGNATURE_BYTES: usize = 1024;

/// A problem that kept a file from being read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line of the problem, 1-based.
    pub line: u32,
    /// The problem and how it was handled.
    pub message: String,
}

/// The units of a file, with diagnostics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extraction {
    /// Every non-blank line is in at least one of them; ascending and disjoint in bytes.
    pub units: Vec<Unit>,
    /// In ascending order of lines; at most [`MAX_SYNTAX_DIAGNOSTICS`] of them for broken syntax.
    pub diagnostics: Vec<Diagnostic>,
}

/// The calls and imports of a file, as far as its syntax reveals them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// In ascending order of bytes. In the arguments of macros of Rust, whatever looks like a call counts as one.
    pub calls: Vec<Call>,
    /// In ascending order of the bytes of their modules.
    pub imports: Vec<Import>,
    /// The reason why some of them are missing, and the line from which on, if a limit was reached.
    pub missing: Option<Diagnostic>,
}

impl References {
    /// Adds those of a part of the file that begins at `start`; `line` maps a line of the part to one of the file.
    pub(crate) fn append(&mut self, part: Self, start: usize, line: impl Fn(u32) -> u32) {
        let Self { calls, imports, missing } = part;
        self.calls.extend(calls.into_iter().map(|call| Call {
            byte: call.byte + start,
            line: line(call.line),
            ..call
        }));
        self.imports.extend(imports.into_iter().map(|import| Import { line: line(import.line), ..import }));
        let missing = missing.map(|missing| Diagnostic { line: line(missing.line), ..missing });
        self.missing = self.missing.take().or(missing);
    }
}

/// A call, or a construction by calling a constructor. Texts have at most [`MAX_NAME_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name of the callee, without its receiver.
    pub callee: String,
    /// Receiver or module as written, line breaks removed: `self`, `client.session`, `std::mem`.
    pub receiver: Option<String>,
    /// Language that it is written in: that of its file, of its cell in a notebook, or of its block in markup.
    pub language: Language,
    /// Offset of the callee's name in the file.
    pub byte: usize,
    /// Line of the callee's name, 1-based.
    pub line: u32,
    /// Index of the unit that contains it; `None` in the few bytes beside a unit on its line that are in no unit.
    pub unit: Option<usize>,
}

/// A module, file or package that is imported, or that something is imported from. Texts have at most
/// [`MAX_NAME_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Name or path as written, without quotes; never empty.
    pub module: String,
    /// Local name, if it differs.
    pub alias: Option<String>,
    /// Names imported from it, in the order of the source; `*` for everything. Empty if the module itself is imported.
    pub names: Vec<ImportedName>,
    /// First line of the statement, 1-based.
    pub line: u32,
}

/// A name that is imported from a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedName {
    /// Name in the module; `default` for its default export.
    pub name: String,
    /// Local name, if it differs.
    pub alias: Option<String>,
}

/// Maximum number of syntax errors of a file that are reported; further ones are not counted.
pub const MAX_SYNTAX_DIAGNOSTICS: usize = 10;

/// Limits of the work for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time for parsing one file; a file that takes longer is split into line windows.
    pub parse_time: Duration,
    /// Maximum bytes of a file that is parsed; a larger one is split into line windows.
    pub parse_bytes: usize,
    /// Maximum bytes of memory for parsing one file, unless 64 times its length is more; a file that needs more is split
    /// into line windows. Most need 20 to 40 times their length, very dense ones 400 times.
    pub parse_memory: usize,
}

impl Default for Limits {
    /// 5 seconds, 32 MiB and 256 MiB.
    fn default() -> Self {
        Self { parse_time: Duration::from_secs(5), parse_bytes: 32 << 20, parse_memory: 256 << 20 }
    }
}

/// Truncates `text` to at most `max_bytes`, at a character boundary.
pub(crate) fn truncate(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes));
}
