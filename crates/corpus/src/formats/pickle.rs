//! Python pickles (protocols 2 to 5) of a list of dictionaries of plain data, read without executing anything.
//!
//! A pickle is a program for a stack machine. The instructions that build texts, numbers, lists and dictionaries are
//! executed; all others, in particular imports and calls, are rejected. Values that the file shares are shared in
//! memory, nothing refers to an incomplete value, and nesting is limited, so a small file cannot become a large or
//! infinite value. Rows are passed on while the outermost list grows; values that the file may refer to again are
//! kept.
//!
//! The crate serde-pickle copies values on `DUP`, so a file of 100 bytes can fill the memory.

use super::row::Value;
use super::text::{Line, MAX_RECORD_BYTES, read_error};
use super::{Field, FormatError};
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;
use std::rc::Rc;

/// Maximum size in bytes of values kept for later references.
const MAX_KEPT_BYTES: usize = 8 << 30;
/// Maximum size in bytes of the stack before its items are appended to the outermost list; Python appends a thousand
/// items at a time.
const MAX_PENDING_BYTES: usize = 1 << 30;
/// Bytes that a value takes in addition to its text.
const NODE_BYTES: usize = 32;
/// Maximum nesting of lists and dictionaries below the outermost list.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone)]
enum Node {
    None,
    Bool,
    Whole(i64),
    Real(f64),
    Text(Rc<str>),
    Bytes,
    /// In the memo: an incomplete list or dictionary.
    Growing,
    /// A list, with its depth.
    List(Rc<[Node]>, usize),
    Dict(Rc<[(Node, Node)]>, usize),
}

impl Node {
    fn depth(&self) -> usize {
        match self {
            Self::List(_, depth) | Self::Dict(_, depth) => *depth,
            _ => 0,
        }
    }
}

/// An item of the stack: a value, or an incomplete list or dictionary with its key in the memo.
enum Slot {
    Mark,
    Value(Node),
    List(Vec<Node>, Vec<usize>),
    Dict(Vec<(Node, Node)>, Vec<usize>),
}

type TakeValues<'t> =
    dyn FnMut(Line<'_>, Result<Vec<Value<'_>>, FormatError>) -> Result<(), FormatError> + 't;

/// Calls `each` with the values of `fields` of every dictionary in the pickled list. Record numbers are 1-based.
pub(super) fn for_each_row(
    reader: impl BufRead,
    path: &Path,
    fields: &[Field],
    each: &mut TakeValues<'_>,
) -> Result<(), FormatError> {
    Machine { reader, path, stack: Vec::new(), memo: HashMap::new(), kept: 0, pending: 0, n_rows: 0 }
        .run(fields, each)
}

struct Machine<'p, R> {
    reader: R,
    path: &'p Path,
    stack: Vec<Slot>,
    memo: HashMap<usize, Node>,
    /// Bytes in the memo.
    kept: usize,
    /// Bytes on the stack since the last row.
    pending: usize,
    n_rows: usize,
}

impl<R: BufRead> Machine<'_, R> {
    fn line(&self) -> Line<'_> {
        Line { path: self.path, number: self.n_rows + 1, counts_records: true, text: "" }
    }

    fn error(&self, expected: &str, found: impl Into<String>) -> FormatError {
        self.line().error(expected, found, "write it as JSON lines with Python, if you trust the file")
    }

    fn broken(&self) -> FormatError {
        self.error("a pickle", "an instruction without the values that it needs")
    }

    fn run(mut self, fields: &[Field], each: &mut TakeValues<'_>) -> Result<(), FormatError> {
        loop {
            let [code] = self.bytes()?;
            match code {
                // PROTO, FRAME
                0x80 => drop(self.bytes::<1>()?),
                0x95 => drop(self.bytes::<8>()?),
                b'(' => self.stack.push(Slot::Mark),
                b'.' => {
                    return match self.stack.pop() {
                        Some(Slot::List(..)) if self.stack.is_empty() => self.end(),
                        _ => Err(self.error("a list", "something else")),
                    };
                }
                b'N' => self.push(Node::None)?,
                0x88 | 0x89 => self.push(Node::Bool)?,
                b'J' => {
                    let bytes = self.bytes()?;
                    self.push(Node::Whole(i32::from_le_bytes(bytes).into()))?;
                }
                b'K' => {
                    let [byte] = self.bytes()?;
                    self.push(Node::Whole(byte.into()))?;
                }
                b'M' => {
                    let bytes = self.bytes()?;
                    self.push(Node::Whole(u16::from_le_bytes(bytes).into()))?;
                }
                0x8a => {
                    let [length] = self.bytes()?;
                    let digits = self.counted(length.into())?;
                    let node =
                        long(&digits).ok_or_else(|| self.error("numbers of 64 bits", "a longer one"))?;
                    self.push(node)?;
                }
                b'G' => {
                    let bytes = self.bytes()?;
                    self.push(Node::Real(f64::from_be_bytes(bytes)))?;
                }
                b'X' | b'T' => {
                    let length = u32::from_le_bytes(self.bytes()?);
                    self.text(length.into())?;
                }
                0x8c | b'U' => {
                    let [length] = self.bytes()?;
                    self.text(length.into())?;
                }
                0x8d => {
                    let length = u64::from_le_bytes(self.bytes()?);
                    self.text(length)?;
                }
                b'B' | b'C' => {
                    let length = if code == b'B' {
                        u32::from_le_bytes(self.bytes()?)
                    } else {
                        u8::from_le_bytes(self.bytes()?).into()
                    };
                    self.counted(length.into())?;
                    self.push(Node::Bytes)?;
                }
                b']' => self.stack.push(Slot::List(Vec::new(), Vec::new())),
                b'}' => self.stack.push(Slot::Dict(Vec::new(), Vec::new())),
                b')' => self.tuple(Vec::new())?,
                b't' => {
                    let items = self.pop_mark()?;
                    self.tuple(items)?;
                }
                0x85..=0x87 => {
                    let mut items = (0..code - 0x84).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                    items.reverse();
                    self.tuple(items)?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item], fields, each)?;
                }
                b'e' => {
                    let items = self.pop_mark()?;
                    self.append(items, fields, each)?;
                }
                b's' | b'u' => {
                    let items = if code == b'u' {
                        self.pop_mark()?
                    } else {
                        let value = self.pop()?;
                        vec![self.pop()?, value]
                    };
                    let mut entries = self.entries(items)?;
                    match self.stack.last_mut() {
                        Some(Slot::Dict(known, _)) => known.append(&mut entries),
                        _ => return Err(self.broken()),
                    }
                }
                b'q' => {
                    let [id] = self.bytes()?;
                    self.memoize(id.into())?;
                }
                b'r' => {
                    let id = u32::from_le_bytes(self.bytes()?);
                    self.memoize(id as usize)?;
                }
                0x94 => self.memoize(self.memo.len())?,
                b'h' => {
                    let [id] = self.bytes()?;
                    self.recall(id.into())?;
                }
                b'j' => {
                    let id = u32::from_le_bytes(self.bytes()?);
                    self.recall(id as usize)?;
                }
                other => {
                    let what = match other {
                        b'c' | 0x93 | b'i' => "a name to import".to_owned(),
                        b'R' | b'o' | 0x81 | 0x92 | b'b' => "a call".to_owned(),
                        other => format!("the instruction {other:#04x}"),
                    };
                    return Err(
                        self.error("plain data: a list of dictionaries of texts, numbers and lists", what)
                    );
                }
            }
        }
    }

    /// Checks that nothing follows. Only at the end of a compressed file is its checksum verified.
    fn end(&mut self) -> Result<(), FormatError> {
        let is_end = self.reader.fill_buf().map(<[u8]>::is_empty);
        match is_end.map_err(|error| self.read_error(error))? {
            true => Ok(()),
            false => Err(self.error("the end of the file after the list", "more")),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut bytes = [0; N];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.read_error(error)),
        }
    }

    fn read_error(&self, error: std::io::Error) -> FormatError {
        match read_error(error, self.path, 0) {
            FormatError::Line { expected, found, remedy, .. } => self.line().error(expected, found, remedy),
            other => other,
        }
    }

    /// Reads this many bytes. Memory grows as they arrive, whatever number the file claims.
    fn counted(&mut self, length: u64) -> Result<Vec<u8>, FormatError> {
        if length > MAX_RECORD_BYTES as u64 {
            return Err(self.error("records of at most 64 MiB", format!("a text of {length} bytes")));
        }
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(length).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 == length => Ok(bytes),
            Ok(_) => Err(self.read_error(std::io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.read_error(error)),
        }
    }

    fn text(&mut self, length: u64) -> Result<(), FormatError> {
        let bytes = self.counted(length)?;
        // Python writes invalid UTF-8 with surrogates, which are not characters.
        let text = String::from_utf8(bytes).map_err(|_| self.error("texts in UTF-8", "other bytes"))?;
        self.push(Node::Text(text.into()))
    }

    fn push(&mut self, node: Node) -> Result<(), FormatError> {
        self.pending += text_bytes(&node);
        self.push_shared(node)
    }

    /// Pushes a value whose text is already in memory.
    fn push_shared(&mut self, node: Node) -> Result<(), FormatError> {
        self.pending += NODE_BYTES;
        if self.pending > MAX_PENDING_BYTES {
            return Err(self.error("a list of records", "over 1 GiB before one is complete"));
        }
        self.stack.push(Slot::Value(node));
        Ok(())
    }

    /// Pops the top of the stack; a list or dictionary becomes complete.
    fn pop(&mut self) -> Result<Node, FormatError> {
        match self.stack.pop() {
            Some(slot) => self.complete(slot),
            None => Err(self.broken()),
        }
    }

    fn complete(&mut self, slot: Slot) -> Result<Node, FormatError> {
        let (node, ids) = match slot {
            Slot::Mark => return Err(self.broken()),
            Slot::Value(node) => return Ok(node),
            Slot::List(items, ids) => {
                let depth = 1 + items.iter().map(Node::depth).max().unwrap_or_default();
                (Node::List(items.into(), depth), ids)
            }
            Slot::Dict(entries, ids) => {
                let depths = entries.iter().flat_map(|(key, value)| [key.depth(), value.depth()]);
                let depth = 1 + depths.max().unwrap_or_default();
                (Node::Dict(entries.into(), depth), ids)
            }
        };
        if node.depth() > MAX_DEPTH {
            return Err(self.error("shallow records", format!("lists nested over {MAX_DEPTH} deep")));
        }
        for id in ids {
            self.memo.insert(id, node.clone());
        }
        Ok(node)
    }

    fn pop_mark(&mut self) -> Result<Vec<Node>, FormatError> {
        let mark = self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark));
        let Some(mark) = mark else { return Err(self.broken()) };
        let slots = self.stack.split_off(mark + 1);
        self.stack.pop();
        slots.into_iter().map(|slot| self.complete(slot)).collect()
    }

    fn entries(&self, items: Vec<Node>) -> Result<Vec<(Node, Node)>, FormatError> {
        if items.len() % 2 == 1 {
            return Err(self.broken());
        }
        let mut items = items.into_iter();
        let mut entries = Vec::new();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            entries.push((key, value));
        }
        Ok(entries)
    }

    fn tuple(&mut self, items: Vec<Node>) -> Result<(), FormatError> {
        let node = self.complete(Slot::List(items, Vec::new()))?;
        self.push(node)
    }

    /// Appends to the list on top of the stack; items of the outermost list are rows, which are not kept.
    fn append(
        &mut self,
        items: Vec<Node>,
        fields: &[Field],
        each: &mut TakeValues<'_>,
    ) -> Result<(), FormatError> {
        let is_outermost = self.stack.len() == 1;
        match self.stack.last_mut() {
            Some(Slot::List(known, _)) if !is_outermost => known.extend(items),
            Some(Slot::List(..)) => {
                for item in items {
                    let values = values(&item, fields).map_err(|found| {
                        self.line().error(
                            "a dictionary of at most 64 MiB",
                            found,
                            "fix the record, or remove it",
                        )
                    });
                    each(self.line(), values)?;
                    self.n_rows += 1;
                }
                self.pending = 0;
            }
            _ => return Err(self.broken()),
        }
        Ok(())
    }

    fn memoize(&mut self, id: usize) -> Result<(), FormatError> {
        let node = match self.stack.last_mut() {
            Some(Slot::Value(node)) => node.clone(),
            // It can be referred to now that it is complete.
            Some(Slot::List(_, ids) | Slot::Dict(_, ids)) => {
                ids.push(id);
                Node::Growing
            }
            Some(Slot::Mark) | None => return Err(self.broken()),
        };
        self.kept += 2 * NODE_BYTES + text_bytes(&node);
        if self.kept > MAX_KEPT_BYTES {
            return Err(self.error("a pickle that fits into memory", "over 8 GiB of values to keep"));
        }
        self.memo.insert(id, node);
        Ok(())
    }

    fn recall(&mut self, id: usize) -> Result<(), FormatError> {
        match self.memo.get(&id) {
            Some(Node::Growing) => Err(self.error("plain data", "a list that contains itself")),
            Some(node) => {
                let node = node.clone();
                self.push_shared(node)
            }
            None => Err(self.broken()),
        }
    }
}

fn text_bytes(node: &Node) -> usize {
    if let Node::Text(text) = node { text.len() } else { 0 }
}

/// A whole number in little-endian two's complement.
fn long(digits: &[u8]) -> Option<Node> {
    let sign = if digits.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut bytes = [sign; 8];
    bytes.get_mut(..digits.len())?.copy_from_slice(digits);
    Some(Node::Whole(i64::from_le_bytes(bytes)))
}

/// The fields of a dictionary, or a description of what was found instead.
fn values<'a>(row: &'a Node, fields: &[Field]) -> Result<Vec<Value<'a>>, String> {
    let Node::Dict(entries, _) = row else { return Err("something else".into()) };
    let mut values = vec![Value::Absent; fields.len()];
    let mut bytes = 0;
    for (key, value) in entries.iter() {
        let position = fields.iter().position(|field| matches!(key, Node::Text(key) if **key == *field.name));
        let Some(position) = position else { continue };
        values[position] = match value {
            Node::None | Node::Growing => Value::Absent,
            Node::Bool => Value::Other("true or false"),
            Node::Whole(number) => Value::Whole(*number),
            Node::Real(number) => Value::Real(*number),
            Node::Text(text) => Value::Text((&**text).into()),
            Node::Bytes => Value::Other("bytes"),
            Node::Dict(..) => Value::Other("a dictionary"),
            Node::List(items, _) => {
                let mut texts = Vec::new();
                let mut all_texts = true;
                for item in items.iter() {
                    match item {
                        Node::Text(text) => texts.push(text.to_string()),
                        Node::Whole(number) => texts.push(number.to_string()),
                        _ => all_texts = false,
                    }
                    // A shared text costs the file nothing.
                    bytes += texts.last().map_or(0, String::len) + NODE_BYTES;
                    if bytes > MAX_RECORD_BYTES {
                        return Err("a longer one".into());
                    }
                }
                if all_texts { Value::List(texts) } else { Value::Other("a list not only of texts") }
            }
        };
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Kind;

    const FIELDS: &[Field] = &[
        Field::required("a", Kind::Text, ""),
        Field::optional("b", Kind::Tokens, ""),
        Field::optional("n", Kind::Whole, ""),
    ];

    fn read(bytes: &[u8]) -> Result<Vec<Vec<Value<'static>>>, String> {
        let mut rows = Vec::new();
        for_each_row(bytes, Path::new("f.pkl"), FIELDS, &mut |_, values| {
            rows.push(
                values?
                    .into_iter()
                    .map(|value| match value {
                        Value::Text(text) => text.into_owned().into(),
                        Value::Absent => Value::Absent,
                        Value::Whole(number) => Value::Whole(number),
                        Value::Real(number) => Value::Real(number),
                        Value::List(texts) => Value::List(texts),
                        Value::Other(what) => Value::Other(what),
                    })
                    .collect(),
            );
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(rows)
    }

    /// `pickle.dumps([{"a": "x\u00e9", "b": ["t", "t"], "n": 1}, {"a": "t", "b": None, "n": 70000, "z": (1, 2.5)}], p)`
    /// for the protocols 2 and 4.
    const DUMPS: [&[u8]; 2] = [DUMP2, DUMP4];
    const DUMP2: &[u8] = b"\x80\x02]q\x00(}q\x01(X\x01\x00\x00\x00aq\x02X\x03\x00\x00\x00x\xc3\xa9q\x03X\x01\x00\x00\x00bq\x04]q\x05(X\x01\x00\x00\x00tq\x06h\x06eX\x01\x00\x00\x00nq\x07K\x01u}q\x08(h\x02h\x06h\x04Nh\x07Jp\x11\x01\x00X\x01\x00\x00\x00zq\x09K\x01G@\x04\x00\x00\x00\x00\x00\x00\x86q\nue.";
    const DUMP4: &[u8] = b"\x80\x04\x95J\x00\x00\x00\x00\x00\x00\x00]\x94(}\x94(\x8c\x01a\x94\x8c\x03x\xc3\xa9\x94\x8c\x01b\x94]\x94(\x8c\x01t\x94h\x06e\x8c\x01n\x94K\x01u}\x94(h\x02h\x06h\x04Nh\x07Jp\x11\x01\x00\x8c\x01z\x94K\x01G@\x04\x00\x00\x00\x00\x00\x00\x86\x94ue.";

    #[test]
    fn plain_lists_of_every_protocol_are_read() {
        let text = |text: &str| Value::from(text.to_owned());
        let expected = vec![
            vec![text("x\u{e9}"), Value::List(vec!["t".into(), "t".into()]), Value::Whole(1)],
            vec![text("t"), Value::Absent, Value::Whole(70_000)],
        ];
        for dump in DUMPS {
            assert_eq!(read(dump).unwrap(), expected);
        }
    }

    #[test]
    fn pickles_that_are_cut_off_are_refused() {
        for dump in DUMPS {
            for cut in 0..dump.len() {
                let error = read(&dump[..cut]).unwrap_err();
                assert!(error.starts_with("f.pkl: record"), "{error}");
            }
        }
    }

    #[test]
    fn a_pickle_is_read_to_the_end_of_its_file() {
        for dump in DUMPS {
            let error = read(&[dump, b"."].concat()).unwrap_err();
            assert!(error.contains("expected the end of the file after the list"), "{error}");
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, dump).unwrap();
            let mut packed = encoder.finish().unwrap();
            // The first byte of the checksum.
            let at = packed.len() - 8;
            packed[at] ^= 1;
            let reader = std::io::BufReader::new(flate2::bufread::MultiGzDecoder::new(&packed[..]));
            let result = for_each_row(reader, Path::new("f.pkl.gz"), FIELDS, &mut |_, _| Ok(()));
            assert!(result.is_err());
        }
    }

    #[test]
    fn nothing_is_executed() {
        // __reduce__ of os.system("true"), by GLOBAL and by STACK_GLOBAL.
        for attack in [
            &b"\x80\x02]cos\nsystem\nX\x04\x00\x00\x00true\x85Ra."[..],
            b"\x80\x04]\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85Ra.",
        ] {
            let error = read(attack).unwrap_err();
            assert!(
                error.contains("expected plain data") && error.contains("found a name to import"),
                "{error}"
            );
        }
    }

    #[test]
    fn small_pickles_cannot_fill_the_memory() {
        // A text of 4 GiB in 6 bytes.
        let error = read(b"\x80\x02]X\xff\xff\xff\xffa.").unwrap_err();
        assert!(error.contains("records of at most 64 MiB"), "{error}");
        // Lists of ten times the previous one, fifty times over: the first references are to a shared value, then the
        // nesting is too deep.
        let mut laughs = b"\x80\x02](".to_vec();
        for id in 0..50_u8 {
            laughs.extend(b"](");
            if id > 0 {
                laughs.extend([b'h', id - 1].repeat(10));
            }
            laughs.extend([b'e', b'q', id]);
            // Completed by a tuple, which is not used.
            laughs.extend(b"\x85");
        }
        let error = read(&laughs).unwrap_err();
        assert!(error.contains("found"), "{error}");
        // Lists in lists.
        let mut deep = b"\x80\x02]".to_vec();
        deep.extend(b"]".repeat(1_000_000));
        deep.extend(b"a".repeat(1_000_000));
        deep.push(b'.');
        assert!(read(&deep).unwrap_err().contains("nested over 8 deep"));
        // A list in itself.
        let error = read(b"\x80\x02](]q\x00h\x00ae.").unwrap_err();
        assert!(error.contains("a list that contains itself"), "{error}");
        // A shared text of a megabyte, a hundred thousand times in one row.
        let mut shared = b"\x80\x02](}X\x01\x00\x00\x00b](X\x00\x00\x10\x00".to_vec();
        shared.extend(vec![b'x'; 1 << 20]);
        shared.extend(b"q\x00");
        shared.extend(b"h\x00".repeat(100_000));
        shared.extend(b"ese.");
        let error = read(&shared).unwrap_err();
        assert!(error.contains("at most 64 MiB"), "{error}");
    }

    #[test]
    fn garbage_is_refused() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2_000 {
            let mut bytes = DUMP2.to_vec();
            for _ in 0..3 {
                let offset = random.usize(..bytes.len());
                bytes[offset] = random.u8(..);
            }
            // The result does not matter, as long as there is one.
            let _ = read(&bytes);
        }
        assert!(read(b"\x80\x02}.").unwrap_err().contains("expected a list"));
        assert!(read(b"\x80\x02](K\x01e.").unwrap_err().contains("f.pkl: record 1: expected a dictionary"));
    }
}
