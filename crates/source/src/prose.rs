//! Splits prose into sections, and finds the code in it.

use std::time::Duration;

use crate::block::Block;
use crate::definition::Structure;
use crate::language::Prose;
use crate::line::Lines;
use crate::section::Headings;
use crate::{asciidoc, markdown, restructuredtext};

impl Prose {
    /// The sections of a text, each from its heading to the next heading of any level; `None` if finding them takes
    /// longer than `time`. `headings` are those above the text, and become those at its end.
    pub(crate) fn find_sections(
        self,
        lines: &Lines,
        time: Duration,
        headings: &mut Headings,
    ) -> Option<Structure> {
        match self {
            Self::Markdown => markdown::find_sections(lines, time, headings),
            Self::ReStructuredText => Some(restructuredtext::find_sections(lines, headings)),
            Self::AsciiDoc => Some(asciidoc::find_sections(lines, headings)),
        }
    }

    /// The blocks of code that is in a language with a grammar, ascending; without what is not found within `time`.
    pub(crate) fn find_blocks(self, source: &[u8], time: Duration) -> Vec<Block> {
        match self {
            Self::Markdown => markdown::find_fences(source, time),
            Self::ReStructuredText => restructuredtext::find_blocks(source),
            Self::AsciiDoc => asciidoc::find_blocks(source),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks the names and starts of the sections of a text.
    #[track_caller]
    pub(crate) fn check_sections(prose: Prose, source: &[u8], expected: &[(&str, usize)]) {
        let lines = Lines::new(source);
        let structure = prose.find_sections(&lines, Duration::MAX, &mut Headings::default());
        let sections: Vec<_> = structure
            .iter()
            .flat_map(|structure| &structure.definitions)
            .map(|d| (d.name.as_str(), d.bytes.start))
            .collect();
        assert_eq!(sections, expected);
    }

    /// Checks the languages and texts of the blocks of code in a text.
    #[track_caller]
    pub(crate) fn check_blocks(prose: Prose, source: &str, expected: &[(&str, &str)]) {
        let found = prose.find_blocks(source.as_bytes(), Duration::MAX);
        let found: Vec<_> =
            found.iter().map(|block| (block.language.name(), &source[block.code.clone()])).collect();
        assert_eq!(found, expected, "{source}");
    }
}
