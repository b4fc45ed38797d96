//! Positions of the words of a text.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Positions of words of a text, ascending.
#[derive(Default)]
pub(crate) struct Words<'a> {
    known: RefCell<HashMap<&'a str, Rc<[usize]>>>,
    /// All of them, once many were asked for.
    all: OnceCell<HashMap<&'a str, Rc<[usize]>>>,
}

/// Words that are looked for one by one, before all of a text are found at once.
const MAX_SINGLE_WORDS: usize = 24;

impl<'a> Words<'a> {
    /// The starts of a word in `text`, which is always the same.
    pub fn positions(&self, text: &'a str, word: &'a str) -> Rc<[usize]> {
        if let Some(all) = self.all.get() {
            return all.get(word).cloned().unwrap_or_default();
        }
        let mut known = self.known.borrow_mut();
        if known.len() < MAX_SINGLE_WORDS {
            return known.entry(word).or_insert_with(|| positions_of(text, word)).clone();
        }
        let all = self.all.get_or_init(|| all_words(text));
        all.get(word).cloned().unwrap_or_default()
    }
}

/// The starts of a word that is not part of a longer one.
fn positions_of(text: &str, word: &str) -> Rc<[usize]> {
    let is_whole = |at: &usize| {
        !text[..*at].ends_with(is_word_part) && !text[at + word.len()..].starts_with(is_word_part)
    };
    memchr::memmem::find_iter(text.as_bytes(), word).filter(is_whole).collect()
}

/// The starts of all words of a text.
fn all_words(text: &str) -> HashMap<&str, Rc<[usize]>> {
    let mut words: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, is_word_part(c)) {
            (None, true) => start = Some(at),
            (Some(begin), false) => {
                words.entry(&text[begin..at]).or_default().push(begin);
                start = None;
            }
            _ => {}
        }
    }
    words.into_iter().map(|(word, positions)| (word, positions.into())).collect()
}

pub(crate) fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_alone_as_among_all() {
        let text = "a aa aaa a_a é.a a";
        let all = all_words(text);
        for word in ["a", "aa", "aaa", "a_a", "é"] {
            assert_eq!(positions_of(text, word), all[word], "{word}");
        }
        assert!(positions_of(text, "b").is_empty() && !all.contains_key("b"));
        let many: Vec<String> = (0..2 * MAX_SINGLE_WORDS).map(|number| format!("x{number}")).collect();
        let words = Words::default();
        many.iter().for_each(|word| assert!(words.positions(text, word).is_empty()));
        assert_eq!(words.positions(text, "aa"), all["aa"]);
    }
}
