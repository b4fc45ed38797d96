//! A served index in another engine: many trees, of which one process need not hold all.
//!
//! The engine keeps records by key and finds candidates: units with vectors near to one, and units with the words of a
//! query. Which of them answer is decided here, by the ranking of `quarry_index` over the files of the candidates.
//!
//! A file is stored under a key that is a hash of what it is made of, so that what is stored never changes: [`upload`]
//! adds what is missing, then replaces the head of the tree, one record, and then removes what no head names. A
//! [`Reader`] searches what the heads name that it knows, looks at the heads again, and begins anew if one was replaced
//! meanwhile. So it answers from a tree as it was before or after, never in between.

mod cache;
mod engine;
mod error;
mod layout;
mod memory;
#[cfg(feature = "milvus")]
mod milvus;
mod reader;
mod upload;

pub use engine::{Engine, Narrowing, Record, Space, UnitRow};
pub use error::EngineError;
pub use memory::MemoryEngine;
#[cfg(feature = "milvus")]
pub use milvus::Milvus;
pub use reader::{ReadOptions, Reader, Search, ServedTree};
pub use upload::{Event, Uploaded, remove, upload};
