//! Dependencies that the smallest build of a crate does without.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::{Table, Value};

use super::{Rules, Violation, is_match};
use crate::tree::Tree;

/// Dependencies that a crate must not have, however indirectly, when none of its features is on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Light {
    /// The crate, by directory name.
    name: String,
    /// Packages; `*` at the end stands for anything.
    without: Vec<String>,
}

const LOCK: &str = "Cargo.lock";

/// Checks what the crates of the rules depend on without features. The lock file names every package that a package may
/// need with any feature, so that this finds more than a build has, never less.
pub(super) fn check(tree: &Tree, rules: &Rules) -> Vec<Violation> {
    let lock = tree.text(LOCK).and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let packages = dependencies_by_name(&lock);
    let mut found = Vec::new();
    for Light { name: top, without } in &rules.light {
        let root = format!("quarry-{top}");
        // By name, the package that brought it; the first way to a package is one of the shortest.
        let mut reached: BTreeMap<String, Option<String>> = BTreeMap::from([(root.clone(), None)]);
        let mut next = vec![root];
        while !next.is_empty() {
            let mut after = Vec::new();
            for name in next {
                let needed = match name.strip_prefix("quarry-") {
                    Some(directory) => always_needed(tree, directory),
                    None => packages.get(name.as_str()).cloned().unwrap_or_default(),
                };
                for dependency in needed {
                    if !reached.contains_key(&dependency) {
                        reached.insert(dependency.clone(), Some(name.clone()));
                        after.push(dependency);
                    }
                }
            }
            next = after;
        }
        for name in reached.keys().filter(|name| without.iter().any(|pattern| is_match(pattern, name))) {
            let mut way = vec![name.as_str()];
            while let Some(Some(before)) = reached.get(way[way.len() - 1]) {
                way.push(before);
            }
            way.reverse();
            let message = format!(
                "without features it needs {name} ({}); make a dependency on this path optional",
                way.join(" → ")
            );
            found.push(Violation::new(&format!("crates/{top}/Cargo.toml"), None, message));
        }
    }
    found
}

/// Dependencies of the packages of a lock file, by name. Packages of several versions are taken together.
fn dependencies_by_name(lock: &Table) -> BTreeMap<&str, BTreeSet<String>> {
    let mut packages: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        let dependencies = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        // A name, and a version if there are several.
        let names = dependencies.filter_map(|dependency| dependency.as_str()?.split(' ').next());
        packages.entry(name).or_default().extend(names.map(str::to_owned));
    }
    packages
}

/// Dependencies that a crate of the workspace has whatever its features, for any target.
fn always_needed(tree: &Tree, directory: &str) -> BTreeSet<String> {
    let manifest = tree.text(&format!("crates/{directory}/Cargo.toml")).and_then(|text| text.parse().ok());
    let manifest: Table = manifest.unwrap_or_default();
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(&manifest).chain(targets.filter_map(Value::as_table));
    tables
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .filter_map(|table| table?.as_table())
        .flatten()
        .filter(|(_, value)| value.get("optional").and_then(Value::as_bool) != Some(true))
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    const RULES: &str = "light = [{ name = 'top', without = ['engine', 'net-*'] }]";
    const LOCK: &str = "
        [[package]]
        name = 'helper'
        dependencies = ['net-low 1.2.3']
        [[package]]
        name = 'net-low'
        [[package]]
        name = 'engine'
        [[package]]
        name = 'plain'
    ";

    fn check(top: &str, low: &str, found: &[&str]) {
        let files = [("Cargo.lock", LOCK), ("crates/top/Cargo.toml", top), ("crates/low/Cargo.toml", low)];
        check_rule(super::check, RULES, &files, found);
    }

    #[test]
    fn unconditional_dependencies_are_found_at_any_depth() {
        let top = "[dependencies]\nquarry-low.workspace = true\n";
        check(top, "[dependencies]\nplain.workspace = true\n", &[]);
        check(
            top,
            "[target.'cfg(unix)'.dependencies]\nhelper.workspace = true\n",
            &[
                "crates/top/Cargo.toml: without features it needs net-low (quarry-top → quarry-low → helper → net-low)",
            ],
        );
        check(
            "[build-dependencies]\nengine.workspace = true\n",
            "",
            &["crates/top/Cargo.toml: without features it needs engine (quarry-top → engine)"],
        );
    }

    #[test]
    fn dependencies_of_features_and_tests_are_not_counted() {
        let top = "[dependencies]\nquarry-low = { workspace = true, optional = true }\n\
                   [dev-dependencies]\nengine.workspace = true\n";
        check(top, "[dependencies]\nhelper.workspace = true\n", &[]);
    }
}
