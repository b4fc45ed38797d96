//! The status of an index.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use quarry_index::{IndexStatus, Status};
use quarry_walk::Skipped;
use serde::Serialize;

use crate::kind_name;

/// The state of the index of a tree.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusView {
    /// The indexed tree.
    pub root: PathBuf,
    /// The given path, relative to the root; empty if it is the same.
    pub part: String,
    /// Directory of the index.
    pub index: PathBuf,
    /// Index directories that are not used, because this user did not write them on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ignored: Vec<PathBuf>,
    /// True if the index is up to date.
    pub fresh: bool,
    /// Why it is stale.
    pub reason: Option<String>,
    /// Contents of the index; null if there is none.
    pub holds: Option<Holds>,
}

/// Contents of an index.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IndexContent"))]
pub struct Holds {
    /// The options that `quarry index` remembers.
    pub remembered: RememberedView,
    /// Ids of the models whose vectors it contains.
    pub models: Vec<String>,
    /// On disk.
    pub bytes: u64,
    /// Seconds since 1970.
    pub made: u64,
    /// Number of files.
    pub files: usize,
    /// Number of files of the given path.
    pub files_in_part: usize,
    /// Number of units.
    pub units: usize,
    /// Number of units with vectors of each re-ranker, by the id of that; the quality `auto` uses them.
    pub precomputed: BTreeMap<String, usize>,
    /// By name of the language.
    pub units_by_language: BTreeMap<String, usize>,
    /// By kind.
    pub units_by_kind: BTreeMap<&'static str, usize>,
    /// Skipped files of the given path.
    pub skipped: Vec<SkippedView>,
}

/// The options that `quarry index` remembers; null for others.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RememberedView {
    /// The model.
    pub model: Option<String>,
    /// Larger files are skipped.
    pub max_bytes: Option<u64>,
    /// True if hidden files are found.
    pub hidden: Option<bool>,
    /// True if ignored files are found.
    pub ignored: Option<bool>,
}

/// A file that was left out.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct SkippedView {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl StatusView {
    /// The view of a status.
    pub fn new(status: Status) -> Self {
        Self {
            root: status.root,
            part: status.part,
            index: status.directory,
            ignored: status.ignored,
            fresh: status.stale.is_none(),
            reason: status.stale.map(|reason| reason.to_string()),
            holds: status.index.map(Holds::new),
        }
    }
}

impl Holds {
    fn new(index: IndexStatus) -> Self {
        let skipped = index.skipped.into_iter();
        Self {
            remembered: RememberedView {
                model: index.remembered.model,
                max_bytes: index.remembered.walk.max_bytes,
                hidden: index.remembered.walk.hidden,
                ignored: index.remembered.walk.ignored,
            },
            models: index.models,
            bytes: index.bytes,
            made: index.made.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            files: index.files,
            files_in_part: index.files_in_part,
            units: index.units,
            precomputed: index.precomputed,
            units_by_language: index.units_by_language,
            units_by_kind: index.units_by_kind.iter().map(|(kind, n)| (kind_name(*kind), *n)).collect(),
            skipped: skipped
                .map(|Skipped { path, reason }| SkippedView { path, reason: reason.to_string() })
                .collect(),
        }
    }
}
