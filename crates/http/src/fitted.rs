//! Answers whose lines fit.

use std::ops::Range;
use std::time::Duration;

use quarry_index::Error;
use quarry_session::{Answer, AnswerEnd, DisplayOptions, ResultView, SearchResults, Tree, n_bytes};
use schemars::JsonSchema;
use serde::Serialize;

/// The most bytes of source in an answer.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// An answer with as many lines as fit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Fitted<Q> {
    #[serde(flatten)]
    answer: Answer<Q>,
    /// Number of results, from the last one, without lines because those of all would be too long; ask for fewer results or
    /// lines.
    #[serde(skip_serializing_if = "is_zero", default)]
    without_lines: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl<Q> Fitted<Q> {
    /// The results at some positions, with the lines that are to be `shown` as long as they fit.
    pub(crate) fn new(
        tree: &Tree,
        found: SearchResults<Q>,
        positions: Range<usize>,
        shown: &DisplayOptions,
        open_time: Duration,
    ) -> Result<Self, Error> {
        let (answer, without_lines) = found.fitted(tree, positions, shown, MAX_SOURCE_BYTES, open_time)?;
        Ok(Self { answer, without_lines })
    }

    /// Bytes of source, about.
    pub(crate) fn n_bytes(&self) -> usize {
        self.answer.results.iter().map(n_bytes).sum()
    }

    pub(crate) fn into_results(self) -> (Vec<ResultView>, AnswerEnd<Q>) {
        self.answer.into_parts()
    }

    /// The answer, and how many results have no lines.
    pub(crate) fn into_parts(self) -> (Answer<Q>, usize) {
        (self.answer, self.without_lines)
    }
}
