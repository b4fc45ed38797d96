//! A model's knowledge of functions of other packages without their documentation, by popularity, and the popularity
//! below which they are therefore explained to it (Query4Code, 2024, figure 4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quarry_judge::{AuthorAnswer, AuthorRole, Graded, language_title};
use quarry_metrics::significance::{Bootstrap, Interval, mean_interval};
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::plan::{AnnotationPlan, Plan};
use crate::queries::authoring::{Authoring, add_usage, first_drawn, stopped};
use crate::sources::documented::{Documented, documentation_hash};
use crate::sources::graph::{APIS, Api};
use crate::step::{Key, Step};

/// Incremented when the same answers lead to another threshold.
const VERSION: u32 = 1;

pub(crate) const STEP: &str = "calibration";

/// Explanations of functions from memory, with their grades.
const UNDERSTANDING: &str = "understanding.jsonl";
/// Functions whose answers cannot be read.
const EXCLUDED: &str = "excluded.jsonl";

const API_RECALL: &str = "api-recall";
const API_RATING: &str = "api-rating";

/// The grade of an explanation that agrees with the documentation in full.
pub const FULL_UNDERSTANDING: u8 = 2;

/// Understanding counts as saturated from this fraction of the understanding of the most popular functions.
const SATURATED: f64 = 0.95;

/// The most popular functions are taken from the top ranges until there are this many: two that are known by chance are
/// not a reference for the others.
const MOST_POPULAR: u64 = 10;

/// Mean grade that the most popular functions need: a model that understands even these only in part needs explanations
/// of all of them.
const SUFFICIENT: f64 = 1.0;

#[derive(Serialize)]
struct Identity {
    documentation: Option<String>,
    functions: usize,
    seed: u64,
    author: String,
    validator: String,
}

/// The model's explanation of a function from memory, and its agreement with the documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Explained {
    api: String,
    language: String,
    calls: u64,
    explanation: String,
    /// From 0 to 2.
    score: u8,
    reason: String,
}

/// The functions of a range of popularity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct UnderstandingRow {
    /// Fewest calls of the range.
    pub fewest_calls: u64,
    /// Most calls of the range.
    pub most_calls: u64,
    /// Number of functions that were graded.
    pub functions: u64,
    /// Mean grade, 0 to 2.
    pub score: f64,
    /// 95 % interval of the mean.
    pub interval: Interval,
    /// Share that was understood in full.
    pub full: f64,
    /// Mean grade, with neighboring ranges merged until it rises.
    pub fitted: f64,
}

/// A model's knowledge of functions of other packages, by popularity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Understanding {
    /// Ranges of popularity that double, least popular first; those without a graded function are left out.
    pub(crate) rows: Vec<UnderstandingRow>,
}

impl Understanding {
    /// Counts calls and grades of functions.
    fn new(graded: impl IntoIterator<Item = (u64, u8)>) -> Self {
        let mut ranges: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (calls, score) in graded {
            ranges.entry(range_of(calls)).or_default().push(f64::from(score));
        }
        let means: Vec<(f64, f64)> = (ranges.values())
            .map(|scores| (scores.iter().sum::<f64>() / scores.len() as f64, scores.len() as f64))
            .collect();
        let fitted = rising(&means);
        let rows =
            ranges.iter().zip(means).zip(fitted).map(|(((range, scores), (score, functions)), fitted)| {
                let is_full = |score: &&f64| **score >= f64::from(FULL_UNDERSTANDING);
                let interval = mean_interval(&[scores], &Bootstrap::default());
                UnderstandingRow {
                    fewest_calls: 1 << range,
                    most_calls: (2 << range) - 1,
                    functions: scores.len() as u64,
                    score,
                    interval: interval.unwrap_or(Interval { low: score, high: score }),
                    full: scores.iter().filter(is_full).count() as f64 / functions,
                    fitted,
                }
            });
        Self { rows: rows.collect() }
    }

    /// The number of calls below which functions are explained: understanding is saturated from there on. `None` if it
    /// never is: then all functions are explained.
    pub(crate) fn threshold(&self) -> Option<u64> {
        let (mut functions, mut sum) = (0, 0.0);
        for row in self.rows.iter().rev() {
            if functions < MOST_POPULAR {
                functions += row.functions;
                sum += row.score * row.functions as f64;
            }
        }
        let saturated = sum / functions as f64;
        if functions == 0 || saturated < SUFFICIENT {
            return None;
        }
        let first = self.rows.iter().find(|row| row.fitted >= SATURATED * saturated)?;
        Some(first.fewest_calls)
    }

    pub(crate) fn read(step: &Path) -> Result<Self, BuildError> {
        let explained: Vec<Explained> = jsonl::read_all(&step.join(UNDERSTANDING))?;
        Ok(Self::new(explained.iter().map(|explained| (explained.calls, explained.score))))
    }
}

/// The range of a number of calls: 1, 2 to 3, 4 to 7, and so on.
fn range_of(calls: u64) -> u32 {
    calls.max(1).ilog2()
}

/// The rising sequence nearest to weighted means (isotonic regression by pooling adjacent violators; Barlow and others,
/// *Statistical Inference under Order Restrictions*, 1972), so that a few functions that are known by chance do not decide.
fn rising(means: &[(f64, f64)]) -> Vec<f64> {
    // Mean, weight, and number of ranges of each block.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (mean, weight) in means {
        let mut last = (*mean, *weight, 1);
        while let Some((mean, weight, ranges)) = blocks.pop_if(|(mean, ..)| *mean >= last.0) {
            let sum = weight + last.1;
            last = ((mean * weight + last.0 * last.1) / sum, sum, ranges + last.2);
        }
        blocks.push(last);
    }
    blocks.into_iter().flat_map(|(mean, _, ranges)| std::iter::repeat_n(mean, ranges)).collect()
}

pub(crate) fn step(plan: &Plan, authoring: &Authoring<'_>, graph: &Key) -> Result<Step, BuildError> {
    let AnnotationPlan { documentation, calibration, .. } = &plan.annotation;
    let Authoring { plan: author, directory, .. } = authoring;
    let identity = Identity {
        documentation: documentation.as_deref().map(documentation_hash).transpose()?,
        functions: *calibration,
        seed: plan.seed,
        author: author.version(directory, AuthorRole::Writer, &[API_RECALL])?,
        validator: author.version(directory, AuthorRole::Validator, &[API_RATING])?,
    };
    Ok(Step::new(STEP, VERSION, &identity, &[graph]))
}

/// A sample of functions with documentation, from each range of popularity the number in the plan.
pub(crate) fn sample(plan: &Plan, documented: &Documented, graph: &Path) -> Result<Vec<Api>, BuildError> {
    let mut ranges: BTreeMap<u32, BTreeMap<String, Api>> = BTreeMap::new();
    jsonl::for_each(&graph.join(APIS), &mut |api: Api, _| {
        if documented.has(&api.name) {
            let id = format!("{} {}", api.language, api.name);
            ranges.entry(range_of(api.calls)).or_default().insert(id, api);
        }
        Ok(())
    })?;
    let drawn = ranges.into_values().flat_map(|mut apis| {
        let ids = apis.keys().cloned().collect();
        let drawn = first_drawn(ids, String::as_str, Some(plan.annotation.calibration), plan.seed);
        drawn.into_iter().filter_map(|id| apis.remove(&id)).collect::<Vec<_>>()
    });
    Ok(drawn.collect())
}

/// Has functions explained without their documentation, and the explanations graded by it.
pub(crate) fn write(
    plan: &Plan,
    authoring: &Authoring<'_>,
    graph: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let documented = Documented::open(plan.annotation.documentation.as_deref())?;
    let apis = sample(plan, &documented, graph)?;
    let n_ranges = apis.iter().map(|api| range_of(api.calls)).collect::<BTreeSet<_>>().len();
    if n_ranges < 2 {
        let problem = format!(
            "expected documentation of functions of other packages, both rarely and often called, to compare what the \
             model knows about them; found that of {} in {n_ranges} ranges of popularity; write more with `quarry data \
             build PLAN --api-docs DIR --below 1000000`, or give a number as `unpopular_below`",
            apis.len()
        );
        return Err(BuildError::step(STEP, problem));
    }
    let author = authoring.open()?;
    let answers = authoring.ask_all(&author, STEP, &apis, |api| {
        let mut values = BTreeMap::from([
            ("api", api.name.clone()),
            ("language", language_title(&api.language).to_owned()),
        ]);
        let explanation = match author.write(API_RECALL, &values, authoring.stop).map_err(stopped)? {
            AuthorAnswer::Read(explanation) => explanation,
            other => return Ok(other.map(|text| (text, Graded { grade: 0, reason: String::new() }))),
        };
        values.insert("documentation", documented.text(&api.name)?);
        values.insert("explanation", explanation.clone());
        let graded =
            author.grade(AuthorRole::Validator, API_RATING, &values, authoring.stop).map_err(stopped)?;
        Ok(graded.map(|graded| (explanation, graded)))
    })?;
    let mut writer = Writer::create(&step.join(UNDERSTANDING))?;
    let mut excluded = Writer::create(&step.join(EXCLUDED))?;
    let (mut graded, mut n_unreadable) = (Vec::new(), 0);
    for (api, answer) in apis.into_iter().zip(answers) {
        match answer {
            Ok((explanation, Graded { grade, reason })) => {
                graded.push((api.calls, grade));
                let Api { name, language, calls } = api;
                writer.write(&Explained { api: name, language, calls, explanation, score: grade, reason })?;
            }
            Err(problem) => {
                n_unreadable += 1;
                excluded.write(&serde_json::json!({"api": api.name, "problem": problem}))?;
            }
        }
    }
    writer.finish()?;
    excluded.finish()?;
    let mut counts: BTreeMap<String, u64> =
        [("functions", graded.len() as u64), ("removed by unreadable answers", n_unreadable)]
            .map(|(name, count)| (name.to_owned(), count))
            .into();
    let understanding = Understanding::new(graded);
    if understanding.rows.is_empty() {
        let problem = format!(
            "expected answers to {n_unreadable} questions about functions of other packages, but none can be read; see \
             {EXCLUDED} of the step for why, or give a number as `unpopular_below`"
        );
        return Err(BuildError::step(STEP, problem));
    }
    if let Some(threshold) = understanding.threshold() {
        counts.insert("unpopular below".to_owned(), threshold);
    }
    add_usage(&mut counts, author.usage());
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(graded: &[(u64, &[u8])]) -> Option<u64> {
        let graded = graded.iter().flat_map(|(calls, scores)| scores.iter().map(|score| (*calls, *score)));
        Understanding::new(graded).threshold()
    }

    #[test]
    fn means_are_merged_until_they_rise() {
        let means = |values: &[f64]| values.iter().map(|mean| (*mean, 1.0)).collect::<Vec<_>>();
        assert_eq!(rising(&means(&[0.0, 1.0, 2.0])), [0.0, 1.0, 2.0]);
        assert_eq!(rising(&means(&[1.0, 0.0, 2.0])), [0.5, 0.5, 2.0]);
        assert_eq!(rising(&means(&[2.0, 1.0, 0.0])), [1.0, 1.0, 1.0]);
        assert_eq!(rising(&[(2.0, 1.0), (1.0, 3.0), (1.5, 1.0)]), [1.25, 1.25, 1.5]);
        assert_eq!(rising(&[]), [0.0; 0]);
    }

    #[test]
    fn the_threshold_is_where_understanding_is_saturated() {
        let (ones, twos): (&[u8], &[u8]) = (&[1; 10], &[2; 10]);
        assert_eq!(threshold(&[(1, &[0; 10]), (2, &[1, 0]), (5, ones), (9, twos), (40, twos)]), Some(8));
        // 1.95 of 2 is saturated, 1.5 is not.
        let nearly: &[u8] = &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1];
        assert_eq!(threshold(&[(3, &[2, 1]), (4, nearly), (8, twos)]), Some(4));
        // A few functions that are known by chance do not decide, be they rare or the most popular ones.
        assert_eq!(threshold(&[(1, &[2]), (2, &[0; 4]), (4, twos)]), Some(4));
        let partly: &[u8] = &[2, 2, 2, 2, 1, 1, 1, 1, 1, 1];
        assert_eq!(threshold(&[(1, &[0; 10]), (2, ones), (4, partly), (8, &[2])]), Some(4));
        // Everything is known: nothing has to be explained.
        assert_eq!(threshold(&[(1, &[2, 2]), (64, &[2])]), Some(1));
        // Nothing is known well enough: everything has to be.
        assert_eq!(threshold(&[(1, &[0; 10]), (64, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 0])]), None);
        assert_eq!(threshold(&[]), None);
    }

    #[test]
    fn ranges_double_and_count_their_functions() {
        let rows = Understanding::new([(1, 0), (2, 1), (3, 2), (1000, 2)]).rows;
        let found: Vec<_> = rows
            .iter()
            .map(|row| ((row.fewest_calls, row.most_calls), row.functions, row.score, row.full))
            .collect();
        assert_eq!(found, [((1, 1), 1, 0.0, 0.0), ((2, 3), 2, 1.5, 0.5), ((512, 1023), 1, 2.0, 1.0)]);
        let Interval { low, high } = rows[1].interval;
        assert_eq!((low, high), (1.0, 2.0));
    }
}
