//! Starting a process that inherits only the given file descriptors.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{MemfdFlags, Mode};

use crate::{Error, Limits};

/// File descriptors for a child, numbered from 3.
#[derive(Default)]
pub(crate) struct Descriptors(Vec<OwnedFd>);

impl Descriptors {
    /// Adds a descriptor and returns its number in the child, for the command line.
    pub(super) fn add(&mut self, descriptor: impl Into<OwnedFd>) -> String {
        self.0.push(descriptor.into());
        (self.0.len() + 2).to_string()
    }

    /// Adds an in-memory file with this content, positioned at its beginning.
    pub(super) fn add_content(&mut self, content: &[u8]) -> Result<String, Error> {
        let descriptor = rustix::fs::memfd_create(c"quarry-sandbox", MemfdFlags::CLOEXEC)
            .map_err(Error::io("make a file in memory"))?;
        let mut file = File::from(descriptor);
        file.write_all(content).and_then(|()| file.rewind()).map_err(Error::io("write a file in memory"))?;
        Ok(self.add(file))
    }

    pub(super) fn add_report(&mut self) -> Result<Report, Error> {
        let (pipe, end) = pipe()?;
        // If root starts the program, it runs as another user, and opens the pipe by its path in `/proc`: the
        // processes that it starts do not always inherit the descriptor.
        rustix::fs::fchmod(&end, Mode::from_raw_mode(0o622))
            .map_err(Error::io("open a pipe for the program"))?;
        Ok(Report { pipe, number: self.add(end) })
    }
}

pub(crate) struct Report {
    pub pipe: PipeReader,
    /// The number of the writing end's descriptor in the child.
    pub number: String,
}

pub(crate) fn pipe() -> Result<(PipeReader, PipeWriter), Error> {
    io::pipe().map_err(Error::io("make a pipe"))
}

/// Starts a command with these descriptors, as a member of the cgroups with these membership files.
pub(crate) fn spawn(
    mut command: Command,
    descriptors: Descriptors,
    cgroups: Vec<File>,
) -> Result<Child, Error> {
    join(&mut command, cgroups);
    close_inherited(&mut command);
    let mappings = descriptors
        .0
        .into_iter()
        .zip(3..)
        .map(|(parent_fd, child_fd): (OwnedFd, RawFd)| FdMapping { parent_fd, child_fd });
    command
        .fd_mappings(mappings.collect())
        .map_err(|error| Error::Io { action: "pass file descriptors", source: io::Error::other(error) })?;
    command.spawn().map_err(Error::io("start the program"))
}

/// Lets the child put itself into cgroups: moving another process waits, some 10 ms even on an idle machine, until no
/// process of the whole machine is starting or ending.
#[expect(unsafe_code, reason = "only between fork and exec is the child there and does not run yet")]
fn join(command: &mut Command, cgroups: Vec<File>) {
    let join = move || cgroups.iter().try_for_each(|members| Ok(rustix::io::write(members, b"0").map(drop)?));
    // SAFETY: between fork and exec this writes to files that are open already; it allocates nothing and takes no
    // lock.
    unsafe { command.pre_exec(join) };
}

/// Descriptors that this process has open without the close-on-exec flag, because it inherited them or a library
/// opened them, would be open in the sandbox too: a way out, if one is a directory or a socket.
#[expect(unsafe_code, reason = "only between fork and exec are the descriptors the child's alone")]
fn close_inherited(command: &mut Command) {
    let mark = || {
        // SAFETY: a system call that takes numbers only and marks descriptors of the forked child; it allocates
        // nothing and takes no lock, as is required between fork and exec.
        match unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) }
        {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: see above; the closure captures nothing.
    unsafe { command.pre_exec(mark) };
}

/// The command line of `prlimit(1)` that applies the limits to the command after it.
pub(crate) fn resource_limits(limits: &Limits) -> Vec<String> {
    let cpu_seconds = limits.cpu_time.as_secs_f64().ceil().max(1.0);
    vec![
        // The first limit sends a signal that can be handled, the second one kills.
        format!("--cpu={cpu_seconds}:{}", cpu_seconds + 1.0),
        format!("--fsize={}", limits.file_bytes),
        format!("--nofile={}", limits.open_files),
        "--core=0".to_owned(),
    ]
}
