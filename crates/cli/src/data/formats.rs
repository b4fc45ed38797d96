//! `quarry data formats`: which formats there are.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_corpus::dataset::convert::LAYOUTS;
use quarry_corpus::formats::FORMATS;
use quarry_corpus::formats::source::format_named;

use crate::output;

/// Arguments of `quarry data formats`.
#[derive(Debug, Args)]
pub struct FormatsArgs {
    /// Format whose fields are listed
    format: Option<String>,
}

/// Prints the formats, or the fields of one.
///
/// # Errors
/// When there is no such format, or stdout cannot be written.
pub fn run(args: &FormatsArgs) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    if let Some(name) = &args.format {
        let Some(format) = format_named(name) else {
            bail!("{name}: expected the name of a format; `quarry data formats` lists them");
        };
        writeln!(text, "{}: {}", format.name, format.about)?;
        for field in format.fields {
            let presence = if field.required { "" } else { ", may be absent" };
            writeln!(text, "  {:<28} {} ({}{presence})", field.name, field.about, field.kind.name())?;
        }
    } else {
        for format in FORMATS {
            let writable = if format.is_writable() { "read, write" } else { "read" };
            writeln!(text, "{:<26} {writable:<12} {}", format.name, format.about)?;
        }
        for layout in LAYOUTS {
            writeln!(text, "{:<26} {:<12} {}", layout.name, "directory", layout.about)?;
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
