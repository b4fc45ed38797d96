//! Sandboxes that run nothing.

use std::time::Duration;

use quarry_judge::{JudgeError, Programs, Run, TestProgram};
use quarry_sandbox::{Ended, Limits};

/// Every program succeeds, except those whose text says that they fail.
pub(crate) struct FakePrograms;

impl Programs for FakePrograms {
    fn run(&self, program: TestProgram, _: &str, _: &Limits) -> Result<Run, JudgeError> {
        // All requested packages are available except `nowhere`.
        let missing =
            program.source.split("import ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        let missing = missing.map(str::to_owned).find(|name| !program.packages.contains(name));
        if program.packages.iter().any(|name| name == "nowhere") {
            return Ok(Run::unavailable(program, "there is none".to_owned()));
        }
        let fails = missing.is_some() || program.source.contains("fails");
        let stderr = match missing {
            Some(name) => {
                format!("Traceback (most recent call last):\nModuleNotFoundError: No module named '{name}'")
            }
            None => "AssertionError".to_owned(),
        };
        Ok(Run {
            ended: Ended::Exited { code: i32::from(fails) },
            stdout: String::new(),
            stderr: if fails { stderr } else { String::new() },
            assertions: None,
            wall_time: Duration::from_millis(1),
            cpu_time: Duration::from_millis(1),
            peak_memory_bytes: 1,
            isolation: "pretended".to_owned(),
            provided: Ok(program.packages.clone()),
            program,
        })
    }
}

/// The same, but the program's files are lost.
pub(crate) struct Emptied;

impl Programs for Emptied {
    fn run(&self, program: TestProgram, code: &str, limits: &Limits) -> Result<Run, JudgeError> {
        FakePrograms.run(TestProgram { source: String::new(), ..program }, code, limits)
    }
}
