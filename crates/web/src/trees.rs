//! The indexed trees, and what is known of them while they are indexed.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use quarry_answer::{SharedTree, Tree};
use quarry_index::{RankingWeights, Status};

use crate::pages::CodeLink;
use crate::problem::Problem;

/// What holds where a request does not say it.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence.
    pub threshold: f32,
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
}

/// The index that is searched.
#[derive(Clone)]
pub(crate) struct Current {
    pub tree: SharedTree,
    /// When it was opened.
    pub since: Instant,
    /// How often an index was opened.
    pub generation: u64,
}

impl Trees {
    /// The trees at paths that people know by `names`, of which several may be the same.
    #[must_use]
    pub fn new(names: &[String], defaults: Defaults, links: Vec<CodeLink>, status: Box<TreeStatus>) -> Self {
        let (current, progress) = (RwLock::default(), Mutex::default());
        Self { names: apart(names), defaults, links, status, current, progress }
    }

    /// Searches `tree` from now on.
    pub fn show(&self, tree: &Tree) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let generation = current.as_ref().map_or(1, |current| current.generation + 1);
        *current = Some(Current { tree: tree.shared(), since: Instant::now(), generation });
        drop(current);
        self.progress().failure = None;
    }

    /// Notes how far the next index has come, or why there is none.
    pub fn tell(&self, progress: Progress) {
        *self.progress() = progress;
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index, if there is one.
    pub(crate) fn current(&self) -> Option<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// The number of a tree, by its name.
    pub(crate) fn number(&self, name: &str) -> Result<usize, Problem> {
        self.names.iter().position(|known| known == name).ok_or_else(|| {
            Problem::not_found(format!("no tree is called {name:?}; there are {}", self.names.join(", ")))
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
}
