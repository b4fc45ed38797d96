//! Lone surrogates: escapes such as `\ud800` in JSON that stand for half a character, which no text can hold.

/// The first escape in `json` that is half of a surrogate pair, if there is one. An escaped backslash before `u` is
/// not an escape.
pub fn lone_surrogate(json: &str) -> Option<&str> {
    let at = find(json, 0)?;
    json.get(at..at + ESCAPE_BYTES)
}

/// `json` with a backslash before each lone surrogate, which makes it a string of six characters. Otherwise, parsers
/// refuse the whole text, and an answer that was paid for could not be stored.
pub(crate) fn escaped(json: String) -> String {
    let Some(first) = find(&json, 0) else { return json };
    let mut escaped = String::with_capacity(json.len() + 8);
    let mut from = 0;
    let mut next = Some(first);
    while let Some(at) = next {
        escaped.push_str(&json[from..at]);
        escaped.push('\\');
        // The escape itself is copied with the text that follows.
        from = at;
        next = find(&json, at + ESCAPE_BYTES);
    }
    escaped.push_str(&json[from..]);
    escaped
}

/// Length of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = 6;

/// The byte offset of the first lone surrogate at or after `from`.
fn find(json: &str, from: usize) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == b'\\')?;
        match unit(bytes, at) {
            Some(0xd800..=0xdbff) if matches!(unit(bytes, at + ESCAPE_BYTES), Some(0xdc00..=0xdfff)) => {
                at += 2 * ESCAPE_BYTES;
            }
            Some(0xd800..=0xdfff) => return Some(at),
            Some(_) => at += ESCAPE_BYTES,
            None => at += 2,
        }
    }
}

/// The code unit that the escape at `at` stands for.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn halves_of_pairs_are_found_and_pairs_are_not() {
        for (json, expected) in [
            (r"a\ud800b", Some(r"\ud800")),
            (r"\uDFFF", Some(r"\uDFFF")),
            (r"\ud83d\ude00\ud83d", Some(r"\ud83d")),
            (r"\ud83d\ud83d\ude00", Some(r"\ud83d")),
            (r"\\\ud800", Some(r"\ud800")),
            (r"\ud83d\ude00", None),
            (r"\\ud800", None),
            (r"\u00e9 \n \ud80", None),
            ("ä\\", None),
        ] {
            assert_eq!(lone_surrogate(json), expected, "{json}");
        }
        assert_eq!(
            escaped(r#"["a\ud800\udc00\ud800b", "\udc00"]"#.to_owned()),
            r#"["a\ud800\udc00\\ud800b", "\\udc00"]"#
        );
    }

    proptest! {
        #[test]
        fn any_string_of_escapes_becomes_json(parts in prop::collection::vec(r"\\u[dD][89abc][0-9a-f]{2}|\\\\|[a-zä]", 0..12)) {
            let written = format!("\"{}\"", parts.concat());
            let read = serde_json::from_str::<String>(&escaped(written.clone()));
            prop_assert!(read.is_ok(), "{written}");
            if let Ok(known) = serde_json::from_str::<String>(&written) {
                prop_assert_eq!(read.unwrap(), known, "what can be read is not changed");
            }
        }
    }
}
