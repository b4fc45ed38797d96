//! Detection of assertions in each language, if the language is available on this machine.

use std::collections::BTreeMap;

use crate::fixture::skip;
use quarry_judge::{IsolatedPrograms, Language, Programs, TestProgram};
use quarry_sandbox::{Isolation, Limits, Runner};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfidenceCase {
    about: String,
    source: String,
    #[serde(default)]
    code: String,
    result: String,
    ran: Option<u64>,
    #[serde(default)]
    failed: u64,
    sites: Option<u64>,
    /// Set if a process other than that of the code reports them.
    #[serde(default)]
    apart: bool,
    #[serde(default)]
    says: String,
    /// Expected part of the output.
    #[serde(default)]
    output: String,
    /// A library that the program needs.
    needs: Option<String>,
}

fn cases() -> BTreeMap<String, Vec<ConfidenceCase>> {
    toml::from_str(include_str!("assertions.toml")).unwrap()
}

fn check(name: &str) {
    let sandbox = match quarry_sandbox::open(Isolation::Bubblewrap) {
        Ok(sandbox) => sandbox,
        Err(error) => return skip(&error.to_string()),
    };
    if let Some(problem) = Runner::named(name).unwrap().problem() {
        return skip(&format!("{name}: {problem}"));
    }
    let programs = IsolatedPrograms::new(sandbox, "bubblewrap", 1);
    let language = Language::named(name).unwrap();
    let mut wrong = Vec::new();
    for case in &cases()[name] {
        let source = case.source.trim_start().to_owned();
        let program = TestProgram { language: name.to_owned(), source, ..TestProgram::default() };
        let run = programs.run(program, &case.code, &Limits::default()).unwrap();
        if let Some(library) = &case.needs
            && format!("{}{}", run.stdout, run.stderr)
                .contains(&format!("cannot load such file -- {library}"))
        {
            skip(&format!("{name}: {library} is not there"));
            continue;
        }
        let description = run.description(language);
        let known = run.assertions.map(|found| (found.ran, found.ran - found.held(), found.sites));
        let expected = case.ran.map(|ran| (ran, case.failed, case.sites.unwrap_or(ran)));
        let printed = format!("{}\n{}", run.stdout, run.stderr);
        if run.result(language).name() != case.result
            || expected.is_some() && known != expected
            || run.assertions.is_some_and(|found| found.is_apart) != case.apart
            || !description.contains(&case.says)
            || !printed.contains(&case.output)
            || printed.contains("quarry")
        {
            let result = run.result(language).name();
            wrong.push(format!(
                "{}: {result}, {known:?} instead of {expected:?}, {description:?}\n{printed}",
                case.about
            ));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n\n"));
}

#[test]
fn every_language_is_tested() {
    assert!(cases().keys().map(String::as_str).eq(Language::names()));
}

#[test]
fn go() {
    check("go");
}

#[test]
fn java() {
    check("java");
}

#[test]
fn javascript() {
    check("javascript");
}

#[test]
fn php() {
    check("php");
}

#[test]
fn python() {
    check("python");
}

#[test]
fn r() {
    check("r");
}

#[test]
fn ruby() {
    check("ruby");
}

#[test]
fn typescript() {
    check("typescript");
}
