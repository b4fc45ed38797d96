//! Words of people who do not program, and what programmers write for them: "throw away" is `discard`, `delete`, `drop`.
//!
//! The table is `models/thesaurus.tsv`: a word or up to three in lower case, a tab, and one to eight words separated by
//! blanks, the closest first, in the order of bytes. It was written from general knowledge of English and of programming.

use quarry_text::find_in_table;

use crate::vocabulary::for_each_word;

static TABLE: &str = include_str!("../models/thesaurus.tsv");

/// Maximum words of a text that are looked up.
const MAX_WORDS: usize = 100;

/// Maximum words of a phrase of the table.
const MAX_PHRASE: usize = 3;

/// Endings of words, and what the words in the table have instead.
const ENDINGS: [(&str, &str); 10] = [
    ("ies", "y"),
    ("es", ""),
    ("s", ""),
    ("ied", "y"),
    ("ed", ""),
    ("ed", "e"),
    ("ing", ""),
    ("ing", "e"),
    ("er", ""),
    ("ly", ""),
];

/// A word of a text, or the first one of a phrase, with what programmers write for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// In lower case.
    pub word: String,
    /// Separated by blanks, the closest first.
    pub code_words: &'static str,
}

/// The meanings of the words and phrases of a text that are in the table, in its order.
pub fn meanings(text: &str) -> Vec<Meaning> {
    let mut words = Vec::new();
    for_each_word(text, MAX_WORDS, |word, _| words.push(word.to_owned()));
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let phrases =
            (2..=MAX_PHRASE).filter_map(|n| find_in_table(TABLE, &words.get(at..at + n)?.join(" ")));
        found.extend(
            phrases.chain(of_word(word)).map(|code_words| Meaning { word: word.clone(), code_words }),
        );
    }
    found
}

/// Number of meanings of a text, divided by that of its words.
pub fn meanings_per_word(meanings: &[Meaning], text: &str) -> f32 {
    meanings.len() as f32 / text.split_whitespace().count().max(1) as f32
}

fn of_word(word: &str) -> Option<&'static str> {
    find_in_table(TABLE, word).or_else(|| {
        ENDINGS.iter().find_map(|(ending, instead)| {
            let stem = word.strip_suffix(ending).filter(|stem| stem.len() > 2)?;
            let single = || {
                // "dropped" is a form of "drop".
                let mut letters = stem.chars();
                let last = letters.next_back();
                let shorter = letters.as_str();
                (instead.is_empty() && letters.next_back() == last).then(|| find_in_table(TABLE, shorter))?
            };
            find_in_table(TABLE, &format!("{stem}{instead}")).or_else(single)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_maps_no_word_to_itself() {
        let mut previous = "";
        for line in TABLE.lines() {
            let (word, code_words) = line.split_once('\t').unwrap();
            assert!(previous < word, "{previous} {word}");
            assert_eq!(find_in_table(TABLE, word), Some(code_words));
            assert!((1..=MAX_PHRASE).contains(&word.split(' ').count()), "{line}");
            let is_plain = |word: &str| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            };
            assert!(code_words.split(' ').all(|other| is_plain(other) && other != word), "{line}");
            previous = word;
        }
    }

    #[test]
    fn forms_of_words_and_phrases_are_found() {
        let first = |text: &str| meanings(text).first().map(|found| found.code_words);
        assert!(first("throw away old things").is_some_and(|words| words.starts_with("discard")));
        assert_eq!(first("swapped"), first("swap"));
        assert_eq!(first("scribbling"), first("scribble"));
        assert_eq!(first("dropping"), first("drop"));
        assert!(
            ["qqqqq", "xééed", "ééing", "s", "éés", "", "\u{fffd}ed"]
                .iter()
                .all(|text| first(text).is_none())
        );
        assert!(meanings(&"huge ".repeat(1 << 12)).len() <= MAX_WORDS);
    }
}
