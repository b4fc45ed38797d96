//! Reads data set files, and documented functions from source trees.

pub mod changes;
pub mod dataset;
mod disguise;
pub mod evaluation_data;
pub mod evaluation_guard;
pub mod formats;
pub mod messages;
pub mod pairs;
pub mod repositories;
mod summary;
pub mod tokens;
pub mod toml_file;
