//! The flow of data in functions. What is expected was compared, once, with what GraphCodeBERT's own extraction finds in
//! the same functions with the same grammars.

use std::fmt::Write;
use std::time::{Duration, Instant};

use quarry_source::{DataFlow, Language, data_flow, language_named, language_of_function};

use crate::fixtures::{check_fixtures, fixtures};

fn flow(language: &str, text: &str) -> DataFlow {
    data_flow(language_named(language).unwrap(), text).unwrap()
}

#[test]
fn variables_come_from_where_they_were_assigned() {
    let describe = |language: Language, text: &str| {
        let flow = data_flow(language, text).unwrap();
        let named = |token: &usize| format!("{}:{token}", flow.tokens[*token]);
        let mut lines = format!("{:?}\n", flow.tokens);
        for node in &flow.nodes {
            let sources: Vec<String> = node.sources.iter().map(named).collect();
            writeln!(lines, "{} <- {}", named(&node.token), sources.join(" ")).unwrap();
        }
        lines
    };
    check_fixtures("data_flow", |language| data_flow(language, "").is_some(), describe);
}

#[test]
fn tokens_are_those_of_the_syntax_tree_without_comments_and_docstrings() {
    let python = flow("python", "def f(a):\n    \"\"\"Doc.\"\"\"\n    # why\n    return \"x y\" + a\n");
    assert_eq!(python.tokens, ["def", "f", "(", "a", ")", ":", "return", "\"x y\"", "+", "a"]);
    let php = flow("php", "function f($a) { return $a; }");
    assert_eq!(php.tokens[..4], ["<?php", "function", "f", "("]);
    assert_eq!(php.tokens.last().unwrap(), "?>");
    assert_eq!(flow("python", "x = '''a\nb'''\n").tokens, ["x", "=", "'''ab'''"]);
    assert!(flow("python", "").nodes.is_empty());
}

#[test]
fn a_language_without_rules_has_no_data_flow() {
    for language in ["rust", "markdown", "typescript"] {
        assert_eq!(data_flow(language_named(language).unwrap(), "let a = 1; let b = a;"), None);
    }
}

#[test]
fn incomplete_statements_have_no_nodes() {
    // The variable of such a loop is neither of the two names that rules ask for.
    let flow = flow("php", "function f($a) { $b = $a; foreach ($a as $k => $v) { echo $b; } }");
    assert!(flow.nodes.is_empty() && flow.tokens.len() > 20, "{flow:?}");
}

#[test]
fn loops_in_loops_and_long_lists_end_soon() {
    let nested = (0..60).fold(String::from("def f(a):\n"), |text, depth| {
        text + &"  ".repeat(depth + 1) + &format!("for x{depth} in a:\n")
    }) + &"  ".repeat(61)
        + "a = a\n";
    let brackets = format!("x = {}1{}", "[".repeat(5000), "]".repeat(5000));
    let list = format!("var a = [{}], b = [a, a, a];", "a, ".repeat(20_000));
    let pairs = format!("({0}) = ({0})", "a, ".repeat(3000));
    let start = Instant::now();
    for (language, text) in [("python", nested), ("python", brackets), ("javascript", list), ("ruby", pairs)]
    {
        assert!(!flow(language, &text).tokens.is_empty());
    }
    // Without a limit, the first would take longer than the sun will shine.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn the_language_of_a_function_is_found_by_its_syntax() {
    for fixture in fixtures("data_flow") {
        let text = str::from_utf8(&fixture.source).unwrap();
        assert_eq!(language_of_function(text), Some(fixture.language), "{}", fixture.path.display());
    }
    let method = "public int twice(int a) { return a + a; }";
    assert_eq!(language_of_function(method), language_named("java"));
    for text in ["sort a list by value", "", "fn f(a: &str) -> u8 { 1 }", "a = 1", "def f(:\n  broken ((("] {
        assert_eq!(language_of_function(text), None, "{text}");
    }
}
