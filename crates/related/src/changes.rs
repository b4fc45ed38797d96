//! The commits that changed the definitions and files of a tree.

use std::sync::Arc;

use quarry_history::ChangeLog;
use rustc_hash::FxHashMap;

use crate::relations::{NONE, Relations};

/// A change loses half of its weight in this time, counted back from the newest commit.
const HALF_LIFE_DAYS: f32 = 730.0;

const SECONDS_PER_DAY: f32 = 86_400.0;

/// The history of a searched path.
pub struct LoggedRoot {
    /// Index of the searched path.
    pub root: usize,
    /// Its history.
    pub log: Arc<ChangeLog>,
    /// Index of the newest commit that is known: 0, except to ask what was known earlier.
    pub from: usize,
}

/// The commits of a tree by definition and by file.
#[derive(Default)]
pub struct Changes {
    roots: Vec<LoggedRoot>,
    /// Searched path (its position in `roots`), index in its log, and weight by age of each commit.
    commits: Vec<(usize, usize, f32)>,
    /// By candidate: positions of the commits that changed it, newest first.
    pub(crate) of_candidate: Vec<Vec<u32>>,
    pub(crate) of_file: Vec<Vec<u32>>,
    /// By commit.
    pub(crate) candidates: Vec<Vec<u32>>,
    pub(crate) files: Vec<Vec<u32>>,
}

/// Weight of a change by its age. Both times are authors' dates, which can be any number.
fn weight(newest: i64, seconds: i64) -> f32 {
    let days = newest.saturating_sub(seconds).max(0) as f32 / SECONDS_PER_DAY;
    0.5_f32.powf(days / HALF_LIFE_DAYS)
}

impl Changes {
    /// Joins histories with the definitions that a tree has now. `now` is the time in seconds since 1970 after which no
    /// commit can be; `i64::MAX` for a history of the past.
    pub fn new(
        relations: &Relations,
        names: &dyn Fn(usize) -> String,
        roots: Vec<LoggedRoot>,
        now: i64,
    ) -> Self {
        let mut found = Self {
            of_candidate: vec![Vec::new(); relations.candidates.len()],
            of_file: vec![Vec::new(); relations.files.len()],
            ..Self::default()
        };
        let files: FxHashMap<(usize, &str), u32> = relations
            .files
            .iter()
            .zip(0..)
            .map(|(file, number)| ((file.root, file.path.as_str()), number))
            .collect();
        let mut by_name: FxHashMap<(u32, String), u32> = FxHashMap::default();
        for (candidate, number) in relations.candidates.iter().zip(0..) {
            by_name.entry((candidate.file, names(candidate.unit))).or_insert(number);
        }
        for (at, LoggedRoot { root, log, from }) in roots.iter().enumerate() {
            let newest = log.commits.get(*from).map_or(0, |commit| commit.seconds).min(now);
            // Most paths and names come again.
            let mut file_of: FxHashMap<u32, u32> = FxHashMap::default();
            let mut candidate_of: FxHashMap<(u32, u32), u32> = FxHashMap::default();
            for (number, paths, functions) in log.resolved(*from) {
                let commit = u32::try_from(found.commits.len()).unwrap_or(NONE);
                found.commits.push((at, number, weight(newest, log.commits[number].seconds)));
                let mut file = |path: u32| {
                    *file_of
                        .entry(path)
                        .or_insert_with(|| files.get(&(*root, log.text(path))).copied().unwrap_or(NONE))
                };
                let mut of_commit: Vec<u32> =
                    paths.into_iter().map(&mut file).filter(|file| *file != NONE).collect();
                of_commit.sort_unstable();
                of_commit.dedup();
                of_commit.iter().for_each(|file| found.of_file[*file as usize].push(commit));
                found.files.push(of_commit);
                let candidate = |(path, name): (u32, u32)| {
                    *candidate_of.entry((path, name)).or_insert_with(|| {
                        let key = (file(path), log.text(name).to_owned());
                        by_name.get(&key).copied().unwrap_or(NONE)
                    })
                };
                let mut of_commit: Vec<u32> =
                    functions.into_iter().map(candidate).filter(|candidate| *candidate != NONE).collect();
                of_commit.sort_unstable();
                of_commit.dedup();
                of_commit.iter().for_each(|candidate| found.of_candidate[*candidate as usize].push(commit));
                found.candidates.push(of_commit);
            }
        }
        found.roots = roots;
        found
    }

    /// Weight of a commit by its age, 0 to 1.
    pub(crate) fn weight(&self, commit: u32) -> f32 {
        self.commits[commit as usize].2
    }

    /// A commit, with its log.
    pub(crate) fn commit(&self, commit: u32) -> &quarry_history::LoggedCommit {
        let (root, number, _) = self.commits[commit as usize];
        &self.roots[root].log.commits[number]
    }

    /// Number of the searched path that a commit is of.
    pub(crate) fn root_of(&self, commit: u32) -> usize {
        self.roots[self.commits[commit as usize].0].root
    }

    /// Number of commits.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quarry_history::{CommitId, LoggedCommit};

    use super::*;

    #[test]
    fn dates_of_any_commit_count() {
        let commit = |seconds: i64| LoggedCommit {
            id: CommitId::parse(&"a".repeat(40)).unwrap(),
            seconds,
            message: String::new(),
            n_files: 1,
            files: Vec::new(),
            functions: Vec::new(),
            renames: Vec::new(),
        };
        let weights = |now: i64, seconds: &[i64]| -> Vec<f32> {
            let mut log = ChangeLog::new(Path::new("/x"));
            log.commits = seconds.iter().copied().map(commit).collect();
            let root = LoggedRoot { root: 0, log: Arc::new(log), from: 0 };
            let changes = Changes::new(&Relations::default(), &|_| String::new(), vec![root], now);
            (0..).take(seconds.len()).map(|number| changes.weight(number)).collect()
        };
        assert_eq!(weights(i64::MAX, &[i64::MAX, i64::MIN, i64::MAX]), [1.0, 0.0, 1.0]);
        assert_eq!(weights(0, &[i64::MIN, i64::MAX]), [1.0, 1.0]);
        let half_life = 730 * 86_400;
        // The date of the first commit is a mistake: the others are as old as they are.
        assert_eq!(weights(half_life, &[1_000 * half_life, half_life, 0]), [1.0, 1.0, 0.5]);
        assert_eq!(weights(i64::MAX, &[half_life, 0]), [1.0, 0.5]);
    }
}
