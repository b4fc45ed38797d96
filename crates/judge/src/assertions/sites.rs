//! The assertions of a test program: the conditions and calls that check something.

use std::ops::Range;

use quarry_source::{Check, CheckKind, Function, checks, functions, language_called};

use super::style::ReportStyle;
use crate::language::Language;

/// Words in a branch, in lower case, that show that it reports a failed assertion without ending anything.
const FAILURES: [&str; 8] = ["fail", "errorf(", "mismatch", "incorrect", "wrong", "not ok", "✗", "❌"];

/// Words that show that a branch ends the function or the program because of a failed assertion.
const INTERRUPTIONS: [&str; 14] = [
    "raise",
    "throw",
    "panic(",
    "abort",
    "die(",
    "die ",
    "stop(",
    "fatal",
    "os.exit(1",
    "sys.exit(1",
    "process.exit(1",
    "system.exit(1",
    " exit(1",
    "quit(status = 1",
];

/// Prefixes of names of functions that contain tests, in lower case and without `_`.
const TESTS: [&str; 4] = ["main", "runall", "runtest", "test"];

/// Prefixes of names of functions that check one thing.
const ASSERTIONS: [&str; 3] = ["assert", "expect", "should"];

/// Names of functions that check one thing, and the words that may follow in longer names.
const CHECKS: [&str; 4] = ["check", "ensure", "must", "verify"];
const CHECKED: [&str; 20] = [
    "",
    "all",
    "approx",
    "case",
    "close",
    "condition",
    "eq",
    "equal",
    "equals",
    "error",
    "false",
    "is",
    "near",
    "output",
    "raises",
    "result",
    "same",
    "that",
    "throws",
    "true",
];

/// An expression to wrap, and the kind of reporter call.
pub(super) struct Site {
    pub(super) bytes: Range<usize>,
    pub(super) line: u32,
    pub(super) kind: SiteKind,
    /// True if it is in a helper function that others call to assert something.
    pub(super) is_called: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum SiteKind {
    /// A condition that must be true.
    Holds,
    /// A condition that must be false.
    Denied,
    /// A call that returns only if the assertion holds.
    Returns,
    /// A call that returns a context manager, which exits without an error only if the assertion holds.
    Entered,
    /// An argument that a call checks for truth: for a value that is never false, the call asserts nothing.
    Truth,
}

/// The assertions of a program in order, except those of the code under test.
pub(super) fn sites(language: &str, source: &str, code: &str, reporting: &ReportStyle) -> Vec<Site> {
    let Some(known) = language_called(language) else { return Vec::new() };
    let squeezed = |text: &str, function: &Function| -> String {
        text[function.body.clone()].split_whitespace().collect()
    };
    // The code lacks the text that files of the language begin with.
    let code = if code.contains(reporting.opening.trim()) {
        code.to_owned()
    } else {
        format!("{}{code}", reporting.opening)
    };
    let subjects: Vec<(String, String)> = functions(known, code.as_bytes())
        .into_iter()
        .map(|function| (function.name.clone(), squeezed(&code, &function)))
        .collect();
    let defined = functions(known, source.as_bytes());
    // Tests may have a `main` even if the code has one too.
    let is_subject = |function: &Function| {
        let same_name = subjects.iter().filter(|(name, _)| *name == function.name);
        let is_other = |body: &String| is_checker(&function.name) && *body != squeezed(source, function);
        same_name.into_iter().any(|(_, body)| !is_other(body))
    };
    let around = |bytes: &Range<usize>| {
        let bytes = bytes.clone();
        defined.iter().filter(move |function| is_inside(&bytes, &function.bytes))
    };
    let found: Vec<Check> = checks(known, source.as_bytes())
        .into_iter()
        .filter(|check| !around(&check.bytes).any(is_subject))
        .collect();
    let site = |bytes: &Range<usize>, line: u32, kind: SiteKind| {
        let is_called = around(bytes).any(|function| is_assertion(&function.name));
        Site { bytes: bytes.clone(), line, kind, is_called }
    };
    // Assertions of the language or of libraries.
    let mut sites = Vec::new();
    let mut own: Vec<(&Function, Site)> = Vec::new();
    for Check { kind, bytes, line, constants } in &found {
        // A condition that always holds asserts nothing. A condition that never holds is how programs signal
        // failure.
        let holds_anyway = |part: &Range<usize>| constants.contains(&(part.clone(), true));
        match kind {
            CheckKind::Assertion => {
                sites.extend((!holds_anyway(bytes)).then(|| site(bytes, *line, SiteKind::Holds)));
            }
            CheckKind::Call { name, arguments, is_entered } => {
                let is_one = |names: &[String]| names.iter().any(|pattern| matches(pattern, name));
                let kind = if *is_entered { SiteKind::Entered } else { SiteKind::Returns };
                let is_plain = |argument: &&Range<usize>| !source[(*argument).clone()].starts_with("...");
                let n_conditions = if is_one(&reporting.conditions) { 1 } else { usize::MAX };
                // For `expect(x).toBe`, look up `expect` in the libraries and the program.
                let root = name.split_once('(').map_or(name.as_str(), |(root, _)| root);
                if let Some(function) = defined.iter().find(|function| function.name == root) {
                    if reporting.reports_calls()
                        && root == name
                        && is_assertion(name)
                        && interrupts(&source[function.body.clone()], &defined)
                    {
                        own.push((function, site(bytes, *line, SiteKind::Returns)));
                    }
                } else if is_one(&reporting.calls) {
                    let checked = arguments.first().filter(|_| is_one(&reporting.truths));
                    if !checked.is_some_and(holds_anyway) {
                        sites.push(site(bytes, *line, kind));
                        let is_wrapped = |part: &&Range<usize>| {
                            reporting.any_value && is_positional(&source[(*part).clone()])
                        };
                        let checked = checked.filter(is_wrapped);
                        sites.extend(checked.map(|part| site(part, *line, SiteKind::Truth)));
                    }
                } else if is_one(&reporting.conditions) || is_one(&reporting.all_conditions) {
                    let conditions = arguments.iter().take(n_conditions).filter(is_plain);
                    let conditions = conditions.filter(|condition| !holds_anyway(condition));
                    let line = |at: usize| line + source[bytes.start..at].matches('\n').count() as u32;
                    sites.extend(
                        conditions.map(|condition| site(condition, line(condition.start), SiteKind::Holds)),
                    );
                }
            }
            CheckKind::Branch { .. } => {}
        }
    }
    // Assertions of the program itself: the innermost branches, within functions that check something, with one arm
    // that reports a failure.
    for Check { kind, bytes, line, constants } in found.iter().rev() {
        let CheckKind::Branch { then, otherwise, whole } = kind else { continue };
        let condition = &source[bytes.clone()];
        // A method such as `toBe` belongs to the function `expect` that defines it.
        let checks_something = |function: &Function| {
            is_checker(&function.name) || around(whole).any(|outer| is_assertion(&outer.name))
        };
        if around(whole).next_back().is_some_and(|function| !checks_something(function))
            || sites.iter().any(|site| is_inside(&site.bytes, whole) && !is_inside(&site.bytes, bytes))
            || reporting.not.iter().any(|not| condition.contains(not.as_str()))
        {
            continue;
        }
        let fails =
            |part: &Option<Range<usize>>| part.clone().is_some_and(|part| reports_failure(&source[part]));
        // `passes` is the value of the condition for which nothing fails.
        let (kind, passes) = match (fails(then), fails(otherwise)) {
            (true, false) => (SiteKind::Denied, false),
            (false, true) => (SiteKind::Holds, true),
            _ => continue,
        };
        if !constants.contains(&(bytes.clone(), passes)) {
            // The value of `x` in `if not x` is more informative than its negation.
            let negated = (kind == SiteKind::Denied && reporting.any_value).then(|| negated(source, bytes));
            match negated.flatten() {
                Some(name) => sites.push(site(&name, *line, SiteKind::Holds)),
                None => sites.push(site(bytes, *line, kind)),
            }
        }
    }
    // The program's own assertions that only check their first argument, and are only called with arguments that
    // always hold.
    let hollow = |function: &&Function| {
        let mut calls = found.iter().filter_map(|check| match &check.kind {
            CheckKind::Call { name, arguments, .. } if *name == function.name => {
                Some(arguments.first().is_some_and(|first| check.constants.contains(&(first.clone(), true))))
            }
            _ => None,
        });
        let mut own_sites = sites.iter().filter(|site| is_inside(&site.bytes, &function.body));
        is_assertion(&function.name)
            && calls.next() == Some(true)
            && calls.all(|holds| holds)
            && own_sites.all(|site| is_first_parameter(site, function, source))
    };
    let hollow: Vec<&Function> = defined.iter().filter(hollow).collect();
    for function in hollow {
        sites.retain(|site| !is_inside(&site.bytes, &function.body));
        own.retain(|(called, _)| called.name != function.name);
    }
    // The program's own assertions are observed at the checks inside of them if possible, otherwise by whether they
    // return.
    let unseen: Vec<Site> = (own.into_iter())
        .filter(|(function, _)| !sites.iter().any(|site| is_inside(&site.bytes, &function.body)))
        .map(|(_, site)| site)
        .collect();
    sites.extend(unseen);
    // An argument that is itself an assertion is reported as one.
    let is_truth = |site: &Site| site.kind == SiteKind::Truth;
    sites.sort_by_key(|site| (site.bytes.start, std::cmp::Reverse(site.bytes.end), is_truth(site)));
    sites.dedup_by(|a, b| a.bytes == b.bytes);
    sites
}

/// Returns whether a program may evaluate an assertion, as far as static analysis can tell.
pub(crate) fn may_assert(language: &str, source: &str) -> bool {
    let Some(reporting) = Language::named(language).map(Language::reporting) else { return true };
    reporting.elsewhere.iter().any(|word| source.contains(word.as_str()))
        || !sites(language, source, "", reporting).is_empty()
}

fn is_inside(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Returns whether an assertion in a function checks only the function's first parameter, or its negation.
fn is_first_parameter(site: &Site, function: &Function, source: &str) -> bool {
    let text = &source[site.bytes.clone()];
    let is_call = matches!(site.kind, SiteKind::Returns | SiteKind::Entered);
    let condition = text.split_once('(').filter(|_| is_call).map_or(text, |(_, arguments)| arguments);
    let words = |text: &str| -> Vec<String> {
        let separator = |c: char| !(c.is_alphanumeric() || c == '_');
        text.split(separator).filter(|word| !word.is_empty() && *word != "not").map(str::to_owned).collect()
    };
    let header = source.get(function.bytes.start..function.body.start).unwrap_or_default();
    let parameters = header.split_once(function.name.as_str()).map_or(header, |(_, parameters)| parameters);
    let first = parameters.split(',').next().unwrap_or_default();
    matches!(words(condition).as_slice(), [name] if words(first).contains(name))
}

fn is_checker(name: &str) -> bool {
    let plain = plain(name);
    is_assertion(name) || TESTS.iter().any(|beginning| plain.starts_with(beginning))
}

/// Returns whether a function with this name checks one thing.
fn is_assertion(name: &str) -> bool {
    let plain = plain(name);
    let is_check = |word: &&str| plain.strip_prefix(word).is_some_and(|rest| CHECKED.contains(&rest));
    ASSERTIONS.iter().any(|beginning| plain.starts_with(beginning)) || CHECKS.iter().any(is_check)
}

/// A name in lower case, without separators between its words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn reports_failure(text: &str) -> bool {
    let text = text.to_lowercase();
    FAILURES.iter().chain(&INTERRUPTIONS).any(|failure| text.contains(failure))
}

/// Returns whether the body of a function ends the function or the program when an assertion fails, rather than
/// only print the failure. A function `fail` that the program does not define comes from a library and does.
fn interrupts(body: &str, defined: &[Function]) -> bool {
    let text = body.to_lowercase();
    let is_defined = defined.iter().any(|function| function.name == "fail");
    INTERRUPTIONS.iter().any(|word| text.contains(word)) || !is_defined && text.contains("fail(")
}

/// Returns whether an argument is a positional expression: neither a keyword argument nor a spread list.
fn is_positional(argument: &str) -> bool {
    let behind = argument.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
    let is_named = behind.strip_prefix('=').is_some_and(|rest| !rest.starts_with(['=', '~', '>']));
    let is_pair = behind.len() < argument.len() && behind.starts_with(':') && !behind.starts_with("::");
    !(is_named || is_pair || argument.starts_with(['*', '&']) || argument.starts_with("..."))
}

/// The negated name, if the condition consists of the negation of a name.
fn negated(source: &str, condition: &Range<usize>) -> Option<Range<usize>> {
    let text = &source[condition.clone()];
    let name = text.strip_prefix("not ").or_else(|| text.strip_prefix('!'))?.trim_start();
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '@'));
    is_name.then(|| condition.end - name.len()..condition.end)
}

/// Returns whether a name matches a pattern, in which `*` stands for any text without a bracket, or with brackets
/// if the pattern contains one too.
fn matches(pattern: &str, name: &str) -> bool {
    if name.contains('(') && !pattern.contains('(') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_recognized_by_name() {
        for name in [
            "main",
            "test_sum",
            "TestSum",
            "run_tests",
            "assertEqual",
            "check",
            "check_equal",
            "$check",
            "verify",
        ] {
            assert!(is_checker(name), "{name}");
        }
        for name in ["check_input", "validate", "sum", "verifyPassword", "ensure_path"] {
            assert!(!is_checker(name), "{name}");
        }
        assert!(!is_assertion("main") && is_assertion("expect_that"));
    }

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expected) in [
            ("assert", "assert", true),
            ("assert", "assert.ok", false),
            ("assert.*", "assert.ok", true),
            ("*.assert*", "self.assertTrue", true),
            ("*.assert*", "assertTrue", false),
            ("*.must_*", "x.y.must_equal", true),
            ("assert.*", "assert.rejects(p).catch", false),
            ("expect(*", "expect(x).to.equal", true),
            ("a*b*c", "a-c", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
