//! Scores runs and methods over a benchmark.

use crate::EvalError;
use crate::method::{QUERIES_PER_BATCH, Scorer};
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::run::{RankedDocuments, Run};
use quarry_corpus::formats::{Document, Query};
use quarry_metrics::MetricsError;
use quarry_metrics::abstention::{Confidence, normalized_area_under_abstention};
use quarry_metrics::ranking::{Ranking, TiePolicy, rank_judged};
use quarry_metrics::significance::{
    Bootstrap, Interval, PairedComparison, compare_paired, correct_together, mean, mean_interval,
};
use quarry_metrics::{Gain, Measure};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The queries that a mean is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum QuerySelection {
    /// Those in both qrels and run, even without a relevant document: trec_eval.
    #[default]
    Both,
    /// All with a relevant document; 0 for those missing from the run.
    WithPositive,
    /// All in the qrels; 0 for those missing from the run or without a relevant document: ir_measures.
    All,
}

impl QuerySelection {
    /// Returns true if a query with these judgments counts; `found` is true if the run contains it.
    fn counts(self, judged: &BTreeMap<String, i32>, found: bool) -> bool {
        match self {
            QuerySelection::Both => found,
            QuerySelection::WithPositive => judged.values().any(|grade| *grade > 0),
            QuerySelection::All => true,
        }
    }
}

/// Treatment of documents without a judgment; a negative grade counts as no judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Unjudged {
    /// As non-relevant, at their ranks: trec_eval.
    #[default]
    #[serde(rename = "wrong")]
    NonRelevant,
    /// Removed from the ranking, which gives the condensed list ([`Ranking::condensed`]).
    Removed,
}

/// Precision in which the scores of a run are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum ScorePrecision {
    /// As 32-bit floats, so that close scores tie: trec_eval up to version 9 and pytrec_eval.
    #[default]
    Single,
    /// As 64-bit floats: newer trec_eval.
    Double,
}

/// Conventions on which evaluation tools differ. The default is trec_eval's, as in pytrec_eval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Conventions {
    /// Order among equal scores.
    pub ties: TiePolicy,
    /// Gain of a grade in NDCG.
    pub gain: Gain,
    /// Queries that means are taken over.
    pub queries: QuerySelection,
    /// Treatment of unjudged documents.
    pub unjudged: Unjudged,
    /// Precision of a run's scores; methods always give single precision.
    pub scores: ScorePrecision,
}

/// Values of measures for every query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub measures: Vec<Measure>,
    /// Query ids in ascending order, with one value per measure.
    pub queries: Vec<(String, Vec<f64>)>,
    /// Confidence of the method, one per query.
    pub confidences: Vec<Confidence>,
}

/// Means over queries by name of measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "LocalizeSummary")]
pub struct Summary {
    /// Number of queries.
    pub queries: usize,
    /// Means.
    pub metrics: BTreeMap<String, f64>,
    /// Bootstrap intervals of the means.
    pub intervals: BTreeMap<String, Interval>,
}

impl Evaluation {
    /// An evaluation without queries.
    pub(crate) fn new(measures: Vec<Measure>) -> Self {
        Self { measures, queries: Vec::new(), confidences: Vec::new() }
    }

    pub(crate) fn push(&mut self, query: String, values: Vec<f64>, confidence: Confidence) {
        self.queries.push((query, values));
        self.confidences.push(confidence);
    }

    /// Values of the measure at index `measure` in `measures`, one per query.
    pub fn values(&self, measure: usize) -> Vec<f64> {
        self.queries.iter().map(|(_, values)| values[measure]).collect()
    }

    /// Measures how well confidence predicts the queries that are answered badly:
    /// [`normalized_area_under_abstention`] of each measure by each kind of confidence, named as in
    /// `nauc_ndcg@10_max`. Undefined values are omitted.
    pub fn abstention(&self) -> BTreeMap<String, f64> {
        let mut found = BTreeMap::new();
        for (kind, name) in Confidence::NAMES.iter().enumerate() {
            let confidences: Vec<f64> = self.confidences.iter().map(|of| of.values()[kind]).collect();
            for (index, measure) in self.measures.iter().enumerate() {
                if let Some(area) = normalized_area_under_abstention(&confidences, &self.values(index)) {
                    found.insert(format!("nauc_{measure}_{name}"), area);
                }
            }
        }
        found
    }

    /// Means by name of measure. `None` without queries.
    pub fn means(&self) -> Option<BTreeMap<String, f64>> {
        let of_each = self.measures.iter().enumerate();
        let means = of_each.map(|(index, measure)| (measure.to_string(), mean(&[&self.values(index)])));
        (!self.queries.is_empty()).then(|| means.collect())
    }

    /// The same evaluation with only these measures; measures that it lacks are omitted.
    pub fn only(&self, measures: &[Measure]) -> Self {
        let position_of = |measure| self.measures.iter().position(|own| own == measure);
        let positions: Vec<usize> = measures.iter().filter_map(position_of).collect();
        let select = |values: &Vec<f64>| positions.iter().map(|position| values[*position]).collect();
        Self {
            measures: positions.iter().map(|position| self.measures[*position]).collect(),
            queries: self.queries.iter().map(|(query, values)| (query.clone(), select(values))).collect(),
            confidences: self.confidences.clone(),
        }
    }

    /// Means and their intervals.
    ///
    /// # Errors
    /// Without queries.
    pub fn summary(&self, bootstrap: &Bootstrap) -> Result<Summary, EvalError> {
        let rows: Vec<(String, f64, Interval)> = (0..self.measures.len())
            .into_par_iter()
            .map(|measure| {
                let values = self.values(measure);
                let interval = mean_interval(&[&values], bootstrap)?;
                Ok((self.measures[measure].to_string(), mean(&[&values]), interval))
            })
            .collect::<Result<_, EvalError>>()?;
        Ok(Summary {
            queries: self.queries.len(),
            metrics: rows.iter().map(|(name, mean, _)| (name.clone(), *mean)).collect(),
            intervals: rows.into_iter().map(|(name, _, interval)| (name, interval)).collect(),
        })
    }
}

/// Scores a run against qrels.
///
/// # Errors
/// When no query is left to average over.
pub fn evaluate_run(
    qrels: &Qrels,
    run: &Run,
    measures: &[Measure],
    conventions: &Conventions,
) -> Result<Evaluation, EvalError> {
    let nothing = RankedDocuments::default();
    let counted: Vec<_> = qrels
        .iter()
        .map(|(query, judged)| (query, judged, run.get(query)))
        .filter(|(_, judged, found)| conventions.queries.counts(judged, found.is_some()))
        .collect();
    let evaluated: Vec<_> = counted
        .into_par_iter()
        .map(|(query, judged, found)| {
            let found = found.unwrap_or(&nothing);
            let ids: Vec<&str> = found.documents().collect();
            let scores: Vec<f64> = match conventions.scores {
                ScorePrecision::Single => found.scores().map(|score| f64::from(score as f32)).collect(),
                ScorePrecision::Double => found.scores().collect(),
            };
            let grades: FxHashMap<&str, i32> = judged
                .iter()
                .map(|(document, grade)| (document.as_str(), *grade))
                .filter(|(_, grade)| *grade >= 0)
                .collect();
            let judged_found: Vec<(usize, i32)> = ids
                .iter()
                .enumerate()
                .filter_map(|(position, id)| Some((position, *grades.get(id)?)))
                .collect();
            let ranking = rank_judged(&ids, &scores, &judged_found, conventions.ties)?;
            Ok(((query.clone(), values(measures, ranking, judged, conventions)), Confidence::new(&scores)))
        })
        .collect::<Result<_, EvalError>>()?;
    let (queries, confidences): (Vec<_>, Vec<_>) = evaluated.into_iter().unzip();
    if queries.is_empty() {
        return Err(MetricsError::NoQueries {
            remedy: "the run contains no query of the qrels; check that they belong together",
        }
        .into());
    }
    Ok(Evaluation { measures: measures.to_vec(), queries, confidences })
}

/// Ranks all documents with a method for every judged query; `conventions.scores` is ignored.
///
/// `on_scores` gets each query's id and the scores of all documents in corpus order, with queries in ascending
/// order of their ids, for writing a run or showing progress.
///
/// # Errors
/// When the method fails or returns scores that cannot be ranked, `on_scores` fails, or no query is left to average
/// over.
///
/// # Panics
/// When the qrels name a query or document that is not in the benchmark, which its reader rejects.
pub fn evaluate_method(
    benchmark: &Benchmark,
    scorer: &dyn Scorer,
    measures: &[Measure],
    conventions: &Conventions,
    mut on_scores: impl FnMut(&str, &[f32]) -> Result<(), EvalError>,
) -> Result<Evaluation, EvalError> {
    let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
    let positions = positions(&benchmark.documents);
    let asked: HashMap<&str, &Query> =
        benchmark.queries.iter().map(|query| (query.id.as_str(), query)).collect();
    let judged: Vec<(&String, &BTreeMap<String, i32>)> =
        benchmark.qrels.iter().filter(|(_, judged)| conventions.queries.counts(judged, true)).collect();
    if judged.is_empty() {
        return Err(
            MetricsError::NoQueries { remedy: "no query has a relevant document; check the qrels" }.into()
        );
    }
    let mut found = Evaluation::new(measures.to_vec());
    for batch in judged.chunks(QUERIES_PER_BATCH) {
        let queries_of_batch: Vec<&Query> = batch.iter().map(|(query, _)| asked[query.as_str()]).collect();
        let scores = scorer.scores(&queries_of_batch)?;
        let evaluated = batch.par_iter().zip(&scores).map(|((query, judged), scores)| {
            let mut judged_positions: Vec<(usize, i32)> = judged
                .iter()
                .filter(|(_, grade)| **grade >= 0)
                .map(|(document, grade)| (positions[document.as_str()], *grade))
                .collect();
            judged_positions.sort_unstable();
            let ranking = rank_judged(&ids, scores, &judged_positions, conventions.ties)?;
            Ok(((*query).clone(), values(measures, ranking, judged, conventions)))
        });
        found.queries.extend(evaluated.collect::<Result<Vec<_>, EvalError>>()?);
        found.confidences.extend(scores.iter().map(|scores| Confidence::new(scores)));
        for ((query, _), scores) in batch.iter().zip(&scores) {
            on_scores(query, scores)?;
        }
    }
    Ok(found)
}

/// The position of each document by its id.
pub(crate) fn positions(documents: &[Document]) -> HashMap<&str, usize> {
    documents.iter().map(|document| document.id.as_str()).zip(0..).collect()
}

/// Values of a query's measures. `judged` contains all judged documents, retrieved or not.
pub(crate) fn values(
    measures: &[Measure],
    ranking: Ranking,
    judged: &BTreeMap<String, i32>,
    conventions: &Conventions,
) -> Vec<f64> {
    let ranking = match conventions.unjudged {
        Unjudged::NonRelevant => ranking,
        Unjudged::Removed => ranking.condensed(),
    };
    let grades: Vec<i32> = judged.values().copied().filter(|grade| *grade >= 0).collect();
    measures.iter().map(|measure| measure.value(&ranking, &grades, conventions.gain)).collect()
}

/// Indices of the values that change most from `before` to `after`: the `n` largest gains, then the `n` largest
/// losses, each in descending order of the change, ties by index. Fewer if fewer gain or lose.
///
/// # Panics
/// When `after` is shorter than `before`.
pub fn largest_changes(before: &[f64], after: &[f64], n: usize) -> Vec<usize> {
    let change = |position: &usize| after[*position] - before[*position];
    let largest = |sign: f64| {
        let mut positions: Vec<usize> =
            (0..before.len()).filter(|position| sign * change(position) > 0.0).collect();
        positions.sort_by(|a, b| (sign * change(b)).total_cmp(&(sign * change(a))));
        positions.truncate(n);
        positions
    };
    [largest(1.0), largest(-1.0)].concat()
}

/// Difference between two evaluations.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Number of queries that both contain.
    pub queries: usize,
    /// The difference of each measure over these queries.
    pub measures: Vec<(Measure, PairedComparison)>,
}

/// Compares each of `others` with a baseline on the queries that both contain, for each measure in the order of the
/// baseline's measures. p-values are corrected over all comparisons together. The minimum detectable difference is
/// that for `n_planned` queries, by default the number of compared ones.
///
/// # Errors
/// When two have no query in common, or have different measures.
pub fn compare(
    baseline: &Evaluation,
    others: &[Evaluation],
    n_planned: Option<usize>,
    bootstrap: &Bootstrap,
) -> Result<Vec<Comparison>, EvalError> {
    let mut comparisons = others
        .iter()
        .map(|other| compare_two(baseline, other, n_planned, bootstrap))
        .collect::<Result<Vec<_>, EvalError>>()?;
    correct_together(comparisons.iter_mut().flat_map(|found| &mut found.measures).map(|(_, found)| found));
    Ok(comparisons)
}

fn compare_two(
    a: &Evaluation,
    b: &Evaluation,
    n_planned: Option<usize>,
    bootstrap: &Bootstrap,
) -> Result<Comparison, EvalError> {
    if a.measures != b.measures {
        return Err(MetricsError::Values { found: "different measures".into() }.into());
    }
    let of_b: HashMap<&str, &[f64]> =
        b.queries.iter().map(|(query, values)| (query.as_str(), values.as_slice())).collect();
    let pairs: Vec<(&[f64], &[f64])> = a
        .queries
        .iter()
        .filter_map(|(query, values)| Some((values.as_slice(), *of_b.get(query.as_str())?)))
        .collect();
    let measures = a
        .measures
        .par_iter()
        .enumerate()
        .map(|(index, measure)| {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(a, b)| (a[index], b[index])).unzip();
            Ok((*measure, compare_paired(&a, &b, n_planned.unwrap_or(pairs.len()), bootstrap)?))
        })
        .collect::<Result<_, EvalError>>()?;
    Ok(Comparison { queries: pairs.len(), measures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_come_before_losses_and_the_largest_change_first() {
        let (before, after) = ([0.5, 0.0, 1.0, 0.25, 0.5, 0.5], [0.5, 1.0, 0.0, 0.75, 0.25, 1.0]);
        assert_eq!(largest_changes(&before, &after, 2), [1, 3, 2, 4]);
        assert_eq!(largest_changes(&before, &after, 9), [1, 3, 5, 2, 4]);
        assert!(
            largest_changes(&before, &before, 2).is_empty() && largest_changes(&before, &after, 0).is_empty()
        );
    }
    use quarry_corpus::formats::{qrels, run};
    use std::path::Path;

    const QRELS: &str = "1 0 a 1\n1 0 b 0\n2 0 a -1\n3 0 c 2\n3 0 a 1\n";
    const RUN: &str = "1 Q0 b 1 0.5 t\n1 Q0 a 2 0.5 t\n2 Q0 a 1 1 t\n9 Q0 a 1 1 t\n";

    fn evaluate(run: &str, conventions: Conventions) -> Result<Evaluation, EvalError> {
        let qrels = qrels::parse(QRELS.as_bytes(), Path::new("qrels")).unwrap();
        let run = run::parse(run.as_bytes(), Path::new("run")).unwrap();
        let measures = [Measure::ReciprocalRank(None), Measure::Recall(1)];
        evaluate_run(&qrels, &run, &measures, &conventions)
    }

    fn reciprocal_ranks(evaluation: &Evaluation) -> Vec<(&str, f64)> {
        evaluation.queries.iter().map(|(query, values)| (query.as_str(), values[0])).collect()
    }

    #[test]
    fn query_sets_differ_in_what_is_missing_and_what_has_no_answer() {
        let both = evaluate(RUN, Conventions::default()).unwrap();
        assert_eq!(reciprocal_ranks(&both), [("1", 0.5), ("2", 0.0)]);
        let with_positive = Conventions { queries: QuerySelection::WithPositive, ..Conventions::default() };
        assert_eq!(reciprocal_ranks(&evaluate(RUN, with_positive).unwrap()), [("1", 0.5), ("3", 0.0)]);
        assert!(matches!(
            evaluate("9 Q0 a 1 1 t", Conventions::default()),
            Err(EvalError::Metrics(MetricsError::NoQueries { .. }))
        ));
    }

    #[test]
    fn close_scores_tie_in_single_precision_only() {
        let close = "1 Q0 a 1 0.50000000001 t\n1 Q0 b 2 0.5 t\n";
        let mut conventions = Conventions::default();
        assert_eq!(reciprocal_ranks(&evaluate(close, conventions).unwrap()), [("1", 0.5)]);
        conventions.scores = ScorePrecision::Double;
        assert_eq!(reciprocal_ranks(&evaluate(close, conventions).unwrap()), [("1", 1.0)]);
    }

    #[test]
    fn a_summary_holds_means_and_their_intervals_by_name() {
        let summary = evaluate(RUN, Conventions::default()).unwrap().summary(&Bootstrap::default()).unwrap();
        assert_eq!((summary.queries, summary.metrics["mrr"]), (2, 0.25));
        assert_eq!(summary.intervals["mrr"], Interval { low: 0.0, high: 0.5 });
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["intervals"]["mrr"], serde_json::json!([0.0, 0.5]));
    }

    /// Scores a document by how many letters of the query it contains.
    struct Letters<'a>(&'a Benchmark);

    impl Scorer for Letters<'_> {
        fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
            let score = |query: &str, text: &str| query.chars().filter(|&c| text.contains(c)).count() as f32;
            Ok(queries
                .iter()
                .map(|query| {
                    self.0.documents.iter().map(|document| score(&query.text, &document.text)).collect()
                })
                .collect())
        }
    }

    fn benchmark() -> Benchmark {
        // More queries than fit in a batch.
        let name = |i: usize| format!("{:03}", i * 7 % 100);
        let text = |i: usize| ["abc", "bcd", "cde", "efg", "ab"][i % 5].to_owned();
        Benchmark {
            documents: (0..50).map(|i| Document::new(name(i), text(i * 3))).collect(),
            queries: (0..80).map(|i| Query { id: format!("q{i}"), text: text(i) }).collect(),
            qrels: (0..80)
                .filter(|i| i % 9 != 0)
                .map(|i| {
                    let grades = [(name(i % 50), 1), (name((i + 3) % 50), 2), (name((i + 5) % 50), 0)];
                    (format!("q{i}"), BTreeMap::from(grades))
                })
                .collect(),
        }
    }

    #[test]
    fn a_method_scores_as_the_run_that_it_writes() {
        let benchmark = benchmark();
        let measures = Measure::standard();
        let conventions = Conventions::default();
        let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
        let mut bytes = Vec::new();
        let evaluation =
            evaluate_method(&benchmark, &Letters(&benchmark), &measures, &conventions, |query, scores| {
                let ranking = ids.iter().copied().zip(scores.iter().copied());
                run::write_ranking(&mut bytes, query, ranking, "letters").unwrap();
                Ok(())
            })
            .unwrap();
        assert_eq!(evaluation.queries.len(), 71);
        let run = run::parse(&bytes[..], Path::new("run")).unwrap();
        let of_run = evaluate_run(&benchmark.qrels, &run, &measures, &conventions).unwrap();
        assert_eq!(evaluation.queries, of_run.queries);
        let found = evaluation.abstention();
        assert!(found["nauc_mrr_std"] <= 1.0 && found.len() <= 3 * measures.len(), "{found:?}");
        for (name, area) in of_run.abstention() {
            assert!((found[&name] - area).abs() < 1e-9, "{name}");
        }
        let mrr = evaluation.summary(&Bootstrap::default()).unwrap().metrics["mrr"];
        assert!(mrr > 0.0 && mrr < 1.0, "{mrr}");
    }

    #[test]
    fn comparison_is_over_the_queries_that_both_hold() {
        let conventions = Conventions::default();
        let a = evaluate("1 Q0 a 1 1 t\n2 Q0 a 1 1 t\n", conventions).unwrap();
        let b = evaluate("1 Q0 b 1 1 t\n3 Q0 c 1 1 t\n", conventions).unwrap();
        let compared = &compare(&a, std::slice::from_ref(&b), None, &Bootstrap::default()).unwrap()[0];
        let (measure, found) = &compared.measures[0];
        assert_eq!((compared.queries, *measure), (1, Measure::ReciprocalRank(None)));
        let found = found.difference;
        assert_eq!((found.mean_a, found.mean_b, found.difference), (1.0, 0.0, -1.0));
        let c = evaluate("3 Q0 c 1 1 t\n", conventions).unwrap();
        assert!(matches!(
            compare(&a, &[b, c], None, &Bootstrap::default()),
            Err(EvalError::Metrics(MetricsError::NoQueries { .. }))
        ));
    }
}
