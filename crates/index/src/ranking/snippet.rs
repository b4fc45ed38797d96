//! Choice of the lines of a unit to show for a query.

use std::collections::HashMap;
use std::ops::Range;

use quarry_text::lexical_terms;

/// Byte ranges of `text` that match one of `terms` ([`quarry_text::query_terms`]), ascending; if an identifier and a
/// part of it both match, both are listed.
pub fn matches(text: &str, terms: &[String]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    lexical_terms(text, |term, range| {
        if terms.iter().any(|wanted| wanted == term) {
            ranges.push(range);
        }
    });
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges
}

/// The range of at most `max_lines` consecutive lines of `text` that contains most of `terms`, as 0-based line
/// numbers; a term counts once, and less the more lines contain it. The earliest and shortest of equal ranges, so
/// that it starts and ends with a match; the first lines if nothing matches.
pub fn best_lines(text: &str, terms: &[String], max_lines: usize) -> Range<usize> {
    best_lines_beside(text, &(0..0), terms, max_lines)
}

/// [`best_lines`] among those before and after the lines `shown`, which are shown anyway; without blank lines at its
/// ends. Empty only if all other lines are blank.
pub fn best_lines_beside(
    text: &str,
    shown: &Range<usize>,
    terms: &[String],
    max_lines: usize,
) -> Range<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let matched: Vec<Vec<usize>> = lines.iter().map(|line| matched_terms(line, terms)).collect();
    let mut n_lines_with: HashMap<usize, usize> = HashMap::new();
    for &term in matched.iter().flatten() {
        *n_lines_with.entry(term).or_default() += 1;
    }
    let is_blank = |line: usize| lines[line].trim().is_empty();
    let sides = [0..shown.start.min(lines.len()), shown.end.min(lines.len())..lines.len()];
    let first_lines = |side: &Range<usize>| {
        let start = side.clone().find(|&line| !is_blank(line))?;
        let run = start..(start + max_lines).min(side.end);
        let end = run.rev().find(|&line| !is_blank(line))? + 1;
        Some(start..end)
    };
    let mut best = sides.iter().find_map(first_lines).unwrap_or(0..0);
    let mut best_weight = 0.0;
    for (side, start) in sides.iter().flat_map(|side| side.clone().map(move |start| (side, start))) {
        if matched[start].is_empty() {
            continue;
        }
        let mut seen = Vec::new();
        let mut weight = 0.0;
        for (length, line) in (1..=max_lines).zip(&matched[start..side.end]) {
            for &term in line {
                if !seen.contains(&term) {
                    seen.push(term);
                    weight += 1.0 / n_lines_with[&term] as f32;
                }
            }
            // Sums of the same terms in another order must not win by rounding.
            if weight > best_weight + 1e-6 {
                (best, best_weight) = (start..start + length, weight);
            }
        }
    }
    best
}

/// The 0-based lines of a unit's source that its signature consists of and that contain nothing else but white space,
/// commas and what opens the body; empty if these cannot be identified.
pub fn declaration_lines(text: &str, signature: &str) -> Range<usize> {
    let signature = compact(signature);
    let lines: Vec<String> = text.lines().map(compact_line).collect();
    let end_from = |start: usize| {
        let mut rest = signature.as_str();
        for (number, line) in (start..).zip(&lines[start..]) {
            if rest.is_empty() {
                break;
            }
            let line =
                if line.len() > rest.len() { line.trim_end_matches(['{', ':', '=', ';']) } else { line };
            rest = rest.strip_prefix(line)?;
            if rest.is_empty() {
                return Some(number + 1);
            }
        }
        None
    };
    let starts = (0..lines.len()).filter(|&start| !lines[start].is_empty());
    starts.filter_map(|start| Some(start..end_from(start)?)).next().unwrap_or(0..0)
}

/// The 0-based line on which the declaration of a unit's source begins, whatever follows it there; `None` if it cannot be
/// identified.
pub fn declaration_line(text: &str, signature: &str) -> Option<usize> {
    let signature = compact(signature);
    let lines: Vec<String> = text.lines().map(compact_line).collect();
    let begins = |start: usize| {
        let mut rest = signature.as_str();
        for line in &lines[start..] {
            if line.starts_with(rest) {
                return true;
            }
            let Some(after) = rest.strip_prefix(line.as_str()) else { return false };
            rest = after;
        }
        false
    };
    let is_candidate = |start: &usize| !signature.is_empty() && !lines[*start].is_empty();
    (0..lines.len()).filter(is_candidate).find(|&start| begins(start))
}

fn compact(text: &str) -> String {
    text.replace(|c: char| c.is_whitespace() || c == ',', "")
}

/// Without what is around Markdown headings.
fn compact_line(line: &str) -> String {
    compact(line.trim_matches(['#', ' ']))
}

/// Indices in `terms` of those that a line contains, without repetition.
fn matched_terms(line: &str, terms: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    lexical_terms(line, |term, _| {
        if let Some(position) = terms.iter().position(|wanted| wanted == term)
            && !found.contains(&position)
        {
            found.push(position);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use quarry_text::query_terms;

    use super::*;

    fn check(text: &str, query: &str, max_lines: usize, expected: Range<usize>) {
        assert_eq!(best_lines(text, &query_terms(query), max_lines), expected, "{query} in {text:?}");
    }

    #[test]
    fn chooses_the_lines_with_most_of_the_query() {
        let text = "def f(path):\n    x = 1\n    retry(path)\n    wait(backoff)\n    return path\n";
        check(text, "retry with backoff", 3, 2..4);
        check(text, "retry with backoff", 1, 2..3);
        // `path` is in three lines, `retry` in one.
        check(text, "retry a path", 1, 2..3);
        check(text, "backoff", 3, 3..4);
    }

    #[test]
    fn without_a_match_the_first_lines_are_shown() {
        check("a\nb\nc\n", "zebra", 2, 0..2);
        check("a\n", "zebra", 3, 0..1);
        check("", "zebra", 3, 0..0);
    }

    #[test]
    fn the_declaration_is_not_shown_twice() {
        let text = "/// Waits.\npub fn wait(\n    time: u64,\n) {\n\n    sleep(time);\n\n    done()\n}\n";
        let declared = declaration_lines(text, "pub fn wait(time: u64)");
        assert_eq!(declared, 1..4);
        let beside = |query: &str, n| best_lines_beside(text, &declared, &query_terms(query), n);
        assert_eq!(beside("wait", 3), 0..1, "not the declaration, which has the word too");
        assert_eq!(beside("time", 3), 5..6);
        assert_eq!(beside("done", 3), 7..8);
        assert_eq!(beside("sleep done", 3), 5..8, "blank lines between others stay");
        assert_eq!(beside("zebra", 3), 0..1, "what comes first says most");
        let rest = "fn wait() {\n\n    sleep();\n\n}\n";
        assert_eq!(best_lines_beside(rest, &(0..1), &query_terms("wait"), 2), 2..3);
        assert_eq!(best_lines_beside("fn wait();\n\n", &(0..1), &query_terms("wait"), 3), 0..0);
    }

    #[test]
    fn a_declaration_is_distinguished_from_the_lines_around_it() {
        let check = |text: &str, signature: &str, expected: Range<usize>| {
            assert_eq!(declaration_lines(text, signature), expected, "{signature} in {text:?}");
        };
        check("@cached\ndef total(\n    a,\n    b,\n):\n    return a\n", "def total(a, b)", 1..5);
        check("class A:\n    x = 1\n", "class A", 0..1);
        check("fn f(&self) -> usize { self.len }", "fn f(&self) -> usize", 0..0);
        check("fn f();\n", "fn f()", 0..1);
        check("int f(void)\n{\n}\n", "int f(void)", 0..1);
        check("/* fn f */\nx\n", "fn f()", 0..0);
        check("# The title\n\ntext\n", "The title", 0..1);
        check("a\nb\n", "", 0..0);
        check("", "fn f()", 0..0);
    }

    #[test]
    fn a_declaration_begins_on_one_line() {
        let check = |text: &str, signature: &str, expected: Option<usize>| {
            assert_eq!(declaration_line(text, signature), expected, "{signature} in {text:?}");
        };
        check("# fn f\n@cached\ndef total(\n    a,\n    b,\n):\n", "def total(a, b)", Some(2));
        check("/// fn f\nfn f(&self) -> usize { self.len }", "fn f(&self) -> usize", Some(1));
        check("text\n\n## The title\n", "The title", Some(2));
        check("int f(\n", "int f(void)", None);
        check("a\nb\n", "", None);
        check("", "fn f()", None);
    }

    #[test]
    fn matches_are_the_words_of_the_text() {
        let text = "readFile(files)";
        let found: Vec<&str> =
            matches(text, &query_terms("file")).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["File", "files"]);
    }
}
