//! The matches of a query in a whole tree, within a time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{
    Query, QueryCursor, QueryCursorOptions, QueryCursorState, QueryMatch, StreamingIterator, Tree,
};

/// Time that several queries of a tree have together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLeft {
    start: Instant,
    time: Duration,
}

impl TimeLeft {
    pub(crate) fn from_now(time: Duration) -> Self {
        Self { start: Instant::now(), time }
    }

    fn is_over(&self) -> bool {
        self.start.elapsed() > self.time
    }

    /// Calls `take` with each match; `None` if time is up before these were all.
    pub(crate) fn for_each_match(
        &self,
        query: &Query,
        tree: &Tree,
        source: &[u8],
        mut take: impl FnMut(&QueryMatch),
    ) -> Option<()> {
        let mut watch = |_: &QueryCursorState| match self.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let options = QueryCursorOptions::new().progress_callback(&mut watch);
        let mut cursor = QueryCursor::new();
        let mut matches = cursor.matches_with_options(query, tree.root_node(), source, options);
        while let Some(query_match) = matches.next() {
            take(query_match);
            if self.is_over() {
                return None;
            }
        }
        (!self.is_over()).then_some(())
    }
}
