//! Test programs in which the function under test is mutated or replaced by another one.
//!
//! A program that passes whatever the function does proves nothing (DeMillo, Lipton and Sayward, *Hints on Test Data
//! Selection*, 1978). The mutations are data: `mutants.toml`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use quarry_source::{Function, extract, functions, language_called};
use serde::Deserialize;

const MAX_OPERATORS: usize = 3;

/// The name under which tests written without seeing the code call it.
pub(crate) const SUBJECT: &str = "subject";

/// The text of the table, which is part of the versions of judges.
pub(crate) const MUTANTS_TEXT: &str = include_str!("mutants.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationRules {
    bodies: Vec<(String, String)>,
    operators: Vec<(String, String)>,
    alias: Option<String>,
}

static FAULTS: LazyLock<BTreeMap<String, MutationRules>> =
    LazyLock::new(|| toml::from_str(MUTANTS_TEXT).expect("mutants.toml is well-formed"));

/// A test program with a mutated function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    pub(crate) about: String,
    /// True if the whole body was replaced, so that tests that still pass prove nothing.
    pub(crate) is_gutted: bool,
    pub(crate) source: String,
}

/// Variants of `program` with one mutation each in the function of `code`: first its whole body, then operators.
/// Empty if the function is not found, or the language has no mutations.
pub(crate) fn mutants(program: &str, code: &str, language: &str) -> Vec<Mutant> {
    let Some(faults) = FAULTS.get(language) else { return Vec::new() };
    let Some(function) = function_in(program, code, language) else { return Vec::new() };
    let body = &program[function.body.clone()];
    let mut mutants = Vec::new();
    for (about, text) in &faults.bodies {
        if body != text {
            let about = format!("its whole body only {about}");
            let source = replaced(program, &function.body, &text.replace("{body}", body));
            mutants.push(Mutant { about, is_gutted: true, source });
        }
    }
    let mut used: Vec<&(String, String)> = Vec::new();
    for symbol in &function.symbols {
        let written = &program[symbol.clone()];
        let row = faults.operators.iter().find(|row| row.0 == written && !used.contains(row));
        let Some(row) = row.filter(|_| used.len() < MAX_OPERATORS) else { continue };
        used.push(row);
        let line = program[function.bytes.start..symbol.start].matches('\n').count() + 1;
        mutants.push(Mutant {
            about: format!("`{}` is `{}` in its line {line}", row.0, row.1),
            is_gutted: false,
            source: replaced(program, symbol, &row.1),
        });
    }
    mutants
}

/// `program` with the function of `other` instead of that of `code`, under the same name; `None` if one of them is
/// not found, or is a method.
pub(crate) fn with_other(program: &str, code: &str, other: &str, language: &str) -> Option<String> {
    let alias = FAULTS.get(language)?.alias.as_ref()?;
    let own = function_in(program, code, language)?;
    let other_name = first_function(other, language)?.name;
    let mut text = other.trim().to_owned();
    if other_name != own.name {
        text.push_str("\n\n");
        text.push_str(&alias.replace("{name}", &own.name).replace("{other}", &other_name));
    }
    // An indented function is in a class, and may need other members of it.
    let is_top = own.bytes.start == 0 || program.as_bytes()[own.bytes.start - 1] == b'\n';
    is_top.then(|| replaced(program, &own.bytes, &text))
}

/// Signature of the function of `code`, under a meaningless name; `None` if there is no function.
pub(crate) fn interface(code: &str, language: &str) -> Option<String> {
    let source = language_called(language)?;
    let name = first_function(code, language)?.name;
    let unit = extract(source, code.as_bytes()).units.into_iter().find(|unit| {
        !unit.signature.is_empty() && (unit.name == name || unit.name.ends_with(&format!(".{name}")))
    })?;
    let (before, after) = unit.signature.split_once(&name)?;
    Some(format!("{before}{SUBJECT}{after}"))
}

fn first_function(code: &str, language: &str) -> Option<Function> {
    functions(language_called(language)?, code.as_bytes()).into_iter().next()
}

/// The function of `code` as it occurs in `program`: with the same text, otherwise with the same name.
fn function_in(program: &str, code: &str, language: &str) -> Option<Function> {
    let wanted = first_function(code, language)?;
    let text = &code[wanted.body.clone()];
    let found = functions(language_called(language)?, program.as_bytes());
    let same_name = || found.iter().filter(|function| function.name == wanted.name);
    same_name()
        .find(|function| program[function.body.clone()] == *text)
        .or_else(|| same_name().next())
        .cloned()
}

fn replaced(text: &str, span: &Range<usize>, by: &str) -> String {
    format!("{}{by}{}", &text[..span.start], &text[span.end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODE: &str =
        "def first(items):\n    if len(items) > 0 and items[0] > 1:\n        return items[0]\n";

    #[test]
    fn a_function_is_broken_in_its_body_and_in_its_operators() {
        let program = format!("import re\n\n{CODE}\n\ndef main():\n    assert first([2]) == 2\n\nmain()\n");
        let mutants = mutants(&program, CODE, "python");
        let abouts: Vec<&str> = mutants.iter().map(|mutant| mutant.about.as_str()).collect();
        assert_eq!(
            abouts,
            [
                "its whole body only raises an error",
                "its whole body only returns None",
                "`>` is `<=` in its line 2",
                "`and` is `or` in its line 2",
                "`>` is `>=` in its line 2"
            ]
        );
        assert!(
            mutants[0].source.contains("def first(items):\n    raise NotImplementedError()\n\n\ndef main")
        );
        assert!(mutants[2].source.contains("len(items) <= 0 and items[0] > 1"));
        assert!(mutants[4].source.contains("len(items) > 0 and items[0] >= 1"));
        // The tests are unchanged.
        assert!(mutants.iter().all(|mutant| mutant.source.contains("assert first([2]) == 2")));
        assert_eq!(mutants.iter().filter(|mutant| mutant.is_gutted).count(), 2);
    }

    #[test]
    fn functions_of_javascript_are_broken_too() {
        let code = "const add = (a, b) => a + b;";
        let sources: Vec<String> = mutants(&format!("{code}\nadd(1, 2);\n"), code, "javascript")
            .into_iter()
            .map(|m| m.source)
            .collect();
        assert_eq!(sources[0], "const add = (a, b) => { throw new Error(\"broken\"); };\nadd(1, 2);\n");
        assert_eq!(sources[2], "const add = (a, b) => a - b;\nadd(1, 2);\n");
    }

    #[test]
    fn every_language_of_the_table_has_functions_that_break() {
        for (language, code, gutted, changed) in [
            ("python", "def f(a):\n    return a < 1\n", "raise NotImplementedError()", "a >= 1"),
            ("javascript", "function f(a) { return a < 1; }", "{ throw new Error(\"broken\"); }", "a >= 1"),
            (
                "typescript",
                "function f(a: number): boolean { return a < 1; }",
                "boolean { throw new Error(\"broken\"); }",
                "a >= 1",
            ),
            ("ruby", "def f(a)\n  a < 1\nend\n", "def f(a)\n  raise \"broken\"\nend", "a >= 1"),
            (
                "php",
                "<?php\nfunction f($a) { return $a < 1; }\n",
                "{ throw new \\Exception(\"broken\"); }",
                "$a >= 1",
            ),
            ("r", "f <- function(a) {\n  a < 1\n}\n", "function(a) { stop(\"broken\") }", "a >= 1"),
            (
                "go",
                "func f(a int) bool { return a < 1 }",
                "{ panic(\"broken\"); { return a < 1 } }",
                "a >= 1",
            ),
            (
                "java",
                "class A {\n  static boolean f(int a) { return a < 1; }\n}\n",
                "f(int a) { throw new RuntimeException(\"broken\"); }",
                "a >= 1",
            ),
        ] {
            let found = mutants(code, code, language);
            let first = found.first().filter(|mutant| mutant.is_gutted);
            assert!(first.is_some_and(|mutant| mutant.source.contains(gutted)), "{language}: {found:?}");
            let fault = found.iter().find(|mutant| !mutant.is_gutted);
            assert!(fault.is_some_and(|mutant| mutant.source.contains(changed)), "{language}: {found:?}");
            let interface = interface(code, language);
            assert!(
                interface.as_ref().is_some_and(|text| text.contains(SUBJECT)),
                "{language}: {interface:?}"
            );
        }
    }

    #[test]
    fn a_broken_function_of_go_compiles() {
        let code = "func total(name string, n int) int {\n\tif strings.HasPrefix(name, \"x\") && n > 1 {\n\t\treturn n - 1\n\t}\n\treturn 0\n}\n";
        let program = format!(
            "package main\n\nimport \"strings\"\n\n{code}\nfunc main() {{\n\tif total(\"x\", 3) != 2 || total(\"y\", 3) != 0 {{\n\t\tpanic(\"no\")\n\t}}\n}}\n"
        );
        let found = mutants(&program, code, "go");
        assert_eq!(found.len(), 4, "{found:?}");
        let runner = quarry_sandbox::Runner::named("go").unwrap();
        let sandbox = quarry_sandbox::Bubblewrap::open().ok().filter(|_| runner.is_available());
        let Some(sandbox) = sandbox else {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\nNOT TESTED: Go is not there\n");
            return;
        };
        for Mutant { about, source, .. } in found {
            let outcome =
                runner.run(&sandbox, &runner.program(&source), &quarry_sandbox::Limits::default()).unwrap();
            assert!(!outcome.stderr.text().contains("main.go:1:"), "{about}");
            assert!(outcome.stderr.text().contains("panic: "), "{about}: {}", outcome.stderr.text());
        }
    }

    #[test]
    fn missing_functions_cannot_be_mutated() {
        assert!(mutants("def other(): pass", CODE, "python").is_empty());
        assert!(mutants(CODE, "x = 1", "python").is_empty());
        assert!(mutants(CODE, CODE, "cobol").is_empty());
        // A body that already has this effect is not a mutant.
        let code = "def f():\n    return None\n";
        assert_eq!(mutants(code, code, "python").len(), 1);
    }

    #[test]
    fn another_function_is_inserted_under_the_same_name() {
        let program = format!("{CODE}\nassert first([2]) == 2\n");
        let other = "def head(xs):\n    return xs[0]\n";
        let swapped = with_other(&program, CODE, other, "python").unwrap();
        assert_eq!(swapped, "def head(xs):\n    return xs[0]\n\nfirst = head\n\nassert first([2]) == 2\n");
        let same = other.replace("head", "first");
        assert!(!with_other(&program, CODE, &same, "python").unwrap().contains(" = first"));
        assert_eq!(with_other(&program, CODE, "x = 1", "python"), None);
        let method = "class A:\n    def first(self):\n        return 1\n";
        assert_eq!(with_other(method, method, other, "python"), None);
        let swapped =
            with_other("const f = () => 1;\nf();", "const f = () => 1;", "function g() {}", "javascript");
        assert_eq!(swapped.unwrap(), "function g() {}\n\nvar f = g;\nf();");
    }

    #[test]
    fn an_interface_shows_the_call_and_not_the_behavior() {
        assert_eq!(interface(CODE, "python").unwrap(), "def subject(items)");
        assert_eq!(
            interface("class A:\n    def g(self, x=1) -> int:\n        return x\n", "python").unwrap(),
            "def subject(self, x=1) -> int"
        );
        assert!(
            interface("const add = (a, b) => a + b;", "javascript").unwrap().contains("subject = (a, b)")
        );
        assert_eq!(interface("x = 1", "python"), None);
    }

    #[test]
    fn every_language_of_the_table_can_be_tested() {
        for name in FAULTS.keys() {
            assert!(crate::Language::named(name).is_some() && language_called(name).is_some(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(program in "(def f\\(a\\):\n|    return a|    [<+=]+|[a-zä{}()\n]){0,12}", code in "(def f\\(a\\):\n|    return a [<>] 1|ä){0,4}") {
            for language in ["python", "javascript"] {
                let _ = (mutants(&program, &code, language), with_other(&program, &code, &program, language), interface(&code, language));
            }
        }
    }
}
