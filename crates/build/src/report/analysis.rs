//! Statistics of a build's calls and written queries that the papers report.

use std::path::Path;

use serde::Serialize;

use crate::error::BuildError;
use crate::jsonl;
use crate::labels::calibration::{self, Understanding, UnderstandingRow};
use crate::queries::written::{WRITTEN, WrittenQuery};
use crate::sources::graph::{self, Statistics};
use crate::step::{self, Step};

/// Statistics of calls of one kind, as counted by Query4Code.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct CallRow {
    /// In the project, or of other packages.
    pub kind: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Mean number of calls of a function.
    pub mean: f64,
    /// Maximum number of calls of a function.
    pub maximum: u64,
    /// Share of the functions with such a call.
    pub functions: f64,
    /// Share of all calls.
    pub share: f64,
    /// Mean, maximum and share of calls that the paper reports for 100 repositories.
    #[serde(skip)]
    pub published: (f64, u64, f64),
}

/// Written queries for functions with a given number of calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct QualityRow {
    /// Number of calls of the function; 5 means 5 or more.
    pub calls: u64,
    /// True if summaries of callees were shown.
    pub with_callees: bool,
    /// Number of queries.
    pub queries: u64,
    /// Mean score.
    pub score: f64,
    /// Share that was kept.
    pub kept: f64,
}

/// Statistics of the calls and written queries of a build.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "WrittenQueries")]
pub struct WrittenReport {
    /// Functions in the call graph.
    pub functions: u64,
    /// Calls by kind.
    pub calls: [CallRow; 2],
    /// Written queries by class, 1 to 4.
    pub classes: [u64; 4],
    /// Answers that could not be read.
    pub unreadable: u64,
    /// Queries that were kept.
    pub kept: u64,
    /// Queries by the number of calls of their function.
    pub quality: Vec<QualityRow>,
    /// Grades of what the model knows of undocumented functions of other packages, by their number of calls; empty
    /// unless the plan calibrates what is explained.
    pub understanding: Vec<UnderstandingRow>,
    /// Functions with fewer calls were explained to the model, by its understanding; null if all were, or if the plan
    /// has a number.
    pub unpopular_below: Option<u64>,
    /// Tokens of all questions.
    pub tokens: u64,
    /// Cost in dollars, where prices are known.
    pub dollars: f64,
    /// Tokens per kept query; null without one.
    pub tokens_per_query: Option<f64>,
    /// Dollars per kept query; null without one.
    pub dollars_per_query: Option<f64>,
}

/// Functions with at least this number of calls share one row.
const MANY_CALLS: u64 = 5;

impl WrittenReport {
    /// Reads the last build in a directory.
    ///
    /// # Errors
    /// When there is none, or it has no written queries.
    pub fn read(root: &Path) -> Result<Self, BuildError> {
        let steps = step::last_build(root)?;
        let missing = || {
            BuildError::step(
                "calls",
                "expected a build with queries of `kind = \"written\"`, found none; add some, and build",
            )
        };
        let of =
            |kind: &'static str| steps.iter().filter(move |step| step.name.split(' ').next() == Some(kind));
        let graph = of("calls").next().ok_or_else(missing)?;
        let statistics = graph::statistics(&step::directory_of(root, &graph.key()))?;
        let mut written: Vec<WrittenQuery> = Vec::new();
        for step in of("queries") {
            let path = step::directory_of(root, &step.key()).join(WRITTEN);
            if path.exists() {
                written.extend(jsonl::read_all::<WrittenQuery>(&path)?);
            }
        }
        let sum = |name: &str| -> u64 {
            let paid = of(calibration::STEP).chain(of("annotations")).chain(of("queries"));
            paid.filter_map(|step: &Step| step.counts.get(name)).sum()
        };
        let understanding = of(calibration::STEP).next();
        let understanding = understanding
            .map(|step| Understanding::read(&step::directory_of(root, &step.key())))
            .transpose()?;
        let mut classes = [0; 4];
        for query in &written {
            if let Some(class) = classes.get_mut(usize::from(query.class.saturating_sub(1))) {
                *class += 1;
            }
        }
        let kept = classes[0] + classes[1];
        let per_query = |amount: f64| (kept > 0).then(|| amount / kept as f64);
        let (tokens, dollars) = (sum("tokens"), sum("millionths of a dollar") as f64 / 1e6);
        Ok(Self {
            functions: statistics.functions,
            calls: call_rows(&statistics),
            classes,
            unreadable: sum("removed by unreadable answers"),
            kept,
            quality: quality(&written),
            unpopular_below: understanding.as_ref().and_then(Understanding::threshold),
            understanding: understanding.map_or_else(Vec::new, |found| found.rows),
            tokens,
            dollars,
            tokens_per_query: per_query(tokens as f64),
            dollars_per_query: per_query(dollars),
        })
    }
}

fn proportion(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn call_rows(statistics: &Statistics) -> [CallRow; 2] {
    let all = statistics.project.calls + statistics.third_party.calls;
    [
        ("in the project", &statistics.project, (5.11, 137, 0.465)),
        ("of other packages", &statistics.third_party, (3.24, 120, 0.535)),
    ]
    .map(|(kind, found, published)| CallRow {
        kind,
        calls: found.calls,
        mean: proportion(found.calls, statistics.functions),
        maximum: found.maximum,
        functions: proportion(found.functions, statistics.functions),
        share: proportion(found.calls, all),
        published,
    })
}

/// Quality of queries for the functions they were written for, by the number of calls (figure 2).
fn quality(written: &[WrittenQuery]) -> Vec<QualityRow> {
    let mut rows = Vec::new();
    for calls in 0..=MANY_CALLS {
        for with_callees in [false, true] {
            let fits = |query: &&WrittenQuery| {
                query.project_calls.min(MANY_CALLS) == calls && (query.callees > 0) == with_callees
            };
            let found: Vec<&WrittenQuery> = written.iter().filter(fits).collect();
            let queries = found.len() as u64;
            if queries > 0 {
                let score: u64 = found.iter().map(|query| u64::from(query.score)).sum();
                let kept = found.iter().filter(|query| query.class <= 2).count() as u64;
                let (score, kept) = (proportion(score, queries), proportion(kept, queries));
                rows.push(QualityRow { calls, with_callees, queries, score, kept });
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(project_calls: u64, callees: u64, score: u8) -> WrittenQuery {
        WrittenQuery {
            code_id: String::new(),
            style: String::new(),
            query: String::new(),
            query_id: String::new(),
            summary: String::new(),
            score,
            class: 4 - score,
            explanation: String::new(),
            callees,
            project_calls,
            third_party_calls: 0,
        }
    }

    #[test]
    fn quality_is_by_calls_and_by_what_the_model_was_shown() {
        let rows = quality(&[
            query(0, 0, 3),
            query(0, 0, 0),
            query(2, 1, 2),
            query(2, 0, 1),
            query(9, 1, 3),
            query(5, 1, 1),
        ]);
        let found: Vec<_> =
            rows.iter().map(|row| (row.calls, row.with_callees, row.queries, row.score, row.kept)).collect();
        assert_eq!(
            found,
            [
                (0, false, 2, 1.5, 0.5),
                (2, false, 1, 1.0, 0.0),
                (2, true, 1, 2.0, 1.0),
                (5, true, 2, 2.0, 0.5)
            ]
        );
    }
}
