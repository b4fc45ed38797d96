//! Near-duplicates: texts that share most of their token n-grams.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::identifiers;

/// Length of a token n-gram.
const RUN: usize = 3;
/// The signature has `BANDS` bands of `ROWS` values. Two texts of similarity s share a band with probability 1 − (1 −
/// sʳᵒʷˢ)ᵇᵃⁿᵈˢ: 0.9996 at 0.8, 0.973 at 0.7, 0.05 at 0.3.
const BANDS: usize = 20;
const ROWS: usize = 5;

/// Stands for no text.
const NONE: u32 = u32::MAX;

/// Keys are hashes already.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// One hash for each band of a signature: two texts that share one are probably similar.
pub type BandKeys = [u32; BANDS];

/// Hashes of the n-grams of a text's tokens, ascending, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shingles(Box<[u32]>);

impl Shingles {
    pub fn new<'t>(tokens: impl Iterator<Item = &'t str>, n: usize) -> Self {
        let tokens: Vec<u64> = tokens.map(|token| xxh3_64(token.as_bytes())).collect();
        let hash = |run: &[u64]| {
            let mixed =
                run.iter().fold(0, |mixed: u64, token| mixed.rotate_left(21).wrapping_mul(31) ^ token);
            xxh3_64(&mixed.to_le_bytes()) as u32
        };
        let mut runs: Vec<u32> = match tokens.len() {
            0 => Vec::new(),
            length => tokens.windows(n.min(length)).map(hash).collect(),
        };
        runs.sort_unstable();
        runs.dedup();
        Self(runs.into())
    }

    /// The trigrams of the identifiers of a text in lower case.
    pub fn from_identifiers(text: &str) -> Self {
        let identifiers: Vec<String> = identifiers(text).map(str::to_lowercase).collect();
        Self::new(identifiers.iter().map(String::as_str), RUN)
    }

    /// The bands of the signature; `None` for a text without n-grams.
    pub fn bands(&self) -> Option<BandKeys> {
        let mut bands = [0; BANDS];
        let mut n_bands = 0;
        for (band, key) in bands.iter_mut().zip(band_keys(&self.0)) {
            *band = (key >> 32) as u32;
            n_bands += 1;
        }
        (n_bands > 0).then_some(bands)
    }

    /// Jaccard similarity of the sets of n-grams, 0 to 1.
    pub fn similarity(&self, other: &Self) -> f64 {
        similarity(&self.0, &other.0)
    }

    /// Number of distinct n-grams.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Finds texts whose Jaccard similarity to one that was added before is at least a threshold. The similarity is that
/// of the sets of trigrams of identifiers in lower case; candidates come from MinHash signatures in bands (Broder
/// 1997; Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, section 3.4) and are then compared exactly.
#[derive(Debug)]
pub struct NearIndex {
    threshold: f64,
    /// The last added text by band and its values. Twenty million lists for a million texts would take gigabytes; texts
    /// that share a band are therefore chained by `previous`.
    last: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    /// For each added text and band, the text before it with the same values there, or [`NONE`].
    previous: Vec<[u32; BANDS]>,
    /// Hashes of the n-grams of each added text, ascending, without duplicates.
    runs: Vec<Box<[u32]>>,
}

impl NearIndex {
    /// `threshold` is a similarity, greater than 0 and at most 1.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, last: HashMap::default(), previous: Vec::new(), runs: Vec::new() }
    }

    /// The index (0-based, in the order of addition) of the first added text that is similar enough. A text without
    /// identifiers is similar to none.
    pub fn find(&self, text: &str) -> Option<usize> {
        self.find_shingles(&Shingles::from_identifiers(text))
    }

    /// As [`NearIndex::find`] for a text in another form.
    pub fn find_shingles(&self, shingles: &Shingles) -> Option<usize> {
        let runs = &shingles.0;
        let mut candidates: Vec<u32> = Vec::new();
        for (band, key) in band_keys(runs).enumerate() {
            let mut next = self.last.get(&key).copied().unwrap_or(NONE);
            while next != NONE {
                candidates.push(next);
                next = self.previous[next as usize][band];
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates
            .into_iter()
            .map(|candidate| candidate as usize)
            .find(|candidate| self.is_similar(runs, &self.runs[*candidate]))
    }

    fn is_similar(&self, a: &[u32], b: &[u32]) -> bool {
        // No more can be shared than the smaller set has, which settles most of many candidates at once.
        let (least, most) = (a.len().min(b.len()), a.len().max(b.len()));
        least as f64 >= self.threshold * most as f64 && similarity(a, b) >= self.threshold
    }

    pub fn add(&mut self, text: &str) -> usize {
        self.add_runs(Shingles::from_identifiers(text).0)
    }

    fn add_runs(&mut self, runs: Box<[u32]>) -> usize {
        let number = self.runs.len();
        let mut previous = [NONE; BANDS];
        if let Some(number) = u32::try_from(number).ok().filter(|number| *number != NONE) {
            for (previous, key) in previous.iter_mut().zip(band_keys(&runs)) {
                *previous = self.last.insert(key, number).unwrap_or(NONE);
            }
        }
        self.previous.push(previous);
        self.runs.push(runs);
        number
    }

    /// The index of the first added text that is similar enough; if there is none, the text is added.
    pub fn find_or_add(&mut self, text: &str) -> Option<usize> {
        self.find_or_add_shingles(Shingles::from_identifiers(text))
    }

    /// As [`NearIndex::find_or_add`] for a text in another form.
    pub fn find_or_add_shingles(&mut self, shingles: Shingles) -> Option<usize> {
        let found = self.find_shingles(&shingles);
        if found.is_none() {
            self.add_runs(shingles.0);
        }
        found
    }
}

/// One hash for each band of the signature; none for a text without n-grams.
fn band_keys(runs: &[u32]) -> impl Iterator<Item = u64> {
    let bands = if runs.is_empty() { 0 } else { BANDS };
    (0..bands).map(move |band| {
        let values = (0..ROWS).map(|row| {
            // Each value is the minimum over the n-grams under a permutation: an odd factor and a shift mix the bits.
            let seed = xxh3_64_with_seed(&[], (band * ROWS + row) as u64);
            runs.iter()
                .map(|run| (u64::from(*run) ^ seed).wrapping_mul(seed | 1) >> 32)
                .min()
                .unwrap_or_default()
        });
        values.fold(band as u64, |key, value| xxh3_64_with_seed(&value.to_le_bytes(), key))
    })
}

/// Number of common elements of two ascending lists.
pub fn n_common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    common
}

/// Jaccard similarity of two ascending sets: the size of their intersection divided by that of their union.
fn similarity(a: &[u32], b: &[u32]) -> f64 {
    let shared = n_common(a, b);
    let either = a.len() + b.len() - shared;
    if either == 0 { 0.0 } else { f64::from(shared as u32) / either as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_that_of_sets() {
        assert_eq!(similarity(&[1, 2, 3], &[2, 3, 4]), 0.5);
        assert_eq!(similarity(&[1], &[1]), 1.0);
        assert_eq!(similarity(&[], &[]), 0.0);
    }

    #[test]
    fn all_pairs_over_the_threshold_are_found_and_no_others() {
        let mut random = fastrand::Rng::with_seed(7);
        let word = |random: &mut fastrand::Rng| format!("w{}", random.u32(..10_000));
        let mut index = NearIndex::new(0.8);
        let (mut found, mut similar) = (0, 0);
        for _ in 0..500 {
            let words: Vec<String> = (0..60).map(|_| word(&mut random)).collect();
            let mut changed = words.clone();
            for _ in 0..random.usize(..6) {
                let index = random.usize(..60);
                changed[index] = word(&mut random);
            }
            let (text, other) = (words.join(" "), changed.join("\n"));
            assert_eq!(index.find(&text), None);
            let number = index.add(&text);
            let is_similar =
                similarity(&Shingles::from_identifiers(&text).0, &Shingles::from_identifiers(&other).0)
                    >= 0.8;
            similar += usize::from(is_similar);
            if let Some(first) = index.find(&other) {
                assert_eq!(first, number);
                assert!(is_similar);
                found += 1;
            }
        }
        assert!(similar > 200 && similar < 480, "{similar}");
        // Of those at exactly 0.8, 4 in 10,000 may be missed.
        assert!(found + 1 >= similar, "{found} of {similar}");
    }

    #[test]
    fn the_first_of_several_similar_texts_is_found() {
        let mut index = NearIndex::new(0.5);
        let text = |word: &str| format!("{word} one two three four five six seven eight nine");
        // All share bands with each other.
        let numbers: Vec<usize> = ["a", "b", "c", "d"].iter().map(|word| index.add(&text(word))).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(index.find(&text("d")), Some(0));
        index.add("something else entirely that is like no other");
        assert_eq!(index.find_or_add(&text("e")), Some(0));
        assert_eq!(index.find("something else entirely that is like no other"), Some(4));
    }

    #[test]
    fn texts_without_identifiers_are_like_no_other() {
        let mut index = NearIndex::new(0.5);
        index.add("()");
        assert_eq!(index.find("()"), None);
        index.add("one");
        assert_eq!(index.find("One()"), Some(1));
    }
}
