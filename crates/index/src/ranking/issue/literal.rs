//! Matches messages with the string literals of a source that prints them.
//!
//! A literal is split at placeholders (`%s`, `{}`, `${x}`, `#{x}`) and escapes; the remaining pieces must occur in the
//! message, in this order. Only the letters of the message count, without those of values (numbers, paths, quoted
//! words) that no literal has.

use std::ops::Range;

use super::line::raised;

/// Minimum letters and digits of a piece of a literal; a shorter one could be anywhere.
const MIN_PIECE: usize = 4;

/// Maximum bytes of a literal or a message that are compared.
const MAX_BYTES: usize = 4096;

/// A message to be found among literals.
#[derive(Debug, Clone)]
pub struct Message {
    /// With single spaces, in lower case.
    text: String,
    /// Its beginning after an exception's class.
    start: usize,
    /// For each byte, true if it counts: letters and digits outside of values and placeholders.
    counts: Vec<bool>,
    total: usize,
}

impl Message {
    /// A message as it is pasted, with or without quotes around it or an exception's class before it; `None` if it has
    /// too few words to be distinctive.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // An exception's class does not count, but a literal may begin with such words.
        let (text, class) = match raised(text) {
            Some(whole) if whole.len() == text.len() => {
                (whole, whole.split_once(": ").map_or(0, |(class, _)| class.split_whitespace().count()))
            }
            Some(message) => (message, 0),
            None => (text, 0),
        };
        let text = normalized(truncated(unquoted(text.trim()), MAX_BYTES));
        let start = text.split(' ').take(class).map(|word| word.len() + 1).sum::<usize>().min(text.len());
        let mut counts = vec![false; text.len()];
        for word in text.split(' ') {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            if at >= start && !is_value(word) {
                let bytes = word.bytes().map(is_letter);
                counts[at..at + word.len()].iter_mut().zip(bytes).for_each(|(count, is)| *count = is);
            }
        }
        for placeholder in placeholders(&text) {
            counts[placeholder].fill(false);
        }
        let total = counts.iter().filter(|counts| **counts).count();
        let message = Self { text, start, counts, total };
        (message.n_words() >= 2 && total >= 2 * MIN_PIECE).then_some(message)
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.text[self.start..].split(' ')
    }

    /// Number of its words, without values.
    fn n_words(&self) -> usize {
        self.words().filter(|word| !is_value(word) && word.bytes().any(is_letter)).count()
    }

    /// Returns true if it is long enough to be a query of its own: of three words, or of four together with values.
    pub fn is_phrase(&self) -> bool {
        self.n_words() >= 3 || self.words().count() >= 4
    }

    /// Returns true if it has values or placeholders.
    pub fn has_values(&self) -> bool {
        self.words().any(is_value)
    }

    /// Its words without values and placeholders.
    pub fn fixed(&self) -> String {
        self.words().filter(|word| !is_value(word)).collect::<Vec<_>>().join(" ")
    }

    /// The share of the message that the literals of a source print, 0 to 1. Source that has the message outside of a literal,
    /// as templates do, counts nearly as much; docstrings and comments do not count.
    pub fn printed_by(&self, source: &str) -> f32 {
        let mut is_covered = vec![false; self.text.len()];
        let mut n_exact = 0;
        for literal in literals(source).filter(|literal| !literal.is_docstring).map(|literal| literal.text) {
            let literal = normalized(truncated(literal, MAX_BYTES));
            if let Some(found) = self.covered_by(&literal) {
                n_exact += 1;
                found.into_iter().for_each(|range| is_covered[range].fill(true));
            }
        }
        // Text in a literal counts even if it looks like a value.
        let n_covered = self.counted(&is_covered, true);
        let n_values = n_covered - self.counted(&is_covered, false);
        let printed = n_covered as f32 / (self.total + n_values) as f32;
        if n_exact > 0 && printed >= 1.0 {
            return printed;
        }
        if normalized(&without_comments(source)).contains(&self.text[self.start..]) {
            printed.max(0.95)
        } else {
            printed
        }
    }

    fn counted(&self, is_covered: &[bool], values: bool) -> usize {
        let bytes = self.text.bytes().zip(&self.counts).zip(is_covered);
        bytes
            .filter(|((byte, counts), covered)| **covered && (**counts || values && is_letter(*byte)))
            .count()
    }

    /// The ranges of the message that the pieces of a literal are in; `None` unless all are, in order.
    fn covered_by(&self, literal: &str) -> Option<Vec<Range<usize>>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for placeholder in
            placeholders(literal).into_iter().chain(std::iter::once(literal.len()..literal.len()))
        {
            // Marks at its ends may belong to a value, or be cut off.
            let is_mark = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
            pieces.push(literal[start..placeholder.start].trim_matches(is_mark));
            start = placeholder.end;
        }
        let mut found = Vec::new();
        let mut from = 0;
        // Short pieces count only between others.
        let mut short: Vec<&str> = Vec::new();
        for piece in pieces {
            match piece.bytes().filter(|byte| is_letter(*byte)).count() {
                0 => {}
                1..MIN_PIECE => short.push(piece),
                _ => {
                    let at = from + self.text[from..].find(piece)?;
                    for piece in short.drain(..) {
                        if let Some(before) = self.text[from..at].find(piece).filter(|_| !found.is_empty()) {
                            found.push(from + before..from + before + piece.len());
                        }
                    }
                    from = at + piece.len();
                    found.push(at..from);
                }
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

/// The text without a pair of quotes around it.
fn unquoted(text: &str) -> &str {
    let pairs = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”')];
    let inner = |(open, close)| text.strip_prefix(open)?.strip_suffix(close);
    pairs.into_iter().find_map(inner).unwrap_or(text)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Returns true if a word of a message is filled in by the program, or may be.
fn is_value(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ':', ';', ')']);
    word.bytes().any(|byte| byte.is_ascii_digit() || b"/\\{}<>'\"`=%$".contains(&byte))
}

/// The text with single spaces, in lower case.
fn normalized(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.extend(word.chars().flat_map(char::to_lowercase));
    }
    normal
}

fn truncated(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The placeholders and escapes of a literal, ascending and disjoint.
fn placeholders(literal: &str) -> Vec<Range<usize>> {
    let bytes = literal.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = match bytes[at] {
            b'\\' => escape(&bytes[at..]),
            b'%' => conversion(&bytes[at..]),
            b'{' => bracketed(&bytes[at..], b'}'),
            b'$' | b'#' if bytes.get(at + 1) == Some(&b'{') => 1 + bracketed(&bytes[at + 1..], b'}'),
            b'$' => {
                1 + bytes[at + 1..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                    .count()
            }
            _ => 0,
        };
        if length > 0 {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

/// The length of the escape that begins here: `\n`, `\"`.
fn escape(bytes: &[u8]) -> usize {
    // An escaped character beyond ASCII is kept.
    if bytes.get(1).is_some_and(u8::is_ascii) { 2 } else { 1 }
}

/// The length of a conversion as of `printf`, or Python's `%(name)s`; 0 if there is none.
fn conversion(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'(') {
        let named = bracketed(&bytes[1..], b')');
        let kind = bytes.get(1 + named).is_some_and(u8::is_ascii_alphabetic);
        return if named > 0 { 1 + named + usize::from(kind) } else { 0 };
    }
    let flags = bytes[1..].iter().take_while(|byte| b"-+#0123456789.*lhzjt".contains(byte)).count();
    if bytes.get(1 + flags).is_some_and(u8::is_ascii_alphabetic) { 2 + flags } else { 0 }
}

/// Maximum length of a placeholder in brackets, in bytes.
const MAX_PLACEHOLDER: usize = 120;

/// The length of a bracketed text, brackets included; 0 if they are not closed.
fn bracketed(bytes: &[u8], close: u8) -> usize {
    let end = bytes.iter().take(MAX_PLACEHOLDER).position(|byte| *byte == close);
    end.map_or(0, |end| end + 1)
}

/// A string literal, without its quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Literal<'a> {
    text: &'a str,
    /// True if it is a statement of its own, as docstrings are, and not a value.
    is_docstring: bool,
}

/// The string literals of a source in any language, by their quotes alone. A literal in single or double quotes ends with its
/// line.
fn literals(source: &str) -> impl Iterator<Item = Literal<'_>> {
    let bytes = source.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += bytes.get(at..)?.iter().position(|byte| b"\"'`".contains(byte))?;
            let quote = bytes[at];
            if at > 0 && bytes[at - 1] == b'\\' {
                at += 1;
                continue;
            }
            let is_triple = quote != b'`' && bytes[at..].starts_with(&[quote; 3]);
            let start = at + if is_triple { 3 } else { 1 };
            let Some(end) = literal_end(bytes, start, quote, is_triple) else {
                // An apostrophe, or the lifetime of a reference.
                at += 1;
                continue;
            };
            at = end + if is_triple { 3 } else { 1 };
            let is_docstring = is_triple && stands_alone(&source[..start - 3]);
            return Some(Literal { text: &source[start..end], is_docstring });
        }
    })
}

/// Returns true if a literal in triple quotes after some source is a statement: it begins its line, and the line
/// before does not continue.
fn stands_alone(before: &str) -> bool {
    let before = before.trim_end_matches(['r', 'R', 'u', 'U']);
    let Some(previous) = before.trim_end_matches([' ', '\t']).strip_suffix('\n') else {
        return before.trim().is_empty();
    };
    !previous.trim_end().ends_with(['(', '[', '{', ',', '=', '+', '\\', '%'])
}

/// Beginnings of comments in common languages, on lines of their own.
const COMMENTS: [&str; 7] = ["//", "#", "/*", "* ", "--", ";", "<!--"];

/// A source without docstrings and lines of comments.
fn without_comments(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    let docstrings = literals(source).filter(|literal| literal.is_docstring);
    for Literal { text, .. } in docstrings {
        let at = text.as_ptr() as usize - rest.as_ptr() as usize;
        kept.push_str(&rest[..at]);
        rest = &rest[at + text.len()..];
    }
    kept.push_str(rest);
    let is_comment = |line: &&str| COMMENTS.iter().any(|mark| line.trim_start().starts_with(mark));
    kept.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n")
}

/// Position at which the literal that begins at `start` ends; `None` if it does not end within `MAX_BYTES`.
fn literal_end(bytes: &[u8], start: usize, quote: u8, is_triple: bool) -> Option<usize> {
    let mut at = start;
    let reach = bytes.len().min(start + MAX_BYTES);
    while at < reach {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if !is_triple && quote != b'`' => return None,
            byte if byte == quote && (!is_triple || bytes[at..].starts_with(&[quote; 3])) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(message: &str, source: &str) -> f32 {
        Message::parse(message).unwrap().printed_by(source)
    }

    #[test]
    fn a_message_is_found_with_its_placeholders_filled_or_not() {
        for (message, source) in [
            ("cannot open the file", "raise Error('cannot open the file')"),
            ("Cannot open the  file", "raise Error('cannot open the file')"),
            ("cannot open %s for reading", "log(\"cannot open %s for reading\", path)"),
            ("cannot open /tmp/a.txt for reading", "log(\"cannot open %s for reading\", path)"),
            ("cannot open 'a' for reading", "f\"cannot open {path!r} for reading\""),
            ("no cart 12 of 40 customers", "format!(\"no cart {} of {n} customers\")"),
            ("no cart 12 of 40 customers", "`no cart ${cart.id} of ${n} customers`"),
            ("no cart 12 of 40 customers", "\"no cart #{id} of #{n} customers\""),
            ("no cart 12 of 40 customers", "'no cart %(id)s of %(n)d customers' % x"),
            ("no cart of customers", "\"no cart \"\n    \"of customers\""),
            ("\"no cart of customers\"", "x = 'no cart of customers'"),
            ("shop.CartError: no cart of customers", "x = 'no cart of customers'"),
            ("error: no cart of customers", "x = 'error: no cart of customers'"),
            ("ShopError: no cart of 12 customers", "x = 'ShopError: no cart of %d customers'"),
            ("no cart of 'x' with list ", "\"no cart of #{id} with list '#{list}': #{error}\""),
            ("It should have a `Cart`", "assert!(x, \"It should have a `Cart`\")"),
            ("no cart of customers", "raise Error(\n    \"\"\"no cart of customers\"\"\"\n)"),
        ] {
            assert!(printed(message, source) > 0.99, "{message} {source} {}", printed(message, source));
        }
    }

    #[test]
    fn other_literals_print_other_messages() {
        for (message, source) in [
            ("cannot open the file", "'cannot close the door'"),
            ("cannot open the file", "open the file cannot"),
            ("cannot open the file for reading", "'cannot'"),
            ("no cart of customers", "don't know 'no' 'of'"),
            ("no cart of customers", "def f():\n    \"\"\"No cart of customers.\"\"\"\n    return 'cart'"),
            ("no cart of customers", "\"\"\"No cart of customers.\"\"\""),
            ("no cart of customers", "// There is no cart of customers.\nlet x = 1;"),
            ("no cart of customers", "# no cart of customers\nx = 1"),
        ] {
            assert!(printed(message, source) < 0.5, "{message} {source} {}", printed(message, source));
        }
    }

    #[test]
    fn short_texts_are_no_messages() {
        for text in ["", "open", "a b", "12 13", "%s %s", "\"", "{} {}"] {
            assert!(Message::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn hostile_sources_take_linear_time() {
        let message = Message::parse("cannot open the file").unwrap();
        for unit in ["'", "\"", "{", "%(", "\\", "`", "${", "\"\"\"", "a'", "é"] {
            let source = unit.repeat((256 << 10) / unit.len());
            assert!(message.printed_by(&source) < 0.5, "{unit}");
            let _ = Message::parse(&source).map(|message| message.printed_by("'cannot open the file'"));
        }
    }
}
