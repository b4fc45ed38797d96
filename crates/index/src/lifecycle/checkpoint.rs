//! Checkpoints of a first build, in case it is interrupted.
//!
//! No manifest names a part before all parts are complete, so readers do not see it. Meanwhile, the directory of a
//! finished part contains two additional things: the table of its own files, and `finished.json`, which says what the
//! part was built from and has a checksum like a manifest. The next writer treats such parts as a generation without
//! the other files. When the manifest is published, both are removed. Work of less than a second is not stored,
//! because writing a checkpoint takes time as well.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quarry_files::Directory;
use quarry_walk::{Skipped, WalkOptions};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::lifecycle::source_tree::Tree;
use crate::storage::index_directory::{FINISHED_FILE, MAX_MANIFEST_BYTES, Manifest, WriterLock};
use crate::storage::stored_file::{StoredFile, replace_file};
use crate::storage::table::{FileRecord, PartSize, Table, TableBuilder, TableSize, UnitRecord};
use crate::version::{FORMAT, PROGRAM};

/// Minimum work that is worth storing.
const MIN_WORK: Duration = Duration::from_secs(1);

/// A part, and what it was built from.
#[derive(Serialize, Deserialize)]
struct FinishedPart {
    format: u32,
    program: String,
    /// Canonical path of the tree.
    root: String,
    walk: WalkOptions,
    looked_ns: u64,
    /// The size of its own table, and the table's files.
    size: TableSize,
    table: Vec<StoredFile>,
    part: PartSize,
    skipped: Vec<Skipped>,
}

/// Stores what a writer has finished.
pub(crate) struct Checkpoints<'a> {
    lock: &'a WriterLock,
    tree: &'a Tree<'a>,
    begun: Instant,
    /// Names of the parts that are stored.
    kept: Mutex<HashSet<String>>,
}

impl<'a> Checkpoints<'a> {
    /// Checkpoints of an index whose build starts now, or resumes with some parts.
    pub fn new(lock: &'a WriterLock, tree: &'a Tree<'a>, parts: &[PartSize]) -> Self {
        let kept = parts.iter().map(|part| part.name.clone()).collect();
        Self { lock, tree, begun: Instant::now(), kept: Mutex::new(kept) }
    }

    fn is_due(&self) -> bool {
        self.begun.elapsed() >= MIN_WORK
    }

    fn is_kept(&self, part: &PartSize) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(&part.name)
    }

    /// Stores a part that was written, with its files and those that could not be indexed.
    ///
    /// # Errors
    /// When its directory cannot be written.
    pub fn keep_part<'t>(
        &self,
        part: &PartSize,
        files: impl Iterator<Item = (&'t FileRecord, &'t [UnitRecord])>,
        skipped: &[Skipped],
    ) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        let directory = part.directory(&self.lock.directory)?;
        let mut builder = TableBuilder::default();
        for (file, units) in files {
            builder.push(*file, units, 0)?;
        }
        let size = builder.write(&directory)?;
        let finished = FinishedPart {
            format: FORMAT,
            program: PROGRAM.to_owned(),
            root: self.tree.canonical.to_owned(),
            walk: *self.tree.walk,
            looked_ns: self.tree.looked_ns,
            size,
            table: TableBuilder::stored(&directory)?,
            part: part.clone(),
            skipped: skipped.to_vec(),
        };
        finished.write(self.lock, &directory)?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(part.name.clone());
        Ok(())
    }

    /// Stores the vectors that the parts of a generation have so far.
    ///
    /// # Errors
    /// When a directory cannot be written.
    pub fn keep_vectors(&self, table: &Table, manifest: &Manifest, changed: usize) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        for (number, part) in manifest.parts.iter().enumerate() {
            if !self.is_kept(part) {
                let is_of_part = |skipped: &&Skipped| {
                    table.files_of_part(number).any(|(file, _)| table.text(file.path) == skipped.path)
                };
                let skipped: Vec<Skipped> = manifest.skipped.iter().filter(is_of_part).cloned().collect();
                self.keep_part(part, table.files_of_part(number), &skipped)?;
            } else if number == changed {
                let directory = part.directory(&self.lock.directory)?;
                if let Some(finished) = FinishedPart::read(self.lock, &directory) {
                    FinishedPart { part: part.clone(), ..finished }.write(self.lock, &directory)?;
                }
            }
        }
        Ok(())
    }
}

impl FinishedPart {
    fn write(&self, lock: &WriterLock, directory: &Directory) -> Result<(), Error> {
        let failed = |error: serde_json::Error| {
            Error::io("write", &directory.path().join(FINISHED_FILE), error.into())
        };
        let mut written = serde_json::to_vec(self).map_err(failed)?;
        lock.seal(&mut written);
        replace_file(directory, FINISHED_FILE, &[&written])
    }

    fn read(lock: &WriterLock, directory: &Directory) -> Option<Self> {
        let bytes = directory.read(FINISHED_FILE.as_ref(), MAX_MANIFEST_BYTES).ok()?;
        serde_json::from_slice(lock.unsealed(&bytes)?).ok()
    }

    /// Its table, if all of it is intact.
    fn open(&self, index: &Directory) -> Option<Table> {
        let directory = self.part.directory(index).ok()?;
        self.part.files.iter().chain(&self.table).try_for_each(|file| file.check(&directory)).ok()?;
        // The table is in the same directory.
        Table::open(index, (&self.part.name, &self.table), self.size, std::slice::from_ref(&self.part)).ok()
    }
}

/// The finished parts of an interrupted first build of a tree, as a generation without the other files; `None` if
/// there are none.
pub(crate) fn recover(lock: &WriterLock, tree: &Tree) -> Option<(Manifest, Table)> {
    let mut parts = Vec::new();
    let mut tables = Vec::new();
    let mut skipped = Vec::new();
    let mut looked_ns = tree.looked_ns;
    for name in lock.parts() {
        let Ok(directory) = lock.directory.directory(name.as_ref()) else { continue };
        let Some(finished) = FinishedPart::read(lock, &directory) else { continue };
        let is_of_tree = finished.root == tree.canonical && finished.walk == *tree.walk;
        let is_of_program = finished.format == FORMAT && finished.program == PROGRAM;
        if !is_of_tree || !is_of_program || finished.part.name != name {
            continue;
        }
        let Some(table) = finished.open(&lock.directory) else { continue };
        looked_ns = looked_ns.min(finished.looked_ns);
        skipped.extend(finished.skipped);
        parts.push(finished.part);
        tables.push(table);
    }
    if parts.is_empty() {
        return None;
    }
    let table = Table::from_parts(tables).ok()?;
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let models: BTreeSet<&String> = parts.iter().flat_map(|part: &PartSize| part.vectors.keys()).collect();
    let manifest = Manifest {
        models: models.into_iter().cloned().collect(),
        size: TableSize { files: table.files.len(), units: table.units.len() },
        parts,
        looked_ns,
        skipped,
        ..tree.manifest()
    };
    Some((manifest, table))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use quarry_embed::{Embedder, StaticModel};
    use quarry_files::cache::{EntryState, Selection};
    use quarry_test_support::files::paths_below;
    use quarry_walk as walk;

    use super::*;
    use crate::lifecycle::complete;
    use crate::lifecycle::source_tree::RememberedSettings;
    use crate::lifecycle::update::write_generation;
    use crate::storage::index_directory::IndexDirectory;
    use crate::storage::segments::SegmentSource;
    use crate::{Event, Index, OpenOptions, Opened, RebuildReason, Update, UserDirectories, UserIndexes};

    const N_FILES: usize = 20;

    struct Fixture {
        directory: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let fixture = Self { directory: tempfile::tempdir().unwrap() };
            fs::create_dir(fixture.tree()).unwrap();
            for number in 0..N_FILES {
                let text = format!("def connect_{number}(host):\n    return dial(host, {number})\n");
                fs::write(fixture.tree().join(format!("net_{number:02}.py")), text).unwrap();
            }
            fixture
        }

        fn tree(&self) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join("tree")
        }

        fn options(&self) -> OpenOptions {
            let user = UserDirectories::below(self.directory.path());
            OpenOptions { update: Update::Required, user, ..OpenOptions::default() }
        }

        fn index(&self) -> IndexDirectory {
            IndexDirectory::in_cache(&self.options().user.cache.unwrap(), &self.tree())
        }

        /// Simulates a first build that was killed after it had read `n_read` files and, if `is_embedded`, embedded
        /// their units.
        fn interrupt(&self, n_read: usize, is_embedded: bool) {
            let (root, walk) = (self.tree(), WalkOptions::default());
            let mut listing = walk::list(&root, &walk).unwrap();
            listing.files.truncate(n_read);
            let base = walk::open(&root).unwrap();
            let tree = Tree {
                root: &root,
                base: &base,
                canonical: root.to_str().unwrap(),
                walk: &walk,
                remembered: &RememberedSettings::default(),
                listing: &listing,
                looked_ns: 1,
            };
            let lock = self.index().lock(|| {}).unwrap();
            let mut checkpoints = Checkpoints::new(&lock, &tree, &[]);
            checkpoints.begun -= 2 * MIN_WORK;
            let mut manifest =
                write_generation(&tree, None, &lock, |_| true, Some(&checkpoints), &|_| {}).unwrap();
            if is_embedded {
                let (index, model) = (&lock.directory, StaticModel::builtin());
                let source = &SegmentSource { directory: index, on_demand: None };
                let parts = &manifest.parts;
                let table = manifest.table(index).unwrap();
                let numbering = Arc::new(table.numbering());
                let mut vectors =
                    complete::open(source, parts, &numbering, model.id(), model.dimension()).unwrap();
                let save = |manifest: &Manifest, part| checkpoints.keep_vectors(&table, manifest, part);
                complete::complete(
                    (source, &base),
                    &table,
                    &mut manifest,
                    &mut vectors,
                    &model,
                    &save,
                    &|_| {},
                )
                .unwrap();
            }
        }

        /// Opens the index, and returns it with the numbers of files read and units embedded.
        fn open(&self) -> (Opened, usize, usize) {
            let n_read = AtomicUsize::new(0);
            let events = |event: Event| {
                if let Event::Read { .. } = event {
                    n_read.fetch_add(1, Ordering::SeqCst);
                }
            };
            let model = Arc::new(StaticModel::builtin());
            let opened = Index::open_or_build(&self.tree(), &self.options(), Some(model), &events).unwrap();
            let n_embedded = opened.built.as_ref().unwrap().n_embedded;
            (opened, n_read.into_inner(), n_embedded)
        }

        fn states(&self) -> Vec<(String, EntryState)> {
            let listed = UserIndexes::list(&self.options().user).unwrap();
            listed.into_iter().map(|entry| (entry.what, entry.state)).collect()
        }
    }

    #[test]
    fn an_interrupted_index_is_continued_and_invisible() {
        for (n_done, is_embedded) in [(12, false), (12, true), (N_FILES, true)] {
            let fixture = Fixture::new();
            fixture.interrupt(n_done, is_embedded);
            let never = OpenOptions { update: Update::Never, ..fixture.options() };
            let seen = Index::open_or_build(&fixture.tree(), &never, None, &|_| {});
            assert!(matches!(seen, Err(Error::NoIndex { reason: RebuildReason::Missing, .. })));
            let tree = fixture.tree().display().to_string();
            assert_eq!(fixture.states(), [(tree.clone(), EntryState::Interrupted)]);
            assert_eq!(
                UserIndexes::prune(&fixture.options().user, Selection::Useless, false).unwrap().len(),
                0
            );

            let (opened, n_read, n_embedded) = fixture.open();
            let embedded_before = if is_embedded { n_done } else { 0 };
            assert_eq!((n_read, n_embedded), (N_FILES - n_done, N_FILES - embedded_before));
            assert_eq!((opened.index.n_files(), opened.index.n_units()), (N_FILES, N_FILES));
            let fresh = Fixture::new().open().0;
            let paths = |index: &Index| {
                index
                    .table
                    .files
                    .iter()
                    .map(|file| index.table.text(file.path).to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(paths(&opened.index), paths(&fresh.index));
            // Nothing is left of it.
            assert_eq!(fixture.states(), [(tree, EntryState::Useful)]);
            let names = paths_below(&fixture.index().path());
            assert!(!names.iter().any(|path| path.ends_with(FINISHED_FILE)), "{names:?}");
        }
    }

    #[test]
    fn changed_files_are_read_again() {
        let fixture = Fixture::new();
        fixture.interrupt(12, true);
        fs::write(fixture.tree().join("net_03.py"), "def listen(port):\n    return bind(port)\n").unwrap();
        fs::remove_file(fixture.tree().join("net_04.py")).unwrap();
        let (opened, n_read, n_embedded) = fixture.open();
        assert_eq!((n_read, n_embedded), (N_FILES - 12 + 1, N_FILES - 12 + 1));
        assert_eq!(opened.index.n_files(), N_FILES - 1);
    }

    #[test]
    fn damaged_and_foreign_checkpoints_are_not_used() {
        let damage = |fixture: &Fixture, name: &str| {
            let path =
                paths_below(&fixture.index().path()).into_iter().find(|path| path.ends_with(name)).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[10] ^= 1;
            fs::write(path, bytes).unwrap();
        };
        for name in [FINISHED_FILE, "part-1/strings", "part-1/units", "part-1/files", "part-1/hashes"] {
            let fixture = Fixture::new();
            fixture.interrupt(12, true);
            damage(&fixture, name);
            let (opened, n_read, _) = fixture.open();
            assert_eq!((n_read, opened.index.n_files()), (N_FILES, N_FILES), "{name}");
        }
        let (fixture, other) = (Fixture::new(), Fixture::new());
        other.interrupt(12, true);
        fs::create_dir_all(fixture.index().path().parent().unwrap()).unwrap();
        fs::rename(other.index().path(), fixture.index().path()).unwrap();
        assert_eq!(fixture.states()[0].1, EntryState::Unfinished);
        assert_eq!(fixture.open().1, N_FILES);
    }

    #[test]
    fn files_of_a_failed_build_are_removed() {
        let fixture = Fixture::new();
        fixture.interrupt(12, true);
        fs::remove_dir_all(fixture.tree()).unwrap();
        fs::create_dir(fixture.tree()).unwrap();
        let opened = Index::open_or_build(&fixture.tree(), &fixture.options(), None, &|_| {});
        assert!(matches!(opened, Err(Error::NothingToIndex { .. })));
        assert!(!fixture.index().path().exists());
    }
}
