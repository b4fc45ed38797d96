//! Tests of the command line as a whole: documented command lines are valid, and options may appear anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use expect_test::expect_file;
use pulldown_cmark::{CodeBlockKind, Event, Parser as Markdown, Tag, TagEnd};
use quarry_test_support::files::paths_below;

/// Separators of two commands on one shell line.
const SEPARATORS: [&str; 8] = ["|", "||", "&&", ";", "&", ">", ">>", "<"];

/// A command line of Quarry in a document.
struct CommandLine {
    /// Human-readable location in the document.
    location: String,
    words: Vec<String>,
    /// True if it is to be typed unchanged: in a separate block rather than in a sentence, which may omit the
    /// obvious parts.
    is_whole: bool,
}

/// The documents with command lines for users.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = paths_below(&root.join("docs"));
    documents.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    documents.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    documents
}

/// The command lines in the code blocks and sentences of a Markdown text.
fn command_lines(name: &str, text: &str) -> Vec<CommandLine> {
    let mut found = Vec::new();
    let mut add = |offset: usize, line: &str, is_whole: bool| {
        let location = format!("{name}:{}: {line}", text[..offset].lines().count());
        for words in quarry_commands(line, &location) {
            found.push(CommandLine { location: location.clone(), words, is_whole });
        }
    };
    // Flags of the current block: it contains command lines, and it includes their output.
    let (mut is_shell, mut has_output) = (false, false);
    for (event, range) in Markdown::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                has_output = &*language == "console";
                is_shell = has_output || ["sh", "bash", "shell"].contains(&&*language);
            }
            Event::End(TagEnd::CodeBlock) => is_shell = false,
            Event::Text(block) if is_shell => {
                for line in block.replace("\\\n", " ").lines() {
                    if !has_output || line.starts_with("$ ") {
                        add(range.start, line, true);
                    }
                }
            }
            Event::Code(code) => add(range.start, &code, false),
            _ => {}
        }
    }
    found
}

/// The arguments of the calls of Quarry on a shell line.
fn quarry_commands(line: &str, location: &str) -> Vec<Vec<String>> {
    // Command substitutions, which a shell replaces with their output.
    let (line, inner) =
        match line.split_once("$(").and_then(|(before, rest)| Some((before, rest.split_once(')')?))) {
            Some((before, (inner, after))) => (format!("{before} {after}"), Some(inner)),
            None => (line.to_owned(), None),
        };
    if !line.contains("quarry") && !line.contains("cargo run") && inner.is_none() {
        return Vec::new();
    }
    let words = shlex::split(line.trim_start_matches("$ "));
    let words = words.unwrap_or_else(|| panic!("{location}: a quotation mark is not closed"));
    let mut commands: Vec<Vec<String>> = words
        .split(|word| SEPARATORS.contains(&word.as_str()))
        .map(|words| &words[words.iter().take_while(|word| sets_variable(word)).count()..])
        .filter_map(|words| match words {
            [cargo, run, rest @ ..] if cargo == "cargo" && run == "run" => {
                let begin = rest.iter().position(|word| word == "--")?;
                // Examples are different programs.
                if rest[..begin].iter().any(|word| word == "--example") {
                    return None;
                }
                Some(rest[begin + 1..].to_vec())
            }
            [program, arguments @ ..] if program.rsplit('/').next() == Some("quarry") => {
                Some(arguments.to_vec())
            }
            _ => None,
        })
        .collect();
    commands.extend(inner.into_iter().flat_map(|inner| quarry_commands(inner, location)));
    commands
}

/// Returns true if a word before a command sets a variable for it.
fn sets_variable(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase()))
}

fn problem_of(line: &CommandLine) -> Option<String> {
    let words = std::iter::once("quarry").chain(line.words.iter().map(String::as_str));
    let error = quarry_cli::parse(words).err()?;
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let is_placeholder = |word: &String| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let leaves_out = match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => line.words.iter().any(is_placeholder),
        _ => false,
    };
    (!is_help && (line.is_whole || !leaves_out)).then(|| format!("{}\n{error}", line.location))
}

#[test]
fn every_command_line_in_the_documentation_is_one() {
    let mut problems = Vec::new();
    let mut n_whole = 0;
    for document in documents() {
        let name = document.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&document).unwrap();
        for line in command_lines(&name, &text) {
            n_whole += usize::from(line.is_whole);
            problems.extend(problem_of(&line));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_whole > 40, "only {n_whole} command lines were found");
}

#[test]
fn command_lines_are_found_in_blocks_and_sentences() {
    let text = "Run `quarry eval`, or `hx $(quarry pick --vi)`.\n\n```sh\n# quarry is not run here\n\
        quarry search 'a | b' -k 3 | head   # three\n$ cargo run --release -- index x && target/quarry \\\n  status\ncd x && A_B=c quarry doctor\n```\n\n\
        ```console\n$ quarry languages\nquarry isn't run here\n```\n\n\
        ```toml\nquarry = 1\n```\n";
    let found = command_lines("x.md", text);
    let words: Vec<String> = found.iter().map(|line| line.words.join(" ")).collect();
    assert_eq!(words, ["eval", "pick --vi", "search a | b -k 3", "index x", "status", "doctor", "languages"]);
    assert_eq!(found.iter().filter(|line| line.is_whole).count(), 5);
    let problem = |words: &[&str], is_whole| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        problem_of(&CommandLine { location: String::new(), words, is_whole })
    };
    assert!(problem(&["index", "--made-up"], false).is_some());
    assert!(problem(&["data", "split"], true).is_some() && problem(&["data", "split"], false).is_none());
}

/// Help texts of all commands, in one file for each of the commands that `quarry --help` lists, so that a change of
/// wording is visible in review. `UPDATE_EXPECT=1 cargo test` rewrites them.
#[test]
fn help_texts_are_those_that_were_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/snapshots/help");
    let mut command = quarry_cli::command().term_width(100);
    command.build();
    let mut texts = vec![("quarry".to_owned(), command.clone().render_long_help().to_string())];
    for top in command.get_subcommands() {
        let mut text = String::new();
        for_each_command(top, "quarry", &mut |command, names| {
            let help = command.clone().term_width(100).render_long_help();
            text.push_str(&format!("$ {names} --help\n{help}\n"));
        });
        texts.push((top.get_name().to_owned(), text));
    }
    fs::create_dir_all(&directory).unwrap();
    let kept = fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut kept: Vec<String> = kept.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    kept.retain(|file| !texts.iter().any(|(name, _)| *file == format!("{name}.txt")));
    for (name, text) in &texts {
        expect_file![directory.join(format!("{name}.txt"))].assert_eq(text);
    }
    assert!(kept.is_empty(), "help texts of unknown commands: {kept:?} in {}", directory.display());
}

/// Calls `check` with every command and the names that lead to it.
fn for_each_command(command: &clap::Command, names: &str, check: &mut dyn FnMut(&clap::Command, &str)) {
    let names = format!("{names} {}", command.get_name());
    check(command, names.trim());
    command.get_subcommands().for_each(|below| for_each_command(below, &names, check));
}

#[test]
fn options_may_stand_between_the_other_arguments_of_every_command() {
    let mut command = quarry_cli::command();
    command.build();
    let mut n_commands = 0;
    for_each_command(&command, "", &mut |command, names| {
        n_commands += 1;
        for positional in command.get_positionals() {
            let at_least = positional.get_num_args().map_or(1, |range| range.min_values());
            // Values before an option and those after it are counted separately.
            assert!(
                at_least <= 1,
                "{names}: {} takes {at_least} values without an option between",
                positional.get_id()
            );
            assert!(!positional.is_last_set(), "{names}: {}", positional.get_id());
            assert!(!positional.is_trailing_var_arg_set(), "{names}: {}", positional.get_id());
        }
        let has_positionals = command.get_positionals().next().is_some();
        for option in command.get_opts().filter(|_| has_positionals) {
            let at_most = option.get_num_args().map_or(1, |range| range.max_values());
            assert!(at_most <= 1, "{names}: --{} would take the arguments behind it", option.get_id());
        }
    });
    assert!(n_commands > 50, "{n_commands}");
}

#[test]
fn renamed_options_keep_their_old_names() {
    for [old, new] in [
        ["judge study plan.toml --least-agreement -0.5", "judge study plan.toml --min-alpha -0.5"],
        ["judge study plan.toml --least-labels 2", "judge study plan.toml --min-labels 2"],
        ["serve . --bind 127.0.0.1:0", "serve . --listen 127.0.0.1:0"],
    ] {
        let parsed = |line: &str| {
            let parsed = quarry_cli::parse(std::iter::once("quarry").chain(line.split(' ')));
            parsed.unwrap_or_else(|error| panic!("{line}: {error}"))
        };
        assert_eq!(parsed(old), parsed(new));
    }
}

#[test]
fn an_option_between_two_paths_does_not_separate_them() {
    for line in [
        "data split --parts train:8,test:2 in out",
        "data split in --parts train:8,test:2 out",
        "data split in out --parts train:8,test:2",
        "data distractors in --count 9 other out",
        "data convert in --to beir out",
        "judge study a.toml --json b.toml",
    ] {
        quarry_cli::parse(std::iter::once("quarry").chain(line.split(' '))).unwrap();
    }
}
