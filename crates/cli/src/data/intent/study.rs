//! The study of CoSQA's intent filter: people label the intent of queries, and the rules are compared with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use quarry_build::{Intents, draw_queries, for_each_query};
use quarry_corpus::formats::table::Table as Form;
use quarry_metrics::agreement::{Level, krippendorff_alpha};
use quarry_metrics::classification::{accuracy, class_scores};
use quarry_metrics::table::{Layout, Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use crate::eval::arguments::LayoutArgs;
use crate::{new_file, output};

const QUERY: &str = "query";
const INTENT: &str = "intent";

/// The paper's accuracy and F1 for 250 queries that three experts labeled.
const PUBLISHED: (f64, f64) = (0.8240, 0.6765);

const MIN_LABELED: usize = 10;

fn wanted() -> &'static str {
    Intents::builtin().categories().first().map_or("", |category| &category.name)
}

pub(super) fn write_form(files: &[PathBuf], out: &Path, sample: usize, seed: u64) -> anyhow::Result<()> {
    ensure!(sample > 0, "--sample 0: expected a number of queries");
    let mut queries = BTreeSet::new();
    for file in files {
        for_each_query(file, &mut |query| {
            let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
            if !query.is_empty() {
                queries.insert(query);
            }
        })?;
    }
    let queries = draw_queries(queries.into_iter().collect(), sample, seed);
    ensure!(
        !queries.is_empty(),
        "expected queries, found none; name a file with one query per line, or a data set"
    );
    let mut table = Table::new([QUERY, INTENT]);
    for query in &queries {
        table.push([query.as_str(), ""]);
    }
    let mut instructions = String::from(
        "# What do these queries want?\n\nWrite one of these words beside each query, into the column `intent`. Leave \
         it empty where you are unsure. Do not consult each other.\n\n",
    );
    for category in Intents::builtin().categories() {
        instructions += &format!("- `{}`: {}\n", category.name, category.about);
    }
    let beside = out.with_extension("md");
    new_file::write_text(out, &table.render(Layout::Csv))?;
    new_file::write_text(&beside, &instructions)?;
    output::note(&format!(
        "{}: {}, instructions in {}",
        out.display(),
        counted(queries.len(), "query"),
        beside.display()
    ));
    Ok(())
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct StudyReport {
    /// Number of queries that most raters agree on.
    queries: usize,
    /// Those of them that look for code, according to the raters.
    looks_for_code: usize,
    /// Queries on which most people do not agree; left out.
    disputed: usize,
    /// Number of forms.
    raters: usize,
    /// Krippendorff's alpha of several raters, on whether queries look for code.
    alpha: Option<f64>,
    /// Agreement of the rules with the raters.
    rules: Scores,
}

/// Agreement with people on which queries look for code.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Scores {
    /// Share of queries on which they agree.
    accuracy: f64,
    /// Precision of queries that look for code.
    precision: f64,
    /// Their recall.
    recall: f64,
    /// Their F1.
    f1: f64,
}

impl Scores {
    fn new(truth: &[bool], said: &[bool]) -> Self {
        let scores = class_scores(truth, said, &true);
        Self {
            accuracy: accuracy(truth, said),
            precision: scores.precision,
            recall: scores.recall,
            f1: scores.f1,
        }
    }
}

/// Majority labels of the queries; those without a majority are counted.
fn majority(labels: &BTreeMap<String, Vec<Option<bool>>>) -> (Vec<(&str, bool)>, usize) {
    let (mut agreed, mut disputed) = (Vec::new(), 0);
    for (query, labels) in labels {
        let count = |wanted| labels.iter().flatten().filter(|label| **label == wanted).count();
        match count(true).cmp(&count(false)) {
            std::cmp::Ordering::Equal => disputed += usize::from(count(true) > 0),
            more => agreed.push((query.as_str(), more.is_gt())),
        }
    }
    (agreed, disputed)
}

pub(super) fn report(forms: &[PathBuf], layout: &LayoutArgs) -> anyhow::Result<()> {
    let names: Vec<&str> =
        Intents::builtin().categories().iter().map(|category| category.name.as_str()).collect();
    let expected = format!("one of {}, or nothing", names.join(", "));
    let mut labels: BTreeMap<String, Vec<Option<bool>>> = BTreeMap::new();
    for (rater, path) in forms.iter().enumerate() {
        let form = Form::read(path)?;
        let queries = form.column(QUERY, "a query", Some)?;
        let intents = form.column(INTENT, &expected, |field| {
            let known = names.iter().find(|name| name.eq_ignore_ascii_case(field));
            if field.is_empty() { Some(None) } else { known.map(|name| Some(*name == wanted())) }
        })?;
        for (query, intent) in queries.into_iter().zip(intents) {
            labels.entry(query.to_owned()).or_insert_with(|| vec![None; forms.len()])[rater] = intent;
        }
    }
    let (agreed, disputed) = majority(&labels);
    let truth: Vec<bool> = agreed.iter().map(|(_, looks)| *looks).collect();
    if agreed.len() < MIN_LABELED || !truth.contains(&true) || !truth.contains(&false) {
        bail!(
            "expected {MIN_LABELED} labeled queries or more, of which some look for code and some do not, found {}, of which {} \
             do; fill in the column `{INTENT}` of the forms",
            agreed.len(),
            truth.iter().filter(|looks| **looks).count()
        );
    }
    let by_rules: Vec<bool> =
        agreed.iter().map(|(query, _)| Intents::builtin().find(query).is_none()).collect();
    let ratings: Vec<Vec<Option<f64>>> = (labels.values())
        .map(|labels| labels.iter().map(|label| label.map(|looks| f64::from(u8::from(looks)))).collect())
        .collect();
    let report = StudyReport {
        queries: agreed.len(),
        looks_for_code: truth.iter().filter(|looks| **looks).count(),
        disputed,
        raters: forms.len(),
        alpha: krippendorff_alpha(&ratings, Level::Nominal).filter(|_| forms.len() > 1),
        rules: Scores::new(&truth, &by_rules),
    };
    layout.print(&report, || sections(&report))
}

fn sections(report: &StudyReport) -> Sections {
    let percent = |value: f64| format!("{:.2}", value * 100.0);
    let mut table = Table::new(["looks for code", "accuracy %", "precision %", "recall %", "F1 %"]);
    let Scores { accuracy, precision, recall, f1 } = report.rules;
    table.push(["rules".to_owned(), percent(accuracy), percent(precision), percent(recall), percent(f1)]);
    let (accuracy, f1) = PUBLISHED;
    table.push([
        "rules, CoSQA, 250 queries".to_owned(),
        percent(accuracy),
        String::new(),
        String::new(),
        percent(f1),
    ]);
    let alpha = report.alpha.map_or_else(String::new, |alpha| format!(", Krippendorff's alpha {alpha:.3}"));
    Sections::new()
        .text(format!(
            "{} labeled by {}{alpha}; {} of them look for code; {} without a majority left out\n",
            counted(report.queries, "query"),
            counted(report.raters, "rater"),
            report.looks_for_code,
            report.disputed
        ))
        .table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_people_decide_and_draws_are_left_out() {
        let labels = [
            ("a", vec![Some(true), Some(true), Some(false)]),
            ("b", vec![Some(true), Some(false), None]),
            ("c", vec![None, None, None]),
            ("d", vec![Some(false), None, None]),
        ];
        let labels = labels.map(|(query, labels)| (query.to_owned(), labels)).into();
        assert_eq!(majority(&labels), (vec![("a", true), ("d", false)], 1));
    }

    #[test]
    fn scores_are_those_of_queries_that_look_for_code() {
        let scores = Scores::new(&[true, true, false, false, false], &[true, false, true, false, false]);
        assert_eq!(scores, Scores { accuracy: 0.6, precision: 0.5, recall: 0.5, f1: 0.5 });
    }
}
