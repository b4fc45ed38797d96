//! The statistics that papers report about their data sets.

use super::{for_each, key, normalized};
use crate::formats::source::Source;
use crate::formats::{FormatError, Judgment, Pair, Record, RecordKind, Retrieved, Side};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Statistics of one data set.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Description {
    /// Number of pairs of a query and a code, or of judgments if these are separate.
    pub pairs: usize,
    /// Number of pairs by label or grade; `none` for those without.
    pub labels: BTreeMap<String, usize>,
    /// Pairs whose query and code both occurred before, by their texts and not their ids, ignoring white space.
    pub repeated_pairs: usize,
    /// Number of queries by number of their codes with a label of 1 or more.
    pub positives_per_query: BTreeMap<usize, usize>,
    /// Number of pairs by programming language, if the format has it.
    pub languages: BTreeMap<String, usize>,
    /// Number of pairs by category, if the format has them.
    pub categories: BTreeMap<String, usize>,
    /// Queries, or documentation that serves as queries.
    pub queries: Texts,
    /// Codes.
    pub codes: Texts,
}

/// Statistics of the texts on one side.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Texts {
    /// Number of texts, including repeated ones.
    pub texts: usize,
    /// Number of distinct texts.
    pub distinct: usize,
    /// Number of distinct texts when runs of white space count as one space.
    pub distinct_normalised: usize,
    /// Number of texts without any word.
    pub empty: usize,
    /// Number of distinct words (separated by white space).
    pub word_vocabulary: usize,
    /// Number of distinct tokens.
    pub token_vocabulary: usize,
    /// Lengths of all texts.
    pub all: Lengths,
    /// Lengths of the distinct texts.
    pub once: Lengths,
}

/// Lengths in three units.
#[derive(Debug, Clone, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct Lengths {
    /// In words.
    pub words: Length,
    /// In characters (Unicode scalar values).
    pub characters: Length,
    /// In tokens.
    pub tokens: Length,
}

/// Distribution of a length. All are 0 if there is no text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct Length {
    /// Arithmetic mean.
    pub mean: f64,
    /// Minimum.
    pub min: usize,
    /// Nearest-rank median.
    pub median: usize,
    /// Nearest-rank 90th percentile.
    pub p90: usize,
    /// Maximum.
    pub max: usize,
}

/// The overlap of one data set with another.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Comparison {
    /// The queries.
    pub queries: SideComparison,
    /// The codes.
    pub codes: SideComparison,
}

/// The overlap of the texts on one side with those of another data set.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SideComparison {
    /// Number of distinct texts in both, runs of white space as one space.
    pub shared: usize,
    /// `shared` as a fraction of the distinct texts of this data set, 0 if it has none.
    pub shared_of_this: f64,
    /// `shared` as a fraction of those of the other.
    pub shared_of_other: f64,
    /// ½ Σ |p − q| over the tokens, where p and q are their relative frequencies in all texts: 0 for equal
    /// distributions, 1 for disjoint ones. The covariate shift of GenCodeSearchNet (section 3).
    pub total_variation_distance: f64,
}

/// Passes on the tokens of a text, one by one. Called by several threads.
pub type Tokenize<'a> = dyn Fn(&str, &mut dyn FnMut(&str)) + Sync + 'a;

/// Size of the texts that are counted at a time, on all cores, in bytes.
const BATCH_BYTES: usize = 8 << 20;
const TEXTS_PER_TASK: usize = 128;

/// Counts a data set. Stores hashes and counts, no texts.
#[derive(Debug, Default)]
pub struct Census {
    pairs: usize,
    /// The distinct pairs, by the contents of query and code.
    seen_pairs: HashSet<(u128, u128)>,
    labels: BTreeMap<String, usize>,
    languages: BTreeMap<String, usize>,
    categories: BTreeMap<String, usize>,
    /// Number of positives by hash of the query's id, or of its text if it has none.
    positives: HashMap<u128, usize>,
    queries: SideCensus,
    codes: SideCensus,
}

#[derive(Debug, Default)]
struct SideCensus {
    /// Hash of the content by hash of the id, for texts in separate files.
    contents: HashMap<u128, u128>,
    /// Texts to be counted, and their total size in bytes.
    waiting: Vec<String>,
    n_bytes: usize,
    texts: usize,
    empty: usize,
    distinct: HashSet<u128>,
    normalized: HashSet<u128>,
    words: HashSet<u128>,
    tokens: HashMap<u128, usize>,
    all: Counts,
    once: Counts,
}

/// Words and tokens of some texts, and their hashes.
#[derive(Default)]
struct Counted {
    words: HashSet<u128>,
    tokens: HashMap<u128, usize>,
    texts: Vec<CountedText>,
}

struct CountedText {
    hash: u128,
    normalized: u128,
    /// Length in words, characters and tokens.
    lengths: [usize; 3],
}

/// Number of texts by length in words, characters and tokens.
#[derive(Debug, Default)]
struct Counts([BTreeMap<usize, usize>; 3]);

impl Census {
    /// Counts the records of all sources. With `published`, the tokens given in the format (separated by spaces)
    /// replace the texts that have them. If there is a file of documents, these are the codes.
    ///
    /// # Errors
    /// The first invalid record, or when a file cannot be read.
    pub fn new(sources: &[Source], published: bool, tokenize: &Tokenize<'_>) -> Result<Self, FormatError> {
        let mut census = Self::default();
        let has = |holds| sources.iter().any(|source| source.format.holds == holds);
        let (has_codes, has_queries) = (has(RecordKind::Documents), has(RecordKind::Queries));
        for_each(sources, &mut |_, record| {
            match record {
                Record::Pair(pair) => {
                    let contents =
                        (census.queries.content(&pair, &pair.query), census.codes.content(&pair, &pair.code));
                    let query = pair.query.id.as_ref().unwrap_or(&pair.query.text);
                    census.count_pair(pair.label, query, contents);
                    *census.languages.entry(pair.language.unwrap_or_default()).or_default() += 1;
                    *census.categories.entry(pair.category.unwrap_or_default()).or_default() += 1;
                    if !has_queries {
                        census.queries.add(pair.query.into_form(published), tokenize);
                    }
                    if !has_codes {
                        census.codes.add(pair.code.into_form(published), tokenize);
                    }
                }
                Record::Query(query) => {
                    census.positives.entry(key(&query.id)).or_default();
                    census.queries.name(&query.id, &query.text);
                    census.queries.add(query.text, tokenize);
                }
                Record::Document(document) => {
                    let text = document.full_text().into_owned();
                    census.codes.name(&document.id, &text);
                    census.codes.add(text, tokenize);
                }
                Record::Judgment(judgment) => {
                    *census.languages.entry(judgment.language.unwrap_or_default()).or_default() += 1;
                    let Judgment { query, document, grade, .. } = judgment;
                    let contents = (census.queries.named(&query), census.codes.named(&document));
                    census.count_pair(Some(grade), &query, contents);
                }
                Record::Label(label) => *census.labels.entry(label.label.to_string()).or_default() += 1,
                Record::Retrieved(Retrieved { query, document, .. }) => {
                    let contents = (census.queries.named(&query), census.codes.named(&document));
                    census.count_pair(None, &query, contents);
                }
            }
            Ok(())
        })?;
        census.queries.count_waiting(tokenize);
        census.codes.count_waiting(tokenize);
        census.languages.remove("");
        census.categories.remove("");
        Ok(census)
    }

    fn count_pair(&mut self, label: Option<i32>, query: &str, contents: (u128, u128)) {
        self.pairs += 1;
        self.seen_pairs.insert(contents);
        *self.labels.entry(label.map_or("none".into(), |label| label.to_string())).or_default() += 1;
        *self.positives.entry(key(query)).or_default() += usize::from(label.is_some_and(|label| label >= 1));
    }

    pub fn describe(&self) -> Description {
        let mut positives_per_query = BTreeMap::new();
        for count in self.positives.values() {
            *positives_per_query.entry(*count).or_default() += 1;
        }
        Description {
            pairs: self.pairs,
            labels: self.labels.clone(),
            repeated_pairs: self.pairs - self.seen_pairs.len(),
            positives_per_query,
            languages: self.languages.clone(),
            categories: self.categories.clone(),
            queries: self.queries.describe(),
            codes: self.codes.describe(),
        }
    }

    /// The overlap of this data set with another.
    pub fn compare(&self, other: &Self) -> Comparison {
        Comparison { queries: self.queries.compare(&other.queries), codes: self.codes.compare(&other.codes) }
    }
}

impl SideCensus {
    fn name(&mut self, id: &str, text: &str) {
        self.contents.insert(key(id), key(&normalized(text)));
    }

    /// The hash of an id's content: that of its text, or of the id itself if no file has the text.
    fn named(&self, id: &str) -> u128 {
        let id = key(id);
        self.contents.get(&id).copied().unwrap_or(id)
    }

    /// The hash of the content of a side of a pair. Its id is used only if its text is in another file, and if it is
    /// not the id of the pair, which in some formats is the row number.
    fn content(&self, pair: &Pair, side: &Side) -> u128 {
        match &side.id {
            Some(id) if side.text.trim().is_empty() && side.id != pair.id => self.named(id),
            _ => key(&normalized(&side.text)),
        }
    }

    fn add(&mut self, text: String, tokenize: &Tokenize<'_>) {
        self.n_bytes += text.len();
        self.waiting.push(text);
        if self.n_bytes >= BATCH_BYTES {
            self.count_waiting(tokenize);
        }
    }

    fn count_waiting(&mut self, tokenize: &Tokenize<'_>) {
        let counted: Vec<Counted> = self
            .waiting
            .par_chunks(TEXTS_PER_TASK)
            .map(|texts| {
                let mut counted = Counted::default();
                texts.iter().for_each(|text| counted.count(text, tokenize));
                counted
            })
            .collect();
        self.waiting.clear();
        self.n_bytes = 0;
        for Counted { words, tokens, texts } in counted {
            self.words.extend(words);
            for (token, count) in tokens {
                *self.tokens.entry(token).or_default() += count;
            }
            for text in texts {
                self.texts += 1;
                self.empty += usize::from(text.lengths[0] == 0);
                self.all.count(text.lengths);
                if self.distinct.insert(text.hash) {
                    self.once.count(text.lengths);
                    self.normalized.insert(text.normalized);
                }
            }
        }
    }

    fn describe(&self) -> Texts {
        Texts {
            texts: self.texts,
            distinct: self.distinct.len(),
            distinct_normalised: self.normalized.len(),
            empty: self.empty,
            word_vocabulary: self.words.len(),
            token_vocabulary: self.tokens.len(),
            all: self.all.lengths(),
            once: self.once.lengths(),
        }
    }

    fn compare(&self, other: &Self) -> SideComparison {
        let shared = self.normalized.intersection(&other.normalized).count();
        let fraction = |of: &HashSet<u128>| if of.is_empty() { 0.0 } else { shared as f64 / of.len() as f64 };
        SideComparison {
            shared,
            shared_of_this: fraction(&self.normalized),
            shared_of_other: fraction(&other.normalized),
            total_variation_distance: total_variation_distance(&self.tokens, &other.tokens),
        }
    }
}

impl Counted {
    fn count(&mut self, text: &str, tokenize: &Tokenize<'_>) {
        let (mut n_words, mut n_tokens) = (0, 0);
        for word in text.split_whitespace() {
            n_words += 1;
            self.words.insert(key(word));
        }
        tokenize(text, &mut |token| {
            n_tokens += 1;
            *self.tokens.entry(key(token)).or_default() += 1;
        });
        self.texts.push(CountedText {
            hash: key(text),
            normalized: key(&normalized(text)),
            lengths: [n_words, text.chars().count(), n_tokens],
        });
    }
}

/// ½ Σ |p − q| over two distributions given by counts: 0 for two empty ones, 1 for an empty and a non-empty one.
fn total_variation_distance(these: &HashMap<u128, usize>, others: &HashMap<u128, usize>) -> f64 {
    // Sums of integers, so that the order of the tokens, which is random, does not matter.
    let total = |counts: &HashMap<u128, usize>| counts.values().map(|count| *count as u128).sum::<u128>();
    let (these_total, others_total) = (total(these), total(others));
    if these_total == 0 || others_total == 0 {
        return if these_total == others_total { 0.0 } else { 1.0 };
    }
    let count =
        |counts: &HashMap<u128, usize>, token: &u128| counts.get(token).map_or(0, |count| *count as u128);
    let both: u128 = these
        .iter()
        .map(|(token, this)| (*this as u128 * others_total).abs_diff(count(others, token) * these_total))
        .sum();
    let only_others: u128 = others
        .iter()
        .filter(|(token, _)| !these.contains_key(token))
        .map(|(_, n)| *n as u128 * these_total)
        .sum();
    (both + only_others) as f64 / (these_total * others_total) as f64 / 2.0
}

impl Counts {
    fn count(&mut self, lengths: [usize; 3]) {
        for (counts, length) in self.0.iter_mut().zip(lengths) {
            *counts.entry(length).or_default() += 1;
        }
    }

    fn lengths(&self) -> Lengths {
        let [words, characters, tokens] = self.0.each_ref().map(length);
        Lengths { words, characters, tokens }
    }
}

fn length(counts: &BTreeMap<usize, usize>) -> Length {
    let n: usize = counts.values().sum();
    let sum: usize = counts.iter().map(|(length, count)| length * count).sum();
    // The smallest length that at least this fraction of the texts do not exceed.
    let quantile = |fraction: f64| {
        let rank = (fraction * n as f64).ceil() as usize;
        let mut before = 0;
        let found = counts.iter().find(|(_, count)| {
            before += **count;
            before >= rank
        });
        found.map_or(0, |(length, _)| *length)
    };
    Length {
        mean: if n == 0 { 0.0 } else { sum as f64 / n as f64 },
        min: counts.keys().next().copied().unwrap_or_default(),
        median: quantile(0.5),
        p90: quantile(0.9),
        max: counts.keys().next_back().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tokens: &[(u128, usize)]) -> HashMap<u128, usize> {
        tokens.iter().copied().collect()
    }

    #[test]
    fn distance_of_distributions() {
        let a = counts(&[(1, 1), (2, 1)]);
        assert_eq!(total_variation_distance(&a, &a), 0.0);
        assert_eq!(total_variation_distance(&a, &counts(&[(1, 50), (2, 50)])), 0.0);
        assert_eq!(total_variation_distance(&a, &counts(&[(3, 7)])), 1.0);
        // (|1/2 - 3/4| + |1/2 - 0| + |0 - 1/4|) / 2
        assert_eq!(total_variation_distance(&a, &counts(&[(1, 3), (3, 1)])), 0.5);
        assert_eq!(total_variation_distance(&a, &counts(&[])), 1.0);
        assert_eq!(total_variation_distance(&counts(&[]), &counts(&[])), 0.0);
    }

    #[test]
    fn lengths_by_nearest_rank() {
        let counts = BTreeMap::from([(1, 5), (2, 4), (10, 1)]);
        assert_eq!(length(&counts), Length { mean: 2.3, min: 1, median: 1, p90: 2, max: 10 });
        assert_eq!(length(&BTreeMap::new()), Length::default());
    }
}
