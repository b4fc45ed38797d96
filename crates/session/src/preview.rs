//! Choice of the lines of a unit that a page shows.

use std::collections::HashMap;
use std::ops::Range;

use quarry_text::lexical_terms;

/// Lines of `text` for a preview, as 0-based ranges that do not touch: all if there are at most `max_lines`. Otherwise about
/// that many: the lines `declared` if they are at most half as many, and the lines that contain most of `terms`, each with
/// its neighbors; if nothing matches, the lines around the declaration. Blank lines at the ends of ranges are left out.
pub(crate) fn preview_lines(
    text: &str,
    declared: &Range<usize>,
    terms: &[String],
    max_lines: usize,
) -> Vec<Range<usize>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut preview = Preview { is_shown: vec![false; lines.len()], left: max_lines };
    if lines.len() <= max_lines {
        preview.show(0..lines.len());
        return preview.ranges(&lines);
    }
    let is_declared = declared.end <= lines.len() && declared.len() <= max_lines / 2;
    let declared = if is_declared { declared.clone() } else { 0..0 };
    preview.show(declared.clone());
    let matched: Vec<Vec<usize>> = lines.iter().map(|line| matched_terms(line, terms)).collect();
    let mut n_lines_with: HashMap<usize, usize> = HashMap::new();
    for &term in matched.iter().flatten() {
        *n_lines_with.entry(term).or_default() += 1;
    }
    let mut seen: Vec<usize> = matched[declared.clone()].concat();
    while preview.left > 0 {
        let gain = |line: usize| {
            let new = matched[line].iter().filter(|term| !seen.contains(term));
            new.map(|term| 1.0 / n_lines_with[term] as f32).sum::<f32>()
        };
        let hidden = (0..lines.len()).filter(|&line| !preview.is_shown[line]);
        let best = hidden.map(|line| (line, gain(line))).reduce(|best, other| {
            // The earliest of equals; sums of the same terms in another order are equal.
            if other.1 > best.1 + 1e-6 { other } else { best }
        });
        match best {
            Some((line, gain)) if gain > 0.0 => {
                seen.extend(&matched[line]);
                preview.show(line..line + 1);
                preview.show(line.saturating_sub(1)..line);
                preview.show(line + 1..line + 2);
            }
            // All terms are shown once: then once more where they are left.
            _ if !seen.is_empty() => seen.clear(),
            _ => break,
        }
    }
    if preview.left > 0 {
        let n_before = declared.start.min(preview.left / 2);
        preview.show(0..n_before);
        preview.show(declared.end..lines.len());
    }
    preview.ranges(&lines)
}

/// Lines of a preview, and the number of lines that may be added.
struct Preview {
    is_shown: Vec<bool>,
    left: usize,
}

impl Preview {
    fn show(&mut self, lines: Range<usize>) {
        for line in lines {
            if self.left > 0 && self.is_shown.get(line) == Some(&false) {
                self.is_shown[line] = true;
                self.left -= 1;
            }
        }
    }

    /// The shown lines, with single lines between them: marking an omission would take as much space.
    fn ranges(&self, lines: &[&str]) -> Vec<Range<usize>> {
        let is_blank = |line: &usize| lines[*line].trim().is_empty();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for line in (0..lines.len()).filter(|line| self.is_shown[*line] && !is_blank(line)) {
            match ranges.last_mut() {
                Some(last) if line <= last.end + 1 || (last.end..line).all(|between| is_blank(&between)) => {
                    last.end = line + 1;
                }
                _ => ranges.push(line..line + 1),
            }
        }
        ranges
    }
}

/// Positions in `terms` of the terms that a line contains, without repetition.
fn matched_terms(line: &str, terms: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    lexical_terms(line, |term, _| {
        found.extend(terms.iter().position(|wanted| wanted == term));
    });
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use quarry_index::snippet;
    use quarry_text::query_terms;

    use super::*;

    #[test]
    fn a_preview_has_the_declaration_and_what_matches() {
        let text = "/// Waits.\n/// Long.\n/// Longer.\nfn wait() {\n    a();\n    b();\n    c();\n    retry();\n    d();\n    e();\n}\n";
        let declared = snippet::declaration_lines(text, "fn wait()");
        assert_eq!(declared, 3..4);
        let preview = |query: &str, n| preview_lines(text, &declared, &query_terms(query), n);
        assert_eq!(preview("zebra", 11), std::slice::from_ref(&(0..11)), "all that there is");
        assert_eq!(preview("retry", 4), [3..4, 6..9], "a match with its neighbors");
        assert_eq!(preview("retry", 2), [3..4, 7..8]);
        assert_eq!(preview("waits retry", 6), [0..4, 6..9], "words apart, and one line between");
        assert_eq!(
            preview("zebra", 5),
            std::slice::from_ref(&(0..6)),
            "around the declaration, with one line between"
        );
        assert_eq!(preview("wait", 1), std::slice::from_ref(&(0..1)));
        assert!(preview("wait", 0).is_empty() && preview_lines("", &(0..0), &[], 3).is_empty());
        let blank = "a\n\n\n\nb\nc\nd\n";
        assert_eq!(
            preview_lines(blank, &(0..1), &query_terms("b"), 4),
            std::slice::from_ref(&(0..6)),
            "a gap of blank lines"
        );
        assert_eq!(
            preview_lines(blank, &(5..90), &[], 2),
            std::slice::from_ref(&(0..1)),
            "a range beyond the text"
        );
    }
}
