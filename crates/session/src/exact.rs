//! Exact search: the lines that match expressions, in every text file of the searched paths.

use std::ops::Range;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use quarry_index::{Error, Filter, Hit, Index, IndexedFile, UnindexedFile};
use quarry_source::SourceText;
use quarry_text::counted;
use rayon::prelude::*;

use crate::LineMatch;
use crate::query::Expression;

#[derive(Default)]
/// Units, and parts of files without units, with their lines that match, in the order of paths and lines.
pub(crate) struct Matching {
    pub hits: Vec<(Hit, Vec<LineMatch>)>,
    /// Notes on what was not searched.
    pub notes: Vec<String>,
}

/// Finds the units with lines that match, each expression in at least one line. A line in two units counts for the
/// first one. Lines in no unit, and those of files that are not in the index, are in hits without a unit. Files that
/// can no longer be read have no hits.
pub(crate) fn find(index: &Index, filter: &Filter, expressions: &[Expression]) -> Result<Matching, Error> {
    index.check_complete()?;
    let Some(lines) = Lines::new(expressions) else { return Ok(Matching::default()) };
    let reader = index.reader();
    let of_indexed = |file: &IndexedFile| {
        let Ok(text) = reader.indexed(file) else { return Vec::new() };
        let found = lines.search(&text);
        if found.is_empty() {
            return Vec::new();
        }
        // The parts of a long definition are one result.
        let first_parts = file.units(&text).map(|(unit, lines)| (index.first_part(unit), lines));
        let (mut of_units, rest) = by_unit(first_parts, found);
        of_units.retain(|(_, matches)| lines.match_all(matches));
        let mut hits: Vec<(Hit, Vec<LineMatch>)> =
            of_units.into_iter().map(|(unit, matches)| (index.unit(unit), matches)).collect();
        if filter.takes_parts() && lines.match_all(&rest) {
            hits.extend(file.part(range(&rest)).map(|hit| (hit, rest)));
        }
        hits.sort_by_key(|(hit, _)| hit.start_line);
        hits
    };
    let of_unindexed = |file: &UnindexedFile| {
        let Ok(text) = reader.unindexed(file) else { return Vec::new() };
        let found = lines.search(&text);
        if lines.match_all(&found) { vec![(file.part(range(&found)), found)] } else { Vec::new() }
    };
    let indexed = index.searched_files(filter);
    let mut hits: Vec<(Hit, Vec<LineMatch>)> = indexed.par_iter().flat_map_iter(of_indexed).collect();
    let others = index.unindexed(filter)?;
    let found: Vec<(Hit, Vec<LineMatch>)> = others.files.par_iter().flat_map_iter(of_unindexed).collect();
    if !found.is_empty() {
        hits.extend(found);
        hits.sort_by(|(a, _), (b, _)| (a.root, &a.path).cmp(&(b.root, &b.path)));
    }
    let mut notes = Vec::new();
    if others.n_too_large > 0 {
        notes.push(format!(
            "{} over {} MB not searched",
            counted(others.n_too_large, "file"),
            UnindexedFile::MAX_BYTES >> 20
        ));
    }
    if others.n_left_out > 0 {
        let files = counted(others.n_left_out, "file");
        notes.push(format!("the filter by language, kind or name leaves out {files} without units"));
    }
    Ok(Matching { hits, notes })
}

/// Matches of expressions in a line, ascending and disjoint; empty ones are left out.
pub(crate) fn ranges(expressions: &[Expression], line: &str) -> Vec<Range<usize>> {
    let all = expressions.iter().flat_map(|expression| expression.regex.find_iter(line));
    let mut all: Vec<Range<usize>> =
        all.map(|found| found.range()).filter(|range| !range.is_empty()).collect();
    all.sort_by_key(|range| range.start);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for range in all {
        match ranges.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Finds lines that match any of some expressions.
struct Lines<'a> {
    matcher: RegexMatcher,
    expressions: &'a [Expression],
}

impl<'a> Lines<'a> {
    /// `None` if no line can match.
    fn new(expressions: &'a [Expression]) -> Option<Self> {
        let patterns = expressions.iter().map(|expression| expression.regex.as_str());
        // If only some expressions ignore case, the additional matches of this matcher are dropped in `of`.
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(expressions.iter().any(|expression| expression.ignores_case))
            // A line may end with \r\n, before which `$` matches.
            .crlf(true)
            .multi_line(true)
            .build_many(&patterns.collect::<Vec<_>>());
        Some(Self { matcher: matcher.ok()?, expressions })
    }

    fn search(&self, text: &SourceText) -> Vec<LineMatch> {
        let mut found = Vec::new();
        let mut searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .build();
        let sink = Lossy(|number, line| {
            let index = number as usize - 1;
            let line = line.trim_end_matches('\n').trim_end_matches('\r');
            if self.expressions.iter().any(|expression| expression.regex.is_match(line)) {
                let ranges = ranges(self.expressions, line);
                found.push(LineMatch { line: text.line_number(index), index, text: line.to_owned(), ranges });
            }
            Ok(true)
        });
        // Searching a text in memory cannot fail.
        let _ = searcher.search_slice(&self.matcher, text.bytes(), sink);
        found
    }

    /// Returns true if there are lines, and each expression matches one of them.
    fn match_all(&self, lines: &[LineMatch]) -> bool {
        let is_met = |expression: &Expression| lines.iter().any(|line| expression.regex.is_match(&line.text));
        !lines.is_empty() && (self.expressions.len() == 1 || self.expressions.iter().all(is_met))
    }
}

/// The first and the last line.
fn range(lines: &[LineMatch]) -> (u32, u32) {
    (lines.first().map_or(1, |line| line.line), lines.last().map_or(1, |line| line.line))
}

/// Assigns the lines of a file to its units, both ascending; returns also the lines that are in none.
fn by_unit(
    units: impl Iterator<Item = (usize, Range<usize>)>,
    lines: Vec<LineMatch>,
) -> (Vec<(usize, Vec<LineMatch>)>, Vec<LineMatch>) {
    let mut found: Vec<(usize, Vec<LineMatch>)> = Vec::new();
    let mut outside = Vec::new();
    let mut lines = lines.into_iter().peekable();
    for (unit, indexes) in units {
        while let Some(line) = lines.next_if(|line| line.index < indexes.start) {
            outside.push(line);
        }
        let mut inside = Vec::new();
        while let Some(line) = lines.next_if(|line| line.index < indexes.end) {
            inside.push(line);
        }
        match found.iter_mut().rfind(|(other, _)| *other == unit) {
            Some((_, lines)) => lines.extend(inside),
            None if !inside.is_empty() => found.push((unit, inside)),
            None => {}
        }
    }
    outside.extend(lines);
    (found, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(patterns: &[&str]) -> Vec<Expression> {
        let expression = |pattern: &&str| Expression::new(pattern, pattern, false).unwrap();
        patterns.iter().map(expression).collect()
    }

    #[test]
    fn empty_matches_are_not_highlighted_and_others_are_disjoint() {
        assert_eq!(ranges(&expressions(&["a*"]), "baabaaa"), [1..3, 4..7]);
        assert_eq!(ranges(&expressions(&["aab", "ba", "b$"]), "baabab"), [0..5, 5..6]);
    }

    #[test]
    fn lines_match_one_by_one() {
        let check = |patterns: &[&str], text: &str, expected: &[usize]| {
            let expressions = expressions(patterns);
            let lines = Lines::new(&expressions).map(|lines| lines.search(&SourceText::plain(text.into())));
            let found: Vec<usize> = lines.unwrap_or_default().iter().map(|line| line.index).collect();
            assert_eq!(found, expected, "{patterns:?} {text:?}");
        };
        check(&["a\\s*b"], "a\nb\nab\r\n", &[2]);
        check(&["^b$", "x"], "b\r\nab\nb", &[0, 2]);
        check(&["Foo"], "foo\nFoo\n", &[1]);
        check(&["[^x]+y"], "a\nby\nc\ndy", &[1, 3]);
        check(&["^$"], "a\n\nb", &[1]);
        check(&["a"], "a\n\0\na", &[]);
    }
}
