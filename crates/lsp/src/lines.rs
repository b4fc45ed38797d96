//! Positions in texts: lines from 0, and characters in units of UTF-16, as clients count.

use std::ops::Range;

use lsp_types::Position;

/// The bytes where lines begin, the last one included if it is empty.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

/// The byte of a position in a text. A line after the last one is the end of the text, a character after the end of a
/// line its end.
pub(crate) fn byte_of(text: &str, position: Position) -> usize {
    let Some(start) = starts(text).nth(position.line as usize) else { return text.len() };
    start + byte_in_line(first_line(&text[start..]), position.character)
}

pub(crate) fn byte_in_line(line: &str, character: u32) -> usize {
    let mut n_units = 0;
    for (byte, found) in line.char_indices() {
        if n_units >= character as usize {
            return byte;
        }
        n_units += found.len_utf16();
    }
    line.len()
}

/// The character of a byte in a line, which is between two.
pub(crate) fn character_of(line: &str, byte: usize) -> u32 {
    let before = line.get(..byte).unwrap_or(line);
    u32::try_from(before.encode_utf16().count()).unwrap_or(u32::MAX)
}

/// A line, counted from 0, without its end.
pub(crate) fn line(text: &str, number: u32) -> Option<&str> {
    starts(text).nth(number as usize).map(|start| first_line(&text[start..]))
}

fn first_line(text: &str) -> &str {
    let line = text.split('\n').next().unwrap_or_default();
    line.strip_suffix('\r').unwrap_or(line)
}

/// The identifier around a byte of a line, or right before it.
pub(crate) fn identifier_at(line: &str, byte: usize) -> Option<Range<usize>> {
    let before = line.get(..byte)?;
    let start = before.rfind(|c: char| !is_word(c)).map_or(0, |at| at + char_len(before, at));
    let end = line[byte..].find(|c: char| !is_word(c)).map_or(line.len(), |length| byte + length);
    (start < end).then_some(start..end)
}

/// Ranges of a whole word in a line, from left to right.
pub(crate) fn occurrences<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let found = line.match_indices(word).map(|(start, _)| start..start + word.len());
    found.filter(move |found| {
        !word.is_empty() && !line[..found.start].ends_with(is_word) && !line[found.end..].starts_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_in_units_of_utf_16_and_within_the_text() {
        let text = "a\r\n😀b\n\nend";
        let byte = |line, character| byte_of(text, Position { line, character });
        assert_eq!((byte(0, 0), byte(0, 1), byte(0, 9)), (0, 1, 1));
        assert_eq!((byte(1, 0), byte(1, 2), byte(1, 3), byte(1, u32::MAX)), (3, 7, 8, 8));
        // In the middle of a character.
        assert_eq!(byte(1, 1), 7);
        assert_eq!((byte(2, 4), byte(3, 3), byte(4, 0), byte(u32::MAX, 7)), (9, 13, 13, 13));
        assert_eq!(character_of("😀b", 4), 2);
        assert_eq!((line(text, 1), line(text, 2), line(text, 4)), (Some("😀b"), Some(""), None));
    }

    #[test]
    fn identifiers_are_found_around_a_position() {
        let at = |line: &'static str, byte| identifier_at(line, byte).map(|range| &line[range]);
        assert_eq!(at("self.open_file(x)", 7), Some("open_file"));
        assert_eq!(at("self.open_file(x)", 14), Some("open_file"));
        assert_eq!(at("a + b", 2), None);
        assert_eq!(at("«höhe»", 5), Some("höhe"));
        assert_eq!(at("", 0), None);
        assert_eq!(at("ab", 9), None);
        let all: Vec<_> = occurrences("open(reopen, open)", "open").collect();
        assert_eq!(all, [0..4, 13..17]);
        assert_eq!(occurrences("open", "").count(), 0);
    }
}
