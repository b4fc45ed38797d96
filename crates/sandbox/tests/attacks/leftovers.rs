//! Outliving the run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use quarry_sandbox::{Bubblewrap, Ended, Error, Limits, Podman, Sandbox};

use crate::harness::{attack, eventually, limits, namespaces, processes, program, skipped};

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
    let holder = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nprint('done', flush=True)";
    attack(holder, &limits(), |outcome| {
        assert_eq!((outcome.ended, outcome.stdout.text().as_str()), (Ended::Exited { code: 0 }, "done\n"));
        assert!(outcome.wall_time < Duration::from_secs(100), "{:?}", outcome.wall_time);
    });
}

#[test]
fn killing_all_visible_processes_kills_only_the_program() {
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
for directory in ['/box', '/tmp', '/dev/shm', '/var/tmp', '/']:
    try: open(f'{{directory}}/{name}', 'w').write('x')
    except OSError: pass
"
    );
    attack(&source, &limits(), |outcome| assert_eq!(outcome.ended, Ended::Exited { code: 0 }));
    for directory in ["/box", "/tmp", "/dev/shm", "/var/tmp", "/", &env::temp_dir().to_string_lossy()] {
        assert!(!Path::new(directory).join(&name).exists(), "in {directory}");
    }
}

/// Collects the cgroups that a process created for its runs.
fn cgroups(directory: &Path, process: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(&format!("quarry-sandbox-{process}-")) {
                found.push(entry.path());
            }
            cgroups(&entry.path(), process, found);
        }
    }
}

const TOKEN: &str = "QUARRY_ATTACK_TOKEN";

/// Not a test by itself: the next one starts and kills it.
#[test]
#[ignore = "runs until it is killed"]
fn run_until_killed() {
    let (mut program, _) =
        program("import os, time\nos.fork()\nos.setsid() if os.fork() else 0\ntime.sleep(120)");
    program.command.push(env::var(TOKEN).unwrap());
    let sandboxes = namespaces();
    for sandbox in &sandboxes {
        sandbox.run(&program, &Limits { wall_time: Duration::from_secs(1), ..limits() }).unwrap();
    }
    let mut left = Vec::new();
    cgroups(Path::new("/sys/fs/cgroup"), std::process::id(), &mut left);
    assert_eq!(left, [] as [PathBuf; 0]);
    sandboxes[0].run(&program, &Limits { wall_time: Duration::from_secs(120), ..limits() }).unwrap();
}

#[test]
fn programs_end_when_who_runs_them_is_killed() {
    if namespaces().is_empty() {
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
    // The last run, after those that exceeded their time.
    std::thread::sleep(Duration::from_secs(4));
    eventually("the program runs", || processes(&token).len() == 6);
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program is gone", || processes(&token).is_empty());

    // As soon as the kernel releases it.
    eventually("its cgroup is removed", || {
        let mut left = Vec::new();
        cgroups(Path::new("/sys/fs/cgroup"), child.id(), &mut left);
        left.is_empty()
    });
}

/// Children of this process that have ended and were not waited for.
fn zombies() -> Vec<String> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let all = entries.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
    all.filter(|status| status.contains("\nState:\tZ") && status.contains(&own)).collect()
}

/// Not a test by itself: the next one starts it, because it has to be alone in its process.
#[test]
#[ignore = "looks at all children of its process"]
fn leave_no_zombie() {
    // Like process 1 of a container.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let run = |sandbox: Box<dyn Sandbox>| {
        for source in ["import os\nif os.fork() == 0: os.fork()", "import time\ntime.sleep(60)"] {
            let limits = Limits { wall_time: Duration::from_secs(1), ..limits() };
            sandbox.run(&program(source).0, &limits).unwrap();
        }
    };
    namespaces().into_iter().for_each(run);
    assert_eq!(zombies(), [] as [String; 0]);
    if let Ok(podman) = Podman::open(None) {
        run(Box::new(podman));
        assert_eq!(zombies(), [] as [String; 0]);
    }
}

#[test]
fn no_zombie_is_left() {
    let test = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "leftovers::leave_no_zombie"])
        .output()
        .unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
}

/// Not a test by itself: the next one starts it as another user.
#[test]
#[ignore = "is run as root of a namespace"]
fn be_root_of_a_namespace() {
    match Bubblewrap::open() {
        Err(Error::Uncounted) => {}
        Err(error) => panic!("{error}"),
        Ok(sandbox) => {
            let source = "
import os, time
try:
    for _ in range(100):
        if os.fork() == 0: time.sleep(60)
    print('ESCAPED')
except BlockingIOError: print('bounded')
";
            let outcome = sandbox.run(&program(source).0, &limits()).unwrap();
            assert_eq!(outcome.stdout.text(), "bounded\n", "{}", outcome.stderr.text());
        }
    }
}

#[test]
fn root_of_a_namespace_without_others_is_bounded_or_refused() {
    let with = |words: &[&str]| {
        let is_possible = Command::new(words[0])
            .args(&words[1..])
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if namespaces().is_empty() || !is_possible {
            return skipped(&format!("{words:?} does not work here"));
        }
        // Readable by every user.
        let directory = tempfile::tempdir().unwrap();
        let open_to_all: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.path(), open_to_all).unwrap();
        let test = directory.path().join("test");
        fs::copy(env::current_exe().unwrap(), &test).unwrap();
        let ran = Command::new(words[0])
            .args(&words[1..])
            .arg(&test)
            .args(["--ignored", "--exact", "--nocapture", "leftovers::be_root_of_a_namespace"])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    with(&["unshare", "--user", "--map-root-user"]);
    with(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
    ]);
}

fn containers(process: u32) -> Vec<String> {
    let output = Command::new("podman").args(["ps", "--all", "--format", "{{.Names}}"]).output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let own = format!("quarry-sandbox-{process}-");
    names.lines().filter(|name| name.starts_with(&own)).map(str::to_owned).collect()
}

/// Not a test by itself: the next one starts and kills it.
#[test]
#[ignore = "runs until it is killed"]
fn run_a_container_until_killed() {
    let (mut program, _) = program("import os, time\nos.fork()\ntime.sleep(120)");
    program.command.push(env::var(TOKEN).unwrap());
    let podman = Podman::open(None).unwrap();
    podman.run(&program, &Limits { wall_time: Duration::from_secs(1), ..limits() }).unwrap();
    assert_eq!(containers(std::process::id()), [] as [String; 0]);
    podman.run(&program, &Limits { wall_time: Duration::from_secs(120), ..limits() }).unwrap();
}

#[test]
fn containers_end_when_who_runs_them_is_killed() {
    if Podman::open(None).is_err() {
        return;
    }
    let token = format!("killed-container-{}", std::process::id());
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "leftovers::run_a_container_until_killed"])
        .env(TOKEN, &token)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The second run, after the first one exceeded its time: two Python processes of the program.
    let python = || processes(&token).iter().filter(|path| is_python(path)).count();
    eventually("the program runs", || python() == 2);
    eventually("it was ended by its time", || python() == 0);
    eventually("the program runs", || python() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program is gone", || processes(&token).is_empty());
    eventually("the container is gone", || containers(child.id()).is_empty());
}

fn is_python(process: &Path) -> bool {
    fs::read_link(process.join("exe"))
        .is_ok_and(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")))
}
