//! Report of an [`Outcome`]: means with intervals by level, repository and source, and paired tests.

use std::collections::BTreeMap;

use quarry_corpus::formats::localize::Issue;
use quarry_metrics::ranking::{Hit, Ranking};
use quarry_metrics::significance::{Bootstrap, PairedComparison};
use quarry_metrics::{Gain, Measure};
use serde::Serialize;

use super::entity::{Level, Levels};
use super::lines::{self, LinesSummary};
use super::{Answer, EvaluatedIssue, Localizer, Outcome, measures};
use crate::EvalError;
use crate::evaluation::{Comparison, Evaluation, Summary, compare};
use crate::repo_search::{median_ms, milliseconds};

/// Localization of the code that fixes changed, by method.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LocalizeReport {
    /// Number of issues that were searched for.
    pub issues: usize,
    /// Number of issues that were left out, by reason.
    pub left_out: BTreeMap<super::LeftOut, usize>,
    /// Number of gold functions of these issues that are not in the tree, and are left out.
    pub absent_gold: usize,
    /// Number of these issues with more than one gold function.
    pub several: usize,
    /// Number of files that could not be read.
    pub unread_files: usize,
    /// One entry per method.
    pub methods: Vec<MethodReport>,
    /// Each further method compared with the first.
    pub comparisons: Vec<MethodComparison>,
}

/// Quality of a method.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LocalizeMethod")]
pub struct MethodReport {
    /// Name of the method.
    pub method: String,
    /// Identity of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Over all issues.
    #[serde(flatten)]
    pub all: Summaries,
    /// By repository.
    pub repositories: BTreeMap<String, Summaries>,
    /// By source, if issues have one.
    pub sources: BTreeMap<String, Summaries>,
    /// Median time of a search in milliseconds.
    pub query_ms: f64,
}

/// Means and intervals of each level.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LocalizeLevels")]
pub struct Summaries {
    /// Functions and methods.
    pub functions: Summary,
    /// Classes and top-level functions.
    pub modules: Summary,
    /// Files.
    pub files: Summary,
    /// Changed lines, of the issues that have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<LinesSummary>,
}

impl Summaries {
    pub fn get(&self, level: Level) -> &Summary {
        match level {
            Level::Functions => &self.functions,
            Level::Modules => &self.modules,
            Level::Files => &self.files,
        }
    }
}

/// Difference of a method from the first one.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LocalizeComparison")]
pub struct MethodComparison {
    /// Name of the method.
    pub method: String,
    /// By name of measure.
    pub functions: BTreeMap<String, PairedComparison>,
    /// By name of measure.
    pub modules: BTreeMap<String, PairedComparison>,
    /// By name of measure.
    pub files: BTreeMap<String, PairedComparison>,
}

#[derive(Debug, Serialize)]
pub struct IssueLine<'a> {
    /// Id of the issue.
    query: &'a str,
    repository: &'a str,
    source: &'a str,
    method: &'a str,
    functions: LevelLine<'a>,
    modules: LevelLine<'a>,
    files: LevelLine<'a>,
    /// By name of measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<BTreeMap<String, f64>>,
    time_ms: f64,
}

#[derive(Debug, Serialize)]
struct LevelLine<'a> {
    gold: &'a [String],
    found: &'a [String],
    metrics: BTreeMap<String, f64>,
}

/// Ranks of the gold entities among those found.
pub(super) fn ranking(gold: &[String], found: &[String]) -> Ranking {
    let is_gold = |(_, entity): &(usize, &String)| gold.contains(entity);
    let hits = found.iter().enumerate().filter(is_gold).map(|(position, _)| Hit::new(position + 1, 1));
    Ranking { hits: hits.collect(), n_documents: found.len() }
}

fn values(measures: &[Measure], gold: &[String], found: &[String]) -> Vec<f64> {
    let (ranking, grades) = (ranking(gold, found), vec![1; gold.len()]);
    measures.iter().map(|measure| measure.value(&ranking, &grades, Gain::Linear)).collect()
}

/// The values of a method at a level, of the issues that `counts` accepts; those without gold entities at that level are
/// left out.
pub fn evaluation(
    issues: &[Issue],
    asked: &[EvaluatedIssue],
    (method, level): (usize, Level),
    counts: &dyn Fn(&Issue) -> bool,
) -> Evaluation {
    let measures = measures();
    let level = level as usize;
    let counted = asked.iter().filter(|asked| counts(&issues[asked.issue]) && !asked.gold[level].is_empty());
    let values =
        |asked: &EvaluatedIssue| values(&measures, &asked.gold[level], &asked.answers[method].found[level]);
    let mut queries: Vec<(String, Vec<f64>)> =
        counted.map(|asked| (issues[asked.issue].id.clone(), values(asked))).collect();
    queries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Evaluation { measures, queries, confidences: Vec::new() }
}

fn summaries(
    issues: &[Issue],
    outcome: &Outcome,
    method: usize,
    counts: &dyn Fn(&Issue) -> bool,
    bootstrap: &Bootstrap,
) -> Result<Summaries, EvalError> {
    let summary = |level| match evaluation(issues, &outcome.asked, (method, level), counts) {
        // Changed lines may all be outside of functions.
        none if none.queries.is_empty() => {
            Ok(Summary { queries: 0, metrics: BTreeMap::new(), intervals: BTreeMap::new() })
        }
        found => found.summary(bootstrap),
    };
    let counted: Vec<&EvaluatedIssue> =
        outcome.asked.iter().filter(|asked| counts(&issues[asked.issue])).collect();
    Ok(Summaries {
        functions: summary(Level::Functions)?,
        modules: summary(Level::Modules)?,
        files: summary(Level::Files)?,
        lines: lines::summary(&counted, method),
    })
}

/// Reports on an outcome.
///
/// # Errors
/// When nothing was asked.
pub fn report(
    issues: &[Issue],
    localizers: &[Localizer],
    outcome: &Outcome,
    bootstrap: &Bootstrap,
) -> Result<LocalizeReport, EvalError> {
    let asked = || outcome.asked.iter().map(|asked| &issues[asked.issue]);
    let groups = |method: usize, name: fn(&Issue) -> &str| {
        let mut names: Vec<&str> = asked().map(name).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let of_group = |group: &str| {
            let summaries = summaries(issues, outcome, method, &|issue| name(issue) == group, bootstrap)?;
            Ok((group.to_owned(), summaries))
        };
        names.into_iter().map(of_group).collect::<Result<BTreeMap<_, _>, EvalError>>()
    };
    let of_method = |(position, localizer): (usize, &Localizer)| {
        Ok(MethodReport {
            method: localizer.to_string(),
            model: outcome.models.get(position).cloned().flatten(),
            all: summaries(issues, outcome, position, &|_| true, bootstrap)?,
            repositories: groups(position, |issue| &issue.repository)?,
            sources: groups(position, |issue| &issue.source)?,
            query_ms: median_ms(
                outcome.asked.iter().filter_map(|asked| Some(asked.answers.get(position)?.time)),
            ),
        })
    };
    Ok(LocalizeReport {
        issues: outcome.asked.len(),
        left_out: outcome.left_out.clone(),
        absent_gold: outcome.absent_gold,
        several: outcome.asked.iter().filter(|asked| asked.gold[0].len() > 1).count(),
        unread_files: outcome.unread_files,
        methods: localizers.iter().enumerate().map(of_method).collect::<Result<_, EvalError>>()?,
        comparisons: comparisons(issues, localizers, outcome, bootstrap)?,
    })
}

pub fn compared() -> Vec<Measure> {
    let accuracy = [1, 5, 10, 20].map(Measure::Accuracy);
    accuracy.into_iter().chain([Measure::ReciprocalRank(None), Measure::Ndcg(Some(10))]).collect()
}

fn comparisons(
    issues: &[Issue],
    localizers: &[Localizer],
    outcome: &Outcome,
    bootstrap: &Bootstrap,
) -> Result<Vec<MethodComparison>, EvalError> {
    let of_level = |level: Level| -> Result<Vec<Comparison>, EvalError> {
        let of_method =
            |method: usize| evaluation(issues, &outcome.asked, (method, level), &|_| true).only(&compared());
        let others: Vec<Evaluation> = (1..localizers.len()).map(of_method).collect();
        compare(&of_method(0), &others, None, bootstrap)
    };
    let named = |comparison: Comparison| {
        comparison.measures.into_iter().map(|(measure, found)| (measure.to_string(), found)).collect()
    };
    let [functions, modules, files] = Level::ALL.map(of_level);
    let levels = functions?.into_iter().zip(modules?).zip(files?);
    let of_method = |(localizer, ((functions, modules), files)): (&Localizer, _)| MethodComparison {
        method: localizer.to_string(),
        functions: named(functions),
        modules: named(modules),
        files: named(files),
    };
    Ok(localizers.iter().skip(1).zip(levels).map(of_method).collect())
}

/// Results of each method for each issue, issue by issue.
pub fn issue_lines<'a>(
    issues: &'a [Issue],
    methods: &'a [String],
    outcome: &'a Outcome,
) -> impl Iterator<Item = IssueLine<'a>> {
    let measures = measures();
    let level = move |gold: &'a [String], found: &'a [String]| {
        let values = values(&measures, gold, found);
        let metrics = measures.iter().map(Measure::to_string).zip(values).collect();
        LevelLine { gold, found, metrics }
    };
    outcome.asked.iter().flat_map(move |asked| {
        let Issue { id, repository, source, .. } = &issues[asked.issue];
        let of_method = |(method, answer): (&'a String, &'a Answer)| {
            let levels: Levels<LevelLine<'a>> =
                Level::ALL.map(|of| level(&asked.gold[of as usize], &answer.found[of as usize]));
            let [functions, modules, files] = levels;
            let time_ms = milliseconds(answer.time);
            let lines = answer.lines.as_ref().map(lines::FoundLines::metrics);
            IssueLine { query: id, repository, source, method, functions, modules, files, lines, time_ms }
        };
        methods.iter().zip(&asked.answers).map(of_method).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn outcome(answers: &[&[&str]]) -> (Vec<Issue>, Outcome) {
        let issue = |number: usize| Issue {
            id: number.to_string(),
            repository: format!("o/r{}", number % 2),
            commit: "c".into(),
            text: "t".into(),
            functions: owned(&["a.py:f", "a.py:g"]),
            files: owned(&["a.py"]),
            lines: Vec::new(),
            source: "s".into(),
        };
        let asked = |(number, found): (usize, &&[&str])| EvaluatedIssue {
            issue: number,
            gold: [owned(&["a.py:f", "a.py:g"]), owned(&["a.py:f", "a.py:g"]), owned(&["a.py"])],
            answers: vec![Answer {
                found: [owned(found), owned(found), owned(&["a.py"])],
                lines: None,
                time: Duration::from_millis(2),
            }],
        };
        let asked = answers.iter().enumerate().map(asked).collect();
        ((0..answers.len()).map(issue).collect(), Outcome { asked, models: vec![None], ..Outcome::default() })
    }

    #[test]
    fn all_gold_functions_must_be_found() {
        let (issues, outcome) = outcome(&[&["x", "a.py:f"], &["a.py:g", "x", "a.py:f"], &[]]);
        let grep = [Localizer::Grep];
        let found = report(&issues, &grep, &outcome, &Bootstrap { resamples: 10, ..Bootstrap::default() });
        let found = found.unwrap();
        assert_eq!((found.issues, found.several), (3, 3));
        let functions = &found.methods[0].all.functions.metrics;
        let third = 1.0 / 3.0;
        for (name, value) in [
            ("acc@1", 0.0),
            ("acc@3", third),
            ("success@1", third),
            ("success@5", 2.0 * third),
            ("mrr", 0.5),
            ("recall@5", 0.5),
        ] {
            assert!((functions[name] - value).abs() < 1e-9, "{name} {}", functions[name]);
        }
        assert_eq!(found.methods[0].all.files.metrics["acc@1"], 1.0);
        let by_repository = &found.methods[0].repositories;
        assert_eq!(by_repository["o/r1"].functions.queries, 1);
        assert_eq!(by_repository["o/r1"].functions.metrics["acc@3"], 1.0);
        assert_eq!(found.methods[0].sources["s"].functions.queries, 3);
        assert_eq!(found.methods[0].query_ms, 2.0);
    }
}
