//! Lines that match a regular expression, by the units that they are in.

use std::ops::Range;

use anyhow::Context;
use quarry_answer::LineMatch;
use quarry_index::{Filter, Index, IndexedFile};
use rayon::prelude::*;
use regex::{Regex, RegexBuilder};

/// One expression of several, of which any may match.
///
/// # Errors
/// When one is malformed; the message shows where.
pub fn expression(patterns: &[String], ignore_case: bool) -> anyhow::Result<Regex> {
    for pattern in patterns {
        Regex::new(pattern).with_context(|| format!("{pattern:?} is not a regular expression"))?;
    }
    let any = patterns.iter().map(|pattern| format!("(?:{pattern})")).collect::<Vec<_>>().join("|");
    Ok(RegexBuilder::new(&any).case_insensitive(ignore_case).build()?)
}

/// Where an expression matches in a line; empty matches are left out.
pub fn ranges(expression: &Regex, line: &str) -> Vec<Range<usize>> {
    expression.find_iter(line).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
}

/// The units (by their numbers) with lines that match, and these lines, in the order of paths and lines. A line in two
/// units counts for the first one. Files that cannot be read any longer have none.
pub fn find(index: &Index, expression: &Regex) -> Vec<(usize, Vec<LineMatch>)> {
    let of_file = |file: &IndexedFile| {
        let Ok(text) = file.text() else { return Vec::new() };
        let content = text.to_str();
        let matching = content.lines().enumerate().filter(|(_, line)| expression.is_match(line));
        let lines: Vec<LineMatch> = matching
            .map(|(index, line)| LineMatch {
                line: text.line_number(index),
                index,
                text: line.to_owned(),
                ranges: ranges(expression, line),
            })
            .collect();
        by_unit(file.units(&text), &lines)
    };
    index.files(&Filter::default()).par_iter().flat_map_iter(of_file).collect()
}

/// Deals the lines of a file out to its units and their lines, both ascending.
fn by_unit(
    units: impl Iterator<Item = (usize, Range<usize>)>,
    lines: &[LineMatch],
) -> Vec<(usize, Vec<LineMatch>)> {
    let mut rest = lines;
    let mut found = Vec::new();
    for (unit, indexes) in units {
        rest = &rest[rest.partition_point(|line| line.index < indexes.start)..];
        let (inside, after) = rest.split_at(rest.partition_point(|line| line.index < indexes.end));
        if !inside.is_empty() {
            found.push((unit, inside.to_vec()));
        }
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_several_expressions_matches() {
        let patterns = ["fo+".to_owned(), "^x|y$".to_owned()];
        let any = expression(&patterns, false).unwrap();
        assert!(any.is_match("a foo") && any.is_match("xa") && any.is_match("ay") && !any.is_match("FOO"));
        assert!(expression(&patterns, true).unwrap().is_match("FOO"));
        let message = format!("{:#}", expression(&["a(".to_owned()], false).unwrap_err());
        assert!(message.contains("\"a(\" is not a regular expression"), "{message}");
    }

    #[test]
    fn empty_matches_are_not_highlighted() {
        let found = ranges(&expression(&["a*".to_owned()], false).unwrap(), "baabaaa");
        assert_eq!(found, [1..3, 4..7]);
    }
}
