//! The life of an index: found, opened, built, refreshed, copied, and described.

pub(crate) mod behind;
mod build;
mod changes;
mod checkpoint;
mod complete;
mod file_selection;
pub(crate) mod location;
mod memory;
mod open;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod precompute;
mod sibling;
mod source_tree;
pub(crate) mod status;
mod unread;
pub mod unsaved;
mod update;
