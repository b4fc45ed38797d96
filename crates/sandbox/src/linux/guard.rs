//! Kills sandboxes whose owner was killed while bubblewrap set them up.
//!
//! `--die-with-parent` ties each of bubblewrap's two processes to its parent only once it has been called. If the
//! parent is killed earlier, nothing would end the sandbox. So a shell waits for the end of this process, whatever
//! the cause, kills the processes that have its mark, and removes remaining cgroups.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, SEARCH_PATH};

/// The same for containers, which have the mark as a label.
const CONTAINERS: &str = r#"
read -r line && exit
for round in 1 2 3 4 5; do
    podman rm --force --time 0 $(podman ps --all --quiet --filter "label=quarry=$1") >/dev/null 2>&1
    sleep 0.2
done
"#;

/// The shell's standard input is closed when this process ends, however it ends; a line on it means that nothing is
/// left to do. Sandboxes that were just being started appear a moment later. Cgroups made by this process have its id
/// in their names, and can be removed once the kernel has released their processes.
const SCRIPT: &str = r#"
read -r line && exit
mark=$1 round=0 left=
shift
while [ $round -lt 10 ] || { [ "$left" ] && [ $round -lt 100 ]; }; do
    for process in /proc/[0-9]*; do
        name=
        { read -r name < "$process/cmdline"; } 2>/dev/null
        case $name in "$mark"*) kill -9 "${process#/proc/}" 2>/dev/null ;; esac
    done
    left=
    for parent; do
        for cgroup in "$parent/${mark%-*}"-*; do
            rmdir "$cgroup" 2>/dev/null || { [ -d "$cgroup" ] && left=1; }
        done
    done
    sleep 0.1
    round=$((round + 1))
done
"#;

/// The waiting shell. Dropping this, after all sandboxes are gone, ends it.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    mark: String,
}

impl Guard {
    /// Guards processes whose command line begins with the mark, and cgroups below these directories.
    pub(super) fn start<'p>(cgroups: impl Iterator<Item = &'p Path>) -> Result<Self, Error> {
        Self::with(SCRIPT, cgroups)
    }

    /// Guards containers that have the mark as their label `quarry`.
    pub(super) fn for_containers() -> Result<Self, Error> {
        Self::with(CONTAINERS, std::iter::empty())
    }

    fn with<'p>(script: &str, directories: impl Iterator<Item = &'p Path>) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("quarry-sandbox-{}-{number}:", std::process::id());
        let shell = Command::new("/bin/sh")
            .args(["-c", script, "quarry-guard", &mark])
            .args(directories)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals from the terminal are not meant for it.
            .process_group(0)
            .spawn()
            .map_err(Error::io("start a shell"))?;
        Ok(Self { shell, mark })
    }

    /// The name, argument 0 of the command line, under which bubblewrap has to be started.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut input) = self.shell.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sleep(name: &str) -> Child {
        Command::new("/bin/sleep").arg0(name).arg("600").spawn().unwrap()
    }

    #[test]
    fn only_marked_processes_end_with_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let cgroup = |owner: u32| directory.path().join(format!("quarry-sandbox-{owner}-0"));
        let (own, of_another) = (cgroup(std::process::id()), cgroup(std::process::id() + 1));
        [&own, &of_another].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let mut guard = Guard::start([directory.path()].into_iter()).unwrap();
        let (mut marked, mut other) = (sleep(guard.mark()), sleep("quarry-sandbox-other:"));
        std::thread::sleep(Duration::from_millis(200));
        assert!(marked.try_wait().unwrap().is_none(), "the owner lives");
        // The same happens when this process ends.
        drop(guard.shell.stdin.take());
        let ended = marked.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        guard.shell.wait().unwrap();
        assert!(!own.exists() && of_another.exists());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn an_orderly_end_takes_no_time() {
        let guard = Guard::start(std::iter::empty()).unwrap();
        let start = std::time::Instant::now();
        drop(guard);
        assert!(start.elapsed() < Duration::from_millis(900), "it looked for processes");
    }
}
