//! Plans: what a data set is made of, and how.

mod locate;
mod projects;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_annotate::AuthorPlan;
use quarry_corpus::dataset::split::{Part, WEIGHTS};
use quarry_corpus::pairs::Extent;
use quarry_eval::method::Method;
use quarry_files::{member, read_regular_text};
use quarry_text::nearest;
use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::filter;
use crate::license;
use crate::written::{self, Extract};
use locate::{At, line_of};

/// Maximum size of a plan's file, in bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Maximum number of candidates of a query.
const MAX_CANDIDATES: usize = 1000;

/// A plan that was read and can work, as far as that can be said without its sources.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The file that it was read from.
    pub path: PathBuf,
    /// What is built, for people.
    pub title: String,
    /// What is drawn at random is drawn by this.
    pub seed: u64,
    pub(crate) sources: Vec<SourcePlan>,
    pub(crate) pool: PoolPlan,
    pub(crate) author: Option<AuthorPlan>,
    pub(crate) annotation: AnnotationPlan,
    pub(crate) queries: Vec<QueryPlan>,
    pub(crate) candidates: CandidatePlan,
    pub(crate) labels: Vec<LabelPlan>,
    pub(crate) splits: SplitPlan,
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
    sources: Vec<SourcePlan>,
    #[serde(default)]
    pool: PoolPlan,
    #[serde(default)]
    author: Option<AuthorPlan>,
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
    exports: Vec<ExportPlan>,
}

fn default_seed() -> u64 {
    42
}

/// Where code comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourcePlan {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    pub(crate) path: PathBuf,
    /// The commit of a `git` source, by any name that git knows; the one that is checked out otherwise.
    #[serde(default)]
    pub(crate) revision: Option<String>,
    /// The repository that it is, `owner/name`; the name of the source otherwise.
    #[serde(default)]
    pub(crate) repository: Option<String>,
    /// Its license, as an SPDX expression.
    #[serde(default)]
    pub(crate) license: Option<String>,
    /// What is read out of its files.
    #[serde(default)]
    pub(crate) units: Units,
    /// Whether comments are read with the faults of what was released.
    #[serde(default)]
    pub(crate) as_released: bool,
    /// A table of projects, each the directory of its name in the source, with their licenses.
    #[serde(default)]
    pub(crate) projects: Option<PathBuf>,
    /// What that table says.
    #[serde(skip)]
    pub(crate) project_licenses: Option<BTreeMap<String, String>>,
}

/// What is read out of source files.
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
    /// A directory of source files; its commit is noted where it is the work tree of a git repository.
    Directory,
    /// A commit of a git repository, read without a checkout.
    Git,
    /// A tar or zip archive.
    Archive,
    /// The codes of a data set, such as CodeSearchNet.
    DataSet,
    /// The code blocks of accepted answers in a dump of Stack Exchange.
    StackExchange,
}

/// Which code is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolPlan {
    /// Languages that are kept, by any name of theirs; all without any.
    pub(crate) languages: Vec<String>,
    /// Names of filters, in the order in which they are asked.
    pub(crate) filters: Vec<String>,
    /// Whether the code that is searched has its documentation.
    pub(crate) documentation: Documentation,
    /// Whether files of tests, examples and the like are read too.
    pub(crate) tests: bool,
    /// Whether code is kept that is there twice.
    pub(crate) keep_duplicates: bool,
    /// Similarity from which code counts as there already; without it only the same text does.
    pub(crate) near_duplicates: Option<f64>,
    /// Whether secrets and personal data are masked.
    pub(crate) mask: bool,
    /// Licenses under which code is taken, as SPDX identifiers or `permissive`; any without any.
    pub(crate) licenses: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Documentation {
    /// It is taken out, so that a query made of it is not in the code.
    #[default]
    Removed,
    /// It stays, as in CoSQA and CoSQA+.
    Kept,
}

/// What models are told when they summarize functions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnnotationPlan {
    /// Whether they see the summaries of what a function calls in its project.
    pub(crate) callees: bool,
    /// Functions of other packages that are called less often, in all sources, are explained to them.
    pub(crate) unpopular_below: u64,
    /// Directory with documentation of such functions, a file each.
    pub(crate) documentation: Option<PathBuf>,
}

impl Default for AnnotationPlan {
    fn default() -> Self {
        Self { callees: true, unpopular_below: 10, documentation: None }
    }
}

/// Where queries come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryPlan {
    pub(crate) name: String,
    pub(crate) kind: QueryKind,
    /// The file of queries.
    #[serde(default)]
    pub(crate) path: Option<PathBuf>,
    /// How much of a documentation is asked.
    #[serde(default)]
    pub(crate) extent: Extent,
    /// Words of which a query must hold one, in any case; CoSQA keeps queries with `python`.
    #[serde(default)]
    pub(crate) containing: Vec<String>,
    /// Names of filters of queries.
    #[serde(default)]
    pub(crate) filters: Vec<String>,
    /// Styles in which queries are written.
    #[serde(default = "keyword")]
    pub(crate) styles: Vec<String>,
    /// Maximum number of queries, drawn by the seed; of functions, where queries are written.
    #[serde(default)]
    pub(crate) maximum: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueryKind {
    /// What the documentation of a function says that it does.
    Docstrings,
    /// A file: a query a line, or any format of data sets that holds queries or pairs.
    File,
    /// What a model writes for functions, validated in reverse.
    Written,
}

fn keyword() -> Vec<String> {
    vec!["keyword".to_owned()]
}

/// Filters that queries can go through.
pub(crate) const QUERY_FILTERS: [&str; 3] = ["english", "intent", "mask"];

/// Which codes may answer a query.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CandidatePlan {
    /// Methods whose models embed, by the mean of whose cosines codes are ranked.
    pub(crate) encoders: Vec<String>,
    /// Other methods, the best codes of each of which are candidates too.
    pub(crate) union: Vec<String>,
    /// Number of candidates of a query, of each of these.
    pub(crate) k: usize,
}

impl Default for CandidatePlan {
    fn default() -> Self {
        Self { encoders: vec!["static".into()], union: vec!["bm25".into()], k: 10 }
    }
}

/// Who says which codes answer a query.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelPlan {
    pub(crate) kind: LabelKind,
    #[serde(default)]
    pub(crate) path: Option<PathBuf>,
    /// Whether the model of a judge writes code for queries that nothing answers.
    #[serde(default)]
    pub(crate) generate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LabelKind {
    /// The code that a query was made of answers it.
    Pairing,
    /// Labelled pairs of any format, found again by their texts.
    File,
    /// A judging plan, which is given the pairs without a label.
    Judge,
    /// All that has no label yet does not answer.
    Negative,
}

/// The parts of the data set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SplitPlan {
    /// Names of the parts with their sizes in proportion.
    pub(crate) parts: BTreeMap<String, f64>,
}

impl Default for SplitPlan {
    fn default() -> Self {
        Self {
            parts: [("train", 8.0), ("dev", 1.0), ("test", 1.0)]
                .map(|(name, size)| (name.into(), size))
                .into(),
        }
    }
}

impl SplitPlan {
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.parts.iter().map(|(name, weight)| Part { name: name.clone(), weight: *weight }).collect()
    }
}

/// What is written at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportPlan {
    /// One of [`EXPORT_FORMATS`].
    pub(crate) format: String,
    /// Parts that are written; all without any.
    #[serde(default)]
    pub(crate) parts: Vec<String>,
}

/// The formats of exports: what `quarry train` reads, and formats of `quarry data convert`.
pub(crate) const EXPORT_FORMATS: [&str; 14] = [
    TRAINING_PAIRS,
    "beir",
    "coir",
    "cosqa",
    "cosqa-qa",
    "cosqa-plus",
    "cosqa-plus-folder",
    "gecs",
    "mteb",
    "mteb-parquet",
    "query-code",
    "query4code",
    "query4code-summaries",
    "query4code-triples",
];

/// What `quarry train` reads.
pub(crate) const TRAINING_PAIRS: &str = "training-pairs";

/// What is wrong with an entry, and where that is.
struct Wrong {
    at: Vec<At>,
    problem: String,
}

fn wrong<const N: usize>(at: [At; N], problem: impl Into<String>) -> Wrong {
    Wrong { at: at.into(), problem: problem.into() }
}

/// Asks whether a name is one of some, and otherwise says which one may have been meant.
fn known(at: Vec<At>, what: &str, name: &str, names: &[&str]) -> Result<(), Wrong> {
    if names.contains(&name) {
        return Ok(());
    }
    let hint = nearest(name, names.iter().copied(), 1)
        .first()
        .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
    Err(Wrong { at, problem: format!("expected {what}, one of {}, found {name:?}{hint}", names.join(", ")) })
}

impl Plan {
    /// Reads a plan: parses the file, validates its entries, and resolves the paths in it.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong, naming the line, what was expected and what to do.
    pub fn open(path: &Path) -> Result<Self, FactoryError> {
        let text = read_regular_text(path, MAX_PLAN_BYTES).map_err(FactoryError::read(path))?;
        let file: PlanFile = toml::from_str(&text).map_err(|error| {
            let line = 1 + text[..error.span().map_or(0, |span| span.start)].matches('\n').count();
            FactoryError::Plan { path: path.to_owned(), line, problem: error.message().to_owned() }
        })?;
        Self::resolve(path, file).map_err(|Wrong { at, problem }| FactoryError::Plan {
            path: path.to_owned(),
            line: line_of(&text, &at),
            problem,
        })
    }

    fn resolve(path: &Path, file: PlanFile) -> Result<Self, Wrong> {
        file.validate()?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let PlanFile {
            title,
            shared,
            seed,
            mut sources,
            mut pool,
            author,
            mut annotation,
            mut queries,
            candidates,
            mut labels,
            splits,
            exports,
        } = file;
        if let Some(path) = &mut annotation.documentation {
            *path = member(directory, path)
                .map_err(|problem| wrong([At::Key("annotation"), At::Key("documentation")], problem))?;
        }
        if shared && pool.licenses.is_empty() {
            pool.licenses.push(license::PERMISSIVE.to_owned());
        }
        let resolve = |at: [At; 3], path: &mut PathBuf| {
            *path = member(directory, path).map_err(|problem| wrong(at, problem))?;
            Ok(())
        };
        for (number, source) in sources.iter_mut().enumerate() {
            resolve([At::Key("sources"), At::Item(number), At::Key("path")], &mut source.path)?;
            if let Some(projects) = &mut source.projects {
                let at = [At::Key("sources"), At::Item(number), At::Key("projects")];
                resolve(at, projects)?;
                let licenses = projects::read(projects).map_err(|problem| wrong(at, problem))?;
                source.project_licenses = Some(licenses);
            }
        }
        for (number, query) in queries.iter_mut().enumerate() {
            if let Some(path) = &mut query.path {
                resolve([At::Key("queries"), At::Item(number), At::Key("path")], path)?;
            }
        }
        for (number, label) in labels.iter_mut().enumerate() {
            if let Some(path) = &mut label.path {
                resolve([At::Key("labels"), At::Item(number), At::Key("path")], path)?;
            }
        }
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            path: path.to_owned(),
            title: if title.is_empty() { stem() } else { title },
            seed,
            sources,
            pool,
            author,
            annotation,
            queries,
            candidates,
            labels,
            splits,
            exports,
        })
    }

    /// Where a plan is built unless somebody says otherwise.
    #[must_use]
    pub fn default_out(&self) -> PathBuf {
        self.path.with_extension("build")
    }

    /// Maximum number of candidates of a query.
    #[must_use]
    pub fn candidates_per_query(&self) -> usize {
        let CandidatePlan { encoders, union, k } = &self.candidates;
        k * (usize::from(!encoders.is_empty()) + union.len())
    }

    /// Whether a model writes queries.
    #[must_use]
    pub fn has_author(&self) -> bool {
        self.queries.iter().any(|query| query.kind == QueryKind::Written)
    }

    /// Whether a judge labels pairs.
    #[must_use]
    pub fn has_judge(&self) -> bool {
        self.labels.iter().any(|label| label.kind == LabelKind::Judge)
    }

    /// The directory that methods and judging plans take their paths from.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

impl PlanFile {
    /// Checks the entries, each by itself and with each other.
    fn validate(&self) -> Result<(), Wrong> {
        for (table, n_entries, what) in [
            ("sources", self.sources.len(), "where the code is"),
            ("queries", self.queries.len(), "where queries come from"),
            ("labels", self.labels.len(), "who says what answers a query"),
            ("exports", self.exports.len(), "what is written"),
        ] {
            if n_entries == 0 {
                return Err(wrong([], format!("expected [[{table}]], {what}, found none; add one")));
            }
        }
        if self.title.contains(char::is_control) {
            let problem = "expected a title of one line without control characters; write it anew";
            return Err(wrong([At::Key("title")], problem));
        }
        let sources = self.sources.iter().map(|source| source.name.as_str());
        names("sources", sources)?;
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(Err(problem)) = source.license.as_deref().map(license::check_expression) {
                let problem = format!(
                    "expected an SPDX expression such as MIT OR Apache-2.0 as `license`, found {:?}: {problem}; leave it \
                     out to have it detected",
                    source.license.as_deref().unwrap_or_default()
                );
                return Err(wrong([At::Key("sources"), At::Item(number), At::Key("license")], problem));
            }
            if source.revision.is_some() && source.kind != SourceKind::Git {
                let problem = "`revision` is for `kind = \"git\"`; remove it, or change the kind";
                return Err(wrong([At::Key("sources"), At::Item(number), At::Key("revision")], problem));
            }
        }
        names("queries", self.queries.iter().map(|query| query.name.as_str()))?;
        self.validate_pool()?;
        if let Some(author) = &self.author {
            author.validate().map_err(|problem| wrong([At::Key("author")], problem))?;
        }
        self.validate_queries()?;
        self.validate_candidates()?;
        self.validate_labels()?;
        self.validate_exports()
    }

    fn validate_pool(&self) -> Result<(), Wrong> {
        for (number, name) in self.pool.licenses.iter().enumerate() {
            if !license::is_known(name) {
                let at = [At::Key("pool"), At::Key("licenses"), At::Item(number)];
                let problem =
                    format!("expected an SPDX identifier such as MIT, or permissive, found {name:?}");
                return Err(wrong(at, problem));
            }
        }
        let filters: Vec<&str> = filter::filters().map(|(name, _)| name).collect();
        for (number, name) in self.pool.filters.iter().enumerate() {
            known(vec![At::Key("pool"), At::Key("filters"), At::Item(number)], "a filter", name, &filters)?;
        }
        if let Some(similarity) = self.pool.near_duplicates
            && !(0.5..=1.0).contains(&similarity)
        {
            let problem =
                format!("expected a similarity from 0.5 to 1 as `near_duplicates`, found {similarity}");
            return Err(wrong([At::Key("pool"), At::Key("near_duplicates")], problem));
        }
        if self.pool.near_duplicates.is_some() && self.pool.keep_duplicates {
            let problem = "`keep_duplicates` keeps what `near_duplicates` removes; remove one of them";
            return Err(wrong([At::Key("pool"), At::Key("near_duplicates")], problem));
        }
        for (number, name) in self.pool.languages.iter().enumerate() {
            if quarry_source::language_called(name).is_none() {
                return Err(wrong(
                    [At::Key("pool"), At::Key("languages"), At::Item(number)],
                    format!("expected a language, found {name:?}; `quarry languages` lists them"),
                ));
            }
        }
        Ok(())
    }

    fn validate_queries(&self) -> Result<(), Wrong> {
        for (number, query) in self.queries.iter().enumerate() {
            let at = |key| vec![At::Key("queries"), At::Item(number), At::Key(key)];
            match (query.kind, &query.path) {
                (QueryKind::File, None) => {
                    return Err(Wrong {
                        at: at("kind"),
                        problem: "`kind = \"file\"` needs `path`, the file of queries".into(),
                    });
                }
                (QueryKind::Docstrings | QueryKind::Written, Some(_)) => {
                    let problem =
                        "`path` is for `kind = \"file\"`; other queries are made of the pool: remove it"
                            .into();
                    return Err(Wrong { at: at("path"), problem });
                }
                _ => {}
            }
            if query.kind == QueryKind::Written && self.author.is_none() {
                let problem = "`kind = \"written\"` needs [author], the model that writes; add it".into();
                return Err(Wrong { at: at("kind"), problem });
            }
            if query.styles.is_empty() {
                let problem = "expected one style or more in `styles`, found none".into();
                return Err(Wrong { at: at("styles"), problem });
            }
            for (item, name) in query.styles.iter().enumerate() {
                known([at("styles"), vec![At::Item(item)]].concat(), "a style", name, &written::styles())?;
            }
            for (item, name) in query.filters.iter().enumerate() {
                let at = [at("filters"), vec![At::Item(item)]].concat();
                known(at, "a filter of queries", name, &QUERY_FILTERS)?;
            }
            if query.maximum == Some(0) {
                return Err(Wrong {
                    at: at("maximum"),
                    problem: "expected 1 or more as `maximum`, found 0".into(),
                });
            }
        }
        Ok(())
    }

    fn validate_candidates(&self) -> Result<(), Wrong> {
        let CandidatePlan { encoders, union, k } = &self.candidates;
        if encoders.is_empty() && union.is_empty() {
            let problem = "expected `encoders` or `union`, the methods that find candidates, found neither";
            return Err(wrong([At::Key("candidates")], problem));
        }
        if *k == 0 || *k > MAX_CANDIDATES {
            let problem = format!("expected 1 to {MAX_CANDIDATES} as `k`, found {k}");
            return Err(wrong([At::Key("candidates"), At::Key("k")], problem));
        }
        for (key, methods) in [("encoders", encoders), ("union", union)] {
            for (number, name) in methods.iter().enumerate() {
                let wrong =
                    |problem: String| wrong([At::Key("candidates"), At::Key(key), At::Item(number)], problem);
                let method: Method = name
                    .parse()
                    .map_err(|error: quarry_eval::method::MethodError| wrong(error.to_string()))?;
                let embeds = matches!(method, Method::Static | Method::Model(_) | Method::Api(_));
                if key == "encoders" && !embeds {
                    let problem = format!(
                        "expected a method with a model that embeds (static, the directory of a model, api:MODEL), found \
                         {name:?}; put others into `union`"
                    );
                    return Err(wrong(problem));
                }
                let is_fixed = |leaf: &&Method| {
                    matches!(leaf, Method::Vectors { .. } | Method::Run(_) | Method::Chat(_))
                };
                if method.leaves().iter().any(is_fixed) {
                    let problem = format!(
                        "{name:?} is made for one corpus or for pairs, and the pool is made here; expected a method that \
                         ranks any code"
                    );
                    return Err(wrong(problem));
                }
            }
        }
        Ok(())
    }

    fn validate_labels(&self) -> Result<(), Wrong> {
        for (number, label) in self.labels.iter().enumerate() {
            let at = |key| [At::Key("labels"), At::Item(number), At::Key(key)];
            let wants_path = matches!(label.kind, LabelKind::File | LabelKind::Judge);
            match (&label.path, wants_path) {
                (None, true) => {
                    return Err(wrong(
                        at("kind"),
                        "this kind needs `path`, the file of labels or the judging plan",
                    ));
                }
                (Some(_), false) => {
                    return Err(wrong(at("path"), "`path` is for the kinds `file` and `judge`; remove it"));
                }
                _ => {}
            }
            if label.generate && label.kind != LabelKind::Judge {
                let problem = "`generate` is for `kind = \"judge\"`, whose model writes the code; remove it";
                return Err(wrong(at("generate"), problem));
            }
            if label.kind == LabelKind::Negative && number + 1 < self.labels.len() {
                let problem = "`negative` labels all that is left; expected it as the last of [[labels]]";
                return Err(wrong(at("kind"), problem));
            }
        }
        Ok(())
    }

    fn validate_exports(&self) -> Result<(), Wrong> {
        if self.splits.parts.is_empty() {
            return Err(wrong(
                [At::Key("splits")],
                "expected `parts` with names and sizes, such as train = 8",
            ));
        }
        for (name, size) in &self.splits.parts {
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if !is_name || !WEIGHTS.contains(size) {
                let problem = format!(
                    "expected parts as NAME = SIZE, of letters, digits, - and _, with a size from {} to {}, found {name} = {size}",
                    WEIGHTS.start(),
                    WEIGHTS.end()
                );
                return Err(wrong([At::Key("splits"), At::Key("parts")], problem));
            }
        }
        for (number, export) in self.exports.iter().enumerate() {
            let at = |key| vec![At::Key("exports"), At::Item(number), At::Key(key)];
            if self.exports[..number].iter().any(|other| other.format == export.format) {
                let problem = format!("{:?} is exported already; expected each format once", export.format);
                return Err(Wrong { at: at("format"), problem });
            }
            known(at("format"), "a format", &export.format, &EXPORT_FORMATS)?;
            let is_extract = Extract::named(&export.format).is_some();
            if is_extract && !self.queries.iter().any(|query| query.kind == QueryKind::Written) {
                let problem =
                    format!("{:?} needs [[queries]] of `kind = \"written\"`, found none", export.format);
                return Err(Wrong { at: at("format"), problem });
            }
            for (item, part) in export.parts.iter().enumerate() {
                let parts: Vec<&str> = self.splits.parts.keys().map(String::as_str).collect();
                known([at("parts"), vec![At::Item(item)]].concat(), "a part of [splits]", part, &parts)?;
            }
        }
        Ok(())
    }
}

fn names<'a>(table: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let mut seen: Vec<&str> = Vec::new();
    for (number, name) in names.enumerate() {
        let at = [At::Key(table), At::Item(number), At::Key("name")];
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(fits) {
            let problem = format!("expected a name of letters, digits, `-`, `_` and `.`, found {name:?}");
            return Err(wrong(at, problem));
        }
        if seen.contains(&name) {
            return Err(wrong(at, format!("{name:?} is there twice; expected a name of its own for each")));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
