//! Retrieval quality on repositories that are held out from training.

use std::cmp::Ordering;

use quarry_embed::vocabulary::Tokenizer;
use rayon::prelude::*;

use super::contrastive::{dot, normalize_rows};
use super::examples::{Batch, Examples};
use super::{HeldOutMrr, Settings, Table, query_sums};
use quarry_source::FunctionPair;

const MAX_PAIRS: usize = 10_000;
/// Maximum number of questions that are asked.
const MAX_QUERIES: usize = 2_000;

/// Questions and functions of held-out repositories.
#[derive(Debug)]
pub(super) struct Validation {
    /// Questions are first sentences of documentation, documents hold none of it.
    code: Batch,
    /// Questions are names, documents hold all documentation and not the names.
    named: Batch,
    dimension: usize,
}

impl Validation {
    /// Takes every n-th documented pair, so that there are at most 10,000.
    pub(super) fn new(pairs: &[&FunctionPair], tokenizer: Tokenizer<'_>, settings: &Settings) -> Validation {
        let documented: Vec<&FunctionPair> =
            pairs.iter().copied().filter(|pair| !pair.query.is_empty()).collect();
        let step = documented.len().div_ceil(MAX_PAIRS).max(1);
        let pairs: Vec<&FunctionPair> = documented.into_iter().step_by(step).collect();
        let code = Settings {
            ask_name: 0.0,
            with_name: 0.0,
            with_query: 0.0,
            drop_query_words: 0.0,
            with_doc: 0.0,
            hard_negatives: 0,
            ..settings.clone()
        };
        let named =
            Settings { ask_name: 1.0, hide_name: 1.0, name_with_query: 1.0, with_doc: 1.0, ..code.clone() };
        let examples = Examples::new(&pairs, tokenizer, settings);
        let all: Vec<u32> = (0..pairs.len() as u32).collect();
        Validation {
            code: examples.draw(&all, &code, 0),
            named: examples.draw(&all, &named, 0),
            dimension: settings.dimension,
        }
    }

    /// Mean reciprocal rank of the asked function among all held-out ones, twice: asked by the first sentence of
    /// its documentation among undocumented code, and asked by its name among documented code that does not hold
    /// the name. Ties and other functions with the same question count against the model, repeated functions
    /// do not. `None` where nothing is held out.
    pub(super) fn measure(&self, queries: &Table, documents: &Table) -> Option<HeldOutMrr> {
        let measure = |batch: &Batch| {
            let mut query_rows = query_sums(queries, documents, &batch.queries);
            normalize_rows(&mut query_rows, self.dimension);
            let mut rows = documents.sums(&batch.documents);
            normalize_rows(&mut rows, self.dimension);
            let n = batch.queries.len();
            let asked: Vec<usize> = (0..n).step_by(n.div_ceil(MAX_QUERIES).max(1)).collect();
            let sum: f64 = asked
                .par_iter()
                .map(|&at| {
                    let query = &query_rows[at * self.dimension..][..self.dimension];
                    let score = |row: usize| dot(&rows[row * self.dimension..][..self.dimension], query);
                    let own = score(at);
                    let is_other = |row: usize| batch.code_hash[row] != batch.code_hash[at];
                    // Anything not below it counts as above: NaN is never first.
                    let is_above = |row: usize| score(row).partial_cmp(&own) != Some(Ordering::Less);
                    let above = (0..n).filter(|&row| is_other(row) && is_above(row)).count();
                    1.0 / (above + 1) as f64
                })
                .sum();
            (n > 0).then(|| sum / asked.len() as f64)
        };
        Some(HeldOutMrr { summary: measure(&self.code)?, name: measure(&self.named)? })
    }
}
