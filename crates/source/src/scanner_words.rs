//! Code that a grammar's scanner would misread, in a form that it reads.
//!
//! A scanner of automatic semicolons looks ahead from the end of a line at the letters of the next word, and at no more:
//! `in1.close()` counts as the operator `in`, and `open = true` as a modifier before a declaration. The parser reads such
//! a word with another last letter, which leaves all positions as they are; names are taken from the code itself. And where
//! the file ends within a line, such a scanner may wait for its end for ever.

use std::borrow::Cow;

use serde::Deserialize;

/// Words that mean something else where they begin a line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScannerWords {
    /// Modifiers of declarations. They are names where an operator follows.
    modifiers: Vec<String>,
    /// Words that continue the line before. Like modifiers they are the beginning of a name where a digit or `_` follows.
    continuations: Vec<String>,
}

/// Operators, and brackets of arguments, of which one follows a name.
const AFTER_NAMES: &[u8] = b"=.?+-*%[(";

impl ScannerWords {
    /// The code for the parser: of equal length, but for a line end if it has none.
    pub(crate) fn readable<'a>(&self, code: &'a [u8]) -> Cow<'a, [u8]> {
        let mut readable = Cow::Borrowed(code);
        let mut start = 0;
        for line in code.split_inclusive(|byte| *byte == b'\n') {
            let text = line.trim_ascii_start();
            let at = start + line.len() - text.len();
            start += line.len();
            let length = text.iter().position(|byte| !byte.is_ascii_lowercase()).unwrap_or(text.len());
            let (word, rest) = text.split_at(length);
            let is = |words: &[String]| words.iter().any(|known| known.as_bytes() == word);
            if !is(&self.modifiers) && !is(&self.continuations) {
                continue;
            }
            let is_longer = rest.first().is_some_and(|next| next.is_ascii_digit() || *next == b'_');
            let is_name = rest.trim_ascii_start().first().is_some_and(|next| AFTER_NAMES.contains(next))
                && is(&self.modifiers);
            if is_longer || is_name {
                readable.to_mut()[at + length - 1] = b'X';
            }
        }
        if !code.trim_ascii().is_empty() && !code.ends_with(b"\n") {
            readable.to_mut().push(b'\n');
        }
        readable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_words_of_the_language_are_changed() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let words =
            ScannerWords { modifiers: words(&["open", "internal"]), continuations: words(&["in", "as"]) };
        for (code, expected) in [
            ("open = 1\n", "opeX = 1\n"),
            ("  open.close()\r\n  in1.close()\n", "  opeX.close()\r\n  iX1.close()\n"),
            ("open_all()\n", "opeX_all()\n"),
            ("open(1)", "opeX(1)\n"),
            ("open class A\n", "open class A\n"),
            ("internal\nset\n", "internal\nset\n"),
            ("inner.close()\nin 1..2\na in1\n", "inner.close()\nin 1..2\na in1\n"),
            ("as?", "as?\n"),
            (" ", " "),
        ] {
            assert_eq!(String::from_utf8_lossy(&words.readable(code.as_bytes())), expected, "{code}");
        }
    }
}
