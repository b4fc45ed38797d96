//! The indexed trees, and what is known of them while they are indexed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use quarry_answer::{SharedTree, Tree};
use quarry_embed::Embedder;
use quarry_index::{RankingWeights, SegmentPool, Status};
use tokio::sync::watch;

use crate::examples::Examples;
use crate::pages::CodeLink;
use crate::problem::Problem;

/// The longest that a request waits for the next index.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Trees that are named where there may be hundreds.
const MAX_NAMES: usize = 5;

/// What holds where a request does not say it.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence, if one is set.
    pub threshold: Option<f32>,
    /// How results are ranked.
    pub ranking: RankingWeights,
    /// Lines of each result in an answer for programs.
    pub lines: usize,
    /// Lines before and after those.
    pub context: usize,
}

/// How far an index has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The share of the work that is done, about: 0 to 1.
    pub share: f64,
    /// What is being done.
    pub message: String,
    /// Why it failed last; it is tried again.
    pub failure: Option<String>,
}

/// Tells the state of the index of a path, by its number.
pub type TreeStatus = dyn Fn(usize) -> Result<Status, quarry_index::Error> + Send + Sync;

/// The trees that are served, with the index of all of them once there is one.
pub struct Trees {
    names: Vec<String>,
    pub(crate) defaults: Defaults,
    pub(crate) links: Vec<CodeLink>,
    status: Box<TreeStatus>,
    current: RwLock<Option<Current>>,
    progress: Mutex<Progress>,
    /// The model that queries are embedded with.
    pub(crate) model: Arc<dyn Embedder>,
    changed: watch::Sender<()>,
    /// What keeps parts of the indexes open, if that is limited.
    pub(crate) pool: Option<Arc<SegmentPool>>,
}

/// The index that is searched.
#[derive(Clone)]
pub(crate) struct Current {
    pub tree: SharedTree,
    /// When it was opened.
    pub since: Instant,
    /// How often an index was opened.
    pub generation: u64,
    examples: Arc<OnceLock<Examples>>,
}

impl Current {
    /// What it can be asked, which is found out once. It reads files.
    pub(crate) fn examples(&self) -> &Examples {
        self.examples.get_or_init(|| Examples::of(&self.tree.tree()))
    }
}

impl Trees {
    /// The trees at paths that people know by `names`, of which several may be the same.
    #[must_use]
    pub fn new(
        names: &[String],
        defaults: Defaults,
        links: Vec<CodeLink>,
        status: Box<TreeStatus>,
        model: Arc<dyn Embedder>,
    ) -> Self {
        let (current, progress, changed) = (RwLock::default(), Mutex::default(), watch::Sender::default());
        Self { names: apart(names), defaults, links, status, current, progress, model, changed, pool: None }
    }

    /// Measures this pool too, which the indexes are opened with.
    #[must_use]
    pub fn with_pool(self, pool: Arc<SegmentPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Searches `tree` from now on.
    pub fn show(&self, tree: &Tree) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let generation = current.as_ref().map_or(1, |current| current.generation + 1);
        let (tree, since, examples) = (tree.shared(), Instant::now(), Arc::default());
        *current = Some(Current { tree, since, generation, examples });
        drop(current);
        self.progress().failure = None;
        self.changed.send_replace(());
    }

    /// Notes how far the next index has come, or why there is none.
    pub fn tell(&self, progress: Progress) {
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

    /// The index, if there is one.
    pub(crate) fn current(&self) -> Option<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often an index was opened.
    pub(crate) fn generation(&self) -> u64 {
        self.current().map_or(0, |current| current.generation)
    }

    /// Waits until an index was opened after that one.
    pub(crate) async fn opened_after(&self, generation: u64) {
        let mut changes = self.changes();
        // It fails when nobody can open one any longer, which ends the wait as well.
        while self.generation() == generation && changes.changed().await.is_ok() {}
    }

    /// An answer, which is made again if it came from an index that had been replaced, when the next one is open.
    pub(crate) async fn answer_again<T, F: Future<Output = T>>(
        &self,
        is_replaced: impl Fn(&T) -> bool,
        answer: impl Fn() -> F,
    ) -> T {
        let deadline = tokio::time::Instant::now() + MAX_WAIT;
        loop {
            let searched = self.generation();
            let answered = answer().await;
            let wait = self.opened_after(searched);
            if !is_replaced(&answered) || tokio::time::timeout_at(deadline, wait).await.is_err() {
                return answered;
            }
        }
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
fn apart(names: &[String]) -> Vec<String> {
    let mut apart: Vec<String> = Vec::new();
    for name in names {
        let numbered = |n: usize| if n == 1 { name.clone() } else { format!("{name}-{n}") };
        let free = (1..).map(numbered).find(|name| !apart.contains(name));
        apart.extend(free);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        let names = ["shop", "lib", "shop", "shop-2", "shop"].map(str::to_owned);
        assert_eq!(apart(&names), ["shop", "lib", "shop-2", "shop-2-2", "shop-3"]);
    }

    #[test]
    fn of_hundreds_of_trees_a_few_are_named() {
        let names: Vec<String> = (0..200).map(|n| format!("tree-{n:03}")).collect();
        let ranking = RankingWeights::default();
        let defaults = Defaults { limit: 10, threshold: None, ranking, lines: 3, context: 0 };
        let status = |_| Err(quarry_index::Error::EmptyQuery);
        let model = Arc::new(quarry_embed::StaticModel::builtin());
        let trees = Trees::new(&names, defaults, Vec::new(), Box::new(status), model);
        assert_eq!(trees.names_text(), "tree-000, tree-001, tree-002, tree-003, tree-004 and 195 more");
        let problem = trees.number("tree_117").unwrap_err().detail;
        assert!(problem.contains("did you mean tree-117") && problem.len() < 200, "{problem}");
        assert_eq!(trees.number("tree-117").unwrap(), 117);
    }
}
