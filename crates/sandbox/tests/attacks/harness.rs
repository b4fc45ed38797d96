//! Running attacks, and checking that they leave nothing behind.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quarry_sandbox::{Bubblewrap, Ended, Limits, Outcome, Podman, Program, Runner, Sandbox};

/// Bubblewrap with both ways to limit memory, and Podman, if they work here.
pub(crate) fn sandboxes() -> &'static [Box<dyn Sandbox>] {
    static SANDBOXES: OnceLock<Vec<Box<dyn Sandbox>>> = OnceLock::new();
    SANDBOXES.get_or_init(|| {
        let mut sandboxes = namespaces();
        match Podman::open(None) {
            Ok(podman) => sandboxes.push(Box::new(podman)),
            Err(error) => skipped(&error.to_string()),
        }
        sandboxes
    })
}

/// Bubblewrap with both ways to limit memory.
pub(crate) fn namespaces() -> Vec<Box<dyn Sandbox>> {
    let both = Bubblewrap::open().and_then(|first| Ok((first, Bubblewrap::open()?.without_cgroups())));
    match both {
        Ok((first, second)) => vec![Box::new(first), Box::new(second)],
        Err(error) => {
            skipped(&error.to_string());
            Vec::new()
        }
    }
}

pub(crate) fn skipped(why: &str) {
    // Not with a macro, whose output the test runner hides.
    let _ = writeln!(std::io::stderr(), "\nATTACKS ARE SKIPPED, A SANDBOX IS NOT TESTED: {why}\n");
}

/// Small limits, so that attacks reach them soon; but enough time for programs that exit by themselves on a busy
/// machine.
pub(crate) fn limits() -> Limits {
    Limits {
        wall_time: Duration::from_secs(120),
        memory_bytes: 192 << 20,
        processes: 32,
        directory_bytes: 4 << 20,
        file_bytes: 16 << 20,
        open_files: 64,
        ..Limits::default()
    }
}

/// A Python program with helpers for attacks, and a unique argument in its processes' command lines.
pub(crate) fn program(source: &str) -> (Program, String) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let token = format!("attack-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let runner = Runner::named("python").unwrap();
    assert!(runner.is_available(), "python3 is needed to attack the sandbox");
    let mut program = runner.program(source);
    program.files.push(("attack.py".to_owned(), include_bytes!("attack.py").to_vec()));
    program.command.push(token.clone());
    (program, token)
}

/// Runs an attack in each sandbox. Nothing may be left of it.
pub(crate) fn attack(source: &str, limits: &Limits, check: impl Fn(&Outcome)) {
    attack_in(sandboxes(), source, limits, check);
}

/// The same in the given sandboxes.
pub(crate) fn attack_in(
    sandboxes: &[Box<dyn Sandbox>],
    source: &str,
    limits: &Limits,
    check: impl Fn(&Outcome),
) {
    for sandbox in sandboxes {
        let (program, token) = program(source);
        let outcome = sandbox.run(&program, limits).unwrap();
        assert_eq!(processes(&token), [] as [PathBuf; 0], "processes are left");
        assert!(!outcome.stdout.text().contains("ESCAPED"), "{}", outcome.stdout.text());
        check(&outcome);
    }
}

/// An attack that must exit by itself, without having found a way out.
pub(crate) fn fails(source: &str) {
    attack(source, &limits(), |outcome| {
        assert_eq!(outcome.ended, Ended::Exited { code: 0 }, "{}", outcome.stderr.text());
        assert!(outcome.stdout.text().ends_with("the end\n"), "{}", outcome.stdout.text());
    });
}

/// The living processes whose command line contains a token.
pub(crate) fn processes(token: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(holds).collect()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
