//! Reads the source of results from the tree.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use quarry_files::Directory;
use quarry_source::SourceText;
use quarry_walk as walk;

use crate::index::roots::Tree;
use crate::storage::content_hash::content_hash;
use crate::{Error, Hit, Index, IndexedFile, UnindexedFile};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitSource {
    pub text: String,
    /// The 1-based line of the file for each line of the text; in a notebook several lines may share one.
    pub line_numbers: Vec<u32>,
}

/// Reads files of the searched paths, which it opens once.
pub struct FileReader<'a> {
    index: &'a Index,
    /// By the numbers of the searched paths.
    directories: HashMap<usize, Directory>,
}

impl FileReader<'_> {
    /// Like [`IndexedFile::text`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn indexed(&self, file: &IndexedFile) -> Result<SourceText, Error> {
        let (root, path) = file.place().unwrap_or((0, ""));
        self.text(root, path)
    }

    /// Like [`UnindexedFile::text`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn unindexed(&self, file: &UnindexedFile) -> Result<SourceText, Error> {
        self.text(file.root, &file.path)
    }

    fn text(&self, root: usize, path: &str) -> Result<SourceText, Error> {
        match (self.index.text_in_memory(root, path), self.directories.get(&root)) {
            (Some(text), _) => Ok(text),
            (None, Some(directory)) => self.index.read_below(directory, root, path, walk::MAX_FILE_BYTES),
            (None, None) => self.index.text_in(root, path),
        }
    }
}

impl Index {
    /// Reads the source of a hit from the tree; invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn source(&self, hit: &Hit) -> Result<UnitSource, Error> {
        let Some(record) = self.table.units.get(hit.unit) else {
            let text = self.text(hit)?;
            let lines = self.lines(hit, &text);
            let content = text.to_str();
            let inside: Vec<&str> = content.lines().skip(lines.start).take(lines.len()).collect();
            let line_numbers = lines.map(|index| text.line_number(index)).collect();
            return Ok(UnitSource { text: inside.join("\n"), line_numbers });
        };
        let bytes = record.start_byte as usize..record.end_byte as usize;
        // UTF-16 takes at most twice the bytes in the file; a notebook is read as a whole.
        let is_cell = record.language != self.table.file_of(record).language;
        let limit = if is_cell { walk::MAX_FILE_BYTES } else { 2 * u64::from(record.end_byte) + 2 };
        let text = self.read_start(hit.root, &hit.path, limit)?;
        // Shorter than recorded if it has changed since.
        let unit = text.bytes().get(bytes).unwrap_or_default();
        let source = String::from_utf8_lossy(unit).into_owned();
        let line_numbers = self.lines(hit, &text).map(|index| text.line_number(index)).collect();
        Ok(UnitSource { text: source, line_numbers })
    }

    /// Reads the text of the file of a hit from the tree, without following links out of it. Text beyond the maximum
    /// size of an indexed file is omitted.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn text(&self, hit: &Hit) -> Result<SourceText, Error> {
        self.text_in(hit.root, &hit.path)
    }

    /// Returns true if a text is the one that the file of a hit had when it was indexed.
    pub fn is_as_indexed(&self, hit: &Hit, text: &SourceText) -> bool {
        let unit = self.table.units.get(hit.unit);
        let indexed = unit.map_or(0, |unit| self.table.file_of(unit).hash);
        // 0 if it could not be read at that time, or is in no unit.
        indexed == 0 || content_hash(text) == indexed
    }

    /// The text of a file in the searched path with index `root`.
    pub(crate) fn text_in(&self, root: usize, path: &str) -> Result<SourceText, Error> {
        self.read_start(root, path, walk::MAX_FILE_BYTES)
    }

    /// The 0-based lines of a unit in the [`text`](Self::text) of its file.
    pub fn lines(&self, hit: &Hit, text: &SourceText) -> Range<usize> {
        if hit.unit == Hit::NO_UNIT {
            return text.line_indexes(hit.start_line..=hit.end_line, 0..text.bytes().len());
        }
        self.lines_of(hit.unit, text)
    }

    /// The 0-based lines of the unit with a number in the text of its file.
    pub(crate) fn lines_of(&self, unit: usize, text: &SourceText) -> Range<usize> {
        let record = &self.table.units[unit];
        text.line_indexes(
            record.start_line..=record.end_line,
            record.start_byte as usize..record.end_byte as usize,
        )
    }

    fn read_start(&self, root: usize, path: &str, limit: u64) -> Result<SourceText, Error> {
        match self.text_in_memory(root, path) {
            Some(text) => Ok(text),
            None => self.read_below(&walk::open(self.base(root))?, root, path, limit),
        }
    }

    /// The text of a file that needs no reading.
    fn text_in_memory(&self, root: usize, path: &str) -> Option<SourceText> {
        if let Some(files) = &self.carried {
            let file = self.row_of(root, path).and_then(|row| files.get(row));
            return Some(file.map_or_else(|| SourceText::plain(Vec::new()), |file| file.source_text()));
        }
        self.unsaved_text(root, path).cloned()
    }

    fn base(&self, root: usize) -> &Path {
        self.root(root).map_or(Path::new(""), |root| &root.base)
    }

    fn read_below(
        &self,
        directory: &Directory,
        root: usize,
        path: &str,
        limit: u64,
    ) -> Result<SourceText, Error> {
        walk::read_text(directory, path, limit)
            .map_err(|source| Error::io("read", &self.base(root).join(path), source))
    }

    /// Opens the searched paths, for reading many files. Those that cannot be opened are left out.
    pub fn reader(&self) -> FileReader<'_> {
        let directories = self.roots().filter_map(|root| Some((root.number, walk::open(&root.base).ok()?)));
        FileReader { index: self, directories: directories.collect() }
    }

    /// The text of a file in an editor, if it differs from the one on disk.
    pub(crate) fn unsaved_text(&self, root: usize, path: &str) -> Option<&SourceText> {
        let is_its =
            |tree: &&Tree| !tree.unsaved.is_empty() && tree.roots.iter().any(|found| found.number == root);
        let tree = self.trees.iter().find(is_its)?;
        tree.unsaved.get(self.root(root)?.scope.absolute(path).as_ref()).map(Arc::as_ref)
    }
}
