//! Blocks of code in a document.

use std::ops::Range;

use crate::language::{Language, language_called};
use crate::line::Lines;
use crate::unit::References;

/// A block of code in a different language than its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Range of the whole block, including the delimiters at its ends: tags, fences.
    pub bytes: Range<usize>,
    /// Range between the delimiters; for fences, whole lines.
    pub code: Range<usize>,
    /// Prefixes of the lines of the code, such as the `>` of a quotation: ascending and disjoint ranges.
    pub gutters: Vec<Range<usize>>,
    pub language: Language,
    /// True if the code has units of its own, rather than being part of the text around it.
    pub has_units: bool,
    /// References in the code, relative to it, as far as they are known before it is split.
    pub references: References,
}

/// The language of a block of code by its name in the document, if it has a grammar.
pub(crate) fn code_language(name: &str) -> Option<Language> {
    language_called(name.trim()).filter(|language| language.grammar().is_some())
}

/// A block of whole rows of code, below rows that delimit it.
pub(crate) fn block_of_rows(
    lines: &Lines,
    language: Language,
    mark: usize,
    code: Range<usize>,
    end: usize,
) -> Block {
    Block {
        bytes: lines.start(mark)..lines.start(end),
        code: lines.start(code.start)..lines.start(code.end),
        gutters: Vec::new(),
        language,
        has_units: false,
        references: References::default(),
    }
}
