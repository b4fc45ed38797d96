//! Auditing: rerunning the tests of finished labels.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quarry_sandbox::Limits;
use serde::Serialize;

use crate::error::JudgeError;
use crate::evidence::RunResult;
use crate::language::Language;
use crate::ledger::{FinishedRun, Ledger};
use crate::programs::Programs;

/// Number of runs read from the ledger at a time.
const PAGE: usize = 256;

/// A test program whose result differs from the one that the label is based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ChangedRun {
    /// Id of the pair.
    pub pair: String,
    /// Author of the program; `None` if a model wrote it.
    pub person: Option<String>,
    /// Result when the pair was judged.
    pub before: RunResult,
    /// Result now.
    pub now: RunResult,
    /// The end of its current output.
    pub output: String,
}

/// A test program that could not be run again this time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct SkippedRun {
    /// Id of the pair.
    pub pair: String,
    /// Author of the program; `None` if a model wrote it.
    pub person: Option<String>,
    /// Why it could not be run.
    pub reason: String,
}

/// The results of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AuditReport {
    /// Number of programs to run again.
    pub runs: u64,
    /// Number of these that people wrote.
    pub of_people: u64,
    /// Programs with a different result, by the id of their pair.
    pub changed: Vec<ChangedRun>,
    /// Programs that could not be run, by the id of their pair.
    pub not_run: Vec<SkippedRun>,
    /// True if the user stopped the audit early.
    pub stopped: bool,
}

impl AuditReport {
    /// Returns true if all programs ran again, with the same results.
    pub fn holds(&self) -> bool {
        self.changed.is_empty() && self.not_run.is_empty() && !self.stopped
    }
}

enum RerunResult {
    Same,
    Changed(ChangedRun),
    Skipped(SkippedRun),
}

/// Reruns the programs that the labels of `judge` are based on, and those that people wrote for its pairs, on
/// `threads` threads. Nothing is written.
///
/// # Errors
/// When the ledger cannot be read, or no program can be run.
pub fn audit(
    ledger: &Ledger,
    judge: i64,
    programs: &dyn Programs,
    limits: &Limits,
    threads: usize,
    stop: &AtomicBool,
) -> Result<AuditReport, JudgeError> {
    audit_changed(ledger, judge, programs, limits, (threads, stop), &BTreeMap::new())
}

/// Like [`audit`], for codes that have changed since: `changed` maps the ids of pairs to their code before and now.
/// The program of such a pair runs with the current code in place of the previous one, and cannot run if its text
/// does not contain the previous one.
pub fn audit_changed(
    ledger: &Ledger,
    judge: i64,
    programs: &dyn Programs,
    limits: &Limits,
    (threads, stop): (usize, &AtomicBool),
    changed: &BTreeMap<String, [String; 2]>,
) -> Result<AuditReport, JudgeError> {
    let mut audit = AuditReport::default();
    let mut again =
        |page: Vec<FinishedRun>| run_again(&mut audit, page, programs, limits, (threads, stop), changed);
    ledger.for_each_finished(judge, PAGE, |page| {
        if !stop.load(Ordering::SeqCst) {
            again(page)?;
        }
        Ok(!stop.load(Ordering::SeqCst))
    })?;
    audit.stopped = stop.load(Ordering::SeqCst);
    audit.changed.sort_by(|a, b| (&a.pair, &a.person).cmp(&(&b.pair, &b.person)));
    audit.not_run.sort_by(|a, b| (&a.pair, &a.person).cmp(&(&b.pair, &b.person)));
    Ok(audit)
}

fn run_again(
    audit: &mut AuditReport,
    page: Vec<FinishedRun>,
    programs: &dyn Programs,
    limits: &Limits,
    (threads, stop): (usize, &AtomicBool),
    changed: &BTreeMap<String, [String; 2]>,
) -> Result<(), JudgeError> {
    let runs = Mutex::new(page.into_iter());
    let results: Mutex<Vec<(bool, Result<RerunResult, JudgeError>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let next = runs.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(finished) = next else { return };
                    let result = (finished.person.is_some(), compare(finished, programs, limits, changed));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    for (is_of_person, found) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match found {
            Err(JudgeError::Stopped) => continue,
            Err(error) => return Err(error),
            Ok(RerunResult::Same) => {}
            Ok(RerunResult::Changed(changed)) => audit.changed.push(changed),
            Ok(RerunResult::Skipped(not_run)) => audit.not_run.push(not_run),
        }
        audit.runs += 1;
        audit.of_people += u64::from(is_of_person);
    }
    Ok(())
}

fn compare(
    finished: FinishedRun,
    programs: &dyn Programs,
    limits: &Limits,
    changed: &BTreeMap<String, [String; 2]>,
) -> Result<RerunResult, JudgeError> {
    let FinishedRun { pair, mut code, person, run: before } = finished;
    let Some(language) = Language::named(&before.program.language) else {
        let reason = format!("{} is not among the languages", before.program.language);
        return Ok(RerunResult::Skipped(SkippedRun { pair, person, reason }));
    };
    let mut program = before.program.clone();
    if let Some([old, new]) = changed.get(&pair) {
        if !program.source.contains(old.trim()) {
            let reason = "its program does not contain the function, whose code has changed".to_owned();
            return Ok(RerunResult::Skipped(SkippedRun { pair, person, reason }));
        }
        program.source = program.source.replace(old.trim(), new.trim());
        code.clone_from(new);
    }
    let now = match programs.run(program, &code, limits) {
        Ok(now) => now,
        // The next program may not need what is missing here.
        Err(error @ (JudgeError::Packages(_) | JudgeError::Unrunnable { .. })) => {
            return Ok(RerunResult::Skipped(SkippedRun { pair, person, reason: error.to_string() }));
        }
        Err(error) => return Err(error),
    };
    let [before, now_came_to] = [before.result(language), now.result(language)];
    if before == now_came_to {
        return Ok(RerunResult::Same);
    }
    Ok(RerunResult::Changed(ChangedRun {
        pair,
        person,
        before,
        now: now_came_to,
        output: now.shown(language),
    }))
}
