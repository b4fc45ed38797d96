//! The on-disk index of a source tree: lexical and dense search, fusion, ranking rules.
//!
//! [`Index::open_or_build`] opens the index of a tree, and builds or refreshes it first if necessary;
//! [`Index::search`] ranks its units for a query. The parts of a ranking are modules that work without
//! an index: [`lexical`] (BM25F), [`vectors`] (exact int8 scan), [`fusion`] and [`rules`].

mod ahead;
mod build;
mod calls;
mod changes;
mod checkpoint;
mod complete;
pub mod confidence;
mod error;
mod explain;
mod file_selection;
mod filter;
pub mod fusion;
mod index_directory;
mod indexed_file;
pub mod intent;
pub mod lexical;
mod location;
mod memory;
mod mixture;
mod open;
mod pieces;
mod portable;
pub mod question;
mod rankings;
mod rebuild_reason;
mod records;
pub mod rerank;
mod respelling;
mod roots;
pub mod rules;
mod search;
mod segments;
mod selection;
mod sibling;
pub mod snippet;
mod source;
mod status;
mod storage;
mod table;
mod tokens;
mod unread;
mod update;
pub mod vectors;

pub use ahead::{Ahead, EmbeddedAhead};
pub use build::embedding_text;
pub use calls::{CallSite, Callee, Calls, UnfinishedFile};
pub use changes::Changes;
pub use confidence::{DEFAULT_THRESHOLD, Evidence};
pub use error::{Error, expected_bytes};
pub use explain::{Combination, Explanation};
pub use filter::Filter;
pub use index_directory::kept::UserIndexes;
pub use indexed_file::IndexedFile;
pub use location::LOCAL_DIRECTORY;
pub use open::{BuildReport, Event, Index, OpenOptions, Opened, Outdated, Update, UserDirectories};
pub use portable::{FileKey, PortableFile, PortableTree, PortableUnit, Totals};
pub use rankings::{NamedRanking, RANKINGS};
pub use rebuild_reason::RebuildReason;
pub use search::{Hit, RankedUnits, RankingWeights, ScoreParts, SearchRequest, SearchResponse};
pub use segments::{SegmentCounts, SegmentPool};
pub use source::UnitSource;
pub use status::{IndexStatus, Remembered, Status};
