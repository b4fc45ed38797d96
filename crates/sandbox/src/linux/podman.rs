//! Isolation by containers, with Podman.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::bubblewrap::{GROUPS, USERS, User, interpreter_files, system_directories};
use super::guard::Guard;
use super::resources::ResourceMonitor;
use super::spawn::{Descriptors, Report, pipe, resource_limits, spawn};
use super::supervise::{Stream, adopt_orphans, never, reap, supervise, wait_for};
use super::watchdog::{WatchScope, Watchdog};
use crate::{
    Ended, Error, Limits, Outcome, Program, REPORT_VARIABLE, Runner, SEARCH_PATH, Sandbox, WORK_DIRECTORY,
    find_executable,
};

/// Runs each program in its own container. The program sees the same files as with namespaces, unless the user
/// provides an image.
pub struct Podman {
    executable: PathBuf,
    image: String,
    /// True for the built-in image, which contains no programs.
    is_own: bool,
    seccomp: Vec<u8>,
    user: User,
    guard: Guard,
    /// The monitors of containers, which become children of this process.
    monitors: Mutex<Vec<OwnedFd>>,
}

/// Possible paths of Podman's own list of allowed system calls.
const PROFILES: [&str; 2] = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];

/// The first program of a container: unpacks the program's files when they arrive, then runs the program and waits.
/// It is process 1, so that the kernel ends all other processes with it, and has the limits of the program, which can
/// write to its memory. The program's output goes directly to
/// quarry: Podman would mix its own messages into it, and waits for its monitor, which lags behind when there is much
/// output.
const SCRIPT: &str = "tar -xf - <&3 || exit 125; /usr/bin/prlimit --pid $$ $1 || exit 125; shift; \
                      exec </dev/null >&4 2>&5 3<&- 4>&- 5>&-; \"$@\"; exit $?";

/// The statuses with which Podman reports its own failures; programs may exit with them too.
const OWN_STATUSES: RangeInclusive<i32> = 125..=127;

const START_TIME: Duration = Duration::from_secs(60);

/// Time limit for monitors of removed containers to end.
const MONITOR_TIME: Duration = Duration::from_secs(2);

/// Number of processes of a container in addition to those of its program.
const OWN_PROCESSES: u64 = 2;

impl Podman {
    /// Creates the image that programs run in, if none is given, and runs a trivial program.
    ///
    /// # Errors
    /// When Podman is missing or does not work.
    pub fn open(image: Option<String>) -> Result<Self, Error> {
        let executable = find_executable("podman").ok_or_else(|| Error::Missing {
            program: "podman".to_owned(),
            remedy: "install Podman 4 or newer with runc or crun, for example `apt install podman`"
                .to_owned(),
        })?;
        let profile = PROFILES.iter().find_map(|path| fs::read_to_string(path).ok());
        let profile = profile.ok_or_else(|| Error::Container {
            detail: format!("found none of {}; install containers-common", PROFILES.join(", ")),
        })?;
        let seccomp = super::seccomp::profile(&profile).map_err(|error| Error::Container {
            detail: format!("the profile of system calls cannot be read: {error}"),
        })?;
        let is_own = image.is_none();
        let mut podman = Self {
            executable,
            image: image.unwrap_or_default(),
            is_own,
            seccomp: seccomp.into_bytes(),
            user: User::current(),
            guard: Guard::for_containers()?,
            monitors: Mutex::default(),
        };
        adopt_orphans()?;
        if is_own {
            podman.image = podman.make_image()?;
        }
        let nothing = Program { command: vec!["true".to_owned()], ..Program::default() };
        match podman.run(&nothing, &Limits::default())? {
            Outcome { ended: Ended::Exited { code: 0 }, .. } => Ok(podman),
            outcome => Err(Error::Container {
                detail: format!("{:?} {}", outcome.ended, outcome.stderr.text().trim()),
            }),
        }
    }

    /// Creates an image that contains only mount points, and returns its name.
    fn make_image(&self) -> Result<String, Error> {
        let content = image().map_err(Error::io("make an image"))?;
        let name = format!("localhost/quarry-sandbox:{}", &quarry_files::sha256(&content)[..16]);
        if self.ask(&["image", "exists", &name])?.status.success() {
            return Ok(name);
        }
        let mut child = self
            .command(&["import", "--quiet", "-", &name])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::io("start podman"))?;
        // If it does not read everything, it reports the reason itself.
        let _ = child.stdin.take().map(|mut input| input.write_all(&content));
        let output = child.wait_with_output().map_err(Error::io("wait for podman"))?;
        if output.status.success() { Ok(name) } else { Err(container_error(&output.stderr)) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments).env_clear().env("PATH", SEARCH_PATH).current_dir("/").stdin(Stdio::null());
        // Signals from the terminal are not meant for it.
        command.process_group(0);
        for name in ["HOME", "XDG_RUNTIME_DIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    fn ask(&self, arguments: &[&str]) -> Result<Output, Error> {
        self.command(arguments).output().map_err(Error::io("start podman"))
    }

    /// The options for a program in a container of this name; `profile` is the number of the descriptor with the list
    /// of system calls.
    fn options(
        &self,
        name: &str,
        program: &Program,
        limits: &Limits,
        report: Option<&Report>,
        profile: &str,
    ) -> Vec<String> {
        let mut options = vec!["run".to_owned()];
        let mut add = |option: &str, value: &str| options.push(format!("--{option}={value}"));
        add("name", name);
        add("label", &format!("quarry={}", self.guard.mark()));
        add("pull", "never");
        add("network", "none");
        add("hostname", "sandbox");
        for option in ["read-only", "no-hosts"] {
            add(option, "true");
        }
        for option in ["read-only-tmpfs", "http-proxy", "passwd"] {
            add(option, "false");
        }
        add("cap-drop", "all");
        add("security-opt", "no-new-privileges");
        // Podman's own descriptor when it reads it; programs do not get it.
        add("security-opt", &format!("seccomp=/proc/self/fd/{profile}"));
        add("security-opt", "mask=/sys:/run:/dev/mqueue");
        // The descriptors of `SCRIPT`, and the one for reports.
        add("preserve-fds", if report.is_some() { "4" } else { "3" });
        add("log-driver", "none");
        let id = self.user.id().unwrap_or(1000);
        add("user", &format!("{id}:{id}"));
        // Podman's default may exceed what this machine allows.
        add("ulimit", &format!("nofile={0}:{0}", limits.open_files.max(16)));
        add("ulimit", &format!("nproc={0}:{0}", limits.processes.saturating_add(OWN_PROCESSES)));
        add("ulimit", "core=0:0");
        add("pids-limit", &limits.processes.saturating_add(OWN_PROCESSES).min(1 << 22).to_string());
        let memory = limits.memory_bytes.min(1 << 60).to_string();
        add("memory", &memory);
        add("memory-swap", &memory);
        let bytes = limits.directory_bytes.min(1 << 60);
        add("shm-size", &bytes.to_string());
        for directory in [WORK_DIRECTORY, "/tmp"] {
            add("tmpfs", &format!("{directory}:rw,nosuid,nodev,exec,notmpcopyup,size={bytes}"));
        }
        if self.is_own {
            add("volume", "/usr:/usr:ro");
            for (directory, _) in system_directories().filter(|(_, link)| link.is_none()) {
                add("volume", &format!("{directory}:{directory}:ro"));
            }
            for path in interpreter_files() {
                add("volume", &format!("{path}:{path}:ro"));
            }
        }
        for (name, directory) in &program.read_only {
            add(
                "mount",
                &format!("type=bind,source={},destination=/opt/{name},ro=true", directory.display()),
            );
        }
        add("workdir", WORK_DIRECTORY);
        add("entrypoint", "/usr/bin/env");
        let own_limits = resource_limits(limits).join(" ");
        options.extend(
            [&self.image, "-i", "/bin/sh", "-c", SCRIPT, "sh", &own_limits, "/usr/bin/env", "-i"]
                .map(str::to_owned),
        );
        let variables = [("PATH", SEARCH_PATH), ("HOME", WORK_DIRECTORY), ("LANG", "C.UTF-8")];
        options.extend(variables.map(|(name, value)| format!("{name}={value}")));
        options.extend(program.environment.iter().map(|(name, value)| format!("{name}={value}")));
        options.extend(report.map(|report| format!("{REPORT_VARIABLE}={}", report.number)));
        options.extend(program.command.iter().cloned());
        options
    }

    /// Reaps monitors that have ended; they end some time after their containers.
    fn reap_monitors(&self, time: Duration) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        monitors.retain(|monitor| !reap(monitor, time));
    }

    /// Waits until the first process of a container exists; `None` if Podman failed before.
    fn wait_for_first(&self, name: &str, child: &Child) -> Result<Option<Pid>, Error> {
        let engine =
            pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(Error::io("watch podman"))?;
        let deadline = Instant::now() + START_TIME;
        while Instant::now() < deadline {
            let [has_ended] = wait_for([Some(engine.as_fd())], Duration::from_millis(10))?;
            if has_ended {
                return Ok(None);
            }
            let output = self.ask(&["inspect", "--format", "{{.State.Pid}} {{.State.ConmonPid}}", name])?;
            let output = String::from_utf8_lossy(&output.stdout);
            let mut pids = output.split_whitespace().map(|pid| pid.parse().ok().and_then(Pid::from_raw));
            if let Some(Some(first)) = pids.next() {
                if let Some(Some(monitor)) = pids.next()
                    && let Ok(monitor) = pidfd_open(monitor, PidfdFlags::empty())
                {
                    self.monitors.lock().unwrap_or_else(PoisonError::into_inner).push(monitor);
                }
                return Ok(Some(first));
            }
        }
        Ok(None)
    }
}

/// A container, removed with all of its processes when dropped.
struct Container<'p> {
    podman: &'p Podman,
    name: String,
}

impl Container<'_> {
    fn remove(&self) -> Result<Output, Error> {
        self.podman.ask(&["rm", "--force", "--ignore", "--time", "0", &self.name])
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // If it fails, the guard tries again when this process ends.
        let _ = self.remove();
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.reap_monitors(MONITOR_TIME);
    }
}

impl Sandbox for Podman {
    /// An image given by the user contains its own interpreters, or lacks them.
    fn problem(&self, runner: &Runner) -> Result<Option<String>, Error> {
        if self.is_own {
            return Ok(runner.problem());
        }
        let check = Program { command: runner.check(), ..Program::default() };
        let works = self.run(&check, &Limits::default())?.ended == Ended::Exited { code: 0 };
        Ok((!works).then(|| {
            let (image, executable) = (&self.image, runner.executable());
            format!("the image {image} has no {executable} that runs such programs: put it there, or name another image")
        }))
    }

    fn run(&self, program: &Program, limits: &Limits) -> Result<Outcome, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        program.check()?;
        self.reap_monitors(Duration::ZERO);
        if let Some((_, directory)) = program
            .read_only
            .iter()
            .find(|(_, directory)| directory.to_str().is_none_or(|path| path.contains(',')))
        {
            return Err(Error::Program(format!(
                "{} cannot be mounted: its path contains a comma, or is not UTF-8",
                directory.display()
            )));
        }
        let files = archive(program).map_err(Error::io("pack the files of the program"))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quarry-sandbox-{}-{number}", std::process::id());
        let container = Container { podman: self, name };

        let [stdout, stderr, go, own] = [pipe()?, pipe()?, pipe()?, pipe()?];
        let mut descriptors = Descriptors::default();
        // In the order in which `SCRIPT` numbers them; the last one is for Podman only.
        descriptors.add(go.0);
        descriptors.add(stdout.1);
        descriptors.add(stderr.1);
        let report = program.reports.then(|| descriptors.add_report()).transpose()?;
        let profile = descriptors.add_content(&self.seccomp)?;
        let mut command = self.command(&[]);
        let options = self.options(&container.name, program, limits, report.as_ref(), &profile);
        command.args(options).stdout(Stdio::null()).stderr(own.1);
        let mut child = spawn(command, descriptors, Vec::new())?;
        let Some(first) = self.wait_for_first(&container.name, &child)? else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(container_error(&available(own.0)));
        };
        let process = pidfd_open(first, PidfdFlags::empty()).ok();
        let mut monitor = ResourceMonitor::observe(first).unwrap_or_else(|| {
            ResourceMonitor::Watchdog(Watchdog::new(first, limits.memory_bytes, WatchScope::default()))
        });
        send(go.1, &files);

        let report = Stream::optional(report.map(|report| report.pipe), limits);
        let streams = [Stream::new(stdout.0, limits), Stream::new(stderr.0, limits), report];
        let engine =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(Error::io("watch podman"))?;
        let kill = || {
            let is_over = wait_for([Some(engine.as_fd())], Duration::ZERO).is_ok_and(|[is_over]| is_over);
            // Podman is slow, but needed if the process belongs to another user.
            let is_killed =
                process.as_ref().is_some_and(|process| pidfd_send_signal(process, Signal::KILL).is_ok());
            if !is_over && !is_killed {
                let _ = self.ask(&["kill", "--signal", "KILL", &container.name]);
            }
        };
        let supervised = supervise(&mut child, streams, limits, &mut monitor, &mut never, &kill);
        let removed = container.remove()?;
        if !removed.status.success() {
            return Err(container_error(&removed.stderr));
        }
        let (mut outcome, status) = supervised?.ended();
        // The program cannot write to this pipe.
        let detail = available(own.0);
        if status.code().is_some_and(|code| OWN_STATUSES.contains(&code)) && !detail.is_empty() {
            return Err(container_error(&detail));
        }
        // A cgroup that is removed with its container may be gone before its events can be read.
        let is_killed = outcome.ended == Ended::Exited { code: 128 + libc::SIGKILL };
        if is_killed && outcome.peak_memory_bytes >= limits.memory_bytes / 10 * 9 {
            outcome.ended = Ended::Memory;
        }
        Ok(outcome)
    }
}

/// Sends the files of its program to a container, which starts the program after that.
fn send(mut pipe: PipeWriter, files: &[u8]) {
    // The container may have ended already, which its status shows.
    let _ = pipe.write_all(files);
}

/// The current content of a pipe, or the beginning of it.
fn available(mut pipe: PipeReader) -> Vec<u8> {
    let mut text = vec![0; 4096];
    let is_there = wait_for([Some(pipe.as_fd())], Duration::ZERO).is_ok_and(|[is_there]| is_there);
    let length = if is_there { pipe.read(&mut text).unwrap_or_default() } else { 0 };
    text.truncate(length);
    text
}

fn container_error(text: &[u8]) -> Error {
    let message = String::from_utf8_lossy(text).trim().to_owned();
    Error::Container { detail: if message.is_empty() { "podman gave no reason".to_owned() } else { message } }
}

fn archive(program: &Program) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in &program.files {
        archive.append_data(&mut file_header(content.len()), path, content.as_slice())?;
    }
    archive.into_inner()
}

/// An image with mount points, and with the symbolic links of this machine.
fn image() -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mount_points = ["usr", "etc", "opt", "proc", "dev", "sys", "run"].map(|directory| (directory, 0o755));
    // Mounted directories get these modes.
    for (directory, mode) in mount_points.into_iter().chain([("tmp", 0o1777), ("box", 0o1777)]) {
        archive.append_data(&mut header(tar::EntryType::Directory, mode), directory, std::io::empty())?;
    }
    for (directory, link) in system_directories() {
        let directory = directory.trim_start_matches('/');
        match link {
            Some(target) => {
                archive.append_link(&mut header(tar::EntryType::Symlink, 0o777), directory, target)?
            }
            None => {
                archive.append_data(
                    &mut header(tar::EntryType::Directory, 0o755),
                    directory,
                    std::io::empty(),
                )?;
            }
        }
    }
    for (path, content) in [("etc/passwd", USERS), ("etc/group", GROUPS)] {
        archive.append_data(&mut file_header(content.len()), path, content.as_bytes())?;
    }
    archive.into_inner()
}

fn file_header(length: usize) -> tar::Header {
    let mut header = header(tar::EntryType::Regular, 0o644);
    header.set_size(length as u64);
    header
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}
