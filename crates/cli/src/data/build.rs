//! `quarry data build`: a data set by a plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use quarry_annotate::{AnnotateError, Author, AuthorPlan, Judging};
#[cfg(feature = "workers")]
use quarry_annotate::{WorkerModels, queue_of};
use quarry_factory::{
    Amount, Damage, DryRun, Event, Forecast, Plan, Step, Tools, WRITTEN, WrittenEstimate, damaged_exports,
    dry_run, estimate_written, steps_of,
};
use quarry_metrics::table::{Layout, Table};
#[cfg(feature = "workers")]
use quarry_queue::Connection;
use quarry_text::counted;
use serde::Serialize;

#[cfg(feature = "judge")]
use super::api_docs::ApiDocsArgs;
use crate::eval::models::{ModelArgs, Models};
use crate::interrupt::stop_on_interrupt;
#[cfg(feature = "judge")]
use crate::judge::WorkplaceArgs;
use crate::output;
use crate::progress;

/// Arguments of `quarry data build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Plan of the data set
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Directory for steps, exports and card; existing steps are reused [default: PLAN.build beside the plan]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Validate the plan and estimate the work, without doing it
    #[arg(long)]
    dry_run: bool,
    /// Show which steps are done, without running any
    #[arg(long, conflicts_with = "dry_run")]
    status: bool,
    /// Print the status as one JSON object
    #[arg(long, requires = "status")]
    json: bool,
    #[command(flatten)]
    models: ModelArgs,
    #[cfg(feature = "judge")]
    #[command(flatten)]
    workplace: WorkplaceArgs,
    #[cfg(feature = "judge")]
    #[command(flatten)]
    docs: ApiDocsArgs,
}

/// Builds, or shows which steps are done, or writes the documentation of what a build calls.
///
/// # Errors
/// When the plan, its sources or a step of it are wrong, or the user stops. What was done until then is kept.
pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::open(&args.plan)?;
    let out = args.out.clone().unwrap_or_else(|| plan.default_out());
    #[cfg(feature = "judge")]
    if let Some(directory) = &args.docs.directory {
        return args.docs.write(directory, &out, args.workplace.isolation.isolation()?.0);
    }
    let models = args.models.resolve(None)?;
    if args.status {
        return status(&plan, &out, &models, args.json);
    }
    let stop = stop_on_interrupt()?;
    let workers = args.connect(&stop)?;
    let models = workers.ask(models, &out)?;
    let tools = Tools {
        load: &models,
        open_author: &|author, directory, store| workers.open_author(author, directory, store),
        prepare_judging: &|plan| Ok(args.prepare_judging(plan, &stop)?),
        stop: &stop,
    };
    if args.dry_run {
        let DryRun { steps, forecast } = dry_run(&plan, &out, &tools)?;
        let written = match estimate_written(&plan, &out, &steps)? {
            Some(estimate) => writing(&estimate),
            None => String::new(),
        };
        let more = match forecast {
            Some(forecast) => foreseen(&forecast),
            None => estimated(&plan, &steps),
        };
        output::print(&format!("{}{written}{more}", listed(&steps)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut spinner = None;
    let built = quarry_factory::build(&plan, &out, &tools, &mut |event| match event {
        Event::Begun(step) => spinner = Some(progress::Progress::spinner(step.name.clone())),
        Event::Done { step, known } => {
            spinner = None;
            output::note(&described(step, known));
        }
    });
    drop(spinner);
    let built = built?;
    for path in built.exports.iter().chain(&built.about) {
        output::note(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuildStatus<'a> {
    /// Directory of the build.
    directory: &'a Path,
    /// Steps of the plan, in order.
    steps: Vec<StepView>,
    /// Files of exports that have changed since they were built.
    damaged: Vec<Damage>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct StepView {
    /// Name.
    name: String,
    /// Hash that names the directory of the step.
    key: String,
    /// Whether the step is done.
    done: bool,
    /// Counts of the finished step.
    counts: BTreeMap<String, u64>,
}

/// Shows which steps are done.
fn status(plan: &Plan, out: &Path, models: &Models, json: bool) -> anyhow::Result<ExitCode> {
    let tools = Tools {
        load: models,
        open_author: &|author, directory, store| Author::open(author, directory, store),
        prepare_judging: &|plan| Ok(Judging::prepare(plan, None)?),
        stop: &AtomicBool::new(false),
    };
    let steps = steps_of(plan, out, &tools)?;
    let damaged = damaged_exports(out)?;
    if json {
        let step = |(step, done): (Step, bool)| StepView {
            name: step.name.clone(),
            key: step.key().as_str().to_owned(),
            done,
            counts: step.counts,
        };
        let steps = steps.into_iter().map(step).collect();
        output::print_json(&BuildStatus { directory: out, steps, damaged })?;
        return Ok(ExitCode::SUCCESS);
    }
    let n_done = steps.iter().filter(|(_, done)| *done).count();
    let mut text = format!("{}{n_done} of {} done\n", listed(&steps), counted(steps.len(), "step"));
    for Damage { path, kind } in damaged {
        text += &format!("{path} {kind} since the last build; `quarry data build` writes it again\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Who asks the models that write and embed.
struct Workers {
    /// The server that workers are connected to; without it, this process asks.
    #[cfg(feature = "workers")]
    connection: Option<Connection>,
}

#[cfg(feature = "workers")]
impl Workers {
    /// The same models, whose servers workers ask for the build in `out`.
    fn ask(&self, models: Models, out: &Path) -> anyhow::Result<Models> {
        let Some(connection) = &self.connection else { return Ok(models) };
        let queue = format!("{}-embeddings", queue_of(&out.join(WRITTEN))?);
        let workers = WorkerModels::new(connection, &queue)?;
        Ok(models.asked_by(Box::new(move |settings| workers.transport(settings))))
    }

    fn open_author(
        &self,
        author: &AuthorPlan,
        directory: &Path,
        store: &Path,
    ) -> Result<Author, AnnotateError> {
        match &self.connection {
            Some(connection) => Author::open_for_workers(author, directory, store, connection),
            None => Author::open(author, directory, store),
        }
    }
}

#[cfg(not(feature = "workers"))]
impl Workers {
    fn ask(&self, models: Models, _: &Path) -> anyhow::Result<Models> {
        Ok(models)
    }

    fn open_author(
        &self,
        author: &AuthorPlan,
        directory: &Path,
        store: &Path,
    ) -> Result<Author, AnnotateError> {
        Author::open(author, directory, store)
    }
}

impl BuildArgs {
    #[cfg(feature = "workers")]
    fn connect(&self, stop: &Arc<AtomicBool>) -> anyhow::Result<Workers> {
        let url = self.workplace.nats.as_ref().filter(|_| !self.dry_run);
        let open = |url: &String| Connection::open(url, Arc::clone(stop), Arc::new(output::note));
        Ok(Workers { connection: url.map(open).transpose()? })
    }

    #[cfg(not(feature = "workers"))]
    fn connect(&self, _: &Arc<AtomicBool>) -> anyhow::Result<Workers> {
        Ok(Workers {})
    }

    #[cfg(feature = "judge")]
    fn prepare_judging(
        &self,
        plan: quarry_annotate::Plan,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Judging> {
        self.workplace.prepare(plan, stop, false)
    }

    /// A build without judging has no sandbox; judges that run programs say so.
    #[cfg(not(feature = "judge"))]
    fn prepare_judging(&self, plan: quarry_annotate::Plan, _: &Arc<AtomicBool>) -> anyhow::Result<Judging> {
        Ok(Judging::prepare(plan, None)?)
    }
}

/// A step with what it came to, on one line.
fn described(step: &Step, known: bool) -> String {
    let known = if known { " (already done)" } else { "" };
    format!("{}{known}: {}", step.name, counts(step))
}

fn counts(step: &Step) -> String {
    let counts: Vec<String> = step.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

/// Steps, each on a line with what it came to, if it is done.
fn listed(steps: &[(Step, bool)]) -> String {
    let mut table = Table::new(["step", "result"]).align_left([1]);
    for (step, done) in steps {
        table.push([step.name.to_string(), if *done { counts(step) } else { "to do".to_owned() }]);
    }
    table.render(Layout::Text)
}

/// What having queries written usually takes.
fn writing(estimate: &WrittenEstimate) -> String {
    let WrittenEstimate { known, functions, queries, questions, tokens, dollars, seconds } = *estimate;
    let dollars = dollars.map_or_else(String::new, |dollars| format!(", {dollars:.4} dollars"));
    let known = if known > 0 {
        format!(", asking about {} of other packages", counted(known, "function"))
    } else {
        String::new()
    };
    format!(
        "writing {} and {}{known}: {}, about {tokens} tokens{dollars} and {seconds:.0} s at 2 s per answer; stored \
         answers cost nothing\n",
        counted(queries, "query"),
        counted(functions, "summary"),
        counted(questions, "question")
    )
}

/// Estimates by a sample of the sources, with what is known.
fn foreseen(Forecast { rows, without }: &Forecast) -> String {
    let mut table = Table::new(["estimate", "about", "at most"]);
    for (what, Amount { value, is_exact, at_most }) in rows {
        let shown = |value: f64| match what.as_str() {
            "dollars" => format!("{value:.2}"),
            _ => format!("{:.0}", value.ceil()),
        };
        // Estimates have two digits that mean something.
        let rough = |value: f64| {
            let unit = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
            if what == "dollars" { value } else { (value / unit).round() * unit }
        };
        let value = if *is_exact { shown(*value) } else { format!("~{}", shown(rough(*value))) };
        let at_most = if *is_exact { "exact".to_owned() } else { at_most.map_or_else(String::new, shown) };
        table.push([what.clone(), value, at_most]);
    }
    let mut text = format!(
        "\nestimated from a sample of the sources, at 2 s per model answer:\n{}",
        table.render(Layout::Text)
    );
    if !without.is_empty() {
        text += &format!("not counted: {}\n", without.join("; "));
    }
    text
}

/// Upper bounds for the steps to do, as far as they follow from those that are done.
fn estimated(plan: &Plan, steps: &[(Step, bool)]) -> String {
    let count = |name: &str, counted: &str| {
        let step = steps.iter().find(|(step, done)| *done && step.name == name);
        step.and_then(|(step, _)| step.counts.get(counted)).copied()
    };
    let Some(queries) = count("merge", "queries") else {
        return "the number of candidates depends on the number of queries, which must be made first\n"
            .to_owned();
    };
    let candidates = queries * plan.candidates_per_query() as u64;
    let mut text = format!("candidates: at most {candidates}, of {}\n", counted(queries, "query"));
    if count("labels", "pairs").is_none() && plan.has_judge() {
        let pairs = count("candidates", "candidates").unwrap_or(candidates);
        text += &format!(
            "judging: at most {}; `quarry judge run --dry-run` with your own pairs estimates tokens and money for \
             each\n",
            counted(pairs, "pair")
        );
    }
    text
}
