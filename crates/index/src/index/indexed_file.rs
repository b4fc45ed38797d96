//! The units and files of an index that pass a filter.

use std::ops::Range;

use quarry_source::{Language, SourceText, languages};

use crate::index::roots::Tree;
use crate::storage::table::{FileRecord, UnitRecord};
use crate::{Error, Filter, Hit, Index, ScoreParts};

/// Units of a file that pass a filter, as far as the file determines it.
#[derive(Clone, Copy)]
enum MatchingUnits {
    None,
    All,
    /// Units whose own language passes.
    OfLanguage,
}

impl Index {
    /// For each unit of the searched paths whether it passes a filter; `None` if all of them do.
    pub(crate) fn allowed(&self, filter: &Filter) -> Option<Vec<bool>> {
        let is_whole = |tree: &Tree| {
            tree.roots.iter().any(|root| {
                let is_found = |file: &FileRecord| root.found.lists(file.text_bytes.into(), file.flags());
                root.scope.is_all()
                    && root.filter.is_empty()
                    && self.table.files[tree.files.clone()].iter().all(is_found)
            })
        };
        if filter.is_empty() && self.trees.iter().all(is_whole) {
            return None;
        }
        let notebooks: Vec<&str> =
            languages().filter(|known| known.is_notebook()).map(Language::name).collect();
        let of_file = |filter: &Filter, file: &FileRecord, root: usize, path: &str| {
            let language = self.table.text(file.language);
            if !filter.root(root) {
                MatchingUnits::None
            } else if filter.file(path, language, file.flags()) {
                MatchingUnits::All
            } else if notebooks.contains(&language) && filter.path(path, file.flags()) {
                MatchingUnits::OfLanguage
            } else {
                MatchingUnits::None
            }
        };
        // By the filter of the path that contains a file, and by this one.
        let files: Vec<Option<[(&Filter, MatchingUnits); 2]>> = (0..self.table.files.len())
            .map(|row| {
                let (root, path) = self.root_of(row)?;
                Some(
                    [&root.filter, filter]
                        .map(|filter| (filter, of_file(filter, &self.table.files[row], root.number, path))),
                )
            })
            .collect();
        let unit = |unit: &UnitRecord| {
            let is_allowed = |(filter, of_file): (&Filter, MatchingUnits)| {
                filter.kind(unit.kind())
                    && filter.name(self.table.text(unit.name))
                    && match of_file {
                        MatchingUnits::All => true,
                        MatchingUnits::OfLanguage => filter.language(self.table.text(unit.language)),
                        MatchingUnits::None => false,
                    }
            };
            files[unit.file as usize].is_some_and(|filters| filters.into_iter().all(is_allowed))
        };
        Some(self.table.units.iter().map(unit).collect())
    }

    /// The unit at a line (1-based) of a file (path relative to the first of the searched paths), with a score of 0:
    /// of several, the one that begins last, which is the innermost. `None` if no unit covers the line.
    pub fn unit_at(&self, path: &str, line: u32) -> Option<Hit> {
        self.unit_at_in(0, path, line)
    }

    /// Like [`unit_at`](Self::unit_at), in the searched path with index `root`.
    pub fn unit_at_in(&self, root: usize, path: &str, line: u32) -> Option<Hit> {
        let unit = self.units_of_files[self.row_of(root, path)?].clone().rfind(|&unit| {
            let record = &self.table.units[unit];
            (record.start_line..=record.end_line).contains(&line)
        })?;
        Some(self.unit(unit))
    }

    /// The indexed file at a path relative to the searched path with index `root`, with all its units. `None` if it
    /// is not indexed, or not found there.
    pub fn file(&self, root: usize, path: &str) -> Option<IndexedFile<'_>> {
        let row = self.row_of(root, path)?;
        let (found, _) = self.root_of(row)?;
        let units = self.units_of_files[row].clone().collect();
        (found.number == root).then_some(IndexedFile { index: self, row, units })
    }

    pub(crate) fn row_of(&self, root: usize, path: &str) -> Option<usize> {
        let is_its = |tree: &&Tree| tree.roots.iter().any(|found| found.number == root);
        let tree = self.trees.iter().find(is_its)?;
        let path = self.root(root)?.scope.absolute(path);
        let files = &self.table.files[tree.files.clone()];
        let at = files.binary_search_by(|file| self.table.text(file.path).cmp(path.as_ref())).ok()?;
        Some(tree.files.start + at)
    }

    /// The units that pass a filter, in the order of their paths and lines, with a score of 0.
    pub fn units(&self, filter: &Filter) -> impl Iterator<Item = Hit> {
        let allowed = self.allowed(filter);
        (0..self.n_units())
            .filter(move |&unit| allowed.as_ref().is_none_or(|allowed| allowed[unit]))
            .map(|unit| self.unit(unit))
    }

    /// The files with units that pass a filter, in the order of their paths, with these units.
    pub fn files(&self, filter: &Filter) -> Vec<IndexedFile<'_>> {
        let allowed = self.allowed(filter);
        let is_allowed = |unit: &usize| allowed.as_ref().is_none_or(|allowed| allowed[*unit]);
        let files = self.units_of_files.iter().enumerate().map(|(row, units)| {
            let units = units.clone().filter(is_allowed).collect();
            IndexedFile { index: self, row, units }
        });
        files.filter(|file| !file.units.is_empty()).collect()
    }

    /// A unit by its number, with a score of 0.
    ///
    /// # Panics
    /// When there is no such unit.
    pub fn unit(&self, unit: usize) -> Hit {
        self.hit(unit, 0.0, ScoreParts::default())
    }
}

/// A file of an index, with those of its units that pass a filter.
pub struct IndexedFile<'a> {
    index: &'a Index,
    row: usize,
    units: Vec<usize>,
}

impl<'a> IndexedFile<'a> {
    /// A file without units that pass.
    pub(crate) fn empty(index: &'a Index, row: usize) -> Self {
        Self { index, row, units: Vec::new() }
    }

    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// The index of the searched path that it is found in, and its path relative to that.
    pub(crate) fn place(&self) -> Option<(usize, &'a str)> {
        self.index.root_of(self.row).map(|(root, path)| (root.number, path))
    }

    /// Reads its content as [`Index::text`] does.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn text(&self) -> Result<SourceText, Error> {
        let (root, path) = self.place().unwrap_or((0, ""));
        self.index.text_in(root, path)
    }

    /// Its path, relative to the searched path that it is found in, `/` between its parts.
    pub fn path(&self) -> &str {
        self.place().map_or("", |(_, path)| path)
    }

    /// Name of its language.
    pub fn language(&self) -> &str {
        self.index.table.text(self.index.table.files[self.row].language)
    }

    /// Its units, with a score of 0.
    pub fn hits(&self) -> impl Iterator<Item = Hit> {
        self.units.iter().map(|&unit| self.index.unit(unit))
    }

    /// The numbers of its units, in order.
    pub fn unit_numbers(&self) -> impl Iterator<Item = usize> {
        self.units.iter().copied()
    }

    /// The numbers of its units, each with its 0-based lines in the text, in order.
    pub fn units<'t>(&'t self, text: &'t SourceText) -> impl Iterator<Item = (usize, Range<usize>)> + 't {
        self.units.iter().map(move |&unit| (unit, self.index.lines_of(unit, text)))
    }
}
