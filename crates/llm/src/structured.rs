//! Reads what was asked for out of what a model wrote: JSON with prose, code fences or small mistakes around it.

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::beginning;

/// The most places in an answer where an object is looked for.
const MOST_STARTS: usize = 200;

/// The most bytes of an answer that are searched for an object that is not the whole of it.
const MOST_BYTES: usize = 1 << 20;

/// The most objects and arrays inside of each other that are read.
const DEEPEST: usize = 64;

/// The first JSON object in `text` that a `T` can be made of.
///
/// Strict JSON is taken as it is. Otherwise every `{` that is not inside an object that was read begins a candidate,
/// wherever it stands: in prose, in a fence, after hidden reasoning. Comments, trailing and missing commas, single
/// quotes, names without quotes and line ends inside of strings are forgiven. What is cut off is not: it may have said
/// something else.
///
/// # Errors
/// What is missing or of the wrong type in the first object there is, or that there is none.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut first_problem = None;
    for value in objects(text) {
        match serde_json::from_value(value) {
            Ok(found) => return Ok(found),
            Err(error) => {
                first_problem.get_or_insert(error.to_string());
            }
        }
    }
    Err(first_problem.unwrap_or_else(|| "expected a JSON object, and there is no complete one".to_owned()))
}

/// The objects in `text` that are not inside of another, in their order, each parsed as it is asked for.
fn objects(text: &str) -> impl Iterator<Item = Value> + '_ {
    let text = if text.len() > MOST_BYTES && serde_json::from_str::<Value>(text).is_err() {
        text.get(..text.floor_char_boundary(MOST_BYTES)).unwrap_or(text)
    } else {
        text
    };
    let mut rest = text;
    let mut starts = 0;
    std::iter::from_fn(move || {
        while starts < MOST_STARTS {
            rest = &rest[rest.find('{')?..];
            starts += 1;
            match object(rest) {
                Some((value, length)) => {
                    rest = &rest[length..];
                    return Some(value);
                }
                None => rest = &rest[1..],
            }
        }
        None
    })
}

/// The object at the beginning of `text` and its length in bytes.
fn object(text: &str) -> Option<(Value, usize)> {
    let mut strict = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Some(Ok(value)) = strict.next() {
        return Some((value, strict.byte_offset()));
    }
    let length = object_length(text)?;
    let options = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: true,
        allow_trailing_commas: true,
        allow_missing_commas: true,
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: true,
    };
    let written = escape_line_ends(&text[..length]);
    let value: Option<Value> = parse_to_serde_value(&written, &options).ok()?;
    value.filter(Value::is_object).map(|value| (value, length))
}

/// The number of bytes up to the `}` that closes the `{` at the beginning of `text`; brackets in strings do not count.
/// An apostrophe in a string of double quotes is no quote; outside of strings a `'` opens one, as it does in Python.
fn object_length(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            // Deeper objects are no answers, and a parser would run out of stack.
            (None, b'{' | b'[') if depth == DEEPEST => return None,
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            (None, _) => {}
        }
    }
    None
}

/// Writes line ends and tabs inside of strings as JSON wants them. Models that write code into JSON forget it.
fn escape_line_ends(text: &str) -> String {
    let (mut written, mut quote, mut escaped) = (String::with_capacity(text.len()), None, false);
    for c in text.chars() {
        match (quote, c) {
            (Some(_), '\n') => written.push_str("\\n"),
            (Some(_), '\r') => written.push_str("\\r"),
            (Some(_), '\t') => written.push_str("\\t"),
            (_, c) => written.push(c),
        }
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            _ => {}
        }
    }
    written
}

/// Why `text` cannot be used, with its beginning, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    beginning(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Verdict {
        analysis: String,
        #[serde(alias = "judgment")]
        judgement: String,
    }

    fn check(text: &str, analysis: &str, judgement: &str) {
        let expected = Verdict { analysis: analysis.to_owned(), judgement: judgement.to_owned() };
        assert_eq!(json::<Verdict>(text), Ok(expected), "{text}");
    }

    #[test]
    fn json_is_found_in_what_models_write() {
        check(r#"{"analysis": "a", "judgement": "yes"}"#, "a", "yes");
        check("```json\n{\"analysis\": \"a\", \"judgment\": \"no\"}\n```", "a", "no");
        check(
            "Sure! Here it is:\n{\"analysis\": \"a\", \"judgement\": \"yes\",}\nAnything else?",
            "a",
            "yes",
        );
        check(
            "<think>a set {1, 2} or {\"analysis\": 3}</think>{'analysis': 'a', 'judgement': 'yes'}",
            "a",
            "yes",
        );
        check("{analysis: \"it's {not} done\", // so\n judgement: \"no\"}", "it's {not} done", "no");
        check(
            "{\"analysis\": \"two\nlines\t\\\"x\\\"\", \"judgement\": \"yes\"}",
            "two\nlines\t\"x\"",
            "yes",
        );
        check("{\"analysis\": \"a\"\n \"judgement\": \"yes\"}", "a", "yes");
        check("\u{feff}{\"analysis\": \"ä…\", \"judgement\": \"yes\"}", "ä…", "yes");
        check("code: if (x) { return \"}\"; } so {\"analysis\": \"a\", \"judgement\": \"yes\"}", "a", "yes");
    }

    #[test]
    fn what_is_missing_or_cut_is_said() {
        let problem = |text| json::<Verdict>(text).unwrap_err();
        assert!(problem("{\"analysis\": \"a\"}").contains("judgement"));
        assert!(problem("{\"analysis\": 1, \"judgement\": \"yes\"}").contains("expected a string"));
        for cut in [
            "",
            "no object",
            "{\"analysis\": \"a\", \"judgement\": \"ye",
            "{\"analysis\": \"a\", \"judgement\": ",
        ] {
            assert!(problem(cut).contains("no complete one"), "{cut}");
        }
    }

    /// Text without a brace, as it may stand around an object.
    fn prose() -> impl Strategy<Value = String> {
        "[^{}]{0,40}"
    }

    fn words() -> impl Strategy<Value = String> {
        prop_oneof![".{0,30}", "[a-z{}\\[\\]\"',:\\\\\n\t ]{0,30}"]
    }

    proptest! {
        /// Whatever an object says, and whatever stands around it, it is read as it was written.
        #[test]
        fn an_object_survives_what_is_around_it(
            before in prose(), after in ".{0,40}", analysis in words(), judgement in words(), fenced in any::<bool>(),
            pretty in any::<bool>(),
        ) {
            let value = json!({"analysis": analysis, "judgement": judgement});
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let text = if fenced { format!("{before}\n```json\n{text}\n```\n{after}") } else { format!("{before}{text}{after}") };
            prop_assert_eq!(json::<Verdict>(&text), Ok(Verdict { analysis, judgement }));
        }

        /// Trailing commas, comments and raw line ends change nothing.
        #[test]
        fn small_mistakes_are_forgiven(before in prose(), analysis in words(), judgement in words()) {
            let raw = |text: &str| json!(text).to_string().replace("\\n", "\n").replace("\\t", "\t");
            // A backslash before an `n` would be read as the line end that it no longer is.
            prop_assume!(!analysis.contains('\\') && !judgement.contains('\\'));
            let text = format!(
                "{before}{{ // so\n \"analysis\": {}, judgement: {},\n}}", raw(&analysis), raw(&judgement)
            );
            prop_assert_eq!(json::<Verdict>(&text), Ok(Verdict { analysis, judgement }));
        }

        /// An object that is cut anywhere is not read.
        #[test]
        fn a_cut_object_is_not_read(analysis in words(), judgement in words(), at in any::<prop::sample::Index>()) {
            let text = json!({"analysis": analysis, "judgement": judgement}).to_string();
            let cut = text.floor_char_boundary(at.index(text.len()));
            prop_assert!(json::<Verdict>(&text[..cut]).is_err());
        }

        /// Any text at all gives an answer in bounded time.
        #[test]
        fn nothing_panics(text in prop_oneof![".{0,200}", "[{}\"':,a\\\\\n\\[\\]]{0,200}"]) {
            let _ = json::<Verdict>(&text);
        }
    }

    /// An answer of nothing but openings is given up soon.
    #[test]
    fn a_flood_of_brackets_is_given_up() {
        assert!(json::<Value>(&"{".repeat(5_000_000)).is_err());
        let deep = "{\"a\":".repeat(100_000);
        assert!(json::<Value>(&deep).is_err());
        assert!(json::<Vec<Value>>(&format!("{deep}1{}", "}".repeat(100_000))).is_err());
        assert!(
            json::<Vec<Value>>(&format!("{{a:{}1{}}}", "[".repeat(100_000), "]".repeat(100_000))).is_err()
        );
    }
}
