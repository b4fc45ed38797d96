//! Listing the indexes of a user, and pruning them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection};
use quarry_index::{Index, OpenOptions, Opened, RebuildReason, Update, UserDirectories, UserIndexes};
use quarry_test_support::files;

use crate::answer;

/// Trees, and separate directories for everything else a user has.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    /// Creates trees with these names, which are indexed in the cache.
    fn new(trees: &[&str]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        for tree in trees {
            fs::create_dir(fixture.tree(tree)).unwrap();
            fs::write(fixture.tree(tree).join("net.py"), "def connect(host):\n    return dial(host)\n")
                .unwrap();
            fixture.open(tree);
        }
        fixture
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn user(&self) -> UserDirectories {
        UserDirectories::below(self.directory.path())
    }

    fn open(&self, tree: &str) -> Opened {
        let options = OpenOptions { update: Update::Required, user: self.user(), ..OpenOptions::default() };
        Index::open_or_build(&self.tree(tree), &options, None, &|_| {}).unwrap()
    }

    /// The directory of a tree's index.
    fn index_directory(&self, tree: &str) -> PathBuf {
        let options = OpenOptions { user: self.user(), ..OpenOptions::default() };
        Index::status(&self.tree(tree), &options).unwrap().directory
    }

    /// The directory of all indexes.
    fn indexes(&self) -> PathBuf {
        self.user().cache.unwrap().join("index")
    }

    fn prune(&self, selection: Selection, dry_run: bool) -> Vec<Pruned> {
        UserIndexes::prune(&self.user(), selection, dry_run).unwrap()
    }

    fn states(&self) -> Vec<(String, EntryState)> {
        let listed = UserIndexes::list(&self.user()).unwrap();
        listed.into_iter().map(|entry| (entry.what, entry.state)).collect()
    }
}

fn is_removed(pruned: &Pruned) -> bool {
    matches!(pruned.outcome, PruneOutcome::Removed(bytes) if bytes > 0)
}

fn days_ago(days: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60)
}

fn finds_something(index: &Index) {
    assert_eq!(answer(index, "connect").unwrap().hits[0].path, "net.py");
}

#[test]
fn the_index_of_a_tree_that_is_gone_is_removed() {
    let fixture = Fixture::new(&["a", "b"]);
    let gone = fixture.index_directory("b");
    assert!(fixture.prune(Selection::Useless, false).is_empty());
    fs::remove_dir_all(fixture.tree("b")).unwrap();
    let name = |tree: &str| fixture.tree(tree).display().to_string();
    assert_eq!(fixture.states(), [(name("a"), EntryState::Useful), (name("b"), EntryState::Orphaned)]);
    for dry_run in [true, false] {
        let pruned = fixture.prune(Selection::Useless, dry_run);
        assert!(matches!(pruned.as_slice(), [one] if is_removed(one) && one.path == gone), "{pruned:?}");
        assert_eq!(gone.exists(), dry_run);
    }
    assert!(fixture.open("a").built.is_none(), "the other one is as it was");
}

#[test]
fn a_search_notes_that_it_used_an_index() {
    let fixture = Fixture::new(&["a", "b"]);
    for tree in ["a", "b"] {
        for file in ["lock", "manifest.json"] {
            let file = File::options().append(true).open(fixture.index_directory(tree).join(file)).unwrap();
            file.set_modified(days_ago(40)).unwrap();
        }
    }
    assert!(fixture.open("a").built.is_none());
    let used = |position: usize| UserIndexes::list(&fixture.user()).unwrap()[position].used;
    assert!(used(0) > days_ago(1) && used(1) < days_ago(39));
    assert!(fixture.prune(Selection::UnusedSince(days_ago(50)), false).is_empty());
    let directory = fixture.index_directory("b");
    let pruned = fixture.prune(Selection::UnusedSince(days_ago(30)), false);
    assert!(matches!(pruned.as_slice(), [one] if is_removed(one) && one.path == directory), "{pruned:?}");
    assert!(fixture.index_directory("a").exists() && !directory.exists());
}

#[test]
fn other_directories_are_left_alone() {
    let fixture = Fixture::new(&["a"]);
    let hash = "0123456789abcdef";
    let at = |name: &str| fixture.indexes().join(name);
    fs::create_dir(at("not-named-so")).unwrap();
    fs::create_dir(at(&format!("notes-{hash}"))).unwrap();
    fs::write(at(&format!("notes-{hash}/lock")), "").unwrap();
    fs::write(at(&format!("notes-{hash}/diary.txt")), "").unwrap();
    fs::create_dir(at(&format!("unlocked-{hash}"))).unwrap();
    fs::write(at(&format!("unlocked-{hash}/manifest.json")), "").unwrap();
    fs::write(at(&format!("file-{hash}")), "").unwrap();
    #[cfg(unix)]
    {
        // A link to an index, and a link instead of a part of an index.
        let outside = Fixture::new(&["outside"]);
        let index = outside.index_directory("outside");
        std::os::unix::fs::symlink(&index, at(&format!("link-{hash}"))).unwrap();
        std::os::unix::fs::symlink(
            outside.tree("outside"),
            fixture.index_directory("a").join("generation-77"),
        )
        .unwrap();
        let pruned = fixture.prune(Selection::All, false);
        assert_eq!(pruned.iter().filter(|pruned| is_removed(pruned)).count(), 1, "{pruned:?}");
        assert!(!fixture.index_directory("a").exists());
        assert!(outside.open("outside").built.is_none(), "what links lead to is as it was");
        assert!(at(&format!("link-{hash}")).symlink_metadata().is_ok());
    }
    let pruned = fixture.prune(Selection::All, false);
    let is_foreign = |pruned: &Pruned| matches!(pruned.outcome, PruneOutcome::Foreign(_));
    assert!(pruned.iter().all(|pruned| is_foreign(pruned) || is_removed(pruned)), "{pruned:?}");
    for name in ["not-named-so".to_owned(), format!("notes-{hash}/diary.txt"), format!("file-{hash}")] {
        assert!(at(&name).exists(), "{name}");
    }
    assert!(at(&format!("unlocked-{hash}/manifest.json")).exists());
    assert!(fixture.states().is_empty());
}

#[test]
fn leftovers_of_killed_writers_are_removed() {
    let fixture = Fixture::new(&["a"]);
    let directory = fixture.index_directory("a");
    for leftover in ["generation-99/files", "part-88/lexical/x", "manifest.json.new", "part-1/vectors-99"] {
        files::write(directory.join(leftover), "left");
    }
    // A first build that was killed leaves no manifest, and one that was killed at once not even a lock.
    let unfinished = fixture.indexes().join("b-0123456789abcdef");
    fs::create_dir_all(unfinished.join("part-1")).unwrap();
    fs::write(unfinished.join("lock"), "").unwrap();
    let empty = fixture.indexes().join("c-0123456789abcdef");
    fs::create_dir(&empty).unwrap();
    for dry_run in [true, false] {
        let pruned = fixture.prune(Selection::Useless, dry_run);
        assert!(
            matches!(pruned.as_slice(), [one, _, _] if matches!(one.outcome, PruneOutcome::Removed(16))),
            "{pruned:?}"
        );
        assert_eq!([unfinished.exists(), empty.exists()], [dry_run; 2]);
    }
    assert!(!directory.join("generation-99").exists() && !directory.join("part-1/vectors-99").exists());
    assert!(fixture.prune(Selection::Useless, false).is_empty());
    let opened = fixture.open("a");
    assert!(opened.built.is_none());
    finds_something(&opened.index);
}

#[test]
fn an_index_that_is_being_written_is_left_alone() {
    let fixture = Fixture::new(&["a"]);
    let directory = fixture.index_directory("a");
    let lock = File::open(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    for dry_run in [true, false] {
        let pruned = fixture.prune(Selection::All, dry_run);
        assert!(matches!(pruned.as_slice(), [Pruned { outcome: PruneOutcome::InUse, .. }]), "{pruned:?}");
    }
    drop(lock);
    assert!(is_removed(&fixture.prune(Selection::All, false)[0]) && !directory.exists());
}

#[test]
fn a_process_that_has_an_index_open_continues() {
    let fixture = Fixture::new(&["a"]);
    let opened = fixture.open("a");
    assert!(is_removed(&fixture.prune(Selection::All, false)[0]));
    finds_something(&opened.index);
    let again = fixture.open("a");
    assert_eq!(again.built.unwrap().reason, RebuildReason::Missing);
    finds_something(&again.index);
}

/// Indexes are built while they are constantly removed: each writer either has the lock of the existing index, or
/// takes it again.
#[test]
fn indexes_are_built_while_they_are_removed() {
    let fixture = Fixture::new(&["a", "b"]);
    let is_over = AtomicBool::new(false);
    let n_removed = std::thread::scope(|scope| {
        let pruning = scope.spawn(|| {
            let mut n_removed = 0;
            while !is_over.load(Ordering::SeqCst) {
                n_removed +=
                    fixture.prune(Selection::All, false).iter().filter(|one| is_removed(one)).count();
            }
            n_removed
        });
        let opening: Vec<_> = ["a", "a", "b"]
            .map(|tree| scope.spawn(|| (0..20).for_each(|_| finds_something(&fixture.open(tree).index))))
            .into();
        let opened: Vec<_> = opening.into_iter().map(|opening| opening.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        opened.into_iter().for_each(|opened| opened.unwrap());
        pruning.join().unwrap()
    });
    assert!(n_removed > 0);
    assert!(fixture.open("a").index.n_units() > 0);
}

#[test]
fn an_index_in_a_tree_is_listed_and_left_alone() {
    let fixture = Fixture::new(&["a"]);
    let options =
        OpenOptions { local: true, update: Update::Required, user: fixture.user(), ..OpenOptions::default() };
    Index::open_or_build(&fixture.tree("a"), &options, None, &|_| {}).unwrap();
    let local = fixture.tree("a").join(".quarry");
    let listed = UserIndexes::list(&fixture.user()).unwrap();
    let described = |entry: &CacheEntry| (entry.path.clone(), PathBuf::from(&entry.what), entry.state);
    assert_eq!(described(&listed[1]), (local.clone(), fixture.tree("a"), EntryState::InTree));
    assert_eq!((listed.len(), listed[0].state), (2, EntryState::Useful));
    fixture.prune(Selection::All, false);
    assert!(
        local.join("manifest.json").exists() && fs::read_dir(fixture.indexes()).unwrap().next().is_none()
    );
    // An index that came with the tree does not count as ours.
    fs::write(local.join("manifest.json"), "{}").unwrap();
    fs::write(local.join("manifest.copy.json"), "{}").unwrap();
    assert!(fixture.states().is_empty());
}
