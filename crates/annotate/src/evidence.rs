//! What is known about a pair: the answers of models and the runs of programs, in their order.

use std::time::Duration;

use quarry_sandbox::{Captured, Ended, Outcome};
use serde::{Deserialize, Serialize};

use crate::language::Language;

/// What a step is for that the judge would not take without an entry of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// Tests that do not see the code: what joins them with it.
    FromQuery,
    /// Further programs.
    Programs,
    /// Broken functions.
    Mutation,
    /// Programs that are written anew, since they held for broken functions.
    Rewritten,
    /// Another candidate of the same query.
    Differential,
}

impl Extra {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::FromQuery, Self::Programs, Self::Mutation, Self::Rewritten, Self::Differential];

    /// As the ledger has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FromQuery => "from_query",
            Self::Programs => "programs",
            Self::Mutation => "mutation",
            Self::Rewritten => "rewritten",
            Self::Differential => "differential",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|extra| extra.name() == name)
    }
}

/// A thing that happened while a pair was judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A model answered.
    Answer(Answer),
    /// A program ran.
    Run(Run),
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The prompt that was asked.
    pub prompt: String,
    /// What the model wrote.
    pub text: String,
}

/// A test program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProgram {
    /// Its language.
    pub language: String,
    /// Its source code.
    pub source: String,
    /// What it is for, where it is not a part of the judge without options.
    pub extra: Option<Extra>,
    /// The packages that it is to have, as the language's package manager names them.
    pub packages: Vec<String>,
}

/// The run of a test program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What ran.
    pub program: TestProgram,
    /// The packages that it had, each a name and a version; or why those that it asks for cannot be had. Then it did
    /// not run, and what follows says nothing.
    pub provided: Result<Vec<String>, String>,
    /// Why it is no longer running.
    pub ended: Ended,
    /// What it wrote to its standard output, shortened.
    pub stdout: String,
    /// What it wrote to its standard error output, shortened.
    pub stderr: String,
    /// From start to end.
    pub wall_time: Duration,
    /// Of all processes together.
    pub cpu_time: Duration,
    /// Of all processes together, in bytes.
    pub peak_memory_bytes: u64,
    /// What kept it in: `bubblewrap` or `none`, and what bounded its memory.
    pub isolation: String,
}

/// The most bytes of each output stream that are kept: its beginning and its end.
const MAX_OUTPUT_BYTES: usize = 16_000;

/// The most bytes of output that a model is shown.
const MAX_SHOWN_BYTES: usize = 4_000;

/// What the run of a test program came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Every assertion held.
    Passed,
    /// An assertion did not hold.
    Failed,
    /// A package is not there.
    MissingPackage,
    /// It did not run, because packages that it asks for cannot be had.
    PackagesUnavailable,
    /// It ended with another error.
    Error,
    /// It ran for too long.
    TimedOut,
    /// It needed too much memory.
    OutOfMemory,
}

impl RunResult {
    /// Every result.
    pub const ALL: [Self; 7] = [
        Self::Passed,
        Self::Failed,
        Self::MissingPackage,
        Self::PackagesUnavailable,
        Self::Error,
        Self::TimedOut,
        Self::OutOfMemory,
    ];

    /// Whether the tests could be executed: they held, or one of them did not.
    pub fn is_executable(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }

    /// As the ledger has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::MissingPackage => "missing_package",
            Self::PackagesUnavailable => "packages_unavailable",
            Self::Error => "error",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
        }
    }
}

impl Run {
    /// From what a sandbox said.
    pub fn new(program: TestProgram, provided: Vec<String>, outcome: &Outcome, isolation: &str) -> Self {
        Self {
            program,
            provided: Ok(provided),
            ended: outcome.ended,
            stdout: kept(&outcome.stdout),
            stderr: kept(&outcome.stderr),
            wall_time: outcome.wall_time,
            cpu_time: outcome.cpu_time,
            peak_memory_bytes: outcome.peak_memory_bytes,
            isolation: isolation.to_owned(),
        }
    }

    /// Of a program whose packages cannot be had.
    pub fn unavailable(program: TestProgram, reason: String) -> Self {
        Self {
            program,
            provided: Err(reason),
            // As shells tell of what cannot be run.
            ended: Ended::Exited { code: 126 },
            stdout: String::new(),
            stderr: String::new(),
            wall_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory_bytes: 0,
            isolation: String::new(),
        }
    }

    /// The package that it lacked, if it did.
    pub(crate) fn missing_package(&self, language: &Language) -> Option<String> {
        let lacks = self.result(language) == RunResult::MissingPackage;
        lacks.then(|| language.missing_package(&self.stdout, &self.stderr).unwrap_or_default())
    }

    fn output(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// What it came to. Only a program that ended with another status than 0 lacks a package or has a test that
    /// failed, whatever it printed.
    pub fn result(&self, language: &Language) -> RunResult {
        match self.ended {
            _ if self.provided.is_err() => RunResult::PackagesUnavailable,
            Ended::Exited { code: 0 } => RunResult::Passed,
            Ended::Exited { .. } if language.missing_package(&self.stdout, &self.stderr).is_some() => {
                RunResult::MissingPackage
            }
            Ended::Exited { .. } if language.tells_failed_test(&self.output()) => RunResult::Failed,
            Ended::Exited { .. } => RunResult::Error,
            Ended::WallTime | Ended::CpuTime => RunResult::TimedOut,
            Ended::Memory => RunResult::OutOfMemory,
        }
    }

    /// The result as a model is told it.
    pub(crate) fn told(&self, language: &Language) -> String {
        match self.result(language) {
            RunResult::Passed => "all assertions held".to_owned(),
            RunResult::Failed => "an assertion did not hold".to_owned(),
            RunResult::MissingPackage => {
                let package = self.missing_package(language).unwrap_or_default();
                format!("could not run: the package {package} is missing")
            }
            RunResult::PackagesUnavailable => {
                let reason = self.provided.as_ref().err().map_or("", String::as_str);
                format!("could not run: packages are missing ({reason})")
            }
            RunResult::Error => match self.ended {
                Ended::Exited { code } => format!("ended with an error (status {code})"),
                _ => "ended with an error".to_owned(),
            },
            RunResult::TimedOut => "was ended because it ran for too long".to_owned(),
            RunResult::OutOfMemory => "was ended because it needed too much memory".to_owned(),
        }
    }

    /// The output as a model is shown it: without what differs between machines.
    pub(crate) fn shown(&self, language: &Language) -> String {
        let output = language.without_noise(&self.output());
        if output.is_empty() { "(nothing)".to_owned() } else { both_ends(&output, MAX_SHOWN_BYTES) }
    }
}

/// What is kept of a stream: both ends, or its beginning where the sandbox has no more of it.
fn kept(stream: &Captured) -> String {
    let text = stream.text();
    let more = stream.total_bytes.saturating_sub(stream.bytes.len() as u64);
    if more == 0 {
        return both_ends(&text, MAX_OUTPUT_BYTES);
    }
    let head = text.floor_char_boundary(MAX_OUTPUT_BYTES);
    format!("{}\n{}", &text[..head], left_out(more + (text.len() - head) as u64))
}

/// The beginning and the end of a text, which together have at most `max` bytes.
fn both_ends(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{}\n{}\n{}", &text[..head], left_out(size(&text[head..tail])), &text[tail..])
}

/// Stands for so many bytes that are left out.
fn left_out(bytes: u64) -> String {
    format!("… {bytes} bytes …")
}

/// The bytes of a text, those counting too that are left out of it already.
fn size(text: &str) -> u64 {
    let gap = |line: &str| {
        let bytes = line.trim_end().strip_prefix("… ")?.strip_suffix(" bytes …")?.parse::<u64>().ok()?;
        // The line ends around it are not of the text.
        Some(bytes.saturating_sub(1))
    };
    text.split_inclusive('\n').map(|line| gap(line).unwrap_or(line.len() as u64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ended: Ended, stderr: &str) -> Run {
        Run {
            program: TestProgram { language: "python".to_owned(), ..TestProgram::default() },
            provided: Ok(Vec::new()),
            ended,
            stdout: String::new(),
            stderr: stderr.to_owned(),
            wall_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory_bytes: 0,
            isolation: String::new(),
        }
    }

    #[test]
    fn what_a_run_came_to() {
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
            assert!(!run.told(python).is_empty() && !run.shown(python).is_empty());
        }
        assert!(run(Ended::Exited { code: 1 }, missing).told(python).contains("yaml"));
        let unavailable = Run::unavailable(TestProgram::default(), "there is none".to_owned());
        assert_eq!(unavailable.result(python), RunResult::PackagesUnavailable);
        assert!(unavailable.told(python).contains("there is none"));
    }

    #[test]
    fn long_output_keeps_both_ends() {
        let text = format!("{}ä{}", "a".repeat(50), "b".repeat(50));
        let short = both_ends(&text, 20);
        assert!(short.starts_with("aaaaaaaaaa\n…") && short.ends_with("…\nbbbbbbbbbb"), "{short}");
        assert_eq!(both_ends("ä", 2), "ä");
    }

    #[test]
    fn a_mark_says_how_much_is_left_out_however_often_a_text_is_cut() {
        let python = Language::named("python").unwrap();
        for (kept, total) in [(100, 100), (20_000, 20_000), (65_536, 1_000_000)] {
            let stdout = Captured { bytes: vec![b'a'; kept], total_bytes: total };
            let (none, time) = (Captured::default(), Duration::ZERO);
            let outcome = Outcome {
                ended: Ended::Exited { code: 0 },
                stdout,
                stderr: none,
                wall_time: time,
                cpu_time: time,
                peak_memory_bytes: 0,
                memory_bound: quarry_sandbox::MemoryBound::Watchdog,
            };
            let run = Run::new(TestProgram::default(), Vec::new(), &outcome, "");
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
