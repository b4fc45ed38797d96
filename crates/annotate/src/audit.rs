//! Auditing: running the tests of finished labels again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quarry_sandbox::Limits;
use serde::Serialize;

use crate::error::AnnotateError;
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
    /// Whether the user stopped the audit early.
    pub stopped: bool,
}

impl AuditReport {
    /// Whether all programs were run again, with the same results.
    pub fn holds(&self) -> bool {
        self.changed.is_empty() && self.not_run.is_empty() && !self.stopped
    }
}

/// The result of running a program again.
enum RerunResult {
    Same,
    Changed(ChangedRun),
    Skipped(SkippedRun),
}

/// Runs the programs again that the labels of `judge` are based on, and those that people wrote for its pairs, on
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
) -> Result<AuditReport, AnnotateError> {
    let mut audit = AuditReport::default();
    let mut again = |page: Vec<FinishedRun>| run_again(&mut audit, page, programs, limits, threads, stop);
    let mut after = [0; 3];
    while let page = ledger.finished(judge, after, PAGE)?
        && let Some((last, _)) = page.last()
        && !stop.load(Ordering::SeqCst)
    {
        after = *last;
        again(page.into_iter().map(|(_, finished)| finished).collect())?;
    }
    let mut after = 0;
    while let page = ledger.programs_of_people(judge, after, PAGE)?
        && let Some((last, _)) = page.last()
        && !stop.load(Ordering::SeqCst)
    {
        after = *last;
        again(page.into_iter().map(|(_, finished)| finished).collect())?;
    }
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
    threads: usize,
    stop: &AtomicBool,
) -> Result<(), AnnotateError> {
    let runs = Mutex::new(page.into_iter());
    let results: Mutex<Vec<(bool, Result<RerunResult, AnnotateError>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let next = runs.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(finished) = next else { return };
                    let result = (finished.person.is_some(), compare(finished, programs, limits));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    for (is_of_person, found) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match found {
            Err(AnnotateError::Stopped) => continue,
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
) -> Result<RerunResult, AnnotateError> {
    let FinishedRun { pair, code, person, run: before } = finished;
    let Some(language) = Language::named(&before.program.language) else {
        let reason = format!("{} is not among the languages", before.program.language);
        return Ok(RerunResult::Skipped(SkippedRun { pair, person, reason }));
    };
    let now = match programs.run(before.program.clone(), &code, limits) {
        Ok(now) => now,
        // The next program may not need what is missing here.
        Err(error @ (AnnotateError::Packages(_) | AnnotateError::Unrunnable { .. })) => {
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
