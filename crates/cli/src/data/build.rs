//! `quarry data build`: a data set by a plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use quarry_build::{
    Amount, BuildError, Damage, DryRun, Event, Forecast, JudgingEstimate, Plan, Step, StepCost, Tools,
    WRITTEN, WrittenEstimate, damaged_exports, dry_run, estimate_written, judging_plans, steps_of,
};
use quarry_judge::{
    Author, AuthorPlan, CostView, JudgeError, JudgeReport, Judging, Ledger, WorkerModels, queue_of,
};
use quarry_metrics::table::{Layout, Table};
use quarry_queue::Connection;
use quarry_text::counted;
use serde::Serialize;

use super::api_docs::ApiDocsArgs;
use super::judging::{basis, run_with_progress, typical_cost};
use crate::eval::models::{ModelArgs, Models};
use crate::interrupt::stop_on_interrupt;
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
    #[command(flatten)]
    workplace: WorkplaceArgs,
    #[command(flatten)]
    docs: ApiDocsArgs,
}

pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::open(&args.plan)?;
    let out = args.out.clone().unwrap_or_else(|| plan.default_out());
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
    let spinner: RefCell<Option<progress::Progress>> = RefCell::new(None);
    let tools = Tools {
        load: &models,
        open_author: &|author, directory, store| workers.open_author(author, directory, store),
        prepare_judging: &|plan| Ok(args.workplace.prepare(plan, &stop, args.dry_run)?),
        judge: &|judging, stop| {
            // The bar of the judge replaces that of the step.
            spinner.take();
            run_with_progress(judging, &judging.estimate()?, stop)
        },
        counted: &|count, things| {
            if let Some(spinner) = &*spinner.borrow() {
                spinner.set_detail(&format!("{count} {things}"));
            }
        },
        stop: &stop,
    };
    if args.dry_run {
        let DryRun { steps, forecast, judging } = dry_run(&plan, &out, &tools)?;
        let written = match estimate_written(&plan, &out, &steps)? {
            Some(estimate) => writing(&estimate),
            None => String::new(),
        };
        let more = match forecast {
            Some(forecast) => foreseen(&forecast),
            None => estimated(&plan, &steps, &judging),
        };
        output::print(&format!("{}{written}{more}", listed(&steps, &[])))?;
        return Ok(ExitCode::SUCCESS);
    }
    let built = quarry_build::build(&plan, &out, &tools, &mut |event| match event {
        Event::Begun(step) => drop(spinner.replace(Some(progress::Progress::spinner(step.name.clone())))),
        Event::Done { step, known } => {
            spinner.take();
            output::note(&described(step, known));
        }
    });
    spinner.take();
    let built = match built {
        Err(BuildError::Waiting(request)) => {
            output::note(&request);
            return Ok(ExitCode::from(1));
        }
        built => built?,
    };
    let costs: Vec<StepCost> = built.steps.iter().filter_map(StepCost::from_counts).collect();
    if !costs.is_empty() {
        let StepCost { answers, tokens, dollars } = StepCost::sum(costs);
        let dollars = dollars.map_or_else(String::new, |dollars| format!(", ${dollars:.6}"));
        output::note(&format!("{} of models, {tokens} tokens{dollars}", counted(answers, "answer")));
    }
    for warning in &built.warnings {
        output::note(&format!("warning: {warning}"));
    }
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
    /// The judges of the plan whose ledgers exist.
    judging: Vec<JudgingView>,
    /// Files of exports that have changed since they were built.
    damaged: Vec<Damage>,
}

/// Progress of a judge of a build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct JudgingView {
    /// Path of the ledger.
    ledger: String,
    /// Number of pairs.
    pairs: u64,
    /// Number of those without a verdict.
    waiting: u64,
    /// Cost of all answers.
    cost: CostView,
}

/// The progress of the judges of a build, as far as they have begun.
fn judging(plan: &Plan, out: &Path) -> anyhow::Result<Vec<JudgingView>> {
    let mut found = Vec::new();
    for plan in judging_plans(plan, out)?.into_iter().filter(|plan| plan.ledger.exists()) {
        let ledger = Ledger::open(&plan.ledger)?;
        if let Some(judge) = ledger.judge(&plan.version)? {
            let JudgeReport { pairs, waiting, cost, .. } =
                JudgeReport::new(ledger.counts(judge, &plan.judge)?);
            let ledger = plan.ledger.display().to_string();
            found.push(JudgingView { ledger, pairs, waiting, cost: CostView::from(&cost) });
        }
    }
    Ok(found)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct StepView {
    /// Name.
    name: String,
    /// Hash that names the directory of the step.
    key: String,
    /// True if the step is done.
    done: bool,
    /// Counts of the finished step.
    counts: BTreeMap<String, u64>,
}

fn status(plan: &Plan, out: &Path, models: &Models, json: bool) -> anyhow::Result<ExitCode> {
    let tools = Tools {
        load: models,
        open_author: &|author, directory, store| Author::open(author, directory, store),
        prepare_judging: &|plan| Ok(Judging::prepare(plan, None)?),
        judge: &|judging, stop| judging.run(stop, &|_| ()),
        counted: &|_, _| (),
        stop: &AtomicBool::new(false),
    };
    let steps = steps_of(plan, out, &tools)?;
    let damaged = damaged_exports(out)?;
    let judging = judging(plan, out)?;
    if json {
        let step = |(step, done): (Step, bool)| StepView {
            name: step.name.clone(),
            key: step.key().as_str().to_owned(),
            done,
            counts: step.counts,
        };
        let steps = steps.into_iter().map(step).collect();
        output::print_json(&BuildStatus { directory: out, steps, judging, damaged })?;
        return Ok(ExitCode::SUCCESS);
    }
    let n_done = steps.iter().filter(|(_, done)| *done).count();
    let mut text = format!("{}{n_done} of {} done\n", listed(&steps, &judging), counted(steps.len(), "step"));
    for Damage { path, kind } in damaged {
        text += &format!("{path} {kind} since the last build; `quarry data build` writes it again\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Connections to the models that write and embed.
struct Workers {
    /// The server that workers are connected to; without it, this process calls the models.
    connection: Option<Connection>,
}

impl Workers {
    /// The same models, whose servers workers call for the build in `out`.
    fn ask(&self, models: Models, out: &Path) -> anyhow::Result<Models> {
        let Some(connection) = &self.connection else { return Ok(models) };
        let queue = format!("{}-embeddings", queue_of(&out.join(WRITTEN))?);
        let workers = WorkerModels::new(connection, &queue)?;
        Ok(models.asked_by(Box::new(move |settings| workers.transport(settings))))
    }

    fn open_author(&self, author: &AuthorPlan, directory: &Path, store: &Path) -> Result<Author, JudgeError> {
        match &self.connection {
            Some(connection) => Author::open_for_workers(author, directory, store, connection),
            None => Author::open(author, directory, store),
        }
    }
}

impl BuildArgs {
    fn connect(&self, stop: &Arc<AtomicBool>) -> anyhow::Result<Workers> {
        let url = self.workplace.nats.as_ref().filter(|_| !self.dry_run);
        let open = |url: &String| Connection::open(url, Arc::clone(stop), Arc::new(output::note));
        Ok(Workers { connection: url.map(open).transpose()? })
    }
}

fn described(step: &Step, known: bool) -> String {
    let known = if known { " (already done)" } else { "" };
    format!("{}{known}: {}", step.name, counts(step))
}

fn counts(step: &Step) -> String {
    let counts: Vec<String> = step.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

/// Steps with their counts, a line for each count, or the progress of their judges.
fn listed(steps: &[(Step, bool)], judging: &[JudgingView]) -> String {
    let mut table = Table::new(["step", "result", "number"]).align_left([1]);
    let judged = |JudgingView { pairs, waiting, cost, .. }: &JudgingView| {
        let dollars = cost.dollars.map_or_else(String::new, |dollars| format!(", ${dollars:.6}"));
        format!(
            "; judged {} of {}, {} tokens{dollars}",
            pairs - waiting,
            counted(*pairs, "pair"),
            cost.tokens
        )
    };
    for (step, done) in steps {
        if *done {
            push_counts(&mut table, &step.name, &step.counts);
            continue;
        }
        let judged: String = match step.name.as_str() {
            "labels" => judging.iter().map(judged).collect(),
            _ => String::new(),
        };
        table.push([step.name.clone(), format!("to do{judged}")]);
    }
    table.render(Layout::Text)
}

/// Adds the counts of a finished step, its name before the first.
pub(super) fn push_counts(table: &mut Table, name: &str, counts: &BTreeMap<String, u64>) {
    if counts.is_empty() {
        table.push([name.to_owned(), "done".to_owned()]);
    }
    for (number, (what, count)) in counts.iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        table.push([name.to_owned(), what.clone(), count.to_string()]);
    }
}

/// Typical cost of writing queries.
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

/// Estimates from a sample of the sources, and from what is known.
fn foreseen(Forecast { rows, without }: &Forecast) -> String {
    let mut table = Table::new(["estimate", "about", "at most"]);
    for (what, Amount { value, is_exact, at_most }) in rows {
        let shown = |value: f64| match what.as_str() {
            "dollars" => format!("{value:.2}"),
            _ => format!("{:.0}", value.ceil()),
        };
        // Estimates have two significant digits.
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

/// Upper bounds for the steps to do, as far as they follow from those that are done, and the estimates for judging.
fn estimated(plan: &Plan, steps: &[(Step, bool)], judging: &[JudgingEstimate]) -> String {
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
    if judging.is_empty() && count("labels", "pairs").is_none() && plan.has_judge() {
        text += &format!(
            "judging: at most {}; its cost is estimated once the candidates are known\n",
            counted(count("candidates", "candidates").unwrap_or(candidates), "pair")
        );
    }
    for JudgingEstimate { judge, estimate, is_at_most } in judging {
        let at_most = if *is_at_most { "at most " } else { "" };
        text += &format!(
            "judging by {judge}: {at_most}{}, {}{}\n",
            counted(estimate.pairs, "pair"),
            typical_cost(estimate),
            basis(estimate, false)
        );
    }
    text
}
