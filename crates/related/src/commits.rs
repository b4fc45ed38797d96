//! Searching commits by their messages and the functions that they changed.

use std::time::Instant;

use quarry_embed::{EmbedError, Embedder};
use quarry_index::Hit;
use quarry_index::lexical::{Bm25f, Groups, LexicalIndex, LexicalText};
use quarry_index::rules;
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
    /// Absolute path of the tree; of several, the first.
    pub root: String,
    /// The commits, best first.
    pub results: Vec<CommitResult>,
    /// Extent of the history of each tree.
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
    /// With several trees, the absolute path of the one that it is of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tree: Option<String>,
    /// The commit.
    #[serde(flatten)]
    pub commit: CommitView,
    /// Functions, methods and types that it changed and that the tree still has.
    pub functions: Vec<DefinitionView>,
}

/// The history of a file.
pub struct FileHistory {
    /// The functions, methods and types that commits changed, in the order of lines: each with its latest commit and the
    /// number of its commits.
    pub definitions: Vec<(Hit, CommitView, usize)>,
    /// The latest commits of the file, newest first.
    pub commits: Vec<CommitView>,
    /// Number of all its commits.
    pub n_commits: usize,
}

impl RelatedTree {
    /// The history of a file, given by the number of the searched path and the path relative to that, with at most
    /// `limit` commits.
    pub fn file_history(&self, tree: &Tree, root: usize, path: &str, limit: usize) -> FileHistory {
        let Self { relations, changes, .. } = self;
        let mut found = FileHistory { definitions: Vec::new(), commits: Vec::new(), n_commits: 0 };
        for unit in relations.units_of_file(root, path) {
            let Some(number) = relations.number_of(unit) else { continue };
            let hit = tree.index.unit(unit);
            if let [latest, ..] = changes.of_candidate[number as usize].as_slice()
                && rules::is_definition(hit.kind)
            {
                let n_commits = changes.of_candidate[number as usize].len();
                found.definitions.push((hit, CommitView::short(changes.commit(*latest)), n_commits));
            }
            let of_file = &changes.of_file[relations.candidates[number as usize].file as usize];
            if found.n_commits == 0 {
                found.n_commits = of_file.len();
                let views =
                    of_file.iter().take(limit).map(|commit| CommitView::short(changes.commit(*commit)));
                found.commits = views.collect();
            }
        }
        found.definitions.sort_by_key(|(hit, ..)| hit.start_line);
        found
    }

    /// The commits that answer a query, best first: by the words of their messages and of the names that they changed, and
    /// by the meaning of the first lines. Only those of the searched paths with some numbers count, if any are given.
    ///
    /// # Errors
    /// When the model fails.
    pub fn commits(
        &self,
        tree: &Tree,
        query: &str,
        model: Option<&dyn Embedder>,
        roots: &[usize],
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
        let is_wanted = |position: &u32| {
            scores[*position as usize] > 0.0
                && (roots.is_empty() || roots.contains(&changes.root_of(*position)))
        };
        let mut order: Vec<u32> = positions().filter(is_wanted).collect();
        order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b)));
        let view = |(position, rank): (u32, usize)| {
            let functions = changed(position).map(|unit| DefinitionView::new(tree, &tree.index.unit(unit)));
            CommitResult {
                rank,
                score: scores[position as usize],
                tree: (tree.n_paths() > 1).then(|| tree.root(changes.root_of(position))),
                commit: CommitView::full(changes.commit(position)),
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
