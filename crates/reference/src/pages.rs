//! The generated pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};
use expect_test::expect_file;
use quarry_corpus::dataset::convert::LAYOUTS;
use quarry_corpus::formats::FORMATS;
use quarry_eval::protocol::{DISCREPANCIES, PROTOCOLS};
use quarry_source::{Language, languages};

/// Compares the part of a page below its heading with the file of this name.
fn check(name: &str, heading: &str, text: &str) {
    let page = format!(
        "<!-- Generated from the program's definitions: UPDATE_EXPECT=1 cargo test -p quarry-reference rewrites this \
         page. -->\n\n# {heading}\n\n{}\n",
        text.trim_end()
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/{name}.md"));
    expect_file![path].assert_eq(&page);
}

/// Escapes text for Markdown: outside of code, text that could be read as a tag.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(n, part)| if n % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`").replace("\n\n", " ").replace('\n', " ")
}

fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

/// Names as code, separated by commas.
fn codes<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_page_of_commands_is_what_the_command_line_says() {
    let mut command = quarry_cli::command();
    command.build();
    let shared = SharedOptions::new(&command);
    let mut text = format!(
        "The {} commands, then the arguments and options of each, which may come in any order; *usage* is what follows the \
         name. `--help` prints the same in the terminal, `-h` a summary. [Output and exit codes](exit-codes.md) apply to \
         all.\n\n```text\n{}```\n\n## Shared options\n\nEach command names those that it shares.\n",
        leaves(&command).len(),
        tree(&command, "")
    );
    shared.write(&mut text);
    for below in visible(&command) {
        write_command(&mut text, below, "quarry", 2, &shared);
    }
    check("commands", "Commands", &text);
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The names of the executable commands: those without subcommands, and those that also run without one.
fn leaves(command: &Command) -> Vec<String> {
    let mut found = Vec::new();
    for below in visible(command) {
        if !below.has_subcommands() || !below.is_subcommand_required_set() {
            found.push(below.get_name().to_owned());
        }
        found.extend(leaves(below).into_iter().map(|name| format!("{} {name}", below.get_name())));
    }
    found
}

/// The subcommands of a command with their descriptions, one per line.
fn tree(command: &Command, indent: &str) -> String {
    let mut text = String::new();
    for below in visible(command) {
        let name = format!("{indent}{}", below.get_name());
        let _ = writeln!(text, "{name:<14} {}", about(below));
        text += &tree(below, &format!("{indent}  "));
    }
    text
}

/// The commands whose options have a separate entry on the page.
fn documented(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(visible(command).flat_map(documented)).collect()
}

/// The arguments of an entry of the page. Inputs of protocols are on the page of protocols.
fn arguments(command: &Command) -> Vec<ShownArgument> {
    let is_shown = |argument: &&Arg| {
        !argument.is_hide_set()
            && !["help", "version"].contains(&argument.get_id().as_str())
            && argument.get_help_heading() != Some(quarry_cli::INPUTS)
    };
    let groups: Vec<_> = command.get_groups().collect();
    let group = |argument: &Arg| {
        let group = groups.iter().find(|group| group.get_args().any(|id| id == argument.get_id()));
        group.map(|group| title(group.get_id().as_str()))
    };
    let shown =
        |argument| ShownArgument { name: name(argument), group: group(argument), line: line(argument) };
    command.get_arguments().filter(is_shown).map(shown).collect()
}

/// An argument as listed on the page, with the group of options that defines it.
struct ShownArgument {
    name: String,
    group: Option<String>,
    line: String,
}

/// The heading of a group of options: the name of the type that defines them, in words.
fn title(type_name: &str) -> String {
    let mut words = String::new();
    for letter in type_name.trim_end_matches("Args").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
            words.push(letter.to_ascii_lowercase());
        } else {
            words.push(letter);
        }
    }
    words
}

/// A group of options: its heading, and the lines of its options.
type Group = (String, Vec<String>);

/// Options shared by several commands.
struct SharedOptions {
    groups: Vec<Group>,
    /// Names and lines of options that are not in a shared group.
    single: BTreeMap<String, String>,
}

/// Minimum number of commands with an option outside of shared groups for it to be described only once.
const MANY: usize = 2;

impl SharedOptions {
    fn new(root: &Command) -> Self {
        let commands: Vec<Vec<ShownArgument>> = documented(root).into_iter().map(arguments).collect();
        let mut numbers: Vec<(Group, usize)> = Vec::new();
        for group in commands.iter().flat_map(|arguments| groups_of(arguments)) {
            match numbers.iter_mut().find(|(known, _)| *known == group) {
                Some((_, n_commands)) => *n_commands += 1,
                None => numbers.push((group, 1)),
            }
        }
        let mut shared = Self { groups: Vec::new(), single: BTreeMap::new() };
        for (group, _) in numbers.into_iter().filter(|(_, n_commands)| *n_commands > 1) {
            // Of types with the same name, the first one gets the heading.
            if !shared.groups.iter().any(|(title, _)| *title == group.0) {
                shared.groups.push(group);
            }
        }
        shared.groups.sort();
        let mut numbers: BTreeMap<(&String, &String), usize> = BTreeMap::new();
        for arguments in &commands {
            for argument in shared.own_arguments(arguments) {
                *numbers.entry((&argument.name, &argument.line)).or_default() += 1;
            }
        }
        // Of options with the same name, the most frequent one is described once.
        let mut numbers: Vec<_> = numbers.into_iter().filter(|(_, n_commands)| *n_commands >= MANY).collect();
        numbers.sort_by_key(|(_, n_commands)| *n_commands);
        let single = numbers.into_iter().map(|((name, line), _)| (name.clone(), line.clone())).collect();
        shared.single = single;
        shared
    }

    fn write(&self, text: &mut String) {
        for (title, lines) in &self.groups {
            let _ = write!(text, "\n### {title}\n\n{}", lines.concat());
        }
        let lines: String = self.single.values().map(String::as_str).collect();
        let _ = write!(text, "\n### Others\n\n{lines}");
    }

    /// The shared groups of some arguments.
    fn groups(&self, arguments: &[ShownArgument]) -> Vec<Group> {
        groups_of(arguments).into_iter().filter(|group| self.groups.contains(group)).collect()
    }

    /// The arguments outside of shared groups.
    fn own_arguments<'a>(&self, arguments: &'a [ShownArgument]) -> Vec<&'a ShownArgument> {
        let groups = self.groups(arguments);
        let is_own = |argument: &&ShownArgument| {
            argument.group.as_ref().is_none_or(|group| !groups.iter().any(|(title, _)| title == group))
        };
        arguments.iter().filter(is_own).collect()
    }

    /// Returns true if an option is among those described outside of groups.
    fn is_single(&self, argument: &ShownArgument) -> bool {
        self.single.get(&argument.name) == Some(&argument.line)
    }
}

/// The groups of some arguments, in order.
fn groups_of(arguments: &[ShownArgument]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for argument in arguments {
        let Some(title) = &argument.group else { continue };
        match groups.iter_mut().find(|(known, _)| known == title) {
            Some((_, lines)) => lines.push(argument.line.clone()),
            None => groups.push((title.clone(), vec![argument.line.clone()])),
        }
    }
    groups
}

fn write_command(text: &mut String, command: &Command, parents: &str, level: usize, shared: &SharedOptions) {
    let name = format!("{parents} {}", command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = write!(text, "\n{} {name}\n", "#".repeat(level));
    // The usage after the name; if a command also runs without a subcommand, only that form.
    let usage =
        usage.trim_start_matches(&name).split(&name).next().unwrap_or_default().replace("[OPTIONS]", "");
    let usage = usage.split_whitespace().collect::<Vec<_>>().join(" ");
    if !usage.is_empty() && !command.is_subcommand_required_set() {
        let _ = write!(text, "\nUsage: `{usage}`\n");
    }
    // The text after the first line of the page.
    if let Some((_, more)) =
        command.get_long_about().map(ToString::to_string).as_deref().and_then(|long| long.split_once("\n\n"))
    {
        let _ = write!(text, "\n{}\n", escaped(more));
    }
    let arguments = arguments(command);
    let (single, own): (Vec<&ShownArgument>, Vec<&ShownArgument>) =
        shared.own_arguments(&arguments).into_iter().partition(|argument| shared.is_single(argument));
    if !own.is_empty() {
        let lines: String = own.iter().map(|argument| argument.line.as_str()).collect();
        let _ = write!(text, "\n{lines}");
    }
    let groups = shared.groups(&arguments);
    let links =
        groups.iter().map(|(title, _)| format!("[{title}](#{})", title.to_lowercase().replace(' ', "-")));
    let names = single.iter().map(|argument| format!("`{}`", argument.name));
    let named: Vec<String> = links.chain(names).collect();
    if !named.is_empty() {
        let _ = write!(text, "\nShared: {}.\n", named.join(", "));
    }
    if command.get_arguments().any(|argument| argument.get_help_heading() == Some(quarry_cli::INPUTS)) {
        text.push_str("\n[Protocols](protocols.md) has the names, with the inputs of each.\n");
    }
    for below in visible(command) {
        write_command(text, below, &name, (level + 1).min(4), shared);
    }
}

/// Name of an argument in a list: the long name of an option, otherwise the name of its value.
fn name(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.to_string(),
    }
}

/// The line of a list about an argument.
fn line(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let value = match argument.get_value_names() {
        Some(names) if takes_value => {
            names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let long = argument.get_long().map(|long| match argument.is_require_equals_set() {
        // Without the equals sign, the value would be parsed as an argument.
        true => format!("--{long}[={value}]"),
        false => format!("--{long} {value}").trim_end().to_owned(),
    });
    let mut names: Vec<String> = argument.get_short().map(|short| format!("-{short}")).into_iter().collect();
    names.extend(long.or_else(|| argument.is_positional().then_some(value)));
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("- {}: {}", codes(names.iter().map(String::as_str)), escaped(&help));
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
    text + "\n"
}

#[test]
fn the_page_of_settings_lists_all_with_their_defaults() {
    let mut text = "Settings are read from `quarry/config.toml` in your configuration directory and, over it, in the nearest \
                    `.quarry.toml` from the searched directory up to the root of its repository. The command line \
                    overrides both. `quarry config` shows the result. Settings cannot start programs; those of a tree \
                    cannot name servers or files to write, and the model that they name must be in that tree.\n\n\
                    | Setting | Default | Meaning |\n|---|---|---|\n"
        .to_owned();
    for setting in quarry_cli::settings() {
        let default = setting.default.map_or("built in".to_owned(), |value| format!("`{value}`"));
        let _ = writeln!(text, "| `{}` | {default} | {} |", setting.name, cell(&setting.about));
    }
    check("settings", "Settings", &text);
}

#[test]
fn the_page_of_languages_lists_all() {
    let mut text = "`-t` takes a name, another name or an extension, as listed here with the files of each language. In \
                    languages with units, functions, types and sections are found individually; other files are found \
                    in windows of lines. Code in HTML, Svelte, Vue, Markdown and notebooks is found in its own \
                    language. [A tour of the code](../contributing/tour.md#add-a-language) shows how to add one.\n"
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
        let _ = write!(text, "\n## {heading}\n\n{about}");
        for language in languages().filter(|language| place(*language) == number) {
            let extensions = language.extensions().iter().map(|extension| format!(".{extension}"));
            let files: Vec<String> = extensions.chain(language.file_names().iter().cloned()).collect();
            let names: Vec<&str> = std::iter::once(language.name())
                .chain(language.aliases().iter().map(String::as_str))
                .collect();
            let _ = writeln!(text, "- {}: {}", names.join(", "), codes(files.iter().map(String::as_str)));
        }
    }
    check("languages", "Languages", &text);
}

#[test]
fn the_page_of_formats_lists_all_with_their_fields() {
    let mut text = "The formats that `quarry data`, `quarry eval` and `quarry judge` read and write. A file may be \
                    JSON, JSON lines, CSV or Parquet, compressed with gzip or not; its format is recognized by its \
                    records. Unlisted fields are ignored; a field is text unless noted.\n\n| Format | | What it holds \
                    |\n|---|---|---|\n"
        .to_owned();
    for format in FORMATS {
        let writable = if format.is_writable() { "read, write" } else { "read" };
        let _ = writeln!(text, "| [`{0}`](#{0}) | {writable} | {1} |", format.name, cell(format.about));
    }
    for layout in LAYOUTS {
        let _ = writeln!(text, "| `{}` | directory | {} |", layout.name, cell(layout.about));
    }
    for format in FORMATS {
        let _ = write!(text, "\n## {}\n\n", format.name);
        for field in format.fields {
            let kind = Some(field.kind.name()).filter(|kind| *kind != "text");
            let notes: Vec<&str> = kind.into_iter().chain((!field.required).then_some("optional")).collect();
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            let _ = writeln!(text, "- `{}`{notes}: {}", field.name, escaped(field.about));
        }
    }
    check("formats", "Formats", &text);
}

#[test]
fn the_page_of_protocols_says_what_each_takes_and_what_differs() {
    let mut text = "`quarry eval protocol NAME` measures any [method](methods.md) as a paper does. `full-corpus` is the \
                    protocol of `quarry eval DIR`, and `repo-search` that of `quarry eval repo-search`; plans can name \
                    both. If a paper and its released code differ, the numbers of the discrepancies are listed; \
                    `--as-released` follows the code.\n"
        .to_owned();
    for protocol in PROTOCOLS {
        let _ = write!(
            text,
            "\n## {}\n\n*{}.* {}.\n\n",
            protocol.name,
            escaped(protocol.source),
            escaped(protocol.about)
        );
        for role in protocol.roles {
            let optional = if role.optional { " (optional)" } else { "" };
            let formats = match codes(role.formats.iter().copied()) {
                formats if formats.is_empty() => String::new(),
                formats => format!("; {formats}"),
            };
            let _ = writeln!(text, "- `--{}`{optional}: {}{formats}", role.name, escaped(role.about));
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
            let _ = write!(text, "\nBetween paper and code: {}.\n", protocol.discrepancies.join(", "));
        }
    }
    text.push_str("\n## Between paper and code\n\n");
    for found in DISCREPANCIES {
        let _ = writeln!(text, "- **{}**: {}", found.number, escaped(found.about));
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
    let mut command = quarry_cli::command();
    command.build();
    let mut without = Vec::new();
    let mut waiting: Vec<(String, &Command)> =
        visible(&command).map(|below| (below.get_name().to_owned(), below)).collect();
    while let Some((name, command)) = waiting.pop() {
        let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
        if has_json && schema["$defs"][&name]["title"] != format!("quarry {}", name.replacen('-', " ", 1)) {
            without.push(name.clone());
        }
        waiting.extend(visible(command).map(|below| (format!("{name}-{}", below.get_name()), below)));
    }
    assert!(without.is_empty(), "docs/reference/output.schema.json lacks {without:?}");
}
