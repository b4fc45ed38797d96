//! What a file is cut into, and how much work that may cause.

use std::ops::Range;
use std::time::Duration;

use crate::language::Language;

/// What a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitKind {
    /// A free function, or a function held by a variable or an object literal.
    Function,
    /// A function that belongs to a type.
    Method,
    /// A class, struct, trait, interface, enum, impl block, ...: its doc, header and fields up to the first method
    /// that is a unit of its own.
    Type,
    /// Lines between functions and types: imports, constants, top-level code, what follows a type's first method.
    Module,
    /// A section of a text document, from a heading to the next one.
    Section,
}

/// A piece of a file that can be found on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// What it is.
    pub kind: UnitKind,
    /// What it is written in: the language of its file, or of its cell in a notebook.
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
    /// Where `doc` stands in the file, markers and quotes included: byte ranges, ascending, disjoint. Cutting them
    /// out of the file removes the doc and nothing else.
    pub doc_bytes: Vec<Range<usize>>,
    /// Byte range of the unit in the file, leading comment and decorators included. Ranges of different units are
    /// disjoint, and units are in ascending order; there may be gaps of white space and punctuation between them.
    pub bytes: Range<usize>,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive. Two units share a line where one ends and the next begins on it.
    pub end_line: u32,
    /// Index of the unit that holds the beginning of what this one lies in: the type of a method, the function of an
    /// inner function, the first part of a long function. Less than the unit's own index. `None` at the top of a
    /// file, for sections, and within scopes that are no unit, such as modules.
    pub parent: Option<usize>,
    /// Whether the language marks it as test code, in a file that may hold other code: a test function, or what lies
    /// in a test module.
    pub is_test: bool,
}

impl Unit {
    /// Whether it holds a letter, a digit or a character beyond ASCII; `source` is the file it was taken from.
    ///
    /// Units that do not are the closing brackets between two definitions. They keep the promise that every line lies
    /// in a unit, but there is nothing in them to find.
    ///
    /// # Panics
    /// If `source` is another, shorter file.
    pub fn has_words(&self, source: &[u8]) -> bool {
        source[self.bytes.clone()].iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
    }
}

/// Something that a program may check itself by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is.
    pub kind: CheckKind,
    /// Byte range of what decides: the condition of an assertion or a branch, or the whole call.
    pub bytes: Range<usize>,
    /// The line on which that begins, 1-based.
    pub line: u32,
}

/// How something can be a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckKind {
    /// A statement of the language that fails unless its condition is true.
    Assertion,
    /// One thing is done where the condition is true, another otherwise: the byte ranges of both, and of the whole.
    Branch {
        /// What is done where it is true.
        then: Option<Range<usize>>,
        /// What is done where it is not.
        otherwise: Option<Range<usize>>,
        /// All of it.
        whole: Range<usize>,
    },
    /// A call.
    Call {
        /// Of what: the name as it stands there, with what it is looked up in and a point before it, if anything.
        name: String,
        /// Byte ranges of its arguments, of those with names only the value.
        arguments: Vec<Range<usize>>,
        /// Whether the value is entered and left, as Python's `with` does.
        is_entered: bool,
    },
}

/// A function or method with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, as it stands there.
    pub name: String,
    /// Byte range of the statement that defines it and nothing else, decorators included.
    pub bytes: Range<usize>,
    /// Byte range of its body, as the grammar has it: with its braces, where there are some.
    pub body: Range<usize>,
    /// Byte ranges of the operators, keywords and brackets in the body, in order; none in strings and comments.
    pub symbols: Vec<Range<usize>>,
}

/// Longest part of a [`Unit::name`], in bytes; a longer one is cut at a character border.
pub const MAX_NAME_BYTES: usize = 256;

/// Longest [`Unit::signature`], in bytes; a longer one is cut at a character border.
pub const MAX_SIGNATURE_BYTES: usize = 1024;

/// Something about a file that kept it from being read as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line it was noticed on, 1-based.
    pub line: u32,
    /// What was found and what was done about it.
    pub message: String,
}

/// What a file was cut into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extraction {
    /// Every non-blank line lies in at least one of them; ascending and disjoint in bytes.
    pub units: Vec<Unit>,
    /// In ascending order of lines; at most [`MAX_SYNTAX_DIAGNOSTICS`] of them for broken syntax.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a file calls and imports, as far as its syntax says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// In ascending order of bytes. In the arguments of macros of Rust, whatever looks like a call counts as one.
    pub calls: Vec<Call>,
    /// In ascending order of the bytes of their modules.
    pub imports: Vec<Import>,
}

/// A place where something is called, or made by calling its constructor. Texts have at most [`MAX_NAME_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name of what is called, without what it is called on or looked up in.
    pub callee: String,
    /// What it is called on or looked up in, as written, line breaks removed: `self`, `client.session`, `std::mem`.
    pub receiver: Option<String>,
    /// Where the callee's name begins in the file.
    pub byte: usize,
    /// Line of the callee's name, 1-based.
    pub line: u32,
    /// Index of the unit that it lies in; `None` in the few bytes beside a unit on its line that are in no unit.
    pub unit: Option<usize>,
}

/// A module, file or package that is imported, or that something is imported from. Texts have at most
/// [`MAX_NAME_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Name or path as written, without quotes; empty never.
    pub module: String,
    /// Its name here, if that is another.
    pub alias: Option<String>,
    /// What is imported from it, in the order of the source; `*` for everything. Empty where it is imported itself.
    pub names: Vec<ImportedName>,
    /// Line that the statement begins on, 1-based.
    pub line: u32,
}

/// Something that is imported from a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedName {
    /// Its name there; `default` for what a module exports by default.
    pub name: String,
    /// Its name here, if that is another.
    pub alias: Option<String>,
}

/// Syntax errors of one file that are reported; the rest is not counted.
pub const MAX_SYNTAX_DIAGNOSTICS: usize = 10;

/// How much work a file may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time for parsing one file; a file that takes longer is cut into line windows.
    pub parse_time: Duration,
    /// Largest file that is parsed, in bytes; a larger one is cut into line windows. A syntax tree takes some ten
    /// times the memory of its text.
    pub parse_bytes: usize,
}

impl Default for Limits {
    /// 5 seconds and 32 MiB.
    fn default() -> Self {
        Self { parse_time: Duration::from_secs(5), parse_bytes: 32 << 20 }
    }
}

/// Cuts `text` to at most `max_bytes`, at a character border.
pub(crate) fn truncate(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        let border = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(border.unwrap_or_default());
    }
}
