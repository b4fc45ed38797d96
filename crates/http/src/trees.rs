//! The indexed trees, and what is known of them while they are indexed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use quarry_embed::Embedder;
use quarry_index::{Filter, SegmentPool, Status, UserDirectories};
use quarry_session::settings::SearchDefaults;
use quarry_session::{Session, SharedTree, Tree};
use tokio::sync::watch;

use crate::examples::Examples;
use crate::pages::CodeLink;
use crate::problem::Problem;

/// The longest that a request waits for the first index.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(10);
/// Trees that are named where there may be hundreds.
const MAX_NAMES: usize = 5;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The share of the work that is done, about: 0 to 1.
    pub share: f64,
    /// The current step.
    pub message: String,
    /// Why it failed last; it is tried again.
    pub failure: Option<String>,
}

/// Tells the state of the index of a path, by its number.
pub type TreeStatus = dyn Fn(usize) -> Result<Status, quarry_index::Error> + Send + Sync;

/// The trees that are served, with the index of all of them once there is one.
pub struct Trees {
    names: Vec<String>,
    pub(crate) defaults: SearchDefaults,
    pub(crate) links: Vec<CodeLink>,
    status: Box<TreeStatus>,
    current: RwLock<Option<Current>>,
    progress: Mutex<Progress>,
    /// The model that queries are embedded with.
    pub(crate) model: Arc<dyn Embedder>,
    changed: watch::Sender<()>,
    /// When files changed that the index may not know; none if it cannot be updated.
    files_changed: Mutex<Option<Instant>>,
    /// Keeps parts of the indexes open, if that is limited.
    pub(crate) pool: Option<Arc<SegmentPool>>,
    /// Opens an index again that is gone; `None` for trees that are stored elsewhere.
    session: Option<Arc<Session>>,
}

/// The index that is searched.
#[derive(Clone)]
pub(crate) struct Current {
    pub tree: SharedTree,
    /// When it was opened.
    pub since: Instant,
    /// Number of times that an index was opened.
    pub generation: u64,
    examples: Arc<OnceLock<Examples>>,
    summaries: Arc<OnceLock<Vec<TreeSummary>>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TreeSummary {
    pub files: usize,
    /// Definitions, sections and the parts between them, each once, however many parts it was split into.
    pub units: usize,
    /// With the number of their files, the most frequent first.
    pub languages: Vec<(String, usize)>,
}

impl Current {
    /// Example questions, computed once from files.
    pub(crate) fn examples(&self) -> &Examples {
        self.examples.get_or_init(|| Examples::collect(&self.tree.tree()))
    }

    /// Contents of each tree, counted once.
    pub(crate) fn summaries(&self) -> &[TreeSummary] {
        self.summaries.get_or_init(|| {
            let tree = self.tree.tree();
            (0..tree.n_paths()).map(|number| TreeSummary::new(&tree, number)).collect()
        })
    }
}

impl TreeSummary {
    fn new(tree: &Tree, number: usize) -> Self {
        if tree.is_elsewhere() {
            return Self::default();
        }
        let mut languages: HashMap<String, usize> = HashMap::new();
        let (mut files, mut units) = (0, 0);
        for file in tree.index.files(&Filter::default().in_roots(vec![number])) {
            files += 1;
            units += file.unit_numbers().filter(|unit| tree.index.first_part(*unit) == *unit).count();
            *languages.entry(file.language().to_owned()).or_default() += 1;
        }
        let mut languages: Vec<(String, usize)> = languages.into_iter().collect();
        languages.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        Self { files, units, languages }
    }
}

impl Trees {
    /// The trees at paths that people know by `names`, of which several may be the same.
    pub fn new(
        names: &[String],
        defaults: SearchDefaults,
        links: Vec<CodeLink>,
        status: Box<TreeStatus>,
        model: Arc<dyn Embedder>,
    ) -> Self {
        let (current, progress, changed) = (RwLock::default(), Mutex::default(), watch::Sender::default());
        Self {
            names: unique_names(names),
            defaults,
            links,
            status,
            current,
            progress,
            model,
            changed,
            files_changed: Mutex::default(),
            pool: None,
            session: None,
        }
    }

    /// Measures this pool too, which the indexes are opened with.
    #[must_use]
    pub fn with_pool(self, pool: Arc<SegmentPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Asks this session, which opens the trees.
    #[must_use]
    pub fn with_session(self, session: Arc<Session>) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Searches `tree` from now on.
    pub fn show(&self, tree: &Tree) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let generation = current.as_ref().map_or(1, |current| current.generation + 1);
        let (tree, since) = (tree.shared(), Instant::now());
        let (examples, summaries) = (Arc::default(), Arc::default());
        *current = Some(Current { tree, since, generation, examples, summaries });
        drop(current);
        self.progress().failure = None;
        self.changed.send_replace(());
    }

    /// The directories of the user whose indexes are served.
    pub(crate) fn user(&self) -> UserDirectories {
        self.session.as_ref().map_or_else(UserDirectories::default, |session| session.user().clone())
    }

    /// Has requests wait for the index of the files as they were at `changed` or later, as long as the session waits; without,
    /// they are answered from the index as it is.
    pub fn expect(&self, changed: Option<Instant>) {
        *self.files_changed.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    }

    /// Notes how far the next index has come, or why there is none.
    pub fn report(&self, progress: Progress) {
        *self.progress() = progress;
        self.changed.send_replace(());
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whenever there is an index, or more of it.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits for the first index.
    pub(crate) async fn first(&self) {
        let mut changes = self.changes();
        // It fails when nobody can open one any longer, which ends the wait as well.
        while self.current().is_none() && changes.changed().await.is_ok() {}
    }

    pub(crate) fn current(&self) -> Option<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers from the index. If that is gone, the next one is asked.
    pub(crate) fn ask<T>(&self, question: impl Fn(&Current) -> Result<T, Problem>) -> Result<T, Problem> {
        let current = self.ready()?;
        let Some(session) = self.session.as_ref().filter(|_| !current.tree.is_elsewhere()) else {
            return question(&current);
        };
        let changed = *self.files_changed.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = changed.map(|changed| session.latest(changed, &|_| {}));
        let behind = latest.and_then(|latest| latest.ok()?.1);
        session.ask(None, &|_| {}, |tree, _| {
            let is_current = |current: &Current| Arc::ptr_eq(&current.tree.index, &tree.index);
            if !self.current().as_ref().is_some_and(is_current) {
                self.show(tree);
            }
            let current = self.ready()?;
            question(&Current { tree: current.tree.clone().behind(behind.clone()), ..current })
        })
    }

    /// The index, or that it is being built.
    pub(crate) fn ready(&self) -> Result<Current, Problem> {
        self.current().ok_or_else(|| {
            let Progress { share, message, failure } = self.progress().clone();
            let detail = match failure {
                Some(failure) => format!("there is no index yet: {failure}"),
                None => format!("the first index is being built: {message}, {:.0} % done", share * 100.0),
            };
            Problem { retry_after: Some(2), ..Problem::busy(detail) }
        })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of a few trees, and how many more there are.
    pub(crate) fn names_text(&self) -> String {
        let (first, others) = self.names.split_at(self.names.len().min(MAX_NAMES));
        match others.len() {
            0 => first.join(", "),
            n => format!("{} and {n} more", first.join(", ")),
        }
    }

    /// The number of a tree, by its name.
    pub(crate) fn number(&self, name: &str) -> Result<usize, Problem> {
        self.names.iter().position(|known| known == name).ok_or_else(|| {
            let hint = if self.names.len() <= MAX_NAMES {
                format!("there are {}", self.names.join(", "))
            } else {
                let near = quarry_text::nearest(name, self.names.iter().map(String::as_str), MAX_NAMES);
                format!("did you mean {}? /api/v1/trees lists all", near.join(", "))
            };
            Problem::not_found(format!("unknown tree {name:?}; {hint}"))
        })
    }

    pub(crate) fn status(&self, number: usize) -> Result<Status, Problem> {
        Ok((self.status)(number)?)
    }
}

/// Names that differ: later ones of several get a number.
fn unique_names(names: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        let numbered = |n: usize| if n == 1 { name.clone() } else { format!("{name}-{n}") };
        let free = (1..).map(numbered).find(|name| !unique.contains(name));
        unique.extend(free);
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        let names = ["shop", "lib", "shop", "shop-2", "shop"].map(str::to_owned);
        assert_eq!(unique_names(&names), ["shop", "lib", "shop-2", "shop-2-2", "shop-3"]);
    }

    #[test]
    fn a_few_of_hundreds_of_trees_are_named() {
        let names: Vec<String> = (0..200).map(|n| format!("tree-{n:03}")).collect();
        let ranking = quarry_index::RankingWeights::default();
        let defaults = SearchDefaults { limit: 10, threshold: None, ranking, lines: 3, context: 0 };
        let status = |_| Err(quarry_index::Error::EmptyQuery);
        let model = Arc::new(quarry_embed::StaticModel::builtin());
        let trees = Trees::new(&names, defaults, Vec::new(), Box::new(status), model);
        assert_eq!(trees.names_text(), "tree-000, tree-001, tree-002, tree-003, tree-004 and 195 more");
        let problem = trees.number("tree_117").unwrap_err().detail;
        assert!(problem.contains("did you mean tree-117") && problem.len() < 200, "{problem}");
        assert_eq!(trees.number("tree-117").unwrap(), 117);
    }
}
