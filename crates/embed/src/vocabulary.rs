//! Turns text into the token ids of a static model.

use bytemuck::{Pod, Zeroable};
use quarry_text::{identifiers, lower_case, parts};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum bytes of a piece of an unknown word that is looked up.
const MAX_PIECE_BYTES: usize = 20;

/// One slot of the open-addressing table from the hash of a token to its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Slot {
    hash_low: u32,
    hash_high: u32,
    /// Token id plus one; 0 marks an empty slot.
    id_plus_one: u32,
}

impl Slot {
    const EMPTY: Slot = Slot { hash_low: 0, hash_high: 0, id_plus_one: 0 };

    fn new(hash: u64, id: u32) -> Slot {
        Slot { hash_low: hash as u32, hash_high: (hash >> 32) as u32, id_plus_one: id + 1 }
    }

    fn hash(self) -> u64 {
        u64::from(self.hash_high) << 32 | u64::from(self.hash_low)
    }
}

/// The key of a token in the table: the hash of a lower-case word.
pub fn word_hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

/// The key of a pair of adjacent words in the table, from the hashes of the two.
pub fn bigram_hash(first: u64, second: u64) -> u64 {
    (first.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ second).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Builds the table for tokens with these hashes; the id of a token is its position in the list.
/// A hash that occurs twice keeps its first id.
pub fn build_slots(hashes: &[u64]) -> Vec<Slot> {
    let n_slots = (hashes.len() * 2).next_power_of_two().max(2);
    let mut slots = vec![Slot::EMPTY; n_slots];
    for (id, &hash) in hashes.iter().enumerate() {
        let mut at = hash as usize & (n_slots - 1);
        while slots[at] != Slot::EMPTY && slots[at].hash() != hash {
            at = (at + 1) & (n_slots - 1);
        }
        if slots[at] == Slot::EMPTY {
            slots[at] = Slot::new(hash, id as u32);
        }
    }
    slots
}

/// Turns text into token ids: each lower-cased part of an identifier that the vocabulary holds, an unknown one
/// as its longest known pieces from left to right, and each known pair of neighboring parts.
#[derive(Debug, Clone, Copy)]
pub struct Tokenizer<'a> {
    /// Table made by [`build_slots`]; its length is a power of two and it has empty slots.
    pub slots: &'a [Slot],
    /// Maximum words read from one text; the rest is ignored.
    pub max_words: usize,
}

impl Tokenizer<'_> {
    fn find(&self, hash: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.id_plus_one == 0 {
                return None;
            }
            if slot.hash() == hash {
                return Some(slot.id_plus_one - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Calls `emit` with each token id of `text` and the number of words before it.
    pub fn tokens(&self, text: &str, mut emit: impl FnMut(u32, usize)) {
        let mut previous = None;
        for_each_word(text, self.max_words, |word, position| {
            let hash = word_hash(word);
            match self.find(hash) {
                Some(id) => emit(id, position),
                None => self.pieces(word, |id| emit(id, position)),
            }
            if let Some(id) = previous.and_then(|first| self.find(bigram_hash(first, hash))) {
                emit(id, position);
            }
            previous = Some(hash);
        });
    }

    fn pieces(&self, word: &str, mut emit: impl FnMut(u32)) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let longest = (first.len_utf8() + 1..=rest.len().min(MAX_PIECE_BYTES))
                .rev()
                .filter(|&end| rest.is_char_boundary(end))
                .find_map(|end| Some((end, self.find(word_hash(&rest[..end]))?)));
            rest = match longest {
                Some((end, id)) => {
                    emit(id);
                    &rest[end..]
                }
                None => &rest[first.len_utf8()..],
            };
        }
    }
}

/// Calls `emit` with the first `max_words` words of a text (identifier parts in lower case) and their position.
pub fn for_each_word(text: &str, max_words: usize, mut emit: impl FnMut(&str, usize)) {
    let mut lower = String::new();
    for (position, part) in identifiers(text).flat_map(parts).take(max_words).enumerate() {
        lower_case(part, &mut lower);
        emit(&lower, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vocabulary: &[&str], bigrams: &[(usize, usize)], text: &str, expected: &[(u32, usize)]) {
        let mut hashes: Vec<u64> = vocabulary.iter().map(|word| word_hash(word)).collect();
        for &(first, second) in bigrams {
            hashes.push(bigram_hash(hashes[first], hashes[second]));
        }
        let slots = build_slots(&hashes);
        let mut found = Vec::new();
        Tokenizer { slots: &slots, max_words: 6 }.tokens(text, |id, position| found.push((id, position)));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn known_words_unknown_words_and_neighbors() {
        let words = ["read", "csv", "file", "hash", "map"];
        check(&words, &[(0, 1)], "readCsv(file)", &[(0, 0), (1, 1), (5, 1), (2, 2)]);
        check(&words, &[], "hashmap xhashqmap", &[(3, 0), (4, 0), (3, 1), (4, 1)]);
        check(&words, &[], "ÄÖ — é", &[]);
        check(&words, &[], "", &[]);
    }

    #[test]
    fn reads_no_more_than_its_limit() {
        check(&["a"], &[], "a a a a a a a a a", &[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    }

    #[test]
    fn every_token_of_a_large_table_is_found() {
        let words: Vec<String> = (0..5000).map(|n| format!("word{n}")).collect();
        let hashes: Vec<u64> = words.iter().map(|word| word_hash(word)).collect();
        let slots = build_slots(&hashes);
        let tokenizer = Tokenizer { slots: &slots, max_words: 1 };
        for (id, &hash) in hashes.iter().enumerate() {
            assert_eq!(tokenizer.find(hash), Some(id as u32));
        }
        assert_eq!(tokenizer.find(word_hash("absent")), None);
    }
}
