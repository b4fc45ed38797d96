//! Comments with the code below them, as StatCodeSearch extracts them from R scripts (GenCodeSearchNet, 2023, section
//! 3).

use std::borrow::Cow;

use quarry_source::Language;

/// Languages with comments that begin with `#`, and with `//`.
const NUMBER_SIGN: [&str; 9] = ["r", "python", "ruby", "bash", "julia", "elixir", "powershell", "nix", "hcl"];
const SLASHES: [&str; 18] = [
    "c",
    "cpp",
    "csharp",
    "dart",
    "go",
    "groovy",
    "java",
    "javascript",
    "kotlin",
    "objectivec",
    "php",
    "protobuf",
    "rust",
    "scala",
    "solidity",
    "swift",
    "tsx",
    "typescript",
];

/// Minimum number of words of a comment.
const MIN_WORDS: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentBlock {
    pub comment: String,
    pub code: String,
    /// First line of the comment, 1-based.
    pub start_line: u32,
    pub end_line: u32,
}

/// The marker at the beginning of comments in a language; `None` if unknown.
fn marker(language: Language) -> Option<&'static str> {
    let name = language.name();
    if NUMBER_SIGN.contains(&name) {
        return Some("#");
    }
    SLASHES.contains(&name).then_some("//")
}

/// Comments and code as the published notebook extracts them from R scripts, for any language:
///
/// - a file is read as Latin-1, written as UTF-8 without blank lines, and read as Latin-1 again, so that what is not
///   ASCII becomes several characters, as in the published data;
/// - if `library(` occurs anywhere, everything before the first line that begins with it is ignored, as are all lines
///   that begin with it; if none begins with it, everything is ignored;
/// - lines are stripped, consecutive comment lines are joined with spaces, and all `#`, `-` and `=` are deleted from them;
/// - a comment must have two words of ASCII letters or more; otherwise it is dropped with the code below it;
/// - code lines are joined with spaces; equal comments in a file are merged, with the code of both.
///
/// Comments without code are omitted.
pub fn comment_blocks_as_released(bytes: &[u8]) -> Vec<CommentBlock> {
    let text = latin1(latin1(bytes).as_bytes()).replace("\r\n", "\n").replace('\r', "\n");
    let lines = (1..).zip(text.split('\n')).map(|(number, line)| (number, line.trim()));
    let mut lines: Vec<(u32, &str)> = lines.filter(|(_, line)| !line.is_empty()).collect();
    if text.contains("library(") {
        let first = lines.iter().position(|(_, line)| line.starts_with("library("));
        lines.drain(..first.unwrap_or(lines.len()));
        lines.retain(|(_, line)| !line.starts_with("library("));
    }
    let mut blocks: Vec<CommentBlock> = Vec::new();
    // The block that code belongs to, if its comment has enough words.
    let mut current: Option<usize> = None;
    let mut lines = lines.into_iter().peekable();
    while let Some((number, line)) = lines.next() {
        if !line.starts_with('#') {
            if let Some(block) = current.and_then(|current| blocks.get_mut(current)) {
                if !block.code.is_empty() {
                    block.code.push(' ');
                }
                block.code.push_str(line);
                block.end_line = number;
            }
            continue;
        }
        let mut comment = line.to_owned();
        while let Some((_, next)) = lines.next_if(|(_, next)| next.starts_with('#')) {
            comment = format!("{comment} {next}");
        }
        comment.retain(|c| !matches!(c, '#' | '-' | '='));
        // Comments that differ in the space at their beginning are two.
        current = has_words(&comment, |c| c.is_ascii_alphabetic()).then(|| {
            blocks.iter().position(|block| block.comment == comment).unwrap_or_else(|| {
                blocks.push(CommentBlock {
                    comment,
                    code: String::new(),
                    start_line: number,
                    end_line: number,
                });
                blocks.len() - 1
            })
        });
    }
    blocks.retain(|block| !block.code.is_empty());
    blocks.iter_mut().for_each(|block| block.comment = block.comment.trim().to_owned());
    blocks
}

/// The same without these faults, in every language whose comments begin with `#` or `//`; empty for others:
///
/// - texts are UTF-8, or else Latin-1;
/// - code before the first `library(` counts; lines of R that load packages are part of the code, or, without
///   `library_lines` as the paper's text has it, left out and nothing else with them;
/// - comment lines are joined if there is no blank line between them, or, without `blank_lines` as in the paper, which
///   removes these first, always; markers and runs of `-`, `=` and the like are
///   removed at the ends of lines, but not within words and formulas;
/// - code keeps its lines, without common indentation; equal comments are kept separate.
pub fn comment_blocks(
    language: Language,
    bytes: &[u8],
    [library_lines, blank_lines]: [bool; 2],
) -> Vec<CommentBlock> {
    let Some(marker) = marker(language) else { return Vec::new() };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(latin1(bytes)),
    };
    let is_left_out =
        |line: &str| !library_lines && language.name() == "r" && line.trim_start().starts_with("library(");
    let is_comment = |line: &str| line.trim_start().starts_with(marker) && !line.starts_with("#!");
    let mut blocks = Vec::new();
    let lines = (1_u32..).zip(text.lines());
    let mut lines = lines.filter(|(_, line)| blank_lines || !line.trim().is_empty()).peekable();
    while let Some((start_line, line)) = lines.next() {
        if !is_comment(line) {
            continue;
        }
        let mut parts = vec![plain(line, marker)];
        while let Some((_, next)) = lines.next_if(|(_, next)| is_comment(next)) {
            parts.push(plain(next, marker));
        }
        parts.retain(|part| !part.is_empty());
        let comment = parts.join(" ");
        let (mut code, mut end_line) = (Vec::new(), start_line);
        while let Some((number, next)) = lines.next_if(|(_, next)| !is_comment(next)) {
            if is_left_out(next) {
                continue;
            }
            code.push(next);
            if !next.trim().is_empty() {
                end_line = number;
            }
        }
        let code = without_indentation(&code);
        if has_words(&comment, char::is_alphabetic) && !code.is_empty() {
            blocks.push(CommentBlock { comment, code, start_line, end_line });
        }
    }
    blocks
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Returns whether a comment has enough words: runs of letters that neither a digit nor an underscore adjoins.
fn has_words(comment: &str, is_letter: impl Fn(char) -> bool) -> bool {
    let runs = comment.split(|c: char| !c.is_alphanumeric() && c != '_');
    runs.filter(|run| !run.is_empty() && run.chars().all(&is_letter)).count() >= MIN_WORDS
}

/// A comment line without its marker and decoration.
fn plain<'l>(line: &'l str, marker: &str) -> &'l str {
    let is_decoration =
        |c: char| c.is_whitespace() || matches!(c, '#' | '-' | '=' | '*' | '~' | '_' | '/' | '!' | '\'');
    let text = line.trim_start().trim_start_matches(marker).trim_start_matches(is_decoration);
    text.trim_end_matches(|c: char| is_decoration(c) && c != '!' && c != '\'')
}

/// Lines without common indentation, and without blank lines at both ends.
fn without_indentation(lines: &[&str]) -> String {
    let is_blank = |line: &&&str| line.trim().is_empty();
    let indentation =
        lines.iter().filter(|line| !is_blank(line)).map(|line| line.len() - line.trim_start().len());
    let indentation = indentation.min().unwrap_or(0);
    let begin = lines.iter().take_while(is_blank).count();
    let end = lines.len() - lines.iter().rev().take_while(is_blank).count();
    let inner = lines.get(begin..end).unwrap_or_default();
    let inner: Vec<&str> =
        inner.iter().map(|line| line.get(indentation..).unwrap_or_default().trim_end()).collect();
    inner.join("\n")
}

#[cfg(test)]
mod tests {
    use quarry_source::language_named;

    use super::*;

    fn pairs(blocks: &[CommentBlock]) -> Vec<(&str, &str)> {
        blocks.iter().map(|block| (block.comment.as_str(), block.code.as_str())).collect()
    }

    #[track_caller]
    fn released(script: &[u8], expected: &[(&str, &str)]) {
        let found = comment_blocks_as_released(script);
        assert_eq!(pairs(&found), expected, "{}", String::from_utf8_lossy(script));
    }

    #[track_caller]
    fn fixed(language: &str, script: &[u8], expected: &[(&str, &str)]) {
        let found = comment_blocks(language_named(language).unwrap(), script, [true; 2]);
        assert_eq!(pairs(&found), expected, "{}", String::from_utf8_lossy(script));
    }

    #[test]
    fn each_byte_is_a_character_as_released() {
        let script = "# Größe der Stichprobe\nn <- 3\n".as_bytes();
        // The notebook writes what it read, and reads it again: the published data have `donÃ¢Â\u{80}Â\u{99}t`.
        released(script, &[("GrÃ\u{83}Â¶Ã\u{83}Â\u{9f}e der Stichprobe", "n <- 3")]);
        fixed("r", script, &[("Größe der Stichprobe", "n <- 3")]);
        let script = b"# Gr\xf6\xdfe der Stichprobe\nn <- 3\n";
        released(script, &[("GrÃ¶Ã\u{9f}e der Stichprobe", "n <- 3")]);
        fixed("r", script, &[("Größe der Stichprobe", "n <- 3")]);
    }

    #[test]
    fn blank_lines_do_not_count_as_released() {
        let script = b"# Load the data\n\n# of all schools\n\nd <- read.csv('a')\n\n  \nsummary(d)\n";
        released(script, &[("Load the data  of all schools", "d <- read.csv('a') summary(d)")]);
        fixed("r", script, &[("of all schools", "d <- read.csv('a')\n\n\nsummary(d)")]);
        // The paper removes blank lines first.
        let found = comment_blocks(language_named("r").unwrap(), script, [true, false]);
        let [block] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (block.comment.as_str(), block.code.as_str()),
            ("Load the data of all schools", "d <- read.csv('a')\nsummary(d)")
        );
        assert_eq!((block.start_line, block.end_line), (1, 8));
    }

    #[test]
    fn text_before_the_first_library_is_ignored() {
        let script =
            b"# Set the seed\nset.seed(1)\nlibrary(dplyr)\n# Fit the model\nlibrary(lme4)\nm <- lm(y ~ x)\n";
        released(script, &[("Fit the model", "m <- lm(y ~ x)")]);
        fixed(
            "r",
            script,
            &[
                ("Set the seed", "set.seed(1)\nlibrary(dplyr)"),
                ("Fit the model", "library(lme4)\nm <- lm(y ~ x)"),
            ],
        );
        // As the paper's text has it, these lines alone are left out.
        let found = comment_blocks(language_named("r").unwrap(), script, [false, true]);
        let expected = [("Set the seed", "set.seed(1)"), ("Fit the model", "m <- lm(y ~ x)")];
        assert_eq!(pairs(&found), expected);
        // Lines are stripped first.
        let script = b"# Set the seed\nset.seed(1)\n  library(lme4)\n# Fit the model\nm <- lm(y ~ x)\n";
        released(script, &[("Fit the model", "m <- lm(y ~ x)")]);
        // Lines that load packages do not end a comment.
        let script =
            b"library(lme4)\n# Fit the\nlibrary(nlme)\n# model again\nlibrary(mgcv)\nm <- lm(y ~ x)\n";
        released(script, &[("Fit the  model again", "m <- lm(y ~ x)")]);
        // It occurs, but not at the beginning of a line.
        let script = b"# Fit the model\nif (TRUE) library(lme4)\nm <- lm(y ~ x)\n";
        released(script, &[]);
        fixed("r", script, &[("Fit the model", "if (TRUE) library(lme4)\nm <- lm(y ~ x)")]);
    }

    #[test]
    fn signs_are_deleted_from_comments_as_released() {
        let script = b"#### Paired t-test: p = .05 ####\n#-----\n# Welch's\nt.test(a, b)\n";
        released(script, &[("Paired ttest: p  .05    Welch's", "t.test(a, b)")]);
        fixed("r", script, &[("Paired t-test: p = .05 Welch's", "t.test(a, b)")]);
    }

    #[test]
    fn comments_have_two_words_and_the_code_of_others_is_dropped() {
        let script = b"x <- 1\n# 1.\ny <- 2\n# Plot 2 means\nplot(x)\n# Model\nlm(y)\n# Two words\n";
        let expected = &[("Plot 2 means", "plot(x)")];
        released(script, expected);
        fixed("r", script, expected);
        // A word is a run of letters: both comments are in the published data.
        let script = b"# Cronbach's alpha (ingroup)\nalpha(d)\n# Calculate Cohen's d_z\nd_z(a)\n# x1 d_z 2nd\ny <- 2\n";
        let expected = &[("Cronbach's alpha (ingroup)", "alpha(d)"), ("Calculate Cohen's d_z", "d_z(a)")];
        released(script, expected);
        fixed("r", script, expected);
        // The released code splits letters that are not ASCII, and a remaining byte may not be a letter.
        let script = "# Über ändern\nn <- 3\n# Übung ñandú\nn <- 4\n".as_bytes();
        released(script, &[("Ã\u{83}Â\u{9c}ber Ã\u{83}Â¤ndern", "n <- 3")]);
        fixed("r", script, &[("Über ändern", "n <- 3"), ("Übung ñandú", "n <- 4")]);
    }

    #[test]
    fn lines_are_stripped_and_joined_as_released() {
        let script =
            b"f <- function(x) {\n  # Scale the values\n  y <- x / 2 # half\n  if (y > 1) {\n    y\n  }\n}\n";
        released(script, &[("Scale the values", "y <- x / 2 # half if (y > 1) { y } }")]);
        fixed("r", script, &[("Scale the values", "  y <- x / 2 # half\n  if (y > 1) {\n    y\n  }\n}")]);
    }

    #[test]
    fn equal_comments_are_one_as_released() {
        let script = b"# Plot the means\nplot(a)\n# Fit a model\nlm(a)\n# Plot the means\nplot(b)\n";
        released(script, &[("Plot the means", "plot(a) plot(b)"), ("Fit a model", "lm(a)")]);
        released(
            b"# Plot the means\nplot(a)\n#Plot the means\nplot(b)\rplot(c)\n",
            &[("Plot the means", "plot(a)"), ("Plot the means", "plot(b) plot(c)")],
        );
        fixed(
            "r",
            script,
            &[("Plot the means", "plot(a)"), ("Fit a model", "lm(a)"), ("Plot the means", "plot(b)")],
        );
    }

    #[test]
    fn other_languages_have_their_own_marker() {
        let go = b"func f() {\n\t// Open the file,\n\t// which may be missing.\n\tg()\n\n\t/// Close it again\n\th()\n}\n";
        fixed("go", go, &[("Open the file, which may be missing.", "g()"), ("Close it again", "\th()\n}")]);
        fixed(
            "python",
            b"#!/usr/bin/env python of mine\nx = 1\n# Add one more\nx += 1\n",
            &[("Add one more", "x += 1")],
        );
        fixed(
            "c",
            b"#include <a.h>\n// Return the sum\nreturn a + b;\n",
            &[("Return the sum", "return a + b;")],
        );
        let markdown = language_named("markdown").unwrap();
        assert!(comment_blocks(markdown, b"# A title of mine\ntext\n", [true; 2]).is_empty());
        let found = comment_blocks(language_named("go").unwrap(), go, [true; 2]);
        assert_eq!((found[0].start_line, found[0].end_line, found[1].start_line), (2, 4, 6));
    }

    #[test]
    fn markers_are_of_languages_that_are_known() {
        for name in [
            "r",
            "python",
            "ruby",
            "bash",
            "c",
            "cpp",
            "go",
            "java",
            "javascript",
            "typescript",
            "tsx",
            "rust",
        ] {
            assert!(marker(language_named(name).unwrap()).is_some(), "{name}");
        }
    }
}
