//! The stems of words in code.

use std::cell::Cell;
use std::hash::Hasher;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHasher;

use crate::spelling::to_american;

/// Number of words whose stems a thread remembers; a power of two.
const N_REMEMBERED: usize = 1 << 12;

/// Maximum length in bytes of a word that stays remembered.
const MAX_REMEMBERED: usize = 64;

thread_local! {
    static STEMS: Cell<Option<Box<Stems>>> = const { Cell::new(None) };
}

/// Reduces words to their English stems. Stemming takes longer than everything else that splits a text, and code repeats
/// its words, so the last words are remembered, each in the place that its hash gives it.
pub(crate) struct Stems {
    stemmer: Stemmer,
    remembered: Vec<Option<Box<CachedStem>>>,
    /// The last longer word.
    long: CachedStem,
}

#[derive(Clone, Default)]
struct CachedStem {
    word: String,
    stem: String,
}

impl Stems {
    /// Calls `work` with the stems of this thread.
    pub(crate) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        // `work` may call this again; the inner call gets its own stems.
        let mut stems = STEMS.take().unwrap_or_else(|| Box::new(Self::new()));
        let result = work(&mut stems);
        STEMS.set(Some(stems));
        result
    }

    fn new() -> Self {
        // Most processes meet few words: this touches no memory.
        let remembered = vec![None; N_REMEMBERED];
        Self { stemmer: Stemmer::create(Algorithm::English), remembered, long: CachedStem::default() }
    }

    /// The English stem of a word in lower case, in American spelling.
    pub(crate) fn stem(&mut self, word: &str) -> &str {
        let remembered = if word.len() <= MAX_REMEMBERED {
            let mut hasher = FxHasher::default();
            hasher.write(word.as_bytes());
            self.remembered[hasher.finish() as usize % N_REMEMBERED].get_or_insert_default()
        } else {
            &mut self.long
        };
        if remembered.word != word {
            word.clone_into(&mut remembered.word);
            word.clone_into(&mut remembered.stem);
            to_american(&mut remembered.stem);
            remembered.stem = self.stemmer.stem(&remembered.stem).into_owned();
        }
        &remembered.stem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remembered_stem_is_that_of_its_word() {
        let words: Vec<String> = (0..3 * N_REMEMBERED).map(|number| format!("colours{number}ing")).collect();
        let mut stems = Stems::new();
        for _ in 0..2 {
            assert_eq!(stems.stem(""), "");
            assert_eq!(stems.stem("colours"), "color");
            let long = "long".repeat(MAX_REMEMBERED) + "ing";
            for word in words.iter().chain([&long]) {
                let mut alone = Stems::new();
                assert_eq!(stems.stem(word), alone.stem(word));
            }
        }
    }

    #[test]
    fn stems_can_be_borrowed_recursively() {
        Stems::with(|outer| {
            let inner = Stems::with(|inner| inner.stem("caching").to_owned());
            assert_eq!(inner, outer.stem("caching"));
        });
    }
}
