//! Summaries of documentation, and fingerprints of texts.

use std::ops::Range;

use quarry_text::identifiers;
use xxhash_rust::xxh3::xxh3_64;

/// Minimum number of words of a function's code; shorter functions do nothing worth searching for.
pub const MIN_CODE_WORDS: usize = 8;
/// Hash of the letters and digits of a text in lower case, so that white space and punctuation are ignored.
pub fn fingerprint(text: &str) -> u64 {
    let normalized: String =
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    xxh3_64(normalized.as_bytes())
}

/// Hash of a function's own name and its summary, if the summary is long enough to be distinctive.
pub(crate) fn summary_fingerprint(name: &str, summary: &str) -> Option<u64> {
    let own = name.rsplit('.').next().unwrap_or(name);
    (identifiers(summary).count() >= 4).then(|| fingerprint(&format!("{own} {summary}")))
}

/// The text of `span` without the ascending ranges `holes`.
pub fn cut_out(bytes: &[u8], span: Range<usize>, holes: &[Range<usize>]) -> String {
    let mut kept = Vec::with_capacity(span.len());
    let mut at = span.start;
    for hole in holes {
        kept.extend_from_slice(&bytes[at..hole.start.max(at)]);
        at = hole.end.max(at);
    }
    kept.extend_from_slice(&bytes[at..span.end.max(at)]);
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// The first sentence of a function's documentation, on one line and without markup, and the text after it. The
/// function's name at the beginning, as in Go, is removed: users do not know the name of what they search for.
pub fn split_summary(doc: &str, own_name: &str) -> (String, String) {
    let (summary, rest) = first_paragraph(doc);
    let end = sentence_end(&summary);
    let (first, others) = summary.split_at(end);
    let first = match first.trim().split_once(' ') {
        Some((name, tail)) if name.trim_matches('`') == own_name => tail,
        _ => first,
    };
    (first.trim().to_owned(), format!("{} {}", others.trim(), rest.trim()).trim().to_owned())
}

/// The first paragraph of a function's documentation, on one line and without markup, and the lines after it.
pub(crate) fn first_paragraph(doc: &str) -> (String, String) {
    let is_tag = |line: &str| {
        let line = line.trim_start();
        line.starts_with(['@', ':', '\\', '>']) || line.ends_with(':') && line.split(' ').count() < 3
    };
    let mut lines = doc.lines();
    let mut summary = String::new();
    let mut rest = String::new();
    for line in lines.by_ref() {
        let text = line.trim().trim_start_matches("@brief").trim_start_matches("\\brief").trim();
        if text.is_empty() && !summary.is_empty() || is_tag(text) {
            rest.push_str(line);
            break;
        }
        let is_rule = text.chars().all(|c| !c.is_alphanumeric());
        if !is_rule {
            if !summary.is_empty() {
                summary.push(' ');
            }
            summary.push_str(text);
        }
    }
    lines.for_each(|line| {
        rest.push('\n');
        rest.push_str(line);
    });
    (without_markup(&summary), rest)
}

/// The end of the first sentence: after a full stop, question or exclamation mark before white space, except after an
/// abbreviation.
pub(crate) fn sentence_end(text: &str) -> usize {
    text.char_indices()
        .filter(|&(_, c)| matches!(c, '.' | '!' | '?'))
        .map(|(at, _)| at + 1)
        .find(|&end| {
            let before = &text[..end];
            let abbreviated = ["e.g.", "i.e.", "etc.", "vs.", "cf."].iter().any(|a| before.ends_with(a));
            !abbreviated && text[end..].starts_with(char::is_whitespace)
        })
        .unwrap_or(text.len())
}

/// Text without HTML tags, with `{@link x}` and the like as `x`, white space collapsed.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '{', '}']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let tag = tail.starts_with('<').then(|| tail.find('>')).flatten();
        rest = match tag {
            Some(end) if end < 40 && tail[1..].starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()) => {
                &tail[end + 1..]
            }
            _ if tail.starts_with("{@") => tail.split_once(' ').map_or("", |(_, rest)| rest),
            _ => {
                if tail.starts_with('<') {
                    out.push('<');
                }
                &tail[1..]
            }
        };
    }
    out.push_str(rest);
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}
