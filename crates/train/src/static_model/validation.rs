//! Retrieval quality on repositories that are held out from training.

use quarry_embed::vocabulary::Tokenizer;
use rayon::prelude::*;

use super::contrastive::normalise_rows;
use super::examples::{Bag, Examples};
use super::{Settings, Table, query_sums};
use crate::Pair;

/// Most pairs that are measured.
const MAX_PAIRS: usize = 10_000;
/// Most questions that are asked.
const MAX_QUERIES: usize = 2_000;

/// Questions and functions of held-out repositories.
#[derive(Debug)]
pub struct Validation {
    queries: Bag,
    code: Bag,
    documented: Bag,
    code_hash: Vec<u64>,
    dimension: usize,
}

impl Validation {
    /// Takes every n-th documented pair, so that there are at most 10,000.
    #[must_use]
    pub fn new(pairs: &[&Pair], tokenizer: Tokenizer<'_>, settings: &Settings) -> Validation {
        let documented: Vec<&Pair> = pairs.iter().copied().filter(|pair| !pair.query.is_empty()).collect();
        let step = documented.len().div_ceil(MAX_PAIRS).max(1);
        let pairs: Vec<&Pair> = documented.into_iter().step_by(step).collect();
        let settings = Settings {
            ask_name: 0.0,
            with_name: 0.0,
            with_query: 0.0,
            drop_query_words: 0.0,
            with_doc: 0.0,
            ..settings.clone()
        };
        let examples = Examples::new(&pairs, tokenizer, &settings);
        let all: Vec<u32> = (0..pairs.len() as u32).collect();
        let code = examples.draw(&all, &settings, 0);
        let documented = examples.draw(&all, &Settings { with_doc: 1.0, ..settings.clone() }, 0);
        Validation {
            queries: code.queries,
            code: code.documents,
            documented: documented.documents,
            code_hash: code.code_hash,
            dimension: settings.dimension,
        }
    }

    /// Mean reciprocal rank of the asked function among all held-out ones, twice: with documents that hold no
    /// documentation, and with documents that hold all of it but the question. Ties and repeated questions
    /// count against the model, repeated functions for it. 0 where nothing is held out.
    #[must_use]
    pub fn measure(&self, queries: &Table, documents: &Table) -> (f64, f64) {
        let n = self.queries.len();
        let asked: Vec<usize> = (0..n).step_by(n.div_ceil(MAX_QUERIES).max(1)).collect();
        let mut query_rows = query_sums(queries, documents, &self.queries);
        normalise_rows(&mut query_rows, self.dimension);
        let measure = |bag: &Bag| {
            let mut rows = documents.sums(bag);
            normalise_rows(&mut rows, self.dimension);
            let sum: f64 = asked
                .par_iter()
                .map(|&at| {
                    let query = &query_rows[at * self.dimension..][..self.dimension];
                    let score = |row: usize| -> f32 {
                        let row = &rows[row * self.dimension..][..self.dimension];
                        row.iter().zip(query).map(|(a, b)| a * b).sum()
                    };
                    let own = score(at);
                    let above = (0..n)
                        .filter(|&row| self.code_hash[row] != self.code_hash[at] && score(row) >= own)
                        .count();
                    1.0 / (above + 1) as f64
                })
                .sum();
            sum / asked.len().max(1) as f64
        };
        (measure(&self.code), measure(&self.documented))
    }
}
