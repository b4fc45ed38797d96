//! Parts of the standard library that code uses, and files with unsafe code.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Violation;
use crate::tree::Tree;

/// Paths of the standard library that may be used only in some directories, or not in some.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Import {
    /// As `std::fs`.
    paths: Vec<String>,
    /// Beginnings of the only paths of files that may use them.
    only_in: Option<Vec<String>>,
    /// Beginnings of paths of files that must not use them.
    #[serde(default)]
    never_in: Vec<String>,
    reason: String,
}

impl Import {
    fn forbids(&self, file: &str) -> bool {
        let is_in = |paths: &[String]| paths.iter().any(|path| file.starts_with(path.as_str()));
        is_in(&self.never_in) || self.only_in.as_deref().is_some_and(|paths| !is_in(paths))
    }
}

/// Checks what the crates' Rust files mention, comments aside.
pub(super) fn check(tree: &Tree, imports: &[Import]) -> Vec<Violation> {
    let mut found = Vec::new();
    for path in imports.iter().flat_map(|import| &import.never_in) {
        if !tree.has(path) {
            let message =
                format!("[[imports]] names {path}, which does not exist; name the new path of the code");
            found.push(Violation::new("crates/xtask/tidy.toml", None, message));
        }
    }
    for (file, text) in rust_files(tree) {
        let rules: Vec<&Import> = imports.iter().filter(|import| import.forbids(file)).collect();
        if rules.is_empty() {
            continue;
        }
        let tests =
            text.lines().position(|line| line == "#[cfg(test)]").map_or(usize::MAX, |index| index + 1);
        for (line, statement) in statements(text) {
            // Tests are callers: those in a file of functions of values may read fixtures.
            let binding = rules.iter().filter(|rule| rule.only_in.is_some() || line < tests);
            for rule in binding {
                for path in rule.paths.iter().filter(|path| mentions(&statement, path)) {
                    let message =
                        format!("{path} does not belong here: {}; move this to a caller", rule.reason);
                    found.push(Violation::new(file, line, message));
                }
            }
        }
    }
    found
}

/// Checks that the files with unsafe code are those that the rules list. The compiler sees to the rest: every crate
/// forbids or denies it, so that a file with it must say so in an attribute.
pub(super) fn check_unsafe(tree: &Tree, listed: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut found = Vec::new();
    let permits = |line: &str| line.contains("allow(unsafe_code") || line.contains("expect(unsafe_code");
    for (file, text) in rust_files(tree) {
        let line =
            statements(text).into_iter().find(|(_, statement)| permits(statement)).map(|(line, _)| line);
        if line.is_some() && !listed.contains_key(file) {
            let message = "unsafe code in a file that may not have any; do without, or list the file with a reason \
                           under [unsafe] in crates/xtask/tidy.toml";
            found.push(Violation::new(file, line, message));
        }
        if line.is_none() && listed.contains_key(file) {
            let message =
                "listed for unsafe code, but permits none; remove it from [unsafe] in crates/xtask/tidy.toml";
            found.push(Violation::new(file, None, message));
        }
    }
    for file in listed.keys().filter(|file| tree.text(file).is_none()) {
        let message = "listed under [unsafe] in crates/xtask/tidy.toml, but does not exist; remove it";
        found.push(Violation::new(file, None, message));
    }
    found
}

/// The Rust files of the crates, but for test data and for this crate, which does not ship and whose tests quote what
/// the rules forbid.
fn rust_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let is_checked = |path: &str| !path.contains("/tests/fixtures/") && !path.starts_with("crates/xtask/");
    tree.texts()
        .filter(move |(path, _)| path.starts_with("crates/") && path.ends_with(".rs") && is_checked(path))
}

/// The lines of a Rust file with their numbers (1-based), comments left out, each `use` declaration in one piece.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut statements: Vec<(usize, String)> = Vec::new();
    let mut in_use = false;
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.starts_with("//") {
            continue;
        }
        match statements.last_mut() {
            Some((_, statement)) if in_use => *statement += line,
            _ => statements.push((number, line.to_owned())),
        }
        let starts_use = line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "));
        in_use = (in_use || starts_use) && !line.contains(';');
    }
    statements
}

/// Returns whether a statement names a path by its last two segments: `std::fs` in `std::fs::read` and `std::{fmt,
/// fs}`.
fn mentions(statement: &str, path: &str) -> bool {
    let Some((parents, name)) = path.rsplit_once("::") else { return false };
    let parent = parents.rsplit("::").next().unwrap_or(parents);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    statement.match_indices(parent).any(|(at, _)| {
        let Some(rest) = statement[at + parent.len()..].strip_prefix("::") else { return false };
        let members =
            rest.strip_prefix('{').map_or_else(|| rest.split("::").next(), |group| group.split('}').next());
        !statement[..at].ends_with(is_word)
            && members.unwrap_or(rest).split(|c| !is_word(c)).any(|word| word == name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;
    use super::mentions;

    fn check(rules: &str, files: &[(&str, &str)], found: &[&str]) {
        check_rule(|tree, rules| super::check(tree, &rules.imports), rules, files, found);
    }

    fn check_unsafe(files: &[(&str, &str)], found: &[&str]) {
        let rules = "unsafe = { 'crates/a/src/map.rs' = 'maps' }";
        check_rule(|tree, rules| super::check_unsafe(tree, &rules.r#unsafe), rules, files, found);
    }

    #[test]
    fn finds_a_path_however_it_is_written() {
        for statement in
            ["use std::fs;", "std::fs::read(p)", "use std::{fmt, fs::File, io};", "use ::std::fs as f;"]
        {
            assert!(mentions(statement, "std::fs"), "{statement}");
        }
        for statement in [
            "use std::fmt;",
            "mystd::fs::read()",
            "use std::{fmt, fsx};",
            "std::path::fs",
            "std::mem::take(fs)",
        ] {
            assert!(!mentions(statement, "std::fs"), "{statement}");
        }
        for statement in
            ["std::process::Command::new(x)", "process::Command", "use std::process::{Command, ExitCode};"]
        {
            assert!(mentions(statement, "std::process::Command"), "{statement}");
        }
        for statement in ["use std::process::ExitCode;", "enum Command {", "command: Command"] {
            assert!(!mentions(statement, "std::process::Command"), "{statement}");
        }
    }

    #[test]
    fn keeps_paths_out_of_places() {
        let rules =
            "imports = [{ paths = ['std::fs', 'std::io'], never_in = ['crates/a/src/'], reason = 'pure' }]";
        check(
            rules,
            &[
                (
                    "crates/a/src/lib.rs",
                    "// std::fs is not used\nuse std::{\n    fmt,\n    fs,\n};\nfn f() -> std::io::Error {}\n",
                ),
                ("crates/a/tests/a.rs", "use std::fs;"),
                ("crates/a/src/b.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"),
            ],
            &[
                "crates/a/src/lib.rs:2: std::fs does not belong here: pure",
                "crates/a/src/lib.rs:6: std::io does not belong here: pure",
            ],
        );
        check(
            rules,
            &[("crates/b/src/lib.rs", "")],
            &["crates/xtask/tidy.toml: [[imports]] names crates/a/src/"],
        );
    }

    #[test]
    fn binds_paths_to_places() {
        let rules = "imports = [{ paths = ['std::net'], only_in = ['crates/a/tests/'], reason = 'alone' }]";
        let file = "fn f() {\n    std::net::TcpStream::connect(a)\n}";
        check(
            rules,
            &[
                ("crates/a/tests/a.rs", file),
                ("crates/a/src/lib.rs", file),
                ("crates/b/tests/fixtures/a.rs", file),
            ],
            &["crates/a/src/lib.rs:2: std::net does not belong here: alone"],
        );
    }

    #[test]
    fn unsafe_code_is_only_in_listed_files() {
        let with = "#[expect(unsafe_code, reason = \"maps\")]\nfn map() {}";
        check_unsafe(&[("crates/a/src/map.rs", with)], &[]);
        check_unsafe(
            &[("crates/a/src/map.rs", with), ("crates/a/src/lib.rs", with)],
            &["crates/a/src/lib.rs:1: unsafe code in a file that may not have any"],
        );
        check_unsafe(
            &[("crates/a/src/map.rs", "fn map() {}")],
            &["crates/a/src/map.rs: listed for unsafe code"],
        );
        check_unsafe(&[], &["crates/a/src/map.rs: listed under [unsafe]"]);
    }
}
