//! Walks source trees, reads their history and data set files.

pub mod dataset;
mod flags;
pub mod formats;
pub mod git;
pub mod pairs;
pub mod walk;
