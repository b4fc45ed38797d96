//! Asking models during a build, in several threads.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use quarry_annotate::{AnnotateError, Author, AuthorAnswer, AuthorPlan, AuthorUsage};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::FactoryError;

/// Maximum number of failed questions before the remaining ones are skipped.
const MAX_FAILURES: usize = 25;

/// The directory, in that of a build, with answers and the log of calls. It is kept whatever changes, so that nothing is
/// paid for twice.
pub const WRITTEN: &str = "written";

/// Makes the models of a plan ready, with the directory of the plan and the one for answers: they are asked from here, or
/// by workers.
pub(crate) type OpenAuthor<'a> = dyn Fn(&AuthorPlan, &Path, &Path) -> Result<Author, AnnotateError> + 'a;

/// Who writes, and where answers are kept.
#[derive(Clone, Copy)]
pub(crate) struct Authoring<'a> {
    pub(crate) plan: &'a AuthorPlan,
    /// The directory of the plan.
    pub(crate) directory: &'a Path,
    /// The directory of the build.
    pub(crate) root: &'a Path,
    pub(crate) open: &'a OpenAuthor<'a>,
    pub(crate) stop: &'a AtomicBool,
}

impl Authoring<'_> {
    /// Connects to the models.
    ///
    /// # Errors
    /// When a setting cannot work, a key is missing, or answers cannot be kept.
    pub(crate) fn open(&self) -> Result<Author, FactoryError> {
        (self.open)(self.plan, self.directory, &self.root.join(WRITTEN)).map_err(stopped)
    }

    /// Asks about each item, as many at the same time as the model takes. Questions that fail are left for another
    /// build, after all others were asked. Those that the server rejects have no answer, unless it rejects most of them.
    ///
    /// # Errors
    /// When a question fails, an error affects all of them, or the user stopped.
    pub(crate) fn ask_all<T: Sync, R: Send>(
        &self,
        author: &Author,
        step: &str,
        items: &[T],
        ask: impl Fn(&T) -> Result<AuthorAnswer<R>, FactoryError> + Sync,
    ) -> Result<Vec<Result<R, String>>, FactoryError> {
        let failures = Mutex::new(Vec::new());
        let rejections = Mutex::new(Vec::new());
        let n_answered = AtomicUsize::new(0);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found: Vec<(usize, Result<R, String>)> = Vec::new();
            while let Some((number, item)) =
                items.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
            {
                if self.stop.load(Ordering::SeqCst) {
                    return Err(FactoryError::Stopped);
                }
                match ask(item) {
                    Ok(AuthorAnswer::Read(answer)) => {
                        n_answered.fetch_add(1, Ordering::Relaxed);
                        found.push((number, Ok(answer)));
                    }
                    Ok(AuthorAnswer::Unreadable(problem)) => {
                        n_answered.fetch_add(1, Ordering::Relaxed);
                        found.push((number, Err(problem)));
                    }
                    Ok(AuthorAnswer::Rejected(problem)) => {
                        let mut rejections = rejections.lock().unwrap_or_else(PoisonError::into_inner);
                        if rejections.len() < MAX_FAILURES.max(n_answered.load(Ordering::Relaxed)) {
                            rejections.push((number, problem));
                        } else {
                            failures.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                            next.store(items.len(), Ordering::Relaxed);
                        }
                    }
                    Ok(AuthorAnswer::Failed(problem)) => {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push(problem);
                        if failures.len() >= MAX_FAILURES {
                            next.store(items.len(), Ordering::Relaxed);
                        }
                    }
                    Err(error) => {
                        next.store(items.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(found)
        };
        let mut answers: Vec<(usize, Result<R, String>)> = Vec::new();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..author.at_once().min(items.len())).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                let found = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                answers.extend(found?);
            }
            Ok::<(), FactoryError>(())
        })?;
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rejections = rejections.into_inner().unwrap_or_else(PoisonError::into_inner);
        if failures.is_empty() && rejections.len() < answers.len() {
            answers.extend(rejections.into_iter().map(|(number, problem)| (number, Err(problem))));
        } else {
            failures.extend(rejections.into_iter().map(|(_, problem)| problem));
        }
        if let Some(last) = failures.last() {
            let problem = format!(
                "questions that failed: {}; the last one with: {last}; build again to retry them: answers are kept",
                failures.len()
            );
            return Err(FactoryError::step(step, problem));
        }
        author.clear().map_err(stopped)?;
        answers.sort_unstable_by_key(|(number, _)| *number);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

/// Converts an error of the author.
pub(crate) fn stopped(error: AnnotateError) -> FactoryError {
    match error {
        AnnotateError::Stopped => FactoryError::Stopped,
        error => error.into(),
    }
}

/// Adds the usage to the counts of a step.
pub(crate) fn add_usage(counts: &mut BTreeMap<String, u64>, usage: AuthorUsage) {
    counts.insert("questions".to_owned(), usage.questions);
    counts.insert("tokens".to_owned(), usage.cost.tokens);
    if let Some(dollars) = usage.cost.dollars().filter(|dollars| *dollars > 0.0) {
        counts.insert("millionths of a dollar".to_owned(), (dollars * 1e6).round() as u64);
    }
}

/// The first `maximum` ids in an order given by the seed, returned in the original order.
pub(crate) fn first_drawn(ids: Vec<String>, maximum: Option<usize>, seed: u64) -> Vec<String> {
    let Some(maximum) = maximum.filter(|maximum| *maximum < ids.len()) else { return ids };
    let mut order: Vec<(u64, &String)> =
        ids.iter().map(|id| (xxh3_64_with_seed(id.as_bytes(), seed), id)).collect();
    order.sort_unstable();
    let drawn: HashSet<String> = order.into_iter().take(maximum).map(|(_, id)| id.clone()).collect();
    ids.into_iter().filter(|id| drawn.contains(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_functions_include_fewer() {
        let ids: Vec<String> = (0..100).map(|number| format!("{number:016x}")).collect();
        let few = first_drawn(ids.clone(), Some(10), 42);
        let more = first_drawn(ids.clone(), Some(30), 42);
        assert_eq!((few.len(), more.len()), (10, 30));
        assert!(few.iter().all(|id| more.contains(id)));
        assert_ne!(few, first_drawn(ids.clone(), Some(10), 43));
        assert_eq!(first_drawn(ids.clone(), None, 42), ids);
    }
}
