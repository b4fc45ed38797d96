//! Reads data set files, histories of repositories, and documented functions from source trees.

pub mod dataset;
pub mod formats;
pub mod git;
pub mod pairs;
