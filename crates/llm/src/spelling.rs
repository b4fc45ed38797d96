//! Finding a secret in a text, in any encoding.
//!
//! Servers, gateways and models repeat keys verbatim, escaped for JSON, HTML or URLs, in base64 and in hexadecimal,
//! in another case, broken across lines or with invisible characters in between. All of that is found, even in JSON
//! inside of JSON. Reversed, encrypted, compressed, split or paraphrased secrets are not.

use std::iter;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Maximum number of skipped characters between two characters of a secret, and of interpretations of a position in a
/// text, so that hostile text does not take long.
const MAX_SKIPPED: usize = 64;

/// One encoding of a secret: a sequence of bytes, each of which may be escaped.
pub(crate) struct Spelling {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ignoring case.
    Plain,
    /// Ignoring case, with separators between.
    Hexadecimal,
    /// Part of a longer base64 word.
    Base64,
}

impl Spelling {
    /// The encodings of `secret`, which is ASCII without white space.
    pub(crate) fn all(secret: &str) -> Vec<Self> {
        // JSON writers put backslashes before other characters, so backslashes are skipped everywhere.
        let plain: Vec<u8> = secret.bytes().filter(|byte| *byte != b'\\').collect();
        let digits = quarry_files::hexadecimal(secret.as_bytes());
        let mut all = vec![
            Self { bytes: plain, kind: Kind::Plain },
            Self { bytes: digits.into_bytes(), kind: Kind::Hexadecimal },
        ];
        for before in 0..3 {
            let text = base64_within(secret, before);
            let for_addresses = text.replace('+', "-").replace('/', "_");
            if for_addresses != text {
                all.push(Self { bytes: for_addresses.into_bytes(), kind: Kind::Base64 });
            }
            all.push(Self { bytes: text.into_bytes(), kind: Kind::Base64 });
        }
        all.retain(|spelling| !spelling.bytes.is_empty());
        all
    }

    /// The byte ranges in `text` that contain it, in order.
    pub(crate) fn occurrences<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        let bytes = text.as_bytes();
        let mut from = 0;
        iter::from_fn(move || {
            let begins = (from..bytes.len()).filter(|&begin| self.may_begin(bytes, begin));
            let found = { begins }.find_map(|begin| self.end(text, begin).map(|end| begin..end))?;
            let found = self.without_escape(text, found);
            let position = match self.kind {
                Kind::Plain => found,
                Kind::Hexadecimal => {
                    let before = &bytes[from..found.start];
                    let prefix = if before.ends_with(b"0x") || before.ends_with(b"0X") { 2 } else { 0 };
                    found.start - prefix..found.end
                }
                Kind::Base64 => word_around(bytes, found),
            };
            from = position.end;
            Some(position)
        })
    }

    /// The same occurrence from a later position, if it begins within an escape that may stand for another character:
    /// what is left of that would be no escape.
    fn without_escape(&self, text: &str, found: Range<usize>) -> Range<usize> {
        let bytes = text.as_bytes();
        if !is_in_escape(bytes, found.start) {
            return found;
        }
        let mut begins = (found.start + 1..found.end)
            .filter(|&begin| self.may_begin(bytes, begin) && !is_in_escape(bytes, begin));
        begins
            .find(|&begin| self.end(text, begin) == Some(found.end))
            .map_or(found.clone(), |begin| begin..found.end)
    }

    /// Whether this position is worth a closer look.
    fn may_begin(&self, bytes: &[u8], at: usize) -> bool {
        // Characters skipped before a secret belong to its first character; otherwise a lone backslash would be left.
        if at > 0 && is_mark(bytes[at - 1]) {
            return false;
        }
        let is_second = |next: &u8| {
            !next.is_ascii_alphanumeric() || self.bytes.get(1).is_none_or(|second| self.is(*next, *second))
        };
        matches!(bytes[at], b'%' | b'&')
            || is_mark(bytes[at])
            || self.is(bytes[at], self.bytes[0]) && bytes.get(at + 1).is_none_or(is_second)
    }

    fn is(&self, byte: u8, wanted: u8) -> bool {
        byte == wanted || self.kind != Kind::Base64 && byte.eq_ignore_ascii_case(&wanted)
    }

    /// The end of the occurrence that starts at `begin`, if there is one.
    fn end(&self, text: &str, begin: usize) -> Option<usize> {
        let mut positions = vec![begin];
        for (number, &wanted) in self.bytes.iter().enumerate() {
            let mut next = Vec::new();
            for &position in &positions {
                self.step(text, begin, position, (number > 0).then_some(number), wanted, &mut next);
            }
            next.sort_unstable();
            next.dedup();
            next.truncate(MAX_SKIPPED);
            if next.is_empty() {
                return None;
            }
            positions = next;
        }
        positions.last().copied()
    }

    /// Adds the positions after the byte `wanted`, which may be preceded by skipped characters. Before the first byte
    /// of a secret, only backslashes are skipped.
    fn step(
        &self,
        text: &str,
        begin: usize,
        position: usize,
        number: Option<usize>,
        wanted: u8,
        next: &mut Vec<usize>,
    ) {
        let bytes = text.as_bytes();
        // Each with whether an escaped backslash precedes it.
        let mut open = vec![(position, false)];
        for count in 0..MAX_SKIPPED {
            let Some(&(at, is_escaped)) = open.get(count) else { return };
            let Some(&byte) = bytes.get(at) else { continue };
            let mut pass = |to: usize, is_escaped: bool| {
                if !open.contains(&(to, is_escaped)) {
                    open.push((to, is_escaped));
                }
            };
            if self.is(byte, wanted) {
                next.push(at + 1);
            }
            let is_after_backslash = is_escaped || at > begin && bytes[at - 1] == b'\\';
            if let Some((found, length)) = escaped(&bytes[at..], is_after_backslash) {
                match u8::try_from(found) {
                    Ok(found) if self.is(found, wanted) => next.push(at + length),
                    Ok(found) if is_mark(found) => pass(at + length, found == b'\\'),
                    _ if number.is_some() && char::from_u32(found).is_some_and(is_passed_over) => {
                        pass(at + length, false)
                    }
                    // A byte of a multi-byte character.
                    Ok(128..) if number.is_some() && byte == b'%' => pass(at + length, false),
                    _ => {}
                }
            }
            if is_mark(byte) {
                pass(at + 1, false);
            } else if number.is_some() {
                match text.get(at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if is_passed_over(c) => pass(at + c.len_utf8(), false),
                    Some('n' | 'r' | 't') if is_after_backslash => pass(at + 1, false),
                    _ => {}
                }
            }
            // Between two bytes of two digits each.
            if self.kind == Kind::Hexadecimal && number.is_some_and(|number| number.is_multiple_of(2)) {
                match &bytes[at..] {
                    [b':' | b'-' | b',', ..] => pass(at + 1, false),
                    [b'0', b'x' | b'X', ..] => pass(at + 2, false),
                    _ => {}
                }
            }
        }
    }
}

/// The base64 characters that any text has which contains `secret` after a number of bytes that leaves the remainder
/// `before` modulo three; without those that depend on the surrounding text.
fn base64_within(secret: &str, before: usize) -> String {
    let text = STANDARD_NO_PAD.encode([vec![0; before], secret.as_bytes().to_vec()].concat());
    let bits = 8 * (before + secret.len());
    text[(8 * before).div_ceil(6)..bits / 6].to_owned()
}

/// The complete base64 word around `found`: the rest reveals some bits of the secret, and may contain other secrets.
fn word_around(bytes: &[u8], found: Range<usize>) -> Range<usize> {
    let is_inner =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    let mut start = found.start - bytes[..found.start].iter().rev().take_while(|byte| is_inner(byte)).count();
    // A character after a backslash belongs to the escape.
    if start < found.start && start > 0 && bytes[start - 1] == b'\\' {
        let length = match bytes[start] {
            b'u' => 5,
            b'x' => 3,
            _ => 1,
        };
        start = found.start.min(start + length);
    }
    let end = found.end + bytes[found.end..].iter().take_while(|byte| is_inner(byte)).count();
    start..end
}

/// Whether a position is that of a digit in an escape such as `\u0022`, whose backslash may be an escape, too.
fn is_in_escape(bytes: &[u8], at: usize) -> bool {
    let n_digits = bytes[..at].iter().rev().take(3).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let begins =
        |before: &[u8]| [b"\\u".as_slice(), b"u005cu", b"u005Cu"].iter().any(|begin| before.ends_with(begin));
    bytes[at].is_ascii_hexdigit() && (0..=n_digits).any(|n| begins(&bytes[..at - n]))
}

/// Backslashes, and the zero bytes between letters in UTF-16 text.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\\' | 0)
}

/// Characters that may occur within a secret without changing how it looks: white space, where it is broken, and
/// invisible characters.
fn is_passed_over(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || matches!(c, '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The character that an escape at the beginning of `bytes` stands for, and the length of the escape.
fn escaped(bytes: &[u8], is_after_backslash: bool) -> Option<(u32, usize)> {
    let number = |digits: &[u8], radix: u32| {
        let is_number = !digits.is_empty() && digits.iter().all(|digit| char::from(*digit).is_digit(radix));
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
        u32::from_str_radix(digits, radix).ok()
    };
    let until = |rest: &[u8], end: u8| rest.iter().take(10).position(|&byte| byte == end);
    match bytes {
        // The percent sign itself may be escaped.
        [b'%', rest @ ..] => {
            let mut length = 1;
            while rest.get(length - 1..length + 1) == Some(b"25") && rest.len() >= length + 3 {
                length += 2;
            }
            Some((number(rest.get(length - 1..length + 1)?, 16)?, length + 2))
        }
        [b'&', b'#', rest @ ..] => {
            let length = until(rest, b';')?;
            let found = match &rest[..length] {
                [b'x' | b'X', digits @ ..] => number(digits, 16)?,
                digits => number(digits, 10)?,
            };
            Some((found, length + 3))
        }
        _ if !is_after_backslash => None,
        [b'u', b'{', rest @ ..] => {
            let length = until(rest, b'}')?;
            Some((number(&rest[..length], 16)?, length + 3))
        }
        [b'u', rest @ ..] => Some((number(rest.get(..4)?, 16)?, 5)),
        [b'U', rest @ ..] => Some((number(rest.get(..8)?, 16)?, 9)),
        [b'x', rest @ ..] => Some((number(rest.get(..2)?, 16)?, 3)),
        [b'0'..=b'7', ..] => {
            let digits = bytes.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            Some((number(&bytes[..digits], 8)?, digits))
        }
        _ => None,
    }
}
