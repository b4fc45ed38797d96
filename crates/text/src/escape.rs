//! Texts of others on their way to a reader that obeys some characters: a terminal, an agent, a page.

use std::borrow::Cow;

/// Whether a character changes the direction of the text around it, so that source looks like other source: what Unicode
/// calls `Bidi_Control`.
#[must_use]
pub fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a reader may obey a character instead of showing it: control characters, with which the sequences begin that
/// terminals obey (some from U+0080 on too), separators of lines and paragraphs, and those that change the direction.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || changes_direction(c)
}

/// A text that was read somewhere, on one line: what could speak to the reader, begin another line, or make text stand
/// where it does not is written as an escape, such as `\u{1b}`. Tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, &['\t'], |out, c| out.extend(c.escape_default()))
}

/// [`printable`] of a text of several lines.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'], |out, c| out.extend(c.escape_default()))
}

/// A text in which what readers [obey](is_obeyed) is escaped, except the characters of `kept`.
pub fn escaped<'a>(text: &'a str, kept: &[char], escape: fn(&mut String, char)) -> Cow<'a, str> {
    let is_bad = |c: char| is_obeyed(c) && !kept.contains(&c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) { escape(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_obey_is_escaped() {
        assert_eq!(
            printable("a\x1b[31m\tb\r\n\u{9b}c\u{2028}\u{202e}\u{200f}\x7f"),
            r"a\u{1b}[31m	b\r\n\u{9b}c\u{2028}\u{202e}\u{200f}\u{7f}"
        );
        assert_eq!(harmless("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert!(matches!(printable("größer, 名前, \u{1f600}"), Cow::Borrowed(_)));
    }
}
