//! Files of JSON lines, one record at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::BuildError;
use crate::step::write_file;

pub(crate) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Writer {
    pub(crate) fn create(path: &Path) -> Result<Self, BuildError> {
        let file = File::create(path).map_err(BuildError::write(path))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    pub(crate) fn write(&mut self, record: &impl Serialize) -> Result<(), BuildError> {
        serde_json::to_writer(&mut self.file, record)
            .map_err(Into::into)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(BuildError::write(&self.path))
    }

    /// Finishes the file and syncs it to disk.
    pub(crate) fn finish(self) -> Result<(), BuildError> {
        self.file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .map_err(BuildError::write(self.path))
    }
}

/// Reads the records of a file in order, with the byte offset of each.
///
/// # Errors
/// The first line that is not such a record, an error of `each`, or when the file cannot be read.
pub(crate) fn for_each<T: DeserializeOwned>(
    path: &Path,
    each: &mut dyn FnMut(T, u64) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let mut file = BufReader::new(File::open(path).map_err(BuildError::read(path))?);
    let (mut text, mut at, mut line) = (Vec::new(), 0, 0);
    loop {
        text.clear();
        let n_bytes = file.read_until(b'\n', &mut text).map_err(BuildError::read(path))?;
        if n_bytes == 0 {
            return Ok(());
        }
        line += 1;
        each(parse(path, line, &text)?, at)?;
        at += n_bytes as u64;
    }
}

pub(crate) fn read_all<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, BuildError> {
    let mut records = Vec::new();
    for_each(path, &mut |record, _| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

fn parse<T: DeserializeOwned>(path: &Path, line: usize, text: &[u8]) -> Result<T, BuildError> {
    serde_json::from_slice(text).map_err(|error| BuildError::Line {
        path: path.to_owned(),
        line,
        problem: format!(
            "expected a record of this version of quarry, found a different one: {error}; remove its directory and \
             build again"
        ),
    })
}

/// Reads single records of a file by their byte offsets.
pub(crate) struct RandomReader {
    path: PathBuf,
    file: BufReader<File>,
}

impl RandomReader {
    pub(crate) fn open(path: &Path) -> Result<Self, BuildError> {
        let file = File::open(path).map_err(BuildError::read(path))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file) })
    }

    pub(crate) fn read<T: DeserializeOwned>(&mut self, at: u64) -> Result<T, BuildError> {
        let mut text = Vec::new();
        (self.file.seek(SeekFrom::Start(at)))
            .and_then(|_| self.file.by_ref().read_until(b'\n', &mut text))
            .map_err(BuildError::read(&self.path))?;
        parse(&self.path, 0, &text)
    }
}

/// Writes a value as the only one of a file.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), BuildError> {
    let text = serde_json::to_vec_pretty(value).unwrap_or_default();
    write_file(path, &text)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, BuildError> {
    let text = std::fs::read(path).map_err(BuildError::read(path))?;
    serde_json::from_slice(&text).map_err(|error| BuildError::Line {
        path: path.to_owned(),
        line: error.line(),
        problem: format!(
            "expected what this version of quarry writes: {error}; remove its directory and build again"
        ),
    })
}
