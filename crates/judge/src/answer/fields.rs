//! Finding named values in an answer, so that ambiguous values stay undecided.
//!
//! Models put `name: value` into JSON, lists, fences and emphasis; some also repeat the requested format, weigh
//! alternatives, change their mind, or are cut off. So every occurrence of a name with a value counts, and a value
//! counts only if it stands alone: `0 | 1`, `"0" or "1"` and `0,5` are not values. A name preceded by another word
//! is a different name: `not verdict: 1`, `a first verdict: 1`.

use std::borrow::Cow;

/// Maximum number of names in an answer; an answer with more repeats itself.
const MAX_NAMES: usize = 64;

/// Maximum number of characters of an unknown field name in JSON.
const MAX_NAME_CHARACTERS: usize = 60;

/// Names under which models give reasons, whatever name was requested: alone, or after another word and `_`.
const REASONS: [&str; 7] =
    ["explanation", "reason", "reasons", "reasoning", "analysis", "justification", "rationale"];

/// Words that negate the name after them, even with a colon or a dash in between.
const NEGATIONS: [&str; 6] = ["never", "no", "non", "nor", "not", "without"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerPart {
    Verdict,
    Reason,
    Confidence,
    /// A reason under a name that was not requested.
    Other,
}

pub(super) type FieldNames<'n> = [(AnswerPart, &'n str)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedValue {
    pub(super) part: AnswerPart,
    /// The value without surrounding markup if it is complete; otherwise the text found in its place.
    pub(super) value: String,
    /// True if the value is complete, with no other text beside it.
    pub(super) is_whole: bool,
    /// True if it is inside the quoted text of another value, or has words before its name. Then `value` is only
    /// its first word, which decides nothing, but may contradict the value that does.
    pub(super) is_mentioned: bool,
}

#[derive(Clone, Copy)]
struct NameSpan {
    part: AnswerPart,
    begin: usize,
    /// Byte offset of the text after the colon.
    value: usize,
}

/// All values that `answer` assigns to `names`, in order; `None` if there are too many. Names match in any case,
/// quoted or not, with spaces or dashes instead of `_`, before a colon or an equals sign. `is_value` returns true
/// for the values that a part may have.
pub(super) fn given(
    answer: &str,
    names: &FieldNames<'_>,
    is_value: &dyn Fn(AnswerPart, &str) -> bool,
) -> Option<Vec<NamedValue>> {
    let name_spans = name_spans(answer, names);
    if name_spans.len() > MAX_NAMES {
        return None;
    }
    let mut given = Vec::new();
    let mut quoted_until = 0;
    for (number, span) in name_spans.iter().enumerate() {
        let part = span.part;
        let of_part = |written: &str| is_value(part, written);
        let before = &answer[quoted_until.min(span.begin)..span.begin];
        // A value may be followed by a name without a separator.
        let is_behind_value = number.checked_sub(1).is_some_and(|last| {
            let last = name_spans[last];
            is_value(last.part, bare(&answer[last.value..span.begin]))
        });
        let is_decisive = matches!(part, AnswerPart::Verdict | AnswerPart::Confidence);
        if span.begin < quoted_until || is_decisive && !is_behind_value && follows_word(before) {
            let value = first_word(&answer[span.value..]).to_owned();
            given.push(NamedValue { part, value, is_whole: false, is_mentioned: true });
            continue;
        }
        let is_reason = matches!(part, AnswerPart::Reason | AnswerPart::Other);
        // A reason may mention reasons.
        let next = |from: usize| {
            let ends =
                |other: &&NameSpan| other.begin >= from && !(is_reason && other.part == AnswerPart::Other);
            name_spans.iter().find(ends).map_or(answer.len(), |next| next.begin)
        };
        let (value, is_whole) = match (quoted(answer, span.value), is_reason) {
            (Quoting::Closed { content, end }, _) => {
                quoted_until = end;
                let is_whole = is_alone(&answer[end..next(end)], &of_part) && of_part(bare(&content));
                (if is_whole { bare(&content).to_owned() } else { content }, is_reason || is_whole)
            }
            (Quoting::Open, false) => (answer[span.value..].trim().to_owned(), false),
            (Quoting::Open | Quoting::Not, true) => {
                (answer[span.value..next(span.value)].trim_matches(is_delimiter).to_owned(), true)
            }
            (Quoting::Not, false) => {
                let written = &answer[span.value..next(span.value)];
                let found = unquoted(written, &of_part);
                (found.unwrap_or(bare(written)).to_owned(), found.is_some())
            }
        };
        given.push(NamedValue { part, value, is_whole, is_mentioned: false });
    }
    Some(given)
}

/// The answer without the reasoning that some models put in `<think>` before it.
pub(super) fn without_thoughts(text: &str) -> &str {
    match text.split_once("</think>") {
        Some((_, answer)) => answer,
        // Reasoning that was cut off is not an answer.
        None if text.trim_start().starts_with("<think>") => "",
        None => text,
    }
}

/// Decodes `\u` escapes of ASCII letters, which JSON allows, so that they cannot hide a name.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    let Some((first, rest)) = text.split_once("\\u00") else { return Cow::Borrowed(text) };
    let mut plain = first.to_owned();
    for part in rest.split("\\u00") {
        let letter = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        match letter.filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_') {
            Some(letter) => {
                plain.push(letter);
                plain.push_str(&part[2..]);
            }
            None => {
                plain.push_str("\\u00");
                plain.push_str(part);
            }
        }
    }
    Cow::Owned(plain)
}

/// A value without the white space, quotes, emphasis and brackets around it and the punctuation after it.
pub(crate) fn bare(written: &str) -> &str {
    let mut value = written;
    loop {
        let less = value.trim_matches(is_markup).trim_end_matches(['.', ',', ';', '!']);
        if less.len() == value.len() {
            return value;
        }
        value = less;
    }
}

/// Returns whether two values are equal: numbers regardless of trailing zeros, words regardless of case.
pub fn is_same_value(a: &str, b: &str) -> bool {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.to_lowercase() == b.to_lowercase(),
        _ => false,
    }
}

/// The digits before and after the decimal point of a plain number.
fn number(text: &str) -> Option<(&str, &str)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number =
        whole.len() + part.len() > 0 && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    let is_plain = whole.len() < 2 || !whole.starts_with('0');
    (is_number && is_plain).then(|| (whole.trim_start_matches('0'), part.trim_end_matches('0')))
}

/// Returns whether a character around a value is only markup.
fn is_markup(c: char) -> bool {
    c.is_whitespace() || "\"'`*_[](){}“”‘’«»".contains(c)
}

/// Returns whether a character around a text is not part of it.
fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || ",;\"'`*[]{}()“”".contains(c)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first word of a value, including characters that may belong to a number.
fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| is_markup(c) || c == '\\');
    let end = text.find(|c: char| !is_word(c) && c != '.').unwrap_or(text.len());
    bare(&text[..end])
}

fn name_spans(answer: &str, names: &FieldNames<'_>) -> Vec<NameSpan> {
    let mut name_spans = Vec::new();
    let mut before = ' ';
    for (begin, c) in answer.char_indices() {
        let is_beginning = is_word(c) && !is_word(before);
        before = c;
        if !is_beginning || name_spans.len() > MAX_NAMES {
            continue;
        }
        let rest = &answer[begin..];
        let known = names.iter().filter_map(|(part, name)| Some((*part, name_at(rest, name)?)));
        // The longest match, in case one name is a prefix of another.
        let found = known.max_by_key(|(_, length)| *length).or_else(|| {
            let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
            let last = word.rsplit('_').next().unwrap_or_default().to_ascii_lowercase();
            REASONS.contains(&last.as_str()).then_some((AnswerPart::Other, word.len()))
        });
        let Some((part, length)) = found else { continue };
        if let Some(behind) = after_colon(&rest[length..]) {
            name_spans.push(NameSpan { part, begin, value: answer.len() - behind.len() });
        }
    }
    name_spans
}

/// Returns whether a word on the same line belongs to the name that follows: it is adjacent to the name, ignoring
/// quotes and emphasis, joined to it, or a negation. The number or letter of a list item does not count.
fn follows_word(before: &str) -> bool {
    let line = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "-*•>#".contains(c));
    let behind_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_counted = behind_digits.len() < line.len();
    let line = behind_digits.strip_prefix(['.', ')']).filter(|_| is_counted).unwrap_or(line);
    if line.ends_with(['!', '~', '¬', '≠', '^']) {
        return true;
    }
    let joined = line.trim_end_matches(['-', '–', '—', '/', '.', '&', '\\']);
    if joined.len() < line.len() && joined.ends_with(is_word) {
        return true;
    }
    let is_between = |c: char| c.is_whitespace() || "\"'`*_()“”‘’«»".contains(c);
    if line.trim_end_matches(is_between).ends_with(is_word) {
        return true;
    }
    let words = line.trim_end_matches(|c: char| is_between(c) || ":：-–—{}[]".contains(c));
    let last = words.rsplit(|c: char| !is_word(c)).next().unwrap_or_default();
    NEGATIONS.iter().any(|negation| last.eq_ignore_ascii_case(negation))
}

/// The length of a name in bytes if `text` begins with it.
fn name_at(text: &str, name: &str) -> Option<usize> {
    let mut rest = text.char_indices();
    for wanted in name.chars() {
        let (_, found) = rest.next()?;
        let is_joint = |c: char| matches!(c, '_' | '-' | ' ');
        let fits = found.to_lowercase().eq(wanted.to_lowercase()) || is_joint(found) && is_joint(wanted);
        if !fits {
            return None;
        }
    }
    let end = rest.next();
    if name.is_empty() || end.is_some_and(|(_, c)| is_word(c)) {
        return None;
    }
    Some(end.map_or(text.len(), |(end, _)| end))
}

/// The text after the colon or equals sign that follows a name.
fn after_colon(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(['"', '\'', '`', '*', ' ', '\t', ']', ')', '”', '’']);
    let rest = rest.strip_prefix([':', '=', '：'])?;
    Some(rest.trim_start_matches(['=', '>']))
}

enum Quoting {
    Closed {
        content: String,
        /// Byte offset after the closing quote.
        end: usize,
    },
    /// Begins with a quote that is never closed: the value was cut off, or only its first words are quoted.
    Open,
    Not,
}

fn quoted(answer: &str, from: usize) -> Quoting {
    let rest = answer[from..].trim_start_matches(|c: char| c.is_whitespace() || "*`_[({".contains(c));
    let open = rest.chars().next().unwrap_or_default();
    let close = match open {
        '"' | '\'' => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return Quoting::Not,
    };
    let inside = &rest[open.len_utf8()..];
    let start = answer.len() - inside.len();
    let mut is_escaped = false;
    for (at, c) in inside.char_indices() {
        let behind = at + c.len_utf8();
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            // Models forget to escape quotes within a value.
            _ if c == close && ends_value(&inside[behind..]) => {
                return Quoting::Closed { content: unescaped(&inside[..at]), end: start + behind };
            }
            _ => {}
        }
    }
    Quoting::Open
}

/// Returns whether a value may end before `rest`.
fn ends_value(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '*', '`', '_']);
    rest.is_empty() || rest.starts_with([',', ';', '}', ']', ')', '.', '\n', '\r'])
}

/// The text of a JSON string. Accepts unescaped line breaks, which models write.
fn unescaped(content: &str) -> String {
    let written = content.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    serde_json::from_str(&format!("\"{written}\"")).unwrap_or_else(|_| content.to_owned())
}

/// Returns whether nothing between a quoted value and the next name can be part of the value.
fn is_alone(behind: &str, is_value: &dyn Fn(&str) -> bool) -> bool {
    if behind.trim_matches(|c: char| is_markup(c) || ",;.".contains(c)).is_empty() {
        return true;
    }
    let rest = behind.trim_start_matches([' ', '\t', '*', '`', '_', ']', ')', '.']);
    match rest.strip_prefix('}') {
        Some(after) => !holds_value(after.lines().next().unwrap_or_default(), is_value),
        None => begins_with_name(rest) || rest.starts_with(['\n', '\r']) && !holds_value(rest, is_value),
    }
}

/// Returns whether a comma and an unknown JSON name come next.
fn begins_with_name(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix(',') else { return false };
    let rest = rest.trim_start();
    ['"', '\''].into_iter().any(|quote| {
        let name = rest.strip_prefix(quote).and_then(|rest| rest.split_once(quote));
        name.is_some_and(|(name, after)| {
            name.chars().count() <= MAX_NAME_CHARACTERS
                && !name.contains(['\n', ','])
                && after.trim_start().starts_with(':')
        })
    })
}

/// The value between a name and the next one: all of that text, one line of it followed by lines without a value,
/// or the text before another JSON name.
fn unquoted<'t>(written: &'t str, is_value: &dyn Fn(&str) -> bool) -> Option<&'t str> {
    let whole = bare(written);
    if is_value(whole) {
        return Some(whole);
    }
    let text = written.trim_start();
    let (line, others) = text.split_once('\n').unwrap_or((text, ""));
    let first = bare(line);
    if is_value(first) && !holds_value(others, is_value) {
        return Some(first);
    }
    let (before, _) = text.split_once(',')?;
    (is_value(bare(before)) && begins_with_name(&text[before.len()..])).then(|| bare(before))
}

/// Returns whether a word of `text` is a value.
fn holds_value(text: &str, is_value: &dyn Fn(&str) -> bool) -> bool {
    text.split(|c: char| !is_word(c) && c != '.').map(bare).any(|word| !word.is_empty() && is_value(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Vec<(AnswerPart, String, bool, bool)> {
        let names = [
            (AnswerPart::Verdict, "final_verdict"),
            (AnswerPart::Reason, "why"),
            (AnswerPart::Confidence, "sure"),
        ];
        let is_value = |part: AnswerPart, written: &str| match part {
            AnswerPart::Verdict => ["0", "0.5", "1"].iter().any(|value| is_same_value(value, written)),
            AnswerPart::Confidence => written.parse::<f64>().is_ok(),
            _ => false,
        };
        let given = given(answer, &names, &is_value).unwrap();
        given.into_iter().map(|given| (given.part, given.value, given.is_whole, given.is_mentioned)).collect()
    }

    #[track_caller]
    fn check(answer: &str, expected: &[(AnswerPart, &str, bool)]) {
        let expected: Vec<_> =
            expected.iter().map(|(part, value, whole)| (*part, (*value).to_owned(), *whole, false)).collect();
        assert_eq!(read(answer), expected, "{answer}");
    }

    #[test]
    fn values_are_found_in_any_dress() {
        use AnswerPart::{Confidence, Other, Reason, Verdict};
        let full = [(Verdict, "1", true), (Reason, "it adds, as asked", true)];
        check("final_verdict: 1, why: it adds, as asked", &full);
        check("[\"final_verdict\": \"1\", \"why\": \"it adds, as asked\"]", &full);
        check("```\n{final_verdict : 1\n,\n'Why' = it adds, as asked}\n```", &full);
        check("**final_verdict**: 1\n**why**: it adds, as asked", &full);
        check("**final_verdict: 1**\nwhy: it adds, as asked", &full);
        check("Final Verdict： “1”\nwhy: it adds, as asked", &full);
        check("{'final_verdict': '1', 'why': 'it adds, as asked'}", &full);
        check(
            "{\"final-verdict\": 1.0, \"why\": \"it\\u0020adds, as asked\"}",
            &[(Verdict, "1.0", true), full[1]],
        );
        check("why: it adds, as asked\nfinal_verdict: 1", &[full[1], full[0]]);
        check("final_verdict:\n1\n\nwhy: it adds, as asked", &full);
        check("The final_verdict is hard. my_final_verdict: 3. final_verdict: 1", &[full[0]]);
        check(
            "final_verdict: 1, final_explanation: so, sure: 0.5",
            &[full[0], (Other, "so", true), (Confidence, "0.5", true)],
        );
        check("{\"final_verdict\": 1, \"notes\": \"none\"}", &[full[0]]);
        check("{\"final_verdict\": \"1\", \"notes\": \"none\"}\nThat is all.", &[full[0]]);
        check("final_verdict: 1\nI am certain.", &[full[0]]);
        check(
            "why: the \"sum\", and it's 'right', final_verdict: 1",
            &[(Reason, "the \"sum\", and it's 'right", true), full[0]],
        );
        check("", &[]);
    }

    #[test]
    fn partial_values_are_none() {
        for written in [
            "0 | 1",
            "0,5",
            "0 or 1",
            "0 to 1",
            "1 / 2",
            "1 out of 2",
            "1, or 0",
            "\"0\" or \"1\"",
            "\"0\", \"1\"",
            "'0'/'1'",
            "\"1",
            "-1",
            "+1",
            "1e0",
            "01",
            "1?",
            "~1",
            "<1",
            "1 (mostly)",
            "1, because it does",
            "1 - yes",
            "[0, 1]",
            "[\"0\", \"1\"]",
            "1\nor 0",
            "1\n| 0",
            "\"1\"\nor 0",
            "",
            "null",
            "{\"0\": 1}",
            "0.5-1",
            "１",
        ] {
            let read = read(&format!("final_verdict: {written}"));
            assert!(read.iter().all(|(_, _, is_whole, _)| !is_whole), "{written}: {read:?}");
        }
    }

    #[test]
    fn a_name_within_the_text_of_another_value_is_mentioned() {
        let found = read("{\"why\": \"final_verdict: 0 would be wrong\", \"final_verdict\": \"1\"}");
        let values: Vec<_> =
            found.iter().map(|(_, value, whole, mentioned)| (value.as_str(), *whole, *mentioned)).collect();
        assert_eq!(
            values,
            [("final_verdict: 0 would be wrong", true, false), ("0", false, true), ("1", true, false)]
        );
    }

    #[test]
    fn a_name_with_a_word_before_it_decides_nothing() {
        for before in [
            "not ",
            "NOT **",
            "not a \"",
            "is not (",
            "(not) ",
            "not: ",
            "not - ",
            "{not: {",
            "non-",
            "pre/",
            "old.",
            "!",
            "~",
            "the ",
            "1. not ",
            "- not ",
            "why: it is not ",
            "\"why\": \"x\", not ",
        ] {
            let found = read(&format!("{before}final_verdict: 1"));
            let verdicts: Vec<_> = found.iter().filter(|found| found.0 == AnswerPart::Verdict).collect();
            assert!(matches!(verdicts[..], [(_, value, false, true)] if value == "1"), "{before}: {found:?}");
        }
        for before in [
            "",
            "not.\n",
            "No. ",
            "- ",
            "-",
            "1. ",
            "2) ",
            "> ",
            "### ",
            "| ",
            "**",
            "Done! ",
            "It does not; ",
            "Answer: ",
            "```json {\"",
            "json{",
            "{\"a\": 1, \"",
            "[{'",
            "sure: 0.5 ",
            "\"why\": \"it is not\", \"",
            "why: it is right, ",
        ] {
            let quote = if before.ends_with('"') { "\"" } else { "" };
            let found = read(&format!("{before}final_verdict{quote}: 1"));
            let verdicts: Vec<_> = found.iter().filter(|found| found.0 == AnswerPart::Verdict).collect();
            assert!(matches!(verdicts[..], [(_, value, true, false)] if value == "1"), "{before}: {found:?}");
        }
    }

    #[test]
    fn names_do_not_hide_in_escapes() {
        assert_eq!(
            without_escapes("{\"final\\u005fverdict\\u0022: 1, \\u00"),
            "{\"final_verdict\\u0022: 1, \\u00"
        );
        assert_eq!(without_escapes("\\u0041ä"), "Aä");
        assert_eq!(without_escapes("plain"), "plain");
    }

    #[test]
    fn thoughts_are_no_answer() {
        assert_eq!(
            without_thoughts("<think>final_verdict: 0</think>\nfinal_verdict: 1"),
            "\nfinal_verdict: 1"
        );
        assert_eq!(without_thoughts("perhaps 0</think>1"), "1");
        assert_eq!(without_thoughts("\n<think>final_verdict: 0"), "");
        assert_eq!(without_thoughts("a < think >"), "a < think >");
    }

    #[test]
    fn an_answer_that_repeats_itself_is_given_up() {
        let is_value = |_: AnswerPart, _: &str| true;
        let answer = "verdict: \"".repeat(200_000);
        assert_eq!(given(&answer, &[(AnswerPart::Verdict, "verdict")], &is_value), None);
    }
}
