//! `quarry data build`: a data set by a plan.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use quarry_annotate::Judging;
use quarry_factory::{Event, Plan, Step, Tools};

use crate::eval::models::ModelArgs;
use crate::interrupt::stop_on_interrupt;
#[cfg(feature = "judge")]
use crate::judge::IsolationArgs;
use crate::output;

/// Arguments of `quarry data build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Plan of the data set
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Directory for steps, exports and card; what it holds already is not made again [default: PLAN.build beside the
    /// plan]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
    #[cfg(feature = "judge")]
    #[command(flatten)]
    isolation: IsolationArgs,
}

/// Builds.
///
/// # Errors
/// When the plan, its sources or a step of it are wrong, or the user stops. What was done until then is kept.
pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::open(&args.plan)?;
    let out = args.out.clone().unwrap_or_else(|| plan.default_out());
    let models = args.models.resolve(None)?;
    let stop = stop_on_interrupt()?;
    let tools =
        Tools { load: &models, prepare_judging: &|plan| Ok(args.prepare_judging(plan, &stop)?), stop: &stop };
    let built = quarry_factory::build(&plan, &out, &tools, &mut |event| {
        if let Event::Done { step, known } = event {
            output::note(&describe(step, known));
        }
    })?;
    for path in built.exports.iter().chain([&built.card]) {
        output::note(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

impl BuildArgs {
    #[cfg(feature = "judge")]
    fn prepare_judging(
        &self,
        plan: quarry_annotate::Plan,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Judging> {
        let sandbox = match plan.judge.runs_tests() {
            true => Some(self.isolation.open_with(plan.packages.as_ref(), plan.programs, stop)?),
            false => None,
        };
        Ok(Judging::prepare(plan, sandbox)?)
    }

    /// A build without judging has no sandbox; judges that run programs say so.
    #[cfg(not(feature = "judge"))]
    fn prepare_judging(&self, plan: quarry_annotate::Plan, _: &Arc<AtomicBool>) -> anyhow::Result<Judging> {
        Ok(Judging::prepare(plan, None)?)
    }
}

/// A step with what it came to, on one line.
fn describe(step: &Step, known: bool) -> String {
    let counts: Vec<String> = step.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let known = if known { " (done before)" } else { "" };
    format!("{}{known}: {}", step.name, counts.join(", "))
}
