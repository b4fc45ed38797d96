//! Searching commits by their messages and the functions that they changed.

use std::time::Instant;

use quarry_embed::{EmbedError, Embedder};
use quarry_index::lexical::{Bm25f, Groups, LexicalIndex, LexicalText};
use quarry_session::{DefinitionView, Tree, milliseconds};
use quarry_text::query_terms;
use serde::Serialize;

use crate::places::CommitView;
use crate::tree::{HistoryView, RelatedTree};

/// Maximum number of changed functions of a commit that are searched and shown.
const MAX_FUNCTIONS: usize = 20;

/// Why commits cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum CommitsError {
    /// The model failed.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The words cannot be indexed.
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
}

/// The answer of `search --kind commit`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Commits {
    /// The query.
    pub query: String,
    /// Absolute path of the tree.
    pub root: String,
    /// The commits, best first.
    pub results: Vec<CommitResult>,
    /// How far the history is read.
    pub history: Vec<HistoryView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
}

/// A commit that was found.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitResult {
    /// From 1.
    pub rank: usize,
    /// Larger is better.
    pub score: f32,
    /// The commit.
    #[serde(flatten)]
    pub commit: CommitView,
    /// Functions, methods and types that it changed and that the tree still has.
    pub functions: Vec<DefinitionView>,
}

impl RelatedTree {
    /// The commits that answer a query, best first: by the words of their messages and of the names that they changed, and
    /// by the meaning of the first lines.
    ///
    /// # Errors
    /// When the model fails.
    pub fn commits(
        &self,
        tree: &Tree,
        query: &str,
        model: Option<&dyn Embedder>,
        limit: usize,
    ) -> Result<Commits, CommitsError> {
        let start = Instant::now();
        let Self { relations, changes, .. } = self;
        let n = changes.len();
        let changed = |position: u32| {
            let changed = changes.candidates[position as usize].iter().take(MAX_FUNCTIONS);
            changed.map(|candidate| relations.candidates[*candidate as usize].unit)
        };
        let positions = || 0..u32::try_from(n).unwrap_or(u32::MAX);
        let names_of = |position: u32| {
            changed(position).map(|unit| tree.index.linked_unit(unit).name).collect::<Vec<_>>().join(" ")
        };
        let names: Vec<String> = positions().map(names_of).collect();
        let text = |position: u32| LexicalText {
            name: &names[position as usize],
            doc: changes.commit(position).subject(),
            body: changes.commit(position).message.as_str().into(),
            ..LexicalText::default()
        };
        let words = LexicalIndex::in_memory(positions().map(text))?;
        let groups = Groups { of_text: &[], lengths: &[] };
        let mut scores = words.scores(&query_terms(query), &Bm25f::default(), groups)?.texts;
        let best = scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        scores.iter_mut().for_each(|score| *score /= best);
        if let Some(model) = model {
            let of_query = model.embed_queries(&[query])?;
            let subjects: Vec<&str> =
                positions().map(|position| changes.commit(position).subject()).collect();
            let of_subjects = model.embed_queries(&subjects)?;
            for (score, subject) in scores.iter_mut().zip(of_subjects.rows()) {
                let cosine: f32 = of_query.values.iter().zip(subject).map(|(a, b)| a * b).sum();
                *score += cosine.max(0.0);
            }
        }
        let mut order: Vec<u32> = positions().filter(|position| scores[*position as usize] > 0.0).collect();
        order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b)));
        let view = |(position, rank): (u32, usize)| {
            let functions = changed(position).map(|unit| DefinitionView::of(tree, &tree.index.unit(unit)));
            CommitResult {
                rank,
                score: scores[position as usize],
                commit: CommitView::of(changes.commit(position)),
                functions: functions.collect(),
            }
        };
        Ok(Commits {
            query: query.to_owned(),
            root: tree.root(0),
            results: order.into_iter().take(limit).zip(1..).map(view).collect(),
            history: self.histories.clone(),
            took_ms: milliseconds(start.elapsed()),
        })
    }
}
