//! Scripts without spaces between words: Han, the Japanese syllabaries and Hangul.

use std::ops::RangeInclusive;

/// Their letters, in ascending order. Hangul has spaces, but words with endings that change.
const UNSPACED: &[RangeInclusive<char>] = &[
    '\u{1100}'..='\u{11ff}',   // Hangul Jamo
    '\u{3005}'..='\u{3007}',   // iteration mark and zero
    '\u{3040}'..='\u{30ff}',   // Hiragana, Katakana
    '\u{3130}'..='\u{318f}',   // Hangul compatibility Jamo
    '\u{31f0}'..='\u{31ff}',   // Katakana extensions
    '\u{3400}'..='\u{4dbf}',   // Han extension A
    '\u{4e00}'..='\u{9fff}',   // Han
    '\u{ac00}'..='\u{d7a3}',   // Hangul syllables
    '\u{f900}'..='\u{faff}',   // Han compatibility
    '\u{ff66}'..='\u{ff9f}',   // half-width Katakana
    '\u{20000}'..='\u{323af}', // Han extensions B to H
];

pub(crate) fn is_unspaced(c: char) -> bool {
    c >= *UNSPACED[0].start() && UNSPACED.iter().any(|range| range.contains(&c))
}

/// The longest runs of `text` that are entirely in such a script or not at all, and whether they are.
pub fn runs_by_script(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_first_unspaced = is_unspaced(rest.chars().next()?);
        let end = match text.is_ascii() {
            true => rest.len(),
            false => rest.find(|c| is_unspaced(c) != is_first_unspaced).unwrap_or(rest.len()),
        };
        let (run, tail) = rest.split_at(end);
        rest = tail;
        Some((run, is_first_unspaced))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_in_order() {
        assert!(UNSPACED.windows(2).all(|pair| pair[0].end() < pair[1].start()));
    }

    #[test]
    fn runs_end_where_the_script_changes() {
        let runs = |text| runs_by_script(text).collect::<Vec<_>>();
        assert_eq!(runs("parse"), [("parse", false)]);
        assert_eq!(runs("HTTP请求v2"), [("HTTP", false), ("请求", true), ("v2", false)]);
        assert_eq!(runs("größe"), [("größe", false)]);
        assert_eq!(runs("ファイル名"), [("ファイル名", true)]);
        assert_eq!(runs(""), []);
    }
}
