//! Asking models during a build, in several threads.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use quarry_judge::{Author, AuthorAnswer, AuthorPlan, AuthorUsage, JudgeError};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::BuildError;
use crate::step::Step;

/// Maximum number of failed questions before the remaining ones are skipped.
const MAX_FAILURES: usize = 25;

/// The directory, inside that of a build, with answers and the log of calls. It is always kept, so that nothing is paid
/// for twice.
pub const WRITTEN: &str = "written";

/// Makes the models of a plan ready, with the directory of the plan and the one for answers: they are asked from here, or
/// by workers.
pub(crate) type OpenAuthor<'a> = dyn Fn(&AuthorPlan, &Path, &Path) -> Result<Author, JudgeError> + 'a;

#[derive(Clone, Copy)]
pub(crate) struct Authoring<'a> {
    pub(crate) plan: &'a AuthorPlan,
    pub(crate) directory: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) open: &'a OpenAuthor<'a>,
    pub(crate) stop: &'a AtomicBool,
}

impl Authoring<'_> {
    pub(crate) fn open(&self) -> Result<Author, BuildError> {
        (self.open)(self.plan, self.directory, &self.root.join(WRITTEN)).map_err(stopped)
    }

    /// Asks about each item, as many at the same time as the model takes. Questions that fail are left for another
    /// build, after all others were asked. Those that the server rejects have no answer, unless it rejects most of them.
    pub(crate) fn ask_all<T: Sync, R: Send>(
        &self,
        author: &Author,
        step: &str,
        items: &[T],
        ask: impl Fn(&T) -> Result<AuthorAnswer<R>, BuildError> + Sync,
    ) -> Result<Vec<Result<R, String>>, BuildError> {
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
                    return Err(BuildError::Stopped);
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
            Ok::<(), BuildError>(())
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
            return Err(BuildError::step(step, problem));
        }
        author.clear().map_err(stopped)?;
        answers.sort_unstable_by_key(|(number, _)| *number);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

pub(crate) fn stopped(error: JudgeError) -> BuildError {
    match error {
        JudgeError::Stopped => BuildError::Stopped,
        error => error.into(),
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepCost {
    pub answers: u64,
    pub tokens: u64,
    /// Their price; `None` if it is not known.
    pub dollars: Option<f64>,
}

impl StepCost {
    /// `None` if the step asked no model.
    pub fn from_counts(step: &Step) -> Option<Self> {
        let count = |name: &str| step.counts.get(name).copied();
        let (answers, tokens) = (count("questions")?, count("tokens")?);
        let dollars = count("millionths of a dollar").map(|millionths| millionths as f64 / 1e6);
        Some(Self { answers, tokens, dollars })
    }

    /// The sum of several, whose price is known if all of theirs are.
    pub fn sum(costs: impl IntoIterator<Item = Self>) -> Self {
        let none = Self { dollars: Some(0.0), ..Self::default() };
        costs.into_iter().fold(none, |sum, cost| Self {
            answers: sum.answers + cost.answers,
            tokens: sum.tokens + cost.tokens,
            dollars: sum.dollars.zip(cost.dollars).map(|(sum, dollars)| sum + dollars),
        })
    }
}

pub(crate) fn add_usage(counts: &mut BTreeMap<String, u64>, usage: AuthorUsage) {
    counts.insert("questions".to_owned(), usage.questions);
    counts.insert("tokens".to_owned(), usage.cost.tokens);
    if let Some(dollars) = usage.cost.dollars().filter(|dollars| *dollars > 0.0) {
        counts.insert("millionths of a dollar".to_owned(), (dollars * 1e6).round() as u64);
    }
}

/// At most `maximum` items, drawn by a hash of their keys, in their order; a larger draw includes a smaller one.
pub(crate) fn first_drawn<T>(
    items: Vec<T>,
    key: impl Fn(&T) -> &str,
    maximum: Option<usize>,
    seed: u64,
) -> Vec<T> {
    let Some(maximum) = maximum.filter(|maximum| *maximum < items.len()) else { return items };
    let hashes = items.iter().map(|item| xxh3_64_with_seed(key(item).as_bytes(), seed));
    let mut order: Vec<(u64, usize)> = hashes.zip(0..).collect();
    order.sort_unstable();
    let drawn: HashSet<usize> = order.into_iter().take(maximum).map(|(_, place)| place).collect();
    let mut places = 0..;
    items.into_iter().filter(|_| places.next().is_some_and(|place| drawn.contains(&place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_functions_include_fewer() {
        let ids: Vec<String> = (0..100).map(|number| format!("{number:016x}")).collect();
        let few = first_drawn(ids.clone(), String::as_str, Some(10), 42);
        let more = first_drawn(ids.clone(), String::as_str, Some(30), 42);
        assert_eq!((few.len(), more.len()), (10, 30));
        assert!(few.iter().all(|id| more.contains(id)));
        assert_ne!(few, first_drawn(ids.clone(), String::as_str, Some(10), 43));
        assert_eq!(first_drawn(ids.clone(), String::as_str, None, 42), ids);
    }
}
