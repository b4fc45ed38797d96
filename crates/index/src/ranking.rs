//! Ranking the units of an open index for a query.

pub mod confidence;
pub(crate) mod explain;
pub mod fusion;
pub mod intent;
pub mod issue;
mod mixture;
pub mod question;
pub(crate) mod ranked_units;
pub(crate) mod rankings;
pub(crate) mod request;
pub mod rerank;
mod respelling;
pub mod rules;
mod search;
mod selection;
mod similar;
pub mod snippet;
mod translation;
pub(crate) mod weights;
