//! Runs a source file in a sandbox and prints the outcome: `run LANGUAGE FILE`.
#![expect(clippy::print_stdout, reason = "an example prints")]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use quarry_sandbox::{Isolation, Limits, Runner, open};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [language, file] = &arguments[..] else {
        return Err("expected two arguments: LANGUAGE FILE".into());
    };
    let program = Runner::named(language)?.program(&std::fs::read_to_string(file)?);
    let outcome = open(Isolation::Bubblewrap)?.run(&program, &Limits::default())?;
    println!("{}", outcome.stdout.text());
    println!("{}", outcome.stderr.text());
    println!(
        "{:?} after {:.1?}, {:.1?} of CPU time, {} MiB (bounded by: {:?})",
        outcome.ended,
        outcome.wall_time,
        outcome.cpu_time,
        outcome.peak_memory_bytes >> 20,
        outcome.memory_bound
    );
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("sandboxes need Linux");
}
