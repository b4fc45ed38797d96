//! Output of commands: results and JSON to stdout, everything else to stderr.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use quarry_text::escaped;
pub use quarry_text::{harmless, printable};
use serde::Serialize;

/// JSON in which all characters that [need it](quarry_text::needs_escape) are escaped, also those that serde_json keeps;
/// they occur in strings only.
fn harmless_json(json: &str) -> Cow<'_, str> {
    escaped(json, &['\n'], |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Prints text to stdout. On a terminal control characters are escaped ([`harmless`]); into a pipe or file it is
/// written unchanged, so that programs get the names of files unchanged, as from `ls`.
pub fn print(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return print_bytes(harmless(text).as_bytes());
    }
    print_bytes(text.as_bytes())
}

/// Prints paths, each with a text and `end` after it, like [`print()`]; but always unchanged if they end with NUL,
/// which only programs read.
pub fn print_paths<'a>(paths: impl Iterator<Item = (&'a Path, String)>, end: char) -> io::Result<()> {
    let is_for_person = io::stdout().is_terminal() && end != '\0';
    let mut out = Vec::new();
    for (path, text) in paths {
        if is_for_person {
            out.extend_from_slice(printable(&format!("{}{text}", path.display())).as_bytes());
        } else {
            // Unchanged even if it is not UTF-8.
            out.extend_from_slice(path.as_os_str().as_encoded_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(end.encode_utf8(&mut [0; 4]).as_bytes());
    }
    print_bytes(&out)
}

/// Prints places in files, each a path with the position and a text after it, as lines that people read, too: control
/// characters are always escaped ([`printable`]), and only names that are not UTF-8 are written unchanged where they are
/// not.
pub fn print_positions<'a>(places: impl Iterator<Item = (&'a Path, String)>) -> io::Result<()> {
    let mut out = Vec::new();
    for (path, text) in places {
        for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
            out.extend_from_slice(printable(chunk.valid()).as_bytes());
            out.extend_from_slice(chunk.invalid());
        }
        out.extend_from_slice(printable(&text).as_bytes());
        out.push(b'\n');
    }
    if io::stdout().is_terminal() {
        return print_bytes(harmless(&String::from_utf8_lossy(&out)).as_bytes());
    }
    print_bytes(&out)
}

/// Prints bytes to stdout unchanged: output in a format that a program requested, or text with styles, whose parts are
/// [`printable`] regardless of stdout.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_json_lines(&[value])
}

pub fn print_json_lines(values: &[impl Serialize]) -> anyhow::Result<()> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(value)?);
        text.push('\n');
    }
    Ok(print_json_text(&text)?)
}

/// Prints lines that are JSON already to stdout.
pub fn print_json_text(json: &str) -> io::Result<()> {
    print_bytes(harmless_json(json).as_bytes())
}

/// True if only errors are printed.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints a line for the person at the terminal to stderr, unless it is [quiet](be_quiet). The text may quote
/// files and servers.
pub fn note(text: &str) {
    if !is_quiet() {
        print_line(text);
    }
}

fn print_line(text: &str) {
    // Without a stderr, nothing can be reported.
    let _ = writeln!(io::stderr().lock(), "quarry: {}", harmless(text));
}

pub fn note_once(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
        note(text);
    }
}

/// Prints an error and its causes to stderr.
pub fn print_error(error: &anyhow::Error) {
    print_line(&with_causes(error.chain()));
}

/// Prints once that something was done in spite of an error to stderr, with the error and its causes.
pub fn warn_once(what: &str, error: &(dyn std::error::Error + 'static)) {
    note_once(&format!("{what}: {}", with_causes(anyhow::Chain::new(error))));
}

/// Message of Linux and macOS for a missing file.
const MISSING: &str = "No such file or directory (os error 2)";

/// An error with its causes. Some errors name their cause themselves, which is not repeated. A missing file is
/// reported in the same words by all commands.
fn with_causes(chain: anyhow::Chain<'_>) -> String {
    let text = joined(chain);
    match text.strip_suffix(MISSING).and_then(|before| before.split_once(": cannot be read")) {
        Some((path, _)) => format!("{path}: no such file or directory; check the path"),
        None => text.replace(MISSING, "no such file or directory"),
    }
}

fn joined(chain: anyhow::Chain<'_>) -> String {
    let mut text = String::new();
    for cause in chain.map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json_and_is_harmless() {
        let value = "a\u{9b}31m\u{7f}\u{202e}\u{e0041}\x1b\n\"é";
        let json = serde_json::to_string(value).unwrap();
        let escaped = harmless_json(&json);
        assert!(!escaped.contains(quarry_text::needs_escape), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), value);
    }

    #[test]
    fn a_cause_in_its_error_is_printed_once() {
        let message = |error: anyhow::Error| with_causes(error.chain());
        let full = || anyhow::Error::new(io::Error::other("no space left"));
        assert_eq!(
            message(full().context("a.json cannot be written")),
            "a.json cannot be written: no space left"
        );
        assert_eq!(
            message(full().context("cannot write: no space left; make room")),
            "cannot write: no space left; make room"
        );
        let missing = || anyhow::Error::new(io::Error::from_raw_os_error(2));
        assert_eq!(
            message(missing().context("a.toml: cannot be read; check the path and its permissions")),
            "a.toml: no such file or directory; check the path"
        );
        assert_eq!(
            message(missing().context("out/a.json: cannot be written")),
            "out/a.json: cannot be written: no such file or directory"
        );
        assert_eq!(
            message(full().context("the cache").context("the plan")),
            "the plan: the cache: no space left"
        );
    }
}
