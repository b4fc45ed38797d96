//! Who calls a definition, and what it calls.
//!
//! Calls are not in the index. They are found when somebody asks, in the files that hold the name, which the postings
//! tell: so that indexing takes no longer, and what is found is what the files hold now. What a call means is decided by
//! names, scopes and imports ([`resolve`]); where these leave several definitions, all of them are named.

mod resolve;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use quarry_source::{Call, Language, References, language_named, references_in};
use quarry_text::lexical_terms;
use rayon::prelude::*;

use self::resolve::{Candidate, Site, name_of, resolve};
use crate::rules::{is_definition, last_part};
use crate::{Error, Filter, Hit, Index};

/// A place where something is called.
#[derive(Debug, Clone)]
pub struct CallSite {
    /// Number of the path that its file was found in, among those that are searched together.
    pub root: usize,
    /// Path relative to that one, `/` between its parts.
    pub path: String,
    /// 1-based.
    pub line: u32,
    /// The text of the line, without the white space around it.
    pub text: String,
    /// What it is in; none outside of units.
    pub caller: Option<Hit>,
    /// The name that is called, as it is written there.
    pub callee: String,
    /// What it is called on or looked up in, as it is written there.
    pub receiver: Option<String>,
    /// Both together, as they are written there.
    pub qualified: String,
    /// Numbers of the units that it may call, ascending; empty where that is nothing in the tree.
    pub definitions: Vec<usize>,
    /// Whether scopes or imports say which it is. Otherwise only the name does: it may be any of `definitions`, or
    /// something outside of the tree.
    pub is_certain: bool,
}

/// Something that a definition calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callee {
    /// The name that is called, with what it is called on or looked up in, as they are written.
    pub name: String,
    /// Where, 1-based, ascending.
    pub lines: Vec<u32>,
    /// As [`CallSite::definitions`].
    pub definitions: Vec<usize>,
    /// As [`CallSite::is_certain`].
    pub is_certain: bool,
}

/// A file with what it calls.
struct CalledFile<'a> {
    row: usize,
    root: usize,
    path: &'a str,
    language: Language,
    /// Bytes that are not UTF-8 are replaced, by as many.
    source: String,
    references: References,
}

/// What is defined under each of some names.
type Definitions<'a> = HashMap<&'a str, Vec<Candidate<'a>>>;

impl Index {
    /// The functions, methods and types that have a name: `open`, or qualified as `Index.open`, `Index::open` or
    /// `index/open`, where what comes before the last part is the end of what the definition is in: types, then the
    /// file. In the order of their paths and lines, each once, however many units it was split into; where none is
    /// spelled so, those that are in another case.
    #[must_use]
    pub fn definitions_of(&self, name: &str, filter: &Filter) -> Vec<Hit> {
        let allowed = self.allowed(filter);
        let parts: Vec<&str> = name.split(['.', ':', '#', '/']).filter(|part| !part.is_empty()).collect();
        let Some(own) = parts.last() else { return Vec::new() };
        let of = |is_same: fn(&str, &str) -> bool| -> Vec<Hit> {
            let is_named = |unit: &usize| {
                let record = &self.table.units[*unit];
                let name = self.table.text(record.name);
                is_definition(record.kind())
                    && is_same(last_part(name), own)
                    && allowed.as_ref().is_none_or(|allowed| allowed[*unit])
                    && self.is_first_part(*unit)
                    && is_qualified(name, self.table.text(self.table.file_of(record).path), &parts, is_same)
            };
            (0..self.n_units()).filter(is_named).map(|unit| self.unit(unit)).collect()
        };
        let exact = of(|a, b| a == b);
        if exact.is_empty() { of(|a, b| a.eq_ignore_ascii_case(b)) } else { exact }
    }

    /// The function, method or type at a line (1-based) of a file (path relative to the first of the searched paths): the
    /// beginning of the innermost one. None where none is indexed.
    #[must_use]
    pub fn definition_at(&self, path: &str, line: u32) -> Option<Hit> {
        self.definition_at_in(0, path, line)
    }

    /// Like [`definition_at`](Self::definition_at), in one of the searched paths, by its number.
    #[must_use]
    pub fn definition_at_in(&self, root: usize, path: &str, line: u32) -> Option<Hit> {
        let found = self.unit_at_in(root, path, line)?;
        if !is_definition(found.kind) {
            return None;
        }
        let units = &self.units_of_files[self.table.units[found.unit].file as usize];
        let is_beginning = |unit: &usize| self.name_of_unit(*unit) == found.name && self.is_first_part(*unit);
        let beginning = (units.start..=found.unit).rev().find(is_beginning)?;
        Some(self.unit(beginning))
    }

    /// The places that call any of `targets`, which are definitions, or where there is none of them, anything called
    /// `name`, in the order of paths and lines. `filter` says in which files.
    ///
    /// # Errors
    /// When the index cannot be read. Files that cannot be read are left out.
    pub fn callers(&self, name: &str, targets: &[Hit], filter: &Filter) -> Result<Vec<CallSite>, Error> {
        let wanted: BTreeSet<usize> = targets.iter().map(|hit| hit.unit).collect();
        let mut names: BTreeSet<&str> = targets.iter().map(|hit| last_part(&hit.name)).collect();
        if targets.is_empty() {
            names.extend(name.rsplit(['.', ':', '#', '/']).next());
        }
        // A constructor is called by the name of its type.
        let mut constructed: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        for hit in targets {
            let language = language_named(&hit.language);
            let own = last_part(&hit.name);
            let is_constructor =
                language.is_some_and(|language| language.constructors().iter().any(|name| name == own));
            if let Some((owner, _)) = hit.name.rsplit_once('.').filter(|_| is_constructor) {
                names.insert(last_part(owner));
                constructed.entry(last_part(owner)).or_default().insert(hit.unit);
            }
        }
        let mut rows: BTreeSet<usize> = BTreeSet::new();
        for name in &names {
            rows.extend(self.files_with(name, filter)?);
        }
        let definitions = self.definitions_named(&names);
        let allowed = self.allowed(filter);
        let is_allowed = |site: &CallSite| {
            allowed.as_ref().is_none_or(|allowed| site.caller.as_ref().is_some_and(|hit| allowed[hit.unit]))
        };
        let of_file = |row: usize| -> Vec<CallSite> {
            let has_name = |text: &[u8]| names.iter().any(|name| holds(text, name));
            let Some(mut file) = self.called_file(row, |_, text| has_name(text)) else { return Vec::new() };
            let imported = file.references.imports.iter().flat_map(|import| &import.names);
            let aliases: Vec<String> = imported
                .filter(|name| names.contains(name.name.as_str()))
                .filter_map(|name| name.alias.clone())
                .collect();
            if !aliases.is_empty() {
                // It is called by other names, too.
                let has_alias = |text: &[u8]| aliases.iter().any(|alias| holds(text, alias));
                match self.called_file(row, |_, text| has_name(text) || has_alias(text)) {
                    Some(whole) => file = whole,
                    None => return Vec::new(),
                }
            }
            let found = file.references.calls.iter().filter_map(|call| {
                let called = name_of(call, &file.references.imports);
                if !names.contains(called) {
                    return None;
                }
                let mut site = self.call_site(&file, call, &definitions);
                if targets.is_empty() {
                    return Some(site);
                }
                // A type stands for its constructors.
                if let Some(constructors) = constructed.get(called) {
                    let types: BTreeSet<&str> =
                        site.definitions.iter().map(|unit| self.name_of_unit(*unit)).collect();
                    let is_of = |unit: &&usize| {
                        let name = self.name_of_unit(**unit);
                        name.rsplit_once('.').is_some_and(|(owner, _)| types.contains(owner))
                    };
                    site.definitions = constructors.iter().filter(is_of).copied().collect();
                }
                site.definitions.iter().any(|unit| wanted.contains(unit)).then_some(site)
            });
            found.collect()
        };
        let mut sites: Vec<CallSite> = rows.into_par_iter().flat_map_iter(of_file).collect();
        sites.retain(is_allowed);
        Ok(sites)
    }

    /// What a definition calls, in the order of the first call; what is called in functions that it holds is part of it.
    /// Calls that may mean the same definitions are one, and so are those of one name that means nothing in the tree.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn callees(&self, target: &Hit) -> Result<Vec<Callee>, Error> {
        let mut callees: Vec<Callee> = Vec::new();
        for site in self.calls_in(target)? {
            let is_same = |callee: &&mut Callee| {
                callee.definitions == site.definitions
                    && (!site.definitions.is_empty() || callee.name == site.qualified)
            };
            match callees.iter_mut().find(is_same) {
                Some(callee) => {
                    callee.is_certain |= site.is_certain;
                    if callee.lines.last() != Some(&site.line) {
                        callee.lines.push(site.line);
                    }
                }
                None => callees.push(Callee {
                    name: site.qualified,
                    lines: vec![site.line],
                    definitions: site.definitions,
                    is_certain: site.is_certain,
                }),
            }
        }
        Ok(callees)
    }

    /// The calls in a definition, in the order of the source.
    fn calls_in(&self, target: &Hit) -> Result<Vec<CallSite>, Error> {
        let row = self.table.units[target.unit].file as usize;
        // What goes wrong in reading is told, as nothing else is asked for.
        self.text(target)?;
        let units = self.parts_of(target.unit);
        let Some(file) = self.called_file(row, |unit, _| units.contains(&unit)) else {
            return Ok(Vec::new());
        };
        let is_inside =
            |call: &&Call| self.unit_around(row, call.byte).is_some_and(|unit| units.contains(&unit));
        let calls: Vec<&Call> = file.references.calls.iter().filter(is_inside).collect();
        let names: BTreeSet<&str> =
            calls.iter().map(|call| name_of(call, &file.references.imports)).collect();
        let definitions = self.definitions_named(&names);
        Ok(calls.into_iter().map(|call| self.call_site(&file, call, &definitions)).collect())
    }

    /// The call of a file with what it may mean.
    fn call_site(&self, file: &CalledFile, call: &Call, definitions: &Definitions) -> CallSite {
        let source = file.source.as_str();
        let caller = self.unit_around(file.row, call.byte);
        let bytes = caller
            .map(|unit| self.table.units[unit].start_byte as usize..self.table.units[unit].end_byte as usize);
        let site = Site {
            path: file.path,
            language: caller
                .and_then(|unit| language_named(self.table.text(self.table.units[unit].language)))
                .unwrap_or(file.language),
            name: caller.map_or("", |unit| self.name_of_unit(unit)),
            imports: &file.references.imports,
            texts: [bytes.and_then(|bytes| source.get(bytes)).unwrap_or_default(), source],
        };
        let called = name_of(call, &file.references.imports);
        let candidates = definitions.get(called).map(Vec::as_slice).unwrap_or_default();
        let resolution = resolve(call, &site, candidates);
        let mut definitions = resolution.units;
        definitions.sort_unstable();
        CallSite {
            root: file.root,
            path: file.path.to_owned(),
            line: call.line,
            text: line_around(source, call.byte).to_owned(),
            caller: caller.map(|unit| self.unit(unit)),
            callee: call.callee.clone(),
            receiver: call.receiver.clone(),
            qualified: match &call.receiver {
                Some(receiver) => format!("{receiver}{}{}", separator_before(source, call.byte), call.callee),
                None => call.callee.clone(),
            },
            definitions,
            is_certain: resolution.is_certain,
        }
    }

    /// Reads a file and what is called in those of its units whose text `is_wanted`, if it is found, in a language whose
    /// calls are known, and has such a unit.
    fn called_file(&self, row: usize, is_wanted: impl Fn(usize, &[u8]) -> bool) -> Option<CalledFile<'_>> {
        let (root, path) = self.root_of(row)?;
        let language = language_named(self.table.text(self.table.files[row].language))?;
        if language.is_notebook() {
            return None;
        }
        let bytes = self.text_in(root.number, path).ok()?.into_bytes();
        // Imports are between definitions, or in them.
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut has_wanted = false;
        for unit in self.units_of_files[row].clone() {
            let record = &self.table.units[unit];
            let range = record.start_byte as usize..record.end_byte as usize;
            let Some(text) = bytes.get(range.clone()) else { continue };
            let is_wanted = is_wanted(unit, text);
            has_wanted |= is_wanted;
            if !is_wanted && is_definition(record.kind()) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if bytes[last.end..range.start].trim_ascii().is_empty() => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        if !has_wanted {
            return None;
        }
        let references = references_in(language, &bytes, &ranges);
        let source = match String::from_utf8(bytes) {
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
        Some(CalledFile { row, root: root.number, path, language, source, references })
    }

    /// Rows of the files that may hold a name.
    fn files_with(&self, name: &str, filter: &Filter) -> Result<BTreeSet<usize>, Error> {
        let allowed = self.allowed(filter);
        let is_allowed = |unit: &usize| allowed.as_ref().is_none_or(|allowed| allowed[*unit]);
        // The last term of a name is the most telling one: the whole of it, where it has several words.
        let mut term = None;
        lexical_terms(name, |found, _| term = Some(found.to_owned()));
        let units = match term {
            Some(term) => self.lexical.texts_with(&term)?,
            None => (0..self.n_units()).collect(),
        };
        Ok(units.into_iter().filter(is_allowed).map(|unit| self.table.units[unit].file as usize).collect())
    }

    /// All definitions that have one of some names.
    fn definitions_named<'a>(&'a self, names: &BTreeSet<&str>) -> Definitions<'a> {
        let mut definitions: Definitions = HashMap::new();
        for (unit, record) in self.table.units.iter().enumerate() {
            let name = self.table.text(record.name);
            let own = last_part(name);
            if !is_definition(record.kind()) || !names.contains(own) || !self.is_first_part(unit) {
                continue;
            }
            let Some(language) = language_named(self.table.text(record.language)) else { continue };
            let row = record.file as usize;
            let found = self.root_of(row).or_else(|| self.roots_around(row).next());
            let path = found.map_or_else(|| self.table.text(self.table.files[row].path), |(_, path)| path);
            definitions.entry(own).or_default().push(Candidate {
                unit,
                path,
                name,
                kind: record.kind(),
                language,
            });
        }
        definitions
    }

    /// The unit of a file that a byte of its text lies in.
    fn unit_around(&self, row: usize, byte: usize) -> Option<usize> {
        let units = self.units_of_files[row].clone();
        let is_before = |unit: &usize| self.table.units[*unit].start_byte as usize <= byte;
        let last = units.take_while(is_before).last()?;
        (byte < self.table.units[last].end_byte as usize).then_some(last)
    }

    /// The units of a definition: its own, and those of what it holds.
    fn parts_of(&self, unit: usize) -> BTreeSet<usize> {
        let record = &self.table.units[unit];
        let name = self.name_of_unit(unit);
        let inside = |other: &usize| {
            let rest = self.name_of_unit(*other).strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let units = self.units_of_files[record.file as usize].clone();
        // Another definition of that name is not part of it.
        let is_other = |other: &usize| self.name_of_unit(*other) == name && self.is_first_part(*other);
        let end = (unit + 1..units.end).find(is_other).unwrap_or(units.end);
        (unit..end).filter(inside).collect()
    }

    /// Whether a unit holds the beginning of what it is part of: only that has the declaration.
    fn is_first_part(&self, unit: usize) -> bool {
        !self.table.text(self.table.units[unit].signature).is_empty()
    }

    fn name_of_unit(&self, unit: usize) -> &str {
        self.table.text(self.table.units[unit].name)
    }
}

/// What stands between the name at a byte and what it is looked up in: `.`, `::`, `->`.
fn separator_before(source: &str, byte: usize) -> &str {
    let before = source.get(..byte).unwrap_or_default().trim_end();
    let start = before.trim_end_matches(['.', ':', '-', '>', '?', '!', '#', '$']).len();
    match &before[start..] {
        "" => " ",
        separator => separator,
    }
}

/// The line that a byte is on, without the white space around it.
fn line_around(source: &str, byte: usize) -> &str {
    let start = memchr::memrchr(b'\n', &source.as_bytes()[..byte]).map_or(0, |newline| newline + 1);
    let end =
        memchr::memchr(b'\n', &source.as_bytes()[byte..]).map_or(source.len(), |newline| byte + newline);
    source[start..end].trim()
}

fn holds(text: &[u8], name: &str) -> bool {
    memchr::memmem::find(text, name.as_bytes()).is_some()
}

/// Whether a qualified name in a file ends with all of `parts`, the file's name and directories coming before it.
fn is_qualified(name: &str, path: &str, parts: &[&str], is_same: fn(&str, &str) -> bool) -> bool {
    let path = path.rsplit_once('.').map_or(path, |(path, _)| path);
    let full: Vec<&str> = path.split('/').chain(name.split('.')).collect();
    full.len() >= parts.len() && full.iter().rev().zip(parts.iter().rev()).all(|(a, b)| is_same(a, b))
}
