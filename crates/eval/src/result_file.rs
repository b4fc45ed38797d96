//! Result files of CoIR and MTEB: writing an evaluation, and reading values with our names.
//!
//! CoIR (github.com/CoIR-team/coir, based on BEIR's evaluator) has `{"metrics": {"NDCG": {"NDCG@10": ...}, ...}}`,
//! with values rounded to five decimals. MTEB (github.com/embeddings-benchmark/mteb, `TaskResult`) has a list of
//! scores by split, such as `ndcg_at_10`. Fields that an evaluation does not know are left empty: for MTEB the
//! revision of the data set, its languages, the version of the library and the emissions; nAUC if it is undefined.

use crate::evaluation::Evaluation;
use quarry_corpus::formats::FormatError;
use quarry_metrics::Measure;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// CoIR's cut-offs, which are BEIR's.
const COIR_CUTOFFS: [usize; 6] = [1, 3, 5, 10, 100, 1000];
/// MTEB's cut-offs.
const MTEB_CUTOFFS: [usize; 7] = [1, 3, 5, 10, 20, 100, 1000];
/// Names of CoIR's groups, prefixes of their members, and our names.
const COIR_GROUPS: [(&str, &str, &str); 4] = [
    ("NDCG", "NDCG", "ndcg"),
    ("MAP", "MAP", "map"),
    ("Recall", "Recall", "recall"),
    ("Precision", "P", "precision"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    Coir,
    Mteb,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct About<'a> {
    pub task: &'a str,
    pub split: &'a str,
    pub seconds: f64,
}

impl ResultFormat {
    #[must_use]
    pub fn measures(self) -> Vec<Measure> {
        let coir = |k| {
            [
                Measure::Ndcg(Some(k)),
                Measure::AveragePrecision(Some(k)),
                Measure::Recall(k),
                Measure::Precision(k),
            ]
        };
        match self {
            Self::Coir => COIR_CUTOFFS.into_iter().flat_map(coir).collect(),
            Self::Mteb => MTEB_CUTOFFS
                .into_iter()
                .flat_map(|k| {
                    coir(k).into_iter().chain([Measure::ReciprocalRank(Some(k)), Measure::HitRate(k)])
                })
                .collect(),
        }
    }

    /// The file of an evaluation that has all of [`Self::measures`]; missing ones are omitted. `None` without
    /// queries.
    #[must_use]
    pub fn write(self, evaluation: &Evaluation, about: About<'_>) -> Option<Value> {
        let means = evaluation.means()?;
        Some(match self {
            Self::Coir => coir(&means),
            Self::Mteb => mteb(&means, &evaluation.abstention(), about),
        })
    }
}

fn coir(means: &BTreeMap<String, f64>) -> Value {
    let group = |member: &str, ours: &str| -> Value {
        let value =
            |k: &usize| Some((format!("{member}@{k}"), round(*means.get(&format!("{ours}@{k}"))?).into()));
        COIR_CUTOFFS.iter().filter_map(value).collect::<Map<_, _>>().into()
    };
    let groups = COIR_GROUPS.into_iter().map(|(name, member, ours)| (name.to_owned(), group(member, ours)));
    json!({ "metrics": groups.collect::<Map<_, _>>() })
}

/// Rounds to five decimals, as BEIR does.
fn round(value: f64) -> f64 {
    (value * 1e5).round_ties_even() / 1e5
}

fn mteb(means: &BTreeMap<String, f64>, abstention: &BTreeMap<String, f64>, about: About<'_>) -> Value {
    let mut scores = Map::new();
    for (name, value) in means.iter().chain(abstention) {
        scores.insert(name.replace('@', "_at_"), (*value).into());
    }
    for (name, other) in [("accuracy", "recall@1"), ("main_score", "ndcg@10")] {
        if let Some(value) = means.get(other) {
            scores.insert(name.into(), (*value).into());
        }
    }
    scores.insert("hf_subset".into(), "default".into());
    scores.insert("languages".into(), json!([]));
    json!({
        "task_name": about.task,
        "dataset_revision": "",
        "mteb_version": null,
        "evaluation_time": about.seconds,
        "kg_co2_emissions": null,
        "scores": { about.split: [scores] },
    })
}

/// The values of one split and part of a result file.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// Split and part, such as `test` or `test/python`; empty for CoIR, which has neither.
    pub part: String,
    /// Values by our names, such as `ndcg@10`, as fractions of 1.
    pub metrics: BTreeMap<String, f64>,
}

/// Parses a result file in either format. `path` is for error messages.
///
/// # Errors
/// When the file is not a result file, or contains no score.
pub fn parse(text: &str, path: &Path) -> Result<Vec<Results>, FormatError> {
    let wrong = |found: String| FormatError::File {
        path: path.to_owned(),
        expected: "a result file of CoIR (`metrics`) or MTEB (`scores`)".into(),
        found,
        remedy: "check that this is the right file".into(),
    };
    let file: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut parts = Vec::new();
    if let Some(groups) = file["metrics"].as_object() {
        let mut metrics = BTreeMap::new();
        for (_, member, ours) in COIR_GROUPS {
            let values = groups.values().filter_map(Value::as_object).flatten();
            let own = values
                .filter_map(|(name, value)| Some((name.strip_prefix(member)?.strip_prefix('@')?, value)));
            metrics.extend(own.filter_map(|(k, value)| Some((format!("{ours}@{k}"), value.as_f64()?))));
        }
        parts.push(Results { part: String::new(), metrics });
    }
    for (split, entries) in file["scores"].as_object().into_iter().flatten() {
        for entry in entries.as_array().into_iter().flatten() {
            let values = entry.as_object().into_iter().flatten();
            let metrics =
                values.filter_map(|(name, value)| Some((name.replace("_at_", "@"), value.as_f64()?)));
            let part = match entry["hf_subset"].as_str() {
                None | Some("default") => split.clone(),
                Some(subset) => format!("{split}/{subset}"),
            };
            parts.push(Results { part, metrics: metrics.collect() });
        }
    }
    parts.retain(|part| !part.metrics.is_empty());
    if parts.is_empty() { Err(wrong("no score".into())) } else { Ok(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_metrics::abstention::Confidence;

    /// Two queries; the n-th measure is n/100 for the first and 0 for the second.
    fn evaluation(format: ResultFormat) -> Evaluation {
        let measures = format.measures();
        let values = (0..measures.len()).map(|n| n as f64 / 100.0).collect();
        let nothing = vec![0.0; measures.len()];
        let confidences = vec![Confidence::new(&[2.0, 1.0]), Confidence::new(&[1.0, 0.5])];
        Evaluation { measures, queries: vec![("a".into(), values), ("b".into(), nothing)], confidences }
    }

    const ABOUT: About<'_> = About { task: "cosqa", split: "dev", seconds: 1.5 };

    #[test]
    fn files_have_the_names_of_their_benchmarks_and_read_back() {
        for format in [ResultFormat::Coir, ResultFormat::Mteb] {
            let evaluation = evaluation(format);
            let file = format.write(&evaluation, ABOUT).unwrap();
            let read = parse(&file.to_string(), Path::new("f")).unwrap();
            let [Results { part, metrics }] = &read[..] else { panic!("{read:?}") };
            assert_eq!(part, if format == ResultFormat::Mteb { "dev" } else { "" });
            for (name, value) in evaluation.means().unwrap() {
                assert!((metrics[&name] - value).abs() <= 5e-6, "{name}");
            }
        }
        let coir = ResultFormat::Coir.write(&evaluation(ResultFormat::Coir), ABOUT).unwrap();
        // The second measure at 1, of 0 and 0.03: Precision@1.
        assert_eq!(coir["metrics"]["Precision"]["P@1"], 0.015);
        assert_eq!(coir["metrics"]["NDCG"].as_object().unwrap().len(), 6);
        let mteb = ResultFormat::Mteb.write(&evaluation(ResultFormat::Mteb), ABOUT).unwrap();
        let scores = &mteb["scores"]["dev"][0];
        assert_eq!(
            (&scores["accuracy"], &scores["main_score"]),
            (&scores["recall_at_1"], &scores["ndcg_at_10"])
        );
        assert_eq!(
            (mteb["task_name"].as_str(), mteb["evaluation_time"].as_f64()),
            (Some("cosqa"), Some(1.5))
        );
        assert!(
            scores["nauc_mrr_at_1000_diff1"].is_number() && scores["hit_rate_at_20"].is_number(),
            "{scores}"
        );
        // Undefined if all values are the same.
        assert!(scores["nauc_ndcg_at_1_max"].is_null());
    }

    #[test]
    fn other_files_are_refused() {
        for (text, found) in
            [("", "EOF while parsing"), ("{}", "found no score"), ("{\"scores\": {\"test\": 3}}", "no score")]
        {
            let error = parse(text, Path::new("f")).unwrap_err().to_string();
            assert!(
                error.starts_with("f: expected a result file of CoIR") && error.contains(found),
                "{error}"
            );
        }
    }
}
