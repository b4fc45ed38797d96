//! The result of a protocol.

use super::Request;
use crate::EvalError;
use crate::evaluation::Evaluation;
use quarry_metrics::MetricsError;
use quarry_metrics::classification::{accuracy, average_precision, class_scores, macro_f1, roc_auc};
use quarry_metrics::significance::mean;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The result of one method under one protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub protocol: String,
    /// Identities of the method's models and their weights ([`Prepared::model`](crate::method::Prepared::model));
    /// `None` for a method without a model, and for predictions read from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Results of the parts, in the order of the protocol.
    pub parts: Vec<Part>,
    /// Numbers that are derived from several parts or describe the data, by name: aggregates, ceilings, counts, means
    /// and deviations over seeds.
    pub figures: BTreeMap<String, f64>,
    /// Numbers of the [`discrepancies`](super::DISCREPANCIES) between papers and code that affect the results.
    pub discrepancies: Vec<String>,
    /// Predictions to submit, if the protocol has a format for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<Predictions>,
}

/// One set of cases, all measured in the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Name, unique in its outcome.
    pub name: String,
    /// Number of queries that count.
    pub queries: usize,
    /// Number of documents, or of distinct codes.
    pub documents: usize,
    pub values: Values,
}

/// Values of the cases of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Values {
    /// Measures of each query's ranking.
    Rankings(Evaluation),
    /// A decision for each pair of a query and a code.
    Verdicts(Verdicts),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Pairs with a higher score are predicted to match.
    pub threshold: f64,
    /// One entry per pair, in the order of the file.
    pub pairs: Vec<Verdict>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub pair: String,
    /// True if the code answers the query; `None` if that is not public.
    pub truth: Option<bool>,
    /// Score of the method; higher means more likely a match.
    pub score: f64,
    pub prediction: bool,
}

/// The measures of verdicts: the names in [`Part::means`].
pub const VERDICT_MEASURES: [&str; 8] = [
    "accuracy",
    "precision",
    "recall",
    "f1",
    "macro_f1",
    "roc_auc",
    "average_precision",
    "predicted_positive",
];

/// Predictions of a method, to be evaluated elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", content = "of", rename_all = "kebab-case")]
pub enum Predictions {
    /// For each query, ids of documents, best first: lines `{"url": …, "answers": […]}` of AdvTest.
    Advtest(Vec<(String, Vec<String>)>),
    /// For each pair, whether it matches: lines `idx TAB 0/1` of WebQueryTest.
    Webquery(Vec<(String, bool)>),
}

impl Part {
    /// A part with ranked queries, which are sorted by id.
    pub fn rankings(name: impl Into<String>, documents: usize, mut evaluation: Evaluation) -> Self {
        let mut order: Vec<usize> = (0..evaluation.queries.len()).collect();
        order.sort_by(|&a, &b| evaluation.queries[a].0.cmp(&evaluation.queries[b].0));
        evaluation.confidences = order.iter().map(|&position| evaluation.confidences[position]).collect();
        evaluation.queries.sort_by(|a, b| a.0.cmp(&b.0));
        let queries = evaluation.queries.len();
        Self { name: name.into(), queries, documents, values: Values::Rankings(evaluation) }
    }

    /// The evaluation of its queries, if they were ranked.
    pub(super) fn evaluation(&self) -> Option<&Evaluation> {
        match &self.values {
            Values::Rankings(evaluation) => Some(evaluation),
            Values::Verdicts(_) => None,
        }
    }

    pub(super) fn query_ids(&self) -> impl Iterator<Item = &str> {
        self.evaluation()
            .into_iter()
            .flat_map(|evaluation| &evaluation.queries)
            .map(|(query, _)| query.as_str())
    }

    /// Means by name: of each measure over the queries, or `accuracy`, `precision`, `recall`, `f1` (of the
    /// matches), `macro_f1`, `roc_auc` and `average_precision` over the pairs. Undefined ones are omitted. For
    /// pairs whose truth is not public, there is only `predicted_positive`, the share of predicted matches.
    pub fn means(&self) -> BTreeMap<String, f64> {
        match &self.values {
            Values::Rankings(evaluation) => {
                let mean_of = |index: usize| mean(&[&evaluation.values(index)]);
                let named = evaluation.measures.iter().enumerate();
                named.map(|(index, measure)| (measure.to_string(), mean_of(index))).collect()
            }
            Values::Verdicts(verdicts) => verdicts.means(),
        }
    }

    /// Values of the cases by the name of a mean, one per query or pair: those of a measure, or for `accuracy` 1 if
    /// the verdict is correct and 0 if not. `None` if it is not a mean over cases.
    pub fn values_of(&self, name: &str) -> Option<Vec<f64>> {
        match &self.values {
            Values::Rankings(evaluation) => {
                let index = evaluation.measures.iter().position(|measure| measure.to_string() == name)?;
                Some(evaluation.values(index))
            }
            Values::Verdicts(verdicts) if name == "accuracy" => {
                let right =
                    |verdict: &Verdict| Some(f64::from(u8::from(verdict.truth? == verdict.prediction)));
                verdicts.pairs.iter().map(right).collect()
            }
            Values::Verdicts(_) => None,
        }
    }
}

impl Outcome {
    pub(super) fn new(request: &Request<'_>, model: Option<String>, parts: Vec<Part>) -> Self {
        let protocol = request.protocol.name.to_owned();
        Self {
            protocol,
            model,
            parts,
            figures: BTreeMap::new(),
            discrepancies: Vec::new(),
            predictions: None,
        }
    }

    pub fn means(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        self.parts.iter().map(|part| (part.name.clone(), part.means())).collect()
    }

    pub(super) fn with_figures(self, figures: BTreeMap<String, f64>) -> Self {
        Self { figures, ..self }
    }

    pub(super) fn with_discrepancies(mut self, numbers: &[&str]) -> Self {
        self.discrepancies.extend(numbers.iter().map(|number| (*number).to_owned()));
        self
    }
}

impl Predictions {
    /// The content of the file, one line per prediction in the order of the data.
    pub fn text(&self) -> String {
        // AdvTest's ids are integers, and its evaluator compares them as such.
        let id = |id: &String| id.parse::<u64>().map_or_else(|_| json!(id), |number| json!(number));
        match self {
            Self::Advtest(lists) => lists
                .iter()
                .map(|(url, list)| {
                    let answers: Vec<serde_json::Value> = list.iter().map(id).collect();
                    format!("{{\"url\":{},\"answers\":{}}}\n", json!(url), json!(answers))
                })
                .collect(),
            Self::Webquery(verdicts) => {
                verdicts.iter().map(|(pair, says)| format!("{pair}\t{}\n", u8::from(*says))).collect()
            }
        }
    }
}

impl Verdicts {
    /// Decides by scores: a pair matches if its score is greater than `threshold`.
    ///
    /// # Errors
    /// When a score is NaN.
    pub fn decide(
        scored: impl IntoIterator<Item = (String, Option<bool>, f64)>,
        threshold: f64,
    ) -> Result<Self, EvalError> {
        let pairs = scored.into_iter().enumerate().map(|(position, (pair, truth, score))| {
            if score.is_nan() {
                return Err(MetricsError::NotANumber { position });
            }
            Ok(Verdict { pair, truth, score, prediction: score > threshold })
        });
        Ok(Self { threshold, pairs: pairs.collect::<Result<_, MetricsError>>()? })
    }

    fn means(&self) -> BTreeMap<String, f64> {
        let predicted: Vec<bool> = self.pairs.iter().map(|pair| pair.prediction).collect();
        let scores: Vec<f64> = self.pairs.iter().map(|pair| pair.score).collect();
        let truth: Option<Vec<bool>> = self.pairs.iter().map(|pair| pair.truth).collect();
        let Some(truth) = truth else {
            let positive = predicted.iter().filter(|prediction| **prediction).count();
            return BTreeMap::from([("predicted_positive".into(), positive as f64 / predicted.len() as f64)]);
        };
        let matches = class_scores(&truth, &predicted, &true);
        let named = [
            ("accuracy", Some(accuracy(&truth, &predicted))),
            ("precision", Some(matches.precision)),
            ("recall", Some(matches.recall)),
            ("f1", Some(matches.f1)),
            ("macro_f1", Some(macro_f1(&truth, &predicted))),
            ("roc_auc", roc_auc(&truth, &scores)),
            ("average_precision", average_precision(&truth, &scores)),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_metrics::Measure;
    use quarry_metrics::abstention::Confidence;

    #[test]
    fn a_part_has_means_and_the_values_that_they_are_of() {
        let evaluation = Evaluation {
            measures: vec![Measure::ReciprocalRank(None), Measure::Recall(1)],
            queries: vec![("a".into(), vec![0.5, 0.0]), ("b".into(), vec![1.0, 1.0])],
            confidences: vec![Confidence::new(&[1.0, 0.5]); 2],
        };
        let part = Part::rankings("all", 2, evaluation);
        assert_eq!(part.means(), BTreeMap::from([("mrr".into(), 0.75), ("recall@1".into(), 0.5)]));
        assert_eq!((part.values_of("mrr"), part.values_of("map")), (Some(vec![0.5, 1.0]), None));
        let outcome = Outcome {
            protocol: "full-corpus".into(),
            model: Some("a model".into()),
            parts: vec![part],
            figures: BTreeMap::from([("x".into(), 1.5)]),
            discrepancies: vec!["C11".into()],
            predictions: Some(Predictions::Webquery(vec![("w-1".into(), true)])),
        };
        let json = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
    }

    #[test]
    fn verdicts_are_counted() {
        let scored = [(0.9, true), (0.5, true), (0.7, false), (0.1, false)];
        let scored = |known: bool| {
            let one = move |(score, truth)| ("p".to_owned(), Some(truth).filter(|_| known), score);
            Verdicts::decide(scored.into_iter().map(one), 0.5).unwrap()
        };
        let part_of = |verdicts| Part {
            name: "p".into(),
            queries: 4,
            documents: 4,
            values: Values::Verdicts(verdicts),
        };
        let part = part_of(scored(true));
        let means = part.means();
        // A score at the threshold is not a match.
        assert_eq!((means["accuracy"], means["precision"], means["recall"]), (0.5, 0.5, 0.5));
        assert_eq!(means["roc_auc"], 0.75);
        assert_eq!(part.values_of("accuracy"), Some(vec![1.0, 0.0, 0.0, 1.0]));
        let hidden = part_of(scored(false));
        assert_eq!(hidden.means(), BTreeMap::from([("predicted_positive".into(), 0.5)]));
        assert_eq!(hidden.values_of("accuracy"), None);
        assert!(Verdicts::decide([("p".into(), None, f64::NAN)], 0.5).is_err());
    }
}
