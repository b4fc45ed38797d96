//! Memory and CPU time of all processes of a run: measured by a cgroup if this user may create one, otherwise
//! sampled.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Pid;

use super::spawn::{Descriptors, spawn};
use super::watchdog::Watchdog;
use crate::{Ended, Error, Limits, MemoryBound};

/// The directories of a cgroup, or of one in which others can be created.
#[derive(Clone, Debug)]
pub(crate) struct CgroupDirectories {
    bound: MemoryBound,
    /// The directory for limiting memory.
    memory: PathBuf,
    /// In version 1, the directory of the hierarchy that measures CPU time.
    cpu: Option<PathBuf>,
    /// In version 1, the directory of the hierarchy that limits the number of processes.
    pids: Option<PathBuf>,
}

/// The resources used by a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub cpu_time: Duration,
    pub memory_bytes: u64,
}

/// Monitors time and memory of all processes of a run.
pub(crate) enum ResourceMonitor {
    Cgroup(Cgroup),
    /// A cgroup created by another program, which may be removed before its final state can be read.
    Observed(ObservedCgroup),
    Watchdog(Watchdog),
}

impl ResourceMonitor {
    pub(super) fn bound(&self) -> MemoryBound {
        match self {
            Self::Cgroup(cgroup) => cgroup.bound,
            Self::Observed(observed) => observed.directories.bound,
            Self::Watchdog(_) => MemoryBound::Watchdog,
        }
    }

    /// Interval at which [`Self::exceeded`] has to be called.
    pub(super) fn interval(&self) -> Duration {
        match self {
            // The kernel enforces the limit; this is how soon the rest of a program is killed after the process that
            // exceeded it.
            Self::Cgroup(_) => Duration::from_millis(50),
            Self::Observed(_) => Duration::from_millis(5),
            Self::Watchdog(_) => Duration::from_millis(10),
        }
    }

    /// The limit that was exceeded, if any. The kernel limits the CPU time of each process; this limits their total a
    /// second later, so that programs that handle the signal get it first.
    pub(super) fn exceeded(&mut self, limits: &Limits) -> Option<Ended> {
        if self.is_out_of_memory() {
            return Some(Ended::Memory);
        }
        let second = Duration::from_secs(1);
        let maximum = limits.cpu_time.max(second).saturating_add(second);
        (self.usage().cpu_time > maximum).then_some(Ended::CpuTime)
    }

    /// Returns whether more memory was requested than allowed.
    pub(super) fn is_out_of_memory(&mut self) -> bool {
        match self {
            Self::Cgroup(cgroup) => cgroup.has_killed(),
            Self::Observed(observed) => observed.sample(),
            Self::Watchdog(watchdog) => watchdog.sample(),
        }
    }

    /// Monitors a process that a container engine has put into a cgroup; `None` if the cgroup is not visible.
    pub(super) fn observe(process: Pid) -> Option<Self> {
        let own = fs::read_to_string(format!("/proc/{}/cgroup", process.as_raw_nonzero())).ok()?;
        let directories = directories_of(&own, Path::new("/sys/fs/cgroup"))?;
        Some(Self::Observed(ObservedCgroup { directories, peak: Usage::default(), has_killed: false }))
    }

    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Cgroup(cgroup) => cgroup.usage(),
            Self::Observed(observed) => observed.peak,
            Self::Watchdog(watchdog) => watchdog.peak(),
        }
    }
}

/// Prefix of the names of cgroups, followed by the id of the process that created them, so that those of dead
/// processes can be identified and removed.
const PREFIX: &str = "quarry-sandbox-";

impl CgroupDirectories {
    /// The innermost cgroup of this process in which it can create others that limit memory.
    pub(super) fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = candidates(&own, Path::new("/sys/fs/cgroup")).into_iter().find(Self::works)?;
        found.remove_abandoned();
        Some(found)
    }

    /// Tests whether a process can put itself into a cgroup here.
    fn works(&self) -> bool {
        let start = |cgroup: &Cgroup| {
            let mut command = Command::new("/usr/bin/true");
            command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            spawn(command, Descriptors::default(), cgroup.members().ok()?).ok()?.wait().ok()
        };
        self.create(1 << 30, 16).is_some_and(|cgroup| start(&cgroup).is_some())
    }

    /// Creates a cgroup for one run. Where the kernel can limit the number of processes in it, it does.
    pub(super) fn create(&self, memory_bytes: u64, processes: u64) -> Option<Cgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = self.memory.join(&name);
        fs::create_dir(&memory).ok()?;
        // From here on, dropping it removes the directories.
        let mut cgroup = Cgroup(CgroupDirectories { bound: self.bound, memory, cpu: None, pids: None });
        let limit = memory_bytes.to_string();
        let set = |file: &str, value: &str| fs::write(cgroup.memory.join(file), value);
        if self.bound == MemoryBound::CgroupV1 {
            set("memory.limit_in_bytes", &limit).ok()?;
            // Missing on kernels that do not count swap.
            let _ = set("memory.memsw.limit_in_bytes", &limit);
            // Buffers of TCP connections are counted separately.
            let _ = set("memory.kmem.tcp.limit_in_bytes", &limit);
        } else {
            set("memory.max", &limit).ok()?;
            let _ = set("memory.swap.max", "0");
            let _ = set("memory.oom.group", "1");
        }
        let make = |parent: &PathBuf| {
            let directory = parent.join(&name);
            fs::create_dir(&directory).is_ok().then_some(directory)
        };
        cgroup.0.cpu = self.cpu.as_ref().and_then(make);
        cgroup.0.pids = self.pids.as_ref().and_then(make);
        // Missing in version 2 if it is not handed down.
        let _ =
            fs::write(cgroup.pids.as_ref().unwrap_or(&cgroup.memory).join("pids.max"), processes.to_string());
        Some(cgroup)
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.memory), self.cpu.as_ref(), self.pids.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    pub(super) fn bound(&self) -> MemoryBound {
        self.bound
    }

    /// Removes empty cgroups of processes that died before they could.
    fn remove_abandoned(&self) {
        for parent in self.directories() {
            let Ok(entries) = fs::read_dir(parent) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
                if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
                    remove(&entry.path());
                }
            }
        }
    }
}

/// Removes an empty cgroup. The kernel takes a moment to notice that its last process is gone.
fn remove(directory: &Path) {
    for _ in 0..100 {
        if fs::remove_dir(directory).is_ok() || !directory.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Cgroups in which a process with this `/proc/self/cgroup` may be able to create cgroups that limit memory,
/// innermost first.
fn candidates(own: &str, mount: &Path) -> Vec<CgroupDirectories> {
    let hierarchy = |controller: &str| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            controllers.split(',').any(|name| name == controller).then(|| (controllers, fields.next()))
        })
    };
    // A container may see only the lower part of the hierarchy, so that its own path is missing but `/` exists.
    let around = |root: PathBuf, path: &str| {
        let inner = root.join(path.trim_start_matches('/'));
        inner
            .ancestors()
            .take_while(|directory| directory.starts_with(&root))
            .map(Path::to_owned)
            .collect::<Vec<_>>()
    };
    if let Some((controllers, Some(path))) = hierarchy("memory") {
        let other = |controller| {
            let (controllers, path) = hierarchy(controller)?;
            around(mount.join(controllers), path?).into_iter().find(|directory| directory.is_dir())
        };
        let (cpu, pids) = (other("cpuacct"), other("pids"));
        return around(mount.join(controllers), path)
            .into_iter()
            .filter(|memory| memory.join("memory.limit_in_bytes").is_file())
            .map(|memory| {
                let (cpu, pids) = (cpu.clone(), pids.clone());
                CgroupDirectories { bound: MemoryBound::CgroupV1, memory, cpu, pids }
            })
            .collect();
    }
    let Some(("", Some(path))) = hierarchy("") else { return Vec::new() };
    around(mount.to_owned(), path)
        .into_iter()
        .filter(|directory| {
            let controllers =
                fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "memory")
        })
        .map(|memory| CgroupDirectories { bound: MemoryBound::CgroupV2, memory, cpu: None, pids: None })
        .collect()
}

/// The cgroup of one run, removed when dropped.
pub(crate) struct Cgroup(CgroupDirectories);

impl std::ops::Deref for Cgroup {
    type Target = CgroupDirectories;

    fn deref(&self) -> &CgroupDirectories {
        &self.0
    }
}

impl CgroupDirectories {
    /// The membership files to which a process writes itself, see [`spawn`].
    pub(super) fn members(&self) -> Result<Vec<File>, Error> {
        // If there is a list of threads, a process with a single thread can join without waiting for others.
        let list = if self.bound == MemoryBound::CgroupV1 { "tasks" } else { "cgroup.procs" };
        self.directories()
            .map(|directory| OpenOptions::new().write(true).open(directory.join(list)))
            .collect::<io::Result<_>>()
            .map_err(Error::io("open a cgroup"))
    }

    /// Returns whether the kernel killed a process in this cgroup because memory ran out.
    fn has_killed(&self) -> bool {
        let file = if self.bound == MemoryBound::CgroupV1 { "memory.oom_control" } else { "memory.events" };
        self.entry(file, "oom_kill").is_some_and(|count| count > 0)
    }

    fn usage(&self) -> Usage {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let (cpu_time, memory_bytes) = if self.bound == MemoryBound::CgroupV1 {
            let nanoseconds = self.cpu.as_ref().and_then(|directory| number(directory.join("cpuacct.usage")));
            (nanoseconds.map(Duration::from_nanos), number(self.memory.join("memory.max_usage_in_bytes")))
        } else {
            let microseconds = self.entry("cpu.stat", "usage_usec");
            (microseconds.map(Duration::from_micros), number(self.memory.join("memory.peak")))
        };
        Usage { cpu_time: cpu_time.unwrap_or_default(), memory_bytes: memory_bytes.unwrap_or_default() }
    }

    /// The number after a key in a file with a key and a number per line.
    fn entry(&self, file: &str, word: &str) -> Option<u64> {
        let text = fs::read_to_string(self.memory.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.directories().for_each(remove);
    }
}

/// The directories of a process with this `/proc/PID/cgroup`.
fn directories_of(own: &str, mount: &Path) -> Option<CgroupDirectories> {
    let directory = |controller: &str| {
        own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = controllers.split(',').any(|name| name == controller);
            is_it.then(|| mount.join(controllers).join(path.trim_start_matches('/')))
        })
    };
    let (bound, memory) = match directory("memory") {
        Some(memory) => (MemoryBound::CgroupV1, memory),
        None => (MemoryBound::CgroupV2, directory("")?),
    };
    Some(CgroupDirectories { bound, memory, cpu: directory("cpuacct"), pids: None })
}

/// Samples of a cgroup that another program created.
pub(crate) struct ObservedCgroup {
    directories: CgroupDirectories,
    peak: Usage,
    has_killed: bool,
}

impl ObservedCgroup {
    fn sample(&mut self) -> bool {
        let now = self.directories.usage();
        self.peak.cpu_time = self.peak.cpu_time.max(now.cpu_time);
        self.peak.memory_bytes = self.peak.memory_bytes.max(now.memory_bytes);
        self.has_killed |= self.directories.has_killed();
        self.has_killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn memory_directories(own: &str, mount: &Path) -> Vec<(MemoryBound, PathBuf)> {
        let relative = |path: PathBuf| path.strip_prefix(mount).unwrap().to_owned();
        candidates(own, mount).into_iter().map(|found| (found.bound, relative(found.memory))).collect()
    }

    #[test]
    fn version_2_uses_the_innermost_directory_that_delegates_memory() {
        let mount = tree(&[
            ("cgroup.subtree_control", "cpu memory\n"),
            ("user/cgroup.subtree_control", "memory pids\n"),
            ("user/session/cgroup.subtree_control", "\n"),
        ]);
        let expected = ["user", ""].map(|path| (MemoryBound::CgroupV2, PathBuf::from(path)));
        assert_eq!(memory_directories("0::/user/session\n", mount.path()), expected);
    }

    #[test]
    fn version_1_is_used_where_memory_is_there() {
        let mount = tree(&[
            ("memory/a/memory.limit_in_bytes", ""),
            ("memory/memory.limit_in_bytes", ""),
            ("cpu,cpuacct/cpuacct.usage", ""),
            ("cgroup.subtree_control", "memory\n"),
        ]);
        let own = "4:memory:/a\n2:cpu,cpuacct:/b\n0::/\n";
        let expected = ["memory/a", "memory"].map(|path| (MemoryBound::CgroupV1, PathBuf::from(path)));
        assert_eq!(memory_directories(own, mount.path()), expected);
        let parent = candidates(own, mount.path()).remove(0);
        assert_eq!(parent.cpu, Some(mount.path().join("cpu,cpuacct")));
        assert_eq!(parent.pids, None);
    }

    #[test]
    fn the_number_of_processes_is_limited_where_it_can_be() {
        let mount = tree(&[("memory/memory.limit_in_bytes", ""), ("pids/pids.current", "")]);
        let first = candidates("4:memory:/\n3:pids:/\n0::/\n", mount.path()).remove(0);
        let mount = tree(&[("cgroup.subtree_control", "memory pids\n")]);
        let second = candidates("0::/\n", mount.path()).remove(0);
        for parent in [first, second] {
            let cgroup = parent.create(1 << 20, 66).unwrap();
            let directory = cgroup.pids.as_ref().unwrap_or(&cgroup.memory);
            assert_eq!(fs::read_to_string(directory.join("pids.max")).unwrap(), "66");
            assert_eq!(cgroup.pids.is_some(), parent.bound() == MemoryBound::CgroupV1);
            // A directory of cgroups can be removed with its files.
            cgroup.directories().for_each(|directory| fs::remove_dir_all(directory).unwrap());
        }
    }

    #[test]
    fn without_a_controller_there_is_no_candidate() {
        let mount = tree(&[("cgroup.subtree_control", "cpu pids\n")]);
        assert_eq!(memory_directories("0::/\n", mount.path()), []);
        assert_eq!(memory_directories("", mount.path()), []);
        assert_eq!(memory_directories("not a line\n::\n", mount.path()), []);
    }
}
