//! The calls and imports of whole files, and the definitions that they connect.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use quarry_source::{UnitKind, language_named};
use quarry_walk::FileFlags;

use super::Definitions;
use super::file::CallSelection;
use super::module::{File, Module, Packages};
use super::modules::Modules;
use super::resolve::{Candidate, Candidates};
use crate::Index;
use crate::ranking::rules::{is_definition, last_part};
use crate::storage::table::UnitRecord;

/// A file of an index.
#[derive(Debug, Clone)]
pub struct LinkedFile<'a> {
    /// Its number in the index.
    pub row: usize,
    /// Index of the searched path that contains it.
    pub root: usize,
    /// Path relative to that path, `/` between its parts.
    pub path: &'a str,
    /// Name of its language.
    pub language: &'a str,
    pub flags: FileFlags,
    /// Hash of its content; 0 if it could not be read.
    pub hash: u64,
    /// Numbers of its units.
    pub units: Range<usize>,
}

/// A unit of an index.
#[derive(Debug, Clone, Copy)]
pub struct LinkedUnit<'a> {
    /// Its number in the index.
    pub unit: usize,
    /// Qualified name within the file; empty for parts between definitions.
    pub name: &'a str,
    pub kind: UnitKind,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// True if it is the beginning of a definition or section, rather than a later part of a long one.
    pub is_beginning: bool,
    /// True if it is test code.
    pub is_test: bool,
    /// Byte range in the text of its file.
    pub start_byte: usize,
    /// End of that range.
    pub end_byte: usize,
}

/// The calls and imports of a file.
#[derive(Debug, Clone, Default)]
pub struct FileLinks {
    /// In the order of lines.
    pub calls: Vec<CallLink>,
    /// In the order of lines.
    pub imports: Vec<ImportLink>,
    /// The called names, whether or not something in the tree has them.
    pub called: BTreeSet<String>,
}

/// A call of definitions.
#[derive(Debug, Clone)]
pub struct CallLink {
    /// The unit that contains it.
    pub caller: usize,
    /// See [`CallSite::definitions`](super::CallSite::definitions).
    pub callees: std::sync::Arc<[usize]>,
    /// 1-based.
    pub line: u32,
    /// See [`CallSite::is_certain`](super::CallSite::is_certain).
    pub is_certain: bool,
}

/// An import of a file.
#[derive(Debug, Clone)]
pub struct ImportLink {
    pub row: usize,
    /// 1-based.
    pub line: u32,
}

/// Looks up the calls and imports of files, with the definitions of the whole index in memory.
pub struct Links<'a> {
    index: &'a Index,
    definitions: Definitions<'a>,
    modules: Modules<'a>,
}

impl Index {
    /// The files that searches find, ascending by path within each tree.
    pub fn linked_files(&self) -> impl Iterator<Item = LinkedFile<'_>> {
        (0..self.table.files.len()).filter_map(|row| {
            let (root, path) = self.root_of(row)?;
            let file = &self.table.files[row];
            Some(LinkedFile {
                row,
                root: root.number,
                path,
                language: self.table.text(file.language),
                flags: file.flags(),
                hash: file.hash,
                units: self.units_of_files[row].clone(),
            })
        })
    }

    /// The unit with a number.
    pub fn linked_unit(&self, unit: usize) -> LinkedUnit<'_> {
        let record = &self.table.units[unit];
        LinkedUnit {
            unit,
            name: self.table.text(record.name),
            kind: record.kind(),
            start_line: record.start_line,
            end_line: record.end_line,
            is_beginning: self.is_first_part(unit),
            is_test: self.flags(record).contains(FileFlags::TEST),
            start_byte: record.start_byte as usize,
            end_byte: record.end_byte as usize,
        }
    }

    /// Prepares looking up the calls and imports of many files.
    pub fn links(&self) -> Links<'_> {
        let mut packages = Packages::new(self);
        let mut definitions: HashMap<&str, Vec<Candidate>> = HashMap::new();
        for unit in 0..self.n_units() {
            let record = &self.table.units[unit];
            if is_definition(record.kind()) && self.is_first_part(unit) {
                let own = last_part(self.table.text(record.name));
                definitions.entry(own).or_default().extend(self.candidate(unit, record, &mut packages));
            }
        }
        let definitions =
            definitions.into_iter().map(|(name, found)| (name, Candidates::new(found))).collect();
        Links { index: self, definitions, modules: Modules::new(self) }
    }

    /// A definition that calls may target.
    pub(super) fn candidate<'a>(
        &'a self,
        unit: usize,
        record: &UnitRecord,
        packages: &mut Packages<'a>,
    ) -> Option<Candidate<'a>> {
        let language = language_named(self.table.text(record.language))?;
        let row = record.file as usize;
        let (root, path) = self.outermost_root_of(row)?;
        let package_start = packages.start(row, path);
        let (tree, kind, name) = (root.number, record.kind(), self.table.text(record.name));
        Some(Candidate { unit, tree, path, package_start, name, kind, language })
    }

    /// Cosines of the vectors of all units with that of one; `None` without a model.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn cosines(&self, unit: usize) -> Result<Option<Vec<f32>>, crate::Error> {
        let Some(dense) = &self.dense else { return Ok(None) };
        self.read(|| {
            let vector = dense.matrix.vector(self.table.units[unit].part_and_row())?;
            dense.matrix.similarities(&vector).map(Some)
        })
    }

    /// The units that may mention a name, ascending.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn units_mentioning(&self, name: &str) -> Result<Vec<usize>, crate::Error> {
        self.read(|| self.units_with(name))
    }
}

impl Links<'_> {
    /// The calls and imports of a file (given by its row); `None` if it cannot be read.
    pub fn file_links(&self, row: usize) -> Option<FileLinks> {
        let units: BTreeSet<usize> = self.index.units_of_files[row].clone().collect();
        let file = self.index.called_file(row, &CallSelection::Units(&units))?;
        let mut links = FileLinks::default();
        for (caller, line, called, resolution) in file.targets(&units, &self.definitions, &self.modules) {
            links.called.insert(called.to_owned());
            if !resolution.units.is_empty() {
                let (callees, is_certain) = (resolution.units, resolution.is_certain);
                links.calls.push(CallLink { caller, callees, line, is_certain });
            }
        }
        let record = &self.index.table.files[row];
        let language = language_named(self.index.table.text(record.language))?;
        let (root, path) = self.index.outermost_root_of(row)?;
        let from = File { tree: root.number, path, language };
        for import in file.imports() {
            let mut add = |module: &Module| {
                let found =
                    self.modules.files_of(module, &from).into_iter().filter(|(other, _)| *other != row);
                links.imports.extend(found.map(|(row, _)| ImportLink { row, line: import.line }));
            };
            let module = Module::new(&import.module, &from, &self.modules);
            add(&module);
            // Names imported from a package may be modules.
            for name in &import.names {
                let parts = [module.parts.as_slice(), std::slice::from_ref(&name.name)].concat();
                add(&module.with_parts(&parts));
            }
        }
        links.imports.sort_unstable_by_key(|import| (import.row, import.line));
        links.imports.dedup_by_key(|import| import.row);
        Some(links)
    }
}
