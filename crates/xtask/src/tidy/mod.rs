//! The rules of the repository. Which they are is data (`crates/xtask/tidy.toml`); here is how they are checked.

mod circles;
mod documents;
mod imports;
mod light;
mod manifests;
mod rule_files;
mod texts;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::tree::Tree;

/// The repository's rules as data.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, serde(default))]
pub(crate) struct Rules {
    /// For each crate, by directory name, the crates it may depend on.
    crates: BTreeMap<String, Vec<String>>,
    outside: Vec<manifests::Outside>,
    light: Vec<light::Light>,
    imports: Vec<imports::Import>,
    /// Files with unsafe code, with the reason.
    r#unsafe: BTreeMap<String, String>,
    circles: circles::Circles,
    large: texts::Large,
    words: texts::Words,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    /// 1-based; none for a file as a whole.
    line: Option<usize>,
    /// The finding, the expectation, and the remedy.
    message: String,
}

impl Violation {
    fn new(path: &str, line: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: line.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Every violation in `tree`, in order of paths and lines.
pub(crate) fn check(tree: &Tree, rules: &Rules) -> Vec<Violation> {
    let mut violations: Vec<Violation> = [
        manifests::check(tree, rules),
        light::check(tree, rules),
        imports::check(tree, &rules.imports),
        imports::check_unsafe(tree, &rules.r#unsafe),
        circles::check(tree, &rules.circles),
        documents::check(tree),
        texts::check_sizes(tree, &rules.large),
        texts::check_words(tree, &rules.words),
        rule_files::check(tree),
    ]
    .into_iter()
    .flatten()
    .collect();
    violations.sort();
    violations
}

/// The name of the crate that a path is in: `index` of `crates/index/src/lib.rs`.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
}

/// Returns whether `name` is `pattern`, whose last character may be `*`, which stands for anything.
fn is_match(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks one rule over files given as path and text: `found` are the beginnings of its messages, in order.
    pub(super) fn check(
        rule: impl FnOnce(&Tree, &Rules) -> Vec<Violation>,
        rules: &str,
        files: &[(&str, &str)],
        found: &[&str],
    ) {
        let tree: Tree = files.iter().copied().collect();
        let mut violations = rule(&tree, &toml::from_str(rules).unwrap());
        violations.sort();
        let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let agree =
            messages.len() == found.len() && messages.iter().zip(found).all(|(m, f)| m.starts_with(f));
        assert!(agree, "expected {found:#?}\nfound {messages:#?}");
    }
}
