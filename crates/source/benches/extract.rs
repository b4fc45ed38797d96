//! Cost of extraction beside parsing.
//!
//! Compares `extract` and `extract_with_references` with tree-sitter's parser alone, on the same bytes with the same
//! grammars, one thread: `cargo bench -p quarry-source --bench extract` on the fixtures, each repeated to about 256 KiB, or
//! `... -- PATH...` on the files in those directories. Prints the best of several passes over all files of a language.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quarry_source::{Language, Limits, extract, extract_with_references, language_for};
use tree_sitter::Parser;

const FIXTURE_BYTES: usize = 256 << 10;
const PASSES: usize = 5;
/// Maximum bytes measured of one language.
const LANGUAGE_BYTES: usize = 20 << 20;

fn main() -> std::io::Result<()> {
    // Cargo passes `--bench`.
    let paths: Vec<PathBuf> =
        std::env::args_os().skip(1).filter(|argument| argument != "--bench").map(PathBuf::from).collect();
    let repeat = paths.is_empty();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut directories = if repeat { vec![fixtures] } else { paths };
    let mut texts: BTreeMap<&str, (Language, Vec<Vec<u8>>, usize)> = BTreeMap::new();
    while let Some(path) = directories.pop() {
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                directories.push(entry?.path());
            }
        } else if metadata.is_file()
            && let Some(language) = language_for(&path, b"")
            && language.grammar().is_some()
        {
            let (_, texts, bytes) = texts.entry(language.name()).or_insert((language, Vec::new(), 0));
            if *bytes < LANGUAGE_BYTES {
                let text = fs::read(&path)?;
                let times = if repeat { FIXTURE_BYTES.div_ceil(text.len()) } else { 1 };
                *bytes += text.len() * times;
                texts.push(text.repeat(times));
            }
        }
    }
    println!(
        "{:<12} {:>6} {:>8} {:>12} {:>14} {:>9} {:>16} {:>9}",
        "language", "files", "MB", "parse MB/s", "extract MB/s", "overhead", "with calls MB/s", "more"
    );
    for (name, (language, texts, bytes)) in texts {
        let Some(grammar) = language.grammar() else { continue };
        let mut parser = Parser::new();
        if parser.set_language(&grammar).is_err() {
            continue;
        }
        let mut parse = || texts.iter().for_each(|text| drop(black_box(parser.parse(text, None))));
        let mut extract = || texts.iter().for_each(|text| drop(black_box(extract(language, text))));
        let limits = Limits::default();
        let mut with_calls = || {
            texts.iter().for_each(|text| drop(black_box(extract_with_references(language, text, &limits))))
        };
        let [parse, extract, with_calls] = best_of([&mut parse, &mut extract, &mut with_calls]);
        let more = |time: Duration, than: Duration| 100.0 * (time.as_secs_f64() / than.as_secs_f64() - 1.0);
        let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
        println!(
            "{name:<12} {:>6} {:>8.2} {:>12.2} {:>14.2} {:>8.1}% {:>16.2} {:>8.1}%",
            texts.len(),
            bytes as f64 / 1e6,
            speed(parse),
            speed(extract),
            more(extract, parse),
            speed(with_calls),
            more(with_calls, extract),
        );
    }
    Ok(())
}

/// Shortest time of each, run in turns so that both meet the same disturbances.
fn best_of<const N: usize>(mut works: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..PASSES {
        for (work, best) in works.iter_mut().zip(&mut best) {
            let start = Instant::now();
            work();
            *best = start.elapsed().min(*best);
        }
    }
    best
}
