//! Escapes untrusted text for terminals, agents and pages.

use std::borrow::Cow;

/// Returns whether a character changes the direction of text (Unicode's `Bidi_Control`), which can make code look like
/// other code.
pub fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character is a tag (or reserved beside them): invisible to people, but letters to language models.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e00ff}')
}

/// Returns whether a character of untrusted text needs an escape: control characters, which begin the sequences that
/// terminals obey (some from U+0080 on), separators of lines and paragraphs, characters that change the direction of
/// text, and tags.
pub fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || changes_direction(c) || is_tag(c)
}

/// Untrusted text on one line: what [needs an escape](needs_escape) is written as one, such as `\u{1b}`. Tabs are kept.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, &['\t'], |out, c| out.extend(c.escape_default()))
}

/// Like [`printable`], for text of several lines.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'], |out, c| out.extend(c.escape_default()))
}

/// Untrusted text with what [needs it](needs_escape) escaped, except the characters in `kept`.
pub fn escaped<'a>(text: &'a str, kept: &[char], escape: fn(&mut String, char)) -> Cow<'a, str> {
    let is_bad = |c: char| needs_escape(c) && !kept.contains(&c);
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
    fn control_characters_are_escaped() {
        assert_eq!(
            printable("a\x1b[31m\tb\r\n\u{9b}c\u{2028}\u{202e}\u{200f}\x7f"),
            r"a\u{1b}[31m	b\r\n\u{9b}c\u{2028}\u{202e}\u{200f}\u{7f}"
        );
        assert_eq!(harmless("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert_eq!(printable("f\u{e0001}\u{e0069}\u{e007f}"), r"f\u{e0001}\u{e0069}\u{e007f}");
        assert!(matches!(printable("größer, 葛\u{e0100}, \u{1f600}"), Cow::Borrowed(_)));
    }
}
