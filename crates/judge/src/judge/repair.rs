//! Running a program with the packages that it lacks: CoSQA+'s bug fixer, in its two stages.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use super::{EventReader, Interrupt, Judge};
use crate::evidence::{Run, TestProgram};
use crate::language::Language;
use crate::prompt::Prompt;

/// Maximum number of further runs of a program with other packages.
const MAX_REPAIRS: usize = 6;

/// A program's best run so far, and the packages that were tried.
pub(crate) struct RepairState<R> {
    pub(crate) run: R,
    language: &'static Language,
    tried: BTreeSet<Vec<String>>,
    /// Why packages were unavailable in the last run.
    reason: Option<String>,
}

impl<R: Borrow<Run>> RepairState<R> {
    pub(crate) fn new(language: &'static Language, run: R) -> Self {
        Self { run, language, tried: BTreeSet::new(), reason: None }
    }

    /// The name of the missing package, unless there is nothing more to try.
    pub(crate) fn missing(&self) -> Option<String> {
        let missing = self.run.borrow().missing_package(self.language)?;
        (self.language.has_packages() && self.tried.len() < MAX_REPAIRS).then_some(missing)
    }

    /// The program with these packages added; `None` if they were already tried.
    pub(crate) fn with(&mut self, names: &[String]) -> Option<TestProgram> {
        let program = &self.run.borrow().program;
        let mut packages = program.packages.clone();
        packages.extend(names.iter().filter(|name| !program.packages.contains(name)).cloned());
        // pip treats `ruamel.yaml`, `ruamel_yaml` and `Ruamel-yaml` as one package.
        let plain = packages.iter().map(|name| name.to_lowercase().replace(['_', '.'], "-")).collect();
        self.tried.insert(plain).then(|| TestProgram { packages, ..program.clone() })
    }

    /// Records another run with packages. If the same name is still missing, the package was a wrong guess.
    pub(crate) fn take(&mut self, again: R) {
        let missing = |run: &R| run.borrow().missing_package(self.language);
        match &again.borrow().provided {
            Err(problem) => self.reason = Some(problem.clone()),
            Ok(_) if missing(&again) == missing(&self.run) => {}
            Ok(_) => (self.run, self.reason) = (again, None),
        }
    }
}

/// Search for missing packages.
pub(super) struct Repair<'j> {
    pub(super) judge: &'j Judge,
    /// The prompt that asks for names of packages.
    pub(super) fixer: &'j Prompt,
    pub(super) language: &'static Language,
}

impl Repair<'_> {
    /// Runs a program and returns its result. Missing packages are installed as long as that makes progress: first
    /// the packages named like the missing modules, then those that the bug fixer names.
    pub(super) fn run<'e>(
        &self,
        program: TestProgram,
        values: &BTreeMap<&'static str, String>,
        known: &mut EventReader<'e>,
    ) -> Result<(&'e Run, String), Interrupt> {
        let optional_step = program.optional_step;
        let wanted = |text: &str| self.language.packages(text);
        let mut repaired = RepairState::new(self.language, known.run(program)?);
        while let Some(missing) = repaired.missing() {
            let by_name = if self.judge.installs { repaired.with(&[missing]) } else { None };
            let program = match by_name {
                Some(program) => program,
                None => {
                    let run = repaired.run;
                    let mut values = values.clone();
                    let output = [run.shown(self.language)].into_iter().chain(repaired.reason.clone());
                    values.insert("program", run.program.source.clone());
                    values.insert("output", output.collect::<Vec<_>>().join("\n"));
                    let Ok(named) = self.judge.ask(self.fixer, 0, optional_step, &values, known, wanted)?
                    else {
                        break;
                    };
                    if !self.judge.installs {
                        // The answer is evidence of what would be needed.
                        let description = run.description(self.language);
                        return Ok((run, format!("{description} (to be installed: {})", named.join(", "))));
                    }
                    match repaired.with(&named) {
                        Some(program) => program,
                        None => break,
                    }
                }
            };
            repaired.take(known.run(program)?);
        }
        let RepairState { run, reason, .. } = repaired;
        let description = run.description(self.language);
        let description = match reason {
            Some(reason) if run.missing_package(self.language).is_some() => {
                format!("{description}; {reason}")
            }
            _ => description,
        };
        Ok((run, description))
    }
}
