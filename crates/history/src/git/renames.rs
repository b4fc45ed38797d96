//! Files that a commit renamed, and what files were called before.

use std::collections::{HashMap, HashSet};

use git2::{Delta as Status, Oid};

use super::Delta;

/// Maximum number of added and of removed files of a commit among which renames are looked for.
const MAX_FILES: usize = 20_000;

/// Minimum share of distinct lines that a renamed file has in common with the file before.
const MIN_SHARED: f64 = 0.5;

/// The paths of files at the start of a history by those that they had earlier, while it is read backwards.
#[derive(Debug, Default)]
pub(super) struct Renames {
    now: HashMap<String, String>,
}

impl Renames {
    /// Name of a file at the start.
    pub(super) fn now<'p>(&'p self, path: &'p str) -> &'p str {
        self.now.get(path).map_or(path, String::as_str)
    }

    /// Adds a rename that is older than all before. What was called `old` earlier is that file, also where another
    /// got the name later.
    pub(super) fn add(&mut self, old: &str, new: &str) {
        let now = self.now(new).to_owned();
        self.now.insert(old.to_owned(), now);
    }
}

/// The renames of a commit, as indices of the removed and of the added file: of equal files, and with `compares` of
/// files of the same kind that share most of their lines.
pub(super) fn find(
    deltas: &[Delta],
    compares: bool,
    content: &mut dyn FnMut(Oid) -> Result<Option<Vec<u8>>, git2::Error>,
) -> Result<Vec<(usize, usize)>, git2::Error> {
    let with_status = |status: Status| -> Vec<usize> {
        (0..deltas.len()).filter(|number| deltas[*number].status == status).collect()
    };
    let (mut removed, mut added) = (with_status(Status::Deleted), with_status(Status::Added));
    let mut renamed = Vec::new();
    if removed.is_empty() || added.is_empty() || removed.len().max(added.len()) > MAX_FILES {
        return Ok(renamed);
    }
    let mut by_content: HashMap<Oid, Vec<usize>> = HashMap::new();
    for number in &removed {
        by_content.entry(deltas[*number].before).or_default().push(*number);
    }
    added.retain(|new| {
        // Empty files are equal, which shows nothing.
        let equal = by_content.get_mut(&deltas[*new].after).filter(|_| !is_empty(deltas[*new].after));
        let Some(equal) = equal.filter(|equal| !equal.is_empty()) else { return true };
        let same_name =
            equal.iter().position(|old| file_name(&deltas[*old].path) == file_name(&deltas[*new].path));
        renamed.push((equal.remove(same_name.unwrap_or(0)), *new));
        false
    });
    let equal: HashSet<usize> = renamed.iter().map(|(old, _)| *old).collect();
    removed.retain(|old| !equal.contains(old));
    if !compares || removed.is_empty() || added.is_empty() {
        return Ok(renamed);
    }
    let mut lines = |id: Oid| -> Result<HashSet<u64>, git2::Error> {
        let content = content(id)?.unwrap_or_default();
        let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        Ok(lines.filter(|line| !line.is_empty()).map(xxhash_rust::xxh3::xxh3_64).collect())
    };
    let mut of_removed = Vec::new();
    for old in removed {
        of_removed.push((old, lines(deltas[old].before)?));
    }
    for new in added {
        let ending = ending(&deltas[new].path);
        if !of_removed.iter().any(|(old, _)| self::ending(&deltas[*old].path) == ending) {
            continue;
        }
        let own = lines(deltas[new].after)?;
        let shared = |other: &HashSet<u64>| {
            own.intersection(other).count() as f64 / own.len().max(other.len()).max(1) as f64
        };
        let alike = (of_removed.iter().enumerate())
            .filter(|(_, (old, _))| self::ending(&deltas[*old].path) == ending)
            .map(|(place, (_, lines))| (shared(lines), place))
            .filter(|(share, _)| *share >= MIN_SHARED);
        // Of files that are equally alike the first.
        if let Some((_, place)) = alike.reduce(|best, other| if other.0 > best.0 { other } else { best }) {
            renamed.push((of_removed.remove(place).0, new));
        }
    }
    Ok(renamed)
}

/// Returns whether this is the id of the empty file.
fn is_empty(id: Oid) -> bool {
    Oid::hash_object(git2::ObjectType::Blob, &[]).is_ok_and(|empty| empty == id)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn ending(path: &str) -> Option<&str> {
    Some(file_name(path).rsplit_once('.')?.1)
}
