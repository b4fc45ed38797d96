//! Tests of indexes. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::sync::Arc;

use quarry_embed::StaticModel;
use quarry_index::{Index, OpenOptions};
use quarry_test_support::files::write_below;

mod begin;
mod behind;
mod calls;
#[cfg(unix)]
mod foreign_trees;
mod index;
mod issues;
mod kept;
mod locations;
mod on_demand;
mod overwritten;
mod questions;
mod together;
mod unsaved;

/// An index with the built-in model.
struct Tree {
    index: Index,
    _directory: tempfile::TempDir,
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    write_below(&root, files);
    let options = OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
    let model = Arc::new(StaticModel::builtin());
    let index = Index::open_or_build(&root, &options, Some(model), &|_| {}).unwrap().index;
    Tree { index, _directory: directory }
}
