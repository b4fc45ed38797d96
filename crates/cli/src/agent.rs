//! `quarry agent`: Quarry in the settings of coding agents.

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use quarry_agents::{Agent, Environment, Receipts, Scope, agents, defined, install, uninstall};
use quarry_text::did_you_mean;
use serde::Serialize;

use crate::invocation;
use crate::output::{self, printable};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentList {
    /// Supported agents.
    agents: Vec<AgentView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct AgentView {
    /// Name.
    name: String,
    /// Display name.
    title: String,
    /// True if its settings exist on this machine.
    found: bool,
    /// Scopes that it can be installed in.
    scopes: Vec<ScopeView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ScopeView {
    /// `user` or `project`.
    scope: String,
    /// True if the entry exists.
    installed: bool,
    /// Paths of the files.
    files: Vec<String>,
}

/// Name of the record of written files, in the user's state directory.
const RECEIPTS_FILE: &str = "agents.json";

/// Maximum size of a file of definitions; that of the known agents has 20 KiB.
const MAX_DEFINITION_BYTES: u64 = 1 << 20;

/// The name of this program on PATH.
const NAME: &str = "quarry";

/// Arguments of `quarry agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add Quarry to the settings of coding agents: an MCP server, instructions, sub-agents and hooks
    Install(InstallArgs),
    /// Remove what `quarry agent install` added to the settings of coding agents
    Uninstall(ChangeArgs),
    /// List supported coding agents, and where Quarry is installed
    List(ListArgs),
}

#[derive(Debug, Args)]
struct InstallArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Program that agents start [default: quarry, or for the user its full path if it is not in PATH]
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
}

#[derive(Debug, Args)]
struct ChangeArgs {
    /// Coding agents, such as claude-code; `quarry agent list` lists them
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<String>,
    /// Install for this user in all projects, or for everybody in the project
    #[arg(long, default_value = "user")]
    scope: ScopeArg,
    /// Directory of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Show the changes as a diff without making them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    defined: DefinedArgs,
}

/// Agents that Quarry does not know.
#[derive(Debug, Args)]
struct DefinedArgs {
    /// TOML file that defines more agents, as shown in the guide on agents
    #[arg(long, value_name = "FILE")]
    definitions: Option<PathBuf>,
}

impl DefinedArgs {
    /// All agents: those that are known, and those that the user defines.
    fn all(&self) -> anyhow::Result<Vec<Agent>> {
        let Some(path) = &self.definitions else { return Ok(agents().to_vec()) };
        let text = File::open(path).and_then(|file| quarry_files::read_whole(file, MAX_DEFINITION_BYTES));
        let text = text.and_then(quarry_files::text);
        let text = text.with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(agents().iter().cloned().chain(defined(&text, path)?).collect())
    }
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Directory of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    #[command(flatten)]
    defined: DefinedArgs,
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

fn receipts_file() -> anyhow::Result<PathBuf> {
    let directory = quarry_files::state_directory();
    Ok(directory.context("this user has no state directory; set XDG_STATE_HOME or HOME")?.join(RECEIPTS_FILE))
}

pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Install(args) => change(&args.change, args.command.as_deref(), Action::Install),
        Command::Uninstall(args) => change(args, None, Action::Uninstall),
        Command::List(args) => list(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Install,
    Uninstall,
}

fn change(args: &ChangeArgs, command: Option<&str>, action: Action) -> anyhow::Result<()> {
    let all = args.defined.all()?;
    let chosen = args.agents.iter().map(|name| named(&all, name)).collect::<anyhow::Result<Vec<_>>>()?;
    let scope = args.scope.into();
    let environment = environment(&args.project, scope, command)?;
    let file = receipts_file()?;
    let receipts = Receipts::read(&file)?;
    let plan = match action {
        Action::Install => install(&chosen, scope, &environment, &receipts),
        Action::Uninstall => uninstall(&chosen, scope, &environment, &receipts),
    }?;
    if args.dry_run {
        output::print(&plan.diff())?;
    } else {
        plan.apply(&file)?;
    }
    let takes_name = action == Action::Install && scope == Scope::Project && command.is_none();
    if takes_name && !plan.is_empty() && !invocation::program().is_ok_and(|own| is_on_path(&own)) {
        output::note(&format!(
            "agents will start {NAME:?}, which is not in PATH on this machine; add it to PATH, or name the program \
             with --command"
        ));
    }
    for note in &plan.notes {
        output::note(&note.to_string());
    }
    for change in plan.changes.iter().filter(|_| !args.dry_run) {
        let done = match (action, &change.after) {
            (Action::Install, _) => "installed",
            (Action::Uninstall, Some(_)) => "uninstalled from this file",
            (Action::Uninstall, None) => "removed",
        };
        output::note(&format!("{}: {done}", change.path.display()));
    }
    Ok(())
}

fn named<'a>(all: &'a [Agent], name: &str) -> anyhow::Result<&'a Agent> {
    let known = all.iter().find(|agent| agent.name == name);
    let Some(agent) = known else {
        let meant = did_you_mean(name, all.iter().map(|agent| agent.name.as_str()));
        bail!(
            "unknown coding agent {name:?}; {}",
            meant.as_deref().unwrap_or("`quarry agent list` lists all")
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
        config: dirs::config_dir().context("no settings directory is known; set HOME")?,
        project,
        command: command.map_or_else(|| command_for(scope), str::to_owned),
        variables: env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect::<HashMap<_, _>>(),
    })
}

/// The command with which agents start Quarry: its name, which still works after an update. For the user, the path of
/// this program if PATH leads to another one or to none; a project is shared with machines that have other paths.
fn command_for(scope: Scope) -> String {
    match invocation::program() {
        Ok(own) if scope == Scope::User && !is_on_path(&own) => own.to_string_lossy().into_owned(),
        _ => NAME.to_owned(),
    }
}

/// Returns true if PATH leads to this program, regardless of where an agent is started.
fn is_on_path(own: &Path) -> bool {
    let file = format!("{NAME}{}", env::consts::EXE_SUFFIX);
    let directories = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        env::split_paths(&directories).filter(|path| path.is_absolute()).collect();
    let found = directories.iter().find_map(|directory| directory.join(&file).canonicalize().ok());
    found.is_some() && found == own.canonicalize().ok()
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let environment = environment(&args.project, Scope::User, None)?;
    let all = args.defined.all()?;
    let Receipts { receipts } = Receipts::read(&receipts_file()?)?;
    let installed = |agent: &Agent, scope: Scope| {
        let project = (scope == Scope::Project).then_some(&environment.project);
        receipts.iter().any(|receipt| {
            receipt.agents.contains(&agent.name)
                && receipt.scope == scope
                && receipt.project.as_ref() == project
        })
    };
    if args.json {
        let scope_of = |agent: &Agent, scope: Scope| ScopeView {
            scope: scope.to_string(),
            installed: installed(agent, scope),
            files: agent.paths(scope, &environment).iter().map(|path| path.display().to_string()).collect(),
        };
        let view = |agent: &Agent| AgentView {
            name: agent.name.clone(),
            title: agent.title.clone(),
            found: agent.is_found(&environment),
            scopes: agent.scopes().into_iter().map(|scope| scope_of(agent, scope)).collect(),
        };
        return output::print_json(&AgentList { agents: all.iter().map(view).collect() });
    }
    let mut text = String::new();
    for agent in &all {
        let found = if agent.is_found(&environment) { "found" } else { "" };
        let scopes = agent.scopes().into_iter().map(|scope| match installed(agent, scope) {
            true => format!("{scope} (installed)"),
            false => scope.to_string(),
        });
        let scopes = scopes.collect::<Vec<_>>().join(", ");
        writeln!(text, "{:<12}  {found:<5}  {:<40}  {scopes}", agent.name, printable(&agent.title))?;
    }
    Ok(output::print(&text)?)
}
