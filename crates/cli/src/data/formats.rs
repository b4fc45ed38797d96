//! `quarry data formats`: the known formats.

use anyhow::bail;
use clap::Args;
use quarry_corpus::dataset::convert::LAYOUTS;
use quarry_corpus::formats::source::format_named;
use quarry_corpus::formats::{FORMATS, Format};
use quarry_metrics::table::{Sections, Table};
use serde::Serialize;

use crate::eval::arguments::LayoutArgs;

/// Arguments of `quarry data formats`.
#[derive(Debug, Args)]
pub struct FormatsArgs {
    /// Format to describe, with its fields
    #[arg(value_name = "FORMAT")]
    named: Option<String>,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct FormatList {
    /// All formats, and directories of several files.
    formats: Vec<ListedFormat>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedFormat {
    /// Name.
    name: &'static str,
    /// `read`, `read, write`, or `directory` for several files of other formats.
    access: &'static str,
    /// Description.
    about: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct FormatFields {
    /// Name of the format.
    name: &'static str,
    /// Contents of the format.
    about: &'static str,
    /// Fields of its records, in the order of columns.
    fields: Vec<ListedField>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedField {
    /// Name.
    name: &'static str,
    /// Kind.
    kind: &'static str,
    /// True if every record has it.
    required: bool,
    /// Description.
    about: &'static str,
}

pub fn run(args: &FormatsArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.named {
        let Some(format) = format_named(name) else {
            bail!("{name}: expected the name of a format; `quarry data formats` lists them");
        };
        let listed = fields_of(format);
        args.layout.print(&listed, || {
            let mut table = Table::new(["field", "about", "kind", "presence"]).align_left(1..4);
            for ListedField { name, kind, required, about } in &listed.fields {
                table.push([*name, *about, *kind, if *required { "required" } else { "optional" }]);
            }
            Sections::new().text(format!("{}: {}\n\n", listed.name, listed.about)).table(table)
        })?;
    } else {
        let list = all();
        args.layout.print(&list, || {
            let mut table = Table::new(["format", "access", "about"]).align_left(1..3);
            list.formats.iter().for_each(|format| table.push([format.name, format.access, format.about]));
            Sections::new().table(table)
        })?;
    }
    Ok(())
}

fn all() -> FormatList {
    let files = FORMATS.iter().map(|format| ListedFormat {
        name: format.name,
        access: if format.is_writable() { "read, write" } else { "read" },
        about: format.about,
    });
    let directories = LAYOUTS.iter().map(|layout| ListedFormat {
        name: layout.name,
        access: "directory",
        about: layout.about,
    });
    FormatList { formats: files.chain(directories).collect() }
}

fn fields_of(format: &Format) -> FormatFields {
    let fields = format.fields.iter().map(|field| ListedField {
        name: field.name,
        kind: field.kind.name(),
        required: field.required,
        about: field.about,
    });
    FormatFields { name: format.name, about: format.about, fields: fields.collect() }
}
