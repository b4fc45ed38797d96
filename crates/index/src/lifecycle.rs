//! The life of an index: found, opened, built, refreshed, copied, and described.

pub(crate) mod ahead;
pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod complete;
pub(crate) mod file_selection;
pub(crate) mod location;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod sibling;
pub(crate) mod source_tree;
pub(crate) mod status;
pub(crate) mod unread;
pub(crate) mod update;
