//! The table of files and units of an index.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use quarry_files::Directory;
use quarry_source::UnitKind;
use quarry_walk::{FileFlags, Stamp};

use crate::Error;
use crate::storage::column::{Column, LazyColumn};
use crate::storage::field_sizes::{FieldSizes, N_FIELDS};
use crate::storage::stored_file::StoredFile;
use crate::storage::tokens::{ENDS_FILE, IDS_FILE, PartTokens};

mod builder;
pub(crate) mod portable;

pub(crate) use builder::{NewUnit, PartBuilder, TableBuilder};

const UNITS_FILE: &str = "units";
const FILES_FILE: &str = "files";
const STRINGS_FILE: &str = "strings";
const HASHES_FILE: &str = "hashes";
const CALLS_FILE: &str = "calls";

/// Name of the directory of the postings in that of a part.
pub(crate) const LEXICAL_DIRECTORY: &str = "lexical";

/// A range of the strings of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Text {
    start: u32,
    length: u16,
    part: u16,
}

/// A range of the calls of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct CallBytes {
    start: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct UnitRecord {
    /// Row of its file in the table.
    pub file: u32,
    pub start_line: u32,
    pub end_line: u32,
    pub start_byte: u32,
    pub end_byte: u32,
    pub name: Text,
    pub signature: Text,
    /// Name of its language: that of its file, or in a notebook that of its cell.
    pub language: Text,
    kind: u32,
    /// Row in the part that contains `name`.
    row: u32,
    /// 1 for test code in any file, otherwise 0.
    is_test: u32,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FileRecord {
    pub bytes: u64,
    modified_ns: u64,
    changed_ns: u64,
    inode: u64,
    /// Hash of the content; 0 if it could not be read.
    pub hash: u64,
    pub path: Text,
    pub language: Text,
    flags: u32,
    /// Length of its text: for a notebook that of its cells, which is less than that of the file; equal for any other
    /// file.
    pub text_bytes: u32,
    /// Its calls, in the part that `path` is in.
    calls: CallBytes,
    /// Number of terms of all its units, by field.
    pub n_terms: [u32; N_FIELDS],
    /// Number of units that have any, by field.
    pub n_texts: [u32; N_FIELDS],
}

/// The files of an index, ascending by path, and their units, in the order of their files. What has no fixed size lies in
/// parts, which later tables share.
pub(crate) struct Table {
    pub files: Column<FileRecord>,
    pub units: Column<UnitRecord>,
    parts: Vec<Arc<TablePart>>,
}

/// The data of a part that the records of a table refer to.
struct TablePart {
    strings: Column<u8>,
    /// By row: the hash of the embedding text.
    hashes: Column<u128>,
    tokens: PartTokens,
    /// Calls of each file, as written by [`stored`](crate::calls::stored).
    calls: LazyColumn<u8>,
}

/// Numbers of records, which are needed to open a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TableSize {
    pub files: usize,
    pub units: usize,
}

/// The directory and the sizes of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PartSize {
    /// Name of its directory.
    pub name: String,
    /// Number of rows, including those of removed files.
    pub units: usize,
    pub string_bytes: usize,
    pub call_bytes: usize,
    /// Number of tokens of all rows.
    pub tokens: usize,
    /// Total size of the texts of its files in bytes, including removed ones.
    pub source_bytes: u64,
    /// All files in its directory except vectors.
    pub files: Vec<StoredFile>,
    /// File of the vectors of each model, by the id of the model.
    pub vectors: BTreeMap<String, StoredFile>,
    /// The same of the vectors of passages.
    #[serde(default, rename = "pieces")]
    pub passages: BTreeMap<String, StoredFile>,
}

impl PartSize {
    /// Its directory.
    ///
    /// # Errors
    /// When it is missing.
    pub fn directory(&self, index: &Directory) -> Result<Directory, Error> {
        open_directory(index, &self.name)
    }

    /// Total size of its postings in bytes.
    pub fn lexical_bytes(&self) -> u64 {
        self.lexical_files().map(StoredFile::bytes).sum()
    }

    /// The files of its postings.
    pub fn lexical_files(&self) -> impl Iterator<Item = &StoredFile> {
        self.files.iter().filter(|file| file.path().starts_with(LEXICAL_DIRECTORY))
    }

    /// Returns whether a file in its directory belongs to it.
    pub fn names(&self, name: &OsStr) -> bool {
        let first = |file: &StoredFile| file.path().split('/').next().is_some_and(|first| name == first);
        self.files.iter().chain(self.vectors.values()).chain(self.passages.values()).any(first)
    }

    /// One of the files in its directory.
    fn file(&self, name: &str) -> Result<&StoredFile, Error> {
        file_named(&self.files, name)
    }

    /// Maps the hashes of its rows.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn hashes(&self, index: &Directory) -> Result<Column<u128>, Error> {
        Column::open(&self.directory(index)?, self.file(HASHES_FILE)?, self.units)
    }
}

fn file_named<'a>(files: &'a [StoredFile], name: &str) -> Result<&'a StoredFile, Error> {
    let found = files.iter().find(|file| file.path() == name);
    found.ok_or_else(|| Error::corrupt(name.as_ref(), "the manifest does not name it"))
}

/// A directory of an index.
pub(crate) fn open_directory(index: &Directory, name: &str) -> Result<Directory, Error> {
    index.directory(name.as_ref()).map_err(|source| Error::io("open", &index.path().join(name), source))
}

/// Maps the rows of parts to units.
#[derive(Debug, Clone)]
pub(crate) struct Numbering {
    pub n_units: usize,
    pub parts: Vec<PartUnits>,
}

/// The units of the rows of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartUnits {
    /// All units of the part, consecutive and in order.
    Run(Range<usize>),
    /// The unit of each row, or [`PartUnits::GONE`].
    Each(Vec<u32>),
}

impl PartUnits {
    /// Marks a row of a file that changed or was removed.
    pub const GONE: u32 = u32::MAX;

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Run(units) => units.len(),
            Self::Each(units) => units.len(),
        }
    }

    /// The unit of a row; `None` if it was removed.
    #[inline]
    pub fn unit(&self, row: usize) -> Option<usize> {
        match self {
            Self::Run(units) => Some(units.start + row),
            Self::Each(units) => {
                Some(units[row]).filter(|&unit| unit != Self::GONE).map(|unit| unit as usize)
            }
        }
    }
}

impl Table {
    /// Maps the table that [`TableBuilder::write`] wrote to these files, with the strings of its parts.
    ///
    /// # Errors
    /// When the directories do not contain a table of this size, or a record points outside of it.
    pub fn open(
        index: &Directory,
        (generation, files): (&str, &[StoredFile]),
        size: TableSize,
        parts: &[PartSize],
    ) -> Result<Self, Error> {
        let directory = open_directory(index, generation)?;
        let directory_path = directory.path();
        let table = Self {
            files: Column::open(&directory, file_named(files, FILES_FILE)?, size.files)?,
            units: Column::open(&directory, file_named(files, UNITS_FILE)?, size.units)?,
            parts: parts
                .iter()
                .map(|part| TablePart::open(index, part).map(Arc::new))
                .collect::<Result<_, Error>>()?,
        };
        let whole = |text: Text| {
            let strings = table.parts.get(text.part as usize)?.strings.get(text.range())?;
            // At a character boundary, because the whole is valid UTF-8.
            strings.first().is_none_or(|byte| (*byte as i8) >= -0x40).then_some(())
        };
        let has_calls = |file: &FileRecord| {
            table.parts.get(file.part()).is_some_and(|part| file.calls.range().end <= part.calls.len())
        };
        let bad_file = table
            .files
            .iter()
            .position(|file| whole(file.path).and(whole(file.language)).is_none() || !has_calls(file));
        if let Some(row) = bad_file {
            return Err(Error::corrupt(
                &directory_path.join(FILES_FILE),
                format!("record {row} points outside the table"),
            ));
        }
        let bad_unit = table.units.iter().position(|unit| {
            unit.file as usize >= size.files
                || whole(unit.name).and(whole(unit.signature)).and(whole(unit.language)).is_none()
                || unit.row as usize >= parts[unit.part()].units
                || kind_of(unit.kind).is_none()
        });
        if let Some(row) = bad_unit {
            return Err(Error::corrupt(
                &directory_path.join(UNITS_FILE),
                format!("record {row} points outside the table"),
            ));
        }
        Ok(table)
    }

    /// A table of the files of new parts, in sequence.
    ///
    /// # Errors
    /// When there are too many.
    pub fn in_memory(parts: Vec<PartBuilder>) -> Result<Self, Error> {
        let mut builder = TableBuilder::default();
        for part in &parts {
            part.files.iter().try_for_each(|(file, units)| builder.push(*file, units, part.part))?;
        }
        builder.check_size()?;
        let parts = parts.into_iter().map(TablePart::from).map(Arc::new).collect();
        Ok(Self { files: builder.files.into(), units: builder.units.into(), parts })
    }

    /// Concatenates tables, keeping the files marked `true`.
    ///
    /// # Errors
    /// When the result is too large.
    pub fn merge(tables: Vec<(Self, Vec<bool>)>) -> Result<Self, Error> {
        let mut builder = TableBuilder::default();
        let mut parts = Vec::new();
        for (table, kept) in tables {
            let first = parts.len();
            let files = table.files.iter().zip(table.units_of_files()).zip(kept);
            for ((file, units), _) in files.filter(|(_, kept)| *kept) {
                let part = u16::try_from(first + file.part()).map_err(|_| Error::TooLarge)?;
                builder.push(*file, &table.units[units], part)?;
            }
            parts.extend(table.parts);
        }
        builder.check_size()?;
        Ok(Self { files: builder.files.into(), units: builder.units.into(), parts })
    }

    /// Combines tables of parts into one whose parts are theirs, in order, and whose files are ascending by path
    /// again. A file that several of them contain is taken from the last one.
    ///
    /// # Errors
    /// When the result is too large.
    pub fn from_parts(tables: Vec<Self>) -> Result<Self, Error> {
        let mut files: Vec<(&str, usize, usize)> = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            let paths = table.files.iter().map(|file| table.text(file.path));
            files.extend(paths.enumerate().map(|(row, path)| (path, number, row)));
        }
        files.sort_unstable_by_key(|&(path, number, _)| (path, Reverse(number)));
        files.dedup_by_key(|(path, _, _)| *path);
        let units: Vec<Vec<Range<usize>>> = tables.iter().map(Self::units_of_files).collect();
        let mut builder = TableBuilder::default();
        for (_, number, row) in files {
            let part = u16::try_from(number).map_err(|_| Error::TooLarge)?;
            let table = &tables[number];
            builder.push(table.files[row], &table.units[units[number][row].clone()], part)?;
        }
        builder.check_size()?;
        let parts = tables.into_iter().flat_map(|table| table.parts).collect();
        Ok(Self { files: builder.files.into(), units: builder.units.into(), parts })
    }

    /// This table with the files of a new part, which is its last one, in place of those with the same path in the same
    /// tree, or added. `trees` has the rows of each tree, `places` the tree of each new file, which are in order. Returns
    /// the rows of each tree in the new table too.
    ///
    /// # Errors
    /// When the result is too large.
    pub fn with_part(
        &self,
        trees: &[Range<usize>],
        new: Self,
        places: &[usize],
    ) -> Result<(Self, Vec<Range<usize>>), Error> {
        let last = u16::try_from(self.parts.len()).map_err(|_| Error::TooLarge)?;
        let (of_old, of_new) = (self.units_of_files(), new.units_of_files());
        let mut builder = TableBuilder::default();
        let mut ranges = Vec::with_capacity(trees.len());
        for (tree, rows) in trees.iter().enumerate() {
            let start = builder.n_files();
            // The new one of two with the same path comes first.
            let added = (0..new.files.len()).filter(|row| places[*row] == tree);
            let added = added.map(|row| (new.text(new.files[row].path), 0, row));
            let mut files: Vec<(&str, usize, usize)> =
                rows.clone().map(|row| (self.text(self.files[row].path), 1, row)).chain(added).collect();
            files.sort_unstable();
            files.dedup_by_key(|(path, _, _)| *path);
            for (_, kind, row) in files {
                match kind {
                    0 => builder.push(new.files[row], &new.units[of_new[row].clone()], last)?,
                    _ => {
                        let file = self.files[row];
                        let part = u16::try_from(file.part()).map_err(|_| Error::TooLarge)?;
                        builder.push(file, &self.units[of_old[row].clone()], part)?;
                    }
                }
            }
            ranges.push(start..builder.n_files());
        }
        builder.check_size()?;
        let parts = self.parts.iter().cloned().chain(new.parts).collect();
        Ok((Self { files: builder.files.into(), units: builder.units.into(), parts }, ranges))
    }

    /// The files whose units are in a part, with their units.
    pub fn files_of_part(&self, part: usize) -> impl Iterator<Item = (&FileRecord, &[UnitRecord])> {
        let files = self.files.iter().zip(self.units_of_files());
        files.filter(move |(file, _)| file.part() == part).map(|(file, units)| (file, &self.units[units]))
    }

    /// Maps the rows of parts to units.
    pub fn numbering(&self) -> Numbering {
        let n_rows = || self.parts.iter().map(|part| part.hashes.len());
        let mut runs: Vec<Option<Range<usize>>> = vec![Some(0..0); self.parts.len()];
        for (unit, record) in self.units.iter().enumerate() {
            let (part, row) = record.part_and_row();
            let run = &mut runs[part];
            *run = match run.take() {
                Some(_) if row == 0 => Some(unit..unit + 1),
                Some(run) if run.end == unit && run.len() == row => Some(run.start..unit + 1),
                _ => None,
            };
        }
        let mut numbers: Vec<PartUnits> = runs
            .into_iter()
            .zip(n_rows())
            .map(|(run, n_rows)| match run.filter(|run| run.len() == n_rows) {
                Some(run) => PartUnits::Run(run),
                None => PartUnits::Each(vec![PartUnits::GONE; n_rows]),
            })
            .collect();
        if numbers.iter().any(|part| matches!(part, PartUnits::Each(_))) {
            for (unit, record) in self.units.iter().enumerate() {
                let (part, row) = record.part_and_row();
                if let PartUnits::Each(units) = &mut numbers[part] {
                    units[row] = unit as u32;
                }
            }
        }
        Numbering { n_units: self.units.len(), parts: numbers }
    }

    /// Total text lengths of all units by field.
    pub fn field_sizes(&self) -> FieldSizes {
        let mut sizes = FieldSizes::default();
        self.files.iter().for_each(|file| sizes.add(&file.n_terms, &file.n_texts));
        sizes
    }

    /// The units of each file, in the order of the files.
    pub fn units_of_files(&self) -> Vec<Range<usize>> {
        let mut ranges = vec![0..0; self.files.len()];
        for (unit, record) in self.units.iter().enumerate() {
            let range = &mut ranges[record.file as usize];
            *range = if range.end == 0 { unit..unit + 1 } else { range.start..unit + 1 };
        }
        ranges
    }

    /// The string that a record refers to.
    pub fn text(&self, text: Text) -> &str {
        // `open` has checked every record.
        let strings = self.parts.get(text.part as usize).and_then(|part| part.strings.get(text.range()));
        strings.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The hash of a unit's embedding text.
    pub fn hash(&self, unit: &UnitRecord) -> u128 {
        self.parts[unit.part()].hashes[unit.row()]
    }

    /// The tokens of a unit, in the form of [`quarry_embed::StaticModel::token_ids`].
    pub fn tokens(&self, unit: &UnitRecord) -> &[u16] {
        self.parts[unit.part()].tokens.row(unit.row())
    }

    /// The calls and imports of a file, as written by [`stored`](crate::calls::stored).
    pub fn calls(&self, file: &FileRecord) -> &[u8] {
        self.parts.get(file.part()).and_then(|part| part.calls.get(file.calls.range())).unwrap_or_default()
    }

    /// The record of a unit's file.
    pub fn file_of(&self, unit: &UnitRecord) -> &FileRecord {
        &self.files[unit.file as usize]
    }
}

impl UnitRecord {
    /// The part that contains it.
    pub fn part(&self) -> usize {
        self.name.part as usize
    }

    /// Its row in the part.
    pub fn row(&self) -> usize {
        self.row as usize
    }

    /// Its part and its row there.
    pub fn part_and_row(&self) -> (usize, usize) {
        (self.part(), self.row())
    }

    pub fn kind(&self) -> UnitKind {
        kind_of(self.kind).unwrap_or(UnitKind::Module)
    }

    /// The number that stands for its kind.
    pub fn kind_number(&self) -> u32 {
        self.kind
    }

    /// Returns whether it is test code, as far as its own file tells.
    pub fn is_test(&self) -> bool {
        self.is_test != 0
    }
}

impl FileRecord {
    /// The recorded metadata of the file.
    pub fn stamp(&self) -> Stamp {
        let &Self { bytes, modified_ns, changed_ns, inode, .. } = self;
        Stamp { bytes, modified_ns, changed_ns, inode }
    }

    /// Records the current metadata of the file.
    pub fn set_stamp(&mut self, stamp: Stamp) {
        Stamp {
            bytes: self.bytes,
            modified_ns: self.modified_ns,
            changed_ns: self.changed_ns,
            inode: self.inode,
        } = stamp;
    }

    pub fn flags(&self) -> FileFlags {
        FileFlags::from_bits_truncate(self.flags)
    }

    /// The part that contains its path, and its units.
    pub fn part(&self) -> usize {
        self.path.part as usize
    }
}

impl TablePart {
    fn open(index: &Directory, part: &PartSize) -> Result<Self, Error> {
        let directory = part.directory(index)?;
        let strings = Column::open(&directory, part.file(STRINGS_FILE)?, part.string_bytes)?;
        if let Err(error) = std::str::from_utf8(&strings) {
            return Err(Error::corrupt(&directory.path().join(STRINGS_FILE), error.to_string()));
        }
        Ok(Self {
            strings,
            hashes: part.hashes(index)?,
            tokens: PartTokens::open(
                &directory,
                (part.file(IDS_FILE)?, part.tokens),
                (part.file(ENDS_FILE)?, part.units),
            )?,
            calls: LazyColumn::open(&directory, part.file(CALLS_FILE)?, part.call_bytes)?,
        })
    }
}

impl From<PartBuilder> for TablePart {
    fn from(part: PartBuilder) -> Self {
        Self {
            strings: part.strings.into(),
            hashes: part.hashes.into(),
            tokens: part.tokens.into(),
            calls: part.calls.into(),
        }
    }
}

impl CallBytes {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl Text {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + usize::from(self.length)
    }
}

pub(crate) const KINDS: [UnitKind; 5] =
    [UnitKind::Function, UnitKind::Method, UnitKind::Type, UnitKind::Module, UnitKind::Section];

pub(crate) fn kind_of(number: u32) -> Option<UnitKind> {
    KINDS.get(number as usize).copied()
}

fn kind_number(kind: UnitKind) -> u32 {
    match kind {
        UnitKind::Function => 0,
        UnitKind::Method => 1,
        UnitKind::Type => 2,
        UnitKind::Module => 3,
        UnitKind::Section => 4,
    }
}
