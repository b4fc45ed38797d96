//! Plans: the sources of a data set, and the steps to build it.

mod annotation;
mod formats;
mod labels;
mod projects;
mod validate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_corpus::dataset::split::{Part, QueryGrouping};
use quarry_corpus::pairs::Extent;
use quarry_corpus::toml_file::At::{self, Item, Key};
use quarry_corpus::toml_file::{self, Mistake, line_of};
use quarry_files::{member, read_regular_text};
use quarry_judge::AuthorPlan;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::sources::license;
pub(crate) use annotation::{AnnotationPlan, Calibrated, ShownCallees, UnpopularBelow};
pub(crate) use formats::{CATEGORIES, EXPORT_FORMATS, Extract, LOCALIZE, ONLY_MATCHES, TRAINING_PAIRS};
pub(crate) use labels::{LabelKind, LabelPlan};

const MAX_PLAN_BYTES: u64 = 16 << 20;

/// A plan that was read and validated, except for its sources. Paths in its file are relative to its directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(skip)]
    pub path: PathBuf,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    shared: bool,
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// True if training parts may contain public evaluation data.
    #[serde(default)]
    pub(crate) allow_evaluation_data: bool,
    #[serde(default)]
    pub(crate) sources: Vec<SourcePlan>,
    #[serde(default)]
    pub(crate) pool: PoolPlan,
    pub(crate) author: Option<AuthorPlan>,
    pub(crate) categories: Option<CategoryPlan>,
    #[serde(default)]
    pub(crate) annotation: AnnotationPlan,
    #[serde(default)]
    pub(crate) queries: Vec<QueryPlan>,
    #[serde(default)]
    pub(crate) candidates: CandidatePlan,
    #[serde(default)]
    pub(crate) labels: Vec<LabelPlan>,
    #[serde(default)]
    pub(crate) splits: SplitPlan,
    pub(crate) leaks: Option<LeakPlan>,
    #[serde(default)]
    pub(crate) exports: Vec<ExportPlan>,
}

fn default_seed() -> u64 {
    42
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourcePlan {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    pub(crate) path: PathBuf,
    /// The commit of a `git` source, as any revision that git accepts; `HEAD` if not given.
    pub(crate) revision: Option<String>,
    /// The repository, as `owner/name`; the name of the source if not given.
    pub(crate) repository: Option<String>,
    /// The license, as an SPDX expression.
    pub(crate) license: Option<String>,
    /// The language of codes in a data set that does not state one.
    pub(crate) language: Option<String>,
    #[serde(default)]
    pub(crate) units: Units,
    /// If true, reproduces the faults of the released notebook when extracting comments.
    #[serde(default)]
    pub(crate) as_released: bool,
    /// True if R lines that load packages count as code when extracting comments.
    #[serde(default = "yes")]
    pub(crate) library_lines: bool,
    /// True if a blank line ends a comment; applies to units of comments.
    #[serde(default = "yes")]
    pub(crate) blank_lines: bool,
    /// A table of projects with their licenses; each project is the directory of its name in the source.
    pub(crate) projects: Option<PathBuf>,
    /// The content of that table.
    #[serde(skip)]
    pub(crate) project_licenses: Option<BTreeMap<String, String>>,
}

impl SourcePlan {
    pub(crate) fn for_directory(path: &Path) -> Self {
        Self {
            name: path.display().to_string(),
            kind: SourceKind::Directory,
            path: path.to_owned(),
            revision: None,
            repository: None,
            license: None,
            language: None,
            units: Units::Functions,
            as_released: false,
            library_lines: true,
            blank_lines: true,
            projects: None,
            project_licenses: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Units {
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
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolPlan {
    /// Languages to keep, by any of their names; all if empty.
    pub(crate) languages: Vec<String>,
    /// Names of filters, in the order in which they are applied.
    pub(crate) filters: Vec<String>,
    pub(crate) documentation: Documentation,
    /// If true, files of tests, examples and the like are also read.
    pub(crate) tests: bool,
    pub(crate) keep_duplicates: bool,
    /// Minimum similarity of near-duplicates; if `None`, only equal texts are duplicates.
    pub(crate) near_duplicates: Option<f64>,
    pub(crate) mask: bool,
    /// If true, the names of functions and variables are hidden, as in AdvTest.
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

/// Kinds of analysis, as in StatCodeSearch. Code of any other kind is removed from the pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CategoryPlan {
    /// Number of examples of each category in the prompt.
    pub(crate) examples: usize,
    pub(crate) shown: CategoryInput,
    /// The sheet that people filled in, which replaces the model.
    #[serde(skip_serializing)]
    pub(crate) review: Option<PathBuf>,
}

/// Input of a model that determines the category of a comment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CategoryInput {
    #[default]
    Pair,
    /// The comment alone.
    Comment,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryPlan {
    pub(crate) name: String,
    pub(crate) kind: QueryKind,
    /// The file of queries, or the export of issues.
    pub(crate) path: Option<PathBuf>,
    /// Names of the sources whose commits are queries, or fix the issues that are queries.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
    /// The part of documentation that becomes the query.
    #[serde(default)]
    pub(crate) extent: Extent,
    /// Words of which a query must contain at least one, ignoring case; CoSQA keeps queries with `python`.
    #[serde(default)]
    pub(crate) containing: Vec<String>,
    #[serde(default)]
    pub(crate) filters: Vec<String>,
    #[serde(default = "keyword")]
    pub(crate) styles: Vec<String>,
    #[serde(default)]
    pub(crate) given: Given,
    /// Maximum number of queries, sampled by the seed; for written queries, of functions.
    pub(crate) maximum: Option<usize>,
}

impl QueryPlan {
    pub(crate) fn has_filter(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| filter == name)
    }

    /// Returns whether its texts are untrusted messages, which are cleaned and always masked.
    pub(crate) fn is_untrusted(&self) -> bool {
        matches!(self.kind, QueryKind::Commits | QueryKind::Issues)
    }

    /// Returns whether its queries may have known answers.
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
    Docstrings,
    Commits,
    /// The titles of issues in an export of GitHub or GitLab.
    Issues,
    /// A file: one query per line, or any data set format with queries or pairs.
    File,
    /// Queries that a model writes for functions, with reverse validation.
    Written,
}

/// Input of a model that writes queries, beside the code of the function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Given {
    /// The function's summary, written by a model beforehand.
    #[default]
    Summary,
    /// Nothing: the direct annotation of Query4Code's Figure 2.
    Code,
    /// The code of the functions of its project that it calls: the annotation with context of that figure.
    Callees,
}

fn keyword() -> Vec<String> {
    vec!["keyword".to_owned()]
}

pub(crate) const QUERY_FILTERS: [&str; 3] = ["english", "intent", "mask"];

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CandidatePlan {
    /// Methods with embedding models; codes are ranked by the mean of their cosines.
    pub(crate) encoders: Vec<String>,
    /// Other methods, whose best codes become candidates too.
    pub(crate) union: Vec<String>,
    pub(crate) k: usize,
    pub(crate) minimum: Option<f32>,
    /// Maximum number of queries for which the encoders may return the same code as a candidate.
    pub(crate) maximum_uses: Option<usize>,
    /// If true, reproduces the faults of CoSQA+'s released code when combining encoders.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SplitPlan {
    pub(crate) parts: BTreeMap<String, f64>,
    /// Parts with only positive pairs, and only queries that have at least one.
    pub(crate) positives_only: Vec<String>,
    /// Keeps only equal queries in one part, but not queries that are nearly equal or share an answer.
    pub(crate) equal_queries: bool,
}

/// Allowed overlap between parts, and with other data sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LeakPlan {
    /// Data sets that must not overlap with any part.
    #[serde(skip_serializing)]
    pub(crate) against: Vec<PathBuf>,
    /// Minimum similarity of near-duplicates; if `None`, only equal texts count.
    pub(crate) near: Option<f64>,
    pub(crate) action: LeakAction,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LeakAction {
    #[default]
    Remove,
    Count,
    Refuse,
}

impl Default for SplitPlan {
    fn default() -> Self {
        Self {
            parts: [("train", 8.0), ("dev", 1.0), ("test", 1.0)]
                .map(|(name, size)| (name.into(), size))
                .into(),
            positives_only: Vec::new(),
            equal_queries: false,
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

    pub(crate) fn query_grouping(&self) -> QueryGrouping {
        if self.equal_queries { QueryGrouping::Equal } else { QueryGrouping::Related }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportPlan {
    pub(crate) format: String,
    /// Parts to write; all if empty.
    #[serde(default)]
    pub(crate) parts: Vec<String>,
}

fn are_all_localize(exports: &[ExportPlan]) -> bool {
    !exports.is_empty() && exports.iter().all(|export| export.format == LOCALIZE)
}

/// Number of best codes that CoSQA+'s script partitions off for each query; their order is arbitrary, as they are not
/// sorted.
pub(crate) const RELEASED_PARTITION: usize = 30;

struct InvalidEntry {
    at: Vec<At>,
    problem: String,
}

fn invalid(at: impl Into<Vec<At>>, problem: impl Into<String>) -> InvalidEntry {
    InvalidEntry { at: at.into(), problem: problem.into() }
}

impl Plan {
    /// Reads a plan: parses the file, validates its entries, and resolves the paths in it.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid, naming the line, what was expected and what to do.
    pub fn open(path: &Path) -> Result<Self, BuildError> {
        let text = read_regular_text(path, MAX_PLAN_BYTES).map_err(BuildError::read(path))?;
        let wrong = |line, problem| BuildError::Plan { path: path.to_owned(), line, problem };
        let mut plan: Self =
            toml_file::parse(&text).map_err(|Mistake { line, problem }| wrong(line, problem))?;
        path.clone_into(&mut plan.path);
        plan.validate()
            .and_then(|()| plan.resolve())
            .map_err(|InvalidEntry { at, problem }| wrong(line_of(&text, &at), problem))?;
        Ok(plan)
    }

    /// Resolves paths, and reads the licenses of projects.
    fn resolve(&mut self) -> Result<(), InvalidEntry> {
        let directory = self.directory().to_owned();
        fn resolve(directory: &Path, at: impl Into<Vec<At>>, path: &mut PathBuf) -> Result<(), InvalidEntry> {
            *path = member(directory, path).map_err(|problem| invalid(at, problem))?;
            Ok(())
        }
        if let Some(path) = &mut self.annotation.documentation {
            resolve(&directory, [Key("annotation"), Key("documentation")], path)?;
        }
        if let Some(review) = self.categories.as_mut().and_then(|categories| categories.review.as_mut()) {
            resolve(&directory, [Key("categories"), Key("review")], review)?;
        }
        if self.shared && self.pool.licenses.is_empty() {
            self.pool.licenses.push(license::PERMISSIVE.to_owned());
        }
        for (number, source) in self.sources.iter_mut().enumerate() {
            resolve(&directory, [Key("sources"), Item(number), Key("path")], &mut source.path)?;
            if let Some(projects) = &mut source.projects {
                let at = [Key("sources"), Item(number), Key("projects")];
                resolve(&directory, at, projects)?;
                let licenses = projects::read(projects).map_err(|problem| invalid(at, problem))?;
                source.project_licenses = Some(licenses);
            }
        }
        for (number, query) in self.queries.iter_mut().enumerate() {
            if let Some(path) = &mut query.path {
                resolve(&directory, [Key("queries"), Item(number), Key("path")], path)?;
            }
        }
        for (number, label) in self.labels.iter_mut().enumerate() {
            if let Some(path) = &mut label.path {
                resolve(&directory, [Key("labels"), Item(number), Key("path")], path)?;
            }
            if let Some(guideline) = label.guideline.as_mut().filter(|name| name.ends_with(".toml")) {
                let mut path = PathBuf::from(&*guideline);
                resolve(&directory, [Key("labels"), Item(number), Key("guideline")], &mut path)?;
                *guideline = path.to_string_lossy().into_owned();
            }
        }
        for (number, path) in self.leaks.iter_mut().flat_map(|leaks| leaks.against.iter_mut()).enumerate() {
            resolve(&directory, [Key("leaks"), Key("against"), Item(number)], path)?;
        }
        if self.title.is_empty() {
            self.title = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        Ok(())
    }

    /// The default directory for building a plan.
    pub fn default_out(&self) -> PathBuf {
        self.path.with_extension("build")
    }

    pub fn candidates_per_query(&self) -> usize {
        let CandidatePlan { encoders, union, k, .. } = &self.candidates;
        k * (usize::from(!encoders.is_empty()) + union.len())
    }

    /// Returns whether a model writes queries.
    pub(crate) fn has_author(&self) -> bool {
        self.queries.iter().any(|query| query.kind == QueryKind::Written)
    }

    /// Returns whether a model summarizes functions for the writing of queries.
    pub(crate) fn has_summaries(&self) -> bool {
        self.is_written_given(Given::Summary)
    }

    pub(crate) fn is_written_given(&self, given: Given) -> bool {
        self.queries.iter().any(|query| query.kind == QueryKind::Written && query.given == given)
    }

    /// Returns whether it needs no queries, candidates and labels, because it only exports issues with their fixes.
    pub(crate) fn is_of_fixes(&self) -> bool {
        are_all_localize(&self.exports)
    }

    /// Returns whether a model determines the categories of codes.
    pub(crate) fn asks_for_categories(&self) -> bool {
        self.categories.as_ref().is_some_and(|categories| categories.review.is_none())
    }

    /// Returns whether a judge labels pairs.
    pub fn has_judge(&self) -> bool {
        self.labels.iter().any(|label| label.kind == LabelKind::Judge)
    }

    /// Returns whether the file is the plan of a build, which has sources, rather than that of a judge.
    pub fn is_at(path: &Path) -> bool {
        let text = read_regular_text(path, MAX_PLAN_BYTES).unwrap_or_default();
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("sources"))
    }

    /// The directory against which paths of methods and judging plans are resolved.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

#[cfg(test)]
mod tests;
