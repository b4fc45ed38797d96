//! Running test programs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quarry_sandbox::packages::{PackageError, PackageSource};
use quarry_sandbox::{Limits, Outcome, Program, Runner, Sandbox, Semaphore};

use crate::assertions::InstrumentedProgram;
use crate::error::JudgeError;
use crate::evidence::{Run, RunResult, TestProgram};
use crate::judge::RepairState;
use crate::language::Language;

/// Runs test programs, in this process or elsewhere. Can be shared between threads.
pub trait Programs: Send + Sync {
    /// Runs a program that tests `code` with the packages that it requests. Unavailable packages are also reported as
    /// a [`Run`].
    ///
    /// # Errors
    /// When its language has no runner, or it could not be started; [`JudgeError::Packages`] when its packages
    /// could not be fetched this time; [`JudgeError::Unrunnable`] when the cause is this program alone;
    /// [`JudgeError::Stopped`] when it was not started because the user stopped.
    fn run(&self, program: TestProgram, code: &str, limits: &Limits) -> Result<Run, JudgeError>;

    /// Why programs of a language cannot be run, and what to do; `None` if they can.
    fn problem(&self, runner: &Runner) -> Result<Option<String>, JudgeError> {
        Ok(runner.problem())
    }

    fn languages(&self) -> Result<Vec<&'static str>, JudgeError> {
        let mut languages = Vec::new();
        for name in Runner::names() {
            if self.problem(Runner::named(name)?)?.is_none() {
                languages.push(name);
            }
        }
        Ok(languages)
    }

    /// Called when the run of a program is in the ledger.
    fn noted(&self, _program: &TestProgram, _code: &str, _limits: &Limits) {}
}

/// Runs a program like [`Programs::run`]. Packages that it lacks are installed by the names of their modules, as long as
/// that makes progress.
pub fn run_with_packages(
    programs: &dyn Programs,
    program: TestProgram,
    code: &str,
    limits: &Limits,
) -> Result<Run, JudgeError> {
    let language = Language::named(&program.language);
    let first = programs.run(program, code, limits)?;
    let Some(language) = language else { return Ok(first) };
    let mut repaired = RepairState::new(language, first);
    while let Some(missing) = repaired.missing()
        && let Some(program) = repaired.with(&[missing])
    {
        let again = programs.run(program, code, limits)?;
        repaired.take(again);
    }
    Ok(repaired.run)
}

/// Runs programs in a sandbox. The semaphore limits their concurrency; fetching packages needs no permit.
pub struct IsolatedPrograms {
    pub sandbox: Box<dyn Sandbox>,
    /// The name of the sandbox in the ledger.
    pub name: String,
    /// The source of packages; `None` if packages are not installed.
    pub packages: Option<Box<dyn PackageSource>>,
    pub semaphore: Semaphore,
    /// Set when the user stops: then no more programs are started.
    pub stop: Arc<AtomicBool>,
}

impl IsolatedPrograms {
    /// Without packages, for `at_once` concurrent programs.
    pub fn new(sandbox: Box<dyn Sandbox>, name: &str, at_once: usize) -> Self {
        let semaphore = Semaphore::new(at_once);
        Self { sandbox, name: name.to_owned(), packages: None, semaphore, stop: Arc::default() }
    }
}

impl Programs for IsolatedPrograms {
    fn problem(&self, runner: &Runner) -> Result<Option<String>, JudgeError> {
        Ok(self.sandbox.problem(runner)?)
    }

    fn run(&self, program: TestProgram, code: &str, limits: &Limits) -> Result<Run, JudgeError> {
        let runner = Runner::named(&program.language)?;
        let mut runnable = runner.program(&program.source);
        let mut provided = Vec::new();
        if !program.packages.is_empty() {
            let Some(packages) = &self.packages else {
                return Ok(Run::unavailable(program, "packages are not installed here".to_owned()));
            };
            match packages.provide(&program.language, &program.packages) {
                Ok(found) => {
                    found.add_to(&mut runnable);
                    provided = found.packages;
                }
                Err(PackageError::Refused { reason }) => return Ok(Run::unavailable(program, reason)),
                Err(PackageError::Stopped) => return Err(JudgeError::Stopped),
                Err(PackageError::Sandbox(error)) => return Err(error.into()),
                Err(error) => return Err(JudgeError::Packages(error)),
            }
        }
        let _permit = self.semaphore.acquire(&self.stop).ok_or(JudgeError::Stopped)?;
        let run = |runnable: &Program| {
            runner.run(self.sandbox.as_ref(), runnable, limits).map_err(|error| match error {
                quarry_sandbox::Error::Program(problem) => JudgeError::Unrunnable { problem },
                error => error.into(),
            })
        };
        let isolation = |outcome: &Outcome| format!("{}, {}", self.name, outcome.memory_bound);
        let instrumented = InstrumentedProgram::new(&runnable, &program.language, &program.source, code);
        if let Some(instrumented) = &instrumented {
            let outcome = run(&instrumented.program)?;
            if !instrumented.may_be_unreadable(&outcome) {
                let first = Run::new(
                    program.clone(),
                    provided.clone(),
                    &outcome,
                    Some(instrumented),
                    &isolation(&outcome),
                );
                let language = Language::named(&program.language);
                let has_passed = language.is_some_and(|language| first.result(language) == RunResult::Passed);
                return match instrumented.separated(&program.source, code).filter(|_| has_passed) {
                    None => Ok(first),
                    Some(separated) => {
                        let outcome = run(&separated)?;
                        let isolation = isolation(&outcome);
                        let second = Run::new(program, provided, &outcome, Some(instrumented), &isolation);
                        Ok(first.confirmed_by(second))
                    }
                };
            }
        }
        let outcome = run(&runnable)?;
        Ok(Run::new(program, provided, &outcome, None, &isolation(&outcome)))
    }
}
