//! Questions, and their answers for programs.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use quarry_index::Filter;
use quarry_session::{DefinitionView, Tree, milliseconds, roots};
use quarry_text::counted;
use quarry_walk::Checkout;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::diff::{ReadDiff, possible_paths, read_diff};
use crate::kind::Kind;
use crate::model::Scorer;
use crate::places::{CommitView, Found, Place, Request};
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
    /// A text is not a diff.
    #[error("stdin is not a diff in the unified format; pipe `git diff`")]
    NoDiff,
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

/// Places beyond the limit of an answer.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RelatedMore"))]
pub struct More {
    /// Number of places.
    pub places: usize,
    /// False if there are still more, which were not counted.
    pub complete: bool,
    /// Number of them that are changed tests, or tests that certainly call a target.
    pub tests: usize,
    /// Number of them that are other code that certainly calls a target.
    pub callers: usize,
}

impl More {
    fn new(found: &Found) -> Self {
        let of_kind = |kind| found.more_by_kind.get(&kind).copied().unwrap_or_default();
        Self {
            places: found.n_more,
            complete: !found.has_uncounted,
            tests: of_kind(Kind::Test),
            callers: of_kind(Kind::Caller),
        }
    }

    /// The tests and callers in words, if there are any.
    pub fn calls(&self) -> Option<String> {
        let counts = [(self.tests, "test"), (self.callers, "caller")];
        let parts: Vec<String> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, name)| counted(*n, name)).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
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
    /// Places beyond the limit, if there are any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more: Option<More>,
    /// Number of targets that were compared, if there are too many.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compared_targets: Option<usize>,
    /// Commits that changed the targets, newest first; only with the kind `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<Vec<CommitView>>,
    /// Number of definitions, sections and files that were compared.
    pub places: usize,
    /// Number of files that the change removes, which are not compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub removed_files: Option<usize>,
    /// Notes on omissions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
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
        let Targets { units: targets, n_removed } = self.targets(tree, subject)?;
        let sources = self.sources(&tree.index);
        let wants_commits = kinds.contains(&Kind::Commit);
        let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| *kind != Kind::Commit).collect();
        let is_change = matches!(subject, Subject::Diff(_) | Subject::Range(_));
        let request = Request { targets: &targets, kinds: &kinds, is_change, limit };
        let found = match wants_commits && kinds.is_empty() {
            true => None,
            false => Some(sources.places(tree, &request, Scorer::shipped())?),
        };
        let (root, roots) = roots(tree, tree.n_paths());
        let file = match subject {
            Subject::File(root, path) => Some((*root, path.as_str())),
            _ => None,
        };
        let mut notes = Vec::new();
        if n_removed > 0 {
            let are = if n_removed == 1 { "is" } else { "are" };
            notes.push(format!("{} {are} not compared", counted(n_removed, "removed file")));
        }
        let compared = found.as_ref().map(|found| (found.n_compared, found.n_targets));
        let compared = compared.filter(|(n_compared, n_targets)| n_compared < n_targets);
        if let Some((n_compared, n_targets)) = compared {
            let changed = if is_change { "changed " } else { "" };
            notes.push(format!(
                "{n_compared} of {n_targets} {changed}definitions were compared; name a path to narrow"
            ));
        }
        let more = found.as_ref().filter(|found| found.n_more > 0).map(More::new);
        Ok(Related {
            query: subject.text(),
            root,
            roots,
            targets: targets.iter().map(|unit| DefinitionView::new(tree, &tree.index.unit(*unit))).collect(),
            results: found.map_or_else(Vec::new, |found| found.places),
            more,
            compared_targets: compared.map(|(n_compared, _)| n_compared),
            commits: wants_commits.then(|| sources.commits(&targets, file, limit)),
            places: self.relations.len(),
            removed_files: (n_removed > 0).then_some(n_removed),
            notes,
            history: self.histories.clone(),
            took_ms: milliseconds(start.elapsed()),
            open_ms: milliseconds(open_time),
        })
    }

    /// The units that something stands for.
    fn targets(&self, tree: &Tree, subject: &Subject) -> Result<Targets, RelatedError> {
        let (index, relations) = (&tree.index, &self.relations);
        let units = match subject {
            Subject::Name(name) => {
                index.definitions_of(name, &Filter::default()).into_iter().map(|hit| hit.unit).collect()
            }
            Subject::Line(root, path, line) => match index.definition_at_in(*root, path, *line) {
                Some(hit) => vec![hit.unit],
                None => return Err(RelatedError::NoDefinition { path: path.clone(), line: *line }),
            },
            Subject::File(root, path) => match relations.units_of_file(*root, path) {
                units if units.is_empty() => return Err(RelatedError::NoFile(path.clone())),
                units => units,
            },
            Subject::Diff(diff) if diff.trim().is_empty() => Vec::new(),
            Subject::Diff(diff) => {
                return Ok(self.targets_of_diff(tree, &read_diff(diff).ok_or(RelatedError::NoDiff)?));
            }
            Subject::Range(range) => return self.targets_of_range(tree, range.as_deref()),
        };
        Ok(Targets { units, n_removed: 0 })
    }

    /// The definitions that a diff changes. Its paths may be absolute, relative to the directory of the tree, or to that of
    /// the repository.
    fn targets_of_diff(&self, tree: &Tree, diff: &ReadDiff) -> Targets {
        let root = tree.root(0);
        let top = Checkout::find(Path::new(&root)).map(|checkout| checkout.top);
        let inside = top.as_ref().and_then(|top| Path::new(&root).strip_prefix(top).ok());
        let parts =
            inside.into_iter().flat_map(Path::iter).map(|part| format!("{}/", part.to_string_lossy()));
        let prefix: String = parts.collect();
        let units_of = |paths: Vec<&str>| {
            let mut paths = paths.into_iter().flat_map(|path| {
                let below_root = path.strip_prefix(root.as_str()).and_then(|path| path.strip_prefix('/'));
                [path.strip_prefix(prefix.as_str()), Some(path), below_root]
            });
            let found = paths.find_map(|path| {
                let units = self.relations.units_of_file(0, path?);
                (!units.is_empty()).then_some(units)
            });
            found.unwrap_or_default()
        };
        // Diffs can name a file many times, as series of patches do.
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut files: Vec<(Vec<usize>, Vec<RangeInclusive<u32>>)> = Vec::new();
        for file in &diff.changed {
            let number = *numbers.entry(file.path.as_str()).or_insert_with(|| {
                files.push((units_of(file.paths()), Vec::new()));
                files.len() - 1
            });
            files[number].1.extend(file.lines.iter().cloned());
        }
        let mut found = Targets::default();
        for (units, mut lines) in files {
            lines.sort_unstable_by_key(|lines| (*lines.start(), *lines.end()));
            lines.dedup();
            let is_changed = |unit: &usize| {
                let hit = tree.index.unit(*unit);
                let last = tree.index.last_line(&hit);
                lines
                    .iter()
                    .take_while(|lines| *lines.start() <= last)
                    .any(|lines| hit.start_line <= *lines.end())
            };
            // A file that was only moved changes whole.
            let changed: Vec<usize> =
                units.iter().copied().filter(|unit| lines.is_empty() || is_changed(unit)).collect();
            if changed.is_empty() {
                found.units.extend(units.first());
            } else {
                found.units.extend(changed);
            }
        }
        for path in &diff.removed {
            // What git no longer tracks may still be in the tree.
            match units_of(possible_paths(path, None)) {
                units if units.is_empty() => found.n_removed += 1,
                units => found.units.extend(units),
            }
        }
        found.distinct()
    }

    #[cfg(feature = "git")]
    fn targets_of_range(&self, tree: &Tree, range: Option<&str>) -> Result<Targets, RelatedError> {
        use quarry_history::Comparison;

        let comparison = range.map_or(Ok(Comparison::Staged), str::parse).map_err(RelatedError::Range)?;
        let root = tree.root(0);
        let changed = quarry_history::changed_between(Path::new(&root), &comparison)?;
        let unit = |(path, name): &(String, String)| self.relations.unit_named(&tree.index, 0, path, name);
        let mut found = Targets { units: changed.iter().filter_map(unit).collect(), n_removed: 0 };
        // Of revisions, the files that are here have not been removed since; what git no longer tracks may be here.
        let is_staged = comparison == Comparison::Staged;
        let is_wanted = |path: &str| {
            quarry_source::language_for(path.as_ref(), b"").is_some()
                && (is_staged || self.relations.units_of_file(0, path).is_empty())
        };
        let changes = quarry_history::changes_between(Path::new(&root), &comparison, &is_wanted)?;
        for change in changes.iter().filter(|change| change.after.is_empty() && !change.before.is_empty()) {
            match self.relations.units_of_file(0, &change.path) {
                units if units.is_empty() => found.n_removed += 1,
                units => found.units.extend(units),
            }
        }
        Ok(found.distinct())
    }

    #[cfg(not(feature = "git"))]
    fn targets_of_range(&self, _: &Tree, _: Option<&str>) -> Result<Targets, RelatedError> {
        let problem = "this build cannot read git repositories; pass a diff: `git diff | quarry related -`";
        Err(RelatedError::Range(problem.to_owned()))
    }
}

/// The definitions that a subject stands for.
#[derive(Default)]
struct Targets {
    /// Numbers of units.
    units: Vec<usize>,
    /// Number of removed files.
    n_removed: usize,
}

impl Targets {
    /// Each unit once, where it is first.
    fn distinct(mut self) -> Self {
        let mut seen = FxHashSet::default();
        self.units.retain(|unit| seen.insert(*unit));
        self
    }
}
