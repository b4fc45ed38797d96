//! Finds the spans of values in a JSON text. serde_json has already validated the text, so nothing is checked here;
//! for other text the spans are meaningless, but within bounds.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use serde::Deserialize;

/// The spans of the keys and values of the object at `start`, without leading white space; none if it is not an object.
pub(crate) fn members(text: &[u8], start: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut next = inside(text, start, b'{');
    iter::from_fn(move || {
        let key = value_at(text, next?)?;
        let colon = skip_space(text, key.end);
        let value = value_at(text, colon + 1)?;
        next = after_comma(text, value.end);
        Some((key, value))
    })
}

/// The spans of the elements of the array at `start`, likewise.
pub(crate) fn elements(text: &[u8], start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut next = inside(text, start, b'[');
    iter::from_fn(move || {
        let element = value_at(text, next?)?;
        next = after_comma(text, element.end);
        Some(element)
    })
}

fn inside(text: &[u8], start: usize, bracket: u8) -> Option<usize> {
    let start = skip_space(text, start);
    (text.get(start) == Some(&bracket)).then_some(start + 1)
}

fn after_comma(text: &[u8], at: usize) -> Option<usize> {
    let comma = skip_space(text, at);
    (text.get(comma) == Some(&b',')).then_some(comma + 1)
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The value that begins at `at`, or after white space there; none at the end of an object, an array or the text.
pub(crate) fn value_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    let start = skip_space(text, at);
    let end = match text.get(start)? {
        b'}' | b']' => return None,
        b'"' => string_end(text, start),
        b'{' | b'[' => container_end(text, start),
        _ => {
            let is_over = |byte: &u8| b",]}".contains(byte) || byte.is_ascii_whitespace();
            text[start..].iter().position(is_over).map_or(text.len(), |length| start + length)
        }
    };
    Some(start..end)
}

/// The string at a span; none if something else is there. Invalid characters (half of a surrogate pair, bytes that are
/// not UTF-8) are replaced.
pub(crate) fn string(text: &[u8], span: Range<usize>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let string = text.get(span)?;
    let inner = string.strip_prefix(b"\"")?;
    if let Ok(Text(read)) = serde_json::from_slice(string) {
        return Some(read);
    }
    Some(Cow::Owned(unescaped(&String::from_utf8_lossy(inner.strip_suffix(b"\"").unwrap_or(inner)))))
}

/// Content of a quoted string that serde_json rejects.
fn unescaped(inner: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' { rest.next() } else { None };
        let plain = match escaped.unwrap_or(c) {
            _ if escaped.is_none() => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits = rest.as_str().get(..4).unwrap_or_default();
                let unit = u16::from_str_radix(digits, 16).unwrap_or(char::REPLACEMENT_CHARACTER as u16);
                rest = rest.as_str().get(4..).unwrap_or_default().chars();
                units.push(unit);
                continue;
            }
            c => c,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16_lossy(&units)
}

/// After the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// After the object or array that begins at `start`.
fn container_end(text: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = text.get(at) {
        at = if *byte == b'"' { string_end(text, at) } else { at + 1 };
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found() {
        let text = br#" { "a" : [1, "]\"", {"b": [[]]}] , "c\\" :null,"d":-1e5 }"#;
        let found: Vec<(&[u8], &[u8])> =
            members(text, 0).map(|(key, value)| (&text[key], &text[value])).collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(br#""a""#, br#"[1, "]\"", {"b": [[]]}]"#), (br#""c\\""#, b"null"), (br#""d""#, b"-1e5")];
        assert_eq!(found, expected);
        let list: Vec<&[u8]> = elements(text, 8).map(|element| &text[element]).collect();
        assert_eq!(list, [&b"1"[..], br#""]\"""#, br#"{"b": [[]]}"#]);
    }

    #[test]
    fn invalid_characters_are_replaced() {
        let check = |text: &[u8], expected: Option<&str>| {
            let found = string(text, 0..text.len());
            assert_eq!(found.as_deref(), expected, "{}", String::from_utf8_lossy(text));
        };
        check(br#""a\n\u00e4\ud83d\ude00""#, Some("a\nä\u{1f600}"));
        check(br#""\ud800""#, Some("\u{fffd}"));
        check(br#""a\ude00\tb\"\\\/\u0041\ud83d\ude00\ud83d""#, Some("a\u{fffd}\tb\"\\/A\u{1f600}\u{fffd}"));
        check(b"\"\xe4\\n\"", Some("\u{fffd}\n"));
        check(b"\"\xe4\\u12", Some("\u{fffd}\u{fffd}"));
        check(b"null", None);
        check(b"", None);
    }

    #[test]
    fn scalars_have_no_items() {
        for text in [&b"{}"[..], b"[ ]", b"1", b"\"[1]\"", b"", b"{\"a\"", b"[\"\\", b"[\"a\\\""] {
            assert_eq!(members(text, 0).count(), 0, "{}", String::from_utf8_lossy(text));
            let in_text = elements(text, 0).all(|element| element.end <= text.len());
            assert!(in_text, "{}", String::from_utf8_lossy(text));
        }
    }
}
