//! Results of test programs in each language, if the language is available on this machine.

use std::collections::BTreeMap;

use crate::fixture::skip;
use quarry_judge::{IsolatedPrograms, Language, Programs, RunResult, TestProgram};
use quarry_sandbox::{Isolation, Limits, Runner};
use serde::Deserialize;

#[derive(Deserialize)]
struct ConfidenceCase {
    tests: usize,
    passed: String,
    failed: String,
    broken: String,
    missing: Option<String>,
}

fn cases() -> BTreeMap<String, ConfidenceCase> {
    toml::from_str(include_str!("languages.toml")).unwrap()
}

#[test]
fn programs_pass_fail_or_are_broken_in_each_language() {
    assert!(cases().keys().map(String::as_str).eq(Language::names()));
    let sandbox = match quarry_sandbox::open(Isolation::Bubblewrap) {
        Ok(sandbox) => sandbox,
        Err(error) => return skip(&error.to_string()),
    };
    let programs = IsolatedPrograms::new(sandbox, "bubblewrap", 1);
    for (name, case) in cases() {
        if let Some(problem) = Runner::named(&name).unwrap().problem() {
            skip(&format!("{name}: {problem}"));
            continue;
        }
        let language = Language::named(&name).unwrap();
        let run = |source: &str| {
            let source = source.trim_start().to_owned();
            let program = TestProgram { language: name.clone(), source, ..TestProgram::default() };
            programs.run(program, "", &Limits::default()).unwrap()
        };
        let check = |source: &str, expected: RunResult| {
            let run = run(source);
            let said = format!("{:?} {} {}", run.ended, run.stdout, run.stderr);
            assert_eq!(run.result(language), expected, "{name}: {said}");
        };
        check(&case.passed, RunResult::Passed);
        check(&case.failed, RunResult::Failed);
        check(&case.broken, RunResult::Error);
        assert_eq!(language.count_tests(&case.failed), case.tests, "{name}");
        if let Some(source) = &case.missing {
            check(source, RunResult::MissingPackage);
        }
    }
}
