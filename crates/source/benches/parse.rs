//! Time of only parsing on all cores: the floor that indexing is compared with (`bench/compare_speed.py`).
//!
//! `cargo bench -p quarry-source --bench parse -- PATH...` reads the files below the paths that have a grammar and at
//! most 1,000,000 bytes (as many as are indexed), without hidden ones, then parses each of them with tree-sitter's
//! parser alone, several times. Prints one JSON object with the median.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quarry_source::{Language, language_for};
use tree_sitter::Parser;

const PASSES: usize = 5;
const MAX_BYTES: usize = 1_000_000;

fn main() -> io::Result<()> {
    // Cargo passes `--bench`.
    let paths = std::env::args_os().skip(1).filter(|argument| argument != "--bench").map(PathBuf::from);
    let files = read(paths.collect())?;
    if files.is_empty() {
        println!("usage: PATH...");
        return Ok(());
    }
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let mut times: Vec<Duration> = (0..PASSES).map(|_| parse(&files, n_threads)).collect();
    times.sort_unstable();
    let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
    println!(
        "{{\"files\": {}, \"bytes\": {bytes}, \"threads\": {n_threads}, \"parse_ms\": {:.3}}}",
        files.len(),
        times[PASSES / 2].as_secs_f64() * 1e3
    );
    Ok(())
}

fn read(mut paths: Vec<PathBuf>) -> io::Result<Vec<(Language, Vec<u8>)>> {
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            let entries = fs::read_dir(&path)?.collect::<io::Result<Vec<_>>>()?;
            let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
            paths.extend(
                entries.iter().filter(|entry| !is_hidden(&entry.file_name())).map(|entry| entry.path()),
            );
        } else if metadata.is_file() {
            let text = fs::read(&path)?;
            let language = language_for(&path, &text).filter(|language| language.grammar().is_some());
            files.extend(language.filter(|_| text.len() <= MAX_BYTES).map(|language| (language, text)));
        }
    }
    Ok(files)
}

/// Time to parse all files; a thread that is done with one takes the next.
fn parse(files: &[(Language, Vec<u8>)], n_threads: usize) -> Duration {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let mut parser = Parser::new();
                while let Some((language, text)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if language.grammar().is_some_and(|grammar| parser.set_language(&grammar).is_ok()) {
                        black_box(parser.parse(text, None));
                    }
                }
            });
        }
    });
    start.elapsed()
}
