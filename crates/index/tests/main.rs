//! Tests of indexes. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::sync::Arc;

use quarry_embed::StaticModel;
use quarry_index::{Error, Filter, Index, OpenOptions, RankingWeights, SearchRequest, SearchResponse};
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

/// A request for ten results.
fn request<'a>(query: &'a str, filter: &'a Filter) -> SearchRequest<'a> {
    SearchRequest { query, limit: 10, ranking: RankingWeights::default(), filter }
}

/// The first ten results in all files.
fn answer(index: &Index, query: &str) -> Result<SearchResponse, Error> {
    index.search(&request(query, &Filter::default()))
}

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
