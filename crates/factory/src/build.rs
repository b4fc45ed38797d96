//! Builds what a plan says, step by step.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_annotate::Judging;
use quarry_eval::method::LoadModel;

use crate::candidates::{self, Methods};
use crate::card;
use crate::error::FactoryError;
use crate::export;
use crate::labels::{self, Labelling};
use crate::plan::Plan;
use crate::pool;
use crate::query;
use crate::source::{Opened, RECORDS};
use crate::step::{Key, Step, Store, write_file};

/// Makes a judging plan ready: opens the sandbox, if it needs one.
pub(crate) type PrepareJudging<'a> =
    dyn Fn(quarry_annotate::Plan) -> Result<Judging, Box<dyn Error + Send + Sync>> + 'a;

/// What a build works with that is not in its plan.
pub struct Tools<'a> {
    /// Loads the models of methods.
    pub load: &'a LoadModel<'a>,
    /// Makes a judging plan ready.
    pub prepare_judging: &'a PrepareJudging<'a>,
    /// Set when the user wants no more.
    pub stop: &'a AtomicBool,
}

/// What happens while a plan is built.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A step begins.
    Started(&'a str),
    /// A step is done; it may have been done before.
    Done {
        /// What it came to.
        step: &'a Step,
        /// Whether it was done by an earlier build.
        known: bool,
    },
}

/// What was built.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// All steps, in their order.
    pub steps: Vec<Step>,
    /// The directories of the exports.
    pub exports: Vec<PathBuf>,
    /// The data card.
    pub card: PathBuf,
}

/// The steps of a build, which are done one after the other.
struct Build<'b> {
    store: &'b Store,
    tools: &'b Tools<'b>,
    on_event: &'b mut dyn FnMut(Event<'_>),
    steps: Vec<Step>,
}

impl Build<'_> {
    /// Does a step unless it is done.
    fn run(
        &mut self,
        step: Step,
        work: impl FnOnce(&Path) -> Result<BTreeMap<String, u64>, FactoryError>,
    ) -> Result<Key, FactoryError> {
        if self.tools.stop.load(Ordering::SeqCst) {
            return Err(FactoryError::Stopped);
        }
        (self.on_event)(Event::Started(&step.name));
        let (step, known) = self.store.run(step, work)?;
        (self.on_event)(Event::Done { step: &step, known });
        let key = step.key();
        self.steps.push(step);
        Ok(key)
    }
}

/// Builds what a plan says in a directory, and writes its exports and its card there. What was done before, and depends
/// on nothing that changed since, is not done again.
///
/// # Errors
/// When something is missing or wrong, another process builds there, or the user wants no more. What was done until then
/// is kept.
pub fn build(
    plan: &Plan,
    out: &Path,
    tools: &Tools<'_>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Built, FactoryError> {
    let store = Store::open(out)?;
    let mut build = Build { store: &store, tools, on_event, steps: Vec::new() };
    let at = |key: &Key| store.directory(key);

    let mut sources = Vec::new();
    for source in &plan.sources {
        let opened = Opened::open(source, plan.pool.tests)?;
        sources.push(build.run(opened.step(), |step| opened.write(step))?);
    }
    let records: Vec<PathBuf> = sources.iter().map(|source| at(source).join(RECORDS)).collect();
    let pool_step = pool::step(&plan.pool, &sources.iter().collect::<Vec<_>>());
    let pool = build.run(pool_step, |step| pool::write(&plan.pool, &records, step))?;

    let mut query_sources = Vec::new();
    for queries in &plan.queries {
        let step = query::step(queries, plan.seed, &pool)?;
        query_sources.push(build.run(step, |step| query::write(queries, plan.seed, &at(&pool), step))?);
    }
    let of_sources: Vec<PathBuf> = query_sources.iter().map(at).collect();
    let step = query::merge_step(&query_sources.iter().collect::<Vec<_>>());
    let queries = build.run(step, |step| query::merge(&of_sources, step))?;

    let methods = Methods::open(&plan.candidates, plan.directory(), tools.load)?;
    let step = methods.step(&plan.candidates, &pool, &queries);
    let workspace = store.workspace(&step.key())?;
    let candidates = build.run(step, |step| {
        let inputs = (&*at(&pool), &*at(&queries));
        candidates::write(&plan.candidates, &methods, tools.load, inputs, (step, &workspace), tools.stop)
    })?;
    drop(methods);

    let step = labels::step(&plan.labels, store.root(), &candidates, &queries, &pool)?;
    let workspace = store.workspace(&step.key())?;
    let labelling = Labelling {
        plans: &plan.labels,
        root: store.root(),
        prepare_judging: tools.prepare_judging,
        stop: tools.stop,
    };
    let labels = build.run(step, |step| {
        labels::write(&labelling, (&at(&candidates), &at(&queries), &at(&pool)), (step, &workspace))
    })?;

    let step = export::split_step(&plan.splits, plan.seed, &labels);
    let splits = build.run(step, |step| export::write_splits(&plan.splits, plan.seed, &at(&labels), step))?;

    let mut exports = Vec::new();
    for export in &plan.exports {
        let step = export::step(export, &plan.splits, &[&pool, &queries, &splits]);
        let workspace = store.workspace(&step.key())?;
        let key = build.run(step, |step| {
            let inputs = export::Inputs { pool: &at(&pool), queries: &at(&queries), splits: &at(&splits) };
            export::write(export, &plan.splits, &inputs, (step, &workspace))
        })?;
        let path = out.join("exports").join(&export.format);
        store.publish(&key, &path)?;
        exports.push(path);
    }
    let steps = build.steps;
    let card = out.join("card.md");
    let text = card::markdown(plan, &steps, &pool::removed(&at(&pool))?, &pool::shares(&at(&pool))?);
    write_file(&card, text.as_bytes())?;
    Ok(Built { steps, exports, card })
}
