//! Finds what a program may check itself by: assertions, calls and branches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tree_sitter::Tree;

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
    time.for_each_match(&rules.query, tree, source, |query_match| {
        let mut captured: BTreeMap<usize, Range<usize>> = BTreeMap::new();
        let mut is_doubtful = false;
        for capture in query_match.captures() {
            let Some(meaning) = rules.captures[capture.index as usize] else { continue };
            // Inside syntax errors, the parts cannot be told apart.
            is_doubtful |= capture.node.has_error()
                && !matches!(meaning, CheckCapture::Branch | CheckCapture::Then | CheckCapture::Else);
            let bytes = capture.node.byte_range();
            let span = captured.entry(meaning as usize).or_insert_with(|| bytes.clone());
            *span = span.start.min(bytes.start)..span.end.max(bytes.end);
        }
        if is_doubtful {
            return;
        }
        let get = |meaning: CheckCapture| captured.get(&(meaning as usize)).cloned();
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
        Check { kind, bytes: start..end.0, line }
    };
    Some(found.into_iter().map(check).collect())
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
            &["3: x != 1 | { panic(1) } / { }"],
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
