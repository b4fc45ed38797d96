//! Finds what a program may check itself by: assertions, calls and branches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::matches::TimeLeft;
use crate::rules::{CheckCapture, CheckRules};
use crate::unit::{Check, CheckKind, MAX_NAME_BYTES, truncate};

/// The checks in `tree` in ascending order of their beginnings, each before those within it; `None` if time is up.
pub(crate) fn find_checks(
    tree: &Tree,
    rules: &CheckRules,
    source: &[u8],
    time: TimeLeft,
) -> Option<Vec<Check>> {
    let text = |bytes: &Range<usize>| String::from_utf8_lossy(&source[bytes.clone()]).into_owned();
    // By beginning and, descending, end.
    let mut found: BTreeMap<(usize, std::cmp::Reverse<usize>), CheckKind> = BTreeMap::new();
    let mut entered: BTreeSet<usize> = BTreeSet::new();
    let mut constants: BTreeMap<(usize, usize), bool> = BTreeMap::new();
    // Conditions and arguments in brackets, without these.
    let mut bare: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    time.for_each_match(&rules.query, tree, source, |query_match| {
        let mut captured: BTreeMap<usize, Range<usize>> = BTreeMap::new();
        let mut is_doubtful = false;
        for capture in query_match.captures() {
            let Some(meaning) = rules.captures[capture.index as usize] else { continue };
            // Inside syntax errors, the parts cannot be distinguished.
            is_doubtful |= capture.node.has_error()
                && !matches!(meaning, CheckCapture::Branch | CheckCapture::Then | CheckCapture::Else);
            let bytes = capture.node.byte_range();
            if matches!(meaning, CheckCapture::Condition | CheckCapture::Argument) {
                bare.insert((bytes.start, bytes.end), without_brackets(capture.node));
            }
            let span = captured.entry(meaning as usize).or_insert_with(|| bytes.clone());
            *span = span.start.min(bytes.start)..span.end.max(bytes.end);
        }
        if is_doubtful {
            return;
        }
        let get = |meaning: CheckCapture| captured.get(&(meaning as usize)).cloned();
        for (meaning, is_true) in [(CheckCapture::True, true), (CheckCapture::False, false)] {
            constants.extend(get(meaning).map(|bytes| ((bytes.start, bytes.end), is_true)));
        }
        if let Some(call) = get(CheckCapture::Entered) {
            entered.insert(call.start);
            return;
        }
        let condition = get(CheckCapture::Condition);
        let (bytes, kind) = match (get(CheckCapture::Call), get(CheckCapture::Branch), condition) {
            (Some(call), _, _) => {
                let callee = get(CheckCapture::Callee).map(|bytes| text(&bytes)).unwrap_or_default();
                let receiver = get(CheckCapture::Receiver).map(|bytes| text(&bytes) + ".");
                let mut name = receiver.unwrap_or_default() + &callee;
                truncate(&mut name, MAX_NAME_BYTES);
                let arguments = get(CheckCapture::Argument).into_iter().collect();
                (call, CheckKind::Call { name, arguments, is_entered: false })
            }
            (None, Some(whole), Some(condition)) => {
                let [then, otherwise] = [CheckCapture::Then, CheckCapture::Else].map(get);
                (condition, CheckKind::Branch { then, otherwise, whole })
            }
            (None, None, Some(condition)) => (condition, CheckKind::Assertion),
            (None, _, None) => return,
        };
        let key = (bytes.start, std::cmp::Reverse(bytes.end));
        match (found.get_mut(&key), kind) {
            // Each argument is a match of its own.
            (Some(CheckKind::Call { arguments, .. }), CheckKind::Call { arguments: more, .. }) => {
                arguments.extend(more);
            }
            // A pattern with an optional part may match without it too.
            (Some(known), kind) if parts(known) >= parts(&kind) => {}
            (_, kind) => drop(found.insert(key, kind)),
        }
    })?;
    let (mut line, mut counted) = (1, 0);
    let check = |((start, end), kind): ((usize, std::cmp::Reverse<usize>), CheckKind)| {
        line += source[counted..start].iter().filter(|byte| **byte == b'\n').count() as u32;
        counted = start;
        let kind = match kind {
            CheckKind::Call { name, mut arguments, .. } => {
                arguments.sort_by_key(|argument| argument.start);
                arguments.dedup();
                CheckKind::Call { name, arguments, is_entered: entered.contains(&start) }
            }
            other => other,
        };
        let bytes = start..end.0;
        let constant = |part: &Range<usize>| {
            let bare = bare.get(&(part.start, part.end))?;
            Some((part.clone(), *constants.get(bare)?))
        };
        let constants = match &kind {
            CheckKind::Call { arguments, .. } => arguments.iter().filter_map(constant).collect(),
            _ => constant(&bytes).into_iter().collect(),
        };
        Check { kind, bytes, line, constants }
    };
    Some(found.into_iter().map(check).collect())
}

/// The bytes of what is in all the brackets around an expression.
fn without_brackets(mut node: Node<'_>) -> (usize, usize) {
    while node.kind().starts_with("parenthesized")
        && node.named_child_count() == 1
        && let Some(inner) = node.named_child(0)
    {
        node = inner;
    }
    (node.start_byte(), node.end_byte())
}

/// Number of known parts of a check. The condition of a branch may be a call.
fn parts(kind: &CheckKind) -> usize {
    match kind {
        CheckKind::Assertion => 4,
        CheckKind::Branch { then, otherwise, .. } => {
            2 + usize::from(then.is_some()) + usize::from(otherwise.is_some())
        }
        CheckKind::Call { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use crate::{CheckKind, checks, language_named};

    /// Each check as `line kind text`, with its parts.
    #[track_caller]
    fn check(language: &str, source: &str, expected: &[&str]) {
        let text =
            |bytes: std::ops::Range<usize>| source[bytes].split_whitespace().collect::<Vec<_>>().join(" ");
        let part = |bytes: Option<std::ops::Range<usize>>| bytes.map_or("-".to_owned(), text);
        let found: Vec<String> = checks(language_named(language).unwrap(), source.as_bytes())
            .into_iter()
            .map(|check| {
                let parts = match check.kind {
                    CheckKind::Assertion => "assert".to_owned(),
                    CheckKind::Branch { then, otherwise, .. } => {
                        format!("{} / {}", part(then), part(otherwise))
                    }
                    CheckKind::Call { name, arguments, is_entered } => {
                        let arguments: Vec<String> = arguments.into_iter().map(text).collect();
                        format!("{}{name}({})", if is_entered { "with " } else { "" }, arguments.join(" | "))
                    }
                };
                format!("{}: {} | {parts}", check.line, text(check.bytes))
            })
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn python() {
        check(
            "python",
            "assert f(1) == 2, 'x'\nif a:\n    raise E\nelse:\n    pass\nwith self.assertRaises(E) as e:\n    pass\nprint('a' if b else 'c')\n",
            &[
                "1: f(1) == 2 | assert",
                "1: f(1) | f(1)",
                "2: a | raise E / else: pass",
                "6: self.assertRaises(E) | with self.assertRaises(E)",
                "8: print('a' if b else 'c') | print('a' if b else 'c')",
                "8: b | 'a' / 'c'",
            ],
        );
    }

    #[test]
    fn javascript_and_typescript() {
        for language in ["javascript", "typescript", "tsx"] {
            check(
                language,
                "assert.equal(f(1), 2);\nif (!c) throw e; else d();\nok ? a : b;\nthing();",
                &[
                    "1: assert.equal(f(1), 2) | assert.equal(f(1) | 2)",
                    "1: f(1) | f(1)",
                    "2: !c | throw e; / else d();",
                    "2: d() | d()",
                    "3: ok | a / b",
                    "4: thing() | thing()",
                ],
            );
        }
    }

    #[test]
    fn go_and_java() {
        check(
            "go",
            "package main\nfunc f() {\n\tif x := g(); x != 1 {\n\t\tpanic(1)\n\t} else {\n\t}\n}\n",
            &["3: g() | g()", "3: x != 1 | { panic(1) } / { }", "4: panic(1) | panic(1)"],
        );
        check(
            "java",
            "class A { void f(boolean b) { assert b : \"x\"; if (!b) throw new E(); String s = b ? c : d; } }",
            &["1: b | assert", "1: !b | throw new E(); / -", "1: b | c / d"],
        );
    }

    #[test]
    fn ruby_php_and_r() {
        check(
            "ruby",
            "assert_equal 1, f(2)\nraise 'x' unless holds\nputs 'no' if a && b\nx.must_equal(3)\nunless c\n  d\nend\ne ? 1 : 2\n",
            &[
                "1: assert_equal 1, f(2) | assert_equal(1 | f(2))",
                "1: f(2) | f(2)",
                "2: raise 'x' | raise('x')",
                "2: holds | - / raise 'x'",
                "3: puts 'no' | puts('no')",
                "3: a && b | puts 'no' / -",
                "4: x.must_equal(3) | x.must_equal(3)",
                "5: c | - / d",
                "8: e | 1 / 2",
            ],
        );
        check(
            "php",
            "<?php\nassert($a == 1, 'x');\nif (!$b) { throw $e; } else { c(); }\n\\f($d ? 1 : 2);\n",
            &[
                "2: assert($a == 1, 'x') | assert($a == 1 | 'x')",
                "3: !$b | { throw $e; } / else { c(); }",
                "3: c() | c()",
                "4: \\f($d ? 1 : 2) | f($d ? 1 : 2)",
                "4: $d | 1 / 2",
            ],
        );
        check(
            "r",
            "stopifnot(\"m\" = f(1) == 2)\nif (!h) stop('x') else y\nbase::stopifnot(z)\n",
            &[
                "1: stopifnot(\"m\" = f(1) == 2) | stopifnot(f(1) == 2)",
                "1: f(1) | f(1)",
                "2: !h | stop('x') / y",
                "2: stop('x') | stop('x')",
                "3: base::stopifnot(z) | stopifnot(z)",
            ],
        );
    }

    #[test]
    fn constant_checks_are_recognized() {
        #[track_caller]
        fn check(language: &str, source: &str, expected: &[(&str, bool)]) {
            let found: Vec<(String, bool)> = checks(language_named(language).unwrap(), source.as_bytes())
                .into_iter()
                .flat_map(|check| check.constants)
                .map(|(bytes, is_true)| (source[bytes].to_owned(), is_true))
                .collect();
            let expected: Vec<(String, bool)> =
                expected.iter().map(|(text, is_true)| ((*text).to_owned(), *is_true)).collect();
            assert_eq!(found, expected, "{language}");
        }
        check(
            "python",
            "assert (f(a) == 2, 'x')\nassert 'text'\nassert ((True))\nassert not False\nassert 12\nassert lambda: f(a)\n\
             assert [f(a)]\nassert f(a) or 'x'\nassert False\nassert None\nassert ''\nassert 0\nassert []\nassert x\n\
             assert 1 == 1\nassert ()\nself.assertTrue(True, a)\nif not True:\n    pass\n\
             assert f'{a}'\nassert f'{a} ok'\nassert 'a' f'{b}'\nassert (b for b in a)\nassert f(a) or [a]\nassert f''\n",
            &[
                ("(f(a) == 2, 'x')", true),
                ("'text'", true),
                ("((True))", true),
                ("not False", true),
                ("12", true),
                ("lambda: f(a)", true),
                ("[f(a)]", true),
                ("f(a) or 'x'", true),
                ("False", false),
                ("None", false),
                ("True", true),
                ("not True", false),
                ("f'{a}'", true),
                ("f'{a} ok'", true),
                ("'a' f'{b}'", true),
                ("(b for b in a)", true),
                ("f(a) or [a]", true),
            ],
        );
        for language in ["javascript", "typescript"] {
            check(
                language,
                "assert('text');\nassert(`a${b}`, true);\nassert([], x);\nassert({}, x);\nassert(() => f(a));\nassert(!false);\n\
                 assert(7);\nassert((f(a), 'x'));\nassert('');\nassert(0);\nassert(f(a));\nif (false) a();\nassert(undefined);\n\
                 assert(`${a}`);\nassert((f(a), true));\nassert((f(a), 7));\nassert((f(a), 0));\nassert(new A(a));\nassert(typeof a);\n\
                 assert(f(a) || {});\nassert(``);\n",
                &[
                    ("'text'", true),
                    ("`a${b}`", true),
                    ("true", true),
                    ("[]", true),
                    ("{}", true),
                    ("() => f(a)", true),
                    ("!false", true),
                    ("7", true),
                    ("(f(a), 'x')", true),
                    ("false", false),
                    ("undefined", false),
                    ("`${a}`", true),
                    ("(f(a), true)", true),
                    ("(f(a), 7)", true),
                    ("new A(a)", true),
                    ("typeof a", true),
                    ("f(a) || {}", true),
                ],
            );
        }
        check(
            "go",
            "package main\nfunc f() {\n\tif false {\n\t}\n\tif !false {\n\t}\n\tif a {\n\t}\n}\n",
            &[("false", false), ("!false", true)],
        );
        check(
            "java",
            "class A { void f() { assert true : \"x\"; assert (!false); assert a; if (!true) { } } }",
            &[("true", true), ("(!false)", true), ("!true", false)],
        );
        check(
            "php",
            "<?php\nassert('text');\nassert(TRUE, \"x\");\nassert([$a]);\nassert(12);\nassert(fn() => f($a));\nassert('');\n\
             assert('0');\nassert(\"$a\");\nassert(0);\nassert([]);\nassert(false);\nassert($a);\n",
            &[
                ("'text'", true),
                ("TRUE", true),
                ("\"x\"", true),
                ("[$a]", true),
                ("12", true),
                ("fn() => f($a)", true),
                ("false", false),
            ],
        );
        check(
            "r",
            "stopifnot(TRUE)\nstopifnot(!FALSE, a)\nif (FALSE) b\nexpect_true(1)\nexpect_true(0)\n",
            &[("TRUE", true), ("!FALSE", true), ("FALSE", false), ("1", true)],
        );
        check(
            "ruby",
            "assert 'text'\nassert true, x\nassert 0\nassert [a]\nassert({ a: 1 })\nassert !nil\nassert nil\nassert a\nb unless false\n",
            &[
                ("'text'", true),
                ("true", true),
                ("0", true),
                ("[a]", true),
                ("{ a: 1 }", true),
                ("!nil", true),
                ("nil", false),
                ("false", false),
            ],
        );
    }

    #[test]
    fn languages_without_rules_have_none() {
        check("markdown", "# f", &[]);
        check("c", "int main() { if (a) b(); }", &[]);
        check("python", "assert (", &[]);
        check(
            "php",
            "<?php\nassert(double(1) === 2);\nassert(twice(1) === 2);\n",
            &["3: assert(twice(1) === 2) | assert(twice(1) === 2)", "3: twice(1) | twice(1)"],
        );
    }
}
