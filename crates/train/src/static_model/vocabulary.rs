//! Chooses the tokens of a static model.

use quarry_embed::vocabulary::{bigram_hash, for_each_word, word_hash};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use quarry_source::FunctionPair;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VocabularySize {
    /// Single words.
    pub words: usize,
    /// Pairs of neighboring words.
    pub bigrams: usize,
    /// Tokens, words and pairs, that get a query row of their own.
    pub query: usize,
}

/// The tokens of a model: hashes by id. Those of most use to queries have the lowest ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    pub hashes: Vec<u64>,
    /// The tokens as text, a pair as two words with a space between.
    pub texts: Vec<String>,
    /// Number of leading tokens that occur in queries often enough for a row of their own.
    pub n_query: usize,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    /// Token hash → (number of pairs that hold it, number of queries that hold it).
    by_hash: FxHashMap<u64, (u32, u32)>,
}

/// Words of a pair that are counted: beyond this a function's words are mostly repetition.
const COUNTED_WORDS: usize = 150;

/// Words are chosen by the number of functions that hold them, a function's query counting as well; pairs of
/// words by `n · ln(n · N / (n₁ · n₂))`, how often they stand together times how much more often than by chance
/// (a log-likelihood ratio without its minor terms, after Dunning 1993). Equal scores go by text, ascending.
pub fn choose(pairs: &[&FunctionPair], size: VocabularySize) -> Vocabulary {
    let n_pairs = pairs.len() as f64;
    let (words, texts) = count_words(pairs);
    let mut chosen = top(
        words.by_hash.iter().map(|(&hash, &(all, queries))| {
            // A word that people write in sentences is worth more than an equally frequent identifier.
            (f64::from(all) + 3.0 * f64::from(queries), texts[&hash].clone(), hash)
        }),
        size.words,
    );
    if size.bigrams > 0 {
        let known: FxHashMap<u64, u32> =
            chosen.iter().map(|(_, hash)| (*hash, words.by_hash[hash].0)).collect();
        let bigrams = count_bigrams(pairs, &known);
        let scored = bigrams.iter().filter(|(_, counts)| counts.0 >= 20).map(|(&(first, second), counts)| {
            let n = f64::from(counts.0);
            let expected = f64::from(known[&first]) * f64::from(known[&second]) / n_pairs;
            let text = format!("{} {}", texts[&first], texts[&second]);
            ((n + 3.0 * f64::from(counts.1)) * (n / expected).ln(), text, bigram_hash(first, second))
        });
        let queries = |hash: u64, counts: &FxHashMap<u64, u32>| counts.get(&hash).copied().unwrap_or(0);
        let bigram_queries: FxHashMap<u64, u32> =
            bigrams.iter().map(|(&(a, b), counts)| (bigram_hash(a, b), counts.1)).collect();
        let bigrams = top(scored, size.bigrams);
        chosen.extend(bigrams);
        return order(chosen, size.query, |hash| match words.by_hash.get(&hash) {
            Some(counts) => counts.1,
            None => queries(hash, &bigram_queries),
        });
    }
    order(chosen, size.query, |hash| words.by_hash[&hash].1)
}

/// Puts the tokens that occur in most queries first.
fn order(mut chosen: Vec<(String, u64)>, n_query: usize, n_queries_with: impl Fn(u64) -> u32) -> Vocabulary {
    chosen.sort_by(|a, b| n_queries_with(b.1).cmp(&n_queries_with(a.1)).then_with(|| a.0.cmp(&b.0)));
    let frequent = chosen.iter().take_while(|(_, hash)| n_queries_with(*hash) >= 3).count();
    let (texts, hashes) = chosen.into_iter().unzip();
    Vocabulary { hashes, texts, n_query: n_query.min(frequent) }
}

fn top(scored: impl Iterator<Item = (f64, String, u64)>, n: usize) -> Vec<(String, u64)> {
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.truncate(n);
    scored.into_iter().map(|(_, text, hash)| (text, hash)).collect()
}

fn document_fields(pair: &FunctionPair) -> [&str; 2] {
    [&pair.doc, &pair.code]
}

fn count_words(pairs: &[&FunctionPair]) -> (Counts, FxHashMap<u64, String>) {
    let merge = |mut a: (Counts, FxHashMap<u64, String>), b: (Counts, FxHashMap<u64, String>)| {
        for (hash, (all, queries)) in b.0.by_hash {
            let counts = a.0.by_hash.entry(hash).or_default();
            counts.0 += all;
            counts.1 += queries;
        }
        a.1.extend(b.1);
        a
    };
    pairs
        .par_chunks(4096)
        .map(|chunk| {
            let (mut counts, mut texts) = (Counts::default(), FxHashMap::default());
            let mut seen = FxHashMap::default();
            for pair in chunk {
                seen.clear();
                let mut see = |text: &str, in_query: bool| {
                    for_each_word(text, COUNTED_WORDS, |word, _| {
                        let hash = word_hash(word);
                        *seen.entry(hash).or_insert(false) |= in_query;
                        texts.entry(hash).or_insert_with(|| word.to_owned());
                    });
                };
                see(&pair.query, true);
                document_fields(pair).iter().for_each(|text| see(text, false));
                for (&hash, &in_query) in &seen {
                    let counts = counts.by_hash.entry(hash).or_insert((0, 0));
                    counts.0 += 1;
                    counts.1 += u32::from(in_query);
                }
            }
            (counts, texts)
        })
        .reduce(Default::default, |a, b| if a.1.len() < b.1.len() { merge(b, a) } else { merge(a, b) })
}

type BigramCounts = FxHashMap<(u64, u64), (u32, u32)>;

fn count_bigrams(pairs: &[&FunctionPair], known: &FxHashMap<u64, u32>) -> BigramCounts {
    let count = |chunk: &[&FunctionPair]| {
        let mut counts = BigramCounts::default();
        for pair in chunk {
            let mut see = |text: &str, in_query: bool| {
                let mut previous = None;
                for_each_word(text, COUNTED_WORDS, |word, _| {
                    let hash = Some(word_hash(word)).filter(|hash| known.contains_key(hash));
                    if let (Some(first), Some(second)) = (previous, hash) {
                        let counts = counts.entry((first, second)).or_default();
                        counts.0 += 1;
                        counts.1 += u32::from(in_query);
                    }
                    previous = hash;
                });
            };
            see(&pair.query, true);
            document_fields(pair).iter().for_each(|text| see(text, false));
        }
        counts
    };
    let mut total = BigramCounts::default();
    // Pairs seen once or twice in a large slice are dropped as they come, so that memory stays bounded.
    for slice in pairs.chunks(200_000) {
        let parts: Vec<BigramCounts> = slice.par_chunks(50_000).map(count).collect();
        for (bigram, (all, queries)) in parts.into_iter().flatten() {
            let counts = total.entry(bigram).or_default();
            counts.0 += all;
            counts.1 += queries;
        }
        total.retain(|_, counts| counts.0 > 2);
    }
    total
}
