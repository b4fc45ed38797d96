//! Looks through the pickles of a PyTorch checkpoint before candle reads them.
//!
//! candle makes a tree of the values of a pickle, copies a value whenever the file refers to it again, and drops the
//! tree by recursion: a small file can overflow the stack or fill the memory. The instructions that candle knows are
//! executed here on the depths and sizes of values alone.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::reader::guarded;
use super::weights::DAMAGED;
use quarry_embed::EmbedError;
use zip::ZipArchive;

/// Maximum size of a pickle in bytes. Those of checkpoints hold names and shapes; the weights are beside them.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum memory of all values that candle makes of a pickle.
const MAX_MEMORY: usize = 1 << 30;
/// Memory of a value in addition to its text.
const VALUE_BYTES: usize = 64;
/// Maximum nesting of values. Those of a dictionary of tensors are nested 5 deep.
const MAX_DEPTH: usize = 100;

/// Checks the pickles of a checkpoint.
///
/// # Errors
/// When the file is damaged, or its values are nested too deep or take too much memory.
pub(crate) fn check(path: &Path) -> Result<(), EmbedError> {
    for pickle in guarded(path, DAMAGED, || pickles(path))? {
        scan(&pickle).map_err(|problem| EmbedError::model(path, problem))?;
    }
    Ok(())
}

/// The contents of the files that candle reads as pickles.
fn pickles(path: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let names = archive
        .file_names()
        .map(|name| name.map(std::borrow::Cow::into_owned))
        .collect::<Result<Vec<String>, _>>()?;
    let mut pickles = Vec::new();
    for name in names.iter().filter(|name| name.ends_with("data.pkl")) {
        let mut pickle = Vec::new();
        archive.by_name(name)?.take(MAX_BYTES + 1).read_to_end(&mut pickle)?;
        pickles.push(pickle);
    }
    Ok(pickles)
}

/// Fields of a value that candle needs.
#[derive(Debug, Clone, Copy)]
struct Value {
    depth: usize,
    memory: usize,
    is_mark: bool,
}

struct Machine<'b> {
    rest: &'b [u8],
    stack: Vec<Value>,
    memo: HashMap<u32, Value>,
    memory: usize,
}

fn scan(pickle: &[u8]) -> Result<(), String> {
    if pickle.len() as u64 > MAX_BYTES {
        return Err(format!(
            "contains a pickle over {} MiB; convert it to safetensors with PyTorch, if you trust the file",
            MAX_BYTES >> 20
        ));
    }
    Machine { rest: pickle, stack: Vec::new(), memo: HashMap::new(), memory: 0 }.run()
}

impl Machine<'_> {
    fn run(mut self) -> Result<(), String> {
        loop {
            let [code] = self.bytes()?;
            match code {
                // PROTO
                0x80 => drop(self.bytes::<1>()?),
                b'c' => {
                    let length = self.line()? + self.line()?;
                    self.push(Value { depth: 0, memory: length, is_mark: false }, 0)?;
                }
                b'K' => self.number::<1>()?,
                b'M' => self.number::<2>()?,
                b'J' => self.number::<4>()?,
                b'G' => self.number::<8>()?,
                0x8a => {
                    let [length] = self.bytes()?;
                    self.skip(length.into())?;
                    self.push_empty()?;
                }
                b'X' => {
                    let length = u32::from_le_bytes(self.bytes()?) as usize;
                    self.skip(length)?;
                    self.push(Value { depth: 0, memory: length, is_mark: false }, 0)?;
                }
                // NONE, NEWTRUE, NEWFALSE, EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT, and DICT, which candle takes for it.
                b'N' | 0x88 | 0x89 | b')' | b']' | b'}' | b'd' => self.push_empty()?,
                b'(' => self.push(Value { depth: 0, memory: 0, is_mark: true }, 0)?,
                b't' => {
                    let items = self.pop_mark()?;
                    self.push(items, 1)?;
                }
                // BINPERSID, TUPLE1; REDUCE, BUILD, NEWOBJ, TUPLE2; TUPLE3
                b'Q' | 0x85 => self.wrap(1)?,
                b'R' | b'b' | 0x81 | 0x86 => self.wrap(2)?,
                0x87 => self.wrap(3)?,
                b'a' => self.grow(1)?,
                b's' => self.grow(2)?,
                b'e' | b'u' => {
                    let items = self.pop_mark()?;
                    self.add(items)?;
                }
                b'q' => {
                    let [id] = self.bytes()?;
                    self.memoize(id.into())?;
                }
                b'r' => {
                    let id = self.bytes()?;
                    self.memoize(u32::from_le_bytes(id))?;
                }
                b'h' => {
                    let [id] = self.bytes()?;
                    self.recall(id.into())?;
                }
                b'j' => {
                    let id = self.bytes()?;
                    self.recall(u32::from_le_bytes(id))?;
                }
                b'.' => return Ok(()),
                _ => return Err(DAMAGED.to_owned()),
            }
        }
    }

    fn skip(&mut self, n: usize) -> Result<(), String> {
        self.rest = self.rest.get(n..).ok_or(DAMAGED)?;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DAMAGED)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Length of the line that is skipped.
    fn line(&mut self) -> Result<usize, String> {
        let length = self.rest.iter().position(|byte| *byte == b'\n').ok_or(DAMAGED)?;
        self.skip(length + 1)?;
        Ok(length)
    }

    fn number<const N: usize>(&mut self) -> Result<(), String> {
        self.bytes::<N>()?;
        self.push_empty()
    }

    fn push_empty(&mut self) -> Result<(), String> {
        self.push(Value { depth: 0, memory: 0, is_mark: false }, 0)
    }

    /// Pushes a new value, around the values of which `inner` is the sum if `levels` is 1.
    fn push(&mut self, inner: Value, levels: usize) -> Result<(), String> {
        let value = Value { depth: inner.depth + levels, memory: inner.memory + VALUE_BYTES, ..inner };
        self.charge(if levels == 0 { value.memory } else { VALUE_BYTES })?;
        self.stack.push(value);
        self.check_depth(value)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory <= MAX_MEMORY {
            return Ok(());
        }
        Err(format!(
            "contains a pickle whose values take over {} GiB, expected names and shapes of tensors; convert it to \
             safetensors with PyTorch, if you trust the file",
            MAX_MEMORY >> 30
        ))
    }

    fn check_depth(&self, value: Value) -> Result<(), String> {
        if value.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(format!(
            "contains a pickle whose values are nested over {MAX_DEPTH} deep, expected a dictionary of tensors; convert it \
             to safetensors with PyTorch, if you trust the file"
        ))
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| DAMAGED.to_owned())
    }

    /// The sum of the values above the last mark, which are removed with it.
    fn pop_mark(&mut self) -> Result<Value, String> {
        let mark = self.stack.iter().rposition(|value| value.is_mark).ok_or(DAMAGED)?;
        let items = sum(self.stack.drain(mark..).skip(1));
        Ok(items)
    }

    /// Replaces the last `n` values by one around them.
    fn wrap(&mut self, n: usize) -> Result<(), String> {
        let items = (0..n).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        self.push(sum(items.into_iter()), 1)
    }

    /// Moves the last `n` values into the one before them.
    fn grow(&mut self, n: usize) -> Result<(), String> {
        let items = (0..n).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        self.add(sum(items.into_iter()))
    }

    fn add(&mut self, items: Value) -> Result<(), String> {
        let container = self.stack.last_mut().ok_or(DAMAGED)?;
        container.depth = container.depth.max(items.depth + 1);
        container.memory = container.memory.saturating_add(items.memory);
        let container = *container;
        self.check_depth(container)
    }

    fn memoize(&mut self, id: u32) -> Result<(), String> {
        let value = *self.stack.last().ok_or(DAMAGED)?;
        self.charge(value.memory)?;
        self.memo.insert(id, value);
        Ok(())
    }

    fn recall(&mut self, id: u32) -> Result<(), String> {
        let value = *self.memo.get(&id).ok_or(DAMAGED)?;
        self.charge(value.memory)?;
        self.stack.push(value);
        Ok(())
    }
}

/// The maximum depth and the total memory of values.
fn sum(values: impl Iterator<Item = Value>) -> Value {
    values.fold(Value { depth: 0, memory: 0, is_mark: false }, |sum, value| Value {
        depth: sum.depth.max(value.depth),
        memory: sum.memory.saturating_add(value.memory),
        is_mark: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_of_tensors_passes() {
        // {"a": torch._utils._rebuild_tensor_v2(("storage", torch.FloatStorage, "0", "cpu", 2), 0, (2,), (1,), False,
        // collections.OrderedDict())}, as PyTorch writes it.
        let pickle = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\x00\x00\x00\
            storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpuq\x06K\x02tq\x07QK\x00K\
            \x02\x85q\x08K\x01\x85q\x09\x89ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0ds.";
        scan(pickle).unwrap();
        for length in 0..pickle.len() {
            assert!(scan(&pickle[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn deep_and_growing_values_are_refused() {
        let check = |pickle: &[u8], message: &str| {
            let error = scan(pickle).unwrap_err();
            assert!(error.contains(message), "{error}");
        };
        check(&[b"]".repeat(2_000_000), b"a".repeat(1_999_999), b".".to_vec()].concat(), "nested over 100");
        for wrap in [&b"\x85"[..], b"Q", b"N\x86", b"NR", b"Nb", b"N\x81", b"(Nt\x86"] {
            check(&[&b"N"[..], &wrap.repeat(200), b"."].concat(), "nested over 100");
        }
        // A list of two copies of the list before it, forty times.
        let doubled = b"q\x00](h\x00h\x00e".repeat(40);
        check(&[&b"]"[..], &doubled, b"."].concat(), "take over 1 GiB");
        check(b"X\xff\xff\xff\xffabc", "is not a complete checkpoint");
        check(b"\x00", "is not a complete checkpoint");
    }
}
