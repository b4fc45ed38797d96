//! Errors of a command line, in clap's words, with hints: the commands that may be meant, and the purpose of a command
//! whose arguments are missing.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use quarry_text::misspelled;

/// Maximum number of commands suggested for an unknown one.
const N_SUGGESTIONS: usize = 3;

/// Examples of commands, by their names without `quarry`; shown if arguments are missing.
const EXAMPLES: [(&str, &str); 24] = [
    ("search", "quarry search \"retry with backoff\" -t rust"),
    ("similar", "quarry similar src/net.rs:120"),
    ("callers", "quarry callers Index.open"),
    ("callees", "quarry callees src/net.rs:120"),
    ("agent install", "quarry agent install claude-code"),
    ("eval", "quarry eval repo .\n  quarry eval cosqa --split dev --method bm25"),
    ("eval run", "quarry eval run bench/results.toml --data data"),
    ("eval score", "quarry eval score --qrels qrels.tsv --run system.run"),
    ("eval compare", "quarry eval compare baseline.run other.run --qrels qrels.tsv"),
    ("eval next", "quarry eval next baseline.run other.run --qrels qrels.tsv"),
    ("eval repo-search", "quarry eval repo-search bench/repo-queries.tsv --repos checkouts --method hybrid"),
    ("eval tune", "quarry eval tune bench/repo-queries.tsv --repos checkouts"),
    ("judge run", "quarry judge run examples/judging/plan.toml"),
    ("judge status", "quarry judge status examples/judging/plan.toml"),
    ("judge show", "quarry judge show examples/judging/plan.toml"),
    ("judge serve", "quarry judge serve examples/judging/plan.toml --annotator ann"),
    ("data build", "quarry data build plan.toml"),
    ("data report", "quarry data report plan.build"),
    ("data check", "quarry data check pairs.jsonl"),
    ("data pairs", "quarry data pairs --manifest repositories.tsv --sources checkouts --out pairs.jsonl"),
    ("model list", "quarry model list model"),
    ("model pull", "quarry model pull best\n  quarry model pull sentence-transformers/all-MiniLM-L6-v2"),
    ("train static", "quarry train static --pairs pairs.jsonl --out model"),
    ("train encoder", "quarry train encoder --model models/encoder --pairs pairs.jsonl --out model"),
];

/// The error of a command line, with help; `arguments` are those after the name of the program.
pub fn explained(mut error: Error, mut command: Command, arguments: &[String]) -> Error {
    let is_explained = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument
    );
    if !is_explained {
        return error;
    }
    command.build();
    let (mut called, mut path) = (&command, Vec::new());
    while let Some(next) = arguments.get(path.len()).and_then(|name| called.find_subcommand(name)) {
        called = next;
        path.push(next.get_name());
    }
    let changed = match error.kind() {
        kind @ (ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict) => {
            let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidSubcommand) else {
                return error;
            };
            // A conflict: a misspelled command was mistaken for an argument, and the word after it for a command.
            let is_conflict = kind == ErrorKind::ArgumentConflict;
            let unknown = arguments.get(path.len()).filter(|_| is_conflict).unwrap_or(refused);
            let names = called.get_subcommands().filter(|command| !command.is_hide_set());
            let meant = misspelled(unknown, names.map(Command::get_name), N_SUGGESTIONS);
            (!meant.is_empty()).then_some((ContextKind::SuggestedSubcommand, ContextValue::Strings(meant)))
        }
        _ => error.get(ContextKind::Usage).map(|usage| {
            let ContextValue::StyledStr(usage) = usage else { return (ContextKind::Usage, usage.clone()) };
            let purpose = purpose(called, &path.join(" "));
            let text = StyledStr::from(format!("{}\n\n{purpose}", usage.ansi()));
            (ContextKind::Usage, ContextValue::StyledStr(text))
        }),
    };
    match changed {
        Some((kind, value)) => error.insert(kind, value),
        None => error.remove(ContextKind::SuggestedSubcommand),
    };
    error
}

/// The purpose of a command, with an example if there is one.
fn purpose(command: &Command, name: &str) -> String {
    let about = command.get_about().map_or_else(String::new, ToString::to_string);
    let example = EXAMPLES.iter().find(|(of, _)| *of == name);
    example.map_or_else(|| about.clone(), |(_, example)| format!("{about}. For example:\n  {example}"))
}

#[cfg(all(test, feature = "full"))]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    fn printed(arguments: &[&str]) -> String {
        let error = Cli::try_parse_from(["quarry"].iter().chain(arguments)).err().unwrap_or_else(|| {
            panic!("{arguments:?} is a command line");
        });
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        explained(error, Cli::command(), &arguments).to_string()
    }

    #[test]
    fn similar_commands_are_suggested_and_no_others() {
        let check = |arguments: &[&str], expected: &str| {
            let printed = printed(arguments);
            assert!(printed.contains(&format!("exists: {expected}\n")), "{printed}");
        };
        check(&["serach", "x"], "'search'");
        check(&["mpc"], "'mcp'");
        check(&["data", "chekc"], "'check'");
        check(&["judge", "stat"], "'status'");
        check(&["eval", "rnu", "plan.toml"], "'run'");
        let unlike = printed(&["frobnicate"]);
        assert!(unlike.contains("unrecognized subcommand") && !unlike.contains("tip:"), "{unlike}");
    }

    #[test]
    fn a_command_without_its_arguments_is_explained() {
        for (arguments, purpose) in [
            (&["search"][..], "Find code by a description or a symbol"),
            (&["eval"], "Measure how well code is found. For example:\n  quarry eval repo ."),
            (&["eval", "run"], "Run a benchmark plan"),
            (&["judge", "run"], "quarry judge run examples/judging/plan.toml"),
        ] {
            let printed = printed(arguments);
            assert!(printed.contains("required") && printed.contains(purpose), "{printed}");
        }
    }

    #[test]
    fn examples_are_of_their_commands_and_can_be_typed() {
        for (name, examples) in EXAMPLES {
            for example in examples.lines().map(str::trim) {
                assert!(example.starts_with(&format!("quarry {name}")), "{name}: {example}");
                let words = shlex::split(example).unwrap_or_default();
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{example}\n{error}");
                }
            }
        }
    }
}
