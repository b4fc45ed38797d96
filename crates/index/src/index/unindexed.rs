//! Text that is in no unit: files in unknown languages or over the size limit, and parts of indexed files between
//! units.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quarry_source::{Language, SourceText, UnitKind};
use quarry_walk::{self as walk, Listing, OtherFile, WalkOptions};

use crate::index::roots::{Root, Tree};
use crate::index::scope::Scope;
use crate::lexical::LexicalIndex;
use crate::storage::table::Table;
use crate::{Error, Filter, Hit, Index, IndexedFile, ScoreParts};

/// Maximum age of a listing.
const FRESH: Duration = Duration::from_secs(2);

/// Name of the language that files in unknown languages have.
const LANGUAGE: &str = "text";

/// Files without units, and the time at which they were listed.
type CachedListing = (Instant, Arc<Vec<OtherFile>>);

/// The files of a tree that are not indexed but may be text.
#[derive(Clone)]
pub(crate) struct UnindexedFiles {
    /// Canonical path of the tree.
    root: PathBuf,
    /// The last listing.
    listed: Arc<Mutex<Option<CachedListing>>>,
}

impl UnindexedFiles {
    /// The files of the tree at a path, not listed yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, listed: Arc::default() }
    }

    /// Takes the files from a listing of the tree.
    pub fn take(&self, listing: &Listing) {
        *self.last() = Some((Instant::now(), Arc::new(listing.others.clone())));
    }

    fn last(&self) -> MutexGuard<'_, Option<CachedListing>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self, options: &WalkOptions) -> Result<Arc<Vec<OtherFile>>, Error> {
        if let Some((_, files)) = self.last().as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Arc::clone(files));
        }
        self.take(&walk::list(&self.root, options)?);
        Ok(self.last().as_ref().map(|(_, files)| Arc::clone(files)).unwrap_or_default())
    }
}

/// The files that a search would find if they were indexed.
pub struct Unindexed<'a> {
    /// In the order of their trees and paths.
    pub files: Vec<UnindexedFile<'a>>,
    /// Number of those that are too large to be read.
    pub n_too_large: usize,
    /// Number of those that a filter by language, kind or name leaves out.
    pub n_left_out: usize,
}

/// A file that is not indexed but may be text.
pub struct UnindexedFile<'a> {
    index: &'a Index,
    pub(crate) root: usize,
    pub(crate) path: String,
    language: &'static str,
}

impl UnindexedFile<'_> {
    /// Larger files are not read.
    pub const MAX_BYTES: u64 = 64 << 20;

    /// Reads it as [`Index::text`] does.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn text(&self) -> Result<SourceText, Error> {
        self.index.text_in(self.root, &self.path)
    }

    /// A part of it as a hit without a unit; `lines` are 1-based, inclusive.
    pub fn part(&self, lines: (u32, u32)) -> Hit {
        part(self.root, &self.path, self.language, lines)
    }

    /// Name of its language; that of text if it is unknown.
    pub fn language(&self) -> &str {
        self.language
    }
}

impl IndexedFile<'_> {
    /// A part of it that is in no unit, as a hit; `lines` are 1-based, inclusive.
    pub fn part(&self, lines: (u32, u32)) -> Option<Hit> {
        let (root, path) = self.place()?;
        Some(part(root, path, self.language(), lines))
    }
}

fn part(root: usize, path: &str, language: &str, (start_line, end_line): (u32, u32)) -> Hit {
    Hit {
        unit: Hit::NO_UNIT,
        root,
        path: path.to_owned(),
        start_line,
        end_line,
        name: String::new(),
        signature: String::new(),
        kind: UnitKind::Module,
        language: language.to_owned(),
        score: 0.0,
        parts: ScoreParts::default(),
    }
}

impl Index {
    /// An index without units, of a path in which nothing can be indexed; among several indexes it has index `number`.
    /// Its text can be searched exactly.
    ///
    /// # Errors
    /// When there is nothing at the path.
    pub fn without_units(path: &Path, number: usize, found: WalkOptions) -> Result<Self, Error> {
        let path = &*walk::resolved(path);
        let base = walk::base_directory(path)?;
        let canonical = |path: &Path| path.canonicalize().map_err(|source| Error::io("read", path, source));
        let found = if path.is_file() { found.for_named_file() } else { found };
        let (scope, filter) = (Scope::default(), Filter::default());
        let root = Root { number, base: base.to_owned(), scope, found, filter };
        let table = Table::in_memory(Vec::new())?;
        let lexical =
            LexicalIndex::from_parts(Vec::new(), &Arc::new(table.numbering()), &table.field_sizes());
        let tree = Tree {
            base: canonical(base)?,
            stored: None,
            files: 0..0,
            unread: Vec::new(),
            others: UnindexedFiles::new(canonical(path)?),
            roots: vec![root],
            unsaved: HashMap::new(),
        };
        Ok(Self::from_parts(vec![tree], table, lexical, None, None))
    }

    /// Checks that it is read from trees, so that all of their text can be searched.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_complete(&self) -> Result<(), Error> {
        match self.carried {
            Some(_) => Err(Error::NotKept { what: "the text of all files, which exact search reads," }),
            None => Ok(()),
        }
    }

    /// The files in unknown languages or over the size limit that pass a filter.
    ///
    /// # Errors
    /// When a tree cannot be listed.
    pub fn unindexed(&self, filter: &Filter) -> Result<Unindexed<'_>, Error> {
        let mut found = Unindexed { files: Vec::new(), n_too_large: 0, n_left_out: 0 };
        let mut seen = HashSet::new();
        for tree in &self.trees {
            let listed = tree.others()?;
            for file in listed.iter() {
                let place = tree.roots.iter().find_map(|root| {
                    let path = root.scope.relative(&file.path)?;
                    let is_found = root.found.lists(0, file.flags)
                        && [&root.filter, filter].into_iter().all(|filter| filter.path(path, file.flags))
                        && filter.root(root.number);
                    is_found.then(|| (root, path.to_owned()))
                });
                let Some((root, path)) = place else { continue };
                // Trees may be nested.
                if self.trees.len() > 1 && !seen.insert(tree.base.join(&file.path)) {
                    continue;
                }
                let language = file.language.map_or(LANGUAGE, Language::name);
                let takes =
                    |filter: &Filter| filter.takes_parts() && filter.file(&path, language, file.flags);
                if !takes(filter) || !takes(&root.filter) {
                    found.n_left_out += 1;
                } else if file.bytes > UnindexedFile::MAX_BYTES {
                    found.n_too_large += 1;
                } else {
                    found.files.push(UnindexedFile { index: self, root: root.number, path, language });
                }
            }
        }
        found.files.sort_by(|a, b| (a.root, &a.path).cmp(&(b.root, &b.path)));
        Ok(found)
    }

    /// The file that is not indexed at a path relative to the searched path with index `root`.
    ///
    /// # Errors
    /// When its tree cannot be listed.
    pub fn unindexed_file(&self, root: usize, path: &str) -> Result<Option<UnindexedFile<'_>>, Error> {
        let all = self.unindexed(&Filter::default().in_roots(vec![root]))?;
        Ok(all.files.into_iter().find(|file| file.path == path))
    }

    /// The files that pass a filter, in the order of their paths, with the units that do, even if there are none.
    pub fn searched_files(&self, filter: &Filter) -> Vec<IndexedFile<'_>> {
        let with_units = self.files(filter);
        if !filter.takes_parts() {
            return with_units;
        }
        let mut with_units = with_units.into_iter().peekable();
        let rows = 0..self.table.files.len();
        rows.filter_map(|row| {
            with_units.next_if(|file| file.row() == row).or_else(|| self.file_without_units(row, filter))
        })
        .collect()
    }

    fn file_without_units(&self, row: usize, filter: &Filter) -> Option<IndexedFile<'_>> {
        let (file, (root, path)) = (&self.table.files[row], self.root_of(row)?);
        let passes = |filter: &Filter| {
            filter.takes_parts() && filter.file(path, self.table.text(file.language), file.flags())
        };
        (filter.root(root.number) && passes(filter) && passes(&root.filter))
            .then(|| IndexedFile::empty(self, row))
    }
}

impl Tree {
    pub(crate) fn others(&self) -> Result<Arc<Vec<OtherFile>>, Error> {
        let options = self.roots.iter().map(|root| root.found).reduce(|a, b| a.union(&b));
        self.others.files(&options.unwrap_or_default())
    }
}
