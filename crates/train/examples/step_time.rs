//! Measures steps of training on generated pairs:
//! `cargo run --release -p quarry-train --example step_time -- MODEL [STEPS] [cuda]`
//!
//! Codes have 10 to 110 words, queries 4 to 12, as those of training data differ in length. Linux also gives the processor's
//! time and page faults.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use quarry_train::encoder::{Device, Progress, Provenance, Row, Run, Select, Settings, train};
use quarry_transformer::trainable::Trainable;

const WORDS: [&str; 16] = [
    "sort", "list", "value", "open", "file", "read", "every", "line", "return", "self", "index", "name", "(",
    ")", "=", ".",
];

fn words(random: &mut fastrand::Rng, n: std::ops::Range<usize>) -> String {
    let n = random.usize(n);
    (0..n).map(|_| WORDS[random.usize(..WORDS.len())]).collect::<Vec<_>>().join(" ")
}

/// Seconds of the processor in this process and in the system for it, and page faults.
fn usage() -> Option<[f64; 3]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<f64> =
        stat.rsplit_once(") ")?.1.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect();
    // In hundredths of a second.
    Some([fields.get(11)? / 100.0, fields.get(12)? / 100.0, *fields.get(7)?])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name the directory of a model")?;
    let n_steps: usize = arguments.next().map_or(Ok(6), |n| n.parse())?;
    let device = if arguments.next().as_deref() == Some("cuda") { Device::cuda()? } else { Device::cpu() };
    let model = Trainable::read(Path::new(&path))?;
    let mut random = fastrand::Rng::with_seed(7);
    let settings = Settings { select: Select::Last, checkpoint_steps: 0, ..Settings::default() };
    let rows: Vec<Row> = (0..n_steps * settings.batch)
        .map(|_| Row {
            query: words(&mut random, 4..12),
            code: words(&mut random, 10..110),
            ..Row::default()
        })
        .collect();
    let provenance = Provenance {
        command: String::new(),
        base: path,
        data: Vec::new(),
        licenses: Vec::new(),
        leakage: String::new(),
        departures: Vec::new(),
        version: String::new(),
    };
    let directory = tempfile::tempdir()?;
    let run = Run {
        model: &model,
        rows: &rows,
        held_out: &[],
        corpus: &[],
        settings: &settings,
        teacher: None,
        device: &device,
        provenance: &provenance,
        directory: directory.path(),
    };
    let mut start = None;
    train(&run, |progress| match (&progress, start) {
        // The first step is not counted.
        (Progress::Step { step: 1, .. }, _) => start = Some((Instant::now(), usage())),
        (Progress::Step { step, loss }, Some((instant, before))) if *step as usize == n_steps => {
            let n = (n_steps - 1) as f64;
            println!("{:.2} s a step, loss {loss}", instant.elapsed().as_secs_f64() / n);
            if let (Some(before), Some(after)) = (before, usage()) {
                let [own, system, faults] = [0, 1, 2].map(|at| (after[at] - before[at]) / n);
                println!("processor: {own:.2} s, system {system:.2} s, {faults:.0} page faults a step");
            }
        }
        _ => {}
    })?;
    Ok(())
}
