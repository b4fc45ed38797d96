//! Delimited tables: rows of fields separated by a comma or another byte, below a line that names the columns (RFC
//! 4180). Only one row is in memory at a time, and its length is limited like that of any record.

use super::text::{MAX_RECORD_BYTES, not_utf8, read_error, too_long};
use super::{FormatError, Line, excerpt};
use csv::{ByteRecord, ErrorKind, ReaderBuilder, StringRecord};
use std::cell::RefCell;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::rc::Rc;

pub(super) struct Rows<'p, R> {
    reader: csv::Reader<TrackingReader<R>>,
    header: StringRecord,
    path: &'p Path,
    given: Rc<RefCell<TrackedBytes>>,
}

/// A reader that remembers the bytes it returned last, and returns at most a given number.
struct TrackingReader<R> {
    reader: R,
    given: Rc<RefCell<TrackedBytes>>,
}

struct TrackedBytes {
    /// Number of bytes that may still be returned.
    left: usize,
    /// Number of bytes before the last ones returned, and these with the byte before them.
    before: u64,
    last: Vec<u8>,
}

impl<R: Read> Read for TrackingReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut given = self.given.borrow_mut();
        if given.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.reader.read(bytes)?;
        given.left = given.left.saturating_sub(read);
        let kept = given.last.len().saturating_sub(1);
        given.before += kept as u64;
        given.last.drain(..kept);
        given.last.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

impl TrackedBytes {
    fn at(&self, offset: u64) -> Option<u8> {
        self.last.get(usize::try_from(offset.checked_sub(self.before)?).ok()?).copied()
    }
}

impl<'p, R: BufRead> Rows<'p, R> {
    /// Reads the names of the columns, without white space around them. `path` is used in messages only.
    pub(super) fn new(reader: R, path: &'p Path, delimiter: u8) -> Result<Self, FormatError> {
        let given = Rc::new(RefCell::new(TrackedBytes { left: 0, before: 0, last: Vec::new() }));
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(TrackingReader { reader, given: given.clone() });
        let mut rows = Self { reader, header: StringRecord::new(), path, given };
        let mut header = StringRecord::new();
        rows.read(&mut header)?;
        rows.header = header.iter().map(|name| name.trim_start_matches('\u{feff}').trim()).collect();
        Ok(rows)
    }

    pub(super) fn header(&self) -> &StringRecord {
        &self.header
    }

    /// Reads the next row; returns the number of the line on which it begins, or `None` at the end.
    pub(super) fn read(&mut self, row: &mut StringRecord) -> Result<Option<usize>, FormatError> {
        self.given.borrow_mut().left = MAX_RECORD_BYTES;
        let mut bytes = std::mem::take(row).into_byte_record();
        match self.reader.read_byte_record(&mut bytes) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let number = self.first_line(&bytes);
                *row = StringRecord::from_byte_record(bytes).map_err(|_| not_utf8(self.path, number))?;
                Ok(Some(number))
            }
            Err(error) => {
                let number = line(self.reader.position().line());
                Err(match error.into_kind() {
                    ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                        too_long(self.path, number)
                    }
                    ErrorKind::Io(error) => read_error(error, self.path, number),
                    // A reader of raw bytes with flexible rows has no other error.
                    _ => not_utf8(self.path, number),
                })
            }
        }
    }

    /// The line on which the last row begins. The reader's position does not tell: it is the end of the previous row
    /// and, after a line break of two bytes, between them.
    fn first_line(&self, row: &ByteRecord) -> usize {
        let after = self.reader.position();
        let feed = after.byte().checked_sub(1).and_then(|end| self.given.borrow().at(end)) == Some(b'\n');
        let within = row.iter().map(|field| memchr::memchr_iter(b'\n', field).count()).sum::<usize>();
        line(after.line()).saturating_sub(usize::from(feed) + within)
    }

    /// The error for a row with more or fewer fields than there are columns.
    pub(super) fn refuse_length(&self, row: &StringRecord, line: &Line<'_>) -> Option<FormatError> {
        (row.len() != self.header.len()).then(|| {
            line.error(
                format!("{} fields", self.header.len()),
                format!("{} beginning with {}", row.len(), excerpt(&row[0])),
                "fix the line: a comma within a field needs quotes around it",
            )
        })
    }
}

fn line(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn open(bytes: impl Read) -> Result<Vec<(usize, Vec<String>)>, String> {
        let text = |error: FormatError| error.to_string();
        let mut rows = Rows::new(BufReader::new(bytes), Path::new("t"), b',').map_err(text)?;
        let (mut found, mut row) = (Vec::new(), StringRecord::new());
        while let Some(line) = rows.read(&mut row).map_err(text)? {
            found.push((line, row.iter().map(str::to_owned).collect()));
        }
        Ok(found)
    }

    #[test]
    fn rows_know_their_lines() {
        let found = open(&b"\xef\xbb\xbf a ,b\r\n\"x\ny\",1\r\n\r\n z,\"\"\"2\"\"\"\n"[..]).unwrap();
        let row = |fields: [&str; 2]| fields.map(str::to_owned).to_vec();
        assert_eq!(found, [(2, row(["x\ny", "1"])), (5, row([" z", "\"2\""]))]);
        for ends in ["\n", "\r\n"] {
            // More than a reader buffers, including blank lines and rows of several lines.
            let rows = (0..5_000).map(|number| match number % 3 {
                0 => format!("{number},x"),
                1 => format!("{ends}{number},\"x{ends}y\""),
                _ => format!("\"{number}\",\"\""),
            });
            let text = format!("a,b{ends}{}", rows.collect::<Vec<_>>().join(ends));
            let lines: Vec<&str> = text.lines().collect();
            let found = open(text.as_bytes()).unwrap();
            assert_eq!(found.len(), 5_000);
            for (number, (line, row)) in found.iter().enumerate() {
                let first = lines[line - 1].split(',').next().map(|field| field.trim_matches('"'));
                assert_eq!((first, row[0].parse()), (Some(row[0].as_str()), Ok(number)), "{line}");
            }
        }
        let rows = Rows::new(&b"\xef\xbb\xbf a ,b\n"[..], Path::new("t"), b',').unwrap();
        assert_eq!(rows.header(), &["a", "b"][..]);
    }

    #[test]
    fn a_row_without_end_does_not_fill_the_memory() {
        for start in ["", "a,b\n1,2\n", "a,b\n1,2\n3,\""] {
            let endless = start.as_bytes().chain(io::repeat(b'x'));
            let error = open(endless).unwrap_err();
            let line = 1 + start.matches('\n').count();
            assert!(error.starts_with(&format!("t:{line}: expected a record of at most 64 MiB")), "{error}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_with_their_line() {
        let error = open(&b"a,b\n1,\xff\n"[..]).unwrap_err();
        assert!(error.starts_with("t:2: expected UTF-8 text"), "{error}");
        let error = open(&b"\xff,b\n"[..]).unwrap_err();
        assert!(error.starts_with("t:1: expected UTF-8 text"), "{error}");
    }
}
