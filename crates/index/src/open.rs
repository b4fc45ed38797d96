//! Opening an index, and building it where there is no fresh one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_corpus::walk::{self, Listing, Skipped, WalkOptions};
use quarry_embed::Embedder;
use serde::Serialize;

use crate::Error;
use crate::build::{self, LEXICAL_FOLDER, Reusable};
use crate::folder::{FORMAT, IndexFolder, Manifest};
use crate::lexical::LexicalIndex;
use crate::table::{Table, TableSize, UnitRecord};
use crate::vectors::VectorMatrix;

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
    /// It was made with this other model (none: lexical only).
    Model(Option<String>),
    /// It was made with another size limit, of this many bytes.
    SizeLimit(u64),
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
            Self::Model(Some(model)) => write!(f, "the index was made with another model, {model}"),
            Self::Model(None) => write!(f, "the index was made without a model"),
            Self::SizeLimit(bytes) => write!(f, "the index was made with a size limit of {bytes} bytes"),
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
    pub matrix: VectorMatrix,
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
    /// where any file's size or time of modification is not as recorded, or where the index is of another format
    /// or model; a build that fails leaves the former index as it was. Without `embedder` the index is lexical.
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
        let wanted = Wanted {
            root: canonical.to_string_lossy().into_owned(),
            base: base.to_owned(),
            embedder,
            max_bytes: options.walk.max_bytes,
        };
        if !options.update {
            let index = wanted.open_newest(&folder).map_err(|reason| no_index(root, &reason))?;
            return Ok(Opened { index, built: None });
        }
        let listing = walk::list(root, &options.walk)?;
        if !options.rebuild
            && let State::Fresh(index) = wanted.state(&folder, &listing)
        {
            return Ok(Opened { index, built: None });
        }
        let lock = folder.lock(|| events(Event::Waiting))?;
        // Looked at again, because the writer that was waited for may have done the work.
        let (reason, former) = match wanted.state(&folder, &listing) {
            State::Fresh(_) if options.rebuild => (Stale::Requested, None),
            State::Fresh(index) => return Ok(Opened { index, built: None }),
            State::Stale(reason, former) => (reason, former),
        };
        events(Event::Stale(&reason));
        folder.remove_unfinished(&lock);
        let generation = folder.start_generation(&lock)?;
        let reusable = former.map(|former| former.into_reusable()).unwrap_or_default();
        let path = folder.path().join(&generation);
        let built = build::build(root, base, &listing, &path, wanted.embedder.as_deref(), &reusable, events)?;
        let manifest = wanted.manifest(generation, built.size, built.skipped.clone());
        folder.publish(&manifest, &lock)?;
        let index = wanted.open(&folder, &manifest)?;
        Ok(Opened {
            index,
            built: Some(BuildReport { reason, skipped: built.skipped, n_embedded: built.n_embedded }),
        })
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

    fn into_reusable(self) -> Reusable {
        match self.dense {
            Some(dense) => Reusable::new(self.table.units.iter().map(UnitRecord::hash), dense.matrix),
            None => Reusable::default(),
        }
    }
}

/// What an index must have been made from.
struct Wanted {
    root: String,
    base: PathBuf,
    embedder: Option<Arc<dyn Embedder>>,
    max_bytes: u64,
}

enum State {
    Fresh(Index),
    /// With the former index, if its vectors can be used again.
    Stale(Stale, Option<Index>),
}

impl Wanted {
    /// What the folder holds. Takes no lock.
    fn state(&self, folder: &IndexFolder, listing: &Listing) -> State {
        let index = match self.open_newest(folder) {
            Ok(index) => index,
            Err(reason) => return State::Stale(reason, None),
        };
        let changes = index.table.changes(listing);
        match changes.total() {
            0 => State::Fresh(index),
            _ => State::Stale(Stale::Files(changes), Some(index)),
        }
    }

    /// Opens the valid generation, whatever has become of the tree since.
    fn open_newest(&self, folder: &IndexFolder) -> Result<Index, Stale> {
        let mut last_generation = None;
        loop {
            let manifest = folder.manifest()?;
            if let Some(reason) = self.mismatch(&manifest) {
                return Err(reason);
            }
            match self.open(folder, &manifest) {
                Ok(index) => return Ok(index),
                // A writer may have replaced the generation between two steps of opening it.
                Err(_) if last_generation.as_ref() != Some(&manifest.generation) => {
                    last_generation = Some(manifest.generation);
                }
                Err(error) => return Err(Stale::Broken(chain(&error))),
            }
        }
    }

    fn mismatch(&self, manifest: &Manifest) -> Option<Stale> {
        let model = self.embedder.as_ref().map(|embedder| embedder.id());
        if manifest.root != self.root {
            Some(Stale::Root(manifest.root.clone()))
        } else if manifest.model.as_deref() != model {
            Some(Stale::Model(manifest.model.clone()))
        } else if manifest.max_bytes != self.max_bytes {
            Some(Stale::SizeLimit(manifest.max_bytes))
        } else {
            None
        }
    }

    fn manifest(&self, generation: String, size: TableSize, skipped: Vec<Skipped>) -> Manifest {
        Manifest {
            format: FORMAT,
            generation,
            root: self.root.clone(),
            model: self.embedder.as_ref().map(|embedder| embedder.id().to_owned()),
            max_bytes: self.max_bytes,
            size,
            skipped,
        }
    }

    fn open(&self, folder: &IndexFolder, manifest: &Manifest) -> Result<Index, Error> {
        let generation = folder.path().join(&manifest.generation);
        let table = Table::open(&generation, manifest.size)?;
        let lexical = LexicalIndex::open(&generation.join(LEXICAL_FOLDER))?;
        if lexical.len() != table.units.len() {
            let problem = format!("{} texts where {} belong", lexical.len(), table.units.len());
            return Err(Error::corrupt(&generation.join(LEXICAL_FOLDER), problem));
        }
        let dense = match &self.embedder {
            Some(embedder) => {
                let matrix = VectorMatrix::open(&generation, table.units.len(), embedder.dimension())?;
                Some(Dense { embedder: Arc::clone(embedder), matrix })
            }
            None => None,
        };
        let file_of_unit = table.units.iter().map(|unit| unit.file).collect();
        let file_lengths = table.files.iter().map(|file| file.bytes as f32).collect();
        Ok(Index { base: self.base.clone(), table, lexical, dense, file_of_unit, file_lengths })
    }
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
