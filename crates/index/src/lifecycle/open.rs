//! Opens an index, and builds it if there is no fresh one.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_embed::Embedder;
use quarry_files::Directory;
use quarry_text::with_causes;
use quarry_walk::{self as walk, Listing, Skipped, WalkOptions};

use crate::index::intact::OverwriteDetector;
use crate::index::roots::{self, Root, StoredIndex};
use crate::index::unindexed::UnindexedFiles;
use crate::index::{Dense, Origin};
use crate::lexical::{LexicalIndex, Part};
use crate::lifecycle::changes::{Comparison, compare};
use crate::lifecycle::checkpoint::{self, Checkpoints};
use crate::lifecycle::complete;
use crate::lifecycle::file_selection::FileSelection;
use crate::lifecycle::location::{IndexLocation, IndexLocations};
use crate::lifecycle::memory;
use crate::lifecycle::precompute;
use crate::lifecycle::sibling;
use crate::lifecycle::source_tree::{RememberedSettings, Tree, left_out};
use crate::lifecycle::unread::unread;
use crate::lifecycle::update::{self, PreviousFiles, PreviousGeneration};
use crate::storage::index_directory::{IndexDirectory, Manifest, WriterLock};
use crate::storage::map;
use crate::storage::segments::{SegmentPool, SegmentSource};
use crate::storage::table::{PartSize, Table};
use crate::{BuildReport, Error, Event, Filter, Index, OpenOptions, Opened, Outdated, RebuildReason, Update};

/// Maximum number of refreshes of an index that another program overwrites meanwhile.
const MAX_REFRESHES: usize = 5;

impl Index {
    /// Opens the index of the tree at `root`, which may also be a single file, or the index of an enclosing tree, as
    /// specified by [`OpenOptions`]; paths are relative to `root` in both cases. Builds the index first if there is
    /// none, if the content of any file differs from that recorded, or if the index is of another version; a build
    /// that fails leaves the previous index unchanged. Unchanged files are not read, and units with known texts are
    /// not embedded again. Without `embedder` the search is lexical. `events` is called from several threads.
    ///
    /// # Errors
    /// When the tree cannot be read or has nothing to index, the model fails, or the index directory cannot be
    /// written.
    pub fn open_or_build(
        root: &Path,
        options: &OpenOptions,
        embedder: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        let mut opened = Self::open_or_build_all(&[(root, options)], embedder, events)?;
        Ok(opened.remove(0))
    }

    /// Like [`open_or_build`](Self::open_or_build), for several paths that are searched together
    /// ([`Index::merge`]): returns each index once, however many of the paths use it.
    ///
    /// # Errors
    /// The same as for one path.
    pub fn open_or_build_all(
        paths: &[(&Path, &OpenOptions)],
        embedder: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Vec<Opened>, Error> {
        let mut trees: Vec<OpenTree> = Vec::new();
        for (number, &(path, options)) in paths.iter().enumerate() {
            let path = &*walk::resolved(path);
            let base = walk::base_directory(path)?.to_owned();
            let IndexLocations { enclosing, own, ignored } = IndexLocations::find(path, options)?;
            ignored.iter().for_each(|path| events(Event::Ignored(path)));
            for location in enclosing.iter().chain([&own]) {
                let is_part = !location.scope.is_all();
                let (at, found) = match open_tree(&mut trees, location, options, &embedder, events) {
                    // The path needs only its part of the enclosing tree, which an index of its own contains.
                    Err(Error::IndexDirectory { .. }) if options.update == Update::IfPossible && is_part => {
                        continue;
                    }
                    // The path itself may still have files, because a path given by the user is searched even if it
                    // is ignored.
                    Err(Error::NothingToIndex { .. }) if is_part => continue,
                    opened => opened?,
                };
                let found = if path.is_file() { found.for_named_file() } else { found };
                let index = &mut trees[at].opened.index;
                if !is_part || location.scope.n_files(&index.table) > 0 {
                    index.check_readable(path, location, &found)?;
                    let (scope, filter) = (location.scope.clone(), Filter::default());
                    index.trees[0].roots.push(Root { number, base, scope, found, filter });
                    break;
                }
            }
        }
        let opened = trees.into_iter().map(|tree| tree.opened);
        // Drop indexes that contain no file of any path.
        Ok(opened.filter(|opened| !opened.index.trees[0].roots.is_empty()).collect())
    }
}

/// An index that was opened for a path, and that other paths may share.
struct OpenTree {
    canonical: PathBuf,
    directory: PathBuf,
    /// The files that it was opened to contain.
    held: WalkOptions,
    opened: Opened,
}

/// Opens the index at a location, unless it is open; returns its position in `trees` and which of its files are
/// found.
fn open_tree(
    trees: &mut Vec<OpenTree>,
    location: &IndexLocation,
    options: &OpenOptions,
    embedder: &Option<Arc<dyn Embedder>>,
    events: &(dyn Fn(Event) + Sync),
) -> Result<(usize, WalkOptions), Error> {
    let manifest = location.directory.manifest_or_copy();
    let selection = FileSelection::new(options, manifest.as_ref(), !location.scope.is_all());
    let directory = location.directory.path();
    let known =
        trees.iter().position(|tree| tree.canonical == location.canonical && tree.directory == directory);
    if let Some(at) = known.filter(|&at| trees[at].held == selection.held) {
        return Ok((at, selection.found));
    }
    if manifest.as_ref().is_some_and(Manifest::has_passages)
        && let Some(embedder) = embedder.clone().filter(|embedder| embedder.reranks_stored_only())
    {
        // Loaded while the tree is listed.
        thread::spawn(move || _ = embedder.reranker());
    }
    let canonical = location.canonical.to_string_lossy();
    let base = &walk::open(walk::base_directory(&location.root)?)?;
    let (embedder, pool) = (embedder.clone(), options.pool.as_ref());
    let opener = Opener { location, canonical: &canonical, base, embedder, pool };
    let remembered =
        manifest.as_ref().map(RememberedSettings::from_manifest).unwrap_or_default().overridden_by(options);
    let opened = opener.open_with(options, (&selection.held, &remembered), events)?;
    location.directory.mark_used();
    let mut tree =
        OpenTree { canonical: location.canonical.clone(), directory, held: selection.held, opened };
    let at = known.unwrap_or(trees.len());
    match trees.get_mut(at) {
        Some(previous) => {
            std::mem::swap(&mut previous.opened.index.trees[0].roots, &mut tree.opened.index.trees[0].roots);
            *previous = tree;
        }
        None => trees.push(tree),
    }
    Ok((at, selection.found))
}

/// Opens the index at a location, and builds it if necessary.
struct Opener<'a> {
    location: &'a IndexLocation,
    /// Canonical path of the tree.
    canonical: &'a str,
    /// The directory that the paths of the tree are relative to.
    base: &'a Directory,
    embedder: Option<Arc<dyn Embedder>>,
    /// Holds the segments of the index, if they are opened on demand.
    pool: Option<&'a Arc<SegmentPool>>,
}

/// The valid generation of an index.
struct CurrentGeneration {
    index: Index,
    manifest: Manifest,
}

/// The data of an index that a build can reuse.
enum Reusable {
    Nothing,
    Vectors(Box<Manifest>),
    /// Everything except changed files.
    Files(Box<CurrentGeneration>, Comparison),
    /// Everything except changed files of a generation that does not belong to this index: finished parts of an
    /// interrupted writer, or copies of those of another checkout.
    Parts(Box<Parts>),
}

/// Parts that are not in any manifest.
struct Parts {
    manifest: Manifest,
    table: Table,
    comparison: Comparison,
    /// See [`PreviousFiles`].
    are_joined: bool,
}

/// A build to do: its reason, and what it can reuse.
struct Rebuild {
    reason: RebuildReason,
    reusable: Reusable,
}

impl Reusable {
    fn previous(&self) -> Option<PreviousGeneration<'_>> {
        match self {
            Self::Nothing => None,
            Self::Vectors(manifest) => Some(PreviousGeneration { manifest, files: None }),
            Self::Files(current, comparison) => Some(current.previous(comparison)),
            Self::Parts(parts) => {
                let Parts { manifest, table, comparison, are_joined } = &**parts;
                let files = PreviousFiles { table, comparison, are_joined: *are_joined };
                Some(PreviousGeneration { manifest, files: Some(files) })
            }
        }
    }

    /// Parts that are not in any manifest.
    fn unnamed_parts(&self) -> &[PartSize] {
        match self {
            Self::Parts(parts) => &parts.manifest.parts,
            _ => &[],
        }
    }

    /// Returns true if the directory still contains the generation that this comes from.
    fn is_of(&self, directory: &IndexDirectory) -> bool {
        let Self::Files(current, _) = self else { return false };
        directory.manifest().is_ok_and(|manifest| manifest == current.manifest)
    }
}

impl CurrentGeneration {
    fn opened(self) -> Opened {
        Opened { index: self.index, built: None, outdated: None, unsaved: None }
    }

    fn previous<'a>(&'a self, comparison: &'a Comparison) -> PreviousGeneration<'a> {
        let files = PreviousFiles { table: &self.index.table, comparison, are_joined: true };
        PreviousGeneration { manifest: &self.manifest, files: Some(files) }
    }
}

impl Opener<'_> {
    /// Opens the index of the files that `walk` lists, with the settings to remember.
    fn open_with(
        &self,
        options: &OpenOptions,
        (walk, remembered): (&WalkOptions, &RememberedSettings),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        if options.update == Update::Never {
            let no_index = |reason| Error::NoIndex { root: self.location.root.clone(), reason };
            return self.open_current().map(CurrentGeneration::opened).map_err(no_index);
        }
        let looked_ns = now_ns();
        let listing = &walk::list(&self.location.root, walk)?;
        let refresh = || self.refresh(options, (walk, remembered), listing, looked_ns, events);
        // Another program may overwrite the index while it is opened.
        let is_replaced = |opened: &Result<Opened, Error>| matches!(opened, Err(Error::Replaced { .. }));
        let opened = (1..MAX_REFRESHES).map(|_| refresh()).find(|opened| !is_replaced(opened));
        let mut opened = opened.unwrap_or_else(refresh)?;
        opened.index.add_unread(listing);
        opened.index.trees[0].others.take(listing);
        Ok(opened)
    }

    fn refresh(
        &self,
        options: &OpenOptions,
        (walk, remembered): (&WalkOptions, &RememberedSettings),
        listing: &Listing,
        looked_ns: u64,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        let IndexLocation { root, directory, .. } = self.location;
        let tree =
            Tree { root, base: self.base, canonical: self.canonical, walk, remembered, listing, looked_ns };
        let is_anew = options.update == Update::Anew;
        let rebuild = match self.check_freshness(&tree, is_anew) {
            Ok((current, comparison)) => {
                if comparison.has_read {
                    // Recording the new timestamps saves reading next time, but the index works without.
                    let _ = self.record_stamps(&tree, &current, &comparison);
                }
                return Ok(current.opened());
            }
            Err(rebuild) => rebuild,
        };
        let (lock, mut rebuild) = match directory.lock(|| events(Event::Waiting)) {
            // The other writer may have built it meanwhile.
            Ok(lock) if !rebuild.reusable.is_of(directory) => match self.check_freshness(&tree, is_anew) {
                Ok((current, _)) => return Ok(current.opened()),
                Err(rebuild) => (Ok(lock), rebuild),
            },
            lock => (lock, rebuild),
        };
        let built = lock.and_then(|lock| {
            events(Event::Rebuilding(&rebuild.reason));
            if matches!(rebuild.reusable, Reusable::Nothing) && !is_anew {
                rebuild.reusable = self.unnamed_parts(&tree, options, &lock);
            }
            let built = self.build(&tree, &rebuild, is_anew, &lock, events);
            if built.is_err() {
                directory.discard(lock);
            }
            built
        });
        match (built, rebuild) {
            (Ok((index, skipped, n_embedded)), Rebuild { reason, .. }) => {
                let built = Some(BuildReport { reason, skipped, n_embedded });
                Ok(Opened { index, built, outdated: None, unsaved: None })
            }
            (Err(error), Rebuild { reason, reusable: Reusable::Files(current, _) })
                if error.is_of_storage()
                    && options.update == Update::IfPossible
                    && (self.covers(&current, walk) || !self.may_be_in_memory(options)) =>
            {
                let outdated =
                    Some(Outdated { reason, error: error.in_directory(&directory.path(), listing) });
                Ok(Opened { index: current.index, built: None, outdated, unsaved: None })
            }
            (Err(error), Rebuild { reason, .. }) => {
                let is_of_storage = error.is_of_storage();
                let error = error.in_directory(&directory.path(), listing);
                if !is_of_storage || !self.may_be_in_memory(options) {
                    return Err(error);
                }
                let made = memory::build(&tree, self.embedder.clone(), events)?;
                let (skipped, n_embedded) = (made.skipped, made.n_embedded);
                let mut index = self.index(made.table, made.lexical, made.dense, Some(made.origin));
                index.trees[0].unread = unread(&skipped);
                let built = Some(BuildReport { reason, skipped, n_embedded });
                Ok(Opened { index, built, outdated: None, unsaved: Some(error) })
            }
        }
    }

    /// Writes the next generation, with vectors of the opener's model, and publishes it. Returns the index, the files
    /// that were skipped, and the number of units that were embedded.
    fn build(
        &self,
        tree: &Tree,
        rebuild: &Rebuild,
        is_anew: bool,
        lock: &WriterLock,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<(Index, Vec<Skipped>, usize), Error> {
        lock.remove_unfinished(rebuild.reusable.unnamed_parts());
        // The vectors of other models are still valid.
        let model = self.model();
        let is_carried = |id: &str| !is_anew || model != Some(id);
        let previous = rebuild.reusable.previous();
        let is_first = matches!(rebuild.reusable, Reusable::Nothing | Reusable::Parts(_));
        let checkpoints = is_first.then(|| Checkpoints::new(lock, tree, rebuild.reusable.unnamed_parts()));
        let checkpoints = checkpoints.as_ref();
        let mut manifest = update::write_generation(tree, previous, lock, is_carried, checkpoints, events)?;
        let mut index = self.open(&lock.directory, &manifest, true)?;
        let is_new = |id: &&str| !manifest.models.iter().any(|known| known == id);
        if let Some(id) = model.filter(is_new) {
            manifest.models.push(id.to_owned());
        }
        // Vectors take long to compute: they are stored part by part if only they are added, and in a first build.
        let is_addition = matches!(rebuild.reason, RebuildReason::Model(_));
        let table = &index.table;
        let save = |manifest: &Manifest, part: usize| match checkpoints {
            Some(checkpoints) => checkpoints.keep_vectors(table, manifest, part),
            None if is_addition => lock.publish(manifest),
            None => Ok(()),
        };
        let n_embedded = match &mut index.dense {
            Some(Dense { embedder, matrix, .. }) => complete::complete(
                (&self.segments(&lock.directory), self.base),
                table,
                &mut manifest,
                matrix,
                embedder.as_ref(),
                &save,
                events,
            )?,
            None => 0,
        };
        lock.publish(&manifest)?;
        map::clear(lock.directory.path());
        Ok((index, left_out(tree.listing, &manifest.skipped), n_embedded))
    }

    /// The parts that a first build can start with: those of an interrupted build, or copies of those of another
    /// checkout of the same repository. Such a copy is stored where only the user can read it.
    fn unnamed_parts(&self, tree: &Tree, options: &OpenOptions, lock: &WriterLock) -> Reusable {
        let parts = |manifest, table, comparison, are_joined| {
            Reusable::Parts(Box::new(Parts { manifest, table, comparison, are_joined }))
        };
        if let Some((manifest, table)) = checkpoint::recover(lock, tree) {
            let comparison = compare(&table, &manifest, self.base, tree.listing, tree.walk);
            return parts(manifest, table, comparison, false);
        }
        lock.remove_unfinished(&[]);
        let is_private = self.location.directory.is_of_user();
        let copied = is_private.then(|| sibling::copy(lock, tree, &options.user, self.model())).flatten();
        match copied {
            Some((manifest, table, comparison)) => parts(manifest, table, comparison, true),
            None => Reusable::Nothing,
        }
    }

    /// Returns true if an index contains the requested files, regardless of what has changed since.
    fn covers(&self, current: &CurrentGeneration, walk: &WalkOptions) -> bool {
        let held = &current.manifest.walk;
        held.union(walk) == *held && self.missing_model(current).is_none()
    }

    /// Returns true if the index may be only in memory: it covers exactly the searched path, and no location was given
    /// for it.
    fn may_be_in_memory(&self, options: &OpenOptions) -> bool {
        options.may_be_in_memory() && self.location.scope.is_all()
    }

    fn model(&self) -> Option<&str> {
        self.embedder.as_ref().map(|embedder| embedder.id())
    }

    /// The current generation if it is fresh, otherwise what has to be rebuilt; with `is_anew` that is everything.
    /// Takes no lock.
    fn check_freshness(
        &self,
        tree: &Tree,
        is_anew: bool,
    ) -> Result<(CurrentGeneration, Comparison), Rebuild> {
        let unless_opened = |reason| {
            let reusable = self.location.directory.manifest_or_copy();
            let reusable =
                reusable.map_or(Reusable::Nothing, |manifest| Reusable::Vectors(Box::new(manifest)));
            Rebuild { reason, reusable }
        };
        if is_anew {
            let manifest = self.location.directory.manifest();
            let mismatch = manifest.map(|manifest| manifest.mismatch(self.canonical));
            return Err(unless_opened(
                mismatch.map_or_else(|reason| reason, |reason| reason.unwrap_or(RebuildReason::Requested)),
            ));
        }
        let current = self.open_current().map_err(unless_opened)?;
        let comparison = compare(&current.index.table, &current.manifest, self.base, tree.listing, tree.walk);
        let reason = if comparison.changes.total() > 0 {
            RebuildReason::Files(comparison.changes)
        } else if current.manifest.walk != *tree.walk
            || RememberedSettings::from_manifest(&current.manifest) != *tree.remembered
        {
            RebuildReason::Choice
        } else if let Some(model) = self.missing_model(&current) {
            RebuildReason::Model(model)
        } else {
            return Ok((current, comparison));
        };
        Err(Rebuild { reason, reusable: Reusable::Files(Box::new(current), comparison) })
    }

    /// The opener's model, if not all units have vectors of it.
    fn missing_model(&self, current: &CurrentGeneration) -> Option<String> {
        let dense = current.index.dense.as_ref()?;
        // Vectors that cannot be opened are completed, which reports why they cannot.
        let is_complete = complete::is_complete(&dense.matrix).unwrap_or(false);
        (!is_complete).then(|| dense.embedder.id().to_owned())
    }

    /// Opens the valid generation, without comparing it with the tree.
    fn open_current(&self) -> Result<CurrentGeneration, RebuildReason> {
        let mut last = None;
        loop {
            let manifest = self.location.directory.manifest()?;
            if let Some(reason) = manifest.mismatch(self.canonical) {
                return Err(reason);
            }
            // Code that reads an index may panic if files are overwritten meanwhile.
            let opened = catch_unwind(AssertUnwindSafe(|| self.open_verified(&manifest)));
            let panicked = |_| Err(Error::corrupt(&self.location.directory.path(), "it cannot be read"));
            match opened.unwrap_or_else(panicked) {
                Ok(index) => return Ok(CurrentGeneration { index, manifest }),
                // A writer may have replaced the manifest meanwhile.
                Err(_) if last.as_ref() != Some(&manifest) => last = Some(manifest),
                Err(error) => return Err(RebuildReason::Broken(with_causes(&error))),
            }
        }
    }

    /// Records the new timestamps of unchanged files.
    fn record_stamps(
        &self,
        tree: &Tree,
        current: &CurrentGeneration,
        comparison: &Comparison,
    ) -> Result<(), Error> {
        let directory = &self.location.directory;
        let Some(lock) = directory.try_lock()? else { return Ok(()) };
        if directory.manifest().is_ok_and(|manifest| manifest == current.manifest) {
            let previous = Some(current.previous(comparison));
            let manifest = update::write_generation(tree, previous, &lock, |_| true, None, &|_| {})?;
            lock.publish(&manifest)?;
        }
        Ok(())
    }

    /// Opens a generation, and verifies all of it if a part of the index was lost before.
    fn open_verified(&self, manifest: &Manifest) -> Result<Index, Error> {
        let directory = self.location.directory.open_checked(manifest)?;
        let is_suspect = map::is_suspect(directory.path());
        if is_suspect {
            manifest.verify(&directory)?;
            map::clear(directory.path());
        }
        self.open(&directory, manifest, is_suspect)
    }

    fn open(&self, directory: &Directory, manifest: &Manifest, is_verified: bool) -> Result<Index, Error> {
        let intact = Some(OverwriteDetector::since_now(directory.path(), self.pool, is_verified));
        let parts = &manifest.parts;
        let table = manifest.table(directory)?;
        let numbering = Arc::new(table.numbering());
        let source = self.segments(directory);
        let of_part = |part: &PartSize| {
            let part = part.clone();
            source.segment(part.lexical_bytes(), move |directory| Part::stored(directory, &part))
        };
        let lexical = parts.iter().map(of_part).collect::<Result<_, Error>>()?;
        let lexical = LexicalIndex::from_parts(lexical, &numbering, &table.field_sizes());
        let dense = match &self.embedder {
            Some(embedder) => {
                let (id, dimension) = (embedder.id(), embedder.dimension());
                let matrix = complete::open(&source, parts, &numbering, id, dimension)?;
                // A re-ranker that uses stored vectors only is not loaded if there are none.
                let is_needed = manifest.has_passages() || !embedder.reranks_stored_only();
                let passages = match is_needed.then(|| embedder.reranker()).flatten() {
                    Some(reranker) => precompute::open(&source, parts, reranker.id())?,
                    None => Vec::new(),
                };
                Some(Dense { embedder: Arc::clone(embedder), matrix, passages })
            }
            None => None,
        };
        let mut index = Index { intact, ..self.index(table, lexical, dense, None) };
        index.trees[0].unread = unread(&manifest.skipped);
        index.check_intact()?;
        Ok(index)
    }

    fn segments<'a>(&'a self, directory: &'a Directory) -> SegmentSource<'a> {
        SegmentSource { directory, on_demand: self.pool.map(|pool| (&self.location.directory, pool)) }
    }

    fn index(
        &self,
        table: Table,
        lexical: LexicalIndex,
        dense: Option<Dense>,
        in_memory: Option<Origin>,
    ) -> Index {
        let base =
            walk::base_directory(&self.location.canonical).unwrap_or(&self.location.canonical).to_owned();
        let (directory, canonical) = (self.location.directory.clone(), self.canonical.to_owned());
        let stored = in_memory.is_none().then_some(StoredIndex { directory, canonical });
        let (files, unread, roots) = (0..table.files.len(), Vec::new(), Vec::new());
        let others = UnindexedFiles::new(self.location.canonical.clone());
        let tree = roots::Tree { base, stored, files, unread, others, roots, unsaved: HashMap::new() };
        Index::from_parts(vec![tree], table, lexical, dense, in_memory)
    }
}

fn now_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
