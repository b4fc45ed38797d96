//! Isolation by Linux namespaces, set up by bubblewrap.

use std::fs;
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;

use super::guard::Guard;
use super::resources::{Cgroup, CgroupDirectories, ResourceMonitor};
use super::seccomp::Filters;
use super::spawn::{Descriptors, Report, pipe, resource_limits, spawn};
use super::supervise::{KILL_TIME, Stream, Supervised, adopt_orphans, reap, supervise, wait_for};
use super::tree;
use super::watchdog::{DIRECTORIES, WatchScope, Watchdog};
use crate::{
    Ended, Error, Limits, MemoryBound, OUTPUT_DIRECTORY, Outcome, Program, REPORT_VARIABLE, SEARCH_PATH,
    Sandbox, WORK_DIRECTORY, find_executable,
};

/// Runs each program in its own namespaces. A program sees `/usr`, a `/proc` with its own processes, the basic
/// devices, an almost empty `/etc`, and three writable directories in memory; no network, and no other process.
pub struct Bubblewrap {
    executable: PathBuf,
    cgroups: Option<CgroupDirectories>,
    filters: Filters,
    user: User,
    guard: Guard,
}

/// Additional access for a program that quarry itself runs, to fetch packages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access<'a> {
    /// True to give it access to the machine's network.
    pub network: bool,
    /// Files of the machine that it sees at the same path.
    pub files: &'a [PathBuf],
    /// A directory of the machine that it sees as [`OUTPUT_DIRECTORY`] and may write to, and its maximum size in
    /// bytes.
    pub output: Option<(&'a Path, u64)>,
    /// True to prevent it from starting other processes.
    pub no_fork: bool,
    /// Ends the program when set.
    pub stop: Option<&'a AtomicBool>,
}

/// Files in `/etc` for name resolution and certificates.
const NETWORK_ETC: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
];

const SIZE_INTERVAL: Duration = Duration::from_millis(250);

/// Files in `/etc` that interpreters need to start.
const ETC: &[&str] =
    &["/etc/alternatives", "/etc/ld.so.cache", "/etc/R", "/etc/php", "/etc/php.ini", "/etc/php.d"];

/// Prefixes of further names in `/etc` that belong to interpreters.
const ETC_PREFIXES: &[&str] = &["java-"];

/// Time limit for bubblewrap to set up the sandbox.
const SETUP_TIME: Duration = Duration::from_secs(10);

/// Number of bubblewrap's processes in addition to those of its program.
const OWN_PROCESSES: u64 = 2;

const SUCCESS: Ended = Ended::Exited { code: 0 };

pub(crate) const USERS: &str = "sandbox:x:1000:1000::/box:/bin/sh\n";
pub(crate) const GROUPS: &str = "sandbox:x:1000:\n";

impl Bubblewrap {
    /// Detects what this machine supports, and runs a trivial program.
    ///
    /// # Errors
    /// When bubblewrap is missing or does not work.
    pub fn open() -> Result<Self, Error> {
        let missing = |program: &str, remedy: &str| Error::Missing {
            program: program.to_owned(),
            remedy: remedy.to_owned(),
        };
        let executable = find_executable("bwrap").ok_or_else(|| {
            missing("bwrap", "install bubblewrap 0.8 or newer, for example `apt install bubblewrap`")
        })?;
        find_executable("prlimit")
            .ok_or_else(|| missing("prlimit", "install util-linux, for example `apt install util-linux`"))?;
        let filters = Filters::new().map_err(|error| Error::Setup { detail: error.to_string() })?;
        adopt_orphans()?;
        let cgroups = CgroupDirectories::find();
        let guard = Guard::start(cgroups.iter().flat_map(CgroupDirectories::directories))?;
        let sandbox = Self { executable, cgroups, filters, user: User::current(), guard };
        let nothing = |command: &[&str]| Program {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            ..Program::default()
        };
        match sandbox.run(&nothing(&["true"]), &Limits::default())? {
            Outcome { ended: SUCCESS, .. } => {}
            outcome => {
                let detail = format!("{:?} {}", outcome.ended, outcome.stderr.text());
                return Err(Error::Setup { detail });
            }
        }
        // The kernel does not count processes of root, even of root in a user namespace: with a limit of one process,
        // a program must be unable to start another.
        let one = Limits { processes: 1, ..Limits::default() };
        let stays_root = sandbox.user.id().is_none() && rustix::process::geteuid().is_root();
        if stays_root && sandbox.run(&nothing(&["timeout", "9", "true"]), &one)?.ended == SUCCESS {
            return Err(Error::Uncounted);
        }
        Ok(sandbox)
    }

    /// Means by which the memory of programs is limited here.
    pub fn memory_bound(&self) -> MemoryBound {
        self.cgroups.as_ref().map_or(MemoryBound::Watchdog, CgroupDirectories::bound)
    }

    /// Uses sampling to limit memory, as on machines without usable cgroups.
    pub fn without_cgroups(self) -> Self {
        Self { cgroups: None, ..self }
    }

    /// The options for a program, and the descriptors that they refer to.
    fn options(
        &self,
        program: &Program,
        limits: &Limits,
        access: Access<'_>,
        is_watched: bool,
    ) -> Result<(Vec<String>, Descriptors), Error> {
        let mut descriptors = Descriptors::default();
        let mut options = Vec::new();
        let mut add = |option: &[&str]| options.extend(option.iter().map(|&word| word.to_owned()));
        add(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        if !access.network {
            add(&["--unshare-net"]);
        }
        add(&["--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL"]);
        add(&["--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]);
        add(&["--die-with-parent", "--new-session", "--clearenv"]);
        for (name, value) in [("PATH", SEARCH_PATH), ("HOME", WORK_DIRECTORY), ("LANG", "C.UTF-8")] {
            add(&["--setenv", name, value]);
        }
        for (name, value) in &program.environment {
            add(&["--setenv", name, value]);
        }

        add(&["--ro-bind", "/usr", "/usr"]);
        for (directory, link) in system_directories() {
            match link {
                Some(target) => add(&["--symlink", &target.to_string_lossy(), directory]),
                None => add(&["--ro-bind-try", directory, directory]),
            }
        }
        for path in interpreter_files() {
            add(&["--ro-bind-try", &path, &path]);
        }
        for (path, content) in [("/etc/passwd", USERS), ("/etc/group", GROUPS)] {
            add(&["--ro-bind-data", &descriptors.add_content(content.as_bytes())?, path]);
        }
        if access.network {
            for path in NETWORK_ETC {
                add(&["--ro-bind-try", path, path]);
            }
        }
        for path in access.files {
            add(&["--ro-bind-try", utf8(path)?, utf8(path)?]);
        }
        for (name, directory) in &program.read_only {
            add(&["--ro-bind", utf8(directory)?, &format!("/opt/{name}")]);
        }
        if let Some((directory, _)) = access.output {
            add(&["--bind", utf8(directory)?, OUTPUT_DIRECTORY]);
        }

        // Some of its settings belong to the namespace, so the program could change them.
        add(&["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]);
        // Process 1 is bubblewrap, without the limits of each process: a program could run its own code in its
        // memory.
        add(&["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]);
        if is_watched {
            // It reads like `/dev/zero`, but cannot be mapped, which would provide shared memory.
            add(&["--dev-bind", "/dev/full", "/dev/zero"]);
        }
        let directory_bytes = limits.directory_bytes.to_string();
        for directory in DIRECTORIES {
            add(&["--size", &directory_bytes, "--tmpfs", directory]);
        }
        for (path, content) in &program.files {
            add(&["--file", &descriptors.add_content(content)?, &format!("{WORK_DIRECTORY}/{path}")]);
        }
        // Both are tmpfs without a size limit.
        add(&["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK_DIRECTORY]);
        let filter = self.filters.filter(access.no_fork, is_watched);
        add(&["--seccomp", &descriptors.add_content(filter)?]);
        Ok((options, descriptors))
    }

    /// Starts bubblewrap, which sets up the sandbox and then waits.
    fn start(
        &self,
        program: &Program,
        limits: &Limits,
        access: Access<'_>,
        cgroup: Option<&Cgroup>,
    ) -> Result<StartedSandbox, Error> {
        let (mut options, mut descriptors) = self.options(program, limits, access, cgroup.is_none())?;
        let [stdout, stderr, status, go] = [pipe()?, pipe()?, pipe()?, pipe()?];
        options.extend(["--json-status-fd".to_owned(), descriptors.add(status.1)]);
        options.extend(["--block-fd".to_owned(), descriptors.add(go.0)]);
        // Bubblewrap passes other descriptors on to the program.
        let report = program.reports.then(|| descriptors.add_report()).transpose()?;
        if let Some(Report { number, .. }) = &report {
            options.extend(["--setenv", REPORT_VARIABLE, number].map(str::to_owned));
        }
        // Not on the command line, which the program can read.
        let options: String = options.iter().flat_map(|option| [option, "\0"]).collect();
        let mut command = Command::new(&self.executable);
        command
            .arg0(self.guard.mark())
            .args(["--args", &descriptors.add_content(options.as_bytes())?, "--", "/usr/bin/prlimit"])
            .args(resource_limits(limits))
            // Inside the sandbox, where it counts only the processes in there.
            .arg(format!("--nproc={}", limits.processes));
        if cgroup.is_none() {
            // Between two samples, at least each process is limited.
            command.arg(format!("--data={}", limits.memory_bytes));
        }
        command
            .arg("--")
            .args(&program.command)
            .env_clear()
            .current_dir("/")
            // Signals from the terminal are not meant for it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout.1)
            .stderr(stderr.1);
        if let Some(id) = self.user.id() {
            // This also drops the supplementary groups.
            command.uid(id).gid(id);
            if let Some((directory, _)) = access.output {
                std::os::unix::fs::chown(directory, Some(id), Some(id))
                    .map_err(Error::io("hand over a directory"))?;
            }
        }
        let members = cgroup.map_or(Ok(Vec::new()), |cgroup| cgroup.members())?;
        let child = spawn(command, descriptors, members)?;
        let report = report.map(|report| report.pipe);
        Ok(StartedSandbox { child, stdout: stdout.0, stderr: stderr.0, report, status: status.0, go: go.1 })
    }
}

impl Sandbox for Bubblewrap {
    fn run(&self, program: &Program, limits: &Limits) -> Result<Outcome, Error> {
        match self.run_with(program, limits, Access::default())? {
            Run::Ended(outcome) => Ok(outcome),
            Run::Aborted(reason) => {
                Err(Error::Program(format!("it was stopped without being asked to: {reason:?}")))
            }
        }
    }
}

impl Bubblewrap {
    /// Like [`Sandbox::run`], with additional access.
    pub(crate) fn run_with(
        &self,
        program: &Program,
        limits: &Limits,
        access: Access<'_>,
    ) -> Result<Run, Error> {
        program.check()?;
        let processes = limits.processes.saturating_add(OWN_PROCESSES);
        // Dropped last: the kernel removes a cgroup only after its processes.
        let cgroup = self.cgroups.as_ref().and_then(|parent| parent.create(limits.memory_bytes, processes));
        let mut monitor;
        let mut started = self.start(program, limits, access, cgroup.as_ref())?;
        let Some(init) = started.wait_for_init()? else { return Err(started.setup_error()) };
        let scope = WatchScope { directories: true, sockets: !access.network };
        let watch = || ResourceMonitor::Watchdog(Watchdog::new(init.pid, limits.memory_bytes, scope));
        monitor = cgroup.map_or_else(watch, ResourceMonitor::Cgroup);
        // The other end is closed if something failed meanwhile.
        if started.go.write_all(b"!").is_err() {
            return Err(started.setup_error());
        }
        let StartedSandbox { mut child, stdout, stderr, report, status, go } = started;
        drop(go);

        let streams =
            [Stream::new(stdout, limits), Stream::new(stderr, limits), Stream::optional(report, limits)];
        let mut looked = Instant::now();
        let mut should_abort = || {
            if access.stop.is_some_and(|stop| stop.load(Ordering::SeqCst)) {
                return Some(AbortReason::Stopped);
            }
            if let Some((directory, bytes)) = access.output
                && looked.elapsed() >= SIZE_INTERVAL
            {
                looked = Instant::now();
                return (tree::size(directory) > bytes).then_some(AbortReason::OutputFull);
            }
            None
        };
        let supervised =
            supervise(&mut child, streams, limits, &mut monitor, &mut should_abort, &|| init.kill());
        init.wait()?;
        // It exits now that its program was signaled to start.
        let _ = child.wait();
        let outcome = match supervised? {
            Supervised::Ended(outcome, _) => outcome,
            Supervised::Aborted(reason) => return Ok(Run::Aborted(reason)),
        };
        let ended_itself = matches!(outcome.ended, Ended::Exited { .. });
        if ended_itself && !has_exit_code(status) {
            return Err(setup_error(&outcome.stderr.text()));
        }
        Ok(Run::Ended(outcome))
    }
}

/// Outcome of a run with additional access.
pub(crate) enum Run {
    /// It exited or exceeded a limit.
    Ended(Outcome),
    Aborted(AbortReason),
}

/// The reason why the sandbox aborted a program that was within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbortReason {
    /// It exceeded the size of [`Access::output`].
    OutputFull,
    Stopped,
}

/// A sandbox that is set up and waits for the signal to start its program.
struct StartedSandbox {
    child: Child,
    stdout: PipeReader,
    stderr: PipeReader,
    report: Option<PipeReader>,
    /// The pipe to which bubblewrap writes [`Status`], one per line.
    status: PipeReader,
    go: std::io::PipeWriter,
}

/// A line of `--json-status-fd`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Status {
    child_pid: Option<i32>,
    exit_code: Option<i32>,
}

impl StartedSandbox {
    /// Waits until the first process of the sandbox exists; `None` if bubblewrap failed.
    fn wait_for_init(&mut self) -> Result<Option<Init>, Error> {
        let deadline = Instant::now() + SETUP_TIME;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = deadline.saturating_duration_since(Instant::now());
            let [ready] = wait_for([Some(self.status.as_fd())], left)?;
            let mut byte = [0];
            if !ready || self.status.read(&mut byte).map_err(Error::io("read bubblewrap's status"))? == 0 {
                return Ok(None);
            }
            line.extend(byte);
        }
        let status: Status = serde_json::from_slice(&line).unwrap_or_default();
        let Some(pid) = status.child_pid.and_then(Pid::from_raw) else { return Ok(None) };
        // It exists as long as it waits for the signal, so its id cannot have been reused. If the setup fails, it may be
        // gone already.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(Init { pid, descriptor })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(Error::io("watch the sandbox")(error)),
        }
    }

    /// The error of bubblewrap, which has exited.
    fn setup_error(mut self) -> Error {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut detail = String::new();
        let _ = self.stderr.take(4096).read_to_string(&mut detail);
        setup_error(&detail)
    }
}

fn setup_error(message: &str) -> Error {
    let message = message.trim();
    Error::Setup { detail: if message.is_empty() { "bubblewrap gave no reason" } else { message }.to_owned() }
}

/// Process 1 of a sandbox. When it is killed, the kernel kills all others in the sandbox, and it is gone only after
/// them.
struct Init {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Init {
    fn kill(&self) {
        // It may be dead already.
        let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
    }

    /// Waits until no process of the sandbox is left.
    fn wait(&self) -> Result<(), Error> {
        self.kill();
        let deadline = Instant::now() + KILL_TIME;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait_for([Some(self.descriptor.as_fd())], left)? {
                [true] => return Ok(()),
                [false] if left.is_zero() => return Err(Error::Unkillable { seconds: KILL_TIME.as_secs() }),
                [false] => {}
            }
        }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        reap(&self.descriptor, KILL_TIME);
    }
}

/// Returns whether bubblewrap, which has exited, reported the exit status of a program: it does so only if it started
/// one.
fn has_exit_code(mut status: PipeReader) -> bool {
    let mut lines = Vec::new();
    status.read_to_end(&mut lines).is_ok()
        && lines
            .split(|&byte| byte == b'\n')
            .any(|line| serde_json::from_slice::<Status>(line).is_ok_and(|status| status.exit_code.is_some()))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user who runs this program, even if it is the only user of a namespace.
    Unprivileged,
    /// Another user for each run, because the kernel does not count root's processes, and because runs then could not
    /// affect each other even if they escaped.
    PerRun,
    /// The user nobody, for root in a container that has few users.
    Nobody,
}

impl User {
    pub(crate) fn current() -> Self {
        let map = |name: &str| fs::read_to_string(format!("/proc/self/{name}_map")).unwrap_or_default();
        match rustix::process::geteuid().is_root() {
            true => Self::without_root(&map("uid"), &map("gid")),
            false => Self::Unprivileged,
        }
    }

    /// The user to use instead of root with these maps of users and groups, see user_namespaces(7).
    fn without_root(users: &str, groups: &str) -> Self {
        let has = |id| [users, groups].into_iter().all(|map| is_mapped(map, id));
        if has(FIRST_USER) && has(LAST_USER) {
            Self::PerRun
        } else if has(NOBODY) {
            Self::Nobody
        } else {
            Self::Unprivileged
        }
    }

    /// The user id for the next run; `None` for the current user.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Unprivileged => None,
            Self::PerRun => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let run = NEXT.fetch_add(1, Ordering::Relaxed) & 0xff;
                Some(FIRST_USER | (std::process::id() << 8 & LAST_USER) | run)
            }
            Self::Nobody => Some(NOBODY),
        }
    }
}

/// User ids of runs are in a range that machines do not assign to people: 22 bits for this process, 8 for the run.
const FIRST_USER: u32 = 0x4000_0000;
const LAST_USER: u32 = 0x7fff_ffff;

const NOBODY: u32 = 65534;

/// Returns whether an id is in a map whose lines contain an inside id, an outside id and a length.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, length] if (first..first.saturating_add(length)).contains(&id.into()))
    })
}

fn utf8(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::Program(format!("{} is not UTF-8", path.display())))
}

/// The files in `/etc` that interpreters on this machine need.
pub(crate) fn interpreter_files() -> impl Iterator<Item = String> {
    let named = names("/etc").filter(|name| ETC_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let listed = ETC.iter().filter(|path| Path::new(path).exists()).map(|path| (*path).to_owned());
    listed.chain(named.map(|name| format!("/etc/{name}")))
}

/// Directories with programs and libraries beside `/usr`, each with its target if it is a symbolic link.
pub(crate) fn system_directories() -> impl Iterator<Item = (&'static str, Option<PathBuf>)> {
    let directories = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    let present = directories.into_iter().filter(|directory| fs::symlink_metadata(directory).is_ok());
    present.map(|directory| (directory, fs::read_link(directory).ok()))
}

fn names(directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(Path::new(directory)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_replaced_by_an_existing_user() {
        let choose = User::without_root;
        let whole = "         0          0 4294967295\n";
        assert_eq!(choose(whole, whole), User::PerRun);
        let container = "0 100000 65536\n";
        assert_eq!(choose(container, container), User::Nobody);
        // As rootless engines map ids: this user, and a range after it.
        let rootless = "0 1000 1\n1 100000 65536\n";
        assert_eq!(choose(rootless, rootless), User::Nobody);
        for alone in ["0 0 1\n", "0 1000 1\n", "", "x"] {
            assert_eq!(choose(alone, alone), User::Unprivileged);
            assert_eq!(choose(whole, alone), User::Unprivileged);
        }
    }
}
