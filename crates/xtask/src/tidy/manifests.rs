//! Allowed dependencies between crates, and the form of manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::{Table, Value};

use super::{Rules, Violation, crate_of, is_match};
use crate::tree::Tree;

/// Packages that only some crates may depend on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outside {
    packages: Vec<String>,
    crates: Vec<String>,
    reason: String,
}

const ROOT: &str = "Cargo.toml";
const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
/// Keys of `[package]` that are the same everywhere.
const SHARED_KEYS: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(tree: &Tree, rules: &Rules) -> Vec<Violation> {
    let mut found = Vec::new();
    let root = tree.text(ROOT).map(|text| read(ROOT, text, &mut found)).unwrap_or_default();
    let unsafe_crates: BTreeSet<&str> = rules.r#unsafe.keys().filter_map(|path| crate_of(path)).collect();
    let mut used: BTreeSet<String> = BTreeSet::new();
    for name in tree.directories("crates/") {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(text) = tree.text(&path) else {
            found.push(Violation::new(
                &path,
                None,
                "a directory in crates/ is a crate; give it a manifest, or move it",
            ));
            continue;
        };
        let table = read(&path, text, &mut found);
        let manifest = Manifest { name, path: &path, text, table: &table };
        manifest.check_package(&mut found);
        manifest.check_lints(&root, unsafe_crates.contains(name), &mut found);
        manifest.check_dependencies(rules, &mut found);
        used.extend(dependencies(&table).into_keys().map(str::to_owned));
    }
    for name in rules.crates.keys().filter(|name| !tree.has(&format!("crates/{name}"))) {
        let message = format!("[crates] names {name}, which does not exist; remove it");
        found.push(Violation::new("crates/xtask/tidy.toml", None, message));
    }
    for name in at(&root, &["workspace", "dependencies"]).into_iter().flat_map(Table::keys) {
        if !used.contains(name) {
            let line = tree.text(ROOT).and_then(|text| line_of_key(text, name));
            found.push(Violation::new(ROOT, line, format!("no crate depends on {name}; remove it")));
        }
    }
    found
}

struct Manifest<'a> {
    name: &'a str,
    path: &'a str,
    text: &'a str,
    table: &'a Table,
}

impl Manifest<'_> {
    fn check_package(&self, found: &mut Vec<Violation>) {
        let empty = Table::new();
        let package = at(self.table, &["package"]).unwrap_or(&empty);
        let name = format!("quarry-{}", self.name);
        if package.get("name").and_then(Value::as_str) != Some(&name) {
            let message = format!("the package of this directory is named {name}; rename one of them");
            found.push(self.violation("name", message));
        }
        for key in SHARED_KEYS {
            if !package.get(key).is_some_and(is_inherited) {
                found.push(self.violation(key, format!("expected `{key}.workspace = true` in [package]")));
            }
        }
    }

    fn check_lints(&self, root: &Table, may_be_unsafe: bool, found: &mut Vec<Violation>) {
        let lints = at(self.table, &["lints"]);
        if !may_be_unsafe {
            if !lints.and_then(|lints| lints.get("workspace")).and_then(Value::as_bool).unwrap_or(false) {
                let message = "expected `workspace = true` in [lints]; for unsafe code, list its file under [unsafe] in \
                               crates/xtask/tidy.toml";
                found.push(self.violation("[lints", message.to_owned()));
            }
            return;
        }
        let mut expected = at(root, &["workspace", "lints"]).cloned().unwrap_or_default();
        if let Some(rust) = expected.get_mut("rust").and_then(Value::as_table_mut) {
            rust.insert("unsafe_code".to_owned(), Value::from("deny"));
        }
        if lints != Some(&expected) {
            let message =
                "expected the workspace's lints with `unsafe_code = \"deny\"`; copy them from Cargo.toml";
            found.push(self.violation("[lints", message.to_owned()));
        }
    }

    fn check_dependencies(&self, rules: &Rules, found: &mut Vec<Violation>) {
        let allowed = rules.crates.get(self.name);
        if allowed.is_none() {
            let message =
                "its allowed dependencies are missing; add it to [crates] in crates/xtask/tidy.toml";
            found.push(Violation::new(self.path, None, message));
        }
        for (package, value) in dependencies(self.table) {
            if !is_inherited(value) {
                let message = format!(
                    "expected `{package}.workspace = true`; put its version into [workspace.dependencies] of Cargo.toml"
                );
                found.push(self.violation(package, message));
            }
            if let (Some(other), Some(allowed)) = (package.strip_prefix("quarry-"), allowed)
                && !allowed.iter().any(|name| name == other)
            {
                let message = format!(
                    "{} must not depend on {other}; move what it needs into a crate that both may use",
                    self.name
                );
                found.push(self.violation(package, message));
            }
            for rule in &rules.outside {
                let is_bound = rule.packages.iter().any(|pattern| is_match(pattern, package));
                if is_bound && !rule.crates.iter().any(|name| name == self.name) {
                    let message = format!(
                        "{} must not depend on {package}: {}; {}",
                        self.name,
                        rule.reason,
                        remedy(&rule.crates)
                    );
                    found.push(self.violation(package, message));
                }
            }
        }
    }

    fn violation(&self, key: &str, message: String) -> Violation {
        Violation::new(self.path, line_of_key(self.text, key), message)
    }
}

fn remedy(crates: &[String]) -> String {
    match crates {
        [] => "do without it, or change the rule in crates/xtask/tidy.toml".to_owned(),
        _ => format!("use what {} offers", crates.join(" or ")),
    }
}

fn read(path: &str, text: &str, found: &mut Vec<Violation>) -> Table {
    text.parse().unwrap_or_else(|error: toml::de::Error| {
        found.push(Violation::new(path, None, format!("is not valid TOML: {}", error.message())));
        Table::new()
    })
}

/// All dependencies of a manifest by name, of any kind and for any target.
fn dependencies(manifest: &Table) -> BTreeMap<&str, &Value> {
    let targets = at(manifest, &["target"]).into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

fn at<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a Table> {
    keys.iter().try_fold(table, |table, key| table.get(*key)?.as_table())
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// The first line (1-based) that begins with `key`.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        line.strip_prefix(key)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "-_".contains(c)))
    };
    text.lines().position(is_key).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    const RULES: &str = r#"
        crates = { low = [], high = ["low"] }
        outside = [{ packages = ["engine", "engine-*"], crates = ["low"], reason = "low alone has it" }]
    "#;
    const ROOT: &str = "
[workspace.dependencies]
engine = '1'
engine-extra = '1'
quarry-high = '1'
quarry-low = '1'
[workspace.lints.rust]
unsafe_code = 'forbid'
missing_docs = 'warn'
";
    const LINTS: &str = "[lints]\nworkspace = true\n";

    /// A manifest: its package, and further lines.
    fn manifest(name: &str, rest: &str) -> String {
        let shared: String =
            super::SHARED_KEYS.iter().map(|key| format!("{key}.workspace = true\n")).collect();
        format!("[package]\nname = 'quarry-{name}'\n{shared}{rest}")
    }

    fn check(low: &str, high: &str, found: &[&str]) {
        check_with(RULES, &manifest("low", low), &manifest("high", high), found);
    }

    fn check_with(rules: &str, low: &str, high: &str, found: &[&str]) {
        let files = [("Cargo.toml", ROOT), ("crates/low/Cargo.toml", low), ("crates/high/Cargo.toml", high)];
        check_rule(super::check, rules, &files, found);
    }

    const LOW: &str = "[lints]\nworkspace = true\n[dependencies]\nengine.workspace = true\n[dev-dependencies]\n\
                       engine-extra = { workspace = true, features = ['x'] }\n";
    const HIGH: &str = "[lints]\nworkspace = true\n[target.'cfg(unix)'.dependencies]\nquarry-low.workspace = true\n\
                        [build-dependencies]\nquarry-high.workspace = true\n";

    #[test]
    fn crates_depend_on_what_their_rule_names() {
        let rules = RULES.replace("[\"low\"]", "[\"low\", \"high\"]");
        check_with(&rules, &manifest("low", LOW), &manifest("high", HIGH), &[]);
        check(LOW, HIGH, &["crates/high/Cargo.toml:13: high must not depend on high"]);
        let low = format!("{LOW}quarry-high.workspace = true\n");
        check(
            &low,
            LINTS,
            &[
                "Cargo.toml:6: no crate depends on quarry-low",
                "crates/low/Cargo.toml:14: low must not depend on high",
            ],
        );
    }

    #[test]
    fn packages_are_bound_to_their_crates() {
        let high = "[lints]\nworkspace = true\n[dependencies]\nengine-extra.workspace = true\nquarry-low.workspace = true\n\
                    quarry-high.workspace = true\n";
        let rules = RULES.replace("[\"low\"] }", "[\"low\", \"high\"] }");
        check_with(
            &rules,
            &manifest("low", LOW),
            &manifest("high", high),
            &[
                "crates/high/Cargo.toml:11: high must not depend on engine-extra: low alone has it; use what low offers",
            ],
        );
    }

    #[test]
    fn every_crate_has_a_rule_and_every_rule_a_crate() {
        let rules = "crates = { low = [], gone = [] }";
        check_with(
            rules,
            &manifest("low", LOW),
            &manifest("high", HIGH),
            &[
                "crates/high/Cargo.toml: its allowed dependencies are missing",
                "crates/xtask/tidy.toml: [crates] names gone",
            ],
        );
    }

    #[test]
    fn manifests_inherit_from_the_workspace() {
        let rules = "crates = { low = ['low'], high = ['low', 'high'] }";
        let low = manifest("wrong", "[lints.rust]\nmissing_docs = 'warn'\n[dependencies]\nengine = '1'\n")
            .replace("edition.workspace = true", "edition = '2021'");
        let high = manifest(
            "high",
            &HIGH.replace("[build", "[dev-dependencies]\nengine-extra.workspace = true\n[build"),
        );
        check_with(
            rules,
            &low,
            &high,
            &[
                "crates/low/Cargo.toml:2: the package of this directory is named quarry-low",
                "crates/low/Cargo.toml:4: expected `edition.workspace = true`",
                "crates/low/Cargo.toml:8: expected `workspace = true` in [lints]",
                "crates/low/Cargo.toml:11: expected `engine.workspace = true`",
            ],
        );
    }

    #[test]
    fn a_crate_with_unsafe_code_has_the_other_lints() {
        let rules =
            "crates = { low = [], high = ['low', 'high'] }\nunsafe = { 'crates/low/src/map.rs' = 'maps' }";
        let low = |lints: &str| manifest("low", &LOW.replace(LINTS, lints));
        let high = manifest("high", HIGH);
        check_with(rules, &low("[lints.rust]\nunsafe_code = 'deny'\nmissing_docs = 'warn'\n"), &high, &[]);
        let expected = ["crates/low/Cargo.toml:8: expected the workspace's lints"];
        check_with(rules, &low("[lints.rust]\nunsafe_code = 'deny'\n"), &high, &expected);
        check_with(rules, &low(LINTS), &high, &expected);
    }

    #[test]
    fn invalid_manifests_are_reported() {
        let files = [("Cargo.toml", "a = ["), ("crates/low/src/lib.rs", "")];
        check_rule(
            super::check,
            "crates = { low = [] }",
            &files,
            &["Cargo.toml: is not valid TOML", "crates/low/Cargo.toml: a directory in crates/ is a crate"],
        );
    }
}
