//! Testing a pair: programs, their runs, and checks of how much the programs prove.

use std::collections::BTreeMap;

use super::options::TestsFrom;
use super::repair::Repair;
use super::{EventReader, Interrupt, Judge, TestPrompts};
use crate::answer;
use crate::evidence::{OptionalStep, Run, RunResult, TestProgram};
use crate::language::Language;
use crate::mutant::{self, Mutant};
use crate::pair::Pair;

/// A test program with its results, phrased for the arbiter.
pub(super) struct Trial {
    program: String,
    result: String,
    output: String,
}

struct WrittenProgram {
    /// The test generator's text.
    tests: String,
    /// The complete program: these tests, with the code that connects them with the code if they were written unseen.
    source: String,
    /// Interface of the function, and the text before the tests, if these were written unseen.
    unseen: Option<(String, String)>,
}

struct MutationResult {
    killed: usize,
    mutants: usize,
    survivors: Vec<Mutant>,
}

impl MutationResult {
    fn is_inconclusive(&self) -> bool {
        self.survivors.iter().any(|mutant| mutant.is_gutted)
    }

    fn survivor_descriptions(&self) -> String {
        let descriptions: Vec<&str> = self.survivors.iter().map(|mutant| mutant.about.as_str()).collect();
        descriptions.join("; ")
    }

    fn description(&self) -> String {
        let Self { killed, mutants, .. } = self;
        let mut description =
            format!("; of {mutants} versions with a fault put in, the program fails for {killed}");
        if self.is_inconclusive() {
            description += &format!(
                ", and it also passes when of the function {}: it proves nothing",
                self.survivor_descriptions()
            );
        } else if !self.survivors.is_empty() {
            description += &format!(", and it also passes when {}", self.survivor_descriptions());
        }
        description
    }
}

pub(super) struct TestRunner<'j, 'p> {
    pub(super) judge: &'j Judge,
    pub(super) tests: &'j TestPrompts,
    pub(super) pair: &'p Pair,
    pub(super) language: &'static Language,
}

impl TestRunner<'_, '_> {
    /// Adds the results of all programs to `values`, as `program`, `result` and `output`.
    pub(super) fn run(
        &self,
        values: &mut BTreeMap<&'static str, String>,
        known: &mut EventReader<'_>,
    ) -> Result<(), Interrupt> {
        let n_programs = self.judge.options.tests.programs;
        let mut trials = Vec::new();
        for number in 0..n_programs {
            trials.push(self.trial(number, values, known)?);
        }
        let join = |part: fn(&Trial) -> &String| match trials.as_slice() {
            [one] => part(one).clone(),
            several => {
                let numbered =
                    |(number, trial)| format!("Program {}:\n{}", number + 1, part(trial).trim_end());
                several.iter().enumerate().map(numbered).collect::<Vec<_>>().join("\n\n")
            }
        };
        let joined = [join(|trial| &trial.program), join(|trial| &trial.result), join(|trial| &trial.output)];
        for (name, text) in ["program", "result", "output"].into_iter().zip(joined) {
            values.insert(name, text);
        }
        Ok(())
    }

    fn trial(
        &self,
        number: u32,
        values: &BTreeMap<&'static str, String>,
        known: &mut EventReader<'_>,
    ) -> Result<Trial, Interrupt> {
        let optional_step = (number > 0).then_some(OptionalStep::Programs);
        let written = match self.write(number, optional_step, values, known)? {
            Ok(written) => written,
            Err(problem) => {
                return Ok(Trial {
                    program: "(none)".to_owned(),
                    result: format!("there is no program: {problem}"),
                    output: "(nothing)".to_owned(),
                });
            }
        };
        let (mut run, mut result) = self.execute(&written.source, optional_step, values, known)?;
        let options = &self.judge.options.tests;
        if options.mutation && run.result(self.language) == RunResult::Passed {
            let mut mutation = self.mutate(run, known)?;
            if let Some(found) = mutation.take_if(|found| found.is_inconclusive()) {
                let improved = self.improve(&written, &found, values, known)?;
                mutation = Some(found);
                if let Some(source) = improved {
                    (run, result) = self.execute(&source, Some(OptionalStep::Rewritten), values, known)?;
                    mutation = match run.result(self.language) {
                        RunResult::Passed => self.mutate(run, known)?,
                        _ => None,
                    };
                }
            }
            result.extend(mutation.map(|mutation| mutation.description()));
        }
        if options.differential {
            result.push_str(self.compare(run, known)?);
        }
        Ok(Trial { program: run.program.source.clone(), result, output: run.shown(self.language) })
    }

    fn write(
        &self,
        number: u32,
        optional_step: Option<OptionalStep>,
        values: &BTreeMap<&'static str, String>,
        known: &mut EventReader<'_>,
    ) -> Result<Result<WrittenProgram, String>, Interrupt> {
        let read = |text: &str| answer::program(text, self.language);
        let TestPrompts { generator, query_generator, adapter, .. } = self.tests;
        let interface = match self.judge.options.tests.from {
            TestsFrom::Query => mutant::interface(&self.pair.code, &self.pair.language),
            TestsFrom::Code => None,
        };
        // Code without a function cannot be called by tests that do not see it.
        let Some(interface) = interface else {
            let written = self.judge.ask(generator, number, optional_step, values, known, read)?;
            return Ok(written.map(|source| WrittenProgram { tests: source.clone(), source, unseen: None }));
        };
        let mut values = values.clone();
        values.insert("interface", interface.clone());
        let mut unseen = values.clone();
        unseen.remove("code");
        let tests = match self.judge.ask(query_generator, number, optional_step, &unseen, known, read)? {
            Ok(tests) => tests,
            Err(problem) => return Ok(Err(problem)),
        };
        // The connecting code does not depend on the tests, so it is requested once.
        let optional_step = optional_step.or(Some(OptionalStep::FromQuery));
        let prelude = self.judge.ask(adapter, 0, optional_step, &values, known, read)?;
        Ok(prelude.map(|prelude| WrittenProgram {
            source: joined(&prelude, &tests),
            tests,
            unseen: Some((interface, prelude)),
        }))
    }

    fn execute<'e>(
        &self,
        source: &str,
        optional_step: Option<OptionalStep>,
        values: &BTreeMap<&'static str, String>,
        known: &mut EventReader<'e>,
    ) -> Result<(&'e Run, String), Interrupt> {
        let program = TestProgram {
            language: self.pair.language.clone(),
            source: source.to_owned(),
            packages: Vec::new(),
            optional_step,
        };
        Repair { judge: self.judge, fixer: &self.tests.fixer, language: self.language }
            .run(program, values, known)
    }

    /// Runs a program that passed with mutants of its function; `None` if there are none.
    fn mutate(&self, run: &Run, known: &mut EventReader<'_>) -> Result<Option<MutationResult>, Interrupt> {
        let mutants = mutant::mutants(&run.program.source, &self.pair.code, &self.pair.language);
        let mut mutation = MutationResult { killed: 0, mutants: mutants.len(), survivors: Vec::new() };
        for mutant in mutants {
            let program = TestProgram {
                source: mutant.source.clone(),
                optional_step: Some(OptionalStep::Mutation),
                ..run.program.clone()
            };
            match known.run(program)?.result(self.language) {
                RunResult::Passed | RunResult::NoAssertions => mutation.survivors.push(mutant),
                _ => mutation.killed += 1,
            }
        }
        Ok((mutation.mutants > 0).then_some(mutation))
    }

    /// Asks for a better version of a program that proves nothing.
    fn improve(
        &self,
        written: &WrittenProgram,
        mutation: &MutationResult,
        values: &BTreeMap<&'static str, String>,
        known: &mut EventReader<'_>,
    ) -> Result<Option<String>, Interrupt> {
        let gutted = mutation.survivors.iter().filter(|mutant| mutant.is_gutted);
        let gutted: Vec<&str> = gutted.map(|mutant| mutant.about.as_str()).collect();
        let mut values = values.clone();
        values.insert("program", written.tests.clone());
        values.insert("result", gutted.join("; "));
        let improver = match &written.unseen {
            Some((interface, _)) => {
                values.remove("code");
                values.insert("interface", interface.clone());
                &self.tests.query_improver
            }
            None => &self.tests.improver,
        };
        let read = |text: &str| answer::program(text, self.language);
        let improved = self.judge.ask(improver, 0, Some(OptionalStep::Rewritten), &values, known, read)?;
        Ok(improved.ok().map(|tests| match &written.unseen {
            Some((_, prelude)) => joined(prelude, &tests),
            None => tests,
        }))
    }

    /// Runs the program of `run` with another candidate of the query instead of the code.
    fn compare(&self, run: &Run, known: &mut EventReader<'_>) -> Result<&'static str, Interrupt> {
        let Pair { code, language, alternative, .. } = self.pair;
        // For this comparison, continuing after a failed assertion is a failure like others.
        let result = |run: &Run| match run.result(self.language) {
            RunResult::Swallowed => RunResult::Failed,
            result => result,
        };
        let own = result(run);
        let swapped = alternative
            .as_ref()
            .filter(|_| own.is_executable())
            .and_then(|alternative| mutant::with_other(&run.program.source, code, alternative, language));
        let Some(source) = swapped else { return Ok("") };
        let program =
            TestProgram { source, optional_step: Some(OptionalStep::Differential), ..run.program.clone() };
        let Some(alternative) = known.run_if_any(program)? else { return Ok("") };
        Ok(match (own, result(alternative)) {
            (RunResult::Passed, RunResult::Passed) => {
                "; the same assertions also hold for another candidate for the query: either both do what it asks \
                 for, or the assertions are too weak"
            }
            (RunResult::Failed, RunResult::Failed) => {
                "; nor do the assertions all hold for another candidate for the query: either both lack something, or \
                 an assertion is wrong"
            }
            (RunResult::Passed, RunResult::Failed) => {
                "; for another candidate for the query an assertion does not hold"
            }
            (RunResult::Failed, RunResult::Passed) => {
                "; for another candidate for the query all assertions hold"
            }
            _ => "",
        })
    }
}

fn joined(prelude: &str, tests: &str) -> String {
    format!("{prelude}\n\n{tests}")
}
