//! Which functions a commit changed.
//!
//! A function counts as changed if its letters and digits differ from those of every function in the files before, so
//! that moved or reformatted functions do not count.

use std::collections::HashSet;

use quarry_source::{Unit, UnitKind, extract, language_for};

use crate::git::Commit;
use crate::pairs::{cut_out, fingerprint};

/// Maximum number of functions that a commit changes; a commit that changes more is not about any of them.
pub const MAX_FUNCTIONS: usize = 5;

/// The functions that a commit changed or added, by path and name, without duplicates.
#[must_use]
pub fn changed_functions(commit: &Commit) -> Vec<(&str, String)> {
    let before: HashSet<u64> = commit
        .changes
        .iter()
        .flat_map(|change| functions(&change.path, &change.before))
        .map(|(_, hash)| hash)
        .collect();
    let mut changed: Vec<(&str, String)> = Vec::new();
    for change in &commit.changes {
        for (name, hash) in functions(&change.path, &change.after) {
            let function = (change.path.as_str(), name);
            if !before.contains(&hash) && !changed.contains(&function) {
                changed.push(function);
            }
        }
    }
    changed
}

/// The functions of a file by name, each with a hash of its code.
fn functions(path: &str, bytes: &[u8]) -> Vec<(String, u64)> {
    let Some(language) = language_for(path.as_ref(), bytes) else { return Vec::new() };
    let is_function = |unit: &Unit| matches!(unit.kind, UnitKind::Function | UnitKind::Method);
    let of_function = |unit: Unit| {
        let code = cut_out(bytes, unit.bytes.clone(), &unit.doc_bytes);
        (unit.name, fingerprint(&code))
    };
    extract(language, bytes).units.into_iter().filter(is_function).map(of_function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Change, Header};

    #[test]
    fn moved_and_formatted_functions_are_not_changed() {
        let before = "def keep(a, b):\n    return [a + b for a in range(b)]\n\n\ndef change(a, b):\n    return [a * b for b in range(a)]\n";
        let after = "def change(a, b):\n    return [a * b + 1 for b in range(a)]\n\n\ndef keep(a, b):\n    return [\n        a + b for a in range(b)\n    ]\n\n\ndef new(a, b):\n    return [a - b for b in range(a) if b]\n";
        let change = Change { path: "a.py".into(), before: before.into(), after: after.into() };
        let header = Header { id: "0".into(), message: String::new(), author: String::new(), parents: 1 };
        let commit = Commit { header, n_files: 1, changes: vec![change] };
        assert_eq!(changed_functions(&commit), [("a.py", "change".to_owned()), ("a.py", "new".to_owned())]);
    }
}
