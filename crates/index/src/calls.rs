//! Callers and callees of a definition.
//!
//! The calls and imports of each file are stored when it is indexed ([`stored`]). A request reads the files that
//! contain the name according to the postings, and their stored calls; for a file that has changed since, its current
//! calls are extracted instead. The target of a call is determined by names, scopes and imports ([`resolve`]); if
//! several definitions remain, all of them are listed.

mod file;
mod links;
mod manifest;
mod module;
mod modules;
mod receiver;
mod resolve;
mod stored;
#[cfg(test)]
mod tests;
mod words;

pub use links::{CallLink, FileLinks, ImportLink, LinkedFile, LinkedUnit, Links};
pub(crate) use stored::stored;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use quarry_source::{Language, language_named};
use quarry_text::{folded, lexical_terms};
use quarry_walk::FileFlags;
use rayon::prelude::*;

use self::file::CallSelection;
use self::module::Packages;
use self::modules::Modules;
use self::resolve::{Candidate, Candidates};
use self::stored::StoredReferences;
use crate::ranking::rules::{is_definition, last_part};
use crate::{Error, Filter, Hit, Index, IndexedFile};

/// A call in a file.
#[derive(Debug, Clone)]
pub struct CallSite {
    /// Index of the searched path that contains its file.
    pub root: usize,
    /// Path relative to that path, `/` between its parts.
    pub path: String,
    /// 1-based.
    pub line: u32,
    /// The trimmed text of the line; for a long line the text around the call, with `…` for the rest.
    pub text: String,
    /// The unit that contains it; `None` outside of units.
    pub caller: Option<Hit>,
    /// The called name, as written.
    pub callee: String,
    /// The receiver or qualifier, as written.
    pub receiver: Option<String>,
    /// Both together, as written.
    pub qualified: String,
    /// Numbers of the units that it may call, ascending; empty if it calls nothing in the tree.
    pub definitions: Arc<[usize]>,
    /// True if scopes or imports determine the target. Otherwise only the name matches: the target may be any of
    /// `definitions`, or something outside of the tree.
    pub is_certain: bool,
}

/// A callee of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callee {
    /// The called name, with its receiver or qualifier, as written.
    pub name: String,
    /// Lines of the calls, 1-based, ascending.
    pub lines: Vec<u32>,
    /// See [`CallSite::definitions`].
    pub definitions: Arc<[usize]>,
    /// See [`CallSite::is_certain`].
    pub is_certain: bool,
}

impl Calls<CallSite> {
    /// Number of calls matched by name only.
    pub fn n_by_name(&self) -> usize {
        self.found.iter().filter(|site| !site.is_certain).count()
    }
}

/// The result of a search for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls<T> {
    pub found: Vec<T>,
    /// Files with possible further calls, because a limit prevented reading them completely.
    pub unfinished: Vec<UnfinishedFile>,
    /// Of callers: number of calls of the same name that scopes or imports give another target.
    pub n_elsewhere: usize,
}

/// A file whose calls are not all known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedFile {
    /// See [`CallSite::root`].
    pub root: usize,
    /// See [`CallSite::path`].
    pub path: String,
    /// The 1-based line from which on calls are missing.
    pub line: u32,
    /// The limit that was exceeded.
    pub reason: String,
}

/// The definitions of each of some names.
type Definitions<'a> = HashMap<&'a str, Candidates<'a>>;

impl Index {
    /// The functions, methods and types with a name: `open`, or qualified as `Index.open`, `Index::open` or
    /// `index/open`, where the part before the last is a suffix of what contains the definition: types, then the
    /// file. If nothing is directly in a file that is given before a `/`, the types in between may be left out. In the
    /// order of paths and lines, without repetition even if a definition was split into several units; if none is
    /// spelled like this, those in another case.
    pub fn definitions_of(&self, name: &str, filter: &Filter) -> Vec<Hit> {
        let allowed = self.allowed(filter);
        let parts: Vec<&str> = name.split(SEPARATORS).filter(|part| !part.is_empty()).collect();
        let Some(own) = parts.last() else { return Vec::new() };
        let of_file = name.trim_end_matches('/').rsplit_once('/').map_or("", |(file, _)| file);
        let n_of_file = of_file.split(SEPARATORS).filter(|part| !part.is_empty()).count();
        let find = |is_same: fn(&str, &str) -> bool, skips_types: bool| -> Vec<Hit> {
            let is_named = |unit: &usize| {
                let record = &self.table.units[*unit];
                let name = self.table.text(record.name);
                let path = || self.table.text(self.table.file_of(record).path);
                is_definition(record.kind())
                    && is_same(last_part(name), own)
                    && allowed.as_ref().is_none_or(|allowed| allowed[*unit])
                    && self.is_first_part(*unit)
                    && match skips_types {
                        true => is_qualified_by_file(name, path(), n_of_file, &parts, is_same),
                        false => is_qualified(name, path(), &parts, is_same),
                    }
            };
            (0..self.n_units()).filter(is_named).map(|unit| self.unit(unit)).collect()
        };
        let comparisons: [fn(&str, &str) -> bool; 2] = [|a, b| a == b, |a, b| a.eq_ignore_ascii_case(b)];
        for is_same in comparisons {
            let found = find(is_same, false);
            if !found.is_empty() {
                return found;
            }
            let found = if n_of_file > 0 { find(is_same, true) } else { Vec::new() };
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// At most `limit` definitions whose name contains a text, ignoring case and separators of words: first those that
    /// begin with it, and shorter names before longer ones. Qualifiers count only if the text has one.
    pub fn definitions_like(&self, text: &str, limit: usize) -> Vec<Hit> {
        let wanted = folded(text);
        if wanted.is_empty() {
            return Vec::new();
        }
        let is_qualified = text.trim_matches(SEPARATORS).contains(SEPARATORS);
        let allowed = self.allowed(&Filter::default());
        let place = |unit: usize| {
            let record = &self.table.units[unit];
            let name = self.name_of_unit(unit);
            let name = folded(if is_qualified { name } else { last_part(name) });
            let at = name.find(&wanted)?;
            let is_wanted = is_definition(record.kind())
                && self.is_first_part(unit)
                && allowed.as_ref().is_none_or(|allowed| allowed[unit]);
            is_wanted.then_some((at > 0, name.len(), unit))
        };
        let mut found: Vec<(bool, usize, usize)> =
            (0..self.n_units()).into_par_iter().filter_map(place).collect();
        found.sort_unstable();
        found.into_iter().take(limit).map(|(.., unit)| self.unit(unit)).collect()
    }

    /// The function, method or type at a line (1-based) of a file (path relative to the first of the searched paths):
    /// the beginning of the innermost one. `None` if none is indexed.
    pub fn definition_at(&self, path: &str, line: u32) -> Option<Hit> {
        self.definition_at_in(0, path, line)
    }

    /// Like [`definition_at`](Self::definition_at), in the searched path with index `root`.
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

    /// The last line (1-based) of a definition that is given by its beginning, which may be split into several units.
    pub fn last_line(&self, beginning: &Hit) -> u32 {
        let units = self.units_of_files[self.table.units[beginning.unit].file as usize].clone();
        let is_same = |unit: &usize| {
            self.name_of_unit(*unit) == beginning.name
                && self.table.units[*unit].kind() == beginning.kind
                && !beginning.name.is_empty()
        };
        let others =
            (beginning.unit + 1..units.end).take_while(|unit| !(is_same(unit) && self.is_first_part(*unit)));
        let last = others.filter(is_same).last();
        last.map_or(beginning.end_line, |unit| self.table.units[unit].end_line)
    }

    /// The calls of any of `targets`, which are definitions, or if there are none, of anything named `name`, in files
    /// that pass `filter`, in the order of paths and lines, those in test code last.
    ///
    /// # Errors
    /// When the index cannot be read. Files that cannot be read are skipped.
    pub fn callers(&self, name: &str, targets: &[Hit], filter: &Filter) -> Result<Calls<CallSite>, Error> {
        self.read(|| self.find_callers(name, targets, filter))
    }

    fn find_callers(&self, name: &str, targets: &[Hit], filter: &Filter) -> Result<Calls<CallSite>, Error> {
        let wanted = CallTargets::new(name, targets);
        let allowed = self.allowed(filter);
        let is_allowed = |unit: usize| allowed.as_ref().is_none_or(|allowed| allowed[unit]);
        let mut rows: BTreeSet<usize> = BTreeSet::new();
        for name in &wanted.names {
            let units = self.units_with(name)?.into_iter().filter(|unit| is_allowed(*unit));
            rows.extend(units.map(|unit| self.table.units[unit].file as usize));
        }
        let definitions = self.definitions_named(&wanted.names)?;
        let modules = Modules::new(self);
        // Languages of other families do not call the definitions. Markup and notebooks may contain any language.
        let families: HashSet<&str> =
            targets.iter().filter_map(|hit| language_named(&hit.language)).map(Language::family).collect();
        let may_call = |row: &usize| {
            let language = language_named(self.table.text(self.table.files[*row].language));
            language.is_some_and(|language| {
                targets.is_empty() || language.grammar().is_none() || families.contains(language.family())
            })
        };
        let rows: Vec<usize> = rows.into_iter().filter(may_call).collect();
        let of_file = |row: usize| {
            let asked = CallSelection::Names(&wanted.names);
            let Some(file) = self.called_file(row, &asked) else { return (Vec::new(), Vec::new(), None, 0) };
            let mut sites = file.sites(|call| wanted.names.contains(call), &definitions, &modules);
            let n_named = sites.len();
            if !targets.is_empty() {
                sites.retain_mut(|(called, site)| self.calls_one_of(&wanted, called, site));
            }
            let n_elsewhere = n_named - sites.len();
            let sites = sites.into_iter().map(|(_, site)| site);
            let is_found = |site: &CallSite| {
                allowed.is_none() || site.caller.as_ref().is_some_and(|hit| is_allowed(hit.unit))
            };
            let is_test_file = self.table.files[row].flags().contains(FileFlags::TEST);
            let is_test =
                |site: &CallSite| is_test_file || site.caller.as_ref().is_some_and(|hit| self.is_test(hit));
            let (tests, others) = sites.filter(is_found).partition::<Vec<CallSite>, _>(is_test);
            (others, tests, file.unfinished(), n_elsewhere)
        };
        let mut calls = Calls { found: Vec::new(), unfinished: Vec::new(), n_elsewhere: 0 };
        // Files differ in size: single tasks keep all threads busy.
        let files: Vec<(Vec<CallSite>, _, _, usize)> =
            rows.into_par_iter().with_max_len(1).map(of_file).collect();
        let mut in_tests = Vec::new();
        for (sites, tests, unfinished, n_elsewhere) in files {
            calls.found.extend(sites);
            in_tests.extend(tests);
            calls.unfinished.extend(unfinished);
            calls.n_elsewhere += n_elsewhere;
        }
        calls.found.append(&mut in_tests);
        Ok(calls)
    }

    /// Returns true if a unit is test code.
    pub fn is_test(&self, hit: &Hit) -> bool {
        self.flags(&self.table.units[hit.unit]).contains(FileFlags::TEST)
    }

    /// The flags of a unit and of its file.
    pub fn flags_of(&self, hit: &Hit) -> FileFlags {
        self.flags(&self.table.units[hit.unit])
    }

    /// The first lines (1-based) of the imports in a unit, as it was indexed.
    pub fn import_lines(&self, hit: &Hit) -> Vec<u32> {
        let file = self.table.file_of(&self.table.units[hit.unit]);
        let language = language_named(self.table.text(file.language));
        let stored = language.and_then(|language| StoredReferences::read(self.table.calls(file), language));
        let imports = stored.into_iter().flat_map(|stored| stored.imports);
        imports
            .map(|import| import.line)
            .filter(|line| (hit.start_line..=hit.end_line).contains(line))
            .collect()
    }

    /// Returns true if a call of a name targets one of the wanted definitions; a type stands for its constructors.
    fn calls_one_of(&self, wanted: &CallTargets, called: &str, site: &mut CallSite) -> bool {
        if let Some(constructors) = wanted.constructed.get(called) {
            let types: BTreeSet<&str> =
                site.definitions.iter().map(|unit| self.name_of_unit(*unit)).collect();
            let is_of = |unit: &&usize| {
                let name = self.name_of_unit(**unit);
                name.rsplit_once('.').is_some_and(|(owner, _)| types.contains(owner))
            };
            site.definitions = constructors.iter().filter(is_of).copied().collect();
        }
        let definitions = &site.definitions;
        // Either set may be large.
        match wanted.units.len() < definitions.len() {
            true => wanted.units.iter().any(|unit| definitions.binary_search(unit).is_ok()),
            false => definitions.iter().any(|unit| wanted.units.contains(unit)),
        }
    }

    /// The calls in a file whose target scopes or imports determine, in the order of lines.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn certain_calls_in(&self, file: &IndexedFile) -> Result<Vec<CallSite>, Error> {
        self.read(|| {
            let row = file.row();
            let units: BTreeSet<usize> = self.units_of_files[row].clone().collect();
            let Some(file) = self.called_file(row, &CallSelection::Units(&units)) else {
                return Ok(Vec::new());
            };
            let definitions = self.definitions_named(&file.names_in(&units))?;
            let sites = file.sites_in(&units, &definitions, &Modules::new(self)).into_iter();
            let is_certain = |site: &CallSite| site.is_certain && !site.definitions.is_empty();
            Ok(sites.map(|(_, site)| site).filter(is_certain).collect())
        })
    }

    /// The callees of a definition, in the order of the first call; calls in nested functions are included. Calls
    /// with the same target are merged, and so are those that are written alike, if nothing determines their target.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn callees(&self, target: &Hit) -> Result<Calls<Callee>, Error> {
        self.read(|| self.find_callees(target))
    }

    fn find_callees(&self, target: &Hit) -> Result<Calls<Callee>, Error> {
        let row = self.table.units[target.unit].file as usize;
        // An error in reading is reported, because no other file is read.
        self.text(target)?;
        let units = self.parts_of(target.unit);
        let mut calls = Calls { found: Vec::new(), unfinished: Vec::new(), n_elsewhere: 0 };
        let Some(file) = self.called_file(row, &CallSelection::Units(&units)) else { return Ok(calls) };
        let names = file.names_in(&units);
        let definitions = self.definitions_named(&names)?;
        let modules = Modules::new(self);
        let callees: &mut Vec<Callee> = &mut calls.found;
        let mut numbers: HashMap<(Arc<[usize]>, String), usize> = HashMap::new();
        for (_, site) in file.sites_in(&units, &definitions, &modules) {
            let name = if site.is_certain { String::new() } else { site.qualified.clone() };
            let number = *numbers.entry((site.definitions.clone(), name)).or_insert(callees.len());
            match callees.get_mut(number) {
                Some(callee) => {
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
        calls.unfinished.extend(file.unfinished());
        Ok(calls)
    }

    /// Approximate number of units of all searched trees that mention a name; none for one without words, such as an
    /// operator.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn mentions(&self, name: &str) -> Result<usize, Error> {
        distinctive_term(name).map_or(Ok(0), |term| self.lexical.frequency(&term))
    }

    /// The units that may contain a name, ascending.
    fn units_with(&self, name: &str) -> Result<Vec<usize>, Error> {
        match distinctive_term(name) {
            Some(term) => self.lexical.texts_with(&term),
            None => Ok((0..self.n_units()).collect()),
        }
    }

    /// All definitions with one of some names.
    fn definitions_named<'a>(&'a self, names: &BTreeSet<&str>) -> Result<Definitions<'a>, Error> {
        let mut definitions: HashMap<&str, Vec<Candidate>> = HashMap::new();
        let mut packages = Packages::new(self);
        for name in names {
            let folded = folded(name);
            let units = match folded.is_empty() {
                // The index has no operators, nor names of underscores only.
                true => (0..self.n_units()).collect(),
                false => self.lexical.definitions(&folded)?,
            };
            for unit in units {
                let record = &self.table.units[unit];
                if !is_definition(record.kind()) || !self.is_first_part(unit) {
                    continue;
                }
                let full_name = self.table.text(record.name);
                let own = last_part(full_name);
                if own != *name {
                    continue;
                }
                definitions.entry(own).or_default().extend(self.candidate(unit, record, &mut packages));
            }
        }
        Ok(definitions.into_iter().map(|(name, found)| (name, Candidates::new(found))).collect())
    }

    /// The units of a definition, including nested ones.
    fn parts_of(&self, unit: usize) -> BTreeSet<usize> {
        let record = &self.table.units[unit];
        let name = self.name_of_unit(unit);
        let inside = |other: &usize| {
            let rest = self.name_of_unit(*other).strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let units = self.units_of_files[record.file as usize].clone();
        // Another definition with that name does not belong to it.
        let is_other = |other: &usize| self.name_of_unit(*other) == name && self.is_first_part(*other);
        let end = (unit + 1..units.end).find(is_other).unwrap_or(units.end);
        (unit..end).filter(inside).collect()
    }

    /// Returns true if a unit is the first part of its definition: only that has the declaration.
    fn is_first_part(&self, unit: usize) -> bool {
        !self.table.text(self.table.units[unit].signature).is_empty()
    }

    fn name_of_unit(&self, unit: usize) -> &str {
        self.table.text(self.table.units[unit].name)
    }
}

/// The most distinctive term of a name, its last one: the whole name, if it has several words.
fn distinctive_term(name: &str) -> Option<String> {
    let mut term = None;
    lexical_terms(name, |found, _| term = Some(found.to_owned()));
    term
}

/// The definitions whose callers are wanted.
struct CallTargets<'a> {
    /// The definitions; if empty, anything with one of the names.
    units: HashSet<usize>,
    names: BTreeSet<&'a str>,
    /// Constructors, which may have the name of their type, are called by it: the wanted ones, by that name.
    constructed: BTreeMap<&'a str, BTreeSet<usize>>,
}

impl<'a> CallTargets<'a> {
    fn new(name: &'a str, targets: &'a [Hit]) -> Self {
        let mut names: BTreeSet<&str> = targets.iter().map(|hit| last_part(&hit.name)).collect();
        if targets.is_empty() {
            names.extend(name.rsplit(SEPARATORS).find(|part| !part.is_empty()));
        }
        let mut constructed: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for hit in targets {
            let language = language_named(&hit.language);
            let own = last_part(&hit.name);
            let is_constructor = |owner: &str| {
                let names = language.map_or(&[][..], Language::constructors);
                own == last_part(owner) || names.iter().any(|name| name == own)
            };
            if let Some((owner, _)) = hit.name.rsplit_once('.').filter(|(owner, _)| is_constructor(owner)) {
                names.insert(last_part(owner));
                constructed.entry(last_part(owner)).or_default().insert(hit.unit);
            }
        }
        Self { units: targets.iter().map(|hit| hit.unit).collect(), names, constructed }
    }
}

/// Separators between the parts of a qualified name.
const SEPARATORS: [char; 4] = ['.', ':', '#', '/'];

/// Returns true if a qualified name in a file, preceded by the file's directories and name, ends with all of `parts`.
fn is_qualified(name: &str, path: &str, parts: &[&str], is_same: fn(&str, &str) -> bool) -> bool {
    let full: Vec<&str> = path_parts(path).chain(name.split('.')).collect();
    ends_with(&full, parts, is_same)
}

/// Returns true if the path of a file ends with the first `n_of_file` of `parts`, and a qualified name in it with the
/// others.
fn is_qualified_by_file(
    name: &str,
    path: &str,
    n_of_file: usize,
    parts: &[&str],
    is_same: fn(&str, &str) -> bool,
) -> bool {
    let (of_file, of_name) = parts.split_at(n_of_file);
    let (path, name): (Vec<&str>, Vec<&str>) = (path_parts(path).collect(), name.split('.').collect());
    ends_with(&path, of_file, is_same) && ends_with(&name, of_name, is_same)
}

/// The directories and the name of a file.
fn path_parts(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit_once('.').map_or(path, |(path, _)| path).split('/')
}

fn ends_with(full: &[&str], parts: &[&str], is_same: fn(&str, &str) -> bool) -> bool {
    full.len() >= parts.len() && full.iter().rev().zip(parts.iter().rev()).all(|(a, b)| is_same(a, b))
}
