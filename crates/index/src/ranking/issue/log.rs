//! Lines of logs: the message after a time, a level, a process and the like.
//!
//! The formats are data, `crates/index/log-prefixes.tsv`: patterns of what precedes a message, tried in their order. Lines of
//! JSON have the message as a member.

use std::sync::LazyLock;

/// The formats: a name, a pattern, and an example with its message.
const FORMATS: &str = include_str!("../../../log-prefixes.tsv");

/// Words for levels, in upper case. A single letter is a level only where a pattern asks for one.
const LEVELS: [&str; 28] = [
    "TRACE",
    "DEBUG",
    "VERBOSE",
    "FINE",
    "INFO",
    "INFORMATION",
    "NOTICE",
    "LOG",
    "WARN",
    "WARNING",
    "ERROR",
    "ERR",
    "SEVERE",
    "CRITICAL",
    "CRIT",
    "FATAL",
    "EMERG",
    "ALERT",
    "PANIC",
    "DPANIC",
    "EXCEPTION",
    "HINT",
    "DETAIL",
    "STATEMENT",
    "WRN",
    "INF",
    "DBG",
    "FTL",
];
const LETTERS: &str = "VDIWEF";

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Members of a JSON object that may be the message.
const MEMBERS: [&str; 4] = ["\"msg\"", "\"message\"", "\"log\"", "\"textPayload\""];

/// Maximum bytes of the prefix of a line.
const MAX_PREFIX: usize = 256;

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    /// One or more blanks.
    Blank,
    Date,
    Time,
    Number,
    /// Characters up to a blank, a bracket or, for the next piece, a colon.
    Word,
    Level,
    /// One character that is neither a letter nor a digit.
    Mark,
    /// Anything up to the next piece.
    Any,
}

static PATTERNS: LazyLock<Vec<Vec<Piece>>> = LazyLock::new(|| rows().map(|row| pieces(row[1])).collect());

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    FORMATS.lines().skip(1).map(|line| {
        let (format, rest) = line.split_once('\t').unwrap_or((line, ""));
        let (pattern, rest) = rest.split_once('\t').unwrap_or((rest, ""));
        // A line of a log may have tabs.
        let (example, message) = rest.rsplit_once('\t').unwrap_or((rest, ""));
        vec![format, pattern, example, message]
    })
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let field = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let known = field.and_then(|(name, rest)| {
            let piece = match name {
                "date" => Piece::Date,
                "time" => Piece::Time,
                "n" => Piece::Number,
                "word" => Piece::Word,
                "level" => Piece::Level,
                "mark" => Piece::Mark,
                "text" => Piece::Any,
                _ => return None,
            };
            Some((piece, rest))
        });
        let (piece, after) = match known {
            Some(known) => known,
            None if first == ' ' => (Piece::Blank, &rest[1..]),
            None => (Piece::Text(first.to_string()), &rest[first.len_utf8()..]),
        };
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The message of a line of a log; `None` if the line has no known prefix, or nothing after it.
pub(crate) fn logged(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with('{') {
        return member(line);
    }
    let head = &line[..line.floor_char_boundary(MAX_PREFIX)];
    if !head.bytes().any(|byte| byte.is_ascii_digit() || byte == b':') {
        return None;
    }
    let end = PATTERNS.iter().find_map(|pattern| after(pattern, head))?;
    let message = line[line.len().min(head.len() - end.len())..].trim();
    message.contains(char::is_alphabetic).then_some(message)
}

/// The text after a prefix that the pieces match.
fn after<'a>(pieces: &[Piece], text: &'a str) -> Option<&'a str> {
    let Some((piece, rest)) = pieces.split_first() else { return Some(text) };
    match piece {
        Piece::Text(literal) => after(rest, text.strip_prefix(literal.as_str())?),
        Piece::Blank => {
            let left = text.trim_start_matches([' ', '\t']);
            if left.len() == text.len() { None } else { after(rest, left) }
        }
        Piece::Date => after(rest, date(text)?),
        Piece::Time => after(rest, time(text)?),
        Piece::Number => after(rest, digits(text, 1, 20)?),
        Piece::Level => after(rest, level(text)?),
        Piece::Mark => {
            let mark = text.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())?;
            after(rest, &text[mark.len_utf8()..])
        }
        Piece::Word => {
            let end = text.find(|c: char| c.is_whitespace() || "[]()".contains(c)).unwrap_or(text.len());
            // An exception's class is part of the message.
            let is_name =
                |end: &usize| !["Error", "Exception"].iter().any(|class| text[..*end].ends_with(class));
            // The longest first: a name may contain the next piece.
            let mut ends = text[..end].char_indices().map(|(at, c)| at + c.len_utf8()).rev().filter(is_name);
            ends.find_map(|end| after(rest, &text[end..]))
        }
        Piece::Any => text.char_indices().find_map(|(at, _)| after(rest, &text[at..])),
    }
}

/// The text after `min` to `max` digits.
fn digits(text: &str, min: usize, max: usize) -> Option<&str> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    (min..=max).contains(&n).then(|| &text[n..])
}

/// `2024-01-02`, `24/01/02`, `01-02`, `Jan 2`, `02 Jan 2024`, `02/Jan/2024`, also after a day of the week.
fn date(text: &str) -> Option<&str> {
    let text = DAYS
        .iter()
        .find_map(|day| text.strip_prefix(day))
        .map_or(text, |rest| rest.trim_start_matches([',', ' ']));
    let month = |text| MONTHS.iter().find_map(|month| str::strip_prefix(text, *month));
    if let Some(rest) = month(text) {
        let rest = digits(rest.strip_prefix(' ')?.trim_start(), 1, 2)?;
        return Some(rest);
    }
    let separator = |text: &str| text.chars().next().filter(|c| "-/. ".contains(*c));
    let rest = digits(text, 1, 4)?;
    let by = separator(rest)?;
    let rest = rest.strip_prefix(by)?;
    if let Some(rest) = month(rest) {
        return digits(rest.strip_prefix(by)?, 4, 4);
    }
    let rest = digits(rest, 2, 2)?;
    Some(rest.strip_prefix(by).and_then(|rest| digits(rest, 2, 4)).unwrap_or(rest))
}

/// `03:04:05`, with a fraction and a time zone.
fn time(text: &str) -> Option<&str> {
    let rest = digits(text, 1, 2)?.strip_prefix(':')?;
    let rest = digits(rest, 2, 2)?.strip_prefix(':')?;
    let rest = digits(rest, 2, 2)?;
    let rest = rest.strip_prefix(['.', ',']).and_then(|rest| digits(rest, 1, 9)).unwrap_or(rest);
    for zone in ["Z", " UTC", " GMT", " CET"] {
        if let Some(rest) = rest.strip_prefix(zone) {
            return Some(rest);
        }
    }
    let offset = rest.trim_start_matches(' ').strip_prefix(['+', '-']).and_then(|rest| digits(rest, 2, 4));
    let offset =
        offset.map(|rest| rest.strip_prefix(':').and_then(|rest| digits(rest, 2, 2)).unwrap_or(rest));
    Some(offset.unwrap_or(rest))
}

fn level(text: &str) -> Option<&str> {
    let n = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = text[..n].to_ascii_uppercase();
    let is_letter = n == 1 && LETTERS.contains(word.as_str());
    (is_letter || LEVELS.contains(&word.as_str())).then(|| &text[n..])
}

/// The message of a JSON object, as it is written there.
fn member(line: &str) -> Option<&str> {
    MEMBERS.iter().find_map(|member| {
        let rest = line[line.find(member)? + member.len()..].trim_start().strip_prefix(':')?;
        let text = rest.trim_start().strip_prefix('"')?;
        let mut is_escaped = false;
        let end = text.char_indices().find_map(|(at, c)| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end.then_some(at)
        })?;
        let text = text[..end].trim().trim_end_matches("\\n");
        text.contains(char::is_alphabetic).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_line_without_its_prefix() {
        let mut n = 0;
        for row in rows() {
            let [format, pattern, line, message] = row[..] else { panic!("{row:?}") };
            assert!(!pattern.is_empty(), "{format}");
            assert_eq!(logged(line), Some(message), "{format}: {line}");
            n += 1;
        }
        assert!(n > 30);
    }

    #[test]
    fn a_json_line_has_its_message_as_a_member() {
        for line in [
            r#"{"level":"error","ts":1700000000.1,"logger":"http","msg":"cannot total the cart"}"#,
            r#"{"level":50,"time":1700000000,"pid":1,"msg" : "cannot total the cart","err":{"type":"Error"}}"#,
            r#"{"log":"cannot total the cart\n","stream":"stderr"}"#,
        ] {
            assert_eq!(logged(line), Some("cannot total the cart"), "{line}");
        }
        assert_eq!(logged(r#"{"msg":"a \"quoted\" word"}"#), Some(r#"a \"quoted\" word"#));
        assert_eq!(logged(r#"{"total": 3}"#), None);
    }

    #[test]
    fn the_class_of_an_exception_is_part_of_the_message() {
        let line = "2024-01-02 03:04:05 ERROR shop.TaxError: no tax";
        assert_eq!(logged(line), Some("shop.TaxError: no tax"));
    }

    #[test]
    fn other_text_has_no_prefix() {
        for text in [
            "cannot total the cart",
            "2024-01-02",
            "10:00 is too early",
            "12 items in the cart",
            "error: cannot total the cart",
            "std::vector: out of range",
            "what happened on Nov 28?",
            "3:4:5",
            "{",
            "",
            "日本語 1:2",
        ] {
            assert_eq!(logged(text), None, "{text}");
        }
    }
}
