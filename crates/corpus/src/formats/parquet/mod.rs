//! Parquet files, as on Hugging Face: reads the columns that a format has fields for, in batches of rows.
//!
//! The `parquet` crate reads the schema and decodes values. It does not validate untrusted files enough, so the
//! metadata are checked first ([`thrift`]), and the pages are read and decompressed here ([`pages`]): no page, list
//! or dictionary can use more memory than its limit. If a damaged page still makes a decoder panic, the row is
//! rejected, and the decoder is not used again.

mod pages;
mod thrift;
mod write;

pub(super) use write::TableWriter;

use super::row::Value;
use super::text::{Line, MAX_RECORD_BYTES};
use super::{Field, FormatError};
use pages::{MAX_LIST_VALUES, Pages};
use parquet::basic::Repetition;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use quarry_files::without_panic;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const MAGIC: &[u8; 4] = b"PAR1";
/// Maximum size of the metadata in bytes: some thousand row groups of some ten columns.
const MAX_METADATA_BYTES: u64 = 16 << 20;
const ROWS: usize = 256;

type TakeValues<'t> =
    dyn FnMut(Line<'_>, Result<Vec<Value<'_>>, FormatError>) -> Result<(), FormatError> + 't;

/// Calls `each` with the values of `fields` of every row. Row numbers are 1-based. A nested column, other than a list
/// of plain values, is not a valid value of a field.
pub(super) fn for_each_row(
    path: &Path,
    fields: &[Field],
    each: &mut TakeValues<'_>,
) -> Result<(), FormatError> {
    let mut number = 1;
    let line_at = |number| Line { path, number, counts_records: true, text: "" };
    let damaged = |number, error: &ParquetError| {
        let what = match error {
            ParquetError::General(what) | ParquetError::EOF(what) | ParquetError::NYI(what) => what.clone(),
            other => other.to_string(),
        };
        line_at(number).error(
            "a complete Parquet file, uncompressed or compressed by Snappy, gzip or Zstandard",
            what,
            "download the file again, or rewrite it with pandas: read_parquet(...).to_parquet(...)",
        )
    };
    let mut file = quarry_files::open_regular(path)
        .map_err(|source| FormatError::Read { path: path.to_owned(), source })?;
    let metadata = guarded(|| metadata(&mut file)).map_err(|error| damaged(1, &error))?;
    let file = Arc::new(file);
    let columns = Columns::new(&metadata, fields);
    if let Some(missing) = columns.missing(fields) {
        let names: Vec<String> =
            metadata.file_metadata().schema().get_fields().iter().map(|f| f.name().into()).collect();
        return Err(line_at(1).error(
            format!("a column `{}` ({}: {})", missing.name, missing.kind.name(), missing.about),
            format!("the columns {}", super::excerpt(&names.join(", "))),
            "check that this is the right file",
        ));
    }
    for group in metadata.row_groups() {
        let mut readers = guarded(|| columns.open(&file, group)).map_err(|error| damaged(number, &error))?;
        let mut left = usize::try_from(group.num_rows()).unwrap_or_default();
        while left > 0 {
            let count = left.min(ROWS);
            guarded(|| readers.iter_mut().flatten().try_for_each(|reader| reader.read(count)))
                .map_err(|error| damaged(number, &error))?;
            let mut cursors = vec![Cursor::default(); fields.len()];
            for _ in 0..count {
                let values = readers
                    .iter()
                    .zip(&columns.0)
                    .zip(&mut cursors)
                    .map(|((reader, column), cursor)| match (reader, column) {
                        (Some(reader), _) => reader.value(cursor),
                        (None, Column::Nested) => Value::Other("a nested column"),
                        (None, _) => Value::Absent,
                    })
                    .collect();
                each(line_at(number), Ok(values))?;
                number += 1;
            }
            left -= count;
        }
    }
    Ok(())
}

/// Runs the decoder, and catches panics, which inconsistent pages can cause.
fn guarded<T>(decode: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    without_panic(decode).unwrap_or_else(|| Err(ParquetError::General("inconsistent pages".into())))
}

fn metadata(file: &mut File) -> ParquetResult<ParquetMetaData> {
    let general = |what: &str| ParquetError::General(what.into());
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = [0; 8];
    let before = length.checked_sub(8).ok_or_else(|| general("no metadata at its end"))?;
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut end)?;
    let (size, magic) = (u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]])), &end[4..]);
    if magic != MAGIC || size > before {
        return Err(general("no metadata at its end"));
    }
    if size > MAX_METADATA_BYTES {
        return Err(general("more than 16 MiB of metadata"));
    }
    file.seek(SeekFrom::Start(before - size))?;
    let mut bytes = vec![0; size as usize];
    file.read_exact(&mut bytes)?;
    thrift::check_metadata(&bytes)?;
    ParquetMetaDataReader::decode_metadata(&bytes)
}

enum Column {
    Absent,
    Nested,
    /// Index of the column, of plain values or lists of them.
    Leaf(usize),
}

struct Columns(Vec<Column>);

impl Columns {
    fn new(metadata: &ParquetMetaData, fields: &[Field]) -> Self {
        let columns = metadata.file_metadata().schema_descr().columns();
        let of_field = |field: &Field| {
            let mut own = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.path().parts().first().is_some_and(|name| name == field.name));
            match (own.next(), own.next()) {
                (None, _) => Column::Absent,
                (Some((number, column)), None) => {
                    let plain = column.max_rep_level() == 0 && column.path().parts().len() == 1;
                    let list = column.max_rep_level() == 1 && column.path().parts().len() <= 3;
                    if plain || list { Column::Leaf(number) } else { Column::Nested }
                }
                (Some(_), Some(_)) => Column::Nested,
            }
        };
        Self(fields.iter().map(of_field).collect())
    }

    /// A required field for which this file has no column.
    fn missing<'f>(&self, fields: &'f [Field]) -> Option<&'f Field> {
        let mut both = fields.iter().zip(&self.0);
        both.find(|(field, column)| field.required && matches!(column, Column::Absent))
            .map(|(field, _)| field)
    }

    fn open(&self, file: &Arc<File>, group: &RowGroupMetaData) -> ParquetResult<Vec<Option<Reader>>> {
        let open = |column: &Column| match column {
            Column::Leaf(number) => {
                let chunk = group.columns().get(*number);
                let chunk =
                    chunk.ok_or_else(|| ParquetError::General("a row group without a column".into()))?;
                Reader::new(file, chunk).map(Some)
            }
            Column::Absent | Column::Nested => Ok(None),
        };
        self.0.iter().map(open).collect()
    }
}

struct Reader {
    decoder: ColumnReader,
    max_definition: i16,
    max_repetition: i16,
    /// Minimum definition level at which a list has an element, possibly a missing one.
    in_list: i16,
    budget: Arc<AtomicUsize>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Values,
}

/// Present values. Texts share the memory of their page.
enum Values {
    Texts(Vec<ByteArray>),
    Others(Vec<Value<'static>>),
}

/// The position of row-wise reading in levels and values.
#[derive(Clone, Copy, Default)]
struct Cursor {
    level: usize,
    value: usize,
}

impl Reader {
    fn new(file: &Arc<File>, chunk: &parquet::file::metadata::ColumnChunkMetaData) -> ParquetResult<Self> {
        let column = chunk.column_descr_ptr();
        let (max_definition, max_repetition) = (column.max_def_level(), column.max_rep_level());
        let is_optional = column.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
        let pages = Pages::new(file, chunk)?;
        let budget = Arc::clone(&pages.budget);
        Ok(Self {
            decoder: get_column_reader(column, Box::new(pages)),
            max_definition,
            max_repetition,
            in_list: max_definition - i16::from(is_optional),
            budget,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Values::Others(Vec::new()),
        })
    }

    /// Decodes the next `count` rows.
    fn read(&mut self, count: usize) -> ParquetResult<()> {
        fn read<T: DataType>(
            decoder: &mut ColumnReaderImpl<T>,
            count: usize,
            definitions: &mut Vec<i16>,
            repetitions: &mut Vec<i16>,
        ) -> ParquetResult<Vec<T::T>> {
            let mut values = Vec::new();
            definitions.clear();
            repetitions.clear();
            let (n_rows, ..) =
                decoder.read_records(count, Some(definitions), Some(repetitions), &mut values)?;
            if n_rows == count {
                return Ok(values);
            }
            Err(ParquetError::General("a column with fewer values than rows".into()))
        }
        self.budget.store(MAX_LIST_VALUES, Ordering::Relaxed);
        let (definitions, repetitions) = (&mut self.definitions, &mut self.repetitions);
        macro_rules! values {
            ($decoder:expr, $value:expr) => {
                Values::Others(
                    read($decoder, count, definitions, repetitions)?.into_iter().map($value).collect(),
                )
            };
        }
        self.values = match &mut self.decoder {
            ColumnReader::ByteArrayColumnReader(decoder) => {
                let texts = read(decoder, count, definitions, repetitions)?;
                // These stand for indices that are missing in a dictionary.
                if texts.contains(&ByteArray::new()) {
                    return Err(ParquetError::General(
                        "a dictionary with fewer values than it declares".into(),
                    ));
                }
                Values::Texts(texts)
            }
            ColumnReader::Int32ColumnReader(decoder) => values!(decoder, |n| Value::Whole(n.into())),
            ColumnReader::Int64ColumnReader(decoder) => values!(decoder, Value::Whole),
            ColumnReader::FloatColumnReader(decoder) => values!(decoder, |n| Value::from(f64::from(n))),
            ColumnReader::DoubleColumnReader(decoder) => values!(decoder, Value::from),
            ColumnReader::BoolColumnReader(decoder) => values!(decoder, |_| Value::Other("true or false")),
            ColumnReader::Int96ColumnReader(decoder) => values!(decoder, |_| Value::Other("a time")),
            ColumnReader::FixedLenByteArrayColumnReader(decoder) => {
                values!(decoder, |_| Value::Other("bytes"))
            }
        };
        Ok(())
    }

    fn value(&self, cursor: &mut Cursor) -> Value<'_> {
        if self.max_repetition == 0 {
            return self.level(cursor).unwrap_or(Value::Absent);
        }
        let first = self.definitions.get(cursor.level).copied().unwrap_or_default();
        let (mut texts, mut length, mut other) = (Vec::new(), 0, false);
        loop {
            let is_element = self.definitions.get(cursor.level).is_some_and(|level| *level >= self.in_list);
            match self.level(cursor) {
                Some(Value::Text(text)) if length <= MAX_RECORD_BYTES => {
                    length += text.len();
                    texts.push(text.into_owned());
                }
                Some(Value::Whole(number)) => texts.push(number.to_string()),
                Some(_) => other = true,
                None => other |= is_element,
            }
            // A list begins at repetition level 0.
            if self.repetitions.get(cursor.level).is_none_or(|level| *level == 0) {
                break;
            }
        }
        match (first == 0 && self.in_list > 0 && texts.is_empty(), other) {
            (true, _) => Value::Absent,
            (_, true) => Value::Other("a list that holds something other than texts, or more than 64 MiB"),
            (_, false) => Value::List(texts),
        }
    }

    /// The value at the next level; `None` if there is none.
    fn level(&self, cursor: &mut Cursor) -> Option<Value<'_>> {
        let is_there = self.max_definition == 0
            || self.definitions.get(cursor.level).is_some_and(|level| *level == self.max_definition);
        cursor.level += 1;
        if !is_there {
            return None;
        }
        cursor.value += 1;
        match &self.values {
            Values::Others(values) => values.get(cursor.value - 1).cloned(),
            Values::Texts(texts) => {
                texts.get(cursor.value - 1).map(|bytes| match std::str::from_utf8(bytes.data()) {
                    Ok(text) => Value::Text(text.into()),
                    Err(_) => Value::Other("bytes that are not UTF-8"),
                })
            }
        }
    }
}
