//! Which lines of a unit to show for a query.

use std::collections::HashMap;
use std::ops::Range;

use quarry_text::lexical_terms;

/// Byte ranges of `text` that were read as one of `terms` ([`quarry_text::query_terms`]), ascending; where an
/// identifier and a part of it both match, both are listed.
#[must_use]
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

/// The run of at most `max_lines` lines of `text` that holds most of `terms`, as a range of line numbers from 0; a
/// term counts once, and the less the more lines it stands in. The earliest and shortest run of equal ones, so that
/// it starts and ends with a match; the first lines where nothing matches.
#[must_use]
pub fn best_lines(text: &str, terms: &[String], max_lines: usize) -> Range<usize> {
    let matched: Vec<Vec<usize>> = text.lines().map(|line| matched_terms(line, terms)).collect();
    let mut n_lines_with: HashMap<usize, usize> = HashMap::new();
    for &term in matched.iter().flatten() {
        *n_lines_with.entry(term).or_default() += 1;
    }
    let mut best = 0..max_lines.min(matched.len());
    let mut best_weight = 0.0;
    for start in (0..matched.len()).filter(|&start| !matched[start].is_empty()) {
        let mut seen = Vec::new();
        let mut weight = 0.0;
        for (length, line) in (1..=max_lines).zip(&matched[start..]) {
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

/// Positions in `terms` of those that a line holds, each once.
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
        // `path` stands in three lines, `retry` in one.
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
    fn matches_are_the_words_of_the_text() {
        let text = "readFile(files)";
        let found: Vec<&str> =
            matches(text, &query_terms("file")).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["File", "files"]);
    }
}
