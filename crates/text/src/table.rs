//! Tables as text.

use std::cmp::Ordering;

use memchr::{memchr, memrchr};

/// The value of a key in a table: lines of a key, a tab and a value, in the order of the bytes of the keys.
pub fn find_in_table<'a>(table: &'a str, key: &str) -> Option<&'a str> {
    let (mut from, mut to) = (0, table.len());
    while from < to {
        let middle = usize::midpoint(from, to);
        let start = memrchr(b'\n', &table.as_bytes()[from..middle]).map_or(from, |end| from + end + 1);
        let end = memchr(b'\n', &table.as_bytes()[middle..to]).map_or(to, |end| middle + end);
        let (found, value) = table[start..end].split_once('\t')?;
        match found.cmp(key) {
            Ordering::Equal => return Some(value),
            Ordering::Less => from = end + 1,
            Ordering::Greater => to = start,
        }
    }
    None
}
