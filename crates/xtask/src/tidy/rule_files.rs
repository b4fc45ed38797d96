//! Every language's rule file has a fixture.

use toml::Table;

use super::Violation;
use crate::tree::Tree;

const RULES: &str = "crates/source/rules/";
const FIXTURES: &str = "crates/source/tests/fixtures/";

/// Checks that each rule file of a language has a source file of the same name among the fixtures, with the units
/// that are expected of it. A file that others inherit is tested with them; one that lists languages by name only
/// cuts nothing.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let rules: Vec<(&str, Table)> = tree
        .texts()
        .filter(|(path, _)| path.starts_with(RULES) && path.ends_with(".toml"))
        .filter_map(|(path, text)| Some((path, text.parse().ok()?)))
        .collect();
    let is_inherited = |name: &str| {
        rules.iter().any(|(_, table)| table.get("inherits").and_then(|other| other.as_str()) == Some(name))
    };
    let lacks_fixture = |path: &str, table: &Table| {
        let name = path.trim_start_matches(RULES).trim_end_matches(".toml");
        let has_units = |source: &str| tree.text(&format!("{source}.txt")).is_some();
        let start = format!("{FIXTURES}{name}.");
        table.contains_key("name")
            && !is_inherited(name)
            && !tree.texts().any(|(source, _)| source.starts_with(&start) && has_units(source))
    };
    let lacking = rules.iter().filter(|(path, table)| lacks_fixture(path, table));
    lacking
        .map(|(path, _)| {
            let message = format!(
                "has no fixture; add a source file of the same name to {FIXTURES}, and its units (.txt)"
            );
            Violation::new(path, None, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    fn check(files: &[(&str, &str)], found: &[&str]) {
        check_rule(|tree, _| super::check(tree), "", files, found);
    }

    #[test]
    fn languages_have_fixtures() {
        let rules = [
            ("crates/source/rules/c.toml", "name = 'c'"),
            ("crates/source/rules/cpp.toml", "name = 'cpp'\ninherits = 'base'"),
            ("crates/source/rules/base.toml", "name = 'base'"),
            ("crates/source/rules/plain.toml", "[[language]]\nname = 'ada'"),
        ];
        let fixtures = [
            ("crates/source/tests/fixtures/c.c", "int f();"),
            ("crates/source/tests/fixtures/c.c.txt", "1-1"),
            ("crates/source/tests/fixtures/cpp.cpp", "int f();"),
            ("crates/source/tests/fixtures/cpp.cpp.txt", "1-1"),
        ];
        check(&[&rules[..], &fixtures].concat(), &[]);
        check(&[&rules[..], &fixtures[..3]].concat(), &["crates/source/rules/cpp.toml: has no fixture"]);
        check(
            &rules,
            &["crates/source/rules/c.toml: has no fixture", "crates/source/rules/cpp.toml: has no fixture"],
        );
    }
}
