//! The part of Thrift's compact protocol that page headers use, and a walk over any other structure.
//!
//! The `parquet` crate reads these too, but allocates as much as a damaged header claims, and recurses as deeply as a
//! schema claims; neither failure can be caught. Here nothing is allocated in advance, and nesting is limited.

use std::io::{self, Read};

/// Maximum nesting of structures, and of a schema.
const MAX_DEPTH: usize = 32;
/// Maximum number of columns and groups of a schema.
const MAX_SCHEMA: usize = 10_000;

/// Types of values.
const TRUE: u8 = 1;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) struct Compact<R>(pub(super) R);

impl<R: Read> Compact<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong("a number of more than 64 bits"))
    }

    pub(super) fn integer(&mut self) -> io::Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Type and number of the elements of a list.
    fn list(&mut self) -> io::Result<(u8, u64)> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        Ok((head & 15, size))
    }

    /// Calls `each` with the number and type of every field of a structure. It returns whether it consumed the value,
    /// which is skipped otherwise.
    pub(super) fn structure(
        &mut self,
        each: &mut dyn FnMut(&mut Self, i64, u8) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.nested_structure(each, 0)
    }

    fn nested_structure(
        &mut self,
        each: &mut dyn FnMut(&mut Self, i64, u8) -> io::Result<bool>,
        depth: usize,
    ) -> io::Result<()> {
        let mut field = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            field = match head >> 4 {
                0 => self.integer()?,
                step => field.saturating_add(i64::from(step)),
            };
            if !each(self, field, head & 15)? {
                self.skip(head & 15, depth + 1)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(wrong("structures nested without end"));
        }
        match kind {
            // The value of a boolean field is in its type; list elements take a byte, see below.
            TRUE..BYTE => {}
            BYTE => drop(self.byte()?),
            4..DOUBLE => drop(self.varint()?),
            DOUBLE => self.0.read_exact(&mut [0; 8])?,
            BINARY => {
                let length = self.varint()?;
                if io::copy(&mut self.0.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            LIST | SET => {
                let (element, size) = self.list()?;
                for _ in 0..size {
                    self.skip(if element < BYTE { BYTE } else { element }, depth + 1)?;
                }
            }
            MAP => {
                let size = self.varint()?;
                let kinds = if size == 0 { 0 } else { self.byte()? };
                for _ in 0..size {
                    for kind in [kinds >> 4, kinds & 15] {
                        self.skip(if kind < BYTE { BYTE } else { kind }, depth + 1)?;
                    }
                }
            }
            STRUCT => self.nested_structure(&mut |_, _, _| Ok(false), depth)?,
            _ => return Err(wrong("a value of an unknown type")),
        }
        Ok(())
    }
}

/// Checks that the metadata of a file are complete, and that their schema can safely be traversed recursively.
pub(super) fn check_metadata(bytes: &[u8]) -> io::Result<()> {
    const SCHEMA: i64 = 2;
    const N_CHILDREN: i64 = 5;
    Compact(bytes).structure(&mut |metadata, field, kind| {
        if (field, kind) != (SCHEMA, LIST) {
            return Ok(false);
        }
        let (element, size) = metadata.list()?;
        if element != STRUCT || size > MAX_SCHEMA as u64 {
            return Err(wrong("a schema with too many columns"));
        }
        // The number of remaining children of each enclosing group.
        let mut open: Vec<i64> = Vec::new();
        for _ in 0..size {
            let mut n_children = 0;
            metadata.structure(&mut |element, field, kind| {
                let is_count = field == N_CHILDREN && (BYTE + 1..DOUBLE).contains(&kind);
                if is_count {
                    n_children = element.integer()?;
                }
                Ok(is_count)
            })?;
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if n_children < 0 || n_children > MAX_SCHEMA as i64 || open.len() >= MAX_DEPTH {
                return Err(wrong("a schema with too many columns, or too deep"));
            }
            if n_children > 0 {
                open.push(n_children);
            }
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of a file whose schema elements have these numbers of children.
    fn schema(children: &[u8]) -> Vec<u8> {
        let elements = children.iter().flat_map(|n| [0x55, n << 1, 0]);
        [0x29, 0xfc].into_iter().chain([children.len() as u8]).chain(elements).chain([0]).collect()
    }

    #[test]
    fn schemas_that_are_deep_or_cut_off_are_refused() {
        assert!(check_metadata(&schema(&[3, 0, 1, 0, 0])).is_ok());
        assert!(check_metadata(&schema(&[1; 100])).is_err());
        let whole = schema(&[2, 0, 0]);
        for end in 0..whole.len() {
            assert!(check_metadata(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn claims_take_no_memory_and_nesting_ends() {
        // A text, a list and a map of 2^63 elements.
        let size = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        for head in [&[0x18][..], &[0x19, 0xf3], &[0x1b]] {
            let bytes: Vec<u8> = head.iter().chain(&size).copied().collect();
            assert!(Compact(&bytes[..]).structure(&mut |_, _, _| Ok(false)).is_err());
        }
        assert!(Compact(&[0x1c; 10_000][..]).structure(&mut |_, _, _| Ok(false)).is_err());
        assert!(Compact(&[0x19; 10_000][..]).structure(&mut |_, _, _| Ok(false)).is_err());
    }
}
