//! Sizes of files, and words that must not be in texts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Violation;
use crate::tree::Tree;

/// Maximum sizes of files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Large {
    bytes: usize,
    /// Files that may be larger, with the reason.
    files: BTreeMap<String, String>,
}

/// Texts that no tracked file may contain.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    /// Beginnings of absolute paths.
    machine_paths: Vec<String>,
    /// Hosts of package registries.
    registry_hosts: Vec<String>,
    /// Words in comments that put work off.
    marks: Vec<String>,
    /// Files that are not checked.
    except: Vec<String>,
}

const COMMENT_MARKERS: [&str; 4] = ["//", "/*", "#", "<!--"];

/// Checks that files are small or listed, and that the list holds large files only.
pub(super) fn check_sizes(tree: &Tree, large: &Large) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, bytes) in tree.files() {
        let is_large = bytes.len() > large.bytes;
        match (is_large, large.files.contains_key(path)) {
            (true, false) => {
                let message = format!(
                    "{} bytes, more than {}; list it with a reason under [large.files] in crates/xtask/tidy.toml",
                    bytes.len(),
                    large.bytes
                );
                found.push(Violation::new(path, None, message));
            }
            (false, true) => {
                let message =
                    "listed as large, but small; remove it from [large.files] in crates/xtask/tidy.toml";
                found.push(Violation::new(path, None, message));
            }
            _ => {}
        }
    }
    for path in large.files.keys().filter(|path| tree.files().all(|(file, _)| file != path.as_str())) {
        let message = "listed under [large.files] in crates/xtask/tidy.toml, but does not exist; remove it";
        found.push(Violation::new(path, None, message));
    }
    found
}

/// Checks that no text holds a path of somebody's machine, a registry's host or a mark of work put off.
pub(super) fn check_words(tree: &Tree, words: &Words) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !words.except.iter().any(|file| file == path)) {
        for (line, number) in text.lines().zip(1..) {
            let mut report = |message| found.push(Violation::new(path, number, message));
            for start in words.machine_paths.iter().filter(|start| has_path(line, start)) {
                report(format!(
                    "holds a path of one machine ({start}); take it as an argument, or make it relative"
                ));
            }
            for host in words.registry_hosts.iter().filter(|host| line.contains(host.as_str())) {
                report(format!("names the host {host}; leave it to the package manager's settings"));
            }
            for mark in words.marks.iter().filter(|mark| has_mark(line, mark)) {
                report(format!("{mark} puts work off; do it, or open an issue and say here what holds now"));
            }
        }
    }
    found
}

/// Returns whether an absolute path that begins with `start` is in the line, not merely a part of another path.
fn has_path(line: &str, start: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "._-~*/}]".contains(c);
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(continues))
}

/// Returns whether `mark` is in the line as a word after the beginning of a comment.
fn has_mark(line: &str, mark: &str) -> bool {
    let Some(comment) = COMMENT_MARKERS.iter().filter_map(|marker| line.find(marker)).min() else {
        return false;
    };
    line[comment..].split(|c: char| !c.is_alphanumeric()).any(|word| word == mark)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn large_files_are_listed_and_only_they() {
        let rules = "large = { bytes = 10, files = { 'big.rs' = 'r', 'small.rs' = 'r', 'gone.rs' = 'r' } }";
        check(
            |tree, rules| super::check_sizes(tree, &rules.large),
            rules,
            &[("big.rs", "12345678901"), ("small.rs", "1\n2\n"), ("wide.txt", "12345678901")],
            &[
                "gone.rs: listed under [large.files]",
                "small.rs: listed as large, but small",
                "wide.txt: 11 bytes, more than 10; list it",
            ],
        );
    }

    #[test]
    fn texts_hold_no_machine_no_registry_and_no_mark() {
        let rules = "words = { machine_paths = ['/users/'], registry_hosts = ['pack.example'], marks = ['LATER'], \
                     except = ['list.txt'] }";
        check(
            |tree, rules| super::check_words(tree, &rules.words),
            rules,
            &[
                (
                    "a.rs",
                    "let p = \"/users/me\";\nlet q = \"src/users/me [DIRECTORY]/users/me\";\n// LATER: better\nlet LATER = \"LATER\";\n",
                ),
                ("b.txt", "see https://pack.example/x\nLATERAL // LATERAL\n# x (LATER)\n"),
                ("list.txt", "/users/ pack.example # LATER\n"),
            ],
            &[
                "a.rs:1: holds a path of one machine",
                "a.rs:3: LATER puts work off",
                "b.txt:1: names the host pack.example",
                "b.txt:3: LATER puts work off",
            ],
        );
    }
}
