//! Samples the resource usage of a run's processes where cgroups are not available.
//!
//! The kernel reports the memory of each process. Memory that does not belong to a process is measured where
//! sandboxed programs can allocate much of it: files in memory, sockets, descriptions of mappings. Kinds that are
//! invisible from outside are denied by `seccomp.rs`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::resources::Usage;
use crate::WORK_DIRECTORY;

/// The writable directories: each is a separate tmpfs of [`directory_bytes`](crate::Limits::directory_bytes).
pub(crate) const DIRECTORIES: [&str; 3] = [WORK_DIRECTORY, "/tmp", "/dev/shm"];

/// Kernel memory for a file of any size, with a name of maximum length.
const FILE_BYTES: u64 = 1 << 10;

/// Maximum content of a socket: data sent to it until senders block, which programs cannot change, and the socket
/// itself.
const SOCKET_BYTES: u64 = 256 << 10;

/// Kernel memory for a mapping, including its tree node.
const MAPPING_BYTES: u64 = 400;

/// Mappings are counted in one of this many samples: every process has hundreds, and only attacks have many.
const MAPPINGS_INTERVAL: u32 = 10;

/// Samples the usage of a process and its descendants.
pub(crate) struct Watchdog {
    root: Pid,
    memory_bytes: u64,
    scope: WatchScope,
    samples: u32,
    /// Memory for mappings when they were last counted.
    mappings: u64,
    peak: Usage,
}

/// Resources of a run that the watchdog sees in addition to its processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchScope {
    /// True if it has the in-memory [`DIRECTORIES`].
    pub directories: bool,
    /// True if all sockets of its network belong to it.
    pub sockets: bool,
}

impl Watchdog {
    pub(super) fn new(root: Pid, memory_bytes: u64, scope: WatchScope) -> Self {
        Self { root, memory_bytes, scope, samples: 0, mappings: 0, peak: Usage::default() }
    }

    pub(super) fn peak(&self) -> Usage {
        self.peak
    }

    /// Takes a sample; returns whether more memory is in use than allowed. Shared memory is counted for each process
    /// that has it.
    pub(super) fn sample(&mut self) -> bool {
        let mut cpu_time = Duration::ZERO;
        let mut memory = Memory::default();
        let processes = descendants(self.root);
        for process in &processes {
            cpu_time += process.cpu_time;
            memory.add(memory_of(process.pid));
        }
        if self.samples.is_multiple_of(MAPPINGS_INTERVAL) {
            self.mappings = mappings(&processes, self.memory_bytes);
        }
        self.samples = self.samples.wrapping_add(1);
        let root = PathBuf::from(format!("/proc/{}", self.root.as_raw_nonzero()));
        let (bytes, count) = if self.scope.directories { files(&root.join("root")) } else { (0, 0) };
        let sockets = if self.scope.sockets { sockets(&root.join("net")) } else { 0 };
        // If the directories are visible, shared memory is counted with their files.
        let memory_bytes =
            memory.own + memory.shared.max(bytes) + count * FILE_BYTES + sockets + self.mappings;
        self.peak.cpu_time = self.peak.cpu_time.max(cpu_time);
        self.peak.memory_bytes = self.peak.memory_bytes.max(memory_bytes);
        memory_bytes > self.memory_bytes
    }
}

/// A process, from `/proc`.
pub(crate) struct Process {
    pub pid: i32,
    parent: i32,
    /// Including that of the children it has waited for.
    cpu_time: Duration,
}

pub(crate) fn descendants(root: Pid) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(process) =
            fs::read_to_string(entry.path().join("stat")).ok().and_then(|text| parse(pid, &text))
        else {
            continue;
        };
        if pid == root.as_raw_nonzero().get() {
            found.push(process);
        } else {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Parses `/proc/PID/stat` (see `proc(5)`). The name, the second field, may contain anything and ends at the last
/// `)`.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks: f64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    let cpu_time = Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64);
    Some(Process { pid, parent, cpu_time })
}

/// Memory of processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    /// Resident anonymous memory, and page tables.
    own: u64,
    /// Resident memory of in-memory files, and other shared memory.
    shared: u64,
}

impl Memory {
    fn add(&mut self, other: Self) {
        self.own += other.own;
        self.shared += other.shared;
    }

    /// Parses `/proc/PID/status`; zero for a process that has ended.
    fn parse(status: &str) -> Self {
        let bytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
        };
        let field = |name| bytes(name).unwrap_or(0);
        Self { own: field("RssAnon:") + field("VmPTE:"), shared: field("RssShmem:") }
    }
}

fn memory_of(pid: i32) -> Memory {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .map_or(Memory::default(), |status| Memory::parse(&status))
}

/// Memory that the kernel needs for all mappings of these processes; counting stops soon after `maximum`.
fn mappings(processes: &[Process], maximum: u64) -> u64 {
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    for process in processes {
        let Ok(mut maps) = File::open(format!("/proc/{}/maps", process.pid)) else { continue };
        while bytes <= maximum
            && let Ok(length @ 1..) = maps.read(&mut buffer)
        {
            let lines = buffer[..length].iter().filter(|&&byte| byte == b'\n').count();
            bytes += lines as u64 * MAPPING_BYTES;
        }
    }
    bytes
}

/// The bytes in the [`DIRECTORIES`] of a sandbox with this root, and the number of files, including links, and unlinked
/// files that are still open; zero while it is being set up and still sees the machine's.
fn files(root: &Path) -> (u64, u64) {
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
    let own = device(root);
    if own.is_none() || own == device(Path::new("/")) {
        return (0, 0);
    }
    let (mut bytes, mut count) = (0, 0);
    for directory in DIRECTORIES {
        let Ok(found) = rustix::fs::statvfs(root.join(directory.trim_start_matches('/'))) else { continue };
        bytes += found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
        count += found.f_files.saturating_sub(found.f_ffree);
    }
    (bytes, count)
}

/// Maximum content of the sockets of a network, from its directory in `/proc/PID`.
fn sockets(net: &Path) -> u64 {
    let read = |name: &str| fs::read_to_string(net.join(name)).unwrap_or_default();
    let counts = [read("sockstat"), read("sockstat6")];
    let all = count_of(&counts[0], "sockets: used");
    let queues = match count_of(&counts[0], "TCP: inuse") + count_of(&counts[1], "TCP6: inuse") {
        0 => 0,
        // The only sockets whose buffers grow automatically. The kernel counts their content twice.
        _ => 2 * ["tcp", "tcp6"].into_iter().map(|name| queues(&read(name))).sum::<u64>(),
    };
    all * SOCKET_BYTES + queues
}

/// The number after these words at the beginning of a line.
fn count_of(text: &str, words: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(words));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The bytes in the send and receive queues, from `/proc/PID/net/tcp`: two hexadecimal numbers in the fifth field.
fn queues(table: &str) -> u64 {
    let bytes = |line: &str| {
        let (sent, received) = line.split_whitespace().nth(4)?.split_once(':')?;
        Some(u64::from_str_radix(sent, 16).ok()? + u64::from_str_radix(received, 16).ok()?)
    };
    table.lines().skip(1).filter_map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "7 (a) R 1 (b) S 3 7 7 0 -1 0 0 0 0 0 100 50 25 25 20 0 1 0 5 0 0";
        let process = parse(7, stat).unwrap();
        assert_eq!(process.parent, 3);
        assert_eq!(process.cpu_time.as_secs_f64(), 200.0 / rustix::param::clock_ticks_per_second() as f64);
        assert!(parse(7, "7 (a) R").is_none() && parse(7, "").is_none());
    }

    #[test]
    fn memory_is_what_is_in_no_file_and_its_tables() {
        let status = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nRssShmem:\t 20 kB\nVmPTE:\t 3 kB\n";
        assert_eq!(Memory::parse(status), Memory { own: 103 << 10, shared: 20 << 10 });
        assert_eq!(Memory::parse("Name:\tx\nState:\tZ (zombie)\n"), Memory::default());
        let own = memory_of(std::process::id() as i32);
        assert!(own.own > 100 << 10, "{own:?}");
    }

    #[test]
    fn sockets_count_with_their_buffers() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("sockstat", "sockets: used 3\nTCP: inuse 0 orphan 0 tw 0 alloc 9 mem 1\nUDP: inuse 1 mem 0\n");
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
        write("tcp6", &format!("{head}   0: 0:1 0:0 01 00000010:00000100 00:0 0 0\n   1: x\n"));
        assert_eq!(sockets(directory.path()), 3 * SOCKET_BYTES, "no socket is of TCP");
        write("sockstat6", "TCP6: inuse 2\n");
        assert_eq!(sockets(directory.path()), 3 * SOCKET_BYTES + 2 * 0x110);
        assert_eq!(sockets(&directory.path().join("none")), 0);
    }
}
