//! Walks source trees, reads their history and data set files.

pub mod dataset;
mod flags;
pub mod formats;
pub mod git;
mod ignore_files;
pub mod pairs;
pub mod walk;
