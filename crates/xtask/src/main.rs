//! Repository checks: `cargo xtask tidy`.

mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::tidy::{Rules, Violation};
use crate::tree::Tree;

/// What `cargo xtask tidy` holds the repository to.
const RULES: &str = include_str!("../tidy.toml");

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to the person who runs it")]
fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        eprintln!("usage: cargo xtask tidy\nchecks the rules in crates/xtask/tidy.toml");
        return Ok(ExitCode::from(2));
    }
    let violations = violations()?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} violations of the rules in crates/xtask/tidy.toml", violations.len());
    Ok(ExitCode::FAILURE)
}

fn violations() -> anyhow::Result<Vec<Violation>> {
    let rules: Rules = toml::from_str(RULES).context("crates/xtask/tidy.toml")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(tidy::check(&Tree::read(&root)?, &rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let violations: Vec<String> = violations().unwrap().iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    }
}
