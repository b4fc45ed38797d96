//! Rewriting test programs so that they report which assertions they evaluate.
//!
//! Nothing but calls is put around what is there, on the same line, so that lines keep their numbers; and each of these
//! calls has a name that is drawn anew for the run, so that they can be taken out again of what the program prints.
//! What is an assertion, and how programs of a language report, is data: `languages.toml`, and the files in `reporters`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use quarry_sandbox::{Ended, Outcome, Program};
use quarry_source::{Check, CheckKind, Function, checks, functions, language_called};
use serde::Deserialize;

use super::{Assertions, MAX_REPORTS};
use crate::language::Language;

/// How the programs of a language report their assertions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reporting {
    /// Calls that return only if they hold; `*` stands for anything.
    #[serde(default)]
    calls: Vec<String>,
    /// Calls that tell whether their first argument is true.
    #[serde(default)]
    conditions: Vec<String>,
    /// The same for each of their arguments.
    #[serde(default)]
    all_conditions: Vec<String>,
    /// Conditions of branches that are none of an assertion.
    #[serde(default)]
    not: Vec<String>,
    /// The file in `reporters`.
    reporter: String,
    /// What it is called in the work folder; where it is empty, the reporter stands at the end of the program.
    file: String,
    /// What the names of its functions begin with; `{q}` is the name that is drawn.
    prefix: String,
    /// Whether what is reported is put into brackets of its own, as it may be more than an argument can be.
    #[serde(default)]
    brackets: bool,
    /// What a file of the language begins with.
    #[serde(default)]
    opening: String,
    /// What is put at the beginning of the function `main`.
    #[serde(default)]
    begin: String,
    /// Arguments of the interpreter, before those that it has.
    #[serde(default)]
    options: Vec<String>,
    /// Arguments behind those that it has.
    #[serde(default)]
    arguments: Vec<String>,
    /// Environment variables; of those that are set already, another part.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Words of programs that may have assertions where these cannot be seen.
    #[serde(default)]
    elsewhere: Vec<String>,
    /// What the output holds where the program could not be read, beside the name that is drawn.
    #[serde(default)]
    unread: Vec<String>,
}

/// What stands for the name that is drawn, and for the number, in reporters.
const NAME: &str = "quarry_report";
const NUMBER: &str = "@NONCE@";
const LIMIT: &str = "@LIMIT@";

const REPORTERS: [(&str, &str); 7] = [
    ("go.go", include_str!("reporters/go.go")),
    ("java.java", include_str!("reporters/java.java")),
    ("node.cjs", include_str!("reporters/node.cjs")),
    ("php.php", include_str!("reporters/php.php")),
    ("python.py", include_str!("reporters/python.py")),
    ("r.R", include_str!("reporters/r.R")),
    ("ruby.rb", include_str!("reporters/ruby.rb")),
];

/// What the part of a program says that an assertion failed, or that ends it for that, in lower case.
const FAILURES: [&str; 22] = [
    "fail",
    "raise",
    "throw",
    "panic(",
    "abort",
    "die(",
    "die ",
    "stop(",
    "errorf(",
    "fatal",
    "mismatch",
    "incorrect",
    "wrong",
    "not ok",
    "os.exit(1",
    "sys.exit(1",
    "process.exit(1",
    "system.exit(1",
    " exit(1",
    "quit(status = 1",
    "✗",
    "❌",
];

/// What names of functions begin with that hold tests, in lower case and without `_`.
const TESTS: [&str; 4] = ["main", "runall", "runtest", "test"];

/// The same for those that check one thing.
const ASSERTIONS: [&str; 3] = ["assert", "expect", "should"];

/// Names of functions that check one thing; and what follows them in longer names.
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

/// A program that reports its assertions.
pub(crate) struct Instrumented {
    /// It.
    pub(crate) program: Program,
    reporting: &'static Reporting,
    /// The name that is drawn.
    name: String,
    /// What reports begin with.
    number: String,
    /// What was put into the program.
    inserted: Vec<String>,
    /// The lines of assertions that others call.
    called: BTreeSet<u32>,
}

impl Instrumented {
    /// `plain`, whose first file is `source` in the language of this name, and which tests `code`, whose own assertions
    /// do not count.
    pub(crate) fn new(plain: &Program, language: &str, source: &str, code: &str) -> Option<Self> {
        let reporting = Language::named(language)?.reporting();
        let [name, number] = [0, 1].map(|what| format!("{:016x}", RandomState::new().hash_one(what)));
        let name = format!("q{}", &name[..10]);
        let sites = sites(language, source, code, reporting);
        let called = sites.iter().filter(|site| site.is_called).map(|site| site.line).collect();
        let mut insertions = insertions(sites, reporting, &name);
        if !reporting.begin.is_empty() {
            let begin = |main| (main, Side::Open, reporting.begin.replace("{q}", &name));
            insertions.extend(main(language, source).map(begin));
        }
        let mut rewritten = with(source, &insertions);
        let reporter =
            REPORTERS.iter().find(|(file, _)| *file == reporting.reporter).map_or("", |found| found.1);
        let reporter = reporter
            .replace(NAME, &name)
            .replace(NUMBER, &number) // The first one says that the program has begun.
            .replace(LIMIT, &(MAX_REPORTS + 1).to_string());
        if reporting.file.is_empty() {
            rewritten.push_str(&reporter);
        }
        let mut program = plain.clone();
        program.reports = true;
        program.files.first_mut()?.1 = rewritten.into_bytes();
        if !reporting.file.is_empty() {
            program.files.push((reporting.file.clone(), reporter.into_bytes()));
        }
        let behind = program.command.len().min(1);
        program.command.splice(behind..behind, reporting.options.iter().cloned());
        program.command.extend(reporting.arguments.iter().cloned());
        for (variable, value) in &reporting.environment {
            match program.environment.iter_mut().find(|(known, _)| known == variable) {
                Some((_, known)) => *known = format!("{known}:{value}"),
                None => program.environment.push((variable.clone(), value.clone())),
            }
        }
        let mut inserted: Vec<String> = insertions.into_iter().map(|(_, _, text)| text).collect();
        inserted.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        inserted.dedup();
        Some(Self { program, reporting, name, number, inserted, called })
    }

    /// What was reported.
    pub(crate) fn assertions(&self, outcome: &Outcome) -> Option<Assertions> {
        let reported = Assertions::reported(&outcome.report.text(), &self.number, &self.called)?;
        Some(Assertions { is_cut: reported.is_cut || outcome.report.is_truncated(), ..reported })
    }

    /// Whether what was put into the program may be why it could not be read: then it is to run as it is.
    pub(crate) fn may_be_unreadable(&self, outcome: &Outcome) -> bool {
        if matches!(
            outcome.ended,
            Ended::Exited { code: 0 } | Ended::WallTime | Ended::CpuTime | Ended::Memory
        ) {
            return false;
        }
        let has_run = self.assertions(outcome).is_some_and(|assertions| assertions.ran > 0);
        let is_changed = !self.inserted.is_empty() || self.reporting.file.is_empty();
        let said =
            |mark: &str| [&outcome.stdout, &outcome.stderr].iter().any(|said| said.text().contains(mark));
        !has_run && is_changed && (said(&self.name) || self.reporting.unread.iter().any(|mark| said(mark)))
    }

    /// What the program printed, as it would have without what was put into it.
    pub(crate) fn restored(&self, output: &str) -> String {
        let mut restored = output.to_owned();
        if output.contains(&self.name) {
            for text in &self.inserted {
                restored = restored.replace(text, "");
            }
        }
        without_frames(&restored, &self.reporting.file)
    }
}

/// Without what a traceback of Python's says of the reporter: a line that names its file, and the line of it.
fn without_frames(output: &str, file: &str) -> String {
    if file.is_empty() || !output.contains(file) {
        return output.to_owned();
    }
    let mut kept = String::with_capacity(output.len());
    let mut lines = output.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.contains(file) {
            while lines.next_if(|line| line.starts_with("    ")).is_some() {}
        } else {
            kept.push_str(line);
        }
    }
    kept
}

/// Whether a program may evaluate an assertion, as far as can be said without running it.
pub(crate) fn may_assert(language: &str, source: &str) -> bool {
    let Some(reporting) = Language::named(language).map(Language::reporting) else { return true };
    reporting.elsewhere.iter().any(|word| source.contains(word.as_str()))
        || !sites(language, source, "", reporting).is_empty()
}

/// Whether a text comes before or behind what it is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Close,
    Open,
}

/// What is put where: byte, side, text; in the order of what it is put to, what is around other things first.
type Insertions = Vec<(usize, Side, String)>;

/// The source with all insertions.
fn with(source: &str, insertions: &Insertions) -> String {
    let mut ordered: Vec<(usize, Side, usize)> = insertions
        .iter()
        .enumerate()
        .map(|(number, (at, side, _))| match side {
            // Of what ends at one byte, the inner one is closed first.
            Side::Close => (*at, Side::Close, usize::MAX - number),
            Side::Open => (*at, Side::Open, number),
        })
        .collect();
    ordered.sort_unstable();
    let (mut text, mut copied) = (String::with_capacity(source.len() * 2), 0);
    for (at, side, number) in ordered {
        let number = if side == Side::Close { usize::MAX - number } else { number };
        text.push_str(&source[copied..at]);
        text.push_str(&insertions[number].2);
        copied = at;
    }
    text + &source[copied..]
}

/// What is wrapped, and in which function of the reporter.
struct Site {
    bytes: Range<usize>,
    line: u32,
    kind: SiteKind,
    /// Whether it stands in a function that others call to assert something.
    is_called: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum SiteKind {
    /// A condition that holds where it is true.
    Holds,
    /// A condition that holds where it is not.
    Denied,
    /// A call that returns only if it holds.
    Returns,
    /// A call whose value is entered, and left without an error only if it holds.
    Entered,
}

fn insertions(sites: Vec<Site>, reporting: &Reporting, name: &str) -> Insertions {
    let prefix = reporting.prefix.replace("{q}", name);
    let (open, close) = if reporting.brackets { ("(", ")") } else { ("", "") };
    let mut insertions = Vec::new();
    for Site { bytes, line, kind, .. } in sites {
        let before = match kind {
            SiteKind::Holds => format!("{prefix}t({line}, {open}"),
            SiteKind::Denied => format!("{prefix}n({line}, {open}"),
            SiteKind::Returns => format!("{prefix}e({prefix}b({line}), {open}"),
            SiteKind::Entered => format!("{prefix}c({line}, {open}"),
        };
        insertions.push((bytes.start, Side::Open, before));
        insertions.push((bytes.end, Side::Close, format!("{close}, {prefix}z)")));
    }
    insertions
}

/// The assertions of a program, but for those of the code under test, in the order in which they stand there.
fn sites(language: &str, source: &str, code: &str, reporting: &Reporting) -> Vec<Site> {
    let Some(known) = language_called(language) else { return Vec::new() };
    let squeezed = |text: &str, function: &Function| -> String {
        text[function.body.clone()].split_whitespace().collect()
    };
    // Code is given without what a file of it begins with.
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
    // Tests may have a `main` where the code has one too.
    let is_subject = |function: &Function| {
        let same_name = subjects.iter().filter(|(name, _)| *name == function.name);
        let is_other = |body: &String| is_checker(&function.name) && *body != squeezed(source, function);
        same_name.into_iter().any(|(_, body)| !is_other(body))
    };
    let around = |bytes: &Range<usize>| {
        let bytes = bytes.clone();
        defined.iter().filter(move |function| within(&bytes, &function.bytes))
    };
    let found: Vec<Check> = checks(known, source.as_bytes())
        .into_iter()
        .filter(|check| !around(&check.bytes).any(is_subject))
        .collect();
    let site = |bytes: &Range<usize>, line: u32, kind: SiteKind| {
        let is_called = around(bytes).any(|function| is_assertion(&function.name));
        Site { bytes: bytes.clone(), line, kind, is_called }
    };
    // What the language or a library asserts.
    let mut sites = Vec::new();
    let mut own: Vec<(&Function, Site)> = Vec::new();
    for Check { kind, bytes, line } in &found {
        match kind {
            CheckKind::Assertion => sites.push(site(bytes, *line, SiteKind::Holds)),
            CheckKind::Call { name, arguments, is_entered } => {
                let is_one = |names: &[String]| names.iter().any(|pattern| matches(pattern, name));
                let kind = if *is_entered { SiteKind::Entered } else { SiteKind::Returns };
                let is_plain = |argument: &&Range<usize>| !source[(*argument).clone()].starts_with("...");
                let n_conditions = if is_one(&reporting.conditions) { 1 } else { usize::MAX };
                if let Some(function) = defined.iter().find(|function| function.name == *name) {
                    if is_assertion(name) && tells_failure(&source[function.body.clone()]) {
                        own.push((function, site(bytes, *line, SiteKind::Returns)));
                    }
                } else if is_one(&reporting.calls) {
                    sites.push(site(bytes, *line, kind));
                } else if is_one(&reporting.conditions) || is_one(&reporting.all_conditions) {
                    let conditions = arguments.iter().take(n_conditions).filter(is_plain);
                    let line = |at: usize| line + source[bytes.start..at].matches('\n').count() as u32;
                    sites.extend(
                        conditions.map(|condition| site(condition, line(condition.start), SiteKind::Holds)),
                    );
                }
            }
            CheckKind::Branch { .. } => {}
        }
    }
    // What the program asserts by itself: the innermost branches, in functions that check something, of which one part
    // says that something failed.
    for Check { kind, bytes, line } in found.iter().rev() {
        let CheckKind::Branch { then, otherwise, whole } = kind else { continue };
        let condition = &source[bytes.clone()];
        if around(whole).next_back().is_some_and(|function| !is_checker(&function.name))
            || sites.iter().any(|site| within(&site.bytes, whole) && !within(&site.bytes, bytes))
            || reporting.not.iter().any(|not| condition.contains(not.as_str()))
        {
            continue;
        }
        let fails =
            |part: &Option<Range<usize>>| part.clone().is_some_and(|part| tells_failure(&source[part]));
        match (fails(then), fails(otherwise)) {
            (true, false) => sites.push(site(bytes, *line, SiteKind::Denied)),
            (false, true) => sites.push(site(bytes, *line, SiteKind::Holds)),
            _ => {}
        }
    }
    // What the program's own assertions check is seen there, or else whether they return.
    let unseen: Vec<Site> = (own.into_iter())
        .filter(|(function, _)| !sites.iter().any(|site| within(&site.bytes, &function.body)))
        .map(|(_, site)| site)
        .collect();
    sites.extend(unseen);
    sites.sort_by_key(|site| (site.bytes.start, std::cmp::Reverse(site.bytes.end)));
    sites.dedup_by(|a, b| a.bytes == b.bytes);
    sites
}

/// Where the body of the first function named `main` begins, behind its bracket.
fn main(language: &str, source: &str) -> Option<usize> {
    let functions = functions(language_called(language)?, source.as_bytes());
    let is_main =
        |function: &&Function| function.name == "main" && source[function.body.clone()].starts_with('{');
    functions.iter().find(is_main).map(|main| main.body.start + 1)
}

fn within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Whether a function of this name is there to check something.
fn is_checker(name: &str) -> bool {
    let plain = plain(name);
    is_assertion(name) || TESTS.iter().any(|beginning| plain.starts_with(beginning))
}

/// Whether a function of this name is there to check one thing.
fn is_assertion(name: &str) -> bool {
    let plain = plain(name);
    let is_check = |word: &&str| plain.strip_prefix(word).is_some_and(|rest| CHECKED.contains(&rest));
    ASSERTIONS.iter().any(|beginning| plain.starts_with(beginning)) || CHECKS.iter().any(is_check)
}

/// A name in lower case, without what joins its words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn tells_failure(text: &str) -> bool {
    let text = text.to_lowercase();
    FAILURES.iter().any(|failure| text.contains(failure))
}

/// Whether a name is as a pattern says, in which `*` stands for anything but, unless the pattern has one too, a bracket.
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
    use proptest::prelude::*;

    fn rewritten(language: &str, source: &str, code: &str) -> String {
        let reporting = Language::named(language).unwrap().reporting();
        with(source, &insertions(sites(language, source, code, reporting), reporting, "q"))
    }

    #[track_caller]
    fn check(language: &str, source: &str, expected: &str) {
        assert_eq!(rewritten(language, source, ""), expected);
    }

    #[test]
    fn what_decides_an_assertion_is_wrapped() {
        check(
            "python",
            "assert f(1) == 2, 'x'\nself.assertEqual(a, b)\nwith self.assertRaises(E):\n    f()\n",
            "assert q_t(1, f(1) == 2, q_z), 'x'\nq_e(q_b(2), self.assertEqual(a, b), q_z)\n\
             with q_c(3, self.assertRaises(E), q_z):\n    f()\n",
        );
        check(
            "javascript",
            "assert.equal(await f(), 2);\nconsole.assert(a, b), x;\nconst e = new assert.AssertionError();\nassert.rejects(p).catch(c)",
            "q_e(q_b(1), (assert.equal(await f(), 2)), q_z);\nconsole.assert(q_t(2, (a), q_z), b), x;\n\
             const e = new assert.AssertionError();\nq_e(q_b(4), (assert.rejects(p)), q_z).catch(c)",
        );
        check(
            "r",
            "stopifnot('m' = a == 1,\n  b)\n",
            "stopifnot('m' = q_t(1, a == 1, q_z),\n  q_t(2, b, q_z))\n",
        );
        check(
            "ruby",
            "assert_equal 1, f(2)\nassert_raises(E) { f }\n",
            "q_e(q_b(1), (assert_equal 1, f(2)), q_z)\nq_e(q_b(2), (assert_raises(E) { f }), q_z)\n",
        );
        check("php", "<?php\nassert($a and $b, 'x');\n", "<?php\nassert(\\q_t(2, $a and $b, \\q_z), 'x');\n");
        check("php", "assert($a);\n", "assert($a);\n");
        check(
            "java",
            "class A { void f() { assert b : \"x\"; } }",
            "class A { void f() { assert q.t(1, b, q.z) : \"x\"; } }",
        );
    }

    #[test]
    fn branches_count_in_functions_that_check_and_if_one_part_fails() {
        let go = "package main\nfunc check(holds bool) {\n\tif !holds {\n\t\tos.Exit(1)\n\t}\n}\n";
        check("go", go, &go.replace("if !holds {", "if q_n(3, !holds, q_z) {"));
        let other = go.replace("check", "double");
        check("go", &other, &other);
        let handled = go.replace("!holds", "err != nil").replace("check", "main");
        check("go", &handled, &handled);
        check(
            "python",
            "def check(a, b):\n    if a == b:\n        print('PASS')\n    else:\n        print('FAIL')\n",
            "def check(a, b):\n    if q_t(2, a == b, q_z):\n        print('PASS')\n    else:\n        print('FAIL')\n",
        );
        // Either part may fail, or none.
        check(
            "python",
            "if a:\n    raise X\nelse:\n    raise Y\n",
            "if a:\n    raise X\nelse:\n    raise Y\n",
        );
        check("python", "if a:\n    b()\n", "if a:\n    b()\n");
        // The innermost one decides.
        check(
            "python",
            "if a:\n    if b:\n        raise X\n",
            "if a:\n    if q_n(2, b, q_z):\n        raise X\n",
        );
        check(
            "ruby",
            "def check(holds, m)\n  raise m unless holds and m\nend\n",
            "def check(holds, m)\n  raise m unless q_t(2, (holds and m), q_z)\nend\n",
        );
        // What a function of the program's own checks is seen in there, or else whether it returns.
        let own = "const assert = (c, m) => c || fail(m);\nassert(a);\n";
        check("javascript", own, "const assert = (c, m) => c || fail(m);\nq_e(q_b(2), (assert(a)), q_z);\n");
    }

    #[test]
    fn the_code_under_test_is_left_alone() {
        let code = "def f(x):\n    assert x\n    return x\n";
        let source = format!("{code}\nassert f(1)\n");
        assert_eq!(rewritten("python", &source, code), format!("{code}\nassert q_t(5, f(1), q_z)\n"));
        // As somebody else may have written it.
        let changed = source.replace("return x", "return  x + 0");
        assert!(rewritten("python", &changed, code).contains("    assert x\n"));
        let php = "function f($x) { assert($x); return $x; }";
        let source = format!("<?php\n{php}\nassert(f(1));\n");
        assert_eq!(rewritten("php", &source, php), format!("<?php\n{php}\nassert(\\q_t(3, f(1), \\q_z));\n"));
        // A `main` is that of the code only if it is the same.
        let code = "def main():\n    assert a\n";
        assert_eq!(rewritten("python", code, code), code);
        assert!(rewritten("python", "def main():\n    assert b\n", code).contains("q_t"));
    }

    #[test]
    fn names_tell_what_checks() {
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

    #[test]
    fn what_was_put_in_is_taken_out_of_the_output() {
        let plain = Program { files: vec![("main.py".to_owned(), Vec::new())], ..Program::default() };
        let source = "def main():\n    assert f(1) == 2\nmain()\n";
        let instrumented = Instrumented::new(&plain, "python", source, "").unwrap();
        let written = String::from_utf8(instrumented.program.files[0].1.clone()).unwrap();
        assert_ne!(written, source);
        assert_eq!(instrumented.restored(&written), source);
        let frames = "  File \"/box/main.py\", line 2, in main\n    with q:\n  File \"/box/.quarry/sitecustomize.py\", line 9, in __exit__\n    return self.x()\nE\n";
        assert_eq!(
            instrumented.restored(frames),
            "  File \"/box/main.py\", line 2, in main\n    with q:\nE\n"
        );
        // Another run has other names.
        let other = Instrumented::new(&plain, "python", source, "").unwrap();
        assert!(other.name != instrumented.name && other.number != instrumented.number);
    }

    #[test]
    fn every_reporter_is_there() {
        for name in Language::names() {
            let reporting = Language::named(name).unwrap().reporting();
            let found = REPORTERS.iter().find(|(file, _)| *file == reporting.reporter);
            let (_, text) = found.unwrap_or_else(|| panic!("{name}"));
            assert!([NAME, NUMBER, LIMIT].iter().all(|mark| text.contains(mark)), "{name}");
        }
    }

    proptest! {
        /// Insertions change nothing but by their own text, whatever the source.
        #[test]
        fn any_source_is_rewritten_and_restored(
            parts in prop::collection::vec(prop_oneof![
                Just("assert f(1) == 2, 'x'\n".to_owned()), Just("assert (a)\n".to_owned()),
                Just("def check(a):\n    if not a:\n        raise X\n".to_owned()), Just("self.assertTrue(assert_x(b))\n".to_owned()),
                Just("with self.assertRaises(E) as e: pass\n".to_owned()), "[a-zä(){}:=' \n]{0,20}",
            ], 0..6),
        ) {
            let source = parts.concat();
            let plain = Program { files: vec![("main.py".to_owned(), Vec::new())], ..Program::default() };
            let instrumented = Instrumented::new(&plain, "python", &source, "").unwrap();
            let written = String::from_utf8(instrumented.program.files[0].1.clone()).unwrap();
            prop_assert_eq!(instrumented.restored(&written), source.clone());
            prop_assert_eq!(written.lines().count(), source.lines().count());
            for language in ["javascript", "go", "r", "ruby", "php", "java"] {
                let _ = rewritten(language, &source, &source);
            }
        }
    }
}
