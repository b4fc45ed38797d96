//! Fitting the mixture of rankings that [`quarry_index::intent`] describes.
//!
//! Questions whose targets are whole files show what a question about a file looks like; those of the category
//! `function` and those from [documentation](super::documentation) what one about behavior looks like; the ranking of
//! functions is learned from all others whose targets have lines. Each table has the same total weight, however many
//! questions it has, except for documentation, which has less.

use std::collections::{BTreeMap, HashMap};

use quarry_corpus::formats::repo_search::RepositoryQuery;
use quarry_index::intent::{
    Model, QUERY_FEATURES, QueryFeatures, RuleScore, Shares, UNIT_FEATURES, UnitFeatures, mixture,
};
use quarry_index::{Filter, SearchRequest};
use rayon::prelude::*;
use serde::Serialize;

use super::documentation::DOCUMENTATION;
use super::{Indexes, unless_empty};
use crate::EvalError;
use crate::spans::{CodeSpan, K, ndcg};
use quarry_metrics::classification;
use quarry_metrics::optimize::{logistic, minimize};
use quarry_metrics::significance::mean;

/// The category of questions about behavior.
const FUNCTION: &str = "function";

/// Total weight of the questions from documentation, where a table written by people has 1. Their wording is uniform
/// and unlike that of most questions, but without them imperative descriptions are taken for questions about files.
const DOCUMENTATION_WEIGHT: f64 = 0.3;

/// L2 penalty of the gate and of the ranking of functions, over standardized features. Chosen once; halving or
/// doubling them changes cross-validated figures in the third digit.
const GATE_PENALTY: f64 = 0.005;
const RANKING_PENALTY: f64 = 0.003;

/// A question with the candidates that a search finds.
pub struct Question {
    pub table: usize,
    pub repository: String,
    wants_file: Option<bool>,
    teaches_ranking: bool,
    is_documentation: bool,
    n_targets: usize,
    features: QueryFeatures,
    candidates: Vec<Candidate>,
}

struct Candidate {
    features: UnitFeatures,
    rules: RuleScore,
    function_factor: f32,
    /// Indices of the targets that contain it.
    targets: Vec<usize>,
}

impl Question {
    /// NDCG@10 of the candidates ranked by the rules alone, or by a mixture with a model.
    pub fn ndcg(&self, model: Option<&Model>) -> f64 {
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        // A query that is an identifier is looked up, not described.
        let is_symbol = self.features[1] == 1.0;
        if let Some(model) = model.filter(|_| !is_symbol) {
            let scores = self.scores(model);
            // Stable, so that ties stay in the order of the rules.
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        }
        let targets: Vec<usize> = (0..self.n_targets).collect();
        ndcg(&targets, &order, |target, &candidate| self.candidates[candidate].targets.contains(target))
    }

    fn scores(&self, model: &Model) -> Vec<f32> {
        let (rules, features): (Vec<RuleScore>, Vec<UnitFeatures>) =
            self.candidates.iter().map(|candidate| (candidate.rules, candidate.features)).unzip();
        let Shares { file, function } = model.shares(&rules, &features);
        let probability = model.file_probability(&self.features);
        let score = |((candidate, file), function): ((&Candidate, f32), f32)| {
            mixture(probability, file, function * candidate.function_factor)
        };
        self.candidates.iter().zip(file).zip(function).map(score).collect()
    }
}

impl Indexes<'_> {
    /// Searches for all questions that have an answer; `table_of` maps each repository to the index of its table.
    ///
    /// # Errors
    /// When a search fails.
    pub fn questions(&self, table_of: &[usize]) -> Result<Vec<Question>, EvalError> {
        let of_repository = |(entry, &table): (&super::Entry, &usize)| {
            let answered = entry.repository.queries.iter().filter(|query| !query.targets.is_empty());
            answered.filter_map(|query| entry.question(table, query).transpose()).collect()
        };
        let questions: Result<Vec<Vec<Question>>, EvalError> =
            self.entries.par_iter().zip(table_of).map(of_repository).collect();
        Ok(questions?.into_iter().flatten().collect())
    }
}

impl super::Entry<'_> {
    fn question(&self, table: usize, query: &RepositoryQuery) -> Result<Option<Question>, EvalError> {
        let filter = Filter::default();
        let request = SearchRequest {
            query: &query.text,
            limit: K,
            ranking: quarry_index::RankingWeights::default(),
            filter: &filter,
        };
        let Some((features, found)) = unless_empty(self.index.features(&request).map(Some))? else {
            return Ok(None);
        };
        let mut files: HashMap<String, u32> = HashMap::new();
        let candidate = |(hit, features): (quarry_index::Hit, UnitFeatures)| {
            let n_files = files.len() as u32;
            let file = *files.entry(hit.path.clone()).or_insert(n_files);
            let (rules, function_factor) = (RuleScore::new(file, &hit.parts), hit.parts.function_factor);
            let span = CodeSpan::from(hit);
            let targets = query.targets.iter().enumerate().filter(|(_, target)| span.answers(target));
            Candidate {
                features,
                rules,
                function_factor,
                targets: targets.map(|(number, _)| number).collect(),
            }
        };
        let has_lines = query.targets.iter().all(|target| target.lines.is_some());
        let is_documentation = query.category == DOCUMENTATION;
        let is_file = query.targets.iter().all(|target| target.lines.is_none());
        Ok(Some(Question {
            table,
            repository: self.repository.name.clone(),
            wants_file: match query.category.as_str() {
                FUNCTION | DOCUMENTATION => Some(false),
                _ if is_file => Some(true),
                _ => None,
            },
            teaches_ranking: has_lines && !is_documentation,
            is_documentation,
            n_targets: query.targets.len(),
            features,
            candidates: found.into_iter().map(candidate).collect(),
        }))
    }
}

/// Mean and standard deviation of each feature.
struct Scale<const N: usize> {
    mean: [f64; N],
    deviation: [f64; N],
}

impl<const N: usize> Scale<N> {
    fn fit<'a>(rows: impl Iterator<Item = &'a [f32; N]> + Clone) -> Self {
        let n = rows.clone().count().max(1) as f64;
        let mut mean = [0.0; N];
        rows.clone().for_each(|row| (0..N).for_each(|at| mean[at] += f64::from(row[at]) / n));
        let mut deviation = [0.0; N];
        rows.for_each(|row| {
            (0..N).for_each(|at| deviation[at] += (f64::from(row[at]) - mean[at]).powi(2) / n);
        });
        // A constant feature carries no information: whatever its weight, it is divided by a large number.
        Self {
            mean,
            deviation: deviation.map(|variance| if variance > 1e-12 { variance.sqrt() } else { 1e6 }),
        }
    }

    fn apply(&self, row: &[f32; N]) -> [f64; N] {
        std::array::from_fn(|at| (f64::from(row[at]) - self.mean[at]) / self.deviation[at])
    }
}

/// Weight of each question: 1 in total for a table, or [`DOCUMENTATION_WEIGHT`].
fn weights(questions: &[&Question]) -> Vec<f64> {
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    questions.iter().for_each(|question| *counts.entry(question.table).or_default() += 1.0);
    let of_table = |question: &Question| if question.is_documentation { DOCUMENTATION_WEIGHT } else { 1.0 };
    questions.iter().map(|question| of_table(question) / counts[&question.table]).collect()
}

/// Fits a model to questions, with `file_odds` and `sharpness` taken from `base`. Both parts are convex, so equal
/// questions give equal models.
pub fn fit<'a>(questions: impl Iterator<Item = &'a Question>, base: &Model) -> Model {
    let questions: Vec<&Question> = questions.collect();
    let (intercept, query) = fit_gate(&questions);
    // A few questions with lines in a table about files must not count as much as a table about functions.
    let weighted = questions.iter().copied().zip(weights(&questions));
    let unit = fit_ranking(weighted.filter(|(question, _)| question.teaches_ranking));
    Model { intercept, query, unit, ..base.clone() }
}

/// The logistic regression of whether a question wants a file.
fn fit_gate(questions: &[&Question]) -> (f32, QueryFeatures) {
    const N: usize = QUERY_FEATURES.len();
    let known: Vec<&Question> =
        questions.iter().copied().filter(|question| question.wants_file.is_some()).collect();
    let scale = Scale::fit(known.iter().map(|question| &question.features));
    let rows: Vec<([f64; N + 1], f64, f64)> = known
        .iter()
        .zip(weights(&known))
        .map(|(question, weight)| {
            let scaled = scale.apply(&question.features);
            let inputs = std::array::from_fn(|at| if at < N { scaled[at] } else { 1.0 });
            (inputs, f64::from(u8::from(question.wants_file == Some(true))), weight * 5.0)
        })
        .collect();
    let found = logistic(&rows, &std::array::from_fn(|at| if at < N { GATE_PENALTY * 5.0 } else { 0.0 }));
    let raw: [f64; N] = std::array::from_fn(|at| found[at] / scale.deviation[at]);
    let intercept = found[N] - (0..N).map(|at| raw[at] * scale.mean[at]).sum::<f64>();
    (intercept as f32, raw.map(|weight| weight as f32))
}

/// The listwise softmax regression (Cao et al., *Learning to Rank: From Pairwise Approach to Listwise Approach*,
/// 2007, with the top-one probability) of candidates within a target among all candidates of a question.
fn fit_ranking<'a>(questions: impl Iterator<Item = (&'a Question, f64)>) -> UnitFeatures {
    /// Candidates with whether each is correct, and the weight of the question.
    type List = (Vec<([f64; N], bool)>, f64);
    const N: usize = UNIT_FEATURES.len();
    let is_right = |candidate: &Candidate| !candidate.targets.is_empty();
    let found: Vec<(&Question, f64)> =
        questions.filter(|(question, _)| question.candidates.iter().any(is_right)).collect();
    let scale =
        Scale::fit(found.iter().flat_map(|(question, _)| &question.candidates).map(|unit| &unit.features));
    let lists: Vec<List> = found
        .iter()
        .map(|&(question, weight)| {
            let row = |candidate: &Candidate| (scale.apply(&candidate.features), is_right(candidate));
            (question.candidates.iter().map(row).collect(), weight)
        })
        .collect();
    let found = minimize(vec![0.0; N], |at| {
        let mut value = RANKING_PENALTY / 2.0 * at.iter().map(|weight| weight * weight).sum::<f64>();
        let mut gradient: Vec<f64> = at.iter().map(|weight| RANKING_PENALTY * weight).collect();
        for (rows, weight) in &lists {
            let scores: Vec<f64> =
                rows.iter().map(|(row, _)| row.iter().zip(at).map(|(value, by)| value * by).sum()).collect();
            let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (mut all, mut right) = (0.0, 0.0);
            for (score, (_, is_right)) in scores.iter().zip(rows) {
                let share = (score - maximum).exp();
                all += share;
                right += if *is_right { share } else { 0.0 };
            }
            // If the probability of the correct ones underflows to zero, the loss would be infinite.
            let right = right.max(f64::MIN_POSITIVE);
            value += weight * (all.ln() - right.ln());
            for (score, (row, is_right)) in scores.iter().zip(rows) {
                let share = (score - maximum).exp();
                let error = weight * (share / all - if *is_right { share / right } else { 0.0 });
                row.iter().zip(&mut gradient).for_each(|(value, by)| *by += error * value);
            }
        }
        (value, gradient)
    });
    std::array::from_fn(|at| (found[at] / scale.deviation[at]) as f32)
}

/// NDCG@10 of one table, averaged over its repositories.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TableScores {
    /// By the rules alone.
    pub rules: f64,
    /// With the model in use.
    pub in_use: f64,
    /// For each repository, with a model that was fitted without it.
    pub without_repository: f64,
    /// For each repository, with a model that was fitted without it and without its table.
    pub without_table: f64,
}

/// A fitted model, and its cross-validated scores.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "IntentFit")]
pub struct Fitted {
    /// Scores by table.
    pub tables: Vec<TableScores>,
    /// Area under the ROC curve of the gate between questions about files and about behavior, on held-out
    /// repositories.
    pub gate_roc_auc: f64,
    /// The same with the tables of the repositories held out too: whether the gate recognizes kinds of questions rather
    /// than authors.
    pub gate_roc_auc_without_table: f64,
    /// The model fitted on all questions.
    pub model: Model,
}

/// The table of a repository's questions, their mean NDCG@10 under each of four models, and for each question of the
/// gate whether it wants a file, with the probabilities of two models.
type Asked = (usize, [f64; 4], Vec<(bool, f64, f64)>);

/// Fits the model, and evaluates models that were fitted without each repository and without each table.
pub fn cross_validate(questions: &[Question], base: &Model) -> Fitted {
    let n_tables = questions.iter().map(|question| question.table + 1).max().unwrap_or(0);
    let mut groups: BTreeMap<(usize, &str), Vec<&Question>> = BTreeMap::new();
    for question in questions {
        groups.entry((question.table, &question.repository)).or_default().push(question);
    }
    let groups: Vec<((usize, &str), Vec<&Question>)> = groups.into_iter().collect();
    let asked: Vec<Asked> = groups
        .par_iter()
        .map(|((table, repository), own)| {
            let without_repository =
                fit(questions.iter().filter(|question| question.repository != *repository), base);
            let without_table = fit(
                questions.iter().filter(|other| other.repository != *repository && other.table != *table),
                base,
            );
            let models = [None, Some(Model::builtin()), Some(&without_repository), Some(&without_table)];
            let scores = models
                .map(|model| mean(&[&own.iter().map(|question| question.ndcg(model)).collect::<Vec<f64>>()]));
            let gate = own.iter().filter_map(|question| {
                let probability = |model: &Model| f64::from(model.file_probability(&question.features));
                question
                    .wants_file
                    .map(|is_file| (is_file, probability(&without_repository), probability(&without_table)))
            });
            (*table, scores, gate.collect())
        })
        .collect();
    let tables = (0..n_tables)
        .map(|table| {
            let column = |at: usize| {
                let of_table = asked.iter().filter(|(of, ..)| *of == table);
                mean(&[&of_table.map(|(_, scores, _)| scores[at]).collect::<Vec<f64>>()])
            };
            TableScores {
                rules: column(0),
                in_use: column(1),
                without_repository: column(2),
                without_table: column(3),
            }
        })
        .collect();
    let gate = || asked.iter().flat_map(|(_, _, gate)| gate);
    let labels: Vec<bool> = gate().map(|(is_file, ..)| *is_file).collect();
    let auc = |scores: Vec<f64>| classification::roc_auc(&labels, &scores).unwrap_or(0.5);
    Fitted {
        tables,
        gate_roc_auc: auc(gate().map(|(_, probability, _)| *probability).collect()),
        gate_roc_auc_without_table: auc(gate().map(|(_, _, probability)| *probability).collect()),
        model: fit(questions.iter(), base),
    }
}
