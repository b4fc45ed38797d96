//! Reads data set files, the history of repositories, and documented functions out of source trees.

pub mod dataset;
pub mod formats;
pub mod git;
pub mod pairs;
