//! Files that commands write besides their output: whole, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use quarry_files::{Readers, Replacement};
use serde::Serialize;

/// Writes one JSON object over several lines.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut file = create(path)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(file))
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

pub fn write_json_lines(path: &Path, mut lines: impl Iterator<Item = impl Serialize>) -> anyhow::Result<()> {
    let mut file = create(path)?;
    lines
        .try_for_each(|line| {
            serde_json::to_writer(&mut file, &line)?;
            writeln!(file)
        })
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write_bytes(path, text.as_bytes())
}

pub fn write_bytes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes).and_then(|()| file.finish()).with_context(|| cannot_write(path))
}

/// A file that replaces the one at its path when it is finished. Dropped before that, it changes nothing.
/// What is there and no plain file, such as a pipe, is written to at once.
pub enum NewFile {
    AtOnce(BufWriter<File>),
    Staged(Replacement),
}

pub fn create(path: &Path) -> anyhow::Result<NewFile> {
    let create = || -> io::Result<NewFile> {
        // Where a link leads to is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(NewFile::AtOnce(BufWriter::new(file)));
        }
        Replacement::create(&path, ".partial-", Readers::Umask).map(NewFile::Staged)
    };
    create().with_context(|| cannot_write(path))
}

impl NewFile {
    /// Gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::AtOnce(mut file) => file.flush(),
            Self::Staged(file) => file.finish(),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::AtOnce(file) => file.write(bytes),
            Self::Staged(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::AtOnce(file) => file.flush(),
            Self::Staged(file) => file.flush(),
        }
    }
}

pub fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}
