//! Plans: the sources of a data set, and how to build it.

mod annotation;
mod formats;
mod labels;
mod projects;
mod validate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_annotate::AuthorPlan;
use quarry_corpus::dataset::split::Part;
use quarry_corpus::pairs::Extent;
use quarry_corpus::toml_file::{self, At, Mistake, line_of};
use quarry_files::{member, read_regular_text};
use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::license;
pub(crate) use annotation::{AnnotationPlan, Calibrated, ShownCallees, UnpopularBelow};
pub(crate) use formats::{CATEGORIES, EXPORT_FORMATS, Extract, LOCALIZE, ONLY_MATCHES, TRAINING_PAIRS};
pub(crate) use labels::{LabelKind, LabelPlan};

/// Maximum size of a plan's file, in bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// A plan that was read and validated, except for its sources.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The path of its file.
    pub path: PathBuf,
    /// A title for people.
    pub title: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether training parts may hold public evaluation data.
    pub(crate) allow_evaluation_data: bool,
    pub(crate) sources: Vec<SourcePlan>,
    pub(crate) pool: PoolPlan,
    pub(crate) author: Option<AuthorPlan>,
    pub(crate) categories: Option<CategoryPlan>,
    pub(crate) annotation: AnnotationPlan,
    pub(crate) queries: Vec<QueryPlan>,
    pub(crate) candidates: CandidatePlan,
    pub(crate) labels: Vec<LabelPlan>,
    pub(crate) splits: SplitPlan,
    pub(crate) leaks: Option<LeakPlan>,
    pub(crate) exports: Vec<ExportPlan>,
}

/// A plan's file. Paths are relative to its directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    #[serde(default)]
    title: String,
    #[serde(default)]
    shared: bool,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default)]
    allow_evaluation_data: bool,
    #[serde(default)]
    sources: Vec<SourcePlan>,
    #[serde(default)]
    pool: PoolPlan,
    #[serde(default)]
    author: Option<AuthorPlan>,
    #[serde(default)]
    categories: Option<CategoryPlan>,
    #[serde(default)]
    annotation: AnnotationPlan,
    #[serde(default)]
    queries: Vec<QueryPlan>,
    #[serde(default)]
    candidates: CandidatePlan,
    #[serde(default)]
    labels: Vec<LabelPlan>,
    #[serde(default)]
    splits: SplitPlan,
    #[serde(default)]
    leaks: Option<LeakPlan>,
    #[serde(default)]
    exports: Vec<ExportPlan>,
}

fn default_seed() -> u64 {
    42
}

fn yes() -> bool {
    true
}

/// A source of code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourcePlan {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    pub(crate) path: PathBuf,
    /// The commit of a `git` source, by any name that git accepts; `HEAD` if not given.
    #[serde(default)]
    pub(crate) revision: Option<String>,
    /// The repository, as `owner/name`; the name of the source if not given.
    #[serde(default)]
    pub(crate) repository: Option<String>,
    /// The license, as an SPDX expression.
    #[serde(default)]
    pub(crate) license: Option<String>,
    /// The language of codes of a data set that names none.
    #[serde(default)]
    pub(crate) language: Option<String>,
    /// What is extracted from its files.
    #[serde(default)]
    pub(crate) units: Units,
    /// Whether comments are extracted with the faults of the released notebook.
    #[serde(default)]
    pub(crate) as_released: bool,
    /// Whether lines of R that load packages are code, where comments are extracted.
    #[serde(default = "yes")]
    pub(crate) library_lines: bool,
    /// A table of projects with their licenses; each project is the directory of its name in the source.
    #[serde(default)]
    pub(crate) projects: Option<PathBuf>,
    /// The content of that table.
    #[serde(skip)]
    pub(crate) project_licenses: Option<BTreeMap<String, String>>,
}

/// What is extracted from source files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Units {
    /// Functions and methods.
    #[default]
    Functions,
    /// Comments with the code below them, as in StatCodeSearch.
    Comments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SourceKind {
    /// A directory of source files; its commit is recorded if it is in the work tree of a git repository.
    Directory,
    /// A commit of a git repository, read without a checkout.
    Git,
    /// A tar or zip archive.
    Archive,
    /// The codes of a data set, such as CodeSearchNet.
    DataSet,
    /// The code blocks of accepted answers in a dump of a Stack Exchange site.
    StackExchange,
}

/// Which code is kept in the pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolPlan {
    /// Languages to keep, by any of their names; all if empty.
    pub(crate) languages: Vec<String>,
    /// Names of filters, in the order in which they are applied.
    pub(crate) filters: Vec<String>,
    /// Whether the searched code includes its documentation.
    pub(crate) documentation: Documentation,
    /// Whether files of tests, examples and the like are read too.
    pub(crate) tests: bool,
    /// Whether duplicate code is kept.
    pub(crate) keep_duplicates: bool,
    /// Minimum similarity of near-duplicates; if `None`, only equal texts are duplicates.
    pub(crate) near_duplicates: Option<f64>,
    /// Whether secrets and personal data are masked.
    pub(crate) mask: bool,
    /// Whether the names of functions and variables are hidden, as in AdvTest.
    pub(crate) hide_names: bool,
    /// Allowed licenses, as SPDX identifiers or `permissive`; any if empty.
    pub(crate) licenses: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Documentation {
    /// It is removed, so that a query made from it is not contained in the code.
    #[default]
    Removed,
    /// It is kept, as in CoSQA and CoSQA+.
    Kept,
}

/// Kinds of analysis, as in StatCodeSearch; code of none of them is removed from the pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CategoryPlan {
    /// Number of examples of each category that the model is shown.
    pub(crate) examples: usize,
    /// What the model is shown of a code.
    pub(crate) shown: CategoryInput,
    /// The sheet that people filled in; with it no model is asked.
    #[serde(skip_serializing)]
    pub(crate) review: Option<PathBuf>,
}

/// What a model reads to decide the category of a comment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CategoryInput {
    /// The comment and its code.
    #[default]
    Pair,
    /// The comment alone.
    Comment,
}

/// A source of queries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryPlan {
    pub(crate) name: String,
    pub(crate) kind: QueryKind,
    /// The file of queries, or the export of issues.
    #[serde(default)]
    pub(crate) path: Option<PathBuf>,
    /// Names of the sources whose commits are queries, or name the issues that they fix.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
    /// How much of a documentation becomes the query.
    #[serde(default)]
    pub(crate) extent: Extent,
    /// Words of which a query must contain one, ignoring case; CoSQA keeps queries with `python`.
    #[serde(default)]
    pub(crate) containing: Vec<String>,
    /// Names of filters of queries.
    #[serde(default)]
    pub(crate) filters: Vec<String>,
    /// A classifier that `quarry data intent --save` wrote: only queries that look for code by it are kept.
    #[serde(default)]
    pub(crate) intent: Option<PathBuf>,
    /// Styles in which queries are written.
    #[serde(default = "keyword")]
    pub(crate) styles: Vec<String>,
    /// Maximum number of queries, sampled by the seed; for written queries, of functions.
    #[serde(default)]
    pub(crate) maximum: Option<usize>,
}

impl QueryPlan {
    pub(crate) fn has_filter(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| filter == name)
    }

    /// Whether its texts are untrusted messages, which are cleaned and always masked.
    pub(crate) fn is_untrusted(&self) -> bool {
        matches!(self.kind, QueryKind::Commits | QueryKind::Issues)
    }

    /// Whether its queries can have known answers.
    pub(crate) fn is_made_of_code(&self) -> bool {
        match self.kind {
            QueryKind::Docstrings | QueryKind::Written => true,
            QueryKind::Commits | QueryKind::Issues => !self.sources.is_empty(),
            QueryKind::File => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueryKind {
    /// The documentation of functions.
    Docstrings,
    /// The messages of commits.
    Commits,
    /// The titles of issues in an export of GitHub or GitLab.
    Issues,
    /// A file: one query per line, or any data set format with queries or pairs.
    File,
    /// Queries that a model writes for functions, with reverse validation.
    Written,
}

fn keyword() -> Vec<String> {
    vec!["keyword".to_owned()]
}

/// The filters for queries.
pub(crate) const QUERY_FILTERS: [&str; 3] = ["english", "intent", "mask"];

/// How candidates are found.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CandidatePlan {
    /// Methods whose models embed; codes are ranked by their mean cosine.
    pub(crate) encoders: Vec<String>,
    /// Other methods, whose best codes are candidates too.
    pub(crate) union: Vec<String>,
    /// Number of candidates per query from each of these.
    pub(crate) k: usize,
    /// Minimum mean cosine of a candidate of the encoders.
    pub(crate) minimum: Option<f32>,
    /// Maximum number of queries with the same code as a candidate of the encoders.
    pub(crate) maximum_uses: Option<usize>,
    /// Whether encoders are combined with the faults of CoSQA+'s released code.
    pub(crate) as_released: bool,
}

impl Default for CandidatePlan {
    fn default() -> Self {
        Self {
            encoders: vec!["static".into()],
            union: vec!["bm25".into()],
            k: 10,
            minimum: None,
            maximum_uses: None,
            as_released: false,
        }
    }
}

/// How the data set is split.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SplitPlan {
    /// Names of the parts with their relative sizes.
    pub(crate) parts: BTreeMap<String, f64>,
    /// Parts with only positive pairs, and only queries that have any.
    pub(crate) positives_only: Vec<String>,
}

/// Which overlap is allowed between parts, and with other data sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LeakPlan {
    /// Data sets with which no part may share anything.
    #[serde(skip_serializing)]
    pub(crate) against: Vec<PathBuf>,
    /// Minimum similarity of near-duplicates; if `None`, only equal texts count.
    pub(crate) near: Option<f64>,
    /// How leaks are handled.
    pub(crate) action: LeakAction,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LeakAction {
    /// It is removed from the larger part.
    #[default]
    Remove,
    /// They are kept, counted and listed.
    Count,
    /// The build fails.
    Refuse,
}

impl Default for SplitPlan {
    fn default() -> Self {
        Self {
            parts: [("train", 8.0), ("dev", 1.0), ("test", 1.0)]
                .map(|(name, size)| (name.into(), size))
                .into(),
            positives_only: Vec::new(),
        }
    }
}

impl SplitPlan {
    pub(crate) fn parts(&self) -> Vec<Part> {
        let part = |(name, weight): (&String, &f64)| Part {
            name: name.clone(),
            weight: *weight,
            positives_only: self.positives_only.contains(name),
        };
        self.parts.iter().map(part).collect()
    }
}

/// An export of the result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportPlan {
    /// One of [`EXPORT_FORMATS`].
    pub(crate) format: String,
    /// Parts to write; all if empty.
    #[serde(default)]
    pub(crate) parts: Vec<String>,
}

fn are_of_fixes(exports: &[ExportPlan]) -> bool {
    !exports.is_empty() && exports.iter().all(|export| export.format == LOCALIZE)
}

/// Codes that CoSQA+'s script takes for each query, in the order of a partition, which is none.
pub(crate) const RELEASED_PARTITION: usize = 30;

/// An error in an entry, with its path.
struct InvalidEntry {
    at: Vec<At>,
    problem: String,
}

fn invalid<const N: usize>(at: [At; N], problem: impl Into<String>) -> InvalidEntry {
    InvalidEntry { at: at.into(), problem: problem.into() }
}

impl Plan {
    /// Reads a plan: parses the file, validates its entries, and resolves the paths in it.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid, naming the line, what was expected and what to do.
    pub fn open(path: &Path) -> Result<Self, FactoryError> {
        let text = read_regular_text(path, MAX_PLAN_BYTES).map_err(FactoryError::read(path))?;
        let file: PlanFile = toml_file::parse(&text).map_err(|Mistake { line, problem }| {
            FactoryError::Plan { path: path.to_owned(), line, problem }
        })?;
        Self::resolve(path, file).map_err(|InvalidEntry { at, problem }| FactoryError::Plan {
            path: path.to_owned(),
            line: line_of(&text, &at),
            problem,
        })
    }

    fn resolve(path: &Path, file: PlanFile) -> Result<Self, InvalidEntry> {
        file.validate()?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let PlanFile {
            title,
            shared,
            seed,
            allow_evaluation_data,
            mut sources,
            mut pool,
            author,
            mut categories,
            mut annotation,
            mut queries,
            candidates,
            mut labels,
            splits,
            mut leaks,
            exports,
        } = file;
        if let Some(path) = &mut annotation.documentation {
            *path = member(directory, path)
                .map_err(|problem| invalid([At::Key("annotation"), At::Key("documentation")], problem))?;
        }
        if let Some(review) = categories.as_mut().and_then(|categories| categories.review.as_mut()) {
            *review = member(directory, review)
                .map_err(|problem| invalid([At::Key("categories"), At::Key("review")], problem))?;
        }
        if shared && pool.licenses.is_empty() {
            pool.licenses.push(license::PERMISSIVE.to_owned());
        }
        let resolve = |at: [At; 3], path: &mut PathBuf| {
            *path = member(directory, path).map_err(|problem| invalid(at, problem))?;
            Ok(())
        };
        for (number, source) in sources.iter_mut().enumerate() {
            resolve([At::Key("sources"), At::Item(number), At::Key("path")], &mut source.path)?;
            if let Some(projects) = &mut source.projects {
                let at = [At::Key("sources"), At::Item(number), At::Key("projects")];
                resolve(at, projects)?;
                let licenses = projects::read(projects).map_err(|problem| invalid(at, problem))?;
                source.project_licenses = Some(licenses);
            }
        }
        for (number, query) in queries.iter_mut().enumerate() {
            for (key, path) in [("path", &mut query.path), ("intent", &mut query.intent)] {
                if let Some(path) = path {
                    resolve([At::Key("queries"), At::Item(number), At::Key(key)], path)?;
                }
            }
        }
        for (number, label) in labels.iter_mut().enumerate() {
            if let Some(path) = &mut label.path {
                resolve([At::Key("labels"), At::Item(number), At::Key("path")], path)?;
            }
            if let Some(guideline) = label.guideline.as_mut().filter(|name| name.ends_with(".toml")) {
                let mut path = PathBuf::from(&*guideline);
                resolve([At::Key("labels"), At::Item(number), At::Key("guideline")], &mut path)?;
                *guideline = path.to_string_lossy().into_owned();
            }
        }
        for (number, path) in leaks.iter_mut().flat_map(|leaks| leaks.against.iter_mut()).enumerate() {
            resolve([At::Key("leaks"), At::Key("against"), At::Item(number)], path)?;
        }
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            path: path.to_owned(),
            title: if title.is_empty() { stem() } else { title },
            seed,
            allow_evaluation_data,
            sources,
            pool,
            author,
            categories,
            annotation,
            queries,
            candidates,
            labels,
            splits,
            leaks,
            exports,
        })
    }

    /// The default directory for building a plan.
    #[must_use]
    pub fn default_out(&self) -> PathBuf {
        self.path.with_extension("build")
    }

    /// Maximum number of candidates per query.
    #[must_use]
    pub fn candidates_per_query(&self) -> usize {
        let CandidatePlan { encoders, union, k, .. } = &self.candidates;
        k * (usize::from(!encoders.is_empty()) + union.len())
    }

    /// Whether a model writes queries.
    #[must_use]
    pub(crate) fn has_author(&self) -> bool {
        self.queries.iter().any(|query| query.kind == QueryKind::Written)
    }

    /// Whether it needs no queries, candidates and labels, because it only exports issues with what fixed them.
    pub(crate) fn is_of_fixes(&self) -> bool {
        are_of_fixes(&self.exports)
    }

    /// Whether a model decides which category codes are of.
    #[must_use]
    pub(crate) fn asks_for_categories(&self) -> bool {
        self.categories.as_ref().is_some_and(|categories| categories.review.is_none())
    }

    /// Whether a judge labels pairs.
    #[must_use]
    pub fn has_judge(&self) -> bool {
        self.labels.iter().any(|label| label.kind == LabelKind::Judge)
    }

    /// The directory to which paths of methods and judging plans are relative.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

#[cfg(test)]
mod tests;
