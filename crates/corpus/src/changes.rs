//! Functions that a commit changed.
//!
//! A function counts as changed if its letters and digits differ from those of every function in the files before (or
//! after, see [`replaced_functions`]), so that moved or reformatted functions do not count.

use std::collections::HashSet;

use quarry_source::{Unit, UnitKind, extract, language_for};

use crate::summary::{cut_out, fingerprint};
use quarry_history::{Change, Commit};

/// Maximum number of functions that a commit changes; a commit that changes more is not about any of them.
pub const MAX_FUNCTIONS: usize = 5;

/// The functions that a commit changed or added, by path and name, without duplicates.
pub fn changed_functions(commit: &Commit) -> Vec<(&str, String)> {
    only_on_one_side(commit, &|change| change.after.as_slice(), &|change| change.before.as_slice(), true)
}

/// The functions that a commit changed or removed, by path and name as they were before it, without tests and duplicates.
pub fn replaced_functions(commit: &Commit) -> Vec<(&str, String)> {
    only_on_one_side(commit, &|change| change.before.as_slice(), &|change| change.after.as_slice(), false)
}

fn only_on_one_side<'c>(
    commit: &'c Commit,
    one: &dyn Fn(&'c Change) -> &'c [u8],
    other: &dyn Fn(&'c Change) -> &'c [u8],
    with_tests: bool,
) -> Vec<(&'c str, String)> {
    let others: HashSet<u64> = commit
        .changes
        .iter()
        .flat_map(|change| functions(&change.path, other(change), true))
        .map(|(_, hash)| hash)
        .collect();
    let mut found: Vec<(&str, String)> = Vec::new();
    for change in &commit.changes {
        for (name, hash) in functions(&change.path, one(change), with_tests) {
            let function = (change.path.as_str(), name);
            if !others.contains(&hash) && !found.contains(&function) {
                found.push(function);
            }
        }
    }
    found
}

/// The functions of a file by name, each with a hash of its code.
fn functions(path: &str, bytes: &[u8], with_tests: bool) -> Vec<(String, u64)> {
    let Some(language) = language_for(path.as_ref(), bytes) else { return Vec::new() };
    let is_function = |unit: &Unit| {
        matches!(unit.kind, UnitKind::Function | UnitKind::Method) && (with_tests || !unit.is_test)
    };
    let of_function = |unit: Unit| {
        let code = cut_out(bytes, unit.bytes.clone(), &unit.doc_bytes);
        (unit.name, fingerprint(&code))
    };
    extract(language, bytes).units.into_iter().filter(is_function).map(of_function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_history::Header;

    #[test]
    fn moved_and_formatted_functions_are_not_changed() {
        let before = "def keep(a, b):\n    return [a + b for a in range(b)]\n\n\ndef change(a, b):\n    return [a * b for b in range(a)]\n";
        let after = "def change(a, b):\n    return [a * b + 1 for b in range(a)]\n\n\ndef keep(a, b):\n    return [\n        a + b for a in range(b)\n    ]\n\n\ndef new(a, b):\n    return [a - b for b in range(a) if b]\n";
        let change = Change { path: "a.py".into(), before: before.into(), after: after.into() };
        let header = Header { id: "0".into(), parents: 1, ..Header::default() };
        let commit =
            Commit { header, parent: "1".into(), n_files: 1, changes: vec![change], ..Commit::default() };
        assert_eq!(changed_functions(&commit), [("a.py", "change".to_owned()), ("a.py", "new".to_owned())]);
        assert_eq!(replaced_functions(&commit), [("a.py", "change".to_owned())]);
    }
}
