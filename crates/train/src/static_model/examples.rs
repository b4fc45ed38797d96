//! Training examples as token ids, and the batches drawn from them.

use quarry_embed::static_model::position_bucket;
use quarry_embed::vocabulary::Tokenizer;
use rayon::prelude::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Settings;
use quarry_source::FunctionPair;

/// Marks a token that starts a new word, so that positions can be counted.
const NEW_WORD: u32 = 1 << 31;

/// Lists of token ids, one after the other.
#[derive(Debug, Default)]
struct Lists {
    ends: Vec<u32>,
    tokens: Vec<u32>,
}

impl Lists {
    fn get(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.tokens[start..self.ends[at] as usize]
    }

    fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.ends.push(self.tokens.len() as u32);
    }
}

#[derive(Debug)]
pub(super) struct Examples {
    query: Lists,
    name: Lists,
    doc: Lists,
    code: Lists,
    /// Codes that do not answer, those of one example after those of the one before.
    negative: Lists,
    /// End of each example's negatives in the list.
    negative_ends: Vec<usize>,
    /// Equal for examples that ask the same question.
    query_hash: Vec<u64>,
    /// Equal for examples with the same answer.
    code_hash: Vec<u64>,
    /// Equal to the `code_hash` of an answer with the same text.
    negative_hash: Vec<u64>,
    /// Examples of one group may share a batch.
    group: Vec<u32>,
}

/// Weighted token lists, one a row.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Bag {
    /// End of each row in the lists below.
    pub ends: Vec<usize>,
    pub rows: Vec<u32>,
    pub tokens: Vec<u32>,
    /// Position bucket of each entry; `u8::MAX` where position does not count.
    pub buckets: Vec<u8>,
}

impl Bag {
    fn push_row(&mut self, entries: impl Iterator<Item = (u32, u8)>) {
        let row = self.ends.len() as u32;
        for (token, bucket) in entries {
            self.rows.push(row);
            self.tokens.push(token);
            self.buckets.push(bucket);
        }
        self.ends.push(self.tokens.len());
    }

    /// The entries of a row, as a range into the lists.
    pub(super) fn row(&self, at: usize) -> std::ops::Range<usize> {
        (if at == 0 { 0 } else { self.ends[at - 1] })..self.ends[at]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Questions and their answers: row `i` of `queries` belongs to row `i` of `documents`; further rows of `documents` answer
/// none of the questions that they were drawn for.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Batch {
    pub queries: Bag,
    pub documents: Bag,
    /// Rows with equal values ask the same question.
    pub query_hash: Vec<u64>,
    /// Documents with equal values are the same.
    pub code_hash: Vec<u64>,
    /// The example of each row.
    pub examples: Vec<u32>,
}

impl Examples {
    /// Reads the pairs into token ids.
    pub(super) fn new(pairs: &[&FunctionPair], tokenizer: Tokenizer<'_>, settings: &Settings) -> Examples {
        let read = |text: &str, max_words: usize| {
            let mut tokens = Vec::new();
            let mut last = usize::MAX;
            Tokenizer { max_words, ..tokenizer }.tokens(text, |id, position| {
                tokens.push(if position == last { id } else { id | NEW_WORD });
                last = position;
            });
            tokens
        };
        let read: Vec<(_, Vec<_>)> = pairs
            .par_iter()
            .map(|pair| {
                let negatives = pair.negatives.iter().map(|code| read(code, settings.max_words)).collect();
                let texts = [
                    read(&pair.query, settings.max_query_words),
                    read(&pair.name, settings.max_query_words),
                    read(&pair.doc, settings.max_doc_words),
                    read(&pair.code, settings.max_words),
                ];
                (texts, negatives)
            })
            .collect();
        let mut examples = Examples {
            query: Lists::default(),
            name: Lists::default(),
            doc: Lists::default(),
            code: Lists::default(),
            negative: Lists::default(),
            negative_ends: Vec::new(),
            query_hash: Vec::new(),
            code_hash: Vec::new(),
            negative_hash: Vec::new(),
            group: Vec::new(),
        };
        for (pair, ([query, name, doc, code], negatives)) in pairs.iter().zip(read) {
            for negative in negatives {
                examples.negative_hash.push(xxh3_64(bytemuck::cast_slice(&negative)));
                examples.negative.push(&negative);
            }
            examples.negative_ends.push(examples.negative_hash.len());
            // Questions without an answer to them are other functions' names, so that both kinds mask each other.
            let asked = if query.is_empty() { &name } else { &query };
            examples.query_hash.push(xxh3_64(bytemuck::cast_slice(asked)));
            examples.code_hash.push(xxh3_64(bytemuck::cast_slice(&code)));
            examples.group.push(xxh3_64(settings.batches_of.key(pair).as_bytes()) as u32);
            examples.query.push(&query);
            examples.name.push(&name);
            examples.doc.push(&doc);
            examples.code.push(&code);
        }
        examples
    }

    /// The share of all tokens that each token has.
    pub(super) fn frequencies(&self, n_tokens: usize) -> Vec<f32> {
        let mut counts = vec![0u64; n_tokens];
        for list in [&self.query, &self.doc, &self.code] {
            list.tokens.iter().for_each(|token| counts[(token & !NEW_WORD) as usize] += 1);
        }
        let total = counts.iter().sum::<u64>().max(1) as f64;
        counts.into_iter().map(|count| (count as f64 / total) as f32).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.code.ends.len()
    }

    /// The examples of each batch of an epoch: shuffled, whole batches within a group first, what is left of
    /// the groups mixed; an incomplete last batch is left out.
    pub(super) fn plan(&self, settings: &Settings, epoch: usize) -> Vec<Vec<u32>> {
        let mut random = fastrand::Rng::with_seed(mix(settings.seed, epoch, 0));
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        random.shuffle(&mut order);
        order.sort_by_key(|&example| self.group[example as usize]);
        let (mut batches, mut left) = (Vec::new(), Vec::new());
        for group in order.chunk_by(|&a, &b| self.group[a as usize] == self.group[b as usize]) {
            let mut chunks = group.chunks_exact(settings.batch);
            batches.extend(chunks.by_ref().map(<[u32]>::to_vec));
            left.extend_from_slice(chunks.remainder());
        }
        random.shuffle(&mut left);
        batches.extend(left.chunks_exact(settings.batch).map(<[u32]>::to_vec));
        random.shuffle(&mut batches);
        batches
    }

    /// Draws the texts of a batch: which question is asked of each example, and what its document holds.
    pub(super) fn draw(&self, examples: &[u32], settings: &Settings, epoch: usize) -> Batch {
        let mut batch = Batch::default();
        let n_positions = settings.positions;
        for &example in examples {
            let at = example as usize;
            let mut random = fastrand::Rng::with_seed(mix(settings.seed, epoch, at + 1));
            let (query, name, code) = (self.query.get(at), self.name.get(at), self.code.get(at));
            let ask_name = query.is_empty() || !name.is_empty() && random.f32() < settings.ask_name;
            let asked = if ask_name { name } else { query };
            let dropped: Vec<u32> =
                asked.iter().copied().filter(|_| random.f32() >= settings.drop_query_words).collect();
            let asked = if dropped.is_empty() { asked } else { &dropped };
            batch.queries.push_row(asked.iter().map(|token| (token & !NEW_WORD, u8::MAX)));

            // A question that is the function's name is only worth asking of code that does not hold it.
            let hidden = if ask_name && random.f32() < settings.hide_name { name } else { &[] };
            let with_name = !ask_name && random.f32() < settings.with_name;
            let with_doc = random.f32() < settings.with_doc;
            let with_query =
                random.f32() < if ask_name { settings.name_with_query } else { settings.with_query };
            let mut position = usize::MAX;
            let parts = [
                if with_name { name } else { &[] },
                if with_query { query } else { &[] },
                if with_doc { self.doc.get(at) } else { &[] },
                code,
            ];
            batch.documents.push_row(parts.into_iter().flatten().filter_map(|&token| {
                if token & NEW_WORD != 0 {
                    position = position.wrapping_add(1);
                }
                let token = token & !NEW_WORD;
                let keep = position < settings.max_words && !hidden.iter().any(|&h| h & !NEW_WORD == token);
                keep.then(|| (token, position_bucket(position, n_positions) as u8))
            }));
            batch.query_hash.push(if ask_name {
                xxh3_64(bytemuck::cast_slice(name))
            } else {
                self.query_hash[at]
            });
            batch.code_hash.push(self.code_hash[at]);
            batch.examples.push(example);
        }
        for &example in examples {
            self.draw_negatives(example as usize, settings, epoch, &mut batch);
        }
        batch
    }

    /// Adds some of the codes that do not answer the question of an example.
    fn draw_negatives(&self, at: usize, settings: &Settings, epoch: usize, batch: &mut Batch) {
        let start = if at == 0 { 0 } else { self.negative_ends[at - 1] };
        let mut all: Vec<usize> = (start..self.negative_ends[at]).collect();
        if all.is_empty() || settings.hard_negatives == 0 {
            return;
        }
        // Another sequence than that of the example itself.
        let mut random = fastrand::Rng::with_seed(mix(!settings.seed, epoch, at + 1));
        random.shuffle(&mut all);
        for &negative in all.iter().take(settings.hard_negatives) {
            let mut position = usize::MAX;
            batch.documents.push_row(self.negative.get(negative).iter().filter_map(|&token| {
                if token & NEW_WORD != 0 {
                    position = position.wrapping_add(1);
                }
                let bucket = position_bucket(position, settings.positions) as u8;
                (position < settings.max_words).then_some((token & !NEW_WORD, bucket))
            }));
            batch.code_hash.push(self.negative_hash[negative]);
        }
    }
}

/// A seed for one epoch and one example.
fn mix(seed: u64, epoch: usize, at: usize) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(&[epoch as u64, at as u64]), seed)
}
