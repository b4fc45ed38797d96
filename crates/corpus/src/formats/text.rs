//! Text files: lines, and the items of one JSON array or object, each with its line number, one at a time.

use super::FormatError;
use flate2::bufread::MultiGzDecoder;
use quarry_files::open_regular;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

/// Maximum length of a line or JSON item in bytes, so that a malformed file cannot fill the memory.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;

/// One line of a text file, or one record of a file without lines, with its number for messages.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) path: &'a Path,
    /// Number of the line on which the record begins, or of the record, 1-based.
    pub(crate) number: usize,
    /// True if the file has no lines, so that `number` counts records.
    pub(crate) counts_records: bool,
    /// The line without its line break, or the text of the JSON item.
    pub(crate) text: &'a str,
}

impl Line<'_> {
    /// The name of another line or record of the same file in messages.
    pub(crate) fn named(&self, number: usize) -> String {
        format!("{} {number}", if self.counts_records { "record" } else { "line" })
    }

    /// Attributes an error of the whole file to this line or record; returns other errors unchanged.
    pub(crate) fn located(&self, error: FormatError) -> FormatError {
        match error {
            FormatError::File { path, expected, found, remedy } if path == self.path => {
                self.error(expected, found, remedy)
            }
            other => other,
        }
    }

    pub(crate) fn error(
        &self,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormatError {
        let (path, expected, found, remedy) =
            (self.path.to_owned(), expected.into(), found.into(), remedy.into());
        if self.counts_records {
            FormatError::Record { path, record: self.number, expected, found, remedy }
        } else {
            FormatError::Line { path, line: self.number, expected, found, remedy }
        }
    }
}

/// Opens a file for reading. Gzip is recognized by its first bytes and decompressed, including concatenated members.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, FormatError> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    let read_error = |source| FormatError::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(open_regular(path).map_err(read_error)?);
    if file.fill_buf().map_err(read_error)?.starts_with(GZIP) {
        Ok(Box::new(BufReader::new(MultiGzDecoder::new(file))))
    } else {
        Ok(Box::new(file))
    }
}

/// Calls `each` for every line that is not blank. Holds one line at a time.
pub(crate) fn for_each_line(
    mut reader: impl BufRead,
    path: &Path,
    mut each: impl FnMut(&Line<'_>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = reader
            .by_ref()
            .take(MAX_RECORD_BYTES as u64 + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| read_error(error, path, number))?;
        if read == 0 {
            break;
        }
        if read > MAX_RECORD_BYTES {
            return Err(too_long(path, number));
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = utf8(line, path, number)?;
        let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        if !text.trim().is_empty() {
            each(&Line { path, number, counts_records: false, text })?;
        }
    }
    Ok(())
}

/// Number of bytes to read at a time when all cores parse lines.
const BLOCK_BYTES: u64 = 16 << 20;

pub(crate) struct Lines<'a> {
    pub(crate) first: usize,
    pub(crate) n_lines: usize,
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The lines as text, without the byte order mark.
    pub(crate) fn text(&self, path: &Path) -> Result<&'a str, FormatError> {
        let text = std::str::from_utf8(self.bytes).map_err(|error| {
            not_utf8(path, self.first + count_line_ends(&self.bytes[..error.valid_up_to()]))
        })?;
        Ok(if self.first == 1 { text.trim_start_matches('\u{feff}') } else { text })
    }
}

/// Calls `each` for blocks of lines, each split into several pieces per core, while the next block is read.
pub(crate) fn for_each_block(
    reader: impl BufRead + Send,
    path: &Path,
    mut each: impl FnMut(Vec<Lines<'_>>) -> Result<(), FormatError> + Send,
) -> Result<(), FormatError> {
    let mut blocks = Blocks { reader, path, next_line: 1, rest: Vec::new() };
    let (mut block, mut spare) = (Block::default(), Block::default());
    blocks.read(&mut block)?;
    while !block.bytes.is_empty() {
        let (used, read) = rayon::join(|| each(block.lines()), || blocks.read(&mut spare));
        used?;
        read?;
        std::mem::swap(&mut block, &mut spare);
    }
    Ok(())
}

/// Complete lines, split into pieces.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// For each piece: the number of its first line, its number of lines, and its span.
    pieces: Vec<(usize, usize, Range<usize>)>,
}

impl Block {
    fn lines(&self) -> Vec<Lines<'_>> {
        let lines = |(first, n_lines, span): &(usize, usize, Range<usize>)| Lines {
            first: *first,
            n_lines: *n_lines,
            bytes: &self.bytes[span.clone()],
        };
        self.pieces.iter().map(lines).collect()
    }
}

struct Blocks<'p, R> {
    reader: R,
    path: &'p Path,
    next_line: usize,
    /// Bytes after the last complete line.
    rest: Vec<u8>,
}

impl<R: BufRead> Blocks<'_, R> {
    /// Replaces the content of `block` with the next lines; leaves it empty at the end of the file.
    fn read(&mut self, Block { bytes, pieces }: &mut Block) -> Result<(), FormatError> {
        bytes.clear();
        bytes.append(&mut self.rest);
        loop {
            let left_over = bytes.len();
            let mut limited = self.reader.by_ref().take(BLOCK_BYTES);
            let read = match limited.read_to_end(bytes) {
                Ok(read) => read,
                // Data read before the error is still in the buffer.
                Err(error) => {
                    return Err(read_error(error, self.path, self.next_line + count_line_ends(bytes)));
                }
            };
            match memchr::memrchr(b'\n', &bytes[left_over..]) {
                _ if read == 0 => break,
                Some(offset) => {
                    self.rest.extend_from_slice(&bytes[left_over + offset + 1..]);
                    bytes.truncate(left_over + offset + 1);
                    break;
                }
                None if bytes.len() > MAX_RECORD_BYTES => return Err(too_long(self.path, self.next_line)),
                None => {}
            }
        }
        let size = bytes.len() / (4 * rayon::current_num_threads()) + 1;
        pieces.clear();
        let mut start = 0;
        while start < bytes.len() {
            let from = bytes.len().min(start + size);
            let end = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |offset| from + offset + 1);
            let piece = &bytes[start..end];
            let n_lines = count_line_ends(piece) + usize::from(!piece.ends_with(b"\n"));
            pieces.push((self.next_line, n_lines, start..end));
            self.next_line += n_lines;
            start = end;
        }
        Ok(())
    }
}

fn count_line_ends(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Calls `each` for every item of the single JSON array (`[`) or object (`{`, members as `"name": value`) in a
/// file. Items are delimited by brackets and quotes alone; the parser of an item checks its syntax. Holds one item
/// at a time. The line number of an item is that of its first line.
pub(crate) fn for_each_item(
    reader: impl BufRead,
    path: &Path,
    opening: u8,
    mut each: impl FnMut(&Line<'_>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let (closing, what) = if opening == b'[' { (b']', "a JSON array") } else { (b'}', "a JSON object") };
    let mut items = Items { reader, path, line: 1, item: Vec::new() };
    if items.skip_white()? != Some(opening) {
        return Err(items.at(items.line).error(what, "something else", "check that this is the right file"));
    }
    items.reader.consume(1);
    if items.skip_white()? == Some(closing) {
        items.reader.consume(1);
    } else {
        loop {
            items.skip_white()?;
            let start = items.line;
            let end = items.read_item()?;
            let text = utf8(&items.item, path, start)?.trim_ascii_end();
            let line = Line { text, ..items.at(start) };
            match end {
                Some(_) if text.is_empty() => {
                    return Err(line.error("an item between two commas", "none", "remove the extra comma"));
                }
                Some(b',') => each(&line)?,
                Some(end) if end == closing => {
                    each(&line)?;
                    break;
                }
                Some(other) => {
                    let found = format!("`{}`", char::from(other));
                    return Err(items.at(items.line).error(
                        format!("{what} closed by `{}`", char::from(closing)),
                        found,
                        "fix the brackets",
                    ));
                }
                None => {
                    return Err(line.error(
                        format!("{what} to its closing `{}`", char::from(closing)),
                        format!("the end of the file within {}", excerpt(text)),
                        "the file was cut off: download it again",
                    ));
                }
            }
        }
    }
    match items.skip_white()? {
        None => Ok(()),
        Some(_) => Err(items.at(items.line).error(
            format!("nothing after {what}"),
            "more",
            "write one array, or one object per line",
        )),
    }
}

struct Items<'p, R> {
    reader: R,
    path: &'p Path,
    line: usize,
    item: Vec<u8>,
}

impl<'p, R: BufRead> Items<'p, R> {
    fn at(&self, number: usize) -> Line<'p> {
        Line { path: self.path, number, counts_records: false, text: "" }
    }

    /// Skips white space and a byte order mark; returns the next byte without consuming it.
    fn skip_white(&mut self) -> Result<Option<u8>, FormatError> {
        loop {
            let bytes = self.reader.fill_buf().map_err(|error| read_error(error, self.path, self.line))?;
            let Some(&byte) = bytes.first() else { return Ok(None) };
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' | 0xEF | 0xBB | 0xBF => {}
                other => return Ok(Some(other)),
            }
            self.reader.consume(1);
        }
    }

    /// Reads up to the comma or bracket that ends the item; consumes and returns it, or `None` at the end of the
    /// file.
    fn read_item(&mut self) -> Result<Option<u8>, FormatError> {
        self.item.clear();
        let start = self.line;
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        loop {
            let bytes = self.reader.fill_buf().map_err(|error| read_error(error, self.path, self.line))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let mut end = None;
            let mut position = 0;
            while position < bytes.len() {
                if in_string && !escaped {
                    // Most of a file is text within quotes.
                    match memchr::memchr2(b'"', b'\\', &bytes[position..]) {
                        Some(skipped) => position += skipped,
                        None => break,
                    }
                }
                let byte = bytes[position];
                if escaped {
                    escaped = false;
                } else if in_string {
                    in_string = byte != b'"';
                    escaped = byte == b'\\';
                } else {
                    match byte {
                        b'"' => in_string = true,
                        b'\n' => self.line += 1,
                        b'[' | b'{' => depth += 1,
                        b',' | b']' | b'}' if depth == 0 => {
                            end = Some(byte);
                            break;
                        }
                        b']' | b'}' => depth -= 1,
                        _ => {}
                    }
                }
                position += 1;
            }
            let length = if end.is_some() { position } else { bytes.len() };
            self.item.extend_from_slice(&bytes[..length]);
            self.reader.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(end);
            }
            if self.item.len() > MAX_RECORD_BYTES {
                return Err(too_long(self.path, start));
            }
        }
    }
}

fn utf8<'a>(bytes: &'a [u8], path: &Path, number: usize) -> Result<&'a str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| not_utf8(path, number))
}

pub(super) fn not_utf8(path: &Path, number: usize) -> FormatError {
    Line { path, number, counts_records: false, text: "" }.error(
        "UTF-8 text",
        "bytes that are not UTF-8",
        "convert the file to UTF-8",
    )
}

pub(super) fn too_long(path: &Path, number: usize) -> FormatError {
    Line { path, number, counts_records: false, text: "" }.error(
        format!("a record of at most {} MiB", MAX_RECORD_BYTES >> 20),
        "a longer one",
        "check that this is the right file and that it has line ends",
    )
}

/// Converts an error into one about truncated or damaged data if that is its cause, rather than the system.
pub(crate) fn read_error(error: io::Error, path: &Path, number: usize) -> FormatError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            Line { path, number, counts_records: false, text: "" }.error(
                "packed data to its end",
                error.to_string(),
                "the file was cut off or damaged: download it again",
            )
        }
        _ => FormatError::Read { path: path.to_owned(), source: error },
    }
}

/// The beginning of a text in quotation marks, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LENGTH: usize = 60;
    match text.char_indices().nth(LENGTH) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn items(text: &[u8], opening: u8) -> Result<Vec<(usize, String)>, String> {
        // A buffer of one byte tests every boundary.
        let reader = BufReader::with_capacity(1, text);
        let mut seen = Vec::new();
        for_each_item(reader, Path::new("f"), opening, |line| {
            seen.push((line.number, line.text.to_owned()));
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(seen)
    }

    #[test]
    fn lines_are_numbered_through_blanks_carriage_returns_and_byte_order_marks() {
        let mut seen = Vec::new();
        for_each_line("\u{feff}a\r\n\r\nb".as_bytes(), Path::new("f"), |line| {
            seen.push((line.number, line.text.to_owned()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, "a".to_owned()), (3, "b".to_owned())]);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_with_their_line() {
        let error = for_each_line(&b"a\n\xff\n"[..], Path::new("f"), |_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f:2: expected UTF-8 text, found bytes that are not UTF-8; convert the file to UTF-8"
        );
        let error = items(b"[\n\"a\xff\"]", b'[').unwrap_err();
        assert!(error.starts_with("f:2: expected UTF-8 text"), "{error}");
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let endless = BufReader::new(io::repeat(b'x'));
        let error = for_each_line(endless, Path::new("f"), |_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("f:1: expected a record of at most 64 MiB"), "{error}");
        let endless = BufReader::new(b"[".chain(io::repeat(b'x')));
        let error = for_each_item(endless, Path::new("f"), b'[', |_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("f:1: expected a record of at most 64 MiB"), "{error}");
    }

    #[test]
    fn items_of_arrays_and_objects_are_found_with_their_lines() {
        let text = "\u{feff}[\r\n {\"a\": \"x,]\\\"\"},\n\n[1, {\"b\":\"\\\\\"}] , 3\n]\n";
        let expected = [(2, "{\"a\": \"x,]\\\"\"}"), (4, "[1, {\"b\":\"\\\\\"}]"), (4, "3")];
        assert_eq!(items(text.as_bytes(), b'[').unwrap(), expected.map(|(n, t)| (n, t.to_owned())));
        let text = "{\"a,b\": 1,\n\"}\" : [2]}";
        let expected = [(1, "\"a,b\": 1"), (2, "\"}\" : [2]")];
        assert_eq!(items(text.as_bytes(), b'{').unwrap(), expected.map(|(n, t)| (n, t.to_owned())));
        assert_eq!(items(b" [ ] ", b'[').unwrap(), []);
    }

    #[test]
    fn broken_arrays_are_named_with_their_line() {
        for (text, start) in [
            ("", "f:1: expected a JSON array, found something else"),
            ("\n{}", "f:2: expected a JSON array, found something else"),
            (
                "[1,\n{\"a\": 2",
                "f:2: expected a JSON array to its closing `]`, found the end of the file within",
            ),
            ("[1,\n,2]", "f:2: expected an item between two commas"),
            ("[1,\n]", "f:2: expected an item between two commas"),
            ("[1}", "f:1: expected a JSON array closed by `]`, found `}`"),
            ("[1]\n[2]", "f:2: expected nothing after a JSON array"),
            ("[\"a", "f:1: expected a JSON array to its closing"),
        ] {
            let error = items(text.as_bytes(), b'[').unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn packed_files_are_unpacked_and_refused_when_they_are_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f.gz");
        let pack = |text: &str| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(text.as_bytes()).unwrap();
            packer.finish().unwrap()
        };
        let joined = [pack("a\n"), pack("b\n")].concat();
        std::fs::write(&path, &joined).unwrap();
        let read = |seen: &mut Vec<String>| {
            for_each_line(open(&path).unwrap(), &path, |line| {
                seen.push(line.text.to_owned());
                Ok(())
            })
        };
        let mut seen = Vec::new();
        read(&mut seen).unwrap();
        assert_eq!(seen, ["a", "b"]);
        std::fs::write(&path, &joined[..joined.len() - 6]).unwrap();
        let error = read(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("f.gz:3: expected packed data to its end"), "{error}");
        let of_blocks = for_each_block(open(&path).unwrap(), &path, |_| Ok(())).unwrap_err();
        assert_eq!(of_blocks.to_string(), error);
    }
}
