//! Builds a plan, step by step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_eval::method::LoadModel;

use crate::candidates::{self, Methods};
use crate::error::BuildError;
use crate::export;
use crate::export::croissant;
use crate::export::evaluation;
use crate::export::fixes;
use crate::export::leaks;
use crate::jsonl;
use crate::labels::annotation;
use crate::labels::calibration;
use crate::labels::people;
use crate::labels::{self, JudgingEstimate, Labeling, PrepareJudging, RunJudging};
use crate::outputs::BUILD;
use crate::plan::{Calibrated, Extract, LOCALIZE, Plan, QueryKind, UnpopularBelow};
use crate::queries;
use crate::queries::authoring::{Authoring, OpenAuthor};
use crate::queries::categories;
use crate::queries::history;
use crate::queries::written;
use crate::report::card;
use crate::report::forecast::{self, Forecast};
use crate::sources::graph;
use crate::sources::pool;
use crate::sources::{OpenedSource, RECORDS};
use crate::step::{self, Key, Step, Store, Watch, write_file};

/// Dependencies of a build in addition to its plan.
pub struct Tools<'a> {
    pub load: &'a LoadModel<'a>,
    /// Makes the models that write ready.
    pub open_author: &'a OpenAuthor<'a>,
    pub prepare_judging: &'a PrepareJudging<'a>,
    pub judge: &'a RunJudging<'a>,
    /// Called now and then by a step with the number of things that it has read, such as commits, and their name.
    pub counted: &'a dyn Fn(u64, &str),
    pub stop: &'a AtomicBool,
}

#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Begun(&'a Step),
    Done { step: &'a Step, known: bool },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    pub steps: Vec<Step>,
    pub exports: Vec<PathBuf>,
    /// Descriptions of the build: the data card, in two forms, and the Croissant metadata.
    pub about: Vec<PathBuf>,
    /// Warnings, such as of pairs that annotators disagree on.
    pub warnings: Vec<String>,
}

/// Inputs that a plan names, which are checked before anything is done.
struct PlanInputs<'p> {
    sources: Vec<OpenedSource<'p>>,
    methods: Rc<Methods>,
}

impl<'p> PlanInputs<'p> {
    fn open(plan: &'p Plan, root: &Path, tools: &Tools<'_>, is_hashed: bool) -> Result<Self, BuildError> {
        let open = |source| OpenedSource::open(source, plan.pool.tests, &plan.path, is_hashed);
        let sources: Result<Vec<OpenedSource<'_>>, BuildError> = plan.sources.iter().map(open).collect();
        let sources = sources?;
        plan.queries.iter().try_for_each(|queries| queries::check(plan, queries))?;
        let methods = Methods::open(&plan.candidates, plan.directory(), tools.load)?;
        labels::check(&plan.labels, root)?;
        plan.leaks.iter().try_for_each(leaks::check)?;
        Ok(Self { sources, methods: Rc::new(methods) })
    }
}

struct Build<'b> {
    root: &'b Path,
    /// Store of the steps; if `None`, they are only listed.
    store: Option<&'b Store>,
    tools: &'b Tools<'b>,
    on_event: &'b mut dyn FnMut(Event<'_>),
    steps: Vec<(Step, bool)>,
    /// Overlap of the training parts with public evaluation data.
    evaluation: Vec<String>,
}

impl Build<'_> {
    /// Does a step unless it is done. `work` gets the directory for the output, and one for state to resume from
    /// after an interruption.
    fn run(
        &mut self,
        step: Step,
        work: impl FnOnce(&Path, &Path) -> Result<BTreeMap<String, u64>, BuildError>,
    ) -> Result<Key, BuildError> {
        if self.tools.stop.load(Ordering::SeqCst) {
            return Err(BuildError::Stopped);
        }
        let key = step.key();
        let (step, known) = match self.store {
            Some(store) => {
                let on_event = &mut *self.on_event;
                store.run(step, |step, directory, workspace| {
                    on_event(Event::Begun(step));
                    work(directory, workspace)
                })?
            }
            None => match step::read(self.root, &key) {
                Some(known) => (Step { name: step.name, ..known }, true),
                None => (step, false),
            },
        };
        (self.on_event)(Event::Done { step: &step, known });
        self.steps.push((step, known));
        Ok(key)
    }

    fn at(&self, key: &Key) -> PathBuf {
        step::directory_of(self.root, key)
    }

    /// Builds the call graph of the sources, and summarizes the functions of the pool; returns the latter step.
    fn annotate(
        &mut self,
        plan: &Plan,
        authoring: &Authoring<'_>,
        (sources, records): (&[Key], &[PathBuf]),
        pool: &Key,
    ) -> Result<Key, BuildError> {
        let (sources, by): (Vec<&Key>, _) = (sources.iter().collect(), plan.annotation.calls);
        let graph = self.run(graph::step(plan.seed, by, &sources), |step, _| {
            graph::write(plan.seed, by, records, step)
        })?;
        let (at_pool, at_graph) = (self.at(pool), self.at(&graph));
        let calibration = match plan.annotation.unpopular_below {
            UnpopularBelow::Calls(_) => None,
            UnpopularBelow::Named(Calibrated::Calibrated) => {
                let step = calibration::step(plan, authoring, &graph)?;
                Some(self.run(step, |step, _| calibration::write(plan, authoring, &at_graph, step))?)
            }
        };
        let at_calibration = calibration.as_ref().map(|calibration| self.at(calibration));
        let inputs = annotation::Inputs {
            pool: &at_pool,
            graph: &at_graph,
            calibration: at_calibration.as_deref(),
            sources: records,
        };
        let step = annotation::step(plan, authoring, pool, (&graph, calibration.as_ref()), &sources)?;
        self.run(step, |step, _| annotation::write(plan, authoring, &inputs, step))
    }

    /// All steps of a plan; the pool, and the exports by their formats. Keys depend on keys alone, so that steps that
    /// are only looked for need no output of the ones before.
    fn all(
        &mut self,
        plan: &Plan,
        opened: &[OpenedSource<'_>],
        methods: Rc<Methods>,
    ) -> Result<(Key, Vec<(String, Key)>), BuildError> {
        let Tools { load, open_author, prepare_judging, judge, counted, stop } = *self.tools;
        let watch = Watch { stop, counted };
        let mut sources = Vec::new();
        for source in opened {
            sources.push(self.run(source.step(), |step, _| source.write(step))?);
        }
        let records: Vec<PathBuf> = sources.iter().map(|source| self.at(source).join(RECORDS)).collect();
        let step = pool::step(&plan.pool, &sources.iter().collect::<Vec<_>>());
        let mut pool = self.run(step, |step, _| pool::write(&plan.pool, &records, step))?;

        let authoring = plan.author.as_ref().map(|author| Authoring {
            plan: author,
            directory: plan.directory(),
            root: self.root,
            open: open_author,
            stop,
        });
        if let Some(categories) = &plan.categories {
            let step = categories::step(categories, authoring.as_ref(), &pool)?;
            let whole = self.at(&pool);
            pool =
                self.run(step, |step, _| categories::write(categories, authoring.as_ref(), &whole, step))?;
        }
        let mut exports = Vec::new();
        if plan.exports.iter().any(|export| export.format == LOCALIZE) {
            let key = self.run(fixes::step(plan)?, |step, _| fixes::write(plan, step, stop))?;
            exports.push((LOCALIZE.to_owned(), key));
            if plan.is_of_fixes() {
                return Ok((pool, exports));
            }
        }
        let at_pool = self.at(&pool);
        let authoring = authoring.filter(|_| plan.has_author());
        let annotations = match &authoring {
            Some(authoring) => Some(self.annotate(plan, authoring, (&sources, &records), &pool)?),
            None => None,
        };
        let (mut of_sources, mut written) = (Vec::new(), Vec::new());
        for queries in &plan.queries {
            let key = match (&authoring, &annotations) {
                (Some(authoring), Some(annotations)) if queries.kind == QueryKind::Written => {
                    let step = written::step(queries, plan.seed, authoring, &pool, annotations)?;
                    let inputs = (&*at_pool, &*self.at(annotations));
                    let key = self
                        .run(step, |step, _| written::write(queries, plan.seed, authoring, inputs, step))?;
                    written.push(key.clone());
                    key
                }
                _ => {
                    let history = match queries.is_untrusted() && !queries.sources.is_empty() {
                        true => Some(self.run(history::step(plan, queries, &pool)?, |step, _| {
                            history::write(plan, queries, &at_pool, step, watch)
                        })?),
                        false => None,
                    };
                    let step = queries::step(plan, queries, &pool, history.as_ref())?;
                    let at_history = history.as_ref().map(|history| self.at(history));
                    let inputs = (&*at_pool, at_history.as_deref());
                    self.run(step, |step, _| queries::write(plan, queries, inputs, step, watch))?
                }
            };
            of_sources.push(key);
        }
        let step = queries::merge_step(&of_sources.iter().collect::<Vec<_>>());
        let at_sources: Vec<PathBuf> = of_sources.iter().map(|source| self.at(source)).collect();
        let queries = self.run(step, |step, _| queries::merge(&at_sources, step))?;
        let at_queries = self.at(&queries);

        let candidates = self.run(methods.step(&plan.candidates, &pool, &queries), |step, workspace| {
            let inputs = (&*at_pool, &*at_queries);
            candidates::write(&plan.candidates, &methods, load, inputs, (step, workspace), stop)
        })?;
        drop(methods);
        let at_candidates = self.at(&candidates);

        let root = self.root;
        let labelling = Labeling { plans: &plan.labels, root, prepare_judging, judge, stop };
        let step = labels::step(&plan.labels, root, &candidates, &queries, &pool)?;
        let labels = self.run(step, |step, workspace| {
            labels::write(&labelling, (&at_candidates, &at_queries, &at_pool), (step, workspace))
        })?;
        let at_labels = self.at(&labels);

        let step = export::split_step(&plan.splits, plan.seed, &labels);
        let mut splits =
            self.run(step, |step, _| export::write_splits(&plan.splits, plan.seed, &at_labels, step))?;
        if let Some(leaks) = &plan.leaks {
            let step = leaks::step(leaks, &plan.splits, &splits)?;
            let at_splits = self.at(&splits);
            splits = self.run(step, |step, _| leaks::write(leaks, &plan.splits, &at_splits, step))?;
        }
        let at_splits = self.at(&splits);
        if self.store.is_some() {
            self.evaluation = evaluation::check(plan, &at_splits)?;
        }

        let at_written: Vec<PathBuf> = written.iter().map(|written| self.at(written)).collect();
        for export in plan.exports.iter().filter(|export| export.format != LOCALIZE) {
            let mut inputs = vec![&pool, &queries, &splits];
            if Extract::named(&export.format).is_some() {
                inputs.extend(&written);
            }
            let step = export::step(export, &plan.splits, &inputs);
            let key = self.run(step, |step, workspace| {
                let inputs = export::Inputs {
                    pool: &at_pool,
                    queries: &at_queries,
                    splits: &at_splits,
                    labels: &at_labels,
                    written: &at_written,
                };
                export::write(export, &plan.splits, &inputs, (step, workspace))
            })?;
            exports.push((export.format.clone(), key));
        }
        Ok((pool, exports))
    }
}

/// Builds what a plan describes in a directory, and writes its exports, its card and its metadata there.
/// Steps whose inputs have not changed are reused.
///
/// # Errors
/// When something is missing or invalid, another process builds there, or the user stopped. Finished steps are kept.
pub fn build(
    plan: &Plan,
    out: &Path,
    tools: &Tools<'_>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Built, BuildError> {
    let store = Store::open(out)?;
    let mut build =
        Build { root: out, store: Some(&store), tools, on_event, steps: Vec::new(), evaluation: Vec::new() };
    let PlanInputs { sources, methods } = PlanInputs::open(plan, out, tools, true)?;
    let (pool, keys) = build.all(plan, &sources, methods)?;
    let at_pool = build.at(&pool);
    let shared = std::mem::take(&mut build.evaluation);
    let steps: Vec<Step> = build.steps.into_iter().map(|(step, _)| step).collect();
    let mut exports = Vec::new();
    for (format, key) in keys {
        let path = out.join("exports").join(format);
        if store.publish(&key, &path)? {
            exports.push(path);
        }
    }
    let surveys = people::summaries(&steps, out)?;
    let (removed, shares) = pool::summary(&at_pool)?;
    let mut removed_queries = BTreeMap::new();
    for step in &steps {
        if let Some(source) = step.name.strip_prefix("queries ") {
            let examples = queries::examples(&step::directory_of(out, &step.key()))?;
            removed_queries.insert(source.to_owned(), examples);
        }
    }
    let content = card::card(&card::Facts {
        plan,
        steps: &steps,
        removed: &removed,
        removed_queries: &removed_queries,
        shares: &shares,
        surveys: &surveys,
        evaluation: &shared,
    });
    let cards = [("card.md", card::markdown(&content)), ("card.html", card::page(&content))];
    let mut written = Vec::new();
    written.extend(sheet(&at_pool, out)?);
    for (name, text) in cards {
        let path = out.join(name);
        write_file(&path, text.as_bytes())?;
        written.push(path);
    }
    let metadata = out.join(croissant::FILE);
    jsonl::write_json(&metadata, &croissant::metadata(plan, &steps, &shares, out)?)?;
    written.push(metadata);
    jsonl::write_json(&out.join(BUILD), &steps)?;
    let warnings = surveys.iter().filter_map(|survey| people::warning(survey, out)).collect();
    Ok(Built { steps, exports, about: written, warnings })
}

/// Copies the sheet for people out of the step that wrote it, under a name that its content decides: what people filled in
/// is never overwritten.
fn sheet(step: &Path, out: &Path) -> Result<Option<PathBuf>, BuildError> {
    let sheet = step.join(categories::SHEET);
    if !sheet.exists() {
        return Ok(None);
    }
    let path = out.join(format!("review-{}.csv", &step::hash_file(&sheet)?[..8]));
    // A link is not followed, and nothing that is there is replaced.
    if std::fs::symlink_metadata(&path).is_err() {
        write_file(&path, &std::fs::read(&sheet).map_err(BuildError::read(&sheet))?)?;
    }
    Ok(Some(path))
}

/// The steps of a plan, each with whether it is done in a directory, in their order. Nothing is done or written; sources
/// are read, to see whether they have changed.
///
/// # Errors
/// When something that the plan names is missing or invalid.
pub fn steps_of(plan: &Plan, out: &Path, tools: &Tools<'_>) -> Result<Vec<(Step, bool)>, BuildError> {
    listed(plan, out, tools, &PlanInputs::open(plan, out, tools, true)?)
}

fn listed(
    plan: &Plan,
    out: &Path,
    tools: &Tools<'_>,
    named: &PlanInputs<'_>,
) -> Result<Vec<(Step, bool)>, BuildError> {
    let on_event = &mut |_: Event<'_>| {};
    let mut build =
        Build { root: out, store: None, tools, on_event, steps: Vec::new(), evaluation: Vec::new() };
    build.all(plan, &named.sources, Rc::clone(&named.methods))?;
    Ok(build.steps)
}

#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    pub steps: Vec<(Step, bool)>,
    /// Forecast of their results, if the queries are not made yet.
    pub forecast: Option<Forecast>,
    /// Estimates of judging, if the candidates are known and it is not done.
    pub judging: Vec<JudgingEstimate>,
}

/// The steps of a plan, and what they will come to. Nothing is done or written. If nothing was built in the directory, a
/// sample of the sources is read, and otherwise all of them, to see whether they have changed.
///
/// # Errors
/// When something that the plan names is missing or invalid.
pub fn dry_run(plan: &Plan, out: &Path, tools: &Tools<'_>) -> Result<DryRun, BuildError> {
    let is_new = !out.join("steps").exists();
    let named = PlanInputs::open(plan, out, tools, !is_new)?;
    let steps = listed(plan, out, tools, &named)?;
    let forecast = match steps.iter().any(|(step, done)| *done && step.name == "merge") {
        true => None,
        false => Some(forecast::forecast(plan, &named.sources, &named.methods, out)?),
    };
    let done = |name: &str| step::finished(&steps, out, name);
    let pool = if plan.categories.is_some() { categories::STEP } else { "pool" };
    let judging = match (done("candidates"), done("merge"), done(pool), done("labels")) {
        (Some(candidates), Some(queries), Some(pool), None) => {
            let Tools { prepare_judging, judge, stop, .. } = *tools;
            let labelling = Labeling { plans: &plan.labels, root: out, prepare_judging, judge, stop };
            labels::estimate(&labelling, (&candidates, &queries, &pool))?
        }
        _ => Vec::new(),
    };
    Ok(DryRun { steps, forecast, judging })
}
