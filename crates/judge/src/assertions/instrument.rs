//! Rewriting test programs so that they report which assertions they evaluate.
//!
//! The rewriting only wraps expressions in calls, on the same line, so that line numbers stay the same; and the names
//! of these calls are random for each run, so that they can be removed again from the program's output. What counts
//! as an assertion, and how programs of a language report, is data: `languages.toml`, and the files in `reporters`.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use quarry_sandbox::{Ended, Outcome, Program};
use quarry_source::{Function, functions, language_called};

use super::sites::{Site, SiteKind, sites};
use super::style::ReportStyle;
use super::{Assertions, MAX_REPORTS, separate};
use crate::language::Language;

/// Placeholders in reporters for the random name and for the report number.
pub(super) const NAME: &str = "quarry_report";
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

pub(crate) struct InstrumentedProgram {
    pub(crate) program: Program,
    reporting: &'static ReportStyle,
    /// The random name.
    pub(super) name: String,
    number: String,
    inserted: Vec<String>,
    /// The lines of assertions inside helper functions.
    called: BTreeSet<u32>,
}

impl InstrumentedProgram {
    /// Instruments `plain`, whose first file is `source` in this language, and which tests `code`. Assertions within
    /// `code` itself do not count. `None` if there is nothing to report.
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
            .replace(NUMBER, &number) // The first one marks that the program has begun.
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
                Some((_, known)) => *known = format!("{value}:{known}"),
                None => program.environment.push((variable.clone(), value.clone())),
            }
        }
        let mut inserted: Vec<String> = insertions.into_iter().map(|(_, _, text)| text).collect();
        inserted.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        inserted.dedup();
        Some(Self { program, reporting, name, number, inserted, called })
    }

    /// The program for a run with the functions under test in another process than their test, if its language allows
    /// that, and they can be separated.
    pub(crate) fn separated(&self, source: &str, code: &str) -> Option<Program> {
        if self.reporting.reporter == "python.py" { separate::separated(self, source, code) } else { None }
    }

    pub(crate) fn assertions(&self, outcome: &Outcome) -> Option<Assertions> {
        let reported = Assertions::reported(&outcome.report.text(), &self.number, &self.called)?;
        Some(Assertions { is_cut: reported.is_cut || outcome.report.is_truncated(), ..reported })
    }

    /// Returns whether the inserted code may be the reason why the program could not be parsed; then the original
    /// should be run.
    pub(crate) fn may_be_unreadable(&self, outcome: &Outcome) -> bool {
        if matches!(
            outcome.ended,
            Ended::Exited { code: 0 } | Ended::WallTime | Ended::CpuTime | Ended::Memory
        ) {
            return false;
        }
        let has_run = self.assertions(outcome).is_some_and(|assertions| assertions.ran > 0);
        let is_changed = !self.inserted.is_empty() || self.reporting.file.is_empty();
        let printed = |mark: &str| {
            [&outcome.stdout, &outcome.stderr].iter().any(|printed| printed.text().contains(mark))
        };
        !has_run
            && is_changed
            && (printed(&self.name) || self.reporting.unread.iter().any(|mark| printed(mark)))
    }

    /// The program's output with all traces of the inserted code removed.
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

/// Removes the reporter's frames from a Python traceback: each line that names its file, and the source line after
/// it.
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

/// The side of an expression that a text is inserted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Close,
    Open,
}

/// Insertions as byte offset, side and text, in the order of the expressions, outer ones first.
type Insertions = Vec<(usize, Side, String)>;

fn with(source: &str, insertions: &Insertions) -> String {
    let mut ordered: Vec<(usize, Side, usize)> = insertions
        .iter()
        .enumerate()
        .map(|(number, (at, side, _))| match side {
            // Of expressions that end at the same byte, the inner one is closed first.
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

fn insertions(sites: Vec<Site>, reporting: &ReportStyle, name: &str) -> Insertions {
    let prefix = reporting.prefix.replace("{q}", name);
    let (open, close) = if reporting.brackets { ("(", ")") } else { ("", "") };
    let mut insertions = Vec::new();
    for Site { bytes, line, kind, .. } in sites {
        let before = match kind {
            SiteKind::Holds => format!("{prefix}t({line}, {open}"),
            SiteKind::Denied => format!("{prefix}n({line}, {open}"),
            SiteKind::Returns => format!("{prefix}e({prefix}b({line}), {open}"),
            SiteKind::Entered => format!("{prefix}c({line}, {open}"),
            SiteKind::Truth => format!("{prefix}v({line}, {open}"),
        };
        insertions.push((bytes.start, Side::Open, before));
        insertions.push((bytes.end, Side::Close, format!("{close}, {prefix}z)")));
    }
    insertions
}

/// Byte offset of the body of the first function named `main`, after its opening bracket.
fn main(language: &str, source: &str) -> Option<usize> {
    let functions = functions(language_called(language)?, source.as_bytes());
    let is_main =
        |function: &&Function| function.name == "main" && source[function.body.clone()].starts_with('{');
    functions.iter().find(is_main).map(|main| main.body.start + 1)
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
    fn conditions_of_assertions_are_wrapped() {
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
            "python",
            "self.assertTrue(f(1))\nself.assertTrue(expr=a)\nself.assertTrue(*a)\nself.assertTrue(self.assertIs(a, b))\n",
            "q_e(q_b(1), self.assertTrue(q_v(1, f(1), q_z)), q_z)\nq_e(q_b(2), self.assertTrue(expr=a), q_z)\n\
             q_e(q_b(3), self.assertTrue(*a), q_z)\nq_e(q_b(4), self.assertTrue(q_e(q_b(4), self.assertIs(a, b), q_z)), q_z)\n",
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
        check(
            "python",
            "def check(a):\n    if not a:\n        raise X\n",
            "def check(a):\n    if not q_t(2, a, q_z):\n        raise X\n",
        );
        // Either operand may fail, or neither.
        check(
            "python",
            "if a:\n    raise X\nelse:\n    raise Y\n",
            "if a:\n    raise X\nelse:\n    raise Y\n",
        );
        check("python", "if a:\n    b()\n", "if a:\n    b()\n");
        // The innermost branch decides.
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
        // Checks in a function of the program are reported inside it if possible, otherwise by whether it returns.
        let own = "const assert = (c, m) => c || fail(m);\nassert(a);\n";
        check("javascript", own, "const assert = (c, m) => c || fail(m);\nq_e(q_b(2), (assert(a)), q_z);\n");
        // A function that always returns is reported where it decides, or not at all.
        let printing = own.replace("fail(m)", "console.log('FAIL', m)");
        check("javascript", &printing, &printing);
        let printing = "const fail = (m) => console.log(m);\n".to_owned() + own;
        check("javascript", &printing, &printing);
        let chain = "function expect(a) {\n  return { toBe(b) { if (a !== b) console.log('FAIL'); } };\n}\nexpect(f(1)).toBe(2);\n";
        check("javascript", chain, &chain.replace("a !== b", "q_n(2, (a !== b), q_z)"));
        let printed = chain.replace("if (a !== b) console.log('FAIL')", "console.log(a === b)");
        check("javascript", &printed, &printed);
    }

    #[test]
    fn the_code_under_test_is_left_alone() {
        let code = "def f(x):\n    assert x\n    return x\n";
        let source = format!("{code}\nassert f(1)\n");
        assert_eq!(rewritten("python", &source, code), format!("{code}\nassert q_t(5, f(1), q_z)\n"));
        // The same function, formatted differently.
        let changed = source.replace("return x", "return  x + 0");
        assert!(rewritten("python", &changed, code).contains("    assert x\n"));
        let php = "function f($x) { assert($x); return $x; }";
        let source = format!("<?php\n{php}\nassert(f(1));\n");
        assert_eq!(rewritten("php", &source, php), format!("<?php\n{php}\nassert(\\q_t(3, f(1), \\q_z));\n"));
        // A `main` counts as the code's only if it is identical.
        let code = "def main():\n    assert a\n";
        assert_eq!(rewritten("python", code, code), code);
        assert!(rewritten("python", "def main():\n    assert b\n", code).contains("q_t"));
    }

    #[test]
    fn instrumentation_is_removed_from_output() {
        let plain = Program { files: vec![("main.py".to_owned(), Vec::new())], ..Program::default() };
        let source = "def main():\n    assert f(1) == 2\nmain()\n";
        let instrumented = InstrumentedProgram::new(&plain, "python", source, "").unwrap();
        let written = String::from_utf8(instrumented.program.files[0].1.clone()).unwrap();
        assert_ne!(written, source);
        assert_eq!(instrumented.restored(&written), source);
        let frames = "  File \"/box/main.py\", line 2, in main\n    with q:\n  File \"/box/.quarry/sitecustomize.py\", line 9, in __exit__\n    return self.x()\nE\n";
        assert_eq!(
            instrumented.restored(frames),
            "  File \"/box/main.py\", line 2, in main\n    with q:\nE\n"
        );
        // Another run has other random names.
        let other = InstrumentedProgram::new(&plain, "python", source, "").unwrap();
        assert!(other.name != instrumented.name && other.number != instrumented.number);
    }

    #[test]
    fn no_package_comes_before_the_reporter() {
        let environment = vec![("PYTHONPATH".to_owned(), "/opt/packages".to_owned())];
        let files = vec![("main.py".to_owned(), Vec::new())];
        let plain = Program { files, environment, ..Program::default() };
        let instrumented = InstrumentedProgram::new(&plain, "python", "assert f(1)\n", "").unwrap();
        let expected = ("PYTHONPATH".to_owned(), ".quarry:/opt/packages".to_owned());
        assert_eq!(instrumented.program.environment, [expected]);
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
        /// Insertions change nothing except by their own text, whatever the source.
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
            let instrumented = InstrumentedProgram::new(&plain, "python", &source, "").unwrap();
            let written = String::from_utf8(instrumented.program.files[0].1.clone()).unwrap();
            prop_assert_eq!(instrumented.restored(&written), source.clone());
            prop_assert_eq!(written.lines().count(), source.lines().count());
            for language in ["javascript", "go", "r", "ruby", "php", "java"] {
                let _ = rewritten(language, &source, &source);
            }
        }
    }
}
