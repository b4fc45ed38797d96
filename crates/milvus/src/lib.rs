//! A served index in another engine: many trees, which one process need not hold completely.
//!
//! The engine keeps records by key and finds candidates: units with vectors near to one, and units with the words of a
//! query. They are ranked here, by `quarry_index`, over the files of the candidates.
//!
//! A file is stored under a hash of its contents, so stored data never change: [`upload`] adds what is missing, then
//! replaces the head of the tree, one record, and then removes what no head refers to. A [`Reader`] searches what the
//! heads refer to, reads the heads again, and starts over if one was replaced meanwhile. So it answers from a tree
//! before or after a change, never in between.

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
