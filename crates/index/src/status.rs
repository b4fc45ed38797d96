//! What is known of an index without building it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_source::UnitKind;
use quarry_walk::{self as walk, Skipped, WalkOptions};

use crate::changes::compare;
use crate::folder::FORMAT;
use crate::open::mismatch;
use crate::place::{Place, Places};
use crate::reach::Reach;
use crate::table::{KINDS, Table};
use crate::update::left_out;
use crate::{Error, Index, OpenOptions, Stale};

/// The state of the index of a tree.
#[derive(Debug, Clone)]
pub struct Status {
    /// Canonical path of the tree that is indexed: the one that was asked about, or one around it.
    pub root: PathBuf,
    /// The path that was asked about, relative to `root`; empty where it is the same.
    pub part: String,
    /// Folder of the index, whether there is one or not.
    pub folder: PathBuf,
    /// Format that this program reads and writes; an index of another one is built anew.
    pub format: u32,
    /// What the index holds; none where there is none that can be read.
    pub index: Option<IndexStatus>,
    /// What is in the place of an index in the tree, or in one around it, and is left alone: this user has not made it on
    /// this machine.
    pub ignored: Vec<PathBuf>,
    /// Why the next search would build or refresh it; none when it is fresh. A search with a model that the index does
    /// not have ([`IndexStatus::models`]) embeds the units for it.
    pub stale: Option<Stale>,
}

/// What an index holds.
#[derive(Debug, Clone)]
pub struct IndexStatus {
    /// Ids of the models that it has vectors of; none for a lexical index.
    pub models: Vec<String>,
    /// Bytes on disk.
    pub bytes: u64,
    /// When it was last built or refreshed.
    pub made: SystemTime,
    /// Number of files, those without units included.
    pub files: usize,
    /// Of them those in [`Status::part`].
    pub files_in_part: usize,
    /// Number of units.
    pub units: usize,
    /// Units of each language, by its name.
    pub units_by_language: BTreeMap<String, usize>,
    /// Units of each kind.
    pub units_by_kind: Vec<(UnitKind, usize)>,
    /// Files of the tree that were left out, ascending by path.
    pub skipped: Vec<Skipped>,
}

impl Index {
    /// Says what the index that a search of `root` would use holds, and whether it is fresh. Builds and changes nothing,
    /// and takes no lock.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn status(root: &Path, options: &OpenOptions) -> Result<Status, Error> {
        let root = &*walk::resolved(root);
        walk::base_folder(root)?;
        let Places { enclosing, own, ignored } = Places::of(root, options)?;
        for place in &enclosing {
            let status = Self::status_at(place, options)?;
            if status.index.as_ref().is_some_and(|index| index.files_in_part > 0) {
                return Ok(Status { ignored, ..status });
            }
        }
        Ok(Status { ignored, ..Self::status_at(&own, options)? })
    }

    /// What is in the place of an index in the tree at `root`, or in one around it, and is left alone, because this user has
    /// not made it on this machine. Looks at nothing else.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn ignored(root: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>, Error> {
        Ok(Places::of(&walk::resolved(root), options)?.ignored)
    }

    /// Which files a search of `root` finds.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn found(root: &Path, options: &OpenOptions) -> Result<WalkOptions, Error> {
        let Places { enclosing, own, .. } = Places::of(&walk::resolved(root), options)?;
        let place = enclosing.first().unwrap_or(&own);
        Ok(Reach::of(options, place.folder.manifest().ok().as_ref(), !place.scope.is_all()).found)
    }

    /// How the model is called that the index which a search of `root` would use was told to be searched with
    /// ([`OpenOptions::model`]); none where it was told none.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn remembered_model(root: &Path, options: &OpenOptions) -> Result<Option<String>, Error> {
        let Places { enclosing, own, .. } = Places::of(&walk::resolved(root), options)?;
        let told = |place: &Place| place.folder.manifest().ok()?.remembered_model;
        for place in &enclosing {
            // An index around the path answers only if it holds files of it.
            if let Some(model) = told(place)
                && Self::status_at(place, options)?.index.is_some_and(|index| index.files_in_part > 0)
            {
                return Ok(Some(model));
            }
        }
        Ok(told(&own))
    }

    fn status_at(place: &Place, options: &OpenOptions) -> Result<Status, Error> {
        let Place { root, canonical, folder, scope } = place;
        if folder.path().as_os_str().is_empty() {
            return Err(Error::NoCacheFolder);
        }
        let mut status = Status {
            folder: folder.path(),
            ignored: Vec::new(),
            format: FORMAT,
            index: None,
            stale: None,
            root: canonical.clone(),
            part: scope.path().to_owned(),
        };
        let manifest = match folder.manifest() {
            Ok(manifest) => manifest,
            Err(reason) => return Ok(Status { stale: Some(reason), ..status }),
        };
        let open = |index| Table::open(&index, &manifest.generation, manifest.size, &manifest.parts);
        let table = match folder.open_checked(&manifest).and_then(open) {
            Ok(table) => table,
            Err(error) => return Ok(Status { stale: Some(Stale::Broken(error.to_string())), ..status }),
        };
        let held = Reach::of(options, Some(&manifest), !scope.is_all()).held;
        let listing = walk::list(root, &held)?;
        let base = &walk::open(walk::base_folder(root)?)?;
        status.stale = mismatch(&manifest, &canonical.to_string_lossy()).or_else(|| {
            let changes = compare(&table, &manifest, base, &listing, &held).changes;
            (changes.total() > 0).then_some(Stale::Files(changes))
        });
        let (bytes, made) = folder.size_and_time()?;
        let mut units_by_language: BTreeMap<String, usize> = BTreeMap::new();
        let mut by_kind = KINDS.map(|kind| (kind, 0));
        for unit in table.units.iter() {
            let language = table.text(unit.language);
            match units_by_language.get_mut(language) {
                Some(n) => *n += 1,
                None => drop(units_by_language.insert(language.to_owned(), 1)),
            }
            by_kind.iter_mut().filter(|(kind, _)| *kind == unit.kind()).for_each(|(_, n)| *n += 1);
        }
        status.index = Some(IndexStatus {
            models: manifest.models,
            bytes,
            made,
            files: table.files.len(),
            files_in_part: scope.n_files(&table),
            units: table.units.len(),
            units_by_language,
            units_by_kind: by_kind.to_vec(),
            skipped: left_out(&listing, &manifest.skipped),
        });
        Ok(status)
    }
}
