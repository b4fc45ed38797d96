//! Auditing: the tests of finished labels are run again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quarry_sandbox::Limits;
use serde::Serialize;

use crate::error::AnnotateError;
use crate::evidence::{Run, RunResult};
use crate::language::Language;
use crate::ledger::Ledger;
use crate::programs::Programs;

/// Runs that are read from the ledger at once.
const PAGE: usize = 256;

/// A test program that no longer comes to what the label rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Id of the pair.
    pub pair: String,
    /// What it came to when the pair was judged.
    pub before: RunResult,
    /// What it comes to now.
    pub now: RunResult,
    /// The end of what it printed now.
    pub output: String,
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Programs that were run again.
    pub runs: u64,
    /// Those that came to something else, by the id of their pair.
    pub changed: Vec<Changed>,
}

/// Runs the programs that the labels of `judge` rest on again, `at_once` at the same time. Nothing is written.
///
/// # Errors
/// When the ledger cannot be read, or a program cannot be run.
pub fn audit(
    ledger: &Ledger,
    judge: i64,
    programs: &dyn Programs,
    limits: &Limits,
    at_once: usize,
    stop: &AtomicBool,
) -> Result<Audit, AnnotateError> {
    let mut audit = Audit::default();
    let mut after = [0; 3];
    loop {
        let page = ledger.finished(judge, after, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        let runs = Mutex::new(page.into_iter().map(|(_, finished)| finished));
        let found: Mutex<Vec<Result<Option<Changed>, AnnotateError>>> = Mutex::default();
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        let next = runs.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(finished) = next else { return };
                        let result = again(&finished.pair, &finished.run, programs, limits);
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        for result in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            audit.runs += 1;
            audit.changed.extend(result?);
        }
        if stop.load(Ordering::SeqCst) {
            return Err(AnnotateError::Stopped);
        }
    }
    audit.changed.sort_by(|a, b| a.pair.cmp(&b.pair));
    Ok(audit)
}

fn again(
    pair: &str,
    before: &Run,
    programs: &dyn Programs,
    limits: &Limits,
) -> Result<Option<Changed>, AnnotateError> {
    let Some(language) = Language::named(&before.program.language) else { return Ok(None) };
    let now = programs.run(before.program.clone(), limits)?;
    let results = [before.result(language), now.result(language)];
    Ok((results[0] != results[1]).then(|| Changed {
        pair: pair.to_owned(),
        before: results[0],
        now: results[1],
        output: now.shown(language),
    }))
}
