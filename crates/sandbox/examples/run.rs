//! Runs a source file in a sandbox and prints the outcome: `run LANGUAGE FILE [PACKAGE]...`. Packages come from the
//! default index of their language.
#![expect(clippy::print_stdout, reason = "an example prints")]

#[cfg(not(quarry_no_sandbox))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::time::{Duration, Instant};

    use quarry_sandbox::packages::{PackageSource, Packages, Rules, Settings, default_cache};
    use quarry_sandbox::{Isolation, Limits, Runner, open};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [language, file, packages @ ..] = &arguments[..] else {
        return Err("expected at least two arguments: LANGUAGE FILE".into());
    };
    let runner = Runner::named(language)?;
    let mut program = runner.program(&std::fs::read_to_string(file)?);
    if !packages.is_empty() {
        let start = Instant::now();
        let settings = Settings {
            cache: default_cache().ok_or("no directory for packages is known")?,
            wall_time: Duration::from_secs(300),
            bytes: 1 << 30,
            pip: Rules::default(),
            npm: Rules::default(),
        };
        let provided = Packages::open(settings)?.provide(language, packages)?;
        println!("{} after {:.1?}", provided.packages.join(", "), start.elapsed());
        provided.add_to(&mut program);
    }
    let outcome = runner.run(open(Isolation::Bubblewrap)?.as_ref(), &program, &Limits::default())?;
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

#[cfg(quarry_no_sandbox)]
fn main() {
    println!("sandboxes need Linux");
}
