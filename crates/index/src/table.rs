//! What the index knows of each file and unit.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use quarry_corpus::walk::{FileFlags, Listing};
use quarry_source::UnitKind;

use crate::storage::Column;
use crate::{Changes, Error};

const UNITS_FILE: &str = "units";
const FILES_FILE: &str = "files";
const STRINGS_FILE: &str = "strings";

/// A range of the string blob.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Text {
    start: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct UnitRecord {
    /// Hash of what was embedded.
    pub hash: [u64; 2],
    /// Row of its file.
    pub file: u32,
    pub start_line: u32,
    pub end_line: u32,
    pub start_byte: u32,
    pub end_byte: u32,
    pub name: Text,
    pub signature: Text,
    kind: u32,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FileRecord {
    pub bytes: u64,
    pub modified_ns: u64,
    pub path: Text,
    pub language: Text,
    flags: u32,
    _padding: u32,
}

/// A unit to be recorded.
#[derive(Debug, Clone)]
pub(crate) struct NewUnit<'a> {
    pub hash: u128,
    pub kind: UnitKind,
    pub name: &'a str,
    pub signature: &'a str,
    pub lines: (u32, u32),
    pub bytes: Range<u32>,
}

/// The files of an index, in the order of the listing, and their units, in the order of their files.
pub(crate) struct Table {
    pub files: Column<FileRecord>,
    pub units: Column<UnitRecord>,
    strings: Column<u8>,
}

/// A table that grows, to be written.
#[derive(Default)]
pub(crate) struct TableBuilder {
    files: Vec<FileRecord>,
    units: Vec<UnitRecord>,
    strings: Vec<u8>,
}

/// Sizes that a table is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TableSize {
    pub files: usize,
    pub units: usize,
    pub string_bytes: usize,
}

impl Table {
    /// Maps the table that [`TableBuilder::write`] wrote.
    ///
    /// # Errors
    /// When the folder does not hold a table of this size, or a record points outside of it.
    pub fn open(folder: &Path, size: TableSize) -> Result<Self, Error> {
        let table = Self {
            files: Column::open(&folder.join(FILES_FILE), size.files)?,
            units: Column::open(&folder.join(UNITS_FILE), size.units)?,
            strings: Column::open(&folder.join(STRINGS_FILE), size.string_bytes)?,
        };
        let strings = std::str::from_utf8(&table.strings)
            .map_err(|error| Error::corrupt(&folder.join(STRINGS_FILE), error.to_string()))?;
        let whole = |text: Text| strings.get(text.range()).is_some();
        let bad_file = table.files.iter().position(|file| !whole(file.path) || !whole(file.language));
        if let Some(row) = bad_file {
            return Err(Error::corrupt(&folder.join(FILES_FILE), format!("record {row} points nowhere")));
        }
        let bad_unit = table.units.iter().position(|unit| {
            unit.file as usize >= size.files
                || !whole(unit.name)
                || !whole(unit.signature)
                || kind_of(unit.kind).is_none()
        });
        if let Some(row) = bad_unit {
            return Err(Error::corrupt(&folder.join(UNITS_FILE), format!("record {row} points nowhere")));
        }
        Ok(table)
    }

    /// How a listing differs from the files of the table.
    pub fn changes(&self, listing: &Listing) -> Changes {
        let mut recorded: HashMap<&str, (u64, u64)> = HashMap::with_capacity(self.files.len());
        recorded.extend(self.files.iter().map(|file| (self.text(file.path), (file.bytes, file.modified_ns))));
        let mut changes = Changes::default();
        for file in &listing.files {
            match recorded.remove(file.path.as_str()) {
                None => changes.new += 1,
                Some(known) => changes.changed += usize::from(known != (file.bytes, file.modified_ns)),
            }
        }
        changes.removed = recorded.len();
        changes
    }

    /// The string that a record names.
    pub fn text(&self, text: Text) -> &str {
        // `open` has looked at every record.
        self.strings.get(text.range()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The record of a unit's file.
    pub fn file_of(&self, unit: &UnitRecord) -> &FileRecord {
        &self.files[unit.file as usize]
    }
}

impl UnitRecord {
    pub fn hash(&self) -> u128 {
        u128::from(self.hash[0]) << 64 | u128::from(self.hash[1])
    }

    pub fn kind(&self) -> UnitKind {
        kind_of(self.kind).unwrap_or(UnitKind::Module)
    }
}

impl FileRecord {
    pub fn flags(&self) -> FileFlags {
        FileFlags::from_bits_truncate(self.flags)
    }
}

impl Text {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl TableBuilder {
    /// Appends a file; the units pushed next are its own.
    ///
    /// # Errors
    /// When the table is full.
    pub fn push_file(
        &mut self,
        path: &str,
        language: &str,
        bytes: u64,
        modified_ns: u64,
        flags: FileFlags,
    ) -> Result<(), Error> {
        let (path, language) = (self.push_text(path)?, self.push_text(language)?);
        self.files.push(FileRecord { bytes, modified_ns, path, language, flags: flags.bits(), _padding: 0 });
        Ok(())
    }

    /// Appends a unit of the file pushed last.
    ///
    /// # Errors
    /// When the table is full.
    pub fn push_unit(&mut self, unit: &NewUnit) -> Result<(), Error> {
        let (name, signature) = (self.push_text(unit.name)?, self.push_text(unit.signature)?);
        let file = u32::try_from(self.files.len().saturating_sub(1)).map_err(|_| Error::TooLarge)?;
        self.units.push(UnitRecord {
            hash: [(unit.hash >> 64) as u64, unit.hash as u64],
            file,
            start_line: unit.lines.0,
            end_line: unit.lines.1,
            start_byte: unit.bytes.start,
            end_byte: unit.bytes.end,
            name,
            signature,
            kind: kind_number(unit.kind),
        });
        Ok(())
    }

    /// Writes the table into a folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<TableSize, Error> {
        Column::write(&folder.join(FILES_FILE), &self.files)?;
        Column::write(&folder.join(UNITS_FILE), &self.units)?;
        Column::write(&folder.join(STRINGS_FILE), &self.strings)?;
        Ok(TableSize { files: self.files.len(), units: self.units.len(), string_bytes: self.strings.len() })
    }

    fn push_text(&mut self, text: &str) -> Result<Text, Error> {
        let start = u32::try_from(self.strings.len()).map_err(|_| Error::TooLarge)?;
        let length = u32::try_from(text.len()).map_err(|_| Error::TooLarge)?;
        self.strings.extend_from_slice(text.as_bytes());
        Ok(Text { start, length })
    }
}

pub(crate) const KINDS: [UnitKind; 5] =
    [UnitKind::Function, UnitKind::Method, UnitKind::Type, UnitKind::Module, UnitKind::Section];

fn kind_of(number: u32) -> Option<UnitKind> {
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
