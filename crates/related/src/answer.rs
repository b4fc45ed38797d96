//! Questions, and their answers for programs.

use std::path::Path;
use std::time::{Duration, Instant};

use quarry_index::Filter;
use quarry_session::{DefinitionView, Tree, milliseconds, roots};
use quarry_walk::Checkout;
use serde::Serialize;

use crate::diff::{ChangedFile, changed_files};
use crate::kind::Kind;
use crate::model::Scorer;
use crate::places::{CommitView, Place, Request};
use crate::tree::{HistoryView, RelatedTree};

/// The subject of a question. Files are given by the number of the searched path and their path relative to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The definitions with a name, which may be qualified.
    Name(String),
    /// The definition at a line of a file.
    Line(usize, String, u32),
    /// The definitions of a file.
    File(usize, String),
    /// The changes of a diff in the unified format, in the first searched path.
    Diff(String),
    /// The changes of a range of commits, such as `main..HEAD`, in the first searched path; without a range, the staged
    /// changes.
    Range(Option<String>),
}

#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub subject: &'a Subject,
    /// Kinds of reasons; empty for all but commits, which are listed only if they are asked for.
    pub kinds: &'a [Kind],
    /// Maximum number of places, and of commits.
    pub limit: usize,
    /// Time of opening the index, the relations and the history.
    pub open_time: Duration,
}

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum RelatedError {
    /// No definition is at a line.
    #[error("{path}:{line}: no function, method or type is indexed there; name a line in one")]
    NoDefinition {
        /// The file.
        path: String,
        /// 1-based.
        line: u32,
    },
    /// Nothing of a file is indexed.
    #[error("{0}: nothing in it is indexed; name an indexed file, relative to its tree")]
    NoFile(String),
    /// A range of revisions is malformed.
    #[error("{0}")]
    Range(String),
    /// The revisions cannot be read.
    #[cfg(feature = "git")]
    #[error(transparent)]
    Git(#[from] quarry_history::GitError),
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
}

/// Places that may have to change with a subject.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Related {
    /// The query, as given.
    pub query: String,
    /// Absolute path that all paths are relative to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// With several trees, their absolute paths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roots: Vec<String>,
    /// The definitions that it stands for; of a file without any, the file.
    pub targets: Vec<DefinitionView>,
    /// Places that may have to change, the most probable first.
    pub results: Vec<Place>,
    /// Commits that changed the targets, newest first; only with the kind `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<Vec<CommitView>>,
    /// Number of definitions, sections and files that were compared.
    pub places: usize,
    /// Extent of the history of each tree.
    pub history: Vec<HistoryView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
    /// Milliseconds of opening the index, the relations and the history.
    pub open_ms: f64,
}

impl Related {
    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.commits.as_ref().is_none_or(Vec::is_empty)
    }

    /// Describes the extent of the history in a few words.
    pub fn histories(&self) -> String {
        let mut sentences: Vec<String> = self.history.iter().map(HistoryView::sentence).collect();
        sentences.dedup();
        sentences.join("; ")
    }
}

impl Subject {
    /// As it was asked for.
    fn text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Line(_, path, line) => format!("{path}:{line}"),
            Self::File(_, path) => path.clone(),
            Self::Diff(_) => "-".to_owned(),
            Self::Range(range) => range.clone().unwrap_or_else(|| "staged".to_owned()),
        }
    }
}

impl RelatedTree {
    /// Answers a question about the tree that this was opened for.
    ///
    /// # Errors
    /// When nothing is at the position, a revision is missing, or the index cannot be read.
    pub fn answer(&self, tree: &Tree, question: &Question) -> Result<Related, RelatedError> {
        let start = Instant::now();
        let Question { subject, kinds, limit, open_time } = *question;
        let targets = self.targets(tree, subject)?;
        let sources = self.sources(&tree.index);
        let wants_commits = kinds.contains(&Kind::Commit);
        let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| *kind != Kind::Commit).collect();
        let is_change = matches!(subject, Subject::Diff(_) | Subject::Range(_));
        let request = Request { targets: &targets, kinds: &kinds, is_change, limit };
        let results = match wants_commits && kinds.is_empty() {
            true => Vec::new(),
            false => sources.places(tree, &request, Scorer::shipped())?,
        };
        let (root, roots) = roots(tree, tree.n_paths());
        Ok(Related {
            query: subject.text(),
            root,
            roots,
            targets: targets.iter().map(|unit| DefinitionView::new(tree, &tree.index.unit(*unit))).collect(),
            results,
            commits: wants_commits.then(|| sources.commits(&targets, limit)),
            places: self.relations.len(),
            history: self.histories.clone(),
            took_ms: milliseconds(start.elapsed()),
            open_ms: milliseconds(open_time),
        })
    }

    /// The units that something stands for, by number.
    fn targets(&self, tree: &Tree, subject: &Subject) -> Result<Vec<usize>, RelatedError> {
        let (index, relations) = (&tree.index, &self.relations);
        match subject {
            Subject::Name(name) => {
                Ok(index.definitions_of(name, &Filter::default()).into_iter().map(|hit| hit.unit).collect())
            }
            Subject::Line(root, path, line) => match index.definition_at_in(*root, path, *line) {
                Some(hit) => Ok(vec![hit.unit]),
                None => Err(RelatedError::NoDefinition { path: path.clone(), line: *line }),
            },
            Subject::File(root, path) => match relations.units_of_file(*root, path) {
                units if units.is_empty() => Err(RelatedError::NoFile(path.clone())),
                units => Ok(units),
            },
            Subject::Diff(diff) => Ok(self.units_of_diff(tree, &changed_files(diff))),
            Subject::Range(range) => self.units_of_range(tree, range.as_deref()),
        }
    }

    /// The definitions that a diff changes. Its paths may be relative to the directory of the tree, or to that of the
    /// repository.
    fn units_of_diff(&self, tree: &Tree, files: &[ChangedFile]) -> Vec<usize> {
        let root = tree.root(0);
        let top = Checkout::find(Path::new(&root)).map(|checkout| checkout.top);
        let inside = top.as_ref().and_then(|top| Path::new(&root).strip_prefix(top).ok());
        let parts =
            inside.into_iter().flat_map(Path::iter).map(|part| format!("{}/", part.to_string_lossy()));
        let prefix: String = parts.collect();
        let mut found = Vec::new();
        for file in files {
            let paths = [file.path.strip_prefix(&prefix), Some(file.path.as_str())];
            let units = paths.into_iter().flatten().map(|path| self.relations.units_of_file(0, path));
            let Some(units) = units.into_iter().find(|units| !units.is_empty()) else { continue };
            let is_changed = |unit: &usize| {
                let hit = tree.index.unit(*unit);
                let last = tree.index.last_line(&hit);
                file.lines.iter().any(|lines| hit.start_line <= *lines.end() && *lines.start() <= last)
            };
            let before = found.len();
            found.extend(units.iter().copied().filter(is_changed));
            if found.len() == before {
                found.push(units[0]);
            }
        }
        found
    }

    #[cfg(feature = "git")]
    fn units_of_range(&self, tree: &Tree, range: Option<&str>) -> Result<Vec<usize>, RelatedError> {
        use quarry_history::Comparison;

        let comparison = range.map_or(Ok(Comparison::Staged), str::parse).map_err(RelatedError::Range)?;
        let changed = quarry_history::changed_between(Path::new(&tree.root(0)), &comparison)?;
        let unit = |(path, name): &(String, String)| self.relations.unit_named(&tree.index, 0, path, name);
        Ok(changed.iter().filter_map(unit).collect())
    }

    #[cfg(not(feature = "git"))]
    fn units_of_range(&self, _: &Tree, _: Option<&str>) -> Result<Vec<usize>, RelatedError> {
        let problem = "this build cannot read git repositories; pass a diff: `git diff | quarry related -`";
        Err(RelatedError::Range(problem.to_owned()))
    }
}
