//! The pages in `docs/reference` that are written from the program's own definitions: commands, settings, languages,
//! formats, protocols. The tests fail when a page says something else than the program; `UPDATE_EXPECT=1 cargo test`
//! writes the pages anew.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use expect_test::expect_file;
use quarry_corpus::dataset::convert::LAYOUTS;
use quarry_corpus::formats::FORMATS;
use quarry_eval::protocol::{PROTOCOLS, discrepancy};
use quarry_source::{Language, languages};

use crate::Cli;
use crate::settings::{self, Settings};

/// Compares a page below its heading with the file of this name.
fn check(name: &str, heading: &str, text: &str) {
    let page = format!(
        "<!-- Generated from the program's definitions: UPDATE_EXPECT=1 cargo test --release -p quarry-cli rewrites this \
         page. -->\n\n# {heading}\n\n{}\n",
        text.trim_end()
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/{name}.md"));
    expect_file![path].assert_eq(&page);
}

/// Text as Markdown: outside of code, what could be read as a tag is not one.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(n, part)| if n % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`").replace("\n\n", " ").replace('\n', " ")
}

/// A cell of a table.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

/// Names as code, with commas between.
fn codes<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_page_of_commands_is_what_the_command_line_says() {
    let mut command = Cli::command();
    command.build();
    let mut text = "Every command with its arguments and options, which may come in any order. `--help` prints \
                    the same in the terminal, `-h` in short. [Output and exit codes](exit-codes.md) hold for all.\n\n\
                    | Command | What it does |\n|---|---|\n"
        .to_owned();
    for below in visible(&command) {
        let (name, about) = (below.get_name(), cell(&about(below)));
        let _ = writeln!(text, "| [`quarry {name}`](#quarry-{name}) | {about} |");
    }
    for below in visible(&command) {
        write_command(&mut text, below, "quarry", 2);
    }
    check("commands", "Commands", &text);
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn write_command(text: &mut String, command: &Command, parents: &str, level: usize) {
    let name = format!("{parents} {}", command.get_name());
    let long = command.get_long_about().map_or_else(|| about(command), ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "\n{} {name}\n\n{}\n\n```text\n{usage}\n```\n", "#".repeat(level), escaped(&long));
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let (positionals, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|argument| argument.is_positional());
    let lists = [("Arguments", positionals), ("Options", options)];
    for (heading, arguments) in lists.iter().filter(|(_, arguments)| !arguments.is_empty()) {
        let _ = write!(text, "\n{heading}:\n\n");
        for argument in arguments {
            write_argument(text, argument);
        }
    }
    for below in visible(command) {
        write_command(text, below, &name, (level + 1).min(4));
    }
}

fn write_argument(text: &mut String, argument: &Arg) {
    let takes_value = argument.get_action().takes_values();
    let value = match argument.get_value_names() {
        Some(names) if takes_value => {
            names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let long = argument.get_long().map(|long| format!("--{long} {value}").trim_end().to_owned());
    let mut names: Vec<String> = argument.get_short().map(|short| format!("-{short}")).into_iter().collect();
    names.extend(long.or_else(|| argument.is_positional().then_some(value)));
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "- {}: {}", codes(names.iter().map(String::as_str)), escaped(&help));
    let possible = argument.get_possible_values();
    let possible: Vec<&str> =
        possible.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
    if takes_value && !possible.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(text, " (possible values: {})", codes(possible));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(text, " [default: {}]", codes(defaults.iter().map(AsRef::as_ref)));
    }
    text.push('\n');
}

#[test]
fn the_page_of_settings_lists_all_with_their_defaults() {
    let defaults = Settings::defaults();
    let values = settings::values(&defaults.layers.last().unwrap().1);
    let mut text = "Settings are read from `quarry/config.toml` in your configuration directory and, over it, in the nearest \
                    `.quarry.toml` from the searched directory up to the root of its repository. The command line \
                    overrides both. `quarry config` shows which hold. Settings cannot start programs, name servers or \
                    say where to write; the model that a `.quarry.toml` names must be in that tree.\n\n\
                    | Setting | Default | Meaning |\n|---|---|---|\n"
        .to_owned();
    for name in settings::keys() {
        let default =
            values.iter().find(|(key, _)| *key == name).map_or("null".into(), |(_, value)| value.to_string());
        let default = if default == "null" { "built in".to_owned() } else { format!("`{default}`") };
        let _ = writeln!(text, "| `{name}` | {default} | {} |", cell(&documentation_of_setting(&name)));
    }
    check("settings", "Settings", &text);
}

/// What the comment above a field of the settings says.
fn documentation_of_setting(name: &str) -> String {
    let (_, layer) = include_str!("settings.rs").split_once("pub struct Layer {").unwrap();
    let (before, _) = layer.split_once(&format!("pub {name}:")).unwrap();
    let is_comment = |line: &&str| line.trim_start().starts_with("///");
    let lines: Vec<&str> =
        before.lines().rev().skip(1).skip_while(|line| !is_comment(line)).take_while(is_comment).collect();
    lines.iter().rev().map(|line| line.trim().trim_start_matches("/// ")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_of_languages_lists_all() {
    let mut text = "`-t` takes a name, another name or an extension. In languages with units, functions, types and \
                    sections are found on their own; files in the others are found in windows of lines. Scripts and \
                    styles in HTML, Svelte and Vue, functions in the code blocks of documents and the cells of notebooks \
                    are found in their own languages. A new language is a rule file in `crates/source/rules`, a \
                    grammar and a fixture.\n"
        .to_owned();
    let place = |language: Language| match language.feature() {
        Some(_) => 1,
        None if language.has_rules() => 0,
        None => 2,
    };
    for (number, heading, about) in [
        (0, "With units", ""),
        (
            1,
            "With units, with a feature",
            "To keep the program small, only builds with the feature `more-languages` have their grammars \
             ([installing](../install.md)); others find them in windows of lines.\n\n",
        ),
        (2, "In windows of lines", ""),
    ] {
        let _ = write!(text, "\n## {heading}\n\n{about}| Language | Other names | Files |\n|---|---|---|\n");
        for language in languages().filter(|language| place(*language) == number) {
            let extensions = language.extensions().iter().map(|extension| format!(".{extension}"));
            let files: Vec<String> = extensions.chain(language.file_names().iter().cloned()).collect();
            let (aliases, files) = (
                codes(language.aliases().iter().map(String::as_str)),
                codes(files.iter().map(String::as_str)),
            );
            let _ = writeln!(text, "| {} | {aliases} | {files} |", language.name());
        }
    }
    check("languages", "Languages", &text);
}

#[test]
fn the_page_of_formats_lists_all_with_their_fields() {
    let mut text = "What `quarry data`, `quarry eval` and `quarry judge` read and write. A file may be JSON, JSON lines, \
                    CSV or Parquet, packed with gzip or not; its format is recognized by its records. Other fields than \
                    those listed are ignored.\n\n| Format | | What it holds |\n|---|---|---|\n"
        .to_owned();
    for format in FORMATS {
        let writable = if format.is_writable() { "read, write" } else { "read" };
        let _ = writeln!(text, "| [`{0}`](#{0}) | {writable} | {1} |", format.name, cell(format.about));
    }
    for layout in LAYOUTS {
        let _ = writeln!(text, "| `{}` | directory | {} |", layout.name, cell(layout.about));
    }
    for format in FORMATS {
        let _ = write!(text, "\n## {}\n\n{}.\n\n", format.name, escaped(format.about));
        let _ = writeln!(text, "| Field | Type | Meaning |\n|---|---|---|");
        for field in format.fields {
            let optional = if field.required { "" } else { ", optional" };
            let _ = writeln!(
                text,
                "| `{}` | {}{optional} | {} |",
                field.name,
                field.kind.name(),
                cell(field.about)
            );
        }
    }
    check("formats", "Formats", &text);
}

#[test]
fn the_page_of_protocols_says_what_each_takes_and_what_differs() {
    let mut text = "Each protocol measures as a paper does, with any [method](methods.md): `quarry eval protocol` and its name. \
                    Where a paper and its released code differ, the protocol says so; `--as-released` does as the code \
                    does.\n"
        .to_owned();
    for protocol in PROTOCOLS {
        let _ = write!(
            text,
            "\n## {}\n\n*{}.* {}.\n\n",
            protocol.name,
            escaped(protocol.source),
            escaped(protocol.about)
        );
        let _ = writeln!(text, "| Input | What it is | Formats |\n|---|---|---|");
        for role in protocol.roles {
            let optional = if role.optional { " (optional)" } else { "" };
            let formats = codes(role.formats.iter().copied());
            let _ = writeln!(text, "| `--{}` | {}{optional} | {formats} |", role.name, cell(role.about));
        }
        if !protocol.measures.is_empty() {
            let measures: Vec<String> = protocol.measures.iter().map(ToString::to_string).collect();
            let _ = write!(text, "\nMeasures: {}.\n", codes(measures.iter().map(String::as_str)));
        }
        if !protocol.options.is_empty() {
            let options: Vec<String> = protocol.options.iter().map(|name| option_of(name)).collect();
            let _ = write!(text, "\nOptions: {}.\n", codes(options.iter().map(String::as_str)));
        }
        if !protocol.discrepancies.is_empty() {
            text.push_str("\nBetween paper and code:\n\n");
            for found in protocol.discrepancies.iter().filter_map(|number| discrepancy(number)) {
                let _ = writeln!(text, "- {}: {}", found.number, escaped(found.about));
            }
        }
    }
    check("protocols", "Protocols", &text);
}

/// The option of the command line for an option of a protocol.
fn option_of(name: &str) -> String {
    let name = if name == "measures" { "metrics" } else { name };
    format!("--{}", name.replace('_', "-"))
}

#[test]
fn every_command_that_prints_json_has_a_schema() {
    let schema = include_str!("../../../docs/reference/output.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let mut command = Cli::command();
    command.build();
    let mut without = Vec::new();
    let mut waiting: Vec<(String, &Command)> =
        visible(&command).map(|below| (below.get_name().to_owned(), below)).collect();
    while let Some((name, command)) = waiting.pop() {
        // Protocols are subcommands with the same output.
        let name = if name.starts_with("eval-protocol-") { "eval-protocol".to_owned() } else { name };
        let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
        if has_json && schema["$defs"][&name]["title"] != format!("quarry {}", name.replacen('-', " ", 1)) {
            without.push(name.clone());
        }
        waiting.extend(visible(command).map(|below| (format!("{name}-{}", below.get_name()), below)));
    }
    assert!(without.is_empty(), "docs/reference/output.schema.json lacks {without:?}");
}
