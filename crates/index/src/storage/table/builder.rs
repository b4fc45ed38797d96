//! Building tables and parts.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use quarry_files::Directory;
use quarry_source::{Language, UnitKind};
use quarry_walk::{FileFlags, ListedFile};

use super::{
    CALLS_FILE, CallBytes, FILES_FILE, FileRecord, HASHES_FILE, PartSize, STRINGS_FILE, TableSize, Text,
    UNITS_FILE, UnitRecord, kind_number,
};
use crate::Error;
use crate::storage::column::Column;
use crate::storage::field_sizes::{N_FIELDS, has_terms};
use crate::storage::stored_file::StoredFile;
use crate::storage::tokens::PartTokensBuilder;

/// A unit to be recorded.
#[derive(Debug, Clone)]
pub(crate) struct NewUnit<'a> {
    pub hash: u128,
    pub tokens: &'a [u16],
    pub kind: UnitKind,
    pub language: Language,
    pub is_test: bool,
    pub name: &'a str,
    pub signature: &'a str,
    pub lines: (u32, u32),
    pub bytes: Range<u32>,
}

/// A table that is being built.
#[derive(Default)]
pub(crate) struct TableBuilder {
    pub(super) files: Vec<FileRecord>,
    pub(super) units: Vec<UnitRecord>,
}

/// The strings of a part, and the files and units that they belong to.
#[derive(Default)]
pub(crate) struct PartBuilder {
    pub(super) part: u16,
    pub files: Vec<(FileRecord, Vec<UnitRecord>)>,
    /// The hash of each row.
    pub hashes: Vec<u128>,
    pub(super) tokens: PartTokensBuilder,
    pub(super) strings: Vec<u8>,
    pub(super) calls: Vec<u8>,
    /// The stored names of languages.
    languages: HashMap<Language, Text>,
}

impl TableBuilder {
    /// Appends a file and its units. Their part is renumbered to `part`.
    ///
    /// # Errors
    /// When the table is full.
    pub fn push(&mut self, mut file: FileRecord, units: &[UnitRecord], part: u16) -> Result<(), Error> {
        let row = u32::try_from(self.files.len()).map_err(|_| Error::TooLarge)?;
        (file.path.part, file.language.part) = (part, part);
        self.files.push(file);
        self.units.extend(units.iter().map(|unit| {
            let mut unit = UnitRecord { file: row, ..*unit };
            (unit.name.part, unit.signature.part, unit.language.part) = (part, part, part);
            unit
        }));
        Ok(())
    }

    pub(super) fn n_files(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Unit numbers are 32-bit, and the last one stands for none.
    pub(super) fn check_size(&self) -> Result<(), Error> {
        if self.units.len() < u32::MAX as usize { Ok(()) } else { Err(Error::TooLarge) }
    }

    /// Writes the table into a directory.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Directory) -> Result<TableSize, Error> {
        self.check_size()?;
        Column::write(directory, FILES_FILE, &self.files)?;
        Column::write(directory, UNITS_FILE, &self.units)?;
        Ok(TableSize { files: self.files.len(), units: self.units.len() })
    }

    /// The files of a table that was [written](Self::write) into a directory.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn stored(directory: &Directory) -> Result<Vec<StoredFile>, Error> {
        [FILES_FILE, UNITS_FILE]
            .map(|name| StoredFile::record(directory, name.to_owned()))
            .into_iter()
            .collect()
    }
}

impl PartBuilder {
    pub fn new(part: u16) -> Self {
        Self { part, ..Self::default() }
    }

    /// Appends a file; the units pushed next belong to it.
    ///
    /// # Errors
    /// When the part is full.
    pub fn push_file(
        &mut self,
        file: &ListedFile,
        language: Language,
        flags: FileFlags,
        (hash, text_bytes): (u64, usize),
        calls: &[u8],
    ) -> Result<(), Error> {
        let (path, language) = (self.push_text(&file.path)?, self.push_language(language)?);
        let text_bytes = if file.language.is_notebook() { text_bytes as u64 } else { file.stamp.bytes };
        let calls = self.push_calls(calls)?;
        let record = FileRecord {
            bytes: file.stamp.bytes,
            modified_ns: file.stamp.modified_ns,
            changed_ns: file.stamp.changed_ns,
            inode: file.stamp.inode,
            hash,
            path,
            language,
            flags: flags.bits(),
            text_bytes: u32::try_from(text_bytes).unwrap_or(u32::MAX),
            calls,
            n_terms: [0; N_FIELDS],
            n_texts: [0; N_FIELDS],
        };
        self.files.push((record, Vec::new()));
        Ok(())
    }

    /// Appends a unit to the file pushed last.
    ///
    /// # Errors
    /// When the part is full.
    pub fn push_unit(&mut self, unit: &NewUnit, n_terms: &[u32; N_FIELDS]) -> Result<(), Error> {
        let (name, signature) = (self.push_text(unit.name)?, self.push_text(unit.signature)?);
        let language = self.push_language(unit.language)?;
        let Some((file, units)) = self.files.last_mut() else { return Ok(()) };
        file.n_terms.iter_mut().zip(n_terms).for_each(|(sum, n)| *sum += n);
        file.n_texts.iter_mut().zip(has_terms(n_terms)).for_each(|(sum, n)| *sum += n);
        units.push(UnitRecord {
            file: 0,
            start_line: unit.lines.0,
            end_line: unit.lines.1,
            start_byte: unit.bytes.start,
            end_byte: unit.bytes.end,
            name,
            signature,
            language,
            kind: kind_number(unit.kind),
            row: u32::try_from(self.hashes.len()).map_err(|_| Error::TooLarge)?,
            is_test: unit.is_test.into(),
        });
        self.hashes.push(unit.hash);
        self.tokens.push(unit.tokens)
    }

    /// Writes the strings, hashes, tokens and calls into the part's directory, and records all files in it.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Directory, name: String) -> Result<PartSize, Error> {
        Column::write(directory, STRINGS_FILE, &self.strings)?;
        Column::write(directory, HASHES_FILE, &self.hashes)?;
        self.tokens.write(directory)?;
        Column::write(directory, CALLS_FILE, &self.calls)?;
        Ok(PartSize {
            name,
            units: self.hashes.len(),
            string_bytes: self.strings.len(),
            call_bytes: self.calls.len(),
            tokens: self.tokens.len(),
            source_bytes: self.files.iter().map(|(file, _)| u64::from(file.text_bytes)).sum(),
            files: StoredFile::all(directory)?,
            vectors: BTreeMap::new(),
            passages: BTreeMap::new(),
        })
    }

    fn push_language(&mut self, language: Language) -> Result<Text, Error> {
        if let Some(known) = self.languages.get(&language) {
            return Ok(*known);
        }
        let text = self.push_text(language.name())?;
        self.languages.insert(language, text);
        Ok(text)
    }

    fn push_calls(&mut self, calls: &[u8]) -> Result<CallBytes, Error> {
        let start = u32::try_from(self.calls.len()).map_err(|_| Error::TooLarge)?;
        let length = u32::try_from(calls.len()).map_err(|_| Error::TooLarge)?;
        self.calls.extend_from_slice(calls);
        Ok(CallBytes { start, length })
    }

    pub(super) fn push_text(&mut self, text: &str) -> Result<Text, Error> {
        let start = u32::try_from(self.strings.len()).map_err(|_| Error::TooLarge)?;
        // Only headings of sections can be longer; they are truncated.
        let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
        self.strings.extend_from_slice(text.as_bytes());
        Ok(Text { start, length: text.len() as u16, part: self.part })
    }
}
