//! Issue localization: from the text of an issue to the functions, classes and files that its fix changed.
//!
//! The protocol is that of LocAgent (Chen et al., 2025) and SweRank (Reddy et al., 2025): each repository is
//! searched as it was before the fix, results are mapped to entities as described in [`entity`], only the first
//! occurrence of an entity counts, and Acc@k requires all gold entities among the first k.

pub(crate) mod checkout;
pub mod entity;
mod grep;
pub mod lines;
mod page;
pub mod report;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_corpus::formats::localize::Issue;
use quarry_corpus::formats::{Document, Query};
use quarry_embed::Embedder;
use quarry_history::{GitError, Snapshot};
use quarry_index::{Filter, Index, OpenOptions, RankingWeights, SearchRequest, Update};
use quarry_metrics::Measure;
use rayon::prelude::*;
use serde::Serialize;

use self::checkout::Checkout;
use self::entity::{Entities, Level, Levels};
use self::lines::FoundLines;
use crate::EvalError;
use crate::method::{LoadModel, Method, MethodError};
use crate::repo_search::{searching, unless_empty};

/// Number of distinct entities of each level that are considered.
pub const DEPTH: usize = 20;

/// Number of units requested at first; more are requested if these belong to fewer than [`DEPTH`] functions.
const UNITS: usize = 200;

/// Token budgets of the code for an agent.
pub const MAX_TOKENS: [usize; 3] = [2_000, 4_000, 8_000];

/// The units that the code for a text shows in full within a number of tokens.
pub type ShownUnits<'a> = &'a dyn Fn(&Index, &str, usize) -> Result<Vec<usize>, quarry_index::Error>;

/// Number of functions among which a gold one must be for the search to count as successful in the confidence data.
const FOUND_AMONG: usize = 10;

/// Name of the lock file of the work directory, and of the separate one of each index.
const LOCK: &str = "lock";

/// Measures of each level over the first [`DEPTH`]: Acc@k, at least one among the first k, MRR, NDCG and recall.
pub fn measures() -> Vec<Measure> {
    let accuracy = [1, 3, 5, 10, 20].map(Measure::Accuracy);
    let any = [1, 5, 10, 20].map(Measure::Success);
    let others = [
        Measure::ReciprocalRank(None),
        Measure::Ndcg(Some(10)),
        Measure::Recall(5),
        Measure::Recall(10),
        Measure::Recall(20),
    ];
    accuracy.into_iter().chain(any).chain(others).collect()
}

/// A method, or the baseline of a text search.
#[derive(Debug, Clone, PartialEq)]
pub enum Localizer {
    /// `grep`: functions around matches of the rarest words of an issue.
    Grep,
    /// Any other method: a search of the index if `quarry eval repo-search` supports the method, otherwise a
    /// ranking of all functions as documents.
    Method(Method),
}

impl FromStr for Localizer {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        Ok(if text == "grep" { Self::Grep } else { Self::Method(text.parse()?) })
    }
}

impl fmt::Display for Localizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grep => formatter.write_str("grep"),
            Self::Method(method) => method.fmt(formatter),
        }
    }
}

#[derive(Clone, Copy)]
pub struct Directories<'a> {
    /// Directories with clones, bare or not; the first one that contains a repository is used.
    pub mirrors: &'a [PathBuf],
    /// Directory for the tree of each repository and the index of each commit, which later runs reuse.
    pub work: &'a Path,
    /// If true, collects [`Outcome::features`].
    pub features: bool,
    /// The code for an agent, used to measure the share of changed lines that it shows.
    pub shown: Option<ShownUnits<'a>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidates {
    pub id: String,
    pub repository: String,
    pub source: String,
    pub gold: Vec<String>,
    /// The features of its text, in the order of [`TEXT_FEATURES`](quarry_index::issue::kind::TEXT_FEATURES).
    pub text: Vec<f32>,
    /// The evidence for the confidence, in the order of [`FEATURES`](quarry_index::confidence::FEATURES).
    pub evidence: Vec<f32>,
    /// True if one of the first ten functions is gold.
    pub found: bool,
    /// The function that each candidate is attributed to, if any.
    pub functions: Vec<Option<String>>,
    /// The features of each candidate, in the order of [`ISSUE_FEATURES`](quarry_index::issue::model::ISSUE_FEATURES).
    pub features: Vec<Vec<f32>>,
    /// The re-ranker's cosine of each candidate; 0 if it was not re-ranked.
    pub cosines: Vec<f32>,
    /// The score of each candidate for the text as an ordinary query; 0 if that search does not return the
    /// candidate.
    pub query_shares: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The first [`DEPTH`] entities of each level, best first.
    pub found: Levels<Vec<String>>,
    pub lines: Option<FoundLines>,
    pub time: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EvaluatedIssue {
    pub issue: usize,
    /// Gold entities of each level: at least one function, or else changed lines.
    pub gold: Levels<Vec<String>>,
    /// The answer of each method, in the order of the methods.
    pub answers: Vec<Answer>,
}

/// Why an issue was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// It has no gold function and no changed lines.
    NoGold,
    /// None of its gold functions and no file of its changed lines is in the tree before the fix.
    GoldNotInTree,
    /// Its commit, or a directory of it, is not in the clone.
    NoCommit,
}

impl LeftOut {
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::NoGold => "without a gold function or changed lines",
            Self::GoldNotInTree => "whose gold functions and lines are not in the tree",
            Self::NoCommit => "whose commit is not, or not wholly, in the clone",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// In the order of the issues.
    pub asked: Vec<EvaluatedIssue>,
    /// Number of omitted issues, by reason.
    pub left_out: BTreeMap<LeftOut, usize>,
    /// Number of gold functions of these issues that are missing from the tree and ignored.
    pub absent_gold: usize,
    /// Number of files of all commits that were not read, because they are too large or missing in the clone.
    pub unread_files: usize,
    /// Identity of each method's model, if it has one.
    pub models: Vec<Option<String>>,
    /// The candidates for each issue by the first method, if requested and if that method is a search.
    pub features: Vec<Candidates>,
}

/// A method that is ready to find units.
enum Finder<'a> {
    Grep,
    Documents(&'a Method),
    Search(Option<Arc<dyn Embedder>>, Box<RankingWeights>),
}

impl<'a> Finder<'a> {
    fn new(localizer: &'a Localizer, load: &LoadModel<'_>) -> Result<Self, EvalError> {
        let Localizer::Method(method) = localizer else { return Ok(Self::Grep) };
        match searching(method, load) {
            Ok((embedder, ranking)) => Ok(Self::Search(embedder, Box::new(ranking))),
            Err(EvalError::NoRepositoryMethod { .. }) => Ok(Self::Documents(method)),
            Err(error) => Err(error),
        }
    }

    fn embedder(&self) -> Option<Option<&Arc<dyn Embedder>>> {
        if let Self::Search(embedder, _) = self { Some(embedder.as_ref()) } else { None }
    }

    /// Ranked units, best first, belonging to at least [`DEPTH`] functions if there are that many.
    fn find(
        &self,
        index: &Index,
        entities: &mut Entities<'_>,
        text: &str,
        load: &LoadModel<'_>,
    ) -> Result<Vec<usize>, EvalError> {
        match self {
            Self::Grep => grep::search(index, text),
            Self::Documents(method) => documents(index, method, text, load),
            Self::Search(_, ranking) => {
                let mut limit = UNITS;
                loop {
                    let ranking = (**ranking).clone();
                    let request = SearchRequest { query: text, limit, ranking, filter: &Filter::default() };
                    let response = unless_empty(index.search(&request))?;
                    let units: Vec<usize> = response.hits.iter().map(|hit| hit.unit).collect();
                    let functions = &entities.ranked(&units, DEPTH)[Level::Functions as usize];
                    if functions.len() >= DEPTH || units.len() < limit {
                        return Ok(units);
                    }
                    limit *= 2;
                }
            }
        }
    }
}

fn documents(
    index: &Index,
    method: &Method,
    text: &str,
    load: &LoadModel<'_>,
) -> Result<Vec<usize>, EvalError> {
    let files = index.files(&Filter::default());
    let of_file = |file: &quarry_index::IndexedFile<'_>| -> Result<Vec<(usize, Document)>, EvalError> {
        let text = file.text()?;
        let content = text.to_str();
        let lines: Vec<&str> = content.split_inclusive('\n').collect();
        let document = |unit: usize, range: std::ops::Range<usize>| {
            let code = lines.get(range.start..range.end.min(lines.len()))?.concat();
            Some((unit, Document::new(unit.to_string(), code)))
        };
        let is_function = |unit: usize| {
            use quarry_source::UnitKind::{Function, Method};
            matches!(index.unit(unit).kind, Function | Method)
        };
        let units = file.units(&text).filter(|(unit, _)| is_function(*unit));
        Ok(units.filter_map(|(unit, range)| document(unit, range)).collect())
    };
    let of_files: Vec<Vec<(usize, Document)>> = files.par_iter().map(of_file).collect::<Result<_, _>>()?;
    let (units, documents): (Vec<usize>, Vec<Document>) = of_files.into_iter().flatten().unzip();
    let prepared = method.prepare(documents.as_slice().into(), load, &mut |_| {})?;
    let query = Query { id: String::new(), text: text.to_owned() };
    let best = prepared.scorer.best(&[&query], UNITS)?;
    Ok(best.into_iter().flatten().map(|found| units[found.position]).collect())
}

/// Evaluates issues on the repositories that they are about, each as it was at the commit of the issue. Calls
/// `on_issue` for each finished issue.
///
/// # Errors
/// When a clone is missing or cannot be read, the work directory cannot be written, or a method fails.
pub fn localize(
    issues: &[Issue],
    localizers: &[Localizer],
    places: Directories<'_>,
    load: &LoadModel<'_>,
    on_issue: &dyn Fn(),
) -> Result<Outcome, EvalError> {
    let finders: Vec<Finder<'_>> =
        localizers.iter().map(|localizer| Finder::new(localizer, load)).collect::<Result<_, _>>()?;
    let model = |finder: &Finder<'_>| Some(finder.embedder()??.id().to_owned());
    let mut outcome = Outcome { models: finders.iter().map(model).collect(), ..Outcome::default() };
    each_commit(issues, places, &mut outcome, on_issue, &mut |indexes, snapshot, numbers, outcome| {
        let asking = CommitQueries { issues, finders: &finders, load, places };
        asking.ask_commit(indexes, snapshot, numbers, outcome)
    })?;
    outcome.asked.sort_by_key(|asked| asked.issue);
    if outcome.asked.is_empty() {
        return Err(EvalError::NothingToAsk { name: "the file of issues".to_owned() });
    }
    Ok(outcome)
}

/// Called with each commit, its files, the issues about it, and the outcome so far.
type OnCommit<'a> =
    &'a mut dyn FnMut(&CommitIndexes<'_>, &Snapshot, &[usize], &mut Outcome) -> Result<(), EvalError>;

/// Checks out the tree of each repository at one commit of its issues after the other. Issues without a gold
/// function or commit are counted in `outcome`.
pub(crate) fn each_commit(
    issues: &[Issue],
    places: Directories<'_>,
    outcome: &mut Outcome,
    on_issue: &dyn Fn(),
    on_commit: OnCommit<'_>,
) -> Result<(), EvalError> {
    let mut of_repositories: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, issue) in issues.iter().enumerate() {
        of_repositories.entry(&issue.repository).or_default().push(number);
    }
    let clones: Vec<(&str, PathBuf, Vec<usize>)> = of_repositories
        .into_iter()
        .map(|(name, numbers)| Ok((name, clone_of(places.mirrors, name)?, numbers)))
        .collect::<Result<_, EvalError>>()?;
    let work = places.work.canonicalize().map_err(|source| results(places.work, source))?;
    let lock = File::create(work.join(LOCK)).map_err(|source| results(&work, source))?;
    if !quarry_files::try_lock(&lock).map_err(|source| results(&work, source))? {
        return Err(EvalError::ResultsInUse { path: work });
    }
    for (name, clone, numbers) in clones {
        let place = work.join(name.replace('/', "+"));
        visit_repository(issues, &clone, &place, &numbers, outcome, on_issue, on_commit)?;
    }
    Ok(())
}

fn results(path: &Path, source: io::Error) -> EvalError {
    EvalError::Results { path: path.to_owned(), source }
}

/// The clone of a repository: `OWNER/NAME`, `OWNER+NAME`, `OWNER__NAME` or `NAME` in one of the directories, or `repo` or
/// `repo.git` in one of these.
fn clone_of(mirrors: &[PathBuf], name: &str) -> Result<PathBuf, EvalError> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let names = [name.to_owned(), name.replace('/', "+"), name.replace('/', "__"), last.to_owned()];
    let places = mirrors.iter().flat_map(|mirror| {
        let of_name = |name: &String| {
            let bare = mirror.join(format!("{name}.git"));
            [mirror.join(name).join("repo"), mirror.join(name).join("repo.git"), mirror.join(name), bare]
        };
        names.iter().flat_map(of_name).collect::<Vec<_>>()
    });
    let is_clone = |path: &PathBuf| path.join("HEAD").is_file() || path.join(".git").exists();
    places.into_iter().find(is_clone).ok_or_else(|| EvalError::NoClone {
        name: name.to_owned(),
        directories: mirrors.iter().map(|mirror| mirror.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

struct CommitQueries<'a> {
    issues: &'a [Issue],
    finders: &'a [Finder<'a>],
    load: &'a LoadModel<'a>,
    places: Directories<'a>,
}

/// Visits the commits of a clone; `place` is the directory for its tree and indexes.
fn visit_repository(
    issues: &[Issue],
    clone: &Path,
    place: &Path,
    numbers: &[usize],
    outcome: &mut Outcome,
    on_issue: &dyn Fn(),
    on_commit: OnCommit<'_>,
) -> Result<(), EvalError> {
    fs::create_dir_all(place).map_err(|source| results(place, source))?;
    let mut checkout = Checkout::open(place).map_err(|source| results(place, source))?;
    let mut commits: Vec<(Snapshot, Vec<usize>)> = Vec::new();
    for &number in numbers {
        let issue = &issues[number];
        let mut leave_out = |reason| {
            *outcome.left_out.entry(reason).or_default() += 1;
            on_issue();
        };
        if issue.functions.is_empty() && issue.lines.is_empty() {
            leave_out(LeftOut::NoGold);
            continue;
        }
        let snapshot = match Snapshot::open(clone, Some(&issue.commit)) {
            // A branch may have the name of a missing commit.
            Ok(snapshot) if snapshot.commit() == issue.commit.to_ascii_lowercase() => snapshot,
            Ok(_) | Err(GitError::NoCommit { .. } | GitError::IncompleteCommit { .. }) => {
                leave_out(LeftOut::NoCommit);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match commits.iter_mut().find(|(known, _)| known.commit() == snapshot.commit()) {
            Some((_, of_commit)) => of_commit.push(number),
            None => commits.push((snapshot, vec![number])),
        }
    }
    commits.sort_by_cached_key(|(snapshot, _)| (snapshot.seconds(), snapshot.commit()));
    let mut previous: Option<String> = None;
    for (snapshot, numbers) in &commits {
        outcome.unread_files += checkout.switch(snapshot).map_err(|source| results(place, source))?;
        let indexes = CommitIndexes {
            place,
            tree: checkout.tree(),
            commit: snapshot.commit(),
            previous: previous.as_deref(),
        };
        on_commit(&indexes, snapshot, numbers, outcome)?;
        numbers.iter().for_each(|_| on_issue());
        previous = Some(indexes.commit);
    }
    Ok(())
}

impl CommitQueries<'_> {
    fn ask_commit(
        &self,
        indexes: &CommitIndexes<'_>,
        snapshot: &Snapshot,
        numbers: &[usize],
        outcome: &mut Outcome,
    ) -> Result<(), EvalError> {
        let paths: HashSet<&str> = snapshot.paths().collect();
        let mut asked: Vec<EvaluatedIssue> = Vec::new();
        // A method without an index of its own reads that of the first method that has one.
        let default = self.finders.iter().find_map(Finder::embedder).flatten();
        for (position, finder) in self.finders.iter().enumerate() {
            let embedder = finder.embedder().unwrap_or(default);
            let (index, _) = indexes.open(embedder)?;
            let mut entities = Entities::new(&index);
            if position == 0 {
                for &number in numbers {
                    let issue = &self.issues[number];
                    let has_file = |path: &str| paths.contains(path);
                    let of_lines = entities.functions_at(&issue.lines);
                    let functions = if issue.functions.is_empty() { &of_lines } else { &issue.functions };
                    let (gold, absent) = entities.gold(functions, &issue.files, &has_file);
                    let has_lines = issue.lines.iter().any(|lines| has_file(&lines.path));
                    if gold[Level::Functions as usize].is_empty() && !has_lines {
                        *outcome.left_out.entry(LeftOut::GoldNotInTree).or_default() += 1;
                    } else {
                        outcome.absent_gold += absent;
                        asked.push(EvaluatedIssue { issue: number, gold, answers: Vec::new() });
                    }
                }
            }
            for asked in &mut asked {
                let start = Instant::now();
                let text = &self.issues[asked.issue].text;
                let units = finder.find(&index, &mut entities, text, self.load)?;
                let time = start.elapsed();
                let lines = self.lines(&index, &self.issues[asked.issue], &units, finder)?;
                asked.answers.push(Answer { found: entities.ranked(&units, DEPTH), lines, time });
                if let (true, 0, Finder::Search(_, ranking)) = (self.places.features, position, finder) {
                    let issue = &self.issues[asked.issue];
                    let gold = asked.gold[Level::Functions as usize].clone();
                    outcome.features.extend(candidates(&index, &mut entities, issue, gold, ranking)?);
                }
            }
        }
        outcome.asked.extend(asked);
        Ok(())
    }

    /// The changed lines of an issue among ranked units and in the code for an agent; `None` if it has none.
    fn lines(
        &self,
        index: &Index,
        issue: &Issue,
        units: &[usize],
        finder: &Finder<'_>,
    ) -> Result<Option<FoundLines>, EvalError> {
        if issue.lines.is_empty() {
            return Ok(None);
        }
        let mut found = FoundLines::new(index, &issue.lines, units);
        if let (Some(shown), Finder::Search(..)) = (self.places.shown, finder) {
            for max_tokens in MAX_TOKENS {
                let units = unless_empty(shown(index, &issue.text, max_tokens))?;
                found.shown.push(FoundLines::share(index, &issue.lines, &units));
            }
        }
        Ok(Some(found))
    }
}

/// The candidates for an issue with their features; `None` if its text contains no word.
fn candidates(
    index: &Index,
    entities: &mut Entities<'_>,
    issue: &Issue,
    gold: Vec<String>,
    ranking: &RankingWeights,
) -> Result<Option<Candidates>, EvalError> {
    let filter = Filter::default();
    let request =
        SearchRequest { query: &issue.text, limit: UNITS, ranking: ranking.clone(), filter: &filter };
    let Some((text, found)) = unless_empty(index.issue_features(&request).map(Some))? else {
        return Ok(None);
    };
    let response = index.search(&request)?;
    let units: Vec<usize> = response.hits.iter().map(|hit| hit.unit).collect();
    let first = &entities.ranked(&units, FOUND_AMONG)[Level::Functions as usize];
    let is_found = first.iter().any(|function| gold.contains(function));
    let as_query = RankingWeights { issues: false, ..ranking.clone() };
    let as_query = unless_empty(index.search(&SearchRequest { ranking: as_query, ..request }))?;
    let of_query: HashMap<usize, f32> = as_query.hits.iter().map(|hit| (hit.unit, hit.score)).collect();
    let query_share = |hit: &quarry_index::Hit| of_query.get(&hit.unit).copied().unwrap_or_default();
    let function = |unit: usize| entities.ranked(&[unit], 1)[Level::Functions as usize].first().cloned();
    Ok(Some(Candidates {
        id: issue.id.clone(),
        repository: issue.repository.clone(),
        source: issue.source.clone(),
        gold,
        text: text.to_vec(),
        evidence: response.evidence.features().to_vec(),
        found: is_found,
        functions: found.iter().map(|(hit, _)| hit.unit).map(function).collect(),
        features: found.iter().map(|(_, features)| features.to_vec()).collect(),
        cosines: found.iter().map(|(hit, _)| hit.parts.reranker).collect(),
        query_shares: found.iter().map(|(hit, _)| query_share(hit)).collect(),
    }))
}

/// The indexes of the tree of a commit, one per model.
pub(crate) struct CommitIndexes<'a> {
    place: &'a Path,
    tree: &'a Path,
    commit: String,
    /// The previous commit, whose indexes are the base for refreshing these.
    previous: Option<&'a str>,
}

impl CommitIndexes<'_> {
    pub(crate) fn tree(&self) -> &Path {
        self.tree
    }

    /// Opens the index of a model, or one without vectors, and returns its directory too. An index from an earlier
    /// run is not compared with the tree, which has not changed.
    pub(crate) fn open(&self, embedder: Option<&Arc<dyn Embedder>>) -> Result<(Index, PathBuf), EvalError> {
        let model = quarry_files::digest(&[embedder.map_or("", |embedder| embedder.id())]);
        let of_model = self.place.join(format!("index-{}", model.chars().take(12).collect::<String>()));
        let directory = of_model.join(&self.commit);
        let open = |directory: PathBuf, update: Update| {
            let options = OpenOptions { directory: Some(directory), update, ..OpenOptions::default() };
            Index::open_or_build(self.tree, &options, embedder.cloned(), &|_| {})
        };
        if let Ok(opened) = open(directory.clone(), Update::Never) {
            return Ok((opened.index, directory));
        }
        // Builds under another name until the index is up to date.
        let started = of_model.join(format!("{}.new", self.commit));
        let prepare = || -> io::Result<()> {
            for stale in [&directory, &started] {
                if stale.exists() {
                    fs::remove_dir_all(stale)?;
                }
            }
            match self.previous.map(|previous| of_model.join(previous)).filter(|previous| previous.is_dir()) {
                Some(previous) => link_all(&previous, &started),
                None => Ok(()),
            }
        };
        prepare().map_err(|source| results(&of_model, source))?;
        drop(open(started.clone(), Update::Required)?);
        fs::rename(&started, &directory).map_err(|source| results(&directory, source))?;
        Ok((open(directory.clone(), Update::Never)?.index, directory))
    }
}

/// Creates a directory of hard links to the files of another one. Linking is safe because files of an index are
/// never modified.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &target)?;
        } else if entry.file_name() != LOCK && fs::hard_link(entry.path(), &target).is_err() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
