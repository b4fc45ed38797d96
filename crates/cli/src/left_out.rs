//! The commands that a build may lack.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command, the feature that enables it, and true if this build has it.
const COMMANDS: [(&str, &str, bool); 13] = [
    ("agent", "agent", cfg!(feature = "agent")),
    ("context", "mcp", cfg!(feature = "mcp")),
    ("data", "data", cfg!(feature = "data")),
    ("eval", "eval", cfg!(feature = "eval")),
    ("judge", "data", cfg!(feature = "data")),
    ("lsp", "lsp", cfg!(feature = "lsp")),
    ("mcp", "mcp", cfg!(feature = "mcp")),
    ("model", "data", cfg!(feature = "data")),
    ("outline", "mcp", cfg!(feature = "mcp")),
    ("serve", "serve", cfg!(feature = "serve")),
    ("train", "train", cfg!(feature = "train")),
    ("tune", "train", cfg!(feature = "train")),
    ("worker", "data", cfg!(feature = "data")),
];

/// Error for a command line with a command that this build lacks.
pub fn problem(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => problem_of(name, &COMMANDS),
        _ => None,
    }
}

fn problem_of(name: &str, commands: &[(&str, &str, bool)]) -> Option<String> {
    let (name, feature, _) = commands.iter().find(|(command, _, is_here)| *command == name && !is_here)?;
    Some(format!(
        "this build has no `quarry {name}`; install with the default features, or with `--features {feature}`"
    ))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    #[test]
    fn a_command_that_was_left_out_names_its_feature() {
        let commands = [("eval", "eval", true), ("worker", "data", false)];
        let found = problem_of("worker", &commands).unwrap_or_default();
        assert!(found.contains("no `quarry worker`;") && found.contains("--features data"), "{found}");
        assert_eq!(problem_of("eval", &commands), None);
        assert_eq!(problem_of("nothing", &commands), None);
    }

    #[test]
    fn disabled_subcommands_are_reported() {
        for (name, _, is_here) in COMMANDS {
            assert_eq!(Cli::command().find_subcommand(name).is_some(), is_here, "{name}");
            let said =
                Cli::try_parse_from(["quarry", name, "--no-such-option"]).err().and_then(|e| problem(&e));
            assert_eq!(said.is_some(), !is_here, "{name}: {said:?}");
        }
    }
}
