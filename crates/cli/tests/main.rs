//! Tests of the program, as users run it. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[cfg(feature = "agent")]
mod agent;
#[cfg(all(unix, feature = "full"))]
mod cache;
#[cfg(feature = "full")]
mod data_build;
#[cfg(feature = "full")]
mod data_study;
#[cfg(all(target_os = "linux", feature = "full"))]
mod documentation;
#[cfg(feature = "full")]
mod eval;
#[cfg(feature = "full")]
mod experiments;
mod fixture;
#[cfg(unix)]
mod foreign_trees;
#[cfg(unix)]
mod hostile;
#[cfg(feature = "full")]
mod judge;
#[cfg(feature = "full")]
mod judge_options;
#[cfg(feature = "full")]
mod judge_output;
#[cfg(feature = "full")]
mod localize;
#[cfg(feature = "lsp")]
mod lsp;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "full")]
mod methods;
#[cfg(feature = "full")]
mod model;
#[cfg(all(unix, feature = "full"))]
mod model_release;
mod notebooks;
mod options;
#[cfg(feature = "full")]
mod own_repository;
mod paths;
#[cfg(feature = "full")]
mod pull;
mod reference;
#[cfg(feature = "history")]
mod related;
#[cfg(feature = "full")]
mod same_settings;
mod search;
#[cfg(feature = "full")]
mod serve;
#[cfg(feature = "full")]
mod snapshots;
mod status;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(feature = "full")]
mod train_encoder;
#[cfg(feature = "full")]
mod tune;
#[cfg(feature = "full")]
mod workers;
