//! Running a test in another process than the code that it tests.
//!
//! Code in the process of its test can report assertions in its place. So a Python program that passed runs once more, with
//! the functions under test in a process of their own, which has neither the pipe for reports nor the number that begins
//! them. Only plain data goes between the two, so this is possible for tests of functions that take and return such data,
//! and that see nothing of these functions but what they return.

use std::ops::Range;

use quarry_sandbox::Program;
use quarry_source::{functions, language_called};

use super::InstrumentedProgram;

/// The exit status of a run in which the functions under test turned out not to be separable.
pub(crate) const NOT_SEPARABLE: i32 = 97;

const REPORTER: &str = include_str!("reporters/python_apart.py");
const CANDIDATE: &str = include_str!("reporters/python_candidate.py");

/// Words in a test that depends on more than what the functions return.
const INSEPARABLE: [&str; 26] = [
    "__closure__",
    "__code__",
    "__dict__",
    "__doc__",
    "__module__",
    "__wrapped__",
    "capsys",
    "environ",
    "getcontext",
    "global ",
    "globals(",
    "inspect",
    "io.",
    "locals(",
    "logging",
    "mock",
    "monkeypatch",
    "patch",
    "random",
    "redirect",
    "sys.",
    "threading",
    "time",
    "trace",
    "warnings",
    "weakref",
];

/// The program for a separate run: the instrumented `program`, with stubs in place of the functions of `code`. `None` if they
/// cannot be separated.
pub(super) fn separated(program: &InstrumentedProgram, source: &str, code: &str) -> Option<Program> {
    let known = language_called("python")?;
    if !is_separable(code) {
        return None;
    }
    let at_top = |source: &str| -> Vec<(Range<usize>, String)> {
        let is_at_top = |start: usize| source[..start].ends_with('\n') || start == 0;
        let found = functions(known, source.as_bytes()).into_iter();
        found.filter(|found| is_at_top(found.bytes.start)).map(|found| (found.bytes, found.name)).collect()
    };
    let subjects = at_top(code);
    let rewritten = String::from_utf8(program.program.files.first()?.1.clone()).ok()?;
    let mut stubs = at_top(&rewritten);
    stubs.retain(|(_, name)| subjects.iter().any(|(_, subject)| subject == name));
    if stubs.is_empty() || stubs.len() < subjects.len() {
        return None;
    }
    let (mut text, mut tests, mut copied) = (String::new(), String::new(), 0);
    for (bytes, name) in stubs {
        let between = rewritten.get(copied..bytes.start)?;
        // The lines after it keep their numbers.
        let lines = "\n".repeat(rewritten[bytes.clone()].matches('\n').count());
        text += &format!("{between}def {name}(*a, **k): return {}_p({name:?}, a, k){lines}", program.name);
        tests += between;
        copied = bytes.end;
    }
    text += &rewritten[copied..];
    tests += &rewritten[copied..];
    let tests = tests.replace("__name__ ==", "");
    if INSEPARABLE.iter().any(|word| tests.contains(word)) || compares_identity(&tests) {
        return None;
    }
    let mut separated = program.program.clone();
    separated.files.first_mut()?.1 = text.into_bytes();
    let reporter = separated.files.iter_mut().find(|(name, _)| name.ends_with("sitecustomize.py"))?;
    reporter.1.extend(REPORTER.replace(super::instrument::NAME, &program.name).into_bytes());
    separated.files.push((".quarry/candidate.py".to_owned(), CANDIDATE.as_bytes().to_vec()));
    separated.files.push((".quarry/program.py".to_owned(), source.as_bytes().to_vec()));
    Some(separated)
}

/// True for code that consists of imports and of functions that keep no state.
fn is_separable(code: &str) -> bool {
    let is_one = |line: &str| {
        ["def ", "import ", "from ", "#", ")", "\"\"\"", " ", "\t"]
            .iter()
            .any(|beginning| line.starts_with(beginning))
    };
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    code.lines().all(|line| line.is_empty() || is_one(line)) && !words.any(|word| word == "global")
}

/// True for a test that asks for the identity of values, except of constants.
fn compares_identity(tests: &str) -> bool {
    tests.split(" is ").skip(1).any(|operand| {
        let operand = operand.trim_start_matches("not ");
        !["None", "True", "False"].iter().any(|constant| operand.starts_with(constant))
    })
}
