//! Views: the visible part of a repository, without text that would give an answer away.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;

use super::tree::{SourceFile, is_function, own_name};
use quarry_walk::FileFlags;

/// Text hidden from search. Line numbers do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct View {
    /// The documentation of functions.
    pub hides_docs: bool,
    /// The names of functions, in their definitions and bodies.
    pub hides_names: bool,
    /// Tests.
    pub hides_tests: bool,
}

/// Replacement of a hidden name.
const NO_NAME: &str = "f";

impl View {
    /// Returns true if nothing is hidden.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// The visible part of a file; `None` if it is hidden completely.
    #[must_use]
    pub fn apply(self, file: &SourceFile) -> Option<Vec<u8>> {
        if self.hides_tests && file.flags.contains(FileFlags::TEST) {
            return None;
        }
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        for unit in &file.units {
            let hides_unit = self.hides_tests && unit.is_test;
            if hides_unit {
                edits.push((unit.bytes.clone(), line_ends(&file.bytes[unit.bytes.clone()])));
            }
            if hides_unit || !is_function(unit) {
                continue;
            }
            if self.hides_docs {
                edits.extend(
                    unit.doc_bytes.iter().map(|doc| (doc.clone(), without_doc(&file.bytes[doc.clone()]))),
                );
            }
            if self.hides_names {
                let of_unit = &file.bytes[unit.bytes.clone()];
                let name = own_name(&unit.name);
                let found = occurrences(of_unit, name.as_bytes());
                let at = |start: usize| unit.bytes.start + start..unit.bytes.start + start + name.len();
                edits.extend(found.map(|start| (at(start), NO_NAME.as_bytes().to_vec())));
            }
        }
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        Some(replace(&file.bytes, edits))
    }

    /// Writes the visible part of files into a directory.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(self, files: &[SourceFile], directory: &Path) -> io::Result<()> {
        for file in files {
            let Some(bytes) = self.apply(file) else { continue };
            let path = directory.join(&file.path);
            fs::create_dir_all(path.parent().unwrap_or(directory))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

/// The replacement of documentation: its line breaks and, for a string, its quotes, since it may be the whole body.
fn without_doc(doc: &[u8]) -> Vec<u8> {
    let is_string =
        doc.iter().find(|byte| !byte.is_ascii_alphabetic()).is_some_and(|byte| b"\"'".contains(byte));
    let mut left = if is_string { b"\"\"".to_vec() } else { Vec::new() };
    left.extend(line_ends(doc));
    left
}

fn line_ends(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| *byte == b'\n').collect()
}

/// Offsets of `name` as a whole identifier.
fn occurrences<'a>(text: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 128)
    };
    let is_name = !name.is_empty() && name.iter().all(|byte| is_part(Some(byte)));
    (0..text.len().saturating_sub(name.len().saturating_sub(1))).filter(move |&start| {
        is_name
            && text[start..].starts_with(name)
            && !is_part(start.checked_sub(1).map(|before| &text[before]))
            && !is_part(text.get(start + name.len()))
    })
}

/// Replaces ascending ranges; an edit that begins within a replaced range is skipped.
fn replace(bytes: &[u8], edits: Vec<(Range<usize>, Vec<u8>)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for (range, text) in edits {
        if range.start < at {
            continue;
        }
        out.extend_from_slice(&bytes[at..range.start]);
        out.extend(text);
        at = range.end;
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::files;
    use super::*;

    fn seen(view: View, path: &str, content: &str) -> Option<String> {
        view.apply(&files(&[(path, content)])[0]).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    const PYTHON: &str = "class A:\n    \"\"\"Stays.\"\"\"\n\n    def add(self, a):\n        \"\"\"Add up.\n\n        All.\n        \"\"\"\n        return self.add(a) + adder\n";

    #[test]
    fn docs_are_hidden_and_lines_stay() {
        let docs = View { hides_docs: true, ..View::default() };
        let expected = "class A:\n    \"\"\"Stays.\"\"\"\n\n    def add(self, a):\n        \"\"\n\n\n\n        return self.add(a) + adder\n";
        assert_eq!(seen(docs, "a.py", PYTHON).unwrap(), expected);
        let rust = "/// Adds up.\n///\n/// All.\nfn add(a: u32) -> u32 {\n    a\n}\n";
        assert_eq!(seen(docs, "a.rs", rust).unwrap(), "\n\n\nfn add(a: u32) -> u32 {\n    a\n}\n");
    }

    #[test]
    fn names_are_hidden_in_their_own_function() {
        let names = View { hides_names: true, hides_docs: true, ..View::default() };
        let found = seen(names, "a.py", PYTHON).unwrap();
        assert!(found.contains("def f(self, a)") && found.contains("self.f(a) + adder"), "{found}");
        assert!(found.starts_with("class A:"));
    }

    #[test]
    fn tests_are_hidden_everywhere() {
        let tests = View { hides_tests: true, ..View::default() };
        assert_eq!(seen(tests, "tests/a.py", PYTHON), None);
        assert_eq!(seen(tests, "a.py", PYTHON).unwrap(), PYTHON);
        let rust = "fn add() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        add();\n    }\n}\n";
        let found = seen(tests, "a.rs", rust).unwrap();
        assert!(found.contains("fn add()") && !found.contains("adds"), "{found}");
        assert_eq!(found.lines().count(), rust.lines().count());
    }

    #[test]
    fn a_plain_view_is_the_file() {
        assert!(View::default().is_plain());
        assert_eq!(seen(View::default(), "a.py", PYTHON).unwrap(), PYTHON);
    }
}
