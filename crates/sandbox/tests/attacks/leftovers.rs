//! Staying after the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use quarry_sandbox::{Ended, Limits, Sandbox};

use crate::harness::{attack, eventually, limits, processes, program, sandboxes};

#[test]
fn daemons_end_with_their_program() {
    let daemon = "
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.closerange(0, 100)
        while True: time.sleep(1)
    os._exit(0)
os.wait()
";
    attack(daemon, &limits(), |outcome| assert_eq!(outcome.ended, Ended::Exited { code: 0 }));
}

#[test]
fn holding_the_output_open_does_not_delay_the_end() {
    let holder =
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nprint('done', flush=True)";
    attack(holder, &limits(), |outcome| {
        assert_eq!((outcome.ended, outcome.stdout.text().as_str()), (Ended::Exited { code: 0 }, "done\n"));
        assert!(outcome.wall_time < Duration::from_secs(15), "{:?}", outcome.wall_time);
    });
}

#[test]
fn killing_all_that_can_be_seen_kills_the_program_only() {
    let killer = "
import os, signal
for process in (1, os.getppid(), -1, 0):
    try: os.kill(process, signal.SIGKILL)
    except OSError: pass
";
    attack(killer, &limits(), |outcome| {
        assert_eq!(outcome.ended, Ended::Exited { code: 128 + 9 }, "{}", outcome.stderr.text());
    });
}

#[test]
fn no_file_is_left() {
    let name = format!("quarry-attack-{}", std::process::id());
    let source = format!(
        "
for folder in ['/box', '/tmp', '/dev/shm', '/var/tmp', '/']:
    try: open(f'{{folder}}/{name}', 'w').write('x')
    except OSError: pass
"
    );
    attack(&source, &limits(), |outcome| assert_eq!(outcome.ended, Ended::Exited { code: 0 }));
    for folder in ["/box", "/tmp", "/dev/shm", "/var/tmp", "/", &env::temp_dir().to_string_lossy()] {
        assert!(!Path::new(folder).join(&name).exists(), "in {folder}");
    }
}

/// The cgroups that a process made for its runs.
fn cgroups(folder: &Path, process: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(&format!("quarry-sandbox-{process}-")) {
                found.push(entry.path());
            }
            cgroups(&entry.path(), process, found);
        }
    }
}

const TOKEN: &str = "QUARRY_ATTACK_TOKEN";

/// Not a test: what the next one starts and kills.
#[test]
#[ignore = "runs until it is killed"]
fn run_until_killed() {
    let (mut program, _) =
        program("import os, time\nos.fork()\nos.setsid() if os.fork() else 0\ntime.sleep(120)");
    program.command.push(env::var(TOKEN).unwrap());
    for sandbox in sandboxes() {
        sandbox.run(&program, &Limits { wall_time: Duration::from_secs(1), ..limits() }).unwrap();
    }
    let mut left = Vec::new();
    cgroups(Path::new("/sys/fs/cgroup"), std::process::id(), &mut left);
    assert_eq!(left, [] as [PathBuf; 0]);
    sandboxes()[0].run(&program, &Limits { wall_time: Duration::from_secs(120), ..limits() }).unwrap();
}

#[test]
fn programs_end_when_who_runs_them_is_killed() {
    if sandboxes().is_empty() {
        return;
    }
    let token = format!("killed-{}", std::process::id());
    let start = || {
        Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "leftovers::run_until_killed"])
            .env(TOKEN, &token)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut child = start();
    // Two of bubblewrap, and four of the program.
    eventually("the program runs", || processes(&token).len() == 6);
    // The last run, after those that ended by their time.
    std::thread::sleep(Duration::from_secs(4));
    eventually("the program runs", || processes(&token).len() == 6);
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program is gone", || processes(&token).is_empty());

    // What it could not remove, its cgroup, is removed by the next one.
    quarry_sandbox::Bubblewrap::open().unwrap();
    let mut left = Vec::new();
    cgroups(Path::new("/sys/fs/cgroup"), child.id(), &mut left);
    assert_eq!(left, [] as [PathBuf; 0]);
}
