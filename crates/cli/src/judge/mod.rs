//! `quarry judge`: whether code answers queries, by language models that run tests.

mod audit;
mod calibrate;
mod export;
pub mod generate;
mod people;
mod reread;
pub mod run;
#[cfg(feature = "serve")]
mod serve;
mod show;
pub mod status;
mod study;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use quarry_build::{Plan as BuildPlan, judging_plans};
use quarry_judge::{IsolatedPrograms, Judging, Ledger, Plan, has_earlier_labels};
use quarry_queue::Connection;
use quarry_sandbox::Isolation;
use quarry_sandbox::packages::{PackageSource, Packages, Settings};
use tempfile::TempDir;

use crate::eval::arguments::LayoutArgs;
use crate::interrupt::stop_on_interrupt;
use crate::output;

/// Arguments of `quarry judge`.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge the pairs of a plan, or continue an earlier run; can also write code for queries that no candidate answers
    Run(RunArgs),
    /// Show progress, cost and verdicts of a plan
    Status(status::StatusArgs),
    /// List the pairs with their verdicts, or show the history of one
    Show(show::ShowArgs),
    /// Write the labels as a data set
    Export(export::ExportArgs),
    /// Export forms for people, and import their labels
    People(people::PeopleArgs),
    /// Let people fill in a form in their browsers, one item at a time, or show the progress of judging
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Compute the agreement between people, judges and the labels of files, or the calibration of a judge's confidence
    Study(study::StudyArgs),
    /// Rerun the tests of finished labels, and list those with a different result
    Audit(audit::AuditArgs),
}

/// A plan and the location of its ledger.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Plan, in TOML, or the plan of a build whose judge is meant
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Ledger to use instead of the one that the plan names, or that a build has in its directory
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

impl PlanArgs {
    fn open(&self) -> anyhow::Result<Plan> {
        match BuildPlan::is_at(&self.plan) {
            true => self.open_build(),
            false => Ok(Plan::open(&self.plan, self.ledger.as_deref())?),
        }
    }

    fn open_build(&self) -> anyhow::Result<Plan> {
        let build = BuildPlan::open(&self.plan)?;
        let out = match self.ledger.as_deref().and_then(Path::parent) {
            Some(directory) => directory.to_owned(),
            None => build.default_out(),
        };
        let mut plans = judging_plans(&build, &out)?;
        if let Some(ledger) = &self.ledger {
            plans.retain(|plan| plan.ledger == *ledger);
        }
        match plans.len() {
            0 => bail!(
                "{}: expected the plan of a build with a judge{}; judges are [[labels]] of `kind = \"judge\"`",
                self.plan.display(),
                self.ledger
                    .as_ref()
                    .map_or_else(String::new, |path| format!(" whose ledger is {}", path.display()))
            ),
            1 => Ok(plans.remove(0)),
            _ => {
                let ledgers: Vec<String> =
                    plans.iter().map(|plan| plan.ledger.display().to_string()).collect();
                bail!(
                    "{}: has several judges; name one with --ledger: {}",
                    self.plan.display(),
                    ledgers.join(", ")
                )
            }
        }
    }

    /// The plan; for a rehearsal, with the temporary directory of a copy of its ledger.
    fn open_for(&self, rehearsal: bool) -> anyhow::Result<(Plan, Option<TempDir>)> {
        if BuildPlan::is_at(&self.plan) {
            bail!(
                "{plan}: is the plan of a build, which judges its own pairs: use `quarry data build {plan}`",
                plan = self.plan.display()
            );
        }
        let plan = self.open()?;
        if !rehearsal {
            return Ok((plan, None));
        }
        let (plan, copy) = plan.rehearsal()?;
        Ok((plan, Some(copy)))
    }

    fn judged(&self) -> anyhow::Result<(Plan, Ledger, i64)> {
        let plan = self.open()?;
        let ledger = Ledger::open(&plan.ledger)?;
        let Some(judge) = ledger.judge(&plan.version)? else {
            if has_earlier_labels(&ledger, &plan)? {
                bail!(
                    "{}: its labels of this plan are from an earlier version of quarry; `quarry judge run --reread {}` \
                     reinterprets them without asking a model",
                    plan.ledger.display(),
                    plan.path.display()
                );
            }
            bail!(
                "{}: nothing has been judged in this ledger with this plan's judge, model and prompts; start with \
                 `quarry {}`, or restore the earlier plan",
                plan.ledger.display(),
                if BuildPlan::is_at(&self.plan) { "data build" } else { "judge run" }
            );
        };
        Ok((plan, ledger, judge))
    }
}

/// Isolation options for test programs.
#[derive(Clone, Debug, Args)]
pub struct IsolationArgs {
    /// Isolation of test programs
    #[arg(long, value_enum, default_value_t = Engine::Bubblewrap)]
    isolation: Engine,
    /// Image to run programs in, instead of this machine's /usr; it needs sh, env, tar, prlimit and the interpreters
    /// (only with Podman)
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Run test programs without isolation: they can do whatever you can
    #[arg(long, conflicts_with_all = ["isolation", "image"])]
    unsafe_no_sandbox: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Linux namespaces, set up by bubblewrap
    Bubblewrap,
    /// A container for each run
    Podman,
}

impl IsolationArgs {
    fn open(&self, plan: &Plan, stop: &Arc<AtomicBool>) -> Result<IsolatedPrograms, quarry_sandbox::Error> {
        self.open_with(plan.packages.as_ref(), plan.programs, stop)
    }

    pub fn isolation(&self) -> Result<(Isolation, &'static str), quarry_sandbox::Error> {
        Ok(match self.isolation {
            _ if self.unsafe_no_sandbox => (Isolation::UnsafeNoSandbox, "none"),
            Engine::Podman => (Isolation::Podman { image: self.image.clone() }, "podman"),
            Engine::Bubblewrap if self.image.is_some() => {
                let problem = "--image is for containers; add `--isolation podman`, or leave it out";
                return Err(quarry_sandbox::Error::Program(problem.to_owned()));
            }
            Engine::Bubblewrap => (Isolation::Bubblewrap, "bubblewrap"),
        })
    }

    /// The requested sandbox, for this number of programs at the same time, with packages by these settings.
    pub fn open_with(
        &self,
        settings: Option<&Settings>,
        at_once: usize,
        stop: &Arc<AtomicBool>,
    ) -> Result<IsolatedPrograms, quarry_sandbox::Error> {
        let (isolation, name) = self.isolation()?;
        let sandbox = quarry_sandbox::open(isolation)?;
        let mut packages: Option<Box<dyn PackageSource>> = None;
        if let Some(settings) = settings {
            if self.image.is_some() {
                let problem = "packages are fetched for the interpreters of this machine, not for those of an image: set \
                               `install = false` in `[packages]`, and put what programs may need into the image";
                return Err(quarry_sandbox::Error::Program(problem.to_owned()));
            }
            // Labels of a plan that installs packages are not the same without them.
            if self.unsafe_no_sandbox {
                let problem =
                    "packages are installed in the sandbox only: set `install = false` in `[packages]`";
                return Err(quarry_sandbox::Error::Program(problem.to_owned()));
            }
            packages = Some(Box::new(Packages::open(settings.clone())?.stopped_by(Arc::clone(stop))));
        }
        let stop = Arc::clone(stop);
        Ok(IsolatedPrograms { packages, stop, ..IsolatedPrograms::new(sandbox, name, at_once) })
    }
}

/// Arguments of `quarry judge run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    workplace: WorkplaceArgs,
    /// Generate code for queries that no candidate answers, judge it, and repair it if the judge rejects it
    #[arg(long)]
    generate: bool,
    /// Only reinterpret the stored answers and runs of an earlier version by the rules of this one, and list labels
    /// that change, without asking a model or running a program
    #[arg(long, conflicts_with = "generate")]
    reread: bool,
    /// Check everything and estimate the cost, without asking a model; with --reread, list what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// Options for where programs run and models are asked.
#[derive(Debug, Args)]
pub struct WorkplaceArgs {
    #[command(flatten)]
    pub isolation: IsolationArgs,
    /// Give the work to the `quarry worker`s connected to this NATS server, as `nats` in the plan
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
}

impl WorkplaceArgs {
    /// A plan, ready to be judged there; a rehearsal connects to no server.
    pub fn prepare(&self, plan: Plan, stop: &Arc<AtomicBool>, rehearsal: bool) -> anyhow::Result<Judging> {
        if let Some(url) = self.nats.as_ref().or(plan.nats.as_ref()) {
            let connect = || Connection::open(url, Arc::clone(stop), Arc::new(output::note));
            let connection = if rehearsal { None } else { Some(connect()?) };
            return Ok(Judging::prepare_for_workers(plan, connection.as_ref())?);
        }
        let sandbox = if plan.judge.runs_tests() { Some(self.isolation.open(&plan, stop)?) } else { None };
        Ok(Judging::prepare(plan, sandbox)?)
    }
}

pub fn run(args: &JudgeArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Run(args) if args.generate => generate::run(args),
        Command::Run(args) if args.reread => reread::run(args),
        Command::Run(args) => run::run(args),
        Command::Status(args) => status::run(args),
        Command::Show(args) => show::run(args),
        Command::Export(args) => export::run(args),
        Command::People(args) => people::run(args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => return serve::run(args),
        Command::Study(args) => study::run(args),
        Command::Audit(args) => return audit::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}
