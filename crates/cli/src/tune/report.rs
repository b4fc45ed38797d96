//! Effect of tuning, on held-out questions.

use std::path::PathBuf;

use quarry_eval::self_benchmark::hold_out::HoldOut;
use quarry_metrics::MetricsError;
use quarry_metrics::significance::{Bootstrap, Interval, compare_paired};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use crate::eval::shown;

/// Level of significance.
const SIGNIFICANCE: f64 = 0.05;

#[derive(Debug, Clone, Copy)]
pub struct Values {
    pub ndcg: f64,
    pub mrr: f64,
}

/// Means of a model over questions.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TunedMeans"))]
struct Means {
    /// Mean NDCG@10.
    #[serde(rename = "ndcg@10")]
    ndcg: f64,
    /// Mean reciprocal rank among the first ten results.
    mrr: f64,
}

/// Measures of a source of questions, or of all, before and after tuning.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TunedSource"))]
struct Row {
    /// `docstring`, `commit`, `test`, `queries` (of `--pairs`) or `all`.
    source: String,
    /// Number of questions.
    questions: usize,
    /// With the model that searches used.
    before: Means,
    /// With the tuned model.
    after: Means,
    /// Of NDCG@10, after minus before.
    difference: f64,
    /// Bootstrap interval of the difference.
    interval: Interval,
    /// Of the paired randomization test on NDCG@10.
    p: f64,
}

/// The outcome of tuning.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Tuned"))]
pub struct Report {
    /// Ids of the models.
    pub before: String,
    /// Identity of the tuned model.
    pub after: String,
    /// Pairs of questions and functions that were learned from.
    learned: usize,
    /// Questions that functions of both sides answer, and that were left out.
    mixed: usize,
    /// One entry per source of questions.
    sources: Vec<Row>,
    /// All questions.
    overall: Row,
    /// True if it is significantly better overall, and significantly worse by no source.
    pub is_better: bool,
    /// Directory of the tuned model; null if it is not kept.
    pub kept: Option<PathBuf>,
    /// Milliseconds of training.
    pub train_ms: f64,
    /// Milliseconds in all.
    pub took_ms: f64,
}

impl Report {
    /// Reports on the values of each set of held-out questions, with each of both models.
    pub fn new(
        split: &HoldOut,
        learned: usize,
        values: &[Vec<Vec<Values>>],
        bootstrap: &Bootstrap,
    ) -> Result<Self, MetricsError> {
        let sets = split.held_out.iter().zip(values);
        let sources: Vec<Row> = sets
            .map(|(set, values)| row(set.source.to_string(), &values[0], &values[1], bootstrap))
            .collect::<Result<_, _>>()?;
        let all = |model: usize| -> Vec<Values> {
            values.iter().flat_map(|values| &values[model]).copied().collect()
        };
        let overall = row("all".to_owned(), &all(0), &all(1), bootstrap)?;
        let is_worse = |row: &Row| row.difference < 0.0 && row.p < SIGNIFICANCE;
        let is_better = overall.difference > 0.0 && overall.p < SIGNIFICANCE && !sources.iter().any(is_worse);
        Ok(Self {
            before: String::new(),
            after: String::new(),
            learned,
            mixed: split.mixed,
            sources,
            overall,
            is_better,
            kept: None,
            train_ms: 0.0,
            took_ms: 0.0,
        })
    }

    pub fn sections(&self, path: &str, is_dry: bool) -> Sections {
        let header = [
            "held out",
            "questions",
            "NDCG@10 before",
            "after",
            "MRR before",
            "after",
            "difference",
            "interval",
            "p",
        ];
        let mut table = Table::new(header);
        for row in self.sources.iter().chain([&self.overall]) {
            let number = |value: f64| format!("{value:.4}");
            table.push([
                row.source.clone(),
                row.questions.to_string(),
                number(row.before.ndcg),
                number(row.after.ndcg),
                number(row.before.mrr),
                number(row.after.mrr),
                format!("{:+.4}", row.difference),
                shown::format_interval(row.interval),
                number(row.p),
            ]);
        }
        let learned = counted(self.learned, "question");
        let took = format!(
            "{learned} learned in {:.0} s, {:.0} s in all\n",
            self.train_ms / 1e3,
            self.took_ms / 1e3
        );
        Sections::new().text(took + "\n").table(table).text(format!("\n{}\n", self.decision(path, is_dry)))
    }

    fn decision(&self, path: &str, is_dry: bool) -> String {
        if !self.is_better {
            let worse = self.sources.iter().find(|row| row.difference < 0.0 && row.p < SIGNIFICANCE);
            return match worse {
                Some(row) => format!(
                    "The tuned model is significantly worse by {}: it is not kept, and searches are unchanged.",
                    row.source
                ),
                None => {
                    "The tuned model is not significantly better: it is not kept, and searches are unchanged."
                        .to_owned()
                }
            };
        }
        match &self.kept {
            Some(_) => format!(
                "The tuned model is significantly better: searches of {path} use it from now on; `quarry tune --undo \
                 {path}` undoes this."
            ),
            None if is_dry => {
                "The tuned model is significantly better; nothing was changed (--dry-run).".to_owned()
            }
            None => String::new(),
        }
    }
}

fn row(
    source: String,
    before: &[Values],
    after: &[Values],
    bootstrap: &Bootstrap,
) -> Result<Row, MetricsError> {
    let collect =
        |values: &[Values], value: fn(&Values) -> f64| values.iter().map(value).collect::<Vec<f64>>();
    let means = |values: &[Values]| {
        let mean = |value| collect(values, value).iter().sum::<f64>() / values.len() as f64;
        Means { ndcg: mean(|values| values.ndcg), mrr: mean(|values| values.mrr) }
    };
    let ndcg = |values: &[Values]| collect(values, |values| values.ndcg);
    let found = compare_paired(&ndcg(before), &ndcg(after), before.len(), bootstrap)?;
    Ok(Row {
        source,
        questions: before.len(),
        before: means(before),
        after: means(after),
        difference: found.difference.difference,
        interval: found.difference.interval,
        p: found.tests["randomisation"].test.p,
    })
}

#[cfg(test)]
mod tests {
    use quarry_eval::self_benchmark::view::View;
    use quarry_eval::self_benchmark::{LabeledQuery, QuerySet, QuerySource, Questions};

    use super::*;

    /// The report on two sources of 40 questions, whose values change by `changes` on average.
    fn report_on(changes: [f64; 2]) -> Report {
        let query = LabeledQuery { text: String::new(), answers: vec![] };
        let questions = Questions { queries: vec![query; 40], ..Questions::default() };
        let set = |source| QuerySet { source, view: View::default(), questions: questions.clone() };
        let held_out = vec![set(QuerySource::Docstring), set(QuerySource::Commit)];
        let values = |change: f64| -> Vec<Vec<Values>> {
            let changed = |change: f64| {
                let value = |n: usize| 0.5 + change + (n * 37 % 40) as f64 / 400.0 * change.signum();
                (0..40).map(|n| Values { ndcg: value(n), mrr: value(n) }).collect()
            };
            vec![changed(0.0), changed(change)]
        };
        let split = HoldOut { held_out, ..HoldOut::default() };
        Report::new(&split, 100, &changes.map(values), &Bootstrap::default()).unwrap()
    }

    #[test]
    fn only_what_is_better_and_by_no_source_worse_is_kept() {
        assert!(report_on([0.1, 0.0]).is_better);
        let worse = report_on([0.6, -0.1]);
        assert!(worse.overall.difference > 0.0 && worse.overall.p < 0.05 && !worse.is_better);
        assert!(worse.decision("tree", false).contains("worse by commit"));
        let same = report_on([0.0, 0.0]);
        assert!(!same.is_better && same.overall.p > 0.9);
        assert!(!report_on([-0.1, -0.1]).is_better);
    }
}
