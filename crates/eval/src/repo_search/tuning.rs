//! Choosing the weights of a ranking, and measuring the effect of each.
//!
//! [`PARAMETERS`] lists what is tuned. [`cross_validate`] tunes on all repositories but one and evaluates on that
//! one, which estimates the result elsewhere; [`ablation`] switches off one parameter at a time.

use std::collections::HashMap;

use quarry_index::RankingWeights;
use rayon::prelude::*;
use serde::Serialize;

use super::{Entry, Indexes};
use crate::EvalError;
use quarry_metrics::significance::mean;

/// A tuned parameter of a ranking.
pub struct Parameter {
    pub name: &'static str,
    /// Possible values, ascending.
    pub values: &'static [f32],
    pub off: f32,
    get: fn(&RankingWeights) -> f32,
    pub(crate) set: fn(&mut RankingWeights, f32),
}

macro_rules! parameter {
    ($($field:ident).+, $off:literal, $values:expr) => {
        parameter!(stringify!($($field).+), $($field).+, $off, $values)
    };
    ($name:expr, $($field:ident).+, $off:literal, $values:expr) => {
        Parameter {
            name: $name,
            values: &$values,
            off: $off,
            get: |ranking| ranking.$($field).+,
            set: |ranking, value| ranking.$($field).+ = value,
        }
    };
}

/// The tuned fields of [`RankingWeights`], in the order of coordinate descent.
pub const PARAMETERS: [Parameter; 14] = [
    parameter!(dense_weight, 0.0, [0.0, 0.35, 0.5, 0.65, 0.8]),
    parameter!(file_weight, 0.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
    parameter!("place_weight", path_weight, 0.0, [0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]),
    parameter!(name_weight, 0.0, [0.0, 0.25, 0.5, 0.75, 1.0, 1.5]),
    parameter!(name_power, 1.0, [1.0, 1.5, 2.0, 3.0]),
    parameter!(definition, 0.0, [0.0, 1.0, 3.0]),
    parameter!(mention, 0.0, [0.0, 0.25, 0.5, 1.0]),
    parameter!(demotion, 1.0, [0.25, 0.35, 0.5, 0.7, 1.0]),
    parameter!(test, 1.0, [0.25, 0.5, 0.7, 1.0]),
    parameter!(private, 1.0, [0.8, 0.9, 0.99, 1.0]),
    parameter!(repetition, 1.0, [0.35, 0.5, 0.65, 0.8, 1.0]),
    parameter!(duplicate, 1.0, [0.0, 0.5, 1.0]),
    parameter!(bm25f.k1, 1.2, [0.9, 1.2, 1.5]),
    parameter!(function_share, 0.0, [0.0, 0.5, 1.0]),
];

/// The weights of a re-ranker, which are tuned with all others as they are.
pub const RERANKING: [Parameter; 2] = [
    parameter!(rerank_function, 0.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 22.0, 27.0]),
    parameter!(rerank_file, 0.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 22.0, 27.0]),
];

/// The weight of a cross-encoder, likewise.
pub const CROSS_ENCODER: [Parameter; 1] =
    [parameter!(cross_encoder_function, 0.0, [0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5])];

/// Rounds through all parameters; another one changes next to nothing.
const ROUNDS: usize = 2;

/// Result on one repository with weights that were tuned without it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fold {
    /// Short name of the repository that was left out.
    pub repository: String,
    /// Number of its queries.
    pub queries: usize,
    /// NDCG@10 with the ranking tuned on the others.
    pub ndcg: f64,
    /// NDCG@10 with the default ranking.
    pub default_ndcg: f64,
    /// NDCG@10 with all parameters switched off.
    pub off_ndcg: f64,
    /// Chosen values, in the order of the parameters.
    pub chosen: Vec<f32>,
    /// NDCG@10 of each query with the ranking tuned on the others.
    #[serde(skip)]
    pub per_query: Vec<f64>,
    /// NDCG@10 of each query with all parameters switched off.
    #[serde(skip)]
    pub per_query_off: Vec<f64>,
}

/// Score of a ranking without one of its parts.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Ablated {
    /// The parameter that was switched off.
    pub parameter: &'static str,
    /// NDCG@10 without it, weighted mean over repositories.
    pub ndcg: f64,
}

/// Per-query values by repository, cached for each choice of values.
struct Memory<'a> {
    indexes: &'a Indexes<'a>,
    parameters: &'a [Parameter],
    weights: &'a [f64],
    /// By the values of the parameters as bits.
    known: HashMap<Vec<u32>, Vec<Vec<f64>>>,
}

impl Memory<'_> {
    fn strata(&mut self, ranking: &RankingWeights) -> Result<&[Vec<f64>], EvalError> {
        let choice: Vec<u32> =
            self.parameters.iter().map(|parameter| (parameter.get)(ranking).to_bits()).collect();
        if !self.known.contains_key(&choice) {
            // Times are not measured here, so repositories can be searched in parallel.
            let values = |entry: &Entry| {
                entry.scores(ranking).map(|scores| scores.queries.iter().map(|query| query.ndcg).collect())
            };
            let strata = self.indexes.entries.par_iter().map(values).collect::<Result<_, EvalError>>()?;
            self.known.insert(choice.clone(), strata);
        }
        Ok(&self.known[&choice])
    }

    /// Weighted mean over repositories, except `left_out`.
    fn mean_without(&mut self, ranking: &RankingWeights, left_out: Option<usize>) -> Result<f64, EvalError> {
        let weights = self.weights;
        let strata = self.strata(ranking)?;
        let kept = || (0..strata.len()).filter(|number| Some(*number) != left_out);
        let sum: f64 = kept().map(|number| weights[number] * mean(&[&strata[number]])).sum();
        Ok(sum / kept().map(|number| weights[number]).sum::<f64>())
    }

    /// The default ranking with all parameters switched off.
    fn off(&self) -> RankingWeights {
        let mut ranking = RankingWeights::default();
        self.parameters.iter().for_each(|parameter| (parameter.set)(&mut ranking, parameter.off));
        ranking
    }

    /// Goes through the parameters in order and gives each the best value with all others unchanged, starting with
    /// everything switched off, so that earlier choices have no influence. The first of ties.
    fn choose(&mut self, left_out: Option<usize>) -> Result<RankingWeights, EvalError> {
        let mut ranking = self.off();
        let mut best = self.mean_without(&ranking, left_out)?;
        for _ in 0..ROUNDS {
            for parameter in self.parameters {
                let mut tried = ranking.clone();
                for &value in parameter.values {
                    (parameter.set)(&mut tried, value);
                    let found = self.mean_without(&tried, left_out)?;
                    if found > best {
                        (best, ranking) = (found, tried.clone());
                    }
                }
            }
        }
        Ok(ranking)
    }
}

/// The result of leave-one-repository-out cross-validation.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CrossValidation {
    /// One entry per repository.
    pub folds: Vec<Fold>,
    /// Values tuned on all repositories, in the order of the parameters.
    pub chosen: Vec<f32>,
    /// NDCG@10 with these values on the queries on which they were tuned: an optimistic estimate.
    pub chosen_ndcg: f64,
}

/// Tunes parameters of a ranking for each repository on all others, by the weighted mean of NDCG@10 over repositories. `on_fold` is
/// called with the name of each repository that is done.
///
/// # Errors
/// When a search fails.
pub fn cross_validate(
    indexes: &Indexes,
    parameters: &[Parameter],
    weights: &[f64],
    mut on_fold: impl FnMut(&str),
) -> Result<CrossValidation, EvalError> {
    let mut memory = Memory { indexes, parameters, weights, known: HashMap::new() };
    let chosen_of =
        |ranking: &RankingWeights| parameters.iter().map(|parameter| (parameter.get)(ranking)).collect();
    let default = memory.strata(&indexes.ranking)?.to_vec();
    let off = memory.strata(&memory.off())?.to_vec();
    let mut folds = Vec::new();
    for (number, entry) in indexes.entries.iter().enumerate() {
        let ranking = memory.choose(Some(number))?;
        let values = memory.strata(&ranking)?[number].clone();
        folds.push(Fold {
            repository: entry.repository.name.clone(),
            queries: values.len(),
            ndcg: mean(&[&values]),
            default_ndcg: mean(&[&default[number]]),
            off_ndcg: mean(&[&off[number]]),
            chosen: chosen_of(&ranking),
            per_query: values,
            per_query_off: off[number].clone(),
        });
        on_fold(&entry.repository.name);
    }
    let ranking = memory.choose(None)?;
    let chosen_ndcg = memory.mean_without(&ranking, None)?;
    Ok(CrossValidation { folds, chosen: chosen_of(&ranking), chosen_ndcg })
}

/// NDCG@10, weighted mean over repositories, of the default ranking with each parameter switched off, in the order of
/// [`PARAMETERS`].
///
/// # Errors
/// When a search fails.
pub fn ablation(indexes: &Indexes, weights: &[f64]) -> Result<Vec<Ablated>, EvalError> {
    let mut memory = Memory { indexes, parameters: &PARAMETERS, weights, known: HashMap::new() };
    PARAMETERS
        .iter()
        .map(|parameter| {
            let mut ranking = indexes.ranking.clone();
            (parameter.set)(&mut ranking, parameter.off);
            Ok(Ablated { parameter: parameter.name, ndcg: memory.mean_without(&ranking, None)? })
        })
        .collect()
}
