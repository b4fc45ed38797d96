//! Answers whose lines fit.

use quarry_answer::{Answer, AnswerEnd, Excerpt, Extras, ResultView, Shown, Tree};
use quarry_index::Hit;
use schemars::JsonSchema;
use serde::Serialize;

/// The most bytes of source in an answer.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// An answer with as many lines as fit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Fitted<Q> {
    #[serde(flatten)]
    answer: Answer<Q>,
    /// How many results, from the last one, have no lines because those of all would be too long; ask for fewer results or
    /// lines.
    #[serde(skip_serializing_if = "is_zero", default)]
    without_lines: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// A unit without lines.
const NO_LINES: Shown = Shown { units: true, excerpt: Excerpt::Best(0), context: (0, 0) };

/// What is asked for first: no lines, whose length is not known before they are read, and nothing of units but how their
/// scores come about.
pub(crate) fn lineless(explain: bool) -> Shown {
    Shown { units: explain, ..NO_LINES }
}

impl<Q> Fitted<Q> {
    /// Gives the results of a [`lineless`] answer, which are of `hits`, the lines that are to be `shown`, as long as they fit.
    pub(crate) fn new(tree: &Tree, answer: Answer<Q>, hits: &[Hit], terms: &[String], shown: &Shown) -> Self {
        Self::within(MAX_SOURCE_BYTES, tree, answer, hits, terms, shown)
    }

    fn within(
        mut left: usize,
        tree: &Tree,
        mut answer: Answer<Q>,
        hits: &[Hit],
        terms: &[String],
        shown: &Shown,
    ) -> Self {
        let mut without_lines = 0;
        for (result, hit) in answer.results.iter_mut().zip(hits) {
            let rank = result.rank;
            let view = |explanation, shown: &Shown| {
                let extras = Extras { explanation, ..Extras::default() };
                ResultView::new(tree, (hit.clone(), rank), terms, extras, shown)
            };
            let mut explanation = result.unit.as_mut().and_then(|unit| unit.explanation.take());
            if without_lines == 0 {
                let whole = view(explanation.take(), shown);
                if let Some(rest) = left.checked_sub(n_bytes(&whole)) {
                    left = rest;
                    *result = whole;
                    continue;
                }
                explanation = whole.unit.and_then(|unit| unit.explanation);
            }
            without_lines += 1;
            *result = view(explanation, &NO_LINES);
        }
        Self { answer, without_lines }
    }

    /// Bytes of source, about.
    pub(crate) fn n_bytes(&self) -> usize {
        self.answer.results.iter().map(n_bytes).sum()
    }

    /// The results, and everything else.
    pub(crate) fn apart(self) -> (Vec<ResultView>, AnswerEnd<Q>) {
        self.answer.apart()
    }

    /// The answer, and how many results have no lines.
    pub(crate) fn into_parts(self) -> (Answer<Q>, usize) {
        (self.answer, self.without_lines)
    }
}

fn n_bytes(result: &ResultView) -> usize {
    result.unit.as_ref().map_or(0, |unit| {
        // Those of all blocks, of which programs are sent the first one.
        unit.blocks.iter().flat_map(|block| &block.lines).map(|(_, line)| line.len() + 1).sum()
    })
}
