//! Labels of a pool compared with a later commit of its sources: the fate of each labeled function, whether the
//! evidence of its label still holds, and whether methods still rank in the same order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::run::Run;
use quarry_eval::evaluation::{Conventions, QuerySelection, evaluate_run};
use quarry_judge::{AuditReport, JudgeError, Ledger};
use quarry_metrics::Measure;
use quarry_metrics::significance::mean;
use quarry_metrics::table::{Sections, Table};
use serde::Serialize;

use crate::error::BuildError;
use crate::plan::SourcePlan;
use crate::record::CodeRecord;
use crate::sources::OpenedSource;

/// A function in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Place {
    /// Path of its file.
    pub path: String,
    /// Its first line.
    pub line: u32,
    /// Its name.
    pub name: String,
}

/// State of a function in a later commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It is there, unchanged.
    Same,
    /// It is unchanged in another file or under another name.
    Moved,
    /// One of its name is there with other code.
    Changed,
    /// It is not there any more.
    Gone,
}

impl Fate {
    const ALL: [Self; 4] = [Self::Same, Self::Moved, Self::Changed, Self::Gone];

    fn name(self) -> &'static str {
        match self {
            Self::Same => "the same",
            Self::Moved => "moved",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// A labeled pair at the later commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct LivingPair {
    /// Id of the pair.
    pub pair: String,
    /// Id of its query.
    pub query: String,
    /// Id of its code.
    pub code: String,
    /// True if it was labeled as an answer.
    pub label: bool,
    /// State of the function in the later commit.
    pub fate: Fate,
    /// Its place at the commit of the labels, if the tree is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Place>,
    /// Its place now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Place>,
    /// True if the label still holds: its function is unchanged, or its tests end as before with the code of now.
    pub holds: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The place of a run among others, by a measure.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct LivingRun {
    /// The run.
    pub run: String,
    /// Mean by all labels, and by those that still hold.
    pub means: [f64; 2],
    /// Place by both, from 1.
    pub places: [usize; 2],
}

/// Labels at a later commit.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LivingReport {
    /// Labeled pairs.
    pub pairs: Vec<LivingPair>,
    /// The tests that ran again.
    pub tests: AuditReport,
    /// The measure by which runs are ordered.
    pub measure: Measure,
    /// Runs, if any were given, in the order by all labels.
    pub runs: Vec<LivingRun>,
}

/// The functions of a tree.
///
/// # Errors
/// When it cannot be read, or contains none.
pub fn functions_in(tree: &Path) -> Result<Vec<CodeRecord>, BuildError> {
    let plan = SourcePlan::for_directory(tree);
    let opened = OpenedSource::open(&plan, true, Path::new(""), true)?;
    let mut records = Vec::new();
    opened.content.read(&mut |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// A code with runs of white space collapsed, as a lookup key.
fn key(code: &str) -> String {
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn place(record: &CodeRecord) -> Place {
    Place { path: record.path.clone(), line: record.start_line, name: record.name.clone() }
}

/// Functions by their code, with and without documentation, and by the last part of their name.
struct Functions<'r> {
    by_code: HashMap<String, Vec<&'r CodeRecord>>,
    by_name: HashMap<&'r str, Vec<&'r CodeRecord>>,
}

fn last_part(name: &str) -> &str {
    name.rsplit(['.', ':', '#']).next().unwrap_or(name)
}

impl<'r> Functions<'r> {
    fn new(records: &'r [CodeRecord]) -> Self {
        let mut functions = Self { by_code: HashMap::new(), by_name: HashMap::new() };
        for record in records {
            let texts: BTreeSet<String> = [&record.code, &record.whole].map(|code| key(code)).into();
            for text in texts.into_iter().filter(|text| !text.is_empty()) {
                functions.by_code.entry(text).or_default().push(record);
            }
            functions.by_name.entry(last_part(&record.name)).or_default().push(record);
        }
        functions
    }

    /// The function with this code, preferably in a given file.
    fn with_code(&self, code: &str, path: Option<&str>) -> Option<&'r CodeRecord> {
        let found = self.by_code.get(&key(code))?;
        found.iter().find(|record| Some(record.path.as_str()) == path).or(found.first()).copied()
    }

    /// The most similar function with this name, preferably in a given file.
    fn named(&self, name: &str, code: &str, path: Option<&str>) -> Option<&'r CodeRecord> {
        let words = |code: &str| -> BTreeSet<String> { code.split_whitespace().map(str::to_owned).collect() };
        let own = words(code);
        let similarity = |record: &&&CodeRecord| {
            let other = words(&record.whole);
            let shared = own.intersection(&other).count() as f64;
            let all = own.union(&other).count().max(1) as f64;
            shared / all + if Some(record.path.as_str()) == path { 1.0 } else { 0.0 }
        };
        let found = self.by_name.get(last_part(name))?;
        found.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b))).copied()
    }
}

/// Previous and current code of changed functions, by the ids of pairs.
type PairTexts = BTreeMap<String, [String; 2]>;

/// The labeled pairs of a judge at a later commit with the functions `now`; `before` are the functions at the
/// labels' commit, used to detect moves. The second result has the previous and current code of changed functions,
/// by the ids of pairs.
pub fn follow(
    ledger: &Ledger,
    judge: i64,
    before: Option<&[CodeRecord]>,
    now: &[CodeRecord],
) -> Result<(Vec<LivingPair>, PairTexts), JudgeError> {
    let (before, now) = (before.map(Functions::new), Functions::new(now));
    let (mut pairs, mut changed) = (Vec::new(), BTreeMap::new());
    ledger.for_each_decided(judge, |decided| {
        let Some(label) = decided.verdict.outcome.label() else { return Ok(()) };
        let pair = decided.pair;
        let origin = before.as_ref().and_then(|before| before.with_code(&pair.code, None));
        let path = origin.map(|origin| origin.path.as_str());
        let same = now.with_code(&pair.code, path);
        let name = origin.map_or_else(|| name_in(&pair.code), |origin| origin.name.clone());
        let other = same.or_else(|| now.named(&name, &pair.code, path));
        let fate = match (same, other, origin) {
            (Some(same), _, Some(origin)) if (&same.path, &same.name) != (&origin.path, &origin.name) => {
                Fate::Moved
            }
            (Some(_), ..) => Fate::Same,
            (None, Some(_), _) => Fate::Changed,
            (None, None, _) => Fate::Gone,
        };
        if let (Fate::Changed, Some(other)) = (fate, other) {
            changed.insert(pair.id.clone(), [pair.code.clone(), other.whole.clone()]);
        }
        pairs.push(LivingPair {
            pair: pair.id,
            query: pair.query_id,
            code: pair.code_id,
            label,
            fate,
            before: origin.map(place),
            now: other.map(place),
            holds: matches!(fate, Fate::Same | Fate::Moved),
            reason: (fate == Fate::Gone).then(|| "the function is gone".to_owned()),
        });
        Ok(())
    })?;
    Ok((pairs, changed))
}

/// Ids of the pairs for which a program of the judge or of people can run again.
pub fn tested_pairs(ledger: &Ledger, judge: i64) -> Result<BTreeSet<String>, JudgeError> {
    let mut tested = BTreeSet::new();
    ledger.for_each_finished(judge, 256, |page| {
        tested.extend(page.into_iter().map(|run| run.pair));
        Ok(true)
    })?;
    Ok(tested)
}

/// The name of the function at the start of a code: the word before the first bracket.
fn name_in(code: &str) -> String {
    let head = code.split('(').next().unwrap_or_default();
    head.rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .find(|word| !word.is_empty())
        .unwrap_or_default()
        .to_owned()
}

impl LivingReport {
    /// Combines the fates of functions with the reruns of their tests. A label of changed code holds if it has a test
    /// program, and all of its test programs ran again with the same result as before.
    ///
    /// # Errors
    /// When a run has no query with a label.
    pub fn new(
        mut pairs: Vec<LivingPair>,
        tests: AuditReport,
        tested: &BTreeSet<String>,
        measure: Measure,
        runs: &[(String, Run)],
    ) -> Result<Self, BuildError> {
        let failed = (tests.changed.iter()).map(|run| {
            let problem = format!("its tests {} before, and {} now", run.before.name(), run.now.name());
            (run.pair.as_str(), problem)
        });
        let not_run = (tests.not_run.iter())
            .map(|run| (run.pair.as_str(), format!("its tests did not run: {}", run.reason)));
        let failed: BTreeMap<&str, String> = failed.chain(not_run).collect();
        for pair in &mut pairs {
            let failed = failed.get(pair.pair.as_str());
            if pair.fate == Fate::Changed {
                pair.holds = tested.contains(&pair.pair) && failed.is_none();
                pair.reason = match failed {
                    None if !pair.holds => {
                        Some("the code has changed, and no test ran for its label".to_owned())
                    }
                    failed => failed.cloned(),
                };
            } else if pair.fate != Fate::Gone && failed.is_some() {
                (pair.holds, pair.reason) = (false, failed.cloned());
            }
        }
        let mut report = Self { pairs, tests, measure, runs: Vec::new() };
        report.runs = report.order(runs)?;
        Ok(report)
    }

    fn order(&self, runs: &[(String, Run)]) -> Result<Vec<LivingRun>, BuildError> {
        let qrels = |holds: bool| {
            let mut qrels = Qrels::new();
            for pair in self.pairs.iter().filter(|pair| pair.holds || !holds) {
                qrels.entry(pair.query.clone()).or_default().insert(pair.code.clone(), i32::from(pair.label));
            }
            qrels
        };
        let conventions = Conventions { queries: QuerySelection::WithPositive, ..Conventions::default() };
        let mut means: Vec<(String, [f64; 2])> = Vec::new();
        let labels = [qrels(false), qrels(true)];
        for (name, run) in runs {
            let mut of_run = [0.0; 2];
            for (mean_of, qrels) in of_run.iter_mut().zip(&labels) {
                let evaluation = evaluate_run(qrels, run, &[self.measure], &conventions)?;
                *mean_of = mean(&[&evaluation.values(0)]);
            }
            means.push((name.clone(), of_run));
        }
        let place = |number: usize, by: usize| {
            1 + means.iter().filter(|(_, other)| other[by] > means[number].1[by]).count()
        };
        let run = |(number, (run, means)): (usize, &(String, [f64; 2]))| LivingRun {
            run: run.clone(),
            means: *means,
            places: [place(number, 0), place(number, 1)],
        };
        let mut runs: Vec<LivingRun> = means.iter().enumerate().map(run).collect();
        runs.sort_by_key(|run| run.places);
        Ok(runs)
    }

    /// Returns true if all labels hold and all runs keep their places.
    pub fn holds(&self) -> bool {
        self.pairs.iter().all(|pair| pair.holds)
            && self.runs.iter().all(|run| run.places[0] == run.places[1])
            && !self.tests.stopped
    }

    pub fn sections(&self) -> Sections {
        let mut table = Table::new(["function", "labels", "hold", "tests ran again"]);
        let tested: BTreeSet<&str> = (self.tests.changed.iter().map(|run| run.pair.as_str()))
            .chain(self.tests.not_run.iter().map(|run| run.pair.as_str()))
            .collect();
        for fate in Fate::ALL {
            let pairs = || self.pairs.iter().filter(|pair| pair.fate == fate);
            let differ = pairs().filter(|pair| tested.contains(pair.pair.as_str())).count();
            table.push([
                fate.name().to_owned(),
                pairs().count().to_string(),
                pairs().filter(|pair| pair.holds).count().to_string(),
                format!("{differ} with another end"),
            ]);
        }
        let mut sections = Sections::new().titled("Labels at the later commit", table);
        let mut lost = Table::new(["pair", "label", "before", "now", "why"]).align_left([2, 3, 4]);
        let shown = |place: &Option<Place>| {
            place
                .as_ref()
                .map_or_else(String::new, |place| format!("{}:{} {}", place.path, place.line, place.name))
        };
        for pair in self.pairs.iter().filter(|pair| !pair.holds) {
            lost.push([
                pair.pair.clone(),
                if pair.label { "answers" } else { "does not" }.to_owned(),
                shown(&pair.before),
                shown(&pair.now),
                pair.reason.clone().unwrap_or_default(),
            ]);
        }
        if self.pairs.iter().any(|pair| !pair.holds) {
            sections = sections.titled("Labels that do not hold", lost);
        }
        let mut moved = Table::new(["pair", "before", "now"]).align_left([1, 2]);
        for pair in self.pairs.iter().filter(|pair| pair.fate == Fate::Moved) {
            moved.push([pair.pair.clone(), shown(&pair.before), shown(&pair.now)]);
        }
        if self.pairs.iter().any(|pair| pair.fate == Fate::Moved) {
            sections = sections.titled("Functions that moved", moved);
        }
        if !self.runs.is_empty() {
            let measure = self.measure;
            let mut runs = Table::new([
                "run",
                &format!("{measure}, all labels"),
                &format!("{measure}, labels that hold"),
                "place",
            ]);
            for run in &self.runs {
                let [before, now] = run.places;
                let place = if before == now { now.to_string() } else { format!("{before}, now {now}") };
                runs.push([
                    run.run.clone(),
                    format!("{:.4}", run.means[0]),
                    format!("{:.4}", run.means[1]),
                    place,
                ]);
            }
            sections = sections.titled("Runs", runs);
        }
        sections
    }
}
