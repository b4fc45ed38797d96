//! Prints the units and diagnostics of files: `cargo run --release -p quarry-source --example units -- FILE...`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what it is for")]

use std::path::PathBuf;
use std::process::ExitCode;

use quarry_source::{extract, language_for};

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let source = match std::fs::read(&path) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                code = ExitCode::from(2);
                continue;
            }
        };
        let Some(language) = language_for(&path, &source) else {
            eprintln!("{}: no known language", path.display());
            continue;
        };
        let extraction = extract(language, &source);
        for unit in &extraction.units {
            let (start, end) = (unit.start_line, unit.end_line);
            println!("{}:{start}-{end}: {:?} {}", path.display(), unit.kind, unit.name);
            for (label, text) in [("signature", &unit.signature), ("doc", &unit.doc)] {
                if !text.is_empty() {
                    println!("    {label}: {text:?}");
                }
            }
        }
        for diagnostic in &extraction.diagnostics {
            eprintln!("{}:{}: {}", path.display(), diagnostic.line, diagnostic.message);
        }
    }
    code
}
