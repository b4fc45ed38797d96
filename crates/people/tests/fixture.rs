//! A plan with pairs, whose forms are exported, filled in and imported.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use quarry_judge::ledger::{EventKey, Writer};
use quarry_judge::{EXECUTABLE_RULES, Outcome, Plan, Programs, Verdict, open_ledger};
use quarry_metrics::significance::Bootstrap;
use quarry_people::study::{ReferenceMajority, StudiedJudge, Study, StudyOptions, gather};
use quarry_people::{
    Guideline, ImportError, ImportRequest, ImportSummary, Sampling, candidates, export_pairs, import,
};
use quarry_sandbox::Limits;
use serde_json::{Map, Value, json};

use crate::fake::FakePrograms;

pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    /// Number of times that the sandbox was opened.
    pub(crate) opened: Cell<usize>,
}

/// Twelve pairs; the file labels every third 0. Some texts begin like spreadsheet formulas.
pub(crate) fn pair(number: usize) -> Value {
    let beginnings = ["def", "=1+", "'", "-", "@x\ndef"];
    json!({
        "pair-idx": number, "query-idx": number, "query": format!("=question, \"{number}\""), "code-idx": number,
        "code": format!("{} f{number}(x):\n    return x;\n", beginnings[number % 5]),
        "label": i32::from(!number.is_multiple_of(3)), "language": "python",
    })
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap(), opened: Cell::new(0) };
        let pairs: Vec<String> = (0..12).map(|number| pair(number).to_string()).collect();
        fs::write(fixture.path("pairs.jsonl"), pairs.join("\n")).unwrap();
        let plan = "pairs = ['pairs.jsonl']\njudge = 'cosqa-plus'\n[model]\nprovider = 'openai-compatible'\n\
                    base_url = 'http://localhost:1'\nmodel = 'm'\n";
        fs::write(fixture.path("plan.toml"), plan).unwrap();
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::open(&self.path("plan.toml"), None).unwrap()
    }

    pub(crate) fn open(&self) -> (Writer, i64) {
        open_ledger(&self.plan()).unwrap()
    }

    pub(crate) fn export(&self, name: &str, guideline: &str, tests: bool, sampling: Sampling) -> PathBuf {
        let (writer, judge) = self.open();
        let (guideline, out) = (Guideline::named(guideline).unwrap(), self.path(name));
        export_pairs(&writer, judge, guideline, &sampling, tests, &out).unwrap();
        out
    }

    pub(crate) fn import(
        &self,
        path: &Path,
        options: &ImportRequest<'_>,
    ) -> Result<ImportSummary, ImportError> {
        let (writer, _) = self.open();
        let sandbox = || {
            self.opened.set(self.opened.get() + 1);
            Ok(Box::new(FakePrograms) as Box<dyn Programs>)
        };
        import(&writer, path, options, &Limits::default(), &sandbox)
    }

    /// Fills in the form at `path`: `fill` gets the pair's number, by its code, and the row.
    pub(crate) fn fill(&self, path: &Path, mut fill: impl FnMut(usize, &mut Map<String, Value>)) {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| {
            let mut row: Map<String, Value> = serde_json::from_str(line).unwrap();
            let shown = ["code", "results", "a"].into_iter().find_map(|column| row.get(column)).unwrap();
            let digits = shown.as_str().unwrap().split(" f").nth(1).unwrap().split('(').next().unwrap();
            let number = digits.parse().unwrap();
            fill(number, &mut row);
            Value::Object(row).to_string()
        });
        let lines: Vec<String> = lines.collect();
        fs::write(path, lines.join("\n")).unwrap();
    }

    pub(crate) fn study_options(&self) -> StudyOptions {
        StudyOptions {
            truth: ReferenceMajority::Auto,
            min_labels: 1,
            min_alpha: None,
            block: None,
            executable_rule: EXECUTABLE_RULES[0],
            bootstrap: Bootstrap { resamples: 50, ..Bootstrap::default() },
        }
    }

    pub(crate) fn study(&self) -> Study {
        let (writer, judge) = self.open();
        let ledger = writer.ledger();
        let judges = [StudiedJudge { ledger, judge, name: "model", criterion: self.plan().judge.criterion }];
        Study::new(&gather(&[ledger], &judges).unwrap(), &self.study_options())
    }

    /// Judges with yes for even numbers, and no verdict on the last two.
    pub(crate) fn judge(&self) {
        let (writer, judge) = self.open();
        for candidate in candidates(writer.ledger(), judge).unwrap().iter().take(10) {
            let pair = &writer.ledger().pairs(&[candidate.number]).unwrap()[0];
            let even = pair.id.parse::<usize>().unwrap() % 2 == 0;
            decide(&writer, judge, candidate.number, if even { Outcome::Yes } else { Outcome::No });
        }
    }
}

pub(crate) fn decide(writer: &Writer, judge: i64, pair: i64, outcome: Outcome) {
    let (decided_by, reason) = ("cosqa-plus".to_owned(), String::new());
    let verdict = Verdict { outcome, grade: None, decided_by, reason, confidence: None };
    writer.add_verdict(EventKey::of_pair(judge, pair), verdict).unwrap();
}

pub(crate) fn by(person: &str) -> ImportRequest<'_> {
    ImportRequest { person: Some(person), date: Some("2026-03-31"), revise: false }
}
