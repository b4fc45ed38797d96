//! Repository checks, `cargo xtask tidy` and `cargo xtask ci`, and the packages of a release, `cargo xtask package`.

mod ci;
mod package;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::tidy::{Rules, Violation};
use crate::tree::Tree;

const RULES: &str = include_str!("../tidy.toml");
const STEPS: &str = include_str!("../ci.toml");
const PACKAGES: &str = include_str!("../package.toml");

const USAGE: &str = "\
usage: cargo xtask tidy
       cargo xtask ci [--list] [--fast] [--install] [--skip-missing] [--since REV] [STEP…]
       cargo xtask package --archives DIR --repository URL [--skip-missing]

tidy checks the rules in crates/xtask/tidy.toml.
ci runs the steps in crates/xtask/ci.toml: all, the named ones, or with --fast format, clippy, tidy and the
tests of the crates that differ from the last commit (--since REV: from REV). --list lists the steps. A step
whose programs are missing fails; --skip-missing skips it, --install installs them with apt-get first.
package writes what package managers need, and the GitHub Action, to target/package, from the archives that
packaging/pack.sh wrote to DIR. A missing archive is an error; --skip-missing leaves its platform out.";

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to the person who runs it")]
fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let passed = match arguments.split_first() {
        Some((command, [])) if command == "tidy" => {
            let violations = violations()?;
            for violation in &violations {
                println!("{violation}");
            }
            if !violations.is_empty() {
                eprintln!("{} violations of the rules in crates/xtask/tidy.toml", violations.len());
            }
            violations.is_empty()
        }
        Some((command, options)) if command == "ci" => {
            let options = ci::Options::parse(options).context(USAGE)?;
            let steps = ci::Steps::parse(STEPS).context("crates/xtask/ci.toml")?;
            if options.list {
                print!("{}", steps.list());
                return Ok(ExitCode::SUCCESS);
            }
            steps.run(&root(), &options)?
        }
        Some((command, options)) if command == "package" => {
            let options = package::Options::parse(options).context(USAGE)?;
            let packages = package::Packages::parse(PACKAGES).context("crates/xtask/package.toml")?;
            println!("{}", packages.write(&root(), &options)?.display());
            true
        }
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn violations() -> anyhow::Result<Vec<Violation>> {
    let rules: Rules = toml::from_str(RULES).context("crates/xtask/tidy.toml")?;
    Ok(tidy::check(&Tree::read(&root())?, &rules))
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
