//! The evidence about a pair: answers of models and runs of programs, in order.

use std::time::Duration;

use quarry_sandbox::{Captured, Ended, Outcome};
use serde::{Deserialize, Serialize};

use crate::assertions::{self, Assertions, InstrumentedProgram, NOT_SEPARABLE};
use crate::language::Language;

/// The option of a plan that a step belongs to. A judge without options takes none of these steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionalStep {
    /// For tests written without seeing the code: the code that connects them with it.
    FromQuery,
    /// Additional programs.
    Programs,
    Mutation,
    /// Programs that are rewritten because they passed with mutants.
    Rewritten,
    /// Runs with another candidate of the same query.
    Differential,
}

impl OptionalStep {
    /// All optional steps.
    pub const ALL: [Self; 5] =
        [Self::FromQuery, Self::Programs, Self::Mutation, Self::Rewritten, Self::Differential];

    /// The name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::FromQuery => "from_query",
            Self::Programs => "programs",
            Self::Mutation => "mutation",
            Self::Rewritten => "rewritten",
            Self::Differential => "differential",
        }
    }

    /// The step with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|optional_step| optional_step.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a pair has a handful of events, which are read by reference")]
pub enum Event {
    Answer(ModelAnswer),
    Run(Run),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    pub prompt: String,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProgram {
    pub language: String,
    /// Its source code.
    pub source: String,
    /// The option that it belongs to; `None` if a judge without options would have it too.
    #[serde(rename = "extra")]
    pub optional_step: Option<OptionalStep>,
    /// The packages that it needs, as the language's package manager names them.
    pub packages: Vec<String>,
}

/// The run of a test program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub program: TestProgram,
    /// The installed packages, each with name and version; or why the requested ones are unavailable. In that case
    /// the program did not run, and the remaining fields carry no information.
    pub provided: Result<Vec<String>, String>,
    pub ended: Ended,
    pub stdout: String,
    pub stderr: String,
    pub assertions: Option<Assertions>,
    pub wall_time: Duration,
    pub cpu_time: Duration,
    pub peak_memory_bytes: u64,
    /// The isolation, `bubblewrap` or `none`, and what limited the memory.
    pub isolation: String,
}

/// Maximum number of bytes that are kept of each output stream: its beginning and its end.
const MAX_OUTPUT_BYTES: usize = 16_000;

const MAX_SHOWN_BYTES: usize = 4_000;

/// The result of the run of a test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Every evaluated assertion held, and as far as is known there was at least one.
    Passed,
    /// An assertion failed.
    Failed,
    /// An assertion failed, but the program continued and exited successfully.
    Swallowed,
    /// It exited without an error, and no assertion was evaluated.
    NoAssertions,
    /// A package is missing.
    MissingPackage,
    /// It did not run, because packages that it requests are unavailable.
    PackagesUnavailable,
    /// It ended with some other error.
    Error,
    /// It exceeded the time limit.
    TimedOut,
    /// It exceeded the memory limit.
    OutOfMemory,
}

impl RunResult {
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Failed,
        Self::Swallowed,
        Self::NoAssertions,
        Self::MissingPackage,
        Self::PackagesUnavailable,
        Self::Error,
        Self::TimedOut,
        Self::OutOfMemory,
    ];

    /// Returns true if the tests could be executed, whether they passed or failed.
    pub fn is_executable(self) -> bool {
        matches!(self, Self::Passed | Self::Failed | Self::Swallowed)
    }

    /// The name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Swallowed => "swallowed",
            Self::NoAssertions => "no_assertions",
            Self::MissingPackage => "missing_package",
            Self::PackagesUnavailable => "packages_unavailable",
            Self::Error => "error",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
        }
    }
}

impl Run {
    /// A run from the sandbox's outcome of the program, which may be instrumented to report its assertions.
    pub(crate) fn new(
        program: TestProgram,
        provided: Vec<String>,
        outcome: &Outcome,
        instrumented: Option<&InstrumentedProgram>,
        isolation: &str,
    ) -> Self {
        let kept = |output: &Captured| {
            let text = output.text();
            let text = instrumented.map_or(text.clone(), |instrumented| instrumented.restored(&text));
            kept(&text, output.total_bytes.saturating_sub(output.bytes.len() as u64))
        };
        Self {
            program,
            provided: Ok(provided),
            ended: outcome.ended,
            stdout: kept(&outcome.stdout),
            stderr: kept(&outcome.stderr),
            assertions: instrumented.and_then(|instrumented| instrumented.assertions(outcome)),
            wall_time: outcome.wall_time,
            cpu_time: outcome.cpu_time,
            peak_memory_bytes: outcome.peak_memory_bytes,
            isolation: isolation.to_owned(),
        }
    }

    /// Combines this run, whose program passed, with a rerun of the same program in which the test ran in a process
    /// separate from the code. If it passed again, its report is confirmed; if it failed, the rerun counts instead.
    /// If the two could not be separated, nothing follows.
    pub(crate) fn confirmed_by(mut self, separate: Self) -> Self {
        let Some(language) = Language::named(&self.program.language) else { return self };
        let is_separable = separate.ended != Ended::Exited { code: NOT_SEPARABLE };
        match (separate.result(language), separate.assertions, &mut self.assertions) {
            (RunResult::Passed, Some(again), Some(found)) if again.ran == found.ran => {
                found.is_apart = true;
                self
            }
            (RunResult::Failed | RunResult::Swallowed | RunResult::Error, Some(failed), _)
                if is_separable =>
            {
                Self { assertions: Some(Assertions { is_apart: true, ..failed }), ..separate }
            }
            _ => self,
        }
    }

    /// The run of a program whose packages are unavailable.
    pub fn unavailable(program: TestProgram, reason: String) -> Self {
        Self {
            program,
            provided: Err(reason),
            // The status with which shells report a command that cannot be executed.
            ended: Ended::Exited { code: 126 },
            stdout: String::new(),
            stderr: String::new(),
            assertions: None,
            wall_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory_bytes: 0,
            isolation: String::new(),
        }
    }

    pub(crate) fn missing_package(&self, language: &Language) -> Option<String> {
        let lacks = self.result(language) == RunResult::MissingPackage;
        lacks.then(|| language.missing_package(&self.stdout, &self.stderr).unwrap_or_default())
    }

    /// The number of tests: positions of evaluated assertions or, if these are unknown, lines that begin with an
    /// assertion.
    pub(crate) fn n_tests(&self, language: &Language) -> u64 {
        let lines = || language.count_tests(&self.program.source) as u64;
        self.assertions.map_or_else(lines, |found| found.sites)
    }

    fn output(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// Returns true if the reports or the output show that an assertion failed.
    fn reports_failed_assertion(&self, language: &Language) -> bool {
        let output = self.output();
        self.assertions.is_some_and(|found| found.failed > 0)
            || language.reports_failed_test(&output)
            || language.names_failed_test(&output, &self.program.source)
    }

    /// The result. Only a program with a nonzero exit status counts as lacking a package or having a failed test,
    /// whatever it printed.
    pub fn result(&self, language: &Language) -> RunResult {
        match self.ended {
            _ if self.provided.is_err() => RunResult::PackagesUnavailable,
            Ended::Exited { code: 0 } => match self.assertions {
                Some(found) if found.held() < found.ran => RunResult::Swallowed,
                Some(Assertions { ran: 0, .. }) => RunResult::NoAssertions,
                None if !assertions::may_assert(&self.program.language, &self.program.source) => {
                    RunResult::NoAssertions
                }
                _ => RunResult::Passed,
            },
            Ended::Exited { .. } if language.missing_package(&self.stdout, &self.stderr).is_some() => {
                RunResult::MissingPackage
            }
            Ended::Exited { .. } if self.reports_failed_assertion(language) => RunResult::Failed,
            Ended::Exited { .. } => RunResult::Error,
            Ended::WallTime | Ended::CpuTime => RunResult::TimedOut,
            Ended::Memory => RunResult::OutOfMemory,
        }
    }

    /// The result, phrased for a model.
    pub fn description(&self, language: &Language) -> String {
        let found = self.assertions.unwrap_or_default();
        match self.result(language) {
            RunResult::Passed => match self.assertions {
                Some(Assertions { ran: 1, .. }) => {
                    "ended without an error; 1 assertion ran, and it held".to_owned()
                }
                Some(found) => {
                    format!("ended without an error; {}, and all of them held", found.description())
                }
                None => "ended without an error; how many assertions ran is not known".to_owned(),
            },
            RunResult::Failed => match found.held() {
                0 => format!("an assertion did not hold{}", found.failure_position()),
                1 => format!("an assertion did not hold{}; 1 other held", found.failure_position()),
                held => format!("an assertion did not hold{}; {held} others held", found.failure_position()),
            },
            RunResult::Swallowed => format!(
                "an assertion did not hold{}, and the program went on and ended without an error; {}, and {} of them \
                 held",
                found.failure_position(),
                found.description(),
                found.held()
            ),
            RunResult::NoAssertions => {
                "ended without an error, but no assertion ran: nothing was tested".to_owned()
            }
            RunResult::MissingPackage => {
                let package = self.missing_package(language).unwrap_or_default();
                format!("could not run: the package {package} is missing")
            }
            RunResult::PackagesUnavailable => {
                let reason = self.provided.as_ref().err().map_or("", String::as_str);
                format!("could not run: packages are missing ({reason})")
            }
            RunResult::Error => match self.ended {
                Ended::Exited { code } => {
                    let before = match self.assertions.map(|found| found.held()) {
                        None => String::new(),
                        Some(0) => ", before any assertion held".to_owned(),
                        Some(1) => ", after 1 assertion that held".to_owned(),
                        Some(held) => format!(", after {held} assertions that held"),
                    };
                    format!("ended with an error (status {code}){before}")
                }
                _ => "ended with an error".to_owned(),
            },
            RunResult::TimedOut => "was ended because it ran for too long".to_owned(),
            RunResult::OutOfMemory => "was ended because it needed too much memory".to_owned(),
        }
    }

    /// The output as shown to a model, without details that differ between machines.
    pub(crate) fn shown(&self, language: &Language) -> String {
        let output = language.without_noise(&self.output());
        if output.is_empty() { "(nothing)".to_owned() } else { both_ends(&output, MAX_SHOWN_BYTES) }
    }
}

/// The part of a stream that is kept: both ends, or only the beginning if the sandbox already omitted `more` bytes.
fn kept(text: &str, more: u64) -> String {
    if more == 0 {
        return both_ends(text, MAX_OUTPUT_BYTES);
    }
    let head = text.floor_char_boundary(MAX_OUTPUT_BYTES);
    format!("{}\n{}", &text[..head], left_out(more + (text.len() - head) as u64))
}

/// The beginning and the end of a text, `max` bytes in total at most.
fn both_ends(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{}\n{}\n{}", &text[..head], left_out(size(&text[head..tail])), &text[tail..])
}

/// The note that replaces omitted bytes.
fn left_out(bytes: u64) -> String {
    format!("… {bytes} bytes …")
}

/// The size of a text in bytes, including those already omitted from it.
fn size(text: &str) -> u64 {
    let gap = |line: &str| {
        let bytes = line.trim_end().strip_prefix("… ")?.strip_suffix(" bytes …")?.parse::<u64>().ok()?;
        // The line breaks around the note are not part of the text.
        Some(bytes.saturating_sub(1))
    };
    text.split_inclusive('\n').map(|line| gap(line).unwrap_or(line.len() as u64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(language: &str, source: &str) -> TestProgram {
        TestProgram { language: language.to_owned(), source: source.to_owned(), ..TestProgram::default() }
    }

    fn run(ended: Ended, stderr: &str) -> Run {
        Run {
            provided: Ok(Vec::new()),
            ended,
            stderr: stderr.to_owned(),
            ..Run::unavailable(program("python", "assert f(1)\n"), String::new())
        }
    }

    #[test]
    fn outcomes_of_runs() {
        let python = Language::named("python").unwrap();
        let missing = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'yaml'";
        for (ended, stderr, expected) in [
            (Ended::Exited { code: 0 }, missing, RunResult::Passed),
            (Ended::Exited { code: 1 }, missing, RunResult::MissingPackage),
            (Ended::Exited { code: 1 }, "AssertionError: x", RunResult::Failed),
            (Ended::Exited { code: 1 }, "AssertionError: No module named 'yaml'", RunResult::Failed),
            (Ended::Exited { code: 1 }, "SyntaxError: x", RunResult::Error),
            (Ended::Exited { code: 139 }, "", RunResult::Error),
            (Ended::WallTime, "AssertionError", RunResult::TimedOut),
            (Ended::CpuTime, "", RunResult::TimedOut),
            (Ended::Memory, "", RunResult::OutOfMemory),
        ] {
            let run = run(ended, stderr);
            assert_eq!(run.result(python), expected, "{ended:?} {stderr}");
            assert!(!run.description(python).is_empty() && !run.shown(python).is_empty());
        }
        assert!(run(Ended::Exited { code: 1 }, missing).description(python).contains("yaml"));
        let unavailable = Run::unavailable(TestProgram::default(), "there is none".to_owned());
        assert_eq!(unavailable.result(python), RunResult::PackagesUnavailable);
        assert!(unavailable.description(python).contains("there is none"));
    }

    #[test]
    fn evaluated_assertions_count_more_than_the_exit_status() {
        let python = Language::named("python").unwrap();
        let [fine, ended] = [Ended::Exited { code: 0 }, Ended::Exited { code: 1 }];
        let counted = |ran, failed, broken_off| {
            Some(Assertions { ran, failed, broken_off, first_failed_line: Some(7), ..Assertions::default() })
        };
        for (ended, assertions, expected, description) in [
            (fine, None, RunResult::Passed, "how many assertions ran is not known"),
            (fine, counted(1, 0, 0), RunResult::Passed, "1 assertion ran, and it held"),
            (fine, counted(3, 0, 0), RunResult::Passed, "3 assertions ran, and all of them held"),
            (fine, counted(0, 0, 0), RunResult::NoAssertions, "no assertion ran: nothing was tested"),
            (
                fine,
                counted(3, 1, 0),
                RunResult::Swallowed,
                "in line 7 of the program, and the program went on",
            ),
            (fine, counted(3, 0, 1), RunResult::Swallowed, "3 assertions ran, and 2 of them held"),
            (ended, counted(3, 1, 0), RunResult::Failed, "in line 7 of the program; 2 others held"),
            (
                ended,
                counted(1, 1, 0),
                RunResult::Failed,
                "an assertion did not hold in line 7 of the program",
            ),
            // An interrupted assertion may have been interrupted by any error.
            (ended, counted(2, 0, 1), RunResult::Error, "(status 1), after 1 assertion that held"),
            (ended, counted(0, 0, 0), RunResult::Error, "before any assertion held"),
            (ended, None, RunResult::Error, "ended with an error (status 1)"),
            (Ended::WallTime, counted(3, 1, 0), RunResult::TimedOut, "it ran for too long"),
        ] {
            let run = Run { assertions, ..run(ended, "") };
            assert_eq!(run.result(python), expected, "{ended:?} {assertions:?}");
            assert!(run.description(python).contains(description), "{}", run.description(python));
        }
    }

    #[test]
    fn a_program_without_an_assertion_has_tested_nothing() {
        for (language, source, expected) in [
            ("python", "print(1)\n", RunResult::NoAssertions),
            ("python", "import doctest\ndoctest.testmod()\n", RunResult::Passed),
            ("php", "assert(1 === 2);\n", RunResult::NoAssertions),
            ("php", "<?php\nassert(1 === 1);\n", RunResult::Passed),
        ] {
            let run = Run { program: program(language, source), ..run(Ended::Exited { code: 0 }, "") };
            assert_eq!(run.result(Language::named(language).unwrap()), expected, "{source}");
        }
    }

    #[test]
    fn failures_that_only_say_their_name_are_failed_assertions() {
        let check = |language: &str, source: &str, stderr: &str, expected: RunResult| {
            let run = Run { program: program(language, source), ..run(Ended::Exited { code: 1 }, stderr) };
            assert_eq!(run.result(Language::named(language).unwrap()), expected, "{stderr}");
        };
        let source = "f <- function(x) x\nmain <- function() {\n  stopifnot('zero' = f(0) == 1,\n    \"one is two\" = f(1) == 2)\n}\nmain()\n";
        check("r", source, "Error in main() : one is two\nExecution halted\n", RunResult::Failed);
        check("r", source, "Error in main() : \n  one is two\nCalls: main\n", RunResult::Failed);
        check("r", source, "Error: zero\n", RunResult::Failed);
        check("r", source, "Error in f(0) : object 'y' not found\n", RunResult::Error);
        check("r", source, "warning: not zero\n", RunResult::Error);
        let minitest = "  1) Failure:\nTestSum#test_sum [main.rb:5]:\nExpected: 3\n  Actual: 2\n";
        check("ruby", "", minitest, RunResult::Failed);
        check("ruby", "", "===\nFailure: test_sum(TestSum)\n", RunResult::Failed);
        check("ruby", "", "  1) Error:\nTestSum#test_sum:\nNameError: x\n", RunResult::Error);
    }

    #[test]
    fn long_output_keeps_both_ends() {
        let text = format!("{}ä{}", "a".repeat(50), "b".repeat(50));
        let short = both_ends(&text, 20);
        assert!(short.starts_with("aaaaaaaaaa\n…") && short.ends_with("…\nbbbbbbbbbb"), "{short}");
        assert_eq!(both_ends("ä", 2), "ä");
    }

    #[test]
    fn a_mark_states_how_much_is_left_out_of_repeatedly_cut_text() {
        let python = Language::named("python").unwrap();
        for (kept, total) in [(100, 100), (20_000, 20_000), (65_536, 1_000_000)] {
            let stdout = Captured { bytes: vec![b'a'; kept], total_bytes: total };
            let (none, time) = (Captured::default(), Duration::ZERO);
            let outcome = Outcome {
                ended: Ended::Exited { code: 0 },
                stdout,
                stderr: none.clone(),
                report: none,
                wall_time: time,
                cpu_time: time,
                peak_memory_bytes: 0,
                memory_bound: quarry_sandbox::MemoryBound::Watchdog,
            };
            let run = Run::new(TestProgram::default(), Vec::new(), &outcome, None, "");
            for text in [run.stdout.clone(), run.shown(python)] {
                let shown = text.chars().filter(|c| *c == 'a').count() as u64;
                let gaps: u64 = text
                    .split("… ")
                    .skip(1)
                    .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
                    .sum();
                assert_eq!(shown + gaps, total, "{}", text.len());
            }
        }
    }
}
