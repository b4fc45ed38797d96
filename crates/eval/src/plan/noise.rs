//! Means of a data set whose labels err, by the calibration of their judge.

use super::DatasetPlan;
use crate::EvalError;
use quarry_metrics::Measure;
use quarry_metrics::significance::{
    Bootstrap, Interval, LabelErrors, NoisyDifference, NoisyLabel, noisy_means,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A document that was judged, and where a method ranks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedRank {
    pub document: String,
    pub grade: i32,
    /// Its rank, from 1; equal scores in the order of ids, greater first.
    pub rank: usize,
}

/// The mean of a method with the errors of labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct NoisyMean {
    /// Mean with the expected errors removed.
    pub mean: f64,
    /// Interval that includes the errors.
    pub interval: Interval,
    /// The difference from the baseline with label noise removed; `None` for the baseline itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_baseline: Option<NoisyDifference>,
}

impl DatasetPlan {
    /// Reads how often the labels err, if the plan says where in the directory of data.
    pub(super) fn label_errors(&self, data: &Path) -> Result<Option<LabelErrors>, EvalError> {
        let Some(path) = self.label_errors.as_ref().map(|path| data.join(path)) else {
            return Ok(None);
        };
        let refuse = |problem: String| EvalError::File { path: path.clone(), problem };
        let text = fs::read(&path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        let errors: LabelErrors = serde_json::from_slice(&text).map_err(|error| {
            refuse(format!(
                "expected the errors of a judge, as `quarry judge study --errors FILE` writes them: {error}"
            ))
        })?;
        if errors.strata.is_empty() {
            let problem = "expected a stratum with calibrated pairs, found none; let people label some pairs, and \
                           write it again";
            return Err(refuse(problem.into()));
        }
        Ok(Some(errors))
    }
}

/// Measures of relevance, whose means change with labels.
fn is_of_labels(measure: Measure) -> bool {
    !matches!(measure, Measure::Judged(_) | Measure::Bpref)
}

/// The rank of a query's judged document by a method; one behind all others if the method was not measured on it.
fn rank_in(queries: &JudgedQueries<'_>, id: &str, position: usize) -> usize {
    let judged = queries.get(id).and_then(|judged| judged.get(position));
    judged.map_or(u32::MAX as usize, |judged| judged.rank)
}

/// The judged documents of each query by its id, as a method ranks them.
pub(super) type JudgedQueries<'q> = BTreeMap<&'q str, &'q [JudgedRank]>;

/// Metrics of a method, and its means with the errors of labels.
pub(super) type MethodMeans<'m> = (&'m BTreeMap<String, f64>, &'m mut BTreeMap<String, NoisyMean>);

/// Adds means and intervals with the errors of labels to those of methods, of which `queries` has the ranks.
pub(super) fn add_label_errors(
    methods: &mut [MethodMeans<'_>],
    queries: &[JudgedQueries<'_>],
    baseline: Option<usize>,
    errors: &LabelErrors,
    bootstrap: &Bootstrap,
) -> Result<(), EvalError> {
    let Some(first) = queries.first() else { return Ok(()) };
    let names: Vec<String> =
        methods.first().map_or_else(Vec::new, |(metrics, _)| metrics.keys().cloned().collect());
    let named = names.iter().filter_map(|name| Some((name, name.parse::<Measure>().ok()?)));
    let (names, measures): (Vec<&String>, Vec<Measure>) =
        named.filter(|(_, measure)| is_of_labels(*measure)).unzip();
    let labels = |(id, judged): (&&str, &&[JudgedRank])| -> Vec<NoisyLabel> {
        let label = |(position, judged): (usize, &JudgedRank)| NoisyLabel {
            grade: judged.grade,
            stratum: errors.stratum(id, &judged.document),
            ranks: queries.iter().map(|queries| rank_in(queries, id, position)).collect(),
        };
        judged.iter().enumerate().map(label).collect()
    };
    let labels: Vec<Vec<NoisyLabel>> = first.iter().map(labels).collect();
    if measures.is_empty() || labels.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let means = noisy_means(&labels, &errors.confusions(), &measures, true, bootstrap)?;
    for (name, means) in names.into_iter().zip(means) {
        let plain: Vec<Option<f64>> = methods.iter().map(|(metrics, _)| metrics.get(name).copied()).collect();
        for (number, (_, with_errors)) in methods.iter_mut().enumerate() {
            let (mean, interval) = means.mean(number);
            let against_baseline = baseline.filter(|baseline| *baseline != number).and_then(|baseline| {
                Some(means.difference(baseline, number, plain[number]? - plain[baseline]?))
            });
            with_errors.insert(name.clone(), NoisyMean { mean, interval, against_baseline });
        }
    }
    Ok(())
}
