//! The calls in one file.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use quarry_source::{Call, Import, Language, References, SourceText, language_named};

use super::module::File;
use super::modules::Modules;
use super::receiver::Surroundings;
use super::resolve::{Resolution, Site, is_inside, name_of, resolve};
use super::stored::StoredReferences;
use super::words::Words;
use super::{CallSite, Definitions, UnfinishedFile};
use crate::Index;
use crate::storage::content_hash::content_hash;

/// Number of bytes of a line that are shown on each side of a call.
const MAX_LINE_BYTES: usize = 160;

/// A file with the requested ones of its calls.
pub(super) struct CalledFile<'a> {
    index: &'a Index,
    row: usize,
    root: usize,
    path: &'a str,
    /// The outermost searched path that contains it, and its path relative to that.
    in_tree: (usize, &'a str),
    /// Invalid UTF-8 is replaced, byte by byte.
    source: String,
    references: References,
}

/// The key by which calls are merged: the containing unit, the name, the receiver, and whether that is a path.
type CallKey<'a> = (Option<usize>, &'a str, Option<&'a str>, bool);

/// Requested calls.
pub(super) enum CallSelection<'a> {
    /// Calls of some names, or of aliases that imports give them.
    Names(&'a BTreeSet<&'a str>),
    /// Calls in some units.
    Units(&'a BTreeSet<usize>),
}

impl Index {
    /// Reads a file and at least the requested ones of its calls; `None` if it is not found. The calls are those
    /// stored in the index or, if the file has changed since, those that are in it now.
    pub(super) fn called_file(&self, row: usize, asked: &CallSelection) -> Option<CalledFile<'_>> {
        let (root, path) = self.root_of(row)?;
        let in_tree = self.outermost_root_of(row).map(|(root, path)| (root.number, path))?;
        let record = &self.table.files[row];
        let language = language_named(self.table.text(record.language))?;
        let text = self.text_in(root.number, path).ok()?;
        let is_same = content_hash(&text) == record.hash;
        let stored = is_same.then(|| self.stored_references(row, language, &text, asked)).flatten();
        let mut references = stored.unwrap_or_else(|| text.extract_with_references(language).1);
        if let CallSelection::Names(names) = asked
            && !names.iter().any(|name| holds_word(text.bytes(), name))
        {
            // Nothing that is missing in it is requested.
            references.missing = None;
        }
        let source = match String::from_utf8(text.into_bytes()) {
            Ok(source) => source,
            Err(error) => {
                let mut source = String::new();
                for chunk in error.as_bytes().utf8_chunks() {
                    source.push_str(chunk.valid());
                    source.extend(chunk.invalid().iter().map(|_| '?'));
                }
                source
            }
        };
        Some(CalledFile { index: self, row, root: root.number, path, in_tree, source, references })
    }

    /// The stored calls of a file with some text; `None` if they are damaged.
    fn stored_references(
        &self,
        row: usize,
        language: Language,
        text: &SourceText,
        asked: &CallSelection,
    ) -> Option<References> {
        let stored = StoredReferences::read(self.table.calls(&self.table.files[row]), language)?;
        match asked {
            CallSelection::Names(names) => {
                let imported = stored.imports.iter().flat_map(|import| &import.names);
                let renamed = imported.filter(|name| names.contains(name.name.as_str()));
                let aliases: BTreeSet<String> = renamed.filter_map(|name| name.alias.clone()).collect();
                stored.with_calls(text, |callee, _| names.contains(callee) || aliases.contains(callee))
            }
            CallSelection::Units(units) => stored.with_calls(text, |_, byte| {
                self.unit_around(row, byte).is_some_and(|unit| units.contains(&unit))
            }),
        }
    }

    /// The unit of a file that contains a byte of its text.
    fn unit_around(&self, row: usize, byte: usize) -> Option<usize> {
        let units = self.units_of_files[row].clone();
        let records = &self.table.units[units.clone()];
        let next = records.partition_point(|record| record.start_byte as usize <= byte);
        let last = next.checked_sub(1)?;
        (byte < records[last].end_byte as usize).then_some(units.start + last)
    }
}

impl CalledFile<'_> {
    /// Why calls are missing, if any are.
    pub fn unfinished(&self) -> Option<UnfinishedFile> {
        let missing = self.references.missing.as_ref()?;
        Some(UnfinishedFile {
            root: self.root,
            path: self.path.to_owned(),
            line: missing.line,
            reason: missing.message.clone(),
        })
    }

    /// The names called in some of its units.
    pub fn names_in(&self, units: &BTreeSet<usize>) -> BTreeSet<&str> {
        self.calls_in(units).map(|(_, call)| name_of(call, &self.references.imports)).collect()
    }

    /// The calls in some of its units, with their possible targets.
    pub fn sites_in(
        &self,
        units: &BTreeSet<usize>,
        definitions: &Definitions,
        modules: &Modules,
    ) -> Vec<(&str, CallSite)> {
        self.resolved(self.calls_in(units), definitions, modules)
    }

    /// The calls of wanted names, with their possible targets.
    pub fn sites(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        definitions: &Definitions,
        modules: &Modules,
    ) -> Vec<(&str, CallSite)> {
        let calls = self.calls().filter(|(_, call)| is_wanted(name_of(call, &self.references.imports)));
        self.resolved(calls, definitions, modules)
    }

    /// The calls with the units that contain them.
    fn calls(&self) -> impl Iterator<Item = (Option<usize>, &Call)> {
        self.references.calls.iter().map(|call| (self.index.unit_around(self.row, call.byte), call))
    }

    fn calls_in(&self, units: &BTreeSet<usize>) -> impl Iterator<Item = (Option<usize>, &Call)> {
        self.calls().filter(|(unit, _)| unit.is_some_and(|unit| units.contains(&unit)))
    }

    /// Calls by called name, with their possible targets: shared by all that look the same in a unit.
    fn resolved<'a>(
        &'a self,
        calls: impl Iterator<Item = (Option<usize>, &'a Call)>,
        definitions: &Definitions,
        modules: &Modules,
    ) -> Vec<(&'a str, CallSite)> {
        let site = |(caller, call, called, resolution): (Option<usize>, &'a Call, &'a str, Resolution)| {
            let Resolution { units, is_certain } = resolution;
            let site = CallSite {
                root: self.root,
                path: self.path.to_owned(),
                line: call.line,
                text: line_around(&self.source, call.byte),
                caller: caller.map(|unit| self.index.unit(unit)),
                callee: call.callee.clone(),
                receiver: call.receiver.clone(),
                qualified: match &call.receiver {
                    Some(receiver) => {
                        format!("{receiver}{}{}", separator_before(&self.source, call.byte), call.callee)
                    }
                    None => call.callee.clone(),
                },
                definitions: units,
                is_certain,
            };
            (called, site)
        };
        self.resolutions(calls, definitions, modules).into_iter().map(site).collect()
    }

    pub fn imports(&self) -> &[Import] {
        &self.references.imports
    }

    /// The calls in some of its units: unit, line, called name, and possible targets.
    pub fn targets(
        &self,
        units: &BTreeSet<usize>,
        definitions: &Definitions,
        modules: &Modules,
    ) -> Vec<(usize, u32, &str, Resolution)> {
        let resolved = self.resolutions(self.calls_in(units), definitions, modules).into_iter();
        resolved.filter_map(|(unit, call, called, found)| Some((unit?, call.line, called, found))).collect()
    }

    /// Calls with the units that contain them, the called names and the possible targets.
    fn resolutions<'a>(
        &'a self,
        calls: impl Iterator<Item = (Option<usize>, &'a Call)>,
        definitions: &Definitions,
        modules: &Modules,
    ) -> Vec<(Option<usize>, &'a Call, &'a str, Resolution)> {
        let words = Words::default();
        let known: RefCell<HashMap<CallKey, Resolution>> = RefCell::default();
        let resolution = |caller: Option<usize>, call: &'a Call, called: &str| {
            let before = self.source.get(..call.byte).unwrap_or_default();
            let follows_path = before.trim_end().ends_with("::");
            let key = (caller, call.callee.as_str(), call.receiver.as_deref(), follows_path);
            if let Some(known) = known.borrow().get(&key) {
                return known.clone();
            }
            let record = caller.map(|unit| &self.index.table.units[unit]);
            let (tree, path) = self.in_tree;
            let name = caller.map_or("", |unit| self.index.name_of_unit(unit));
            let is_around = move |byte: usize| {
                let unit = self.index.unit_around(self.row, byte);
                unit.is_none_or(|unit| is_inside(name, self.index.name_of_unit(unit)))
            };
            let site = Site {
                file: File { tree, path, language: call.language },
                row: self.row,
                modules,
                name,
                follows_path,
                imports: &self.references.imports,
                surroundings: Surroundings {
                    text: &self.source,
                    words: &words,
                    unit_bytes: record.map_or(0..0, |unit| unit.start_byte as usize..unit.end_byte as usize),
                    is_around: Box::new(is_around),
                },
            };
            let found = definitions
                .get(called)
                .map(|candidates| resolve(call, &site, candidates))
                .unwrap_or_default();
            known.borrow_mut().insert(key, found.clone());
            found
        };
        let resolved = |(caller, call): (Option<usize>, &'a Call)| {
            let called = name_of(call, &self.references.imports);
            (caller, call, called, resolution(caller, call, called))
        };
        calls.map(resolved).collect()
    }
}

/// The separator before the name at a byte: `.`, `::`, `->`.
fn separator_before(source: &str, byte: usize) -> &str {
    let before = source.get(..byte).unwrap_or_default().trim_end();
    let start = before.trim_end_matches(['.', ':', '-', '>', '?', '!', '#', '$']).len();
    match &before[start..] {
        "" => " ",
        separator => separator,
    }
}

/// The trimmed line that contains a byte, or the text around that byte.
fn line_around(source: &str, byte: usize) -> String {
    let byte = source.floor_char_boundary(byte);
    let first = source.ceil_char_boundary(byte.saturating_sub(MAX_LINE_BYTES));
    let last = source.floor_char_boundary(byte + MAX_LINE_BYTES);
    let newline = memchr::memrchr(b'\n', &source.as_bytes()[first..byte]);
    let (start, is_cut_before) = match newline {
        Some(newline) => (first + newline + 1, false),
        None => (first, first > 0 && source.as_bytes()[first - 1] != b'\n'),
    };
    let newline = memchr::memchr(b'\n', &source.as_bytes()[byte..last]);
    let (end, is_cut_after) = match newline {
        Some(newline) => (byte + newline, false),
        None => (last, last < source.len() && source.as_bytes()[last] != b'\n'),
    };
    let mark = |is_cut: bool| if is_cut { "…" } else { "" };
    [mark(is_cut_before), source[start..end].trim(), mark(is_cut_after)].concat()
}

/// Returns whether a text contains a name as a whole word.
fn holds_word(text: &[u8], name: &str) -> bool {
    let is_word_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let goes_on = |inside: Option<&u8>, beside: Option<&u8>| {
        inside.is_some_and(is_word_part) && beside.is_some_and(is_word_part)
    };
    let (first, last) = (name.as_bytes().first(), name.as_bytes().last());
    memchr::memmem::find_iter(text, name.as_bytes()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        !goes_on(first, before) && !goes_on(last, text.get(at + name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words() {
        for (text, expected) in [
            ("a.get()", true),
            ("get", true),
            ("getter target", false),
            ("_get get_", false),
            ("target.get", true),
        ] {
            assert_eq!(holds_word(text.as_bytes(), "get"), expected, "{text}");
        }
        assert!(holds_word(b"a.save!(b)", "save!"));
        assert!(!holds_word(b"unsave!", "save!"));
    }

    #[test]
    fn long_lines_are_cut_around_the_call() {
        assert_eq!(line_around("a\n  f(x)  \nb", 4), "f(x)");
        assert_eq!(line_around("f", 0), "f");
        let source = format!("{}f(){}\n", "é".repeat(1000), "ü".repeat(1000));
        let text = line_around(&source, 2000);
        assert!(text.len() < 3 * MAX_LINE_BYTES, "{text}");
        assert!(text.starts_with("…é") && text.contains("éf()ü") && text.ends_with("ü…"), "{text}");
    }
}
