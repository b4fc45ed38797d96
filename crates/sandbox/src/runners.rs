//! How the programs of a language are started.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;

use crate::{Error, Limits, Program, SEARCH_PATH, find_executable};

/// How the programs of a language are started. Which there are is data: `runners.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    /// Name of the source file in the work folder.
    pub file: String,
    /// The program that runs it, with its arguments.
    pub command: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// A command that succeeds where programs can be run, if that is more than its being there.
    #[serde(default)]
    check: Option<Vec<String>>,
    /// What to do where programs cannot be run.
    #[serde(default)]
    remedy: Option<String>,
    #[serde(default)]
    least: Least,
}

/// What a compiler or interpreter takes, beside the programs; 0 where that is not worth saying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Least {
    wall_seconds: u64,
    cpu_seconds: u64,
    memory_mib: u64,
    processes: u64,
    file_mib: u64,
    folder_mib: u64,
}

static RUNNERS: LazyLock<BTreeMap<String, Runner>> =
    LazyLock::new(|| toml::from_str(include_str!("runners.toml")).expect("runners.toml is well-formed"));

impl Runner {
    /// The names of the languages that have runners, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RUNNERS.keys().map(String::as_str)
    }

    /// The runner of a language.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(language: &str) -> Result<&'static Self, Error> {
        RUNNERS.get(language).ok_or_else(|| Error::UnknownLanguage {
            name: language.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Whether programs of the language can be run on this machine.
    pub fn is_available(&self) -> bool {
        self.problem().is_none()
    }

    /// Why programs of the language cannot be run on this machine, and what to do.
    pub fn problem(&self) -> Option<String> {
        let executable = self.executable();
        let remedy = self.remedy.as_deref().unwrap_or("install it");
        let Some(path) = find_executable(executable) else {
            return Some(format!("{executable} is not in {SEARCH_PATH}: {remedy}"));
        };
        let check = self.check.as_ref()?;
        let status = Command::new(path)
            .args(check.iter().skip(1))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let works = status.is_ok_and(|status| status.success());
        (!works).then(|| format!("the {executable} of this machine cannot run such programs: {remedy}"))
    }

    /// A command that succeeds where programs can be run.
    pub(crate) fn check(&self) -> Vec<String> {
        let is_there = ["/bin/sh", "-c", "command -v \"$1\"", "sh", self.executable()];
        self.check.clone().unwrap_or_else(|| is_there.map(str::to_owned).into())
    }

    /// What it takes to run programs.
    pub(crate) fn executable(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// These limits, raised to what the compiler or interpreter itself takes.
    pub fn limits(&self, limits: &Limits) -> Limits {
        let Least { wall_seconds, cpu_seconds, memory_mib, processes, file_mib, folder_mib } = self.least;
        Limits {
            wall_time: limits.wall_time.max(Duration::from_secs(wall_seconds)),
            cpu_time: limits.cpu_time.max(Duration::from_secs(cpu_seconds)),
            memory_bytes: limits.memory_bytes.max(memory_mib << 20),
            processes: limits.processes.max(processes),
            file_bytes: limits.file_bytes.max(file_mib << 20),
            folder_bytes: limits.folder_bytes.max(folder_mib << 20),
            ..limits.clone()
        }
    }

    /// A program of one source file.
    pub fn program(&self, source: &str) -> Program {
        Program {
            command: self.command.clone(),
            files: vec![(self.file.clone(), source.as_bytes().to_vec())],
            environment: self.environment.clone().into_iter().collect(),
            ..Program::default()
        }
    }
}
