//! Supervising a process from start to end: its output, time and memory.

use std::convert::Infallible;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, pidfd_open, set_child_subreaper, waitid,
};

use super::resources::ResourceMonitor;
use crate::{Captured, Ended, Error, Limits, Outcome};

/// Time limit for killed processes to disappear.
pub(crate) const KILL_TIME: Duration = Duration::from_secs(10);

/// A year: longer durations may overflow the clock.
const MAX_WALL_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One output stream of a program, of which the beginning is kept.
pub(crate) struct Stream {
    pipe: Option<PipeReader>,
    captured: Captured,
    limit: usize,
}

impl Stream {
    pub(super) fn new(pipe: PipeReader, limits: &Limits) -> Self {
        Self::optional(Some(pipe), limits)
    }

    pub(super) fn optional(pipe: Option<PipeReader>, limits: &Limits) -> Self {
        Self { pipe, captured: Captured::default(), limit: limits.output_bytes }
    }

    /// Reads available data, or detects the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let count = match pipe.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        };
        if count == 0 {
            self.pipe = None;
        }
        let room = self.limit - self.captured.bytes.len();
        self.captured.bytes.extend_from_slice(&buffer[..count.min(room)]);
        self.captured.total_bytes += count as u64;
        Ok(())
    }
}

pub(crate) enum Supervised<A> {
    /// It exited or exceeded a limit; with the exit status from the system.
    Ended(Outcome, ExitStatus),
    Aborted(A),
}

/// Never aborts: for programs that only their limits stop.
pub(crate) fn never() -> Option<Infallible> {
    None
}

impl Supervised<Infallible> {
    pub(super) fn ended(self) -> (Outcome, ExitStatus) {
        match self {
            Self::Ended(outcome, status) => (outcome, status),
            Self::Aborted(never) => match never {},
        }
    }
}

/// Waits for a process, and calls `kill` when it ends or exceeds a limit. `kill` ends the process and everything that
/// belongs to it. The streams are its output, its error output and its reports. `should_abort` is called every few
/// milliseconds; if it returns a reason, the process is aborted and the reason is the result.
pub(crate) fn supervise<A>(
    child: &mut Child,
    mut streams: [Stream; 3],
    limits: &Limits,
    monitor: &mut ResourceMonitor,
    should_abort: &mut dyn FnMut() -> Option<A>,
    kill: &dyn Fn(),
) -> Result<Supervised<A>, Error> {
    let process =
        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(Error::io("watch the program"))?;
    let mut buffer = vec![0; 64 << 10];
    let start = Instant::now();
    let mut look_at = start;
    // When the program has to have ended: at its time limit, or soon after it was killed.
    let mut deadline = start + limits.wall_time.min(MAX_WALL_TIME);
    let mut stopped = None;
    let mut aborted = None;
    let mut exit: Option<(ExitStatus, Duration)> = None;
    while exit.is_none() || streams.iter().any(|stream| stream.pipe.is_some()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let [stdout, stderr, report] = &streams;
        let waits = [exit.is_none().then_some(process.as_fd()), pipe(stdout), pipe(stderr), pipe(report)];
        let [process_ended, readable @ ..] = wait_for(waits, left.min(monitor.interval()))?;
        for (stream, _) in streams.iter_mut().zip(readable).filter(|(_, readable)| *readable) {
            stream.read(&mut buffer).map_err(Error::io("read the program's output"))?;
        }
        if process_ended {
            let status = child.wait().map_err(Error::io("wait for the program"))?;
            exit = Some((status, start.elapsed()));
            kill();
            deadline = Instant::now() + KILL_TIME;
            continue;
        }
        if exit.is_none() && stopped.is_none() && aborted.is_none() && Instant::now() >= look_at {
            stopped = monitor.exceeded(limits);
            if stopped.is_none() {
                aborted = should_abort();
            }
            if stopped.is_some() || aborted.is_some() {
                kill();
                deadline = Instant::now() + KILL_TIME;
            }
            look_at = Instant::now() + monitor.interval();
        }
        if Instant::now() >= deadline {
            if exit.is_some() || stopped.is_some() || aborted.is_some() {
                return Err(Error::Unkillable { seconds: KILL_TIME.as_secs() });
            }
            stopped = Some(Ended::WallTime);
            kill();
            deadline = Instant::now() + KILL_TIME;
        }
    }
    let Some((status, wall_time)) = exit else { return Err(Error::Unkillable { seconds: 0 }) };
    if let Some(reason) = aborted {
        return Ok(Supervised::Aborted(reason));
    }
    if stopped.is_none() && matches!(monitor, ResourceMonitor::Cgroup(_)) && monitor.is_out_of_memory() {
        stopped = Some(Ended::Memory);
    }
    let usage = monitor.usage();
    let code = exit_code(status);
    let [stdout, stderr, report] = streams.map(|stream| stream.captured);
    let outcome = Outcome {
        ended: stopped.unwrap_or_else(|| ended_by_itself(code, usage.cpu_time, limits)),
        stdout,
        stderr,
        report,
        wall_time,
        cpu_time: usage.cpu_time,
        peak_memory_bytes: usage.memory_bytes,
        memory_bound: monitor.bound(),
    };
    Ok(Supervised::Ended(outcome, status))
}

/// An exit status as in shells.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A program may exit with any status, so that one for a signal counts as a limit only if the time was used up.
fn ended_by_itself(code: i32, cpu_time: Duration, limits: &Limits) -> Ended {
    let by_limit = [libc::SIGXCPU, libc::SIGKILL].contains(&(code - 128));
    if by_limit && cpu_time + Duration::from_millis(500) >= limits.cpu_time {
        Ended::CpuTime
    } else {
        Ended::Exited { code }
    }
}

/// Makes this process the parent of orphaned descendants: both bubblewrap and Podman exit without waiting for some of
/// their processes, which would be left to process 1, and in a container that may be a program that does not reap
/// them.
pub(crate) fn adopt_orphans() -> Result<(), Error> {
    set_child_subreaper(Some(getpid())).map_err(Error::io("become the parent of orphans"))
}

/// Reaps an orphaned process if it ends within `time`; returns whether it has ended.
pub(crate) fn reap(process: &OwnedFd, time: Duration) -> bool {
    let has_ended = wait_for([Some(process.as_fd())], time).is_ok_and(|[has_ended]| has_ended);
    if has_ended {
        // Its parent may have waited for it.
        let _ = waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
    has_ended
}

fn pipe(stream: &Stream) -> Option<std::os::fd::BorrowedFd<'_>> {
    stream.pipe.as_ref().map(AsFd::as_fd)
}

/// Waits, for at most `time`, until some of these are readable or have ended; returns which.
pub(crate) fn wait_for<const COUNT: usize>(
    descriptors: [Option<std::os::fd::BorrowedFd<'_>>; COUNT],
    time: Duration,
) -> Result<[bool; COUNT], Error> {
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(Error::Io { action: "wait for the program", source: error.into() }),
    }
    let mut polled = polled.iter();
    Ok(descriptors.map(|fd| fd.is_some() && polled.next().is_some_and(|polled| !polled.revents().is_empty())))
}
