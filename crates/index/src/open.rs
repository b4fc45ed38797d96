//! Opening an index, and building it where there is no fresh one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_corpus::walk::{self, Listing, Skipped, WalkOptions};
use quarry_embed::Embedder;
use serde::Serialize;

use crate::build::LEXICAL_FOLDER;
use crate::changes::{Comparison, compare};
use crate::folder::{FORMAT, IndexFolder, Manifest, PROGRAM};
use crate::lexical::{self, LexicalIndex, N_FIELDS};
use crate::table::Table;
use crate::update::{self, Former, Tree};
use crate::vectors::UnitVectors;
use crate::{Error, complete};

/// Where the index is and what it holds.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The folder of the index; by default one in the user's cache, named after the tree's canonical path.
    pub folder: Option<PathBuf>,
    /// Build even if the index is fresh.
    pub rebuild: bool,
    /// Build where there is no fresh index (the default). Without it an index is opened as it is, however many files
    /// have changed since, and it is an error if there is none; the tree is not looked at.
    pub update: bool,
    /// Which files are indexed.
    pub walk: WalkOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { folder: None, rebuild: false, update: true, walk: WalkOptions::default() }
    }
}

/// What happens while an index is opened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The index that was found is not used, for this reason.
    Stale(&'a Stale),
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

/// Why an index is built anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// There is none.
    Missing,
    /// It was asked for.
    Requested,
    /// Files changed, came or went.
    Files(Changes),
    /// It is of another folder, which this path names.
    Root(String),
    /// It was made by a version of this program that writes this other format.
    Format(u32),
    /// It was made by this other version of this program.
    Program(String),
    /// Not all of its units have vectors of this model yet; those of other models stay.
    Model(String),
    /// It cannot be read; the reason.
    Broken(String),
}

/// How a tree differs from its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// Files of another size or time of modification.
    pub changed: usize,
    /// Files that the index does not know.
    pub new: usize,
    /// Files that are no longer there.
    pub removed: usize,
}

impl Changes {
    /// Number of files in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.changed + self.new + self.removed
    }
}

impl fmt::Display for Changes {
    /// `2 files changed, 1 new, 1 removed`, without what there is none of.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let counts = [(self.changed, "changed"), (self.new, "new"), (self.removed, "removed")];
        let mut counts = counts.into_iter().filter(|(n, _)| *n > 0);
        let Some((n, what)) = counts.next() else { return write!(f, "no file changed") };
        write!(f, "{n} {} {what}", if n == 1 { "file" } else { "files" })?;
        counts.try_for_each(|(n, what)| write!(f, ", {n} {what}"))
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "there is no index yet"),
            Self::Requested => write!(f, "a new index was asked for"),
            Self::Files(changes) => write!(f, "{changes}"),
            Self::Root(root) => write!(f, "the index is of another folder, {root}"),
            Self::Format(format) => write!(f, "the index has format {format}, this program writes {FORMAT}"),
            Self::Program(version) => write!(f, "the index was made by version {version}, this is {PROGRAM}"),
            Self::Model(model) => write!(f, "the index has no vectors of the model {model} yet"),
            Self::Broken(problem) => write!(f, "the index is broken: {problem}"),
        }
    }
}

/// An index that is open for search. Its files are mapped; a later generation does not disturb it.
pub struct Index {
    pub(crate) base: PathBuf,
    pub(crate) table: Table,
    pub(crate) lexical: LexicalIndex,
    pub(crate) dense: Option<Dense>,
    /// The file of each unit and each file's bytes, for scoring files.
    pub(crate) file_of_unit: Vec<u32>,
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
    /// Opens the index of the tree at `root`, which may also be a single file. Builds it first where there is none,
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
        let base = walk::base_folder(root)?;
        let (canonical, folder) = locate(root, options)?;
        let canonical = canonical.to_string_lossy().into_owned();
        let wanted = Wanted { root: &canonical, base, embedder };
        if !options.update {
            let newest = wanted.open_newest(&folder).map_err(|reason| no_index(root, &reason))?;
            return Ok(Opened { index: newest.index, built: None });
        }
        let looked_ns = now_ns();
        let listing = walk::list(root, &options.walk)?;
        let tree = Tree { root, base, canonical: &canonical, listing: &listing, looked_ns };
        let state = wanted.state(&folder, &listing);
        if let State::Fresh(newest, comparison) = state
            && !options.rebuild
        {
            if comparison.has_read {
                // What was learnt by reading is worth noting, but an index that cannot be written is as good.
                let _ = wanted.note(&tree, &folder, &newest, &comparison);
            }
            return Ok(Opened { index: newest.index, built: None });
        }
        let lock = folder.lock(|| events(Event::Waiting))?;
        // Looked at again, because the writer that was waited for may have done the work.
        let (reason, former) = match wanted.state(&folder, &listing) {
            State::Fresh(newest, comparison) if options.rebuild => {
                let same = vec![None; comparison.same.len()];
                (Stale::Requested, Some((newest, Comparison { same, ..comparison })))
            }
            State::Fresh(newest, _) => return Ok(Opened { index: newest.index, built: None }),
            State::Stale(reason, former) => (reason, former),
        };
        events(Event::Stale(&reason));
        folder.remove_unfinished(&lock);
        let former = former.as_ref().map(|(newest, comparison)| newest.former(comparison));
        // With a rebuild the vectors of other models are still what they were.
        let model = wanted.model();
        let is_carried = |id: &str| !options.rebuild || model != Some(id);
        let mut manifest =
            update::write_generation(&tree, former.as_ref(), &folder, &lock, is_carried, events)?;
        let mut index = wanted.open(&folder, &manifest)?;
        let n_embedded = match &mut index.dense {
            Some(Dense { embedder, matrix }) => complete::complete(
                folder.path(),
                base,
                &index.table,
                &manifest.parts,
                matrix,
                embedder.as_ref(),
                events,
            )?,
            None => 0,
        };
        let is_new = |id: &&str| !manifest.models.iter().any(|known| known == id);
        if let Some(id) = model.filter(is_new) {
            manifest.models.push(id.to_owned());
        }
        folder.publish(&manifest, &lock)?;
        Ok(Opened { index, built: Some(BuildReport { reason, skipped: manifest.skipped, n_embedded }) })
    }

    /// Number of files, those without units included.
    #[must_use]
    pub fn n_files(&self) -> usize {
        self.table.files.len()
    }

    /// Number of units.
    #[must_use]
    pub fn n_units(&self) -> usize {
        self.table.units.len()
    }
}

/// What an index must have been made from.
struct Wanted<'a> {
    root: &'a str,
    base: &'a Path,
    embedder: Option<Arc<dyn Embedder>>,
}

/// The valid generation.
struct Newest {
    index: Index,
    manifest: Manifest,
}

impl Newest {
    fn former<'a>(&'a self, comparison: &'a Comparison) -> Former<'a> {
        Former { table: &self.index.table, manifest: &self.manifest, comparison }
    }
}

enum State {
    Fresh(Newest, Comparison),
    /// With what can be used again.
    Stale(Stale, Option<(Newest, Comparison)>),
}

impl Wanted<'_> {
    fn model(&self) -> Option<&str> {
        self.embedder.as_ref().map(|embedder| embedder.id())
    }

    /// What the folder holds. Takes no lock.
    fn state(&self, folder: &IndexFolder, listing: &Listing) -> State {
        let newest = match self.open_newest(folder) {
            Ok(newest) => newest,
            Err(reason) => return State::Stale(reason, None),
        };
        let comparison = compare(&newest.index.table, newest.manifest.looked_ns, self.base, listing);
        if comparison.changes.total() > 0 {
            State::Stale(Stale::Files(comparison.changes), Some((newest, comparison)))
        } else if let Some(model) = self.missing_model(&newest) {
            State::Stale(Stale::Model(model), Some((newest, comparison)))
        } else {
            State::Fresh(newest, comparison)
        }
    }

    /// The model that is wanted, if not all units have vectors of it.
    fn missing_model(&self, newest: &Newest) -> Option<String> {
        let dense = newest.index.dense.as_ref()?;
        (!complete::is_complete(&dense.matrix)).then(|| dense.embedder.id().to_owned())
    }

    /// Opens the valid generation, whatever has become of the tree since.
    fn open_newest(&self, folder: &IndexFolder) -> Result<Newest, Stale> {
        let mut last_generation = None;
        loop {
            let manifest = folder.manifest()?;
            if let Some(reason) = mismatch(&manifest, self.root) {
                return Err(reason);
            }
            match self.open(folder, &manifest) {
                Ok(index) => return Ok(Newest { index, manifest }),
                // A writer may have replaced the generation between two steps of opening it.
                Err(_) if last_generation.as_ref() != Some(&manifest.generation) => {
                    last_generation = Some(manifest.generation);
                }
                Err(error) => return Err(Stale::Broken(chain(&error))),
            }
        }
    }

    /// Records when files that are unchanged were modified and looked at.
    fn note(
        &self,
        tree: &Tree,
        folder: &IndexFolder,
        newest: &Newest,
        comparison: &Comparison,
    ) -> Result<(), Error> {
        let Some(lock) = folder.try_lock()? else { return Ok(()) };
        if folder.manifest().is_ok_and(|manifest| manifest.generation == newest.manifest.generation) {
            let former = newest.former(comparison);
            let manifest = update::write_generation(tree, Some(&former), folder, &lock, |_| true, &|_| {})?;
            folder.publish(&manifest, &lock)?;
        }
        Ok(())
    }

    fn open(&self, folder: &IndexFolder, manifest: &Manifest) -> Result<Index, Error> {
        let Manifest { generation, size, parts, .. } = manifest;
        let table = Table::open(folder.path(), generation, *size, parts)?;
        let numbering = Arc::new(table.numbering(parts));
        let mut n_terms = [0; N_FIELDS];
        table.files.iter().for_each(|file| lexical::add(&mut n_terms, &file.n_terms));
        let folders: Vec<PathBuf> =
            parts.iter().map(|part| folder.path().join(&part.name).join(LEXICAL_FOLDER)).collect();
        let lexical = LexicalIndex::open(&folders, &numbering, &n_terms)?;
        let dense = match &self.embedder {
            Some(embedder) => {
                let (id, dimension) = (embedder.id(), embedder.dimension());
                let matrix = complete::open(folder.path(), parts, &numbering, id, dimension)?;
                Some(Dense { embedder: Arc::clone(embedder), matrix })
            }
            None => None,
        };
        let file_of_unit = table.units.iter().map(|unit| unit.file).collect();
        let file_lengths = table.files.iter().map(|file| file.bytes as f32).collect();
        Ok(Index { base: self.base.to_owned(), table, lexical, dense, file_of_unit, file_lengths })
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

/// The canonical path of a tree and the folder of its index.
pub(crate) fn locate(root: &Path, options: &OpenOptions) -> Result<(PathBuf, IndexFolder), Error> {
    let canonical = root.canonicalize().map_err(|source| Error::io("read", root, source))?;
    let folder = match &options.folder {
        Some(path) => IndexFolder::new(path.clone()),
        None => IndexFolder::in_cache(&canonical)?,
    };
    Ok((canonical, folder))
}

fn no_index(root: &Path, reason: &Stale) -> Error {
    Error::NoIndex { root: root.to_owned(), reason: reason.clone() }
}

/// An error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
