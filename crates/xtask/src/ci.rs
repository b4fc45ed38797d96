//! The steps of `crates/xtask/ci.toml`: lists them, and runs them one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Steps {
    packages: BTreeMap<String, String>,
    prelude: Prelude,
    #[serde(rename = "step")]
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prelude {
    run: String,
}

/// One check; the fields are explained at the top of `ci.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Step {
    name: String,
    about: String,
    #[serde(default)]
    fast: bool,
    /// Left out unless `--fast` or its name selects it.
    #[serde(default)]
    on_demand: bool,
    #[serde(default)]
    stop: bool,
    /// Runs at the same time as its neighbors that are, too; every `check` is.
    #[serde(default)]
    together: bool,
    #[serde(default)]
    needs: Vec<String>,
    run: Option<String>,
    check: Option<String>,
}

impl Step {
    fn is_together(&self) -> bool {
        self.together || self.check.is_some()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub list: bool,
    pub fast: bool,
    pub install: bool,
    pub skip_missing: bool,
    pub since: Option<String>,
    pub names: Vec<String>,
}

impl Options {
    /// Reads `[--list] [--fast] [--install] [--skip-missing] [--since REV] [STEP…]`.
    pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--fast" => options.fast = true,
                "--install" => options.install = true,
                "--skip-missing" => options.skip_missing = true,
                "--since" => {
                    options.since = Some(arguments.next().context("--since: expected a revision")?.clone())
                }
                option if option.starts_with('-') => bail!("unknown option `{option}`"),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

struct FinishedStep<'a> {
    name: &'a str,
    outcome: Outcome,
    took: Duration,
}

impl Steps {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let steps: Self = toml::from_str(text)?;
        for (position, step) in steps.steps.iter().enumerate() {
            if steps.steps[..position].iter().any(|earlier| earlier.name == step.name) {
                bail!("step `{}` occurs twice", step.name);
            }
            if step.run.is_some() == step.check.is_some() {
                bail!("step `{}`: expected either `run` or `check`", step.name);
            }
            if let Some(program) = step.needs.iter().find(|program| !steps.packages.contains_key(*program)) {
                bail!("step `{}`: `{program}` is missing in [packages]", step.name);
            }
        }
        Ok(steps)
    }

    pub(crate) fn list(&self) -> String {
        let width = self.steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let line = |step: &Step| {
            let fast = if step.fast { "fast" } else { "" };
            format!("{:width$}  {fast:4}  {}\n", step.name, step.about)
        };
        self.steps.iter().map(line).collect()
    }

    fn selected(&self, options: &Options) -> anyhow::Result<Vec<&Step>> {
        if let Some(name) =
            options.names.iter().find(|name| self.steps.iter().all(|step| step.name != **name))
        {
            bail!("no step is named `{name}`; the steps are:\n{}", self.list());
        }
        let selected = |step: &&Step| {
            if options.fast || !options.names.is_empty() {
                (options.fast && step.fast) || options.names.contains(&step.name)
            } else {
                !step.on_demand
            }
        };
        Ok(self.steps.iter().filter(selected).collect())
    }

    /// Runs the selected steps in `root`, and prints how long each took. Steps go on after one that failed, so that one
    /// run shows all failures, unless nothing after it can pass. Steps marked `together` that follow each other run at the
    /// same time, one on each core; their output is printed when they end. Returns whether none failed.
    #[expect(clippy::print_stdout, reason = "a command speaks to the person who runs it")]
    pub(crate) fn run(&self, root: &Path, options: &Options) -> anyhow::Result<bool> {
        let start = Instant::now();
        let mut ended: Vec<FinishedStep> = Vec::new();
        std::fs::create_dir_all(root.join("target/ci")).context("target/ci cannot be created")?;
        let selected = self.selected(options)?;
        for steps in selected.chunk_by(|step, next| step.is_together() && next.is_together()) {
            let start = ended.len();
            match steps {
                [step] => ended.push(self.run_alone(root, step, options)?),
                steps => ended.extend(self.run_together(root, steps, options)?),
            }
            if ended[start..]
                .iter()
                .zip(steps)
                .any(|(ended, step)| ended.outcome == Outcome::Failed && step.stop)
            {
                break;
            }
        }
        println!("\n==> {} s in total", start.elapsed().as_secs());
        for FinishedStep { name, outcome, took } in &ended {
            println!("{outcome:?}  {:5} s  {name}", took.as_secs());
        }
        Ok(ended.iter().all(|step| step.outcome != Outcome::Failed))
    }

    #[expect(clippy::print_stdout, reason = "a command speaks to the person who runs it")]
    fn run_alone<'a>(
        &self,
        root: &Path,
        step: &'a Step,
        options: &Options,
    ) -> anyhow::Result<FinishedStep<'a>> {
        println!("\n==> {}: {}", step.name, step.about);
        let begun = Instant::now();
        let outcome = self.run_step(root, step, options, None)?;
        let took = begun.elapsed();
        println!("==> {}: {} s", step.name, took.as_secs());
        Ok(FinishedStep { name: &step.name, outcome, took })
    }

    /// Runs steps on all cores; each prints its output when it ends.
    #[expect(clippy::print_stdout, reason = "a command speaks to the person who runs it")]
    fn run_together<'a>(
        &self,
        root: &Path,
        steps: &[&'a Step],
        options: &Options,
    ) -> anyhow::Result<Vec<FinishedStep<'a>>> {
        let (waiting, ended) = (Mutex::new(steps.iter()), Mutex::new(Vec::new()));
        let lock_failed = "another step panicked";
        let work = || -> anyhow::Result<()> {
            loop {
                let Some(step) = waiting.lock().expect(lock_failed).next() else { return Ok(()) };
                let begun = Instant::now();
                let path = root.join("target/ci").join(format!("{}.log", step.name));
                let log = File::create(&path).with_context(|| path.display().to_string())?;
                let outcome = self.run_step(root, step, options, Some(log))?;
                let took = begun.elapsed();
                let mut ended = ended.lock().expect(lock_failed);
                println!("\n==> {}: {}", step.name, step.about);
                io::copy(&mut File::open(&path)?, &mut io::stdout())?;
                println!("==> {}: {} s", step.name, took.as_secs());
                io::stdout().flush()?;
                ended.push(FinishedStep { name: &step.name, outcome, took });
            }
        };
        let n_cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..n_cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect(lock_failed))
        })?;
        Ok(ended.into_inner().expect(lock_failed))
    }

    #[expect(clippy::print_stdout, reason = "a command speaks to the person who runs it")]
    fn run_step(
        &self,
        root: &Path,
        step: &Step,
        options: &Options,
        output: Option<File>,
    ) -> anyhow::Result<Outcome> {
        for program in &step.needs {
            if on_path(program) || (options.install && self.install(root, program)?) {
                continue;
            }
            println!(
                "`{program}` is missing; install Debian's package `{}` or the like",
                self.packages[program]
            );
            return Ok(if options.skip_missing { Outcome::Skipped } else { Outcome::Failed });
        }
        let script = match (&step.run, &step.check) {
            (Some(run), _) => run.clone(),
            (None, Some(check)) => format!("python_check {check}"),
            (None, None) => return Ok(Outcome::Failed),
        };
        let mut bash = bash(root, &format!("{}\n{script}", self.prelude.run));
        if let Some(output) = output {
            bash.stderr(output.try_clone()?).stdout(output);
        }
        if let Some(since) = &options.since {
            bash.env("CI_SINCE", since);
        }
        let status = bash.status().context("bash cannot be started")?;
        Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
    }

    /// Returns whether `program` is there after installing its package with apt-get.
    fn install(&self, root: &Path, program: &str) -> anyhow::Result<bool> {
        // apt-get fails while another one runs.
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _installing = INSTALLING.lock().expect("another step panicked");
        let install = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends";
        bash(root, &format!("{install} {}", self.packages[program]))
            .status()
            .context("bash cannot be started")?;
        Ok(on_path(program))
    }
}

fn bash(root: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(root);
    command
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &str = r#"
        packages = { no-such-program = "no-such-package" }
        prelude.run = "greeting=hello"
        [[step]]
        name = "first"
        about = "Passes"
        fast = true
        run = 'test "$greeting" = hello'
        [[step]]
        name = "second"
        about = "Fails in the middle of a pipe"
        run = "false | cat"
        [[step]]
        name = "third"
        about = "Needs a program"
        needs = ["no-such-program"]
        run = "true"
        [[step]]
        name = "changed"
        about = "For --fast"
        fast = true
        on-demand = true
        run = "true"
    "#;

    fn options(arguments: &[&str]) -> Options {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Options::parse(&arguments).unwrap()
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        let steps = Steps::parse(STEPS).unwrap();
        steps.selected(&options(arguments)).unwrap().iter().map(|step| step.name.clone()).collect()
    }

    #[test]
    fn the_steps_of_the_repository_are_valid() {
        let steps = Steps::parse(crate::STEPS).unwrap();
        assert!(steps.list().starts_with("format"));
    }

    #[test]
    fn all_steps_or_the_fast_ones_or_named_ones_are_selected() {
        assert_eq!(names(&[]), ["first", "second", "third"]);
        assert_eq!(names(&["--fast"]), ["first", "changed"]);
        assert_eq!(names(&["second", "changed"]), ["second", "changed"]);
        assert_eq!(names(&["--fast", "third"]), ["first", "third", "changed"]);
    }

    #[test]
    fn unknown_steps_and_options_are_errors() {
        let steps = Steps::parse(STEPS).unwrap();
        assert!(
            steps
                .selected(&options(&["fourth"]))
                .unwrap_err()
                .to_string()
                .contains("no step is named `fourth`")
        );
        assert!(Options::parse(&["--quick".to_owned()]).is_err());
        assert!(Options::parse(&["--since".to_owned()]).is_err());
    }

    #[test]
    fn a_step_fails_when_a_command_in_a_pipe_fails_or_a_program_is_missing() {
        let root = std::env::temp_dir();
        let steps = Steps::parse(STEPS).unwrap();
        let outcome = |position: usize, options: &Options| {
            steps.run_step(&root, &steps.steps[position], options, None).unwrap()
        };
        let strict = Options::default();
        assert_eq!(outcome(0, &strict), Outcome::Passed);
        assert_eq!(outcome(1, &strict), Outcome::Failed);
        let lenient = Options { skip_missing: true, ..Options::default() };
        assert_eq!(outcome(2, &lenient), Outcome::Skipped);
    }

    #[test]
    fn checks_run_together_and_each_counts() {
        let root = tempfile::tempdir().unwrap();
        // Each check waits for the other one, if there are two cores.
        let wait = "touch $1; for i in {1..50}; do if [ -e $2 ] || [ $(nproc) = 1 ]; then break; fi; sleep 0.1; done";
        let prelude = format!("python_check() {{ {wait}; [ $1 = one ]; }}");
        let check = |name, check| format!("[[step]]\nname = '{name}'\nabout = ''\ncheck = '{check}'\n");
        let text = format!(
            "packages = {{}}\nprelude.run = '{prelude}'\n{}{}",
            check("first", "one two"),
            check("second", "two one")
        );
        let steps = Steps::parse(&text).unwrap();
        assert!(!steps.run(root.path(), &Options::default()).unwrap());
        assert!(steps.run(root.path(), &options(&["first"])).unwrap());
    }

    #[test]
    fn a_step_has_one_name_one_script_and_known_packages() {
        for step in ["name = 'a'\nabout = ''", "name = 'a'\nabout = ''\nrun = ''\nneeds = ['bash']"] {
            assert!(
                Steps::parse(&format!("packages = {{}}\nprelude.run = ''\n[[step]]\n{step}")).is_err(),
                "{step}"
            );
        }
        let twice = "[[step]]\nname = 'a'\nabout = ''\nrun = ''\n".repeat(2);
        assert!(Steps::parse(&format!("packages = {{}}\nprelude.run = ''\n{twice}")).is_err());
    }
}
