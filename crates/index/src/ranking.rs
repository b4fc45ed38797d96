//! Ranking the units of an open index for a query.

pub mod confidence;
pub(crate) mod explain;
pub mod fusion;
pub mod intent;
pub(crate) mod mixture;
pub(crate) mod ranked_units;
pub(crate) mod rankings;
pub(crate) mod request;
pub mod rerank;
pub(crate) mod respelling;
pub mod rules;
pub(crate) mod search;
pub(crate) mod selection;
pub(crate) mod similar;
pub mod snippet;
pub(crate) mod weights;
