//! The on-disk index of a source tree: lexical and dense search, fusion, ranking rules.
//!
//! [`Index::open_or_build`] opens the index of a tree, and builds or refreshes it first if necessary;
//! [`Index::search`] ranks its units for a query. The parts of a ranking are modules that work without
//! an index: [`lexical`] (BM25F), [`vectors`] (exact int8 scan), [`fusion`] and [`rules`].
//!
//! A module imports only from its own layer and from those below:
//!
//! | Layer | What is in it |
//! |---|---|
//! | `lifecycle` | locating, opening, building, refreshing and describing indexes; vectors for re-rankers |
//! | `calls` | callers and callees |
//! | `ranking` | search: rules, fusion, the mixture of two rankings, re-ranking, confidence, explanations |
//! | `index` | [`Index`], which is open, with its trees, files and units |
//! | [`lexical`], [`vectors`] | scores by terms, and by vectors of units and of their passages |
//! | `storage` | files on disk: columns, the table of files and units, segments, generations and the lock |
//! | `error`, `rebuild_reason`, `version` | what every layer needs |

#![allow(
    unreachable_pub,
    reason = "the layers are private modules, whose public items are those of the layer"
)]

mod calls;
mod error;
mod index;
pub mod lexical;
mod lifecycle;
mod ranking;
mod rebuild_reason;
mod storage;
pub mod vectors;
mod version;

pub use calls::{
    CallLink, CallSite, Callee, Calls, FileLinks, ImportLink, LinkedFile, LinkedUnit, Links, UnfinishedFile,
};
pub use error::{Error, expected_bytes};
pub use index::Index;
pub use index::entries::Entries;
pub use index::filter::Filter;
pub use index::hit::{Hit, ScoreParts};
pub use index::indexed_file::IndexedFile;
pub use index::portable::{FileKey, PortableTree, Totals};
pub use index::source::{FileReader, UnitSource};
pub use index::unindexed::{Unindexed, UnindexedFile};
pub use lifecycle::behind::Behind;
pub use lifecycle::location::LOCAL_DIRECTORY;
pub use lifecycle::options::{Event, OpenOptions, Update};
pub use lifecycle::outcome::{BuildReport, Opened, Outdated};
pub use lifecycle::precompute::{Precomputation, PrecomputedCounts};
pub use lifecycle::status::{IndexStatus, Remembered, Status};
pub use lifecycle::unsaved::SplitFiles;
pub use ranking::confidence::{DEFAULT_THRESHOLD, Evidence};
pub use ranking::explain::{Combination, Explanation};
pub use ranking::ranked_units::RankedUnits;
pub use ranking::rankings::{NamedRanking, RANKINGS};
pub use ranking::request::{SearchRequest, SearchResponse};
pub use ranking::weights::RankingWeights;
pub use ranking::{confidence, fusion, intent, issue, question, rerank, rules, snippet};
pub use rebuild_reason::{Changes, RebuildReason};
pub use storage::index_directory::kept::UserIndexes;
pub use storage::segments::{SegmentCounts, SegmentPool};
pub use storage::table::portable::{PortableFile, PortableUnit};
pub use storage::user_directories::UserDirectories;
pub use vectors::embedding_text::embedding_text;
