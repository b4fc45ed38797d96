//! Running a program with the packages that it lacks: CoSQA+'s bug fixer, in its two stages.

use std::collections::{BTreeMap, BTreeSet};

use super::{Halt, Judge, Known};
use crate::evidence::{Run, TestProgram};
use crate::language::Language;
use crate::prompt::Prompt;

/// How often a program is run again with other packages.
const MAX_REPAIRS: usize = 6;

/// How what a program lacks is found.
pub(super) struct Repair<'j> {
    pub(super) judge: &'j Judge,
    /// What is asked for the names of packages.
    pub(super) fixer: &'j Prompt,
    pub(super) language: &'static Language,
}

impl Repair<'_> {
    /// Runs a program, and says what that came to. What it lacks is installed, as long as that brings something new:
    /// first the packages of the names that it misses, then those that the bug fixer names.
    pub(super) fn run<'e>(
        &self,
        program: TestProgram,
        values: &BTreeMap<&'static str, String>,
        known: &mut Known<'e>,
    ) -> Result<(&'e Run, String), Halt> {
        let extra = program.extra;
        let wanted = |text: &str| self.language.packages(text);
        let mut run = known.run(program)?;
        // Why packages could not be had, the last time.
        let mut reason = None;
        let mut tried = BTreeSet::new();
        while let Some(missing) = run.missing_package(self.language) {
            if !self.language.has_packages() || tried.len() >= MAX_REPAIRS {
                break;
            }
            let with = |more: &[String]| {
                let mut packages = run.program.packages.clone();
                packages.extend(more.iter().filter(|name| !run.program.packages.contains(name)).cloned());
                packages
            };
            let mut packages = with(&[missing]);
            if !self.judge.installs || !tried.insert(packages.clone()) {
                let mut values = values.clone();
                let output = [run.shown(self.language)].into_iter().chain(reason.clone());
                values.insert("program", run.program.source.clone());
                values.insert("output", output.collect::<Vec<_>>().join("\n"));
                let named = match self.judge.ask(self.fixer, 0, extra, &values, known, wanted)? {
                    Ok(named) => named,
                    Err(_) => break,
                };
                if !self.judge.installs {
                    // The answer is evidence of what would be needed.
                    let told = run.told(self.language);
                    return Ok((run, format!("{told} (to be installed: {})", named.join(", "))));
                }
                packages = with(&named);
                if !tried.insert(packages.clone()) {
                    break;
                }
            }
            let again = known.run(TestProgram { packages, ..run.program.clone() })?;
            match &again.provided {
                Err(problem) => reason = Some(problem.clone()),
                // A package without the module that is missing was a wrong guess.
                Ok(_) if again.missing_package(self.language) == run.missing_package(self.language) => {}
                Ok(_) => (run, reason) = (again, None),
            }
        }
        let told = run.told(self.language);
        let told = match reason {
            Some(reason) if run.missing_package(self.language).is_some() => format!("{told}; {reason}"),
            _ => told,
        };
        Ok((run, told))
    }
}
