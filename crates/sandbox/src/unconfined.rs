//! No isolation: for those who said that they want none.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::account::Account;
use crate::spawn::{Descriptors, pipe, resource_limits, spawn};
use crate::supervise::{Stream, supervise};
use crate::watchdog::{Sight, Watchdog, descendants};
use crate::{Error, Limits, Outcome, Program, REPORT_VARIABLE, SEARCH_PATH, Sandbox};

/// Runs programs as what they are: processes of the user, in a temporary folder. Limits hold but for those on
/// processes and folders. A program that wants to outlives its run.
pub(crate) struct Unconfined;

impl Sandbox for Unconfined {
    fn run(&self, program: &Program, limits: &Limits) -> Result<Outcome, Error> {
        program.check()?;
        let folder = tempfile::tempdir().map_err(Error::io("make a temporary folder"))?;
        for (path, content) in &program.files {
            let path = folder.path().join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(Error::io("make a folder"))?;
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
            .env("HOME", folder.path())
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .envs(report.iter().map(|report| (REPORT_VARIABLE, &report.number)))
            .current_dir(folder.path())
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
        let report = Stream::of(report.map(|report| report.pipe), limits);
        let streams = [Stream::new(stdout, limits), Stream::new(stderr, limits), report];
        let mut account = Account::Watchdog(Watchdog::new(root, limits.memory_bytes, Sight::default()));
        supervise(&mut child, streams, limits, &mut account, &mut || false, &kill).map(|(outcome, _)| outcome)
    }
}
