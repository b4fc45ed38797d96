//! The status of an index, without building it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_files::Directory;
use quarry_source::UnitKind;
use quarry_walk::{self as walk, Skipped, WalkChoice, WalkOptions};

use crate::lifecycle::changes::compare;
use crate::lifecycle::file_selection::FileSelection;
use crate::lifecycle::location::{IndexLocation, IndexLocations};
use crate::lifecycle::precompute::n_precomputed;
use crate::lifecycle::source_tree::{RememberedSettings, left_out};
use crate::storage::index_directory::Manifest;
use crate::storage::table::KINDS;
use crate::version::FORMAT;
use crate::{Error, Index, OpenOptions, RebuildReason};

/// The state of the index of a tree.
#[derive(Debug, Clone)]
pub struct Status {
    /// Canonical path of the indexed tree: the given path or an enclosing directory.
    pub root: PathBuf,
    /// The given path, relative to `root`; empty if it is the same.
    pub part: String,
    /// Directory of the index, which may not exist.
    pub directory: PathBuf,
    /// Format that this program reads and writes; an index of another format is rebuilt.
    pub format: u32,
    /// Contents of the index; `None` if it is missing or cannot be read.
    pub index: Option<IndexStatus>,
    /// Index directories in the tree, or in an enclosing one, that are ignored: this user did not write them on this
    /// machine.
    pub ignored: Vec<PathBuf>,
    /// Why the next search would build or refresh it; `None` if it is fresh. A search with a model that the index
    /// does not have ([`IndexStatus::models`]) embeds the units for it.
    pub stale: Option<RebuildReason>,
}

/// The contents of an index.
#[derive(Debug, Clone)]
pub struct IndexStatus {
    /// The settings that it remembers.
    pub remembered: Remembered,
    /// Ids of the models for which it has vectors; empty for a lexical index.
    pub models: Vec<String>,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// When it was last built or refreshed.
    pub made: SystemTime,
    /// Number of files, including those without units.
    pub files: usize,
    /// Number of these files in [`Status::part`].
    pub files_in_part: usize,
    pub units: usize,
    /// Number of units with vectors of each re-ranker, by the id of that.
    pub precomputed: BTreeMap<String, usize>,
    /// Number of units of each language, by its name.
    pub units_by_language: BTreeMap<String, usize>,
    /// Number of units of each kind.
    pub units_by_kind: Vec<(UnitKind, usize)>,
    /// Files of [`Status::part`] that were skipped, ascending by path.
    pub skipped: Vec<Skipped>,
}

/// The settings given to `quarry index` for an index, which apply to all searches that do not override them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Directory of the index.
    pub index: PathBuf,
    /// Name of the model.
    pub model: Option<String>,
    /// Choice of the files that are found.
    pub walk: WalkChoice,
}

impl Index {
    /// The status of the index that a search of `root` would use. Builds and changes nothing, and takes no lock.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn status(root: &Path, options: &OpenOptions) -> Result<Status, Error> {
        let root = &*walk::resolved(root);
        walk::base_directory(root)?;
        let IndexLocations { enclosing, own, ignored } = IndexLocations::find(root, options)?;
        for location in &enclosing {
            let status = Self::status_at(location, options)?;
            if status.index.as_ref().is_some_and(|index| index.files_in_part > 0) {
                return Ok(Status { ignored, ..status });
            }
        }
        Ok(Status { ignored, ..Self::status_at(&own, options)? })
    }

    /// Reads all files of the indexes that a search of `root` may use, and returns the first damage to each.
    ///
    /// # Errors
    /// Like [`status`](Self::status).
    pub fn damage(root: &Path, options: &OpenOptions) -> Result<Vec<Error>, Error> {
        let IndexLocations { enclosing, own, .. } = IndexLocations::find(&walk::resolved(root), options)?;
        let locations = enclosing.iter().chain([&own]);
        Ok(locations.filter_map(|location| location.directory.damage()).collect())
    }

    /// Index directories in the tree at `root`, or in an enclosing one, that are ignored because this user did not
    /// write them on this machine. Reads nothing else.
    ///
    /// # Errors
    /// Like [`status`](Self::status).
    pub fn ignored(root: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>, Error> {
        Ok(IndexLocations::find(&walk::resolved(root), options)?.ignored)
    }

    /// Options for the files that a search of `root` finds.
    ///
    /// # Errors
    /// Like [`status`](Self::status).
    pub fn found(root: &Path, options: &OpenOptions) -> Result<WalkOptions, Error> {
        let IndexLocations { enclosing, own, .. } = IndexLocations::find(&walk::resolved(root), options)?;
        let location = enclosing.first().unwrap_or(&own);
        let manifest = location.directory.manifest_or_copy();
        Ok(FileSelection::new(options, manifest.as_ref(), !location.scope.is_all()).found)
    }

    /// The settings that the index for a search of `root` remembers, if any.
    ///
    /// # Errors
    /// Like [`status`](Self::status).
    pub fn remembered(root: &Path, options: &OpenOptions) -> Result<Option<Remembered>, Error> {
        let IndexLocations { enclosing, own, .. } = IndexLocations::find(&walk::resolved(root), options)?;
        let locations = enclosing.iter().chain([&own]);
        let known: Vec<(&IndexLocation, Manifest)> = locations
            .filter_map(|location| Some((location, location.directory.manifest_or_copy()?)))
            .collect();
        // Nearly always the case, and then no index needs to be opened.
        if known
            .iter()
            .all(|(_, manifest)| RememberedSettings::from_manifest(manifest) == RememberedSettings::default())
        {
            return Ok(None);
        }
        // An index of an enclosing directory is used only if it contains files of the path.
        let holds_files = |location: &IndexLocation, manifest: &Manifest| {
            let opened = location.directory.open_checked(manifest);
            let table = opened.and_then(|index| manifest.table(&index));
            table.is_ok_and(|table| location.scope.n_files(&table) > 0)
        };
        let mut known = known.into_iter();
        let answers = |(location, manifest): &(&IndexLocation, Manifest)| {
            location.scope.is_all() || holds_files(location, manifest)
        };
        Ok(known.find(answers).map(|(location, manifest)| Remembered {
            index: location.directory.path(),
            model: manifest.remembered_model,
            walk: manifest.remembered,
        }))
    }

    fn status_at(location: &IndexLocation, options: &OpenOptions) -> Result<Status, Error> {
        let IndexLocation { root, canonical, directory, scope } = location;
        if directory.path().as_os_str().is_empty() {
            return Err(Error::NoCacheDirectory);
        }
        let mut status = Status {
            directory: directory.path(),
            ignored: Vec::new(),
            format: FORMAT,
            index: None,
            stale: None,
            root: canonical.clone(),
            part: scope.path().to_owned(),
        };
        let manifest = match directory.manifest() {
            Ok(manifest) => manifest,
            Err(reason) => return Ok(Status { stale: Some(reason), ..status }),
        };
        let open = |index: Directory| -> Result<_, Error> {
            let table = manifest.table(&index)?;
            let precomputed = n_precomputed(&index, &table, &manifest.parts)?;
            Ok((table, precomputed))
        };
        let (table, precomputed) = match directory.open_checked(&manifest).and_then(open) {
            Ok(opened) => opened,
            Err(error) => {
                return Ok(Status { stale: Some(RebuildReason::Broken(error.to_string())), ..status });
            }
        };
        let held = FileSelection::new(options, Some(&manifest), !scope.is_all()).held;
        let listing = walk::list(root, &held)?;
        let base = &walk::open(walk::base_directory(root)?)?;
        status.stale = manifest.mismatch(&canonical.to_string_lossy()).or_else(|| {
            let changes = compare(&table, &manifest, base, &listing, &held).changes;
            (changes.total() > 0).then_some(RebuildReason::Files(changes))
        });
        let (bytes, made) = directory.size_and_time()?;
        let mut skipped = left_out(&listing, &manifest.skipped);
        // The status of a part must not reveal files outside of it.
        skipped.retain(|file| scope.relative(&file.path).is_some());
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
            remembered: Remembered {
                index: directory.path(),
                model: manifest.remembered_model,
                walk: manifest.remembered,
            },
            models: manifest.models,
            bytes,
            made,
            files: table.files.len(),
            files_in_part: scope.n_files(&table),
            units: table.units.len(),
            precomputed,
            units_by_language,
            units_by_kind: by_kind.to_vec(),
            skipped,
        });
        Ok(status)
    }
}
