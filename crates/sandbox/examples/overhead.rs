//! Measures the overhead of sandboxes: runs the same programs in the bare interpreter, in a plain bubblewrap, and in
//! the sandboxes, in turn. `overhead [ROUNDS]` prints the minimum, the median and the quartiles of each.
#![expect(clippy::print_stdout, reason = "an example prints")]

/// A way to run the program once.
#[cfg(not(quarry_no_sandbox))]
type Way<'a> = Box<dyn Fn() -> Result<(), Box<dyn std::error::Error>> + 'a>;

#[cfg(not(quarry_no_sandbox))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use quarry_sandbox::{Bubblewrap, Ended, Limits, Podman, Runner, Sandbox};

    const PLAIN: &[&str] = &[
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--unshare-all",
        "--die-with-parent",
        "--",
    ];
    let rounds: usize = std::env::args().nth(1).map_or(Ok(20), |rounds| rounds.parse())?;
    let bubblewrap = Bubblewrap::open()?;
    let watched = Bubblewrap::open()?.without_cgroups();
    let podman = Podman::open(None).inspect_err(|error| println!("without Podman: {error}")).ok();
    let runner = Runner::named("python")?;
    let programs = [
        ("nothing", ""),
        (
            "one second of work",
            "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass",
        ),
        ("a fixed amount of work", "total = 0\nfor number in range(9_000_000): total += number % 7"),
    ];
    for (name, source) in programs {
        let time = |action: &dyn Fn() -> Result<(), Box<dyn std::error::Error>>| {
            let start = Instant::now();
            action().map(|()| start.elapsed())
        };
        let bare = |before: &[&str]| {
            let words: Vec<&str> =
                before.iter().copied().chain(["/usr/bin/python3", "-s", "-c", source]).collect();
            let status =
                Command::new(words[0]).args(&words[1..]).env_clear().stdin(Stdio::null()).status()?;
            if status.success() { Ok(()) } else { Err(format!("{words:?}: {status}").into()) }
        };
        let inside = |sandbox: &dyn Sandbox| {
            let outcome = sandbox.run(&runner.program(source), &Limits::default())?;
            let ended = outcome.ended;
            if ended == (Ended::Exited { code: 0 }) { Ok(()) } else { Err(format!("{ended:?}").into()) }
        };
        let plain: Vec<&str> = ["/usr/bin/bwrap"].iter().chain(PLAIN).copied().collect();
        let mut ways: Vec<(&str, Way<'_>)> = vec![
            ("bare interpreter", Box::new(|| bare(&[]))),
            ("plain bubblewrap", Box::new(|| bare(&plain))),
            ("sandbox, cgroup", Box::new(|| inside(&bubblewrap))),
            ("sandbox, watchdog", Box::new(|| inside(&watched))),
        ];
        if let Some(podman) = &podman {
            ways.push(("Podman", Box::new(|| inside(podman))));
        }
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for ((_, way), times) in ways.iter().zip(&mut times) {
                times.push(time(way)?);
            }
        }
        println!("{name}, {rounds} rounds:");
        for ((way, _), times) in ways.iter().zip(&mut times) {
            times.sort();
            let at = |part: usize| times[(times.len() - 1) * part / 4].as_secs_f64() * 1000.0;
            println!("  {way:<20} {:8.1} ms, median {:.1} ({:.1} to {:.1})", at(0), at(2), at(1), at(3));
        }
    }
    Ok(())
}

#[cfg(quarry_no_sandbox)]
fn main() {
    println!("sandboxes need Linux");
}
