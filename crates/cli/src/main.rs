//! The program `quarry`.

use std::process::ExitCode;

fn main() -> ExitCode {
    quarry_cli::run()
}
