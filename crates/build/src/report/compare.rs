//! Differences between two builds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::error::BuildError;
use crate::jsonl;
use crate::outputs::{BUILD, PAIRS_FILE};
use crate::record::PairRecord;
use crate::step::{OutputFile, Step, directory_of, files_of, last_build};

/// A step that differs between two builds, or exists in only one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StepChange {
    /// Name of the step.
    pub name: String,
    /// Counts that differ: those of the first and of the second build; `None` if a build has no such count.
    pub counts: BTreeMap<String, [Option<u64>; 2]>,
    /// True for each of the two builds that has the step.
    pub is_in: [bool; 2],
}

/// Differences between two builds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "BuildComparison")]
pub struct Comparison {
    /// Names of equal steps.
    pub same: Vec<String>,
    /// All other steps, in the order of the first build, followed by those only in the second.
    pub changed: Vec<StepChange>,
    /// Number of labeled pairs of the first build that are missing in the second.
    pub pairs_removed: usize,
    /// Number of labeled pairs of the second build that are missing in the first.
    pub pairs_added: usize,
    /// Number of pairs in both with different labels.
    pub pairs_relabelled: usize,
    /// Files of exports that differ, or are missing in one of the builds, as recorded when they were built.
    pub files_changed: Vec<String>,
    /// Files of exports of either build that have changed since they were built.
    pub damaged: [Vec<Damage>; 2],
}

/// A file of an export that has changed since it was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Damage {
    /// Path relative to the directory of the build, `/` between parts.
    pub path: String,
    /// The kind of change.
    pub kind: DamageKind,
}

/// The kind of change to a file of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum DamageKind {
    /// It was removed.
    Missing,
    /// Its content has changed.
    Altered,
    /// It was not written by the build.
    Foreign,
}

impl std::fmt::Display for DamageKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "is missing",
            Self::Altered => "was altered",
            Self::Foreign => "was not built",
        })
    }
}

/// The files of exports that have changed since the last build, by content; empty if nothing was built.
pub fn damaged_exports(root: &Path) -> Result<Vec<Damage>, BuildError> {
    if !root.join(BUILD).exists() {
        return Ok(Vec::new());
    }
    damage(root, &last_build(root)?)
}

fn damage(root: &Path, steps: &[Step]) -> Result<Vec<Damage>, BuildError> {
    let mut damaged = Vec::new();
    for (format, step) in exports(steps) {
        let directory = root.join("exports").join(format);
        let found = if directory.is_dir() { files_of(&directory)? } else { BTreeMap::new() };
        let names: BTreeSet<&String> = step.files.keys().chain(found.keys()).collect();
        for name in names {
            let kind = match (step.files.get(name), found.get(name)) {
                (Some(built), Some(found)) if built == found => continue,
                (Some(_), Some(_)) => DamageKind::Altered,
                (Some(_), None) => DamageKind::Missing,
                (None, _) => DamageKind::Foreign,
            };
            damaged.push(Damage { path: format!("exports/{format}/{name}"), kind });
        }
    }
    Ok(damaged)
}

fn exports(steps: &[Step]) -> impl Iterator<Item = (&str, &Step)> {
    steps.iter().filter_map(|step| Some((step.name.strip_prefix("export ")?, step)))
}

fn changed_files(first: &[Step], second: &[Step]) -> Vec<String> {
    let files = |steps: &[Step]| -> BTreeMap<String, OutputFile> {
        let of_step = |(format, step): (&str, &Step)| -> Vec<(String, OutputFile)> {
            step.files.iter().map(|(name, file)| (format!("exports/{format}/{name}"), file.clone())).collect()
        };
        exports(steps).flat_map(of_step).collect()
    };
    let [first, second] = [files(first), files(second)];
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    names.into_iter().filter(|name| first.get(*name) != second.get(*name)).cloned().collect()
}

/// Compares the last builds in two directories: steps by what they depend on, labeled pairs by query and code.
///
/// # Errors
/// When nothing was built in one of them, or it cannot be read.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, BuildError> {
    let steps = [last_build(first)?, last_build(second)?];
    let labels = [labels(first, &steps[0])?, labels(second, &steps[1])?];
    let mut comparison = compare_steps(&steps[0], &steps[1]);
    for (pair, label) in &labels[0] {
        match labels[1].get(pair) {
            None => comparison.pairs_removed += 1,
            Some(other) => comparison.pairs_relabelled += usize::from(other != label),
        }
    }
    comparison.pairs_added = labels[1].keys().filter(|pair| !labels[0].contains_key(*pair)).count();
    comparison.files_changed = changed_files(&steps[0], &steps[1]);
    comparison.damaged = [damage(first, &steps[0])?, damage(second, &steps[1])?];
    Ok(comparison)
}

fn labels(directory: &Path, steps: &[Step]) -> Result<BTreeMap<String, Option<i32>>, BuildError> {
    let mut labels = BTreeMap::new();
    if let Some(step) = steps.iter().find(|step| step.name == "labels") {
        let path = directory_of(directory, &step.key()).join(PAIRS_FILE);
        jsonl::for_each(&path, &mut |pair: PairRecord, _| {
            labels.insert(pair.id, pair.label);
            Ok(())
        })?;
    }
    Ok(labels)
}

fn compare_steps(first: &[Step], second: &[Step]) -> Comparison {
    let mut comparison = Comparison::default();
    let named = |steps: &[Step], name: &str| steps.iter().find(|step| step.name == name).cloned();
    let of_second = second.iter().filter(|step| named(first, &step.name).is_none());
    for Step { name, .. } in first.iter().chain(of_second) {
        let both = [named(first, name), named(second, name)];
        if let [Some(one), Some(other)] = &both
            && one.key() == other.key()
        {
            comparison.same.push(name.clone());
            continue;
        }
        let counts =
            both.each_ref().map(|step| step.as_ref().map(|step| step.counts.clone()).unwrap_or_default());
        let names: BTreeSet<&String> = counts.iter().flat_map(BTreeMap::keys).collect();
        let numbers = names
            .into_iter()
            .map(|name| (name.clone(), counts.each_ref().map(|counts| counts.get(name).copied())));
        let counts = numbers.filter(|(_, [one, other])| one != other).collect();
        let is_in = both.each_ref().map(Option::is_some);
        comparison.changed.push(StepChange { name: name.clone(), counts, is_in });
    }
    comparison
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, parameter: u32, count: u64) -> Step {
        Step { counts: [("kept".to_owned(), count)].into(), ..Step::new(name, 1, &parameter, &[]) }
    }

    #[test]
    fn steps_are_compared_by_what_they_depend_on() {
        let first = [step("pool", 1, 5), step("queries a", 1, 2), step("labels", 1, 9)];
        let second = [step("pool", 1, 5), step("queries b", 2, 3), step("labels", 2, 9)];
        let comparison = compare_steps(&first, &second);
        assert_eq!(comparison.same, ["pool"]);
        let changed: Vec<(&str, [bool; 2], usize)> = comparison
            .changed
            .iter()
            .map(|step| (step.name.as_str(), step.is_in, step.counts.len()))
            .collect();
        assert_eq!(
            changed,
            [("queries a", [true, false], 1), ("labels", [true, true], 0), ("queries b", [false, true], 1)]
        );
        assert_eq!(comparison.changed[0].counts["kept"], [Some(2), None]);
    }
}
