//! The baseline of a text search: functions around matches of the rarest words of an issue.

use std::collections::{BTreeSet, HashMap};

use quarry_index::{Filter, Index, IndexedFile};
use quarry_text::identifiers;
use rayon::prelude::*;

use crate::EvalError;

/// Number of words that are searched for.
const WORDS: usize = 10;

/// Minimum length of a word, in characters.
const MIN_CHARS: usize = 3;

/// Words of an issue that a file has.
struct Matches {
    /// Number of lines of the file with each word.
    lines: Vec<usize>,
    /// The words of each unit that has some.
    units: Vec<(usize, BTreeSet<usize>)>,
}

/// The units with any of the [`WORDS`] rarest words of a text that occur in the tree, those with the most different words
/// first, ties in the order of paths and lines. Words are matched whole and in their case, as by `rg -wF`; the rarest are on
/// the fewest lines, ties in the order of the text.
pub(super) fn search(index: &Index, text: &str) -> Result<Vec<usize>, EvalError> {
    let mut words: HashMap<&str, usize> = HashMap::new();
    for word in identifiers(text).filter(|word| word.chars().count() >= MIN_CHARS) {
        let next = words.len();
        words.entry(word).or_insert(next);
    }
    let files = index.files(&Filter::default());
    let found: Vec<Matches> =
        files.par_iter().map(|file| matches(file, &words)).collect::<Result<_, EvalError>>()?;
    let lines = |word: usize| found.iter().map(|file| file.lines[word]).sum::<usize>();
    let mut rarest: Vec<(usize, usize)> =
        (0..words.len()).map(|word| (lines(word), word)).filter(|(lines, _)| *lines > 0).collect();
    rarest.sort_unstable();
    let rarest: BTreeSet<usize> = rarest.into_iter().take(WORDS).map(|(_, word)| word).collect();
    let mut units: Vec<(usize, usize)> = found
        .iter()
        .flat_map(|file| &file.units)
        .map(|(unit, words)| (*unit, words.intersection(&rarest).count()))
        .filter(|(_, words)| *words > 0)
        .collect();
    units.sort_by_key(|&(unit, words)| (std::cmp::Reverse(words), unit));
    Ok(units.into_iter().map(|(unit, _)| unit).collect())
}

fn matches(file: &IndexedFile<'_>, words: &HashMap<&str, usize>) -> Result<Matches, EvalError> {
    let text = file.text()?;
    let content = text.to_str();
    let of_line = |line: &str| -> BTreeSet<usize> {
        identifiers(line).filter_map(|word| words.get(word).copied()).collect()
    };
    let of_lines: Vec<BTreeSet<usize>> = content.lines().map(of_line).collect();
    let mut lines = vec![0; words.len()];
    of_lines.iter().flatten().for_each(|word| lines[*word] += 1);
    let of_unit = |(unit, range): (usize, std::ops::Range<usize>)| {
        let found = of_lines.iter().take(range.end).skip(range.start);
        let words: BTreeSet<usize> = found.flatten().copied().collect();
        (!words.is_empty()).then_some((unit, words))
    };
    Ok(Matches { lines, units: file.units(&text).filter_map(of_unit).collect() })
}
