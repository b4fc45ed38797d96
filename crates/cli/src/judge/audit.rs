//! `quarry judge audit`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_build::{LivingReport, follow, functions_in, tested_pairs};
use quarry_corpus::formats::run as run_format;
use quarry_judge::{AuditReport, ChangedRun, SkippedRun, audit_changed};
use quarry_metrics::Measure;
use quarry_metrics::table::Layout;
use quarry_text::counted;

use super::{IsolationArgs, PlanArgs, stop_on_interrupt};
use crate::eval::shown;
use crate::{new_file, output};

/// Arguments of `quarry judge audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    /// Check the labels against a later commit of the sources: the directory of its checkout
    #[arg(long, value_name = "DIR")]
    now: Option<PathBuf>,
    /// Checkout of the commit of the labels, by which it is known what moved
    #[arg(long, value_name = "DIR", requires = "now")]
    before: Option<PathBuf>,
    /// TREC run of a method over the labeled codes, whose order may change (can be repeated)
    #[arg(long = "run", value_name = "RUN", requires = "now")]
    runs: Vec<PathBuf>,
    /// Measure by which the runs are ordered
    #[arg(long, value_name = "METRIC", default_value = "ndcg@10", requires = "now")]
    metric: Measure,
    /// Write the tables to FILE, in Markdown
    #[arg(long, value_name = "FILE", requires = "now")]
    page: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `quarry judge audit`; the exit code is 1 where a program came to something else, or could not be run, or where a label
/// or the order of runs does not hold at a later commit.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let (pairs, changed) = match &args.now {
        None => (Vec::new(), BTreeMap::new()),
        Some(now) => {
            let before = args.before.as_deref().map(functions_in).transpose()?;
            follow(&ledger, judge, before.as_deref(), &functions_in(now)?)?
        }
    };
    let runs = args.runs.iter().map(|path| Ok((shown::file_name(path), run_format::read(path)?)));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let stop = stop_on_interrupt()?;
    let isolated = args.isolation.open(&plan, &stop)?;
    // More than run at the same time: some may wait for packages.
    let threads = plan.workers.max(plan.programs);
    let found = audit_changed(&ledger, judge, &isolated, &plan.limits, (threads, &stop), &changed)?;
    let (stopped, held) = (found.stopped, found.holds());
    let living = match args.now {
        None => None,
        Some(_) => {
            let tested = tested_pairs(&ledger, judge)?;
            Some(LivingReport::new(pairs, found.clone(), &tested, args.metric, &runs)?)
        }
    };
    match &living {
        Some(living) if args.json => output::print_json(living)?,
        Some(living) => output::print(&living.sections().render(Layout::Text))?,
        None if args.json => output::print_json(&found)?,
        None => output::print(&text(&found))?,
    }
    if let (Some(living), Some(path)) = (&living, &args.page) {
        new_file::write_text(path, &living.sections().render(Layout::Markdown))?;
    }
    if stopped {
        bail!("stopped before all programs had run; the next audit starts over");
    }
    Ok(ExitCode::from(u8::from(!living.map_or(held, |living| living.holds()))))
}

fn text(found: &AuditReport) -> String {
    let mut text = format!(
        "{} run again, {} of them written by people; {} gave a different result, {} could not be run\n",
        counted(found.runs, "test program"),
        found.of_people,
        found.changed.len(),
        found.not_run.len()
    );
    let about = |pair: &str, person: Option<&String>| {
        let by = person
            .map_or_else(String::new, |person| format!(", the program of {}", output::printable(person)));
        format!("{}{by}", output::printable(pair))
    };
    for ChangedRun { pair, person, before, now, output: _ } in &found.changed {
        let about = about(pair, person.as_ref());
        let _ = writeln!(text, "  {about}: {} when it was judged, {} now", before.name(), now.name());
    }
    for SkippedRun { pair, person, reason } in &found.not_run {
        let _ = writeln!(text, "  {}: not run: {}", about(pair, person.as_ref()), output::printable(reason));
    }
    text
}
