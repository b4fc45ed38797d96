//! Finds the functions of a file with their bodies, for callers that change them.

use std::collections::HashSet;

use tree_sitter::{Node, Tree};

use crate::matches::TimeLeft;
use crate::rules::{Capture, Role, Rules};
use crate::traversal::goto_next;
use crate::unit::Function;

/// The functions and methods of `tree` in ascending order of their beginnings, those within others included; `None` if
/// time is up.
pub(crate) fn find_functions(
    tree: &Tree,
    rules: &Rules,
    source: &[u8],
    time: TimeLeft,
) -> Option<Vec<Function>> {
    let mut functions: Vec<Function> = Vec::new();
    let mut bodies: HashSet<(usize, usize)> = HashSet::new();
    time.for_each_match(&rules.query, tree, source, |query_match| {
        let (mut function, mut name, mut body) = (None, None, None);
        for capture in query_match.captures() {
            match rules.captures[capture.index as usize] {
                Some(Capture::Function | Capture::Method) => function = Some(capture.node),
                Some(Capture::Name) => name = name.or(Some(capture.node)),
                Some(Capture::Body) => body = Some(capture.node),
                _ => {}
            }
        }
        let (Some(function), Some(name)) = (function, name) else { return };
        // Some rules capture the body in a separate pattern.
        let Some(body) = body.or_else(|| function.child_by_field_name("body")) else { return };
        if body.byte_range().is_empty() || !bodies.insert((body.start_byte(), body.end_byte())) {
            return;
        }
        functions.push(Function {
            name: String::from_utf8_lossy(&source[name.byte_range()]).into_owned(),
            bytes: statement(function, rules).byte_range(),
            body: body.byte_range(),
            symbols: symbols(body),
        });
    })?;
    functions.sort_by_key(|function| (function.bytes.start, function.body.start));
    Some(functions)
}

/// The statement that defines `function` and nothing else.
fn statement<'tree>(function: Node<'tree>, rules: &Rules) -> Node<'tree> {
    let is_definition = |node: &Node| {
        let role = rules.role(node.kind_id());
        role.is(Role::CANDIDATE) || role.is(Role::WRAPPER)
    };
    let mut statement = function;
    while let Some(parent) =
        statement.parent().filter(|parent| rules.role(parent.kind_id()).is(Role::WRAPPER))
    {
        let mut cursor = parent.walk();
        if parent.children(&mut cursor).filter(is_definition).count() != 1 {
            break;
        }
        statement = parent;
    }
    statement
}

/// The anonymous leaves of `body`: operators, keywords, brackets.
fn symbols(body: Node) -> Vec<std::ops::Range<usize>> {
    let mut symbols = Vec::new();
    let mut cursor = body.walk();
    loop {
        let node = cursor.node();
        if node.child_count() == 0 && !node.is_named() && !node.is_missing() {
            symbols.push(node.byte_range());
        }
        if !goto_next(&mut cursor, true) {
            return symbols;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{functions, language_named};

    #[track_caller]
    fn check(language: &str, source: &str, expected: &[(&str, &str, &str, &str)]) {
        let found = functions(language_named(language).unwrap(), source.as_bytes());
        let text = |bytes: &std::ops::Range<usize>| source[bytes.clone()].to_owned();
        let found: Vec<[String; 4]> = found
            .iter()
            .map(|function| {
                let symbols: Vec<String> = function.symbols.iter().map(text).collect();
                [function.name.clone(), text(&function.bytes), text(&function.body), symbols.join(" ")]
            })
            .collect();
        let expected: Vec<[String; 4]> =
            expected.iter().map(|(a, b, c, d)| [a, b, c, d].map(|text| (*text).to_owned())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn functions_have_a_body_and_the_statement_that_defines_them() {
        check(
            "python",
            "import x\n@x.y\ndef f(a):\n    # a < b\n    return a <= '<'\nclass A:\n    def g(self): pass\n",
            &[
                ("f", "@x.y\ndef f(a):\n    # a < b\n    return a <= '<'", "return a <= '<'", "return <="),
                ("g", "def g(self): pass", "pass", "pass"),
            ],
        );
        check(
            "javascript",
            "const f = a => a + 1;\nexport function g() { return !1; }\nlet h = () => 1, i = () => 2;\n",
            &[
                ("f", "const f = a => a + 1;", "a + 1", "+"),
                ("g", "export function g() { return !1; }", "{ return !1; }", "{ return ! ; }"),
                ("h", "h = () => 1", "1", ""),
                ("i", "i = () => 2", "2", ""),
            ],
        );
        check(
            "ruby",
            "def f(a)\n  a < 1\nend\ndef g; end\n",
            &[("f", "def f(a)\n  a < 1\nend", "a < 1", "<")],
        );
        check("python", "def f(:", &[]);
        check("markdown", "# f", &[]);
    }

    #[test]
    fn functions_in_functions_are_found_too() {
        let source = "def f():\n    def g():\n        return 1\n    return g\n";
        let python = language_named("python").unwrap();
        let names: Vec<String> =
            functions(python, source.as_bytes()).into_iter().map(|function| function.name).collect();
        assert_eq!(names, ["f", "g"]);
    }
}
