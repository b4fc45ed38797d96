//! No isolation, for users who explicitly asked for it.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::resources::ResourceMonitor;
use super::spawn::{Descriptors, pipe, resource_limits, spawn};
use super::supervise::{Stream, never, supervise};
use super::watchdog::{WatchScope, Watchdog, descendants};
use crate::{Error, Limits, Outcome, Program, REPORT_VARIABLE, SEARCH_PATH, Sandbox};

/// Runs programs as processes of the user, in a temporary directory. All limits except those on processes and
/// directories are enforced. A program can deliberately outlive its run.
pub(crate) struct Unconfined;

impl Sandbox for Unconfined {
    fn run(&self, program: &Program, limits: &Limits) -> Result<Outcome, Error> {
        program.check()?;
        let directory = tempfile::tempdir().map_err(Error::io("make a temporary directory"))?;
        for (path, content) in &program.files {
            let path = directory.path().join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(Error::io("make a directory"))?;
            fs::write(path, content).map_err(Error::io("write a file of the program"))?;
        }
        let [(stdout, stdout_end), (stderr, stderr_end)] = [pipe()?, pipe()?];
        let mut descriptors = Descriptors::default();
        let report = program.reports.then(|| descriptors.add_report()).transpose()?;
        let mut command = Command::new("/usr/bin/prlimit");
        command
            .args(resource_limits(limits))
            .arg("--")
            .args(&program.command)
            .env_clear()
            .envs([("PATH", SEARCH_PATH), ("LANG", "C.UTF-8")])
            .env("HOME", directory.path())
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .envs(report.iter().map(|report| (REPORT_VARIABLE, &report.number)))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(stdout_end)
            .stderr(stderr_end);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = spawn(command, descriptors, Vec::new())?;
        let root = Pid::from_child(&child);
        let kill = || {
            for process in descendants(root) {
                let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
            }
            let _ = kill_process_group(root, Signal::KILL);
        };
        let report = Stream::optional(report.map(|report| report.pipe), limits);
        let streams = [Stream::new(stdout, limits), Stream::new(stderr, limits), report];
        let mut monitor =
            ResourceMonitor::Watchdog(Watchdog::new(root, limits.memory_bytes, WatchScope::default()));
        let supervised = supervise(&mut child, streams, limits, &mut monitor, &mut never, &kill)?;
        Ok(supervised.ended().0)
    }
}
