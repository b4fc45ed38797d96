//! `quarry agent`: Quarry in the settings of coding agents.

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use quarry_agents::{Agent, Environment, Plan, Receipts, Scope, agents, install, uninstall};
use quarry_text::nearest;
use serde_json::json;

use crate::{log, output};

/// What was written, in the user's state directory.
const RECEIPTS_FILE: &str = "agents.json";

/// Arguments of `quarry agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add Quarry to the settings of coding agents: as an MCP server, and with instructions when to use it
    Install(ChangeArgs),
    /// Remove from the settings of coding agents what `quarry agent install` added
    Uninstall(ChangeArgs),
    /// List the coding agents that are known, and for which of them Quarry is installed
    List(ListArgs),
}

#[derive(Debug, Args)]
struct ChangeArgs {
    /// Coding agents, such as claude-code; `quarry agent list` lists them
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<String>,
    /// For whom: the user, in all projects, or everybody who works on the project
    #[arg(long, default_value = "user")]
    scope: ScopeArg,
    /// Directory of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Program that agents start [default: quarry; for the user its full path, where a shell would not find it]
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// Show what would change, as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Directory of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    User,
    Project,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::User => Self::User,
            ScopeArg::Project => Self::Project,
        }
    }
}

/// Runs `quarry agent`.
///
/// # Errors
/// When an agent is not known, or its settings cannot be read, edited or written.
pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Install(args) => change(args, "installed", install),
        Command::Uninstall(args) => change(args, "removed", uninstall),
        Command::List(args) => list(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

type Planned = fn(&[&Agent], Scope, &Environment, &Receipts) -> Result<Plan, quarry_agents::Error>;

fn change(args: &ChangeArgs, done: &str, planned: Planned) -> anyhow::Result<()> {
    let chosen = args.agents.iter().map(|name| named(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let scope = args.scope.into();
    let environment = environment(&args.project, scope, args.command.as_deref())?;
    let receipts = log::folder()?.join(RECEIPTS_FILE);
    let plan = planned(&chosen, scope, &environment, &Receipts::read(&receipts)?)?;
    if args.dry_run {
        output::print(&plan.diff())?;
    } else {
        plan.apply(&receipts)?;
    }
    for note in &plan.notes {
        output::note(&note.to_string());
    }
    for change in plan.changes.iter().filter(|_| !args.dry_run) {
        output::note(&format!("{}: {done}", change.path.display()));
    }
    Ok(())
}

fn named(name: &str) -> anyhow::Result<&'static Agent> {
    let known = agents().iter().find(|agent| agent.name == name);
    let Some(agent) = known else {
        let near = nearest(name, agents().iter().map(|agent| agent.name.as_str()), 3);
        bail!(
            "no coding agent is called {name:?}; nearest: {}; `quarry agent list` lists all",
            near.join(", ")
        );
    };
    Ok(agent)
}

fn environment(project: &Path, scope: Scope, command: Option<&str>) -> anyhow::Result<Environment> {
    let project = project
        .canonicalize()
        .with_context(|| format!("{}: expected the directory of a project", project.display()))?;
    Ok(Environment {
        home: dirs::home_dir().context("no home directory is known; set HOME")?,
        config: dirs::config_dir().context("no directory of settings is known; set HOME")?,
        project,
        command: command.map_or_else(|| command_for(scope), str::to_owned),
        variables: env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect::<HashMap<_, _>>(),
    })
}

/// How agents start Quarry: by its name, which stays right when it is installed anew. For the user alone by the path of
/// this program, where the name leads to another one or to none.
fn command_for(scope: Scope) -> String {
    let name = "quarry";
    let Ok(own) = env::current_exe().and_then(|own| own.canonicalize()) else { return name.to_owned() };
    let directories = env::var_os("PATH").unwrap_or_default();
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    let found =
        env::split_paths(&directories).find_map(|directory| directory.join(&file).canonicalize().ok());
    if scope == Scope::Project || found.as_ref() == Some(&own) {
        name.to_owned()
    } else {
        own.to_string_lossy().into_owned()
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let environment = environment(&args.project, Scope::User, None)?;
    let Receipts { receipts } = Receipts::read(&log::folder()?.join(RECEIPTS_FILE))?;
    let installed = |agent: &Agent, scope: Scope| {
        let project = (scope == Scope::Project).then_some(&environment.project);
        receipts.iter().any(|receipt| {
            receipt.agents.contains(&agent.name)
                && receipt.scope == scope
                && receipt.project.as_ref() == project
        })
    };
    if args.json {
        let agents: Vec<_> = agents()
            .iter()
            .map(|agent| {
                let scopes: Vec<_> = agent
                    .scopes()
                    .into_iter()
                    .map(|scope| {
                        let paths = agent.paths(scope, &environment);
                        let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                        json!({ "scope": scope, "installed": installed(agent, scope), "files": files })
                    })
                    .collect();
                json!({
                    "name": agent.name, "title": agent.title, "found": agent.is_found(&environment), "scopes": scopes,
                })
            })
            .collect();
        return output::print_json(&json!({ "agents": agents }));
    }
    let mut text = String::new();
    for agent in agents() {
        let found = if agent.is_found(&environment) { "found" } else { "" };
        let scopes = agent.scopes().into_iter().map(|scope| match installed(agent, scope) {
            true => format!("{scope} (installed)"),
            false => scope.to_string(),
        });
        let scopes = scopes.collect::<Vec<_>>().join(", ");
        writeln!(text, "{:<12}  {found:<5}  {:<40}  {scopes}", agent.name, agent.title)?;
    }
    Ok(output::print(&text)?)
}
