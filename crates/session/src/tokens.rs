//! Tokens as a public tokenizer counts them: o200k_base, used by OpenAI's models since 2024. Other models split text
//! into about as many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

use regex_automata::{Anchored, Input, meta::Regex};
use rustc_hash::FxHashMap;

/// The name of the tokenizer.
pub const TOKENIZER: &str = "o200k_base";

/// The tokens in the order of their ranks, each after its length in one byte.
static TOKENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base"));

/// A word of tiktoken, except for the end of white space: see `words`.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+",
    ];
    Regex::new(&alternatives.join("|")).expect("the expression is valid")
});

type Ranks = FxHashMap<&'static [u8], u32>;

static RANKS: LazyLock<Ranks> = LazyLock::new(|| {
    let mut rest = TOKENS;
    let token = || {
        let (&length, following) = rest.split_first()?;
        let (token, following) = following.split_at(usize::from(length));
        rest = following;
        Some(token)
    };
    std::iter::from_fn(token).zip(0..).collect()
});

pub fn count_tokens(text: &str) -> usize {
    words(text).map(|word| count_word(word.as_bytes(), &RANKS)).sum()
}

/// The words of a text, one after the other. Of white space before a word, but for line ends, the last character belongs to
/// that word or is a word of its own: `\s+(?!\S)` in tiktoken, whose regular expressions look ahead.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    std::iter::from_fn(move || {
        // Words follow each other without a gap, so that only their ends are searched for.
        let rest = Input::new(text).range(start..).anchored(Anchored::Yes);
        let mut end = WORD.search_half(&rest)?.offset();
        let word = &text[start..end];
        if end < text.len() && !word.ends_with(['\r', '\n']) && word.chars().all(char::is_whitespace) {
            let last = word.chars().next_back().map_or(0, char::len_utf8);
            if last < word.len() {
                end -= last;
            }
        }
        let word = &text[start..end];
        start = end;
        Some(word)
    })
}

/// Byte pair encoding: the two neighbors whose union has the lowest rank become one token, the first of several, until no
/// union is a token.
fn count_word(word: &[u8], ranks: &Ranks) -> usize {
    if ranks.contains_key(word) {
        return 1;
    }
    let union =
        |start: usize, end: usize| ranks.get(&word[start..end]).map(|&rank| Reverse((rank, start, end)));
    // The end of the token that begins at each byte, and the start of the token before it.
    let mut ends: Vec<Option<usize>> = (1..=word.len()).map(Some).collect();
    let mut previous: Vec<usize> = (0..word.len()).map(|start| start.saturating_sub(1)).collect();
    let mut unions: BinaryHeap<_> = (2..=word.len()).filter_map(|end| union(end - 2, end)).collect();
    let mut count = word.len();
    while let Some(Reverse((_, start, end))) = unions.pop() {
        // One of the two may have become part of another token.
        let Some(middle) = ends[start].filter(|&middle| middle < end && ends[middle] == Some(end)) else {
            continue;
        };
        ends[start] = Some(end);
        ends[middle] = None;
        count -= 1;
        if let Some(&Some(next_end)) = ends.get(end) {
            previous[end] = start;
            unions.extend(union(start, next_end));
        }
        if start > 0 {
            unions.extend(union(previous[start], end));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_are_words_and_parts_of_words() {
        assert_eq!(count_tokens(""), 0);
        assert_eq!(count_tokens("hello world"), 2);
        assert_eq!(count_tokens("    return dial(host)\n"), 5);
    }

    #[test]
    fn no_text_takes_long() {
        for text in ["a".repeat(1 << 20), " ".repeat(1 << 20), "\u{0}\u{fffd}".repeat(1 << 18)] {
            assert!(count_tokens(&text) <= text.len());
        }
    }

    #[test]
    fn a_source_has_as_many_tokens_as_another_implementation_counts() {
        let source = include_str!("tokens.rs");
        assert_eq!(count_tokens(source), tiktoken_rs::o200k_base_singleton().count_ordinary(source));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_text_has_as_many_tokens_as_another_implementation_counts(
            text in prop_oneof![".{0,80}", "[ab ]{0,80}", "[a-z'A-Z0-9_\\s]{0,80}", "(\\PC|\\s){0,80}"]
        ) {
            prop_assert_eq!(count_tokens(&text), tiktoken_rs::o200k_base_singleton().count_ordinary(&text));
        }
    }
}
