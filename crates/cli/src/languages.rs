//! `quarry languages`: the languages that can be indexed.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use quarry_source::{Content, Language, languages};
use serde::Serialize;

use crate::output;

/// Arguments of `quarry languages`.
#[derive(Debug, Args)]
pub struct LanguagesArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LanguageList {
    /// All languages.
    languages: Vec<LanguageView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LanguageView {
    /// Name.
    name: &'static str,
    /// Other names.
    aliases: &'static [String],
    /// Extensions without the dot; each is an alias too.
    extensions: &'static [String],
    /// File names without a known extension.
    file_names: &'static [String],
    /// Interpreters in `#!` lines.
    interpreters: &'static [String],
    /// Kind of content: code, prose, or data.
    content: &'static str,
    /// True if functions and types, or sections, are units of their own; otherwise, files are split into windows of
    /// lines.
    units: bool,
    /// The feature that this build lacks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<&'static str>,
}

pub fn run(args: &LanguagesArgs) -> anyhow::Result<ExitCode> {
    let answer = LanguageList { languages: languages().map(view).collect() };
    if args.json {
        output::print_json(&answer)?;
    } else {
        output::print(&table(&answer.languages))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn view(language: Language) -> LanguageView {
    LanguageView {
        name: language.name(),
        aliases: language.aliases(),
        extensions: language.extensions(),
        file_names: language.file_names(),
        interpreters: language.interpreters(),
        content: match language.content() {
            Content::Code => "code",
            Content::Prose => "prose",
            Content::Data => "data",
        },
        units: language.has_rules(),
        needs: language.feature().filter(|_| language.lacks_grammar()),
    }
}

/// One line for each language: those with rules first, as they are found by function.
fn table(languages: &[LanguageView]) -> String {
    let width = languages.iter().map(|language| language.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (units, heading) in [
        (true, "Functions, types and sections are found individually:"),
        (false, "Found in windows of lines:"),
    ] {
        let _ = writeln!(text, "{heading}");
        for language in languages.iter().filter(|language| language.units == units) {
            let extensions = language.extensions.iter().map(|extension| format!(".{extension}"));
            let files: Vec<String> = extensions.chain(language.file_names.iter().cloned()).collect();
            let aliases = match language.aliases {
                [] => String::new(),
                aliases => format!("  (also {})", aliases.join(", ")),
            };
            let needs =
                language.needs.map(|feature| format!("  (build with the feature `{feature}` for units)"));
            let needs = needs.unwrap_or_default();
            let _ = writeln!(text, "  {:width$}  {}{aliases}{needs}", language.name, files.join(" "));
        }
        text.push('\n');
    }
    text.push_str("-t takes a name or an extension (-t rust, -t rs, -t c++).\n");
    text
}
