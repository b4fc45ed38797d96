//! Kinds of the lines of an issue, outside of stack traces.

use std::cmp::Reverse;

use super::log::logged;
use super::position::{Position, leading_number};

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind<'a> {
    /// A heading, of a section with content or without.
    Heading {
        is_noise: bool,
    },
    /// A heading or a label of a template, which says nothing.
    Template {
        is_heading: bool,
    },
    /// A version, an item of a checklist, a log line without a problem, or anything in a section of such.
    Noise,
    /// Code, or a command.
    Code(&'a str),
    /// The text of an error message, without a position and a level before it.
    Message(&'a str),
    Prose,
}

impl<'a> LineKind<'a> {
    /// The kind of a line that is not blank; `in_code` is true in a block of code, `in_noise` in a section that is
    /// noise.
    pub fn classify(text: &'a str, in_code: bool, in_noise: bool) -> Self {
        if !in_code && let Some(kind) = heading(text) {
            return kind;
        }
        if is_checklist(text) {
            return Self::Noise;
        }
        if let Some(message) = message(text) {
            return Self::Message(message);
        }
        if in_noise || is_log(text) || is_version(text) {
            return Self::Noise;
        }
        if let Some(code) = typed(text) {
            return code;
        }
        if let Some(code) = changed(text, in_code) {
            return Self::Code(code);
        }
        if in_code { Self::Code(text) } else { Self::Prose }
    }
}

/// Sections that say nothing about the code, by words in their headings.
const NOISE_SECTIONS: [&str; 24] = [
    "environment",
    "version",
    "versions",
    "system",
    "platform",
    "checklist",
    "region",
    "installed",
    "setup",
    "os",
    "specifications",
    "diagnose",
    "before",
    "dependencies",
    "device",
    "browser",
    "hardware",
    "terms",
    "conduct",
    "packages",
    "runtime",
    "config",
    "info",
    "do not remove",
];

/// Headings of templates, by their beginnings.
const TEMPLATES: [&str; 44] = [
    "description",
    "describe the",
    "to reproduce",
    "steps to reproduce",
    "steps",
    "how to reproduce",
    "reproduc",
    "minimal reproduc",
    "minimal complete",
    "expected",
    "actual",
    "observed",
    "current behavio",
    "additional",
    "screenshot",
    "what happened",
    "what did you expect",
    "what you expected",
    "anything else",
    "bug report",
    "bug",
    "issue",
    "summary",
    "problem",
    "context",
    "possible",
    "suggested",
    "proposed solution",
    "solution",
    "example",
    "code",
    "log",
    "verbose",
    "output",
    "relevant log",
    "mcve",
    "error",
    "traceback",
    "feature request",
    "is there an existing",
    "is your feature",
    "provide",
    "your project",
    "please",
];

/// The kind of a line, if it is a heading.
fn heading(text: &str) -> Option<LineKind<'_>> {
    let is_bold = |mark: &str| {
        text.len() > 2 * mark.len() && text.starts_with(mark) && text.trim_end_matches(':').ends_with(mark)
    };
    let is_marked = text.starts_with("# ")
        || text.starts_with("## ")
        || text.starts_with("###")
        || is_bold("**")
        || is_bold("__");
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .take(13)
        .map(str::to_lowercase)
        .collect();
    let is_label = text.ends_with(':') && words.len() <= 5;
    if text.starts_with("<details")
        || text.starts_with("<summary")
        || text.starts_with("</")
        || text.chars().all(|c| "-=_*~ ".contains(c))
    {
        return Some(LineKind::Template { is_heading: false });
    }
    if !is_marked && !is_label || words.is_empty() {
        return None;
    }
    let joined = words.join(" ");
    let is_short = words.len() <= 6;
    if TEMPLATES.iter().any(|template| joined.starts_with(template)) && (is_short || is_marked) {
        return Some(LineKind::Template { is_heading: is_marked });
    }
    let is_noise = is_short && is_marked && words.iter().any(|word| NOISE_SECTIONS.contains(&word.as_str()));
    if is_noise {
        return Some(LineKind::Heading { is_noise: true });
    }
    is_marked.then_some(LineKind::Heading { is_noise: false })
}

fn is_checklist(text: &str) -> bool {
    let item = text.trim_start_matches(['-', '*', '+', ' ']);
    ["[x]", "[X]", "[ ]", "[]"].iter().any(|mark| item.starts_with(mark))
}

/// Levels of logs that report no problem.
const QUIET_LEVELS: [&str; 6] = ["DEBUG", "INFO", "TRACE", "NOTICE", "VERBOSE", "FINE"];
/// Levels that do.
const LOUD_LEVELS: [&str; 9] =
    ["ERROR", "WARNING", "WARN", "CRITICAL", "FATAL", "SEVERE", "EXCEPTION", "PANIC", "ERR"];

/// Returns true if a line is from a log and reports no problem.
fn is_log(text: &str) -> bool {
    if ["[debug]", "[info]", "[download]"].iter().any(|level| text.starts_with(level)) {
        return true;
    }
    is_dated(text) && !LOUD_LEVELS.iter().any(|level| text.contains(level))
        || logged(text).is_some()
        || QUIET_LEVELS.iter().any(|level| {
            text.strip_prefix(level).is_some_and(|rest| rest.starts_with([':', ' ', '\t', '-', ']']))
        })
}

/// Returns true if a line begins with a time or date.
fn is_dated(text: &str) -> bool {
    let start: Vec<u8> = text.trim_start_matches(['[', '(']).bytes().take(10).collect();
    let shape: String =
        start.iter().map(|byte| if byte.is_ascii_digit() { '9' } else { char::from(*byte) }).collect();
    ["9999-99-99", "9999/99/99", "99:99:99"].iter().any(|date| shape.starts_with(date))
}

/// Returns true if a line is a name with a version.
fn is_version(text: &str) -> bool {
    let item = text.trim_start_matches(['-', '*', '+', '•', ' ']);
    let is_number = |word: &str| {
        let word = word
            .trim_start_matches(['v', '=', '(', '>', '<', '~', '^', '`'])
            .trim_end_matches([',', ')', ';', '`']);
        let mut parts = word.split('.');
        let first = parts.next().is_some_and(|part| {
            !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit())
        });
        first && parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut words = item.split([' ', ':', '\t', '=', '/']).filter(|word| !word.is_empty());
    let n_words = words.clone().take(9).count();
    n_words <= 8
        && words.any(is_number)
        && !item.ends_with(['.', '?', '!'])
        && !item.contains(['(', '[', '{', '"'])
        || item.starts_with("OS:")
        || item.starts_with("Python ") && item.contains("[GCC")
        || item.starts_with("Python 3.")
        || item.starts_with("Python 2.")
}

/// The kind of a line that was typed into a shell or an interpreter, or printed by one.
fn typed(text: &str) -> Option<LineKind<'_>> {
    for prompt in [">>> ", "... ", "$ ", "irb> ", "julia> "] {
        if let Some(code) = text.strip_prefix(prompt) {
            return Some(LineKind::Code(code));
        }
    }
    if let Some(rest) = text.strip_prefix("In [") {
        return rest.split_once("]: ").map(|(_, code)| LineKind::Code(code));
    }
    text.strip_prefix("Out[").map(|_| LineKind::Noise)
}

/// The code of a line of a diff.
fn changed(text: &str, in_code: bool) -> Option<&str> {
    if ["diff --git ", "index ", "--- a/", "+++ b/", "@@ -"].iter().any(|start| text.starts_with(start)) {
        return Some(text);
    }
    text.strip_prefix(['+', '-']).filter(|_| in_code)
}

/// The error message that a line is.
fn message(text: &str) -> Option<&str> {
    // After a position, as compilers print it.
    if let Some((place, rest)) = text.split_once(": ").or_else(|| text.split_once(" - "))
        && !place.contains(char::is_whitespace)
        && Position::parse(place).is_some_and(|position| position.line.is_some())
    {
        return Some(level(rest).unwrap_or(rest));
    }
    let uncaught = text.strip_prefix("Uncaught ").or_else(|| text.strip_prefix("Caused by: "));
    if let Some(rest) = uncaught {
        return Some(rest);
    }
    if let Some(message) = raised(text) {
        return Some(message);
    }
    if let Some(message) = logged(text)
        && is_loud(&text[..message.as_ptr() as usize - text.as_ptr() as usize])
    {
        return Some(message);
    }
    let level_at = |level: &&str| text.find(*level).map(|at| (at, Reverse(level.len())));
    if is_dated(text)
        && let Some((at, Reverse(length))) = LOUD_LEVELS.iter().filter_map(level_at).min()
    {
        return Some(text[at + length..].trim_start_matches([']', ':', ' ', '-', '|', '\t']));
    }
    level(text)
}

/// Returns true if the prefix of a line of a log reports a problem, by a word or a letter.
fn is_loud(prefix: &str) -> bool {
    let upper = prefix.to_ascii_uppercase();
    let is_letter = upper.starts_with(['E', 'F']) && upper[1..].starts_with([',', '0', '1', '2', '3']);
    is_letter || upper.contains(" E ") || LOUD_LEVELS.iter().any(|level| upper.contains(level))
}

/// The text after the level that a line begins with.
fn level(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['[', '(']);
    let end = text.find(|c: char| !c.is_ascii_alphabetic())?;
    let is_level = LOUD_LEVELS.iter().any(|level| text[..end].eq_ignore_ascii_case(level));
    let rest = &text[end..];
    // `error[E0382]: …`, `error TS2322: …`.
    let rest = match rest.split_once(": ") {
        Some((code, message)) if code.len() <= 12 && !code.trim().contains(' ') => message,
        _ => rest.strip_prefix([']', ':'])?,
    };
    (is_level && !rest.trim().is_empty()).then(|| rest.trim())
}

/// The last line of a trace: an exception with its message, both kept; or what a program panicked with.
pub(super) fn raised(text: &str) -> Option<&str> {
    for start in ["panic: ", "fatal error: ", "PHP Fatal error: ", "Fatal error: "] {
        if let Some(rest) = text.strip_prefix(start) {
            return Some(rest.trim());
        }
    }
    // pytest marks the lines of the error.
    let text = text.strip_prefix("E  ").map_or(text, str::trim);
    let end = text.find([':', ' ', '(']).unwrap_or(text.len());
    let class = &text[..end];
    let own = class.rsplit(['.', '\\']).next().unwrap_or_default();
    let is_class = own.starts_with(char::is_uppercase)
        && class.chars().all(|c| c.is_alphanumeric() || "._\\$".contains(c))
        && ["Error", "Exception", "Warning", "Failure", "Fault", "Interrupt", "Exit", "Iteration"]
            .iter()
            .any(|end| own.ends_with(end));
    let is_end = text.len() == end || text[end..].starts_with(':');
    (is_class && is_end).then_some(text)
}

/// A line of source as IPython shows it.
pub(super) struct NumberedSource<'a> {
    pub text: &'a str,
    /// Its number, if it is the one that failed.
    pub failed: Option<u32>,
}

/// `---> 12     total(cart)`, or `     11 code`.
pub(super) fn numbered_source(text: &str) -> Option<NumberedSource<'_>> {
    let arrow = text.trim_start_matches('-').strip_prefix("> ").filter(|_| text.starts_with("--"));
    let rest = arrow.unwrap_or(text).trim_start();
    let number = leading_number(rest)?;
    let source = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if !source.is_empty() && !source.starts_with(' ') {
        return None;
    }
    Some(NumberedSource { text: source.trim(), failed: arrow.map(|_| number) })
}

/// Returns true if a line is between the frames of a trace in any language.
pub(super) fn is_between_frames(text: &str) -> bool {
    text.starts_with("... ") && text.contains(" more")
        || text.starts_with("[Previous line repeated")
        || text.starts_with("Traceback (most recent call last)")
        || text.starts_with("During handling of the above exception")
        || text.starts_with("The above exception was the direct cause")
        || text.starts_with("goroutine ")
        || text.starts_with("stack backtrace:")
        || text.chars().all(|c| "^~-_ |".contains(c))
}

/// Returns true if a line may be the function of a frame whose place follows: `main.total(0x1)`, `12: shop::total`.
pub(super) fn is_function_line(text: &str) -> bool {
    let is_numbered =
        text.split_once(": ").is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_numbered
        || text.ends_with(')') && text.contains('.') && !text.contains(' ')
        || text.starts_with("created by ")
}

/// A title without the prefixes that trackers put before it.
pub(super) fn title(text: &str) -> &str {
    let mut text = text.trim_start_matches(['#', ' ', '*']);
    while let Some((label, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let is_kind = [
            "bug",
            "feature",
            "request",
            "feature request",
            "question",
            "enhancement",
            "docs",
            "issue",
            "broken",
        ]
        .iter()
        .any(|kind| label.eq_ignore_ascii_case(kind));
        if !is_kind || rest.trim().is_empty() {
            break;
        }
        text = rest.trim_start_matches([':', ' ']);
    }
    text
}

/// Minimum number of words of a first sentence.
const MIN_SENTENCE: usize = 4;

/// Splits a text after its first sentence of a few words or more.
pub(super) fn first_sentence(text: &str) -> (&str, &str) {
    let is_end = |&(at, _): &(usize, &str)| {
        let (sentence, rest) = (&text[..at], &text[at + 2..]);
        let last = sentence.rsplit(' ').next().unwrap_or_default();
        // Neither `e.g.` nor an initial ends a sentence.
        let is_word = last.chars().count() > 1 && !last.contains('.');
        is_word
            && sentence.split_whitespace().nth(MIN_SENTENCE - 1).is_some()
            && !rest.starts_with(char::is_lowercase)
    };
    match text.match_indices(". ").find(is_end) {
        Some((at, _)) => (&text[..=at], text[at + 2..].trim_start()),
        None => (text, ""),
    }
}

/// Texts of several words that a sentence quotes, in backticks or double quotes.
pub(super) fn quoted_messages(text: &str) -> impl Iterator<Item = &str> {
    let in_marks = ['`', '"'].into_iter().flat_map(|mark| text.split(mark).skip(1).step_by(2));
    in_marks.filter(|quoted| quoted.split_whitespace().nth(2).is_some())
}
