//! Opening an index, and building it where there is no fresh one.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_embed::Embedder;
use quarry_files::Directory;
use quarry_walk::{self as walk, Listing, Skipped, WalkChoice, WalkOptions};

use crate::build::LEXICAL_FOLDER;
use crate::changes::{Comparison, compare};
use crate::folder::{IndexFolder, Manifest, PROGRAM, WriterLock};
use crate::lexical::LexicalIndex;
use crate::memory::{self, Origin};
use crate::place::{Place, Places};
use crate::reach::Reach;
use crate::roots::{self, Root};
use crate::table::{PartSize, Table, open_folder};
use crate::unread::unread;
use crate::update::{self, Former, FormerFiles, Remembered, Tree, left_out};
use crate::vectors::UnitVectors;
use crate::{Error, Filter, Stale, complete};

/// Where the index is and what it holds.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The folder of the index, which is then one of the very path that is opened. By default the nearest index counts:
    /// the one in the tree ([`LOCAL_FOLDER`](crate::LOCAL_FOLDER)), if this user made it on this machine, or in the
    /// user's cache, of the path or of a folder around it.
    pub folder: Option<PathBuf>,
    /// Whether the index is to lie in the tree, where it is found again; it is then one of the very path too.
    pub local: bool,
    /// Whether an index of a folder around the path may be used (the default), which then finds only what lies in the
    /// path. It is kept as it was made, and does not answer where it lacks files that `walk` asks for.
    pub enclosing: bool,
    /// When the index is brought up to date.
    pub update: Update,
    /// Which files are to be found, as far as somebody says it now.
    pub walk: WalkChoice,
    /// Which files are found where neither `walk` nor the index says so.
    pub defaults: WalkOptions,
    /// How the model is called, for the index to remember. The model that the index is opened with is another matter.
    pub model: Option<String>,
    /// Whether the index is to remember `walk` and `model`, for those who do not say them, and to hold those files alone.
    pub remember: bool,
    /// Where the user's own folders are.
    pub user: UserFolders,
}

/// Folders of the user's, which strangers do not write to; by default those that the system knows.
#[derive(Debug, Clone)]
pub struct UserFolders {
    /// For what can be made again: indexes.
    pub cache: Option<PathBuf>,
    /// For what is known of this machine: which indexes in trees it made.
    pub state: Option<PathBuf>,
}

impl Default for UserFolders {
    fn default() -> Self {
        Self { cache: quarry_files::cache_directory(), state: quarry_files::state_directory() }
    }
}

impl UserFolders {
    /// Both in one folder.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self { cache: Some(folder.join("cache")), state: Some(folder.join("state")) }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            folder: None,
            local: false,
            enclosing: true,
            update: Update::default(),
            walk: WalkChoice::default(),
            defaults: WalkOptions::default(),
            model: None,
            remember: false,
            user: UserFolders::default(),
        }
    }
}

impl OpenOptions {
    /// Whether the index may be in memory alone, because nobody has said where it is to be.
    fn may_be_in_memory(&self) -> bool {
        self.update == Update::IfPossible && self.folder.is_none() && !self.local
    }
}

/// When an index is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Update {
    /// Never: it is opened as it is, however many files have changed since, and it is an error if there is none. The
    /// tree is not looked at.
    Never,
    /// Where files have changed. If the folder of the index cannot be written, the index is opened as it is
    /// ([`Opened::outdated`]); where there is none to open, it is built in memory ([`Opened::unsaved`]), unless
    /// [`OpenOptions`] say where it has to be.
    #[default]
    IfPossible,
    /// Where files have changed; it is an error if the folder of the index cannot be written.
    Required,
    /// Always, from nothing.
    Anew,
}

/// What happens while an index is opened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The index that was found is not used, for this reason.
    Stale(&'a Stale),
    /// What is in the place of an index in the tree is left alone: this user has not made it on this machine.
    Ignored(&'a Path),
    /// Another process is writing this index; its end is waited for.
    Waiting,
    /// A file was read and cut into units.
    Read {
        /// Files so far.
        done: usize,
        /// Files in all.
        total: usize,
    },
    /// A batch of units was embedded.
    Embedded {
        /// Units so far.
        done: usize,
        /// Units in all.
        total: usize,
    },
}

/// An index that is open for search. Its files are mapped; a later generation does not disturb it.
pub struct Index {
    /// What it is of and which part of that is searched, ascending by the paths of the trees.
    pub(crate) trees: Vec<roots::Tree>,
    pub(crate) table: Table,
    pub(crate) lexical: LexicalIndex,
    pub(crate) dense: Option<Dense>,
    /// What it was made from, if it is in memory alone.
    pub(crate) in_memory: Option<Origin>,
    /// The file of each unit, the units of each file and its bytes, for scoring files.
    pub(crate) file_of_unit: Vec<u32>,
    pub(crate) units_of_files: Vec<Range<usize>>,
    pub(crate) file_lengths: Vec<f32>,
}

pub(crate) struct Dense {
    pub embedder: Arc<dyn Embedder>,
    pub matrix: UnitVectors,
}

/// An index, and how it came about.
pub struct Opened {
    /// Ready for search.
    pub index: Index,
    /// What was done to build it; none when it was fresh.
    pub built: Option<BuildReport>,
    /// Why it is not up to date; none when it is, or was not to be.
    pub outdated: Option<Outdated>,
    /// Why it is in memory alone, and so was built for this opening only: its folder cannot be written.
    pub unsaved: Option<Error>,
}

/// Why an index was opened as it is although files have changed.
#[derive(Debug)]
pub struct Outdated {
    /// What there would have been to do.
    pub reason: Stale,
    /// Why it was not done: the folder of the index cannot be written.
    pub error: Error,
}

/// What a build did.
#[derive(Debug)]
pub struct BuildReport {
    /// Why it was done.
    pub reason: Stale,
    /// Files of the tree that were left out, ascending by path.
    pub skipped: Vec<Skipped>,
    /// Units that were embedded; the vectors of all others were known.
    pub n_embedded: usize,
}

impl Index {
    /// Opens the index of the tree at `root`, which may also be a single file, or the index of a tree around it, as
    /// [`OpenOptions`] says; paths are relative to `root` in both cases. Builds the index first where there is none,
    /// where the content of any file is not as recorded, or where the index is of another version; a build that
    /// fails leaves the former index as it was. Files that are unchanged are not read, and a unit whose text is known
    /// is not embedded again. Without `embedder` the search is lexical.
    /// `events` is called from several threads.
    ///
    /// # Errors
    /// When the tree cannot be read or has nothing to index, the model fails, or the index folder cannot be written.
    pub fn open_or_build(
        root: &Path,
        options: &OpenOptions,
        embedder: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        let mut opened = Self::open_or_build_all(&[(root, options)], embedder, events)?;
        Ok(opened.remove(0))
    }

    /// As [`open_or_build`](Self::open_or_build), of several paths that are to be searched together
    /// ([`Index::together`]): one index for all paths that it answers for.
    ///
    /// # Errors
    /// As those of one path.
    pub fn open_or_build_all(
        paths: &[(&Path, &OpenOptions)],
        embedder: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Vec<Opened>, Error> {
        let mut trees: Vec<OpenTree> = Vec::new();
        for (number, &(path, options)) in paths.iter().enumerate() {
            let path = &*walk::resolved(path);
            let base = walk::base_folder(path)?.to_owned();
            let Places { enclosing, own, ignored } = Places::of(path, options)?;
            ignored.iter().for_each(|path| events(Event::Ignored(path)));
            for place in enclosing.iter().chain([&own]) {
                let (at, found) = match open_tree(&mut trees, place, options, &embedder, events) {
                    // Of the tree around it the path would need a part only, which an index of its own has.
                    Err(Error::IndexFolder { .. })
                        if options.update == Update::IfPossible && !place.scope.is_all() =>
                    {
                        continue;
                    }
                    opened => opened?,
                };
                let index = &mut trees[at].opened.index;
                if place.scope.is_all() || place.scope.n_files(&index.table) > 0 {
                    index.check_readable(path, place, &found)?;
                    let (scope, filter) = (place.scope.clone(), Filter::default());
                    index.trees[0].roots.push(Root { number, base, scope, found, filter });
                    break;
                }
            }
        }
        let opened = trees.into_iter().map(|tree| tree.opened);
        // One that was opened in vain answers for nothing.
        Ok(opened.filter(|opened| !opened.index.trees[0].roots.is_empty()).collect())
    }

    /// Number of files of the whole index, those without units included.
    #[must_use]
    pub fn n_files(&self) -> usize {
        self.table.files.len()
    }

    /// Number of units of the whole index.
    #[must_use]
    pub fn n_units(&self) -> usize {
        self.table.units.len()
    }
}

/// An index that was opened for a path, and answers for others too.
struct OpenTree {
    canonical: PathBuf,
    folder: PathBuf,
    /// Which files it was to hold.
    held: WalkOptions,
    opened: Opened,
}

/// Opens the index in a place, unless it is open: which of `trees` it is, and which of its files are found.
fn open_tree(
    trees: &mut Vec<OpenTree>,
    place: &Place,
    options: &OpenOptions,
    embedder: &Option<Arc<dyn Embedder>>,
    events: &(dyn Fn(Event) + Sync),
) -> Result<(usize, WalkOptions), Error> {
    let manifest = place.folder.manifest().ok();
    let reach = Reach::of(options, manifest.as_ref(), !place.scope.is_all());
    let folder = place.folder.path();
    let known = trees.iter().position(|tree| tree.canonical == place.canonical && tree.folder == folder);
    if let Some(at) = known.filter(|&at| trees[at].held == reach.held) {
        return Ok((at, reach.found));
    }
    let canonical = place.canonical.to_string_lossy();
    let base = &walk::open(walk::base_folder(&place.root)?)?;
    let wanted = Wanted { place, canonical: &canonical, base, embedder: embedder.clone() };
    let remembered = manifest.as_ref().map(Remembered::of).unwrap_or_default().told(options);
    let opened = wanted.open_with(options, (&reach.held, &remembered), events)?;
    place.folder.mark_used();
    let mut tree = OpenTree { canonical: place.canonical.clone(), folder, held: reach.held, opened };
    let at = known.unwrap_or(trees.len());
    match trees.get_mut(at) {
        Some(former) => {
            std::mem::swap(&mut former.opened.index.trees[0].roots, &mut tree.opened.index.trees[0].roots);
            *former = tree;
        }
        None => trees.push(tree),
    }
    Ok((at, reach.found))
}

/// What an index must have been made from.
struct Wanted<'a> {
    place: &'a Place,
    /// Of the tree.
    canonical: &'a str,
    /// What the paths of the tree are relative to.
    base: &'a Directory,
    embedder: Option<Arc<dyn Embedder>>,
}

/// The valid generation.
struct Newest {
    index: Index,
    manifest: Manifest,
}

/// What can be used again of an index.
enum Usable {
    Nothing,
    /// The vectors.
    Vectors(Box<Manifest>),
    /// All but what has changed.
    Files(Box<Newest>, Comparison),
}

/// What there is to do, and with what.
struct Work {
    reason: Stale,
    usable: Usable,
}

impl Usable {
    fn former(&self) -> Option<Former<'_>> {
        match self {
            Self::Nothing => None,
            Self::Vectors(manifest) => Some(Former { manifest, files: None }),
            Self::Files(newest, comparison) => Some(newest.former(comparison)),
        }
    }

    /// Whether the folder still holds what this was found from.
    fn is_of(&self, folder: &IndexFolder) -> bool {
        let Self::Files(newest, _) = self else { return false };
        folder.manifest().is_ok_and(|manifest| manifest == newest.manifest)
    }
}

impl Newest {
    fn opened(self) -> Opened {
        Opened { index: self.index, built: None, outdated: None, unsaved: None }
    }

    fn former<'a>(&'a self, comparison: &'a Comparison) -> Former<'a> {
        let files = FormerFiles { table: &self.index.table, comparison };
        Former { manifest: &self.manifest, files: Some(files) }
    }
}

impl Wanted<'_> {
    /// Opens the index of the files of `walk`, and has it remember what it is told.
    fn open_with(
        &self,
        options: &OpenOptions,
        (walk, remembered): (&WalkOptions, &Remembered),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        if options.update == Update::Never {
            let no_index = |reason| Error::NoIndex { root: self.place.root.clone(), reason };
            return self.open_newest().map(Newest::opened).map_err(no_index);
        }
        let looked_ns = now_ns();
        let listing = &walk::list(&self.place.root, walk)?;
        let mut opened = self.refresh(options, (walk, remembered), listing, looked_ns, events)?;
        opened.index.add_unread(listing);
        Ok(opened)
    }

    fn refresh(
        &self,
        options: &OpenOptions,
        (walk, remembered): (&WalkOptions, &Remembered),
        listing: &Listing,
        looked_ns: u64,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, Error> {
        let Place { root, folder, .. } = self.place;
        let tree =
            Tree { root, base: self.base, canonical: self.canonical, walk, remembered, listing, looked_ns };
        let is_anew = options.update == Update::Anew;
        let work = match self.look(&tree, is_anew) {
            Ok((newest, comparison)) => {
                if comparison.has_read {
                    // What was learnt by reading is worth noting, but an index that cannot be written is as good.
                    let _ = self.note(&tree, &newest, &comparison);
                }
                return Ok(newest.opened());
            }
            Err(work) => work,
        };
        let (lock, work) = match folder.lock(|| events(Event::Waiting)) {
            // The writer that was waited for may have done it.
            Ok(lock) if !work.usable.is_of(folder) => match self.look(&tree, is_anew) {
                Ok((newest, _)) => return Ok(newest.opened()),
                Err(work) => (Ok(lock), work),
            },
            lock => (lock, work),
        };
        let built = lock.and_then(|lock| {
            events(Event::Stale(&work.reason));
            let built = self.build(&tree, &work, &lock, events);
            if built.is_err() {
                lock.remove_unfinished();
            }
            built
        });
        match (built, work) {
            (Ok((index, skipped, n_embedded)), Work { reason, .. }) => {
                let built = Some(BuildReport { reason, skipped, n_embedded });
                Ok(Opened { index, built, outdated: None, unsaved: None })
            }
            (Err(error), Work { reason, usable: Usable::Files(newest, _) })
                if error.is_of_storage() && options.update == Update::IfPossible =>
            {
                let outdated = Some(Outdated { reason, error: error.in_folder(&folder.path(), listing) });
                Ok(Opened { index: newest.index, built: None, outdated, unsaved: None })
            }
            (Err(error), Work { reason, .. }) => {
                let is_of_storage = error.is_of_storage();
                let error = error.in_folder(&folder.path(), listing);
                if !is_of_storage || !options.may_be_in_memory() || !self.place.scope.is_all() {
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

    /// Writes the next generation, with vectors of the model that is wanted, and publishes it. Returns the index, the
    /// files that were left out, and the number of units that were embedded.
    fn build(
        &self,
        tree: &Tree,
        work: &Work,
        lock: &WriterLock,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<(Index, Vec<Skipped>, usize), Error> {
        lock.remove_unfinished();
        // The vectors of other models are still what they were.
        let model = self.model();
        let is_carried = |id: &str| work.reason != Stale::Requested || model != Some(id);
        let former = work.usable.former();
        let mut manifest = update::write_generation(tree, former, lock, is_carried, events)?;
        let mut index = self.open(&lock.directory, &manifest)?;
        let is_new = |id: &&str| !manifest.models.iter().any(|known| known == id);
        if let Some(id) = model.filter(is_new) {
            manifest.models.push(id.to_owned());
        }
        // Vectors that take long to make are kept as they come, where nothing else changes.
        let is_addition = matches!(work.reason, Stale::Model(_));
        let save = |manifest: &Manifest| if is_addition { lock.publish(manifest) } else { Ok(()) };
        let n_embedded = match &mut index.dense {
            Some(Dense { embedder, matrix }) => complete::complete(
                (&lock.directory, self.base),
                &index.table,
                &mut manifest,
                matrix,
                embedder.as_ref(),
                &save,
                events,
            )?,
            None => 0,
        };
        lock.publish(&manifest)?;
        Ok((index, left_out(tree.listing, &manifest.skipped), n_embedded))
    }

    fn model(&self) -> Option<&str> {
        self.embedder.as_ref().map(|embedder| embedder.id())
    }

    /// The index, if it is what is wanted, else what there is to do; with `is_anew` that is everything. Takes no lock.
    fn look(&self, tree: &Tree, is_anew: bool) -> Result<(Newest, Comparison), Work> {
        let newest = self.open_newest().map_err(|reason| {
            let usable = self.place.folder.manifest_or_copy();
            let usable = usable.map_or(Usable::Nothing, |manifest| Usable::Vectors(Box::new(manifest)));
            Work { reason, usable }
        })?;
        let mut comparison =
            compare(&newest.index.table, &newest.manifest, self.base, tree.listing, tree.walk);
        let reason = if is_anew {
            comparison.same.fill(None);
            Stale::Requested
        } else if comparison.changes.total() > 0 {
            Stale::Files(comparison.changes)
        } else if newest.manifest.walk != *tree.walk || Remembered::of(&newest.manifest) != *tree.remembered {
            Stale::Choice
        } else if let Some(model) = self.missing_model(&newest) {
            Stale::Model(model)
        } else {
            return Ok((newest, comparison));
        };
        Err(Work { reason, usable: Usable::Files(Box::new(newest), comparison) })
    }

    /// The model that is wanted, if not all units have vectors of it.
    fn missing_model(&self, newest: &Newest) -> Option<String> {
        let dense = newest.index.dense.as_ref()?;
        (!complete::is_complete(&dense.matrix)).then(|| dense.embedder.id().to_owned())
    }

    /// Opens the valid generation, whatever has become of the tree since.
    fn open_newest(&self) -> Result<Newest, Stale> {
        let mut last = None;
        loop {
            let manifest = self.place.folder.manifest()?;
            if let Some(reason) = mismatch(&manifest, self.canonical) {
                return Err(reason);
            }
            let opened = self.place.folder.open_checked(&manifest);
            match opened.and_then(|directory| self.open(&directory, &manifest)) {
                Ok(index) => return Ok(Newest { index, manifest }),
                // A writer may have replaced the manifest between two steps of opening what it names.
                Err(_) if last.as_ref() != Some(&manifest) => last = Some(manifest),
                Err(error) => return Err(Stale::Broken(error.in_one_line())),
            }
        }
    }

    /// Records when files that are unchanged were modified and looked at.
    fn note(&self, tree: &Tree, newest: &Newest, comparison: &Comparison) -> Result<(), Error> {
        let folder = &self.place.folder;
        let Some(lock) = folder.try_lock()? else { return Ok(()) };
        if folder.manifest().is_ok_and(|manifest| manifest == newest.manifest) {
            let former = Some(newest.former(comparison));
            let manifest = update::write_generation(tree, former, &lock, |_| true, &|_| {})?;
            lock.publish(&manifest)?;
        }
        Ok(())
    }

    fn open(&self, folder: &Directory, manifest: &Manifest) -> Result<Index, Error> {
        let Manifest { generation, size, parts, .. } = manifest;
        let table = Table::open(folder, generation, *size, parts)?;
        let numbering = Arc::new(table.numbering());
        let of_part = |part: &PartSize| open_folder(&part.folder(folder)?, LEXICAL_FOLDER);
        let folders = parts.iter().map(of_part).collect::<Result<_, Error>>()?;
        let lexical = LexicalIndex::open(folders, &numbering, &table.field_sizes())?;
        let dense = match &self.embedder {
            Some(embedder) => {
                let (id, dimension) = (embedder.id(), embedder.dimension());
                let matrix = complete::open(folder, parts, &numbering, id, dimension)?;
                Some(Dense { embedder: Arc::clone(embedder), matrix })
            }
            None => None,
        };
        let mut index = self.index(table, lexical, dense, None);
        index.trees[0].unread = unread(&manifest.skipped);
        Ok(index)
    }

    fn index(
        &self,
        table: Table,
        lexical: LexicalIndex,
        dense: Option<Dense>,
        in_memory: Option<Origin>,
    ) -> Index {
        let base = walk::base_folder(&self.place.canonical).unwrap_or(&self.place.canonical).to_owned();
        let tree = roots::Tree { base, files: 0..table.files.len(), unread: Vec::new(), roots: Vec::new() };
        Index::of(vec![tree], table, lexical, dense, in_memory)
    }
}

/// Why an index cannot be used for a tree, whatever its files are.
pub(crate) fn mismatch(manifest: &Manifest, root: &str) -> Option<Stale> {
    if manifest.root != root {
        Some(Stale::Root(manifest.root.clone()))
    } else if manifest.program != PROGRAM {
        Some(Stale::Program(manifest.program.clone()))
    } else {
        None
    }
}

fn now_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
