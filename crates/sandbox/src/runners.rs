//! Commands that compile and start programs of a language.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;

use crate::{Ended, Error, Limits, Outcome, Program, SEARCH_PATH, Sandbox, find_executable};

/// Maximum size of a compiled program, in bytes.
const MAX_COMPILED_BYTES: usize = 64 << 20;

/// Command that starts programs of a language. The languages are data: `runners.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    /// Name of the source file in the work directory.
    pub file: String,
    pub command: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// A command that succeeds if programs can be run; if `None`, the executable has to exist.
    check: Option<Vec<String>>,
    /// Remedy if programs cannot be run.
    remedy: Option<String>,
    #[serde(default)]
    minimum: MinimumLimits,
    /// Command that compiles the source, for languages that need it.
    compile: Option<Compile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compile {
    executable: String,
    /// The command, which writes the compiled program to standard output.
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    /// The name of the compiled program in the work directory, where it replaces the source.
    file: String,
    wall_seconds: u64,
    cpu_seconds: u64,
    minimum: MinimumLimits,
}

/// Resources of a compiler or interpreter in addition to the program; 0 for little. Time limits are not included: they
/// are up to the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MinimumLimits {
    memory_mib: u64,
    processes: u64,
    file_mib: u64,
    directory_mib: u64,
}

impl MinimumLimits {
    fn raise(self, limits: &Limits) -> Limits {
        Limits {
            memory_bytes: limits.memory_bytes.max(self.memory_mib << 20),
            processes: limits.processes.max(self.processes),
            file_bytes: limits.file_bytes.max(self.file_mib << 20),
            directory_bytes: limits.directory_bytes.max(self.directory_mib << 20),
            ..limits.clone()
        }
    }
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

    /// Returns whether programs of the language can be run on this machine.
    pub fn is_available(&self) -> bool {
        self.problem().is_none()
    }

    /// Why programs of the language cannot be run on this machine, and what to do; `None` if they can.
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

    /// A command that succeeds if programs can be run.
    pub(crate) fn check(&self) -> Vec<String> {
        let is_there = ["/bin/sh", "-c", "command -v \"$1\"", "sh", self.executable()];
        self.check.clone().unwrap_or_else(|| is_there.map(str::to_owned).into())
    }

    /// The program that must be installed.
    pub(crate) fn executable(&self) -> &str {
        match &self.compile {
            Some(compile) => &compile.executable,
            None => self.command.first().map_or("", String::as_str),
        }
    }

    /// A program with a single source file, for [`Runner::run`].
    pub fn program(&self, source: &str) -> Program {
        Program {
            command: self.command.clone(),
            files: vec![(self.file.clone(), source.as_bytes().to_vec())],
            environment: self.environment.clone().into_iter().collect(),
            ..Program::default()
        }
    }

    /// Runs a program of the language within these limits, with limits on space raised to the interpreter's needs.
    /// A language with a compiler is compiled first, in a separate run with its own limits; if that fails, its
    /// outcome is the program's.
    ///
    /// # Errors
    /// When the program could not be started.
    pub fn run(&self, sandbox: &dyn Sandbox, program: &Program, limits: &Limits) -> Result<Outcome, Error> {
        let own = self.minimum.raise(limits);
        let Some(compile) = &self.compile else { return sandbox.run(program, &own) };
        let compiler = Program {
            command: compile.command.clone(),
            environment: compile.environment.clone().into_iter().collect(),
            // Reports are those of the running program, not of the compiler.
            reports: false,
            ..program.clone()
        };
        let mut compiled = sandbox.run(&compiler, &compile.limits(limits))?;
        if compiled.ended != (Ended::Exited { code: 0 }) {
            compiled.stdout = Default::default();
            compiled.stderr.bytes.truncate(limits.output_bytes);
            return Ok(compiled);
        }
        if compiled.stdout.is_truncated() {
            let (bytes, maximum) = (compiled.stdout.total_bytes, MAX_COMPILED_BYTES);
            return Err(Error::Program(format!("compiled, it has {bytes} bytes, more than {maximum}")));
        }
        let mut program = program.clone();
        program.files.retain(|(path, _)| *path != self.file);
        program.files.push((compile.file.clone(), compiled.stdout.bytes));
        let outcome = sandbox.run(&program, &own)?;
        Ok(Outcome {
            wall_time: compiled.wall_time + outcome.wall_time,
            cpu_time: compiled.cpu_time + outcome.cpu_time,
            ..outcome
        })
    }
}

impl Compile {
    fn limits(&self, limits: &Limits) -> Limits {
        Limits {
            wall_time: Duration::from_secs(self.wall_seconds),
            cpu_time: Duration::from_secs(self.cpu_seconds),
            output_bytes: MAX_COMPILED_BYTES,
            ..self.minimum.raise(limits)
        }
    }
}
