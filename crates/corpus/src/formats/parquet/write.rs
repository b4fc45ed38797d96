//! Writes a table: a column for each field of a format, uncompressed, in row groups.

use super::super::row::{Kind, Value};
use super::super::{Field, Format};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::sync::Arc;

/// Maximum size of text in bytes, and number of rows, buffered before a row group is written.
const GROUP_BYTES: usize = 32 << 20;
const GROUP_ROWS: usize = 100_000;

pub(crate) struct TableWriter {
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    n_rows: usize,
    n_bytes: usize,
}

/// Buffered values of a column with their definition levels, by which Parquet marks missing values.
enum Column {
    Text(Vec<ByteArray>, Vec<i16>),
    Whole(Vec<i64>, Vec<i16>),
    Real(Vec<f64>, Vec<i16>),
    /// List elements; the last field contains the repetition levels, 0 at the beginning of a list.
    List(Vec<ByteArray>, Vec<i16>, Vec<i16>),
}

/// Definition levels of a missing list, an empty list, and an element.
const NO_LIST: i16 = 0;
const EMPTY_LIST: i16 = 1;
const ELEMENT: i16 = 3;

impl TableWriter {
    pub(crate) fn new(file: File, format: &'static Format) -> ParquetResult<Self> {
        let fields = format.fields.iter().map(column_type).collect::<ParquetResult<_>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(WriterProperties::default()))?;
        let columns = format.fields.iter().map(|field| Column::new(field.kind)).collect();
        Ok(Self { writer, columns, n_rows: 0, n_bytes: 0 })
    }

    /// Adds a row with the values of the format's fields in order.
    pub(crate) fn push(&mut self, values: &[Value<'_>]) -> ParquetResult<()> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            self.n_bytes += column.push(value)?;
        }
        self.n_rows += 1;
        if self.n_rows >= GROUP_ROWS || self.n_bytes >= GROUP_BYTES { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> ParquetResult<()> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            column.write(writer.untyped())?;
            writer.close()?;
            column.clear();
        }
        group.close()?;
        (self.n_rows, self.n_bytes) = (0, 0);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> ParquetResult<File> {
        if self.n_rows > 0 {
            self.write_group()?;
        }
        self.writer.into_inner()
    }
}

fn column_type(field: &Field) -> ParquetResult<TypePtr> {
    let primitive = |name: &str, physical, logical| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    match field.kind {
        Kind::Text | Kind::Id => primitive(field.name, Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => primitive(field.name, Physical::INT64, None),
        Kind::Number => primitive(field.name, Physical::DOUBLE, None),
        // The layout with three levels that the Parquet specification requires of writers.
        Kind::Tokens | Kind::Ids => {
            let element = primitive("element", Physical::BYTE_ARRAY, Some(LogicalType::String))?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![element])
                .build()?;
            let column = Type::group_type_builder(field.name)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build()?;
            Ok(Arc::new(column))
        }
    }
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text | Kind::Id => Self::Text(Vec::new(), Vec::new()),
            Kind::Whole => Self::Whole(Vec::new(), Vec::new()),
            Kind::Number => Self::Real(Vec::new(), Vec::new()),
            Kind::Tokens | Kind::Ids => Self::List(Vec::new(), Vec::new(), Vec::new()),
        }
    }

    /// Adds a value; returns its approximate size in bytes.
    fn push(&mut self, value: &Value<'_>) -> ParquetResult<usize> {
        let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
        let there = i16::from(!matches!(value, Value::Absent | Value::Other(_)));
        match (self, value) {
            (Self::Text(_, levels) | Self::Whole(_, levels) | Self::Real(_, levels), _) if there == 0 => {
                levels.push(there);
                Ok(size_of::<i16>())
            }
            (Self::Text(texts, levels), value) => {
                let value = match value {
                    Value::Text(value) => text(value),
                    Value::Whole(number) => text(&number.to_string()),
                    Value::Real(number) => text(&number.to_string()),
                    Value::List(parts) => text(&parts.join(" ")),
                    Value::Absent | Value::Other(_) => return Ok(0),
                };
                let n_bytes = value.len();
                texts.push(value);
                levels.push(there);
                Ok(size_of::<ByteArray>() + n_bytes)
            }
            (Self::Whole(numbers, levels), Value::Whole(number)) => {
                numbers.push(*number);
                levels.push(there);
                Ok(size_of::<i64>())
            }
            (Self::Real(numbers, levels), Value::Whole(_) | Value::Real(_)) => {
                numbers.push(match value {
                    Value::Real(number) => *number,
                    Value::Whole(number) => *number as f64,
                    _ => 0.0,
                });
                levels.push(there);
                Ok(size_of::<f64>())
            }
            (Self::List(texts, levels, repeated), value) => {
                let before = texts.len();
                match value {
                    Value::List(parts) => texts.extend(parts.iter().map(|part| text(part))),
                    Value::Text(parts) => texts.extend(parts.split_whitespace().map(text)),
                    Value::Whole(number) => texts.push(text(&number.to_string())),
                    Value::Real(_) | Value::Absent | Value::Other(_) => {}
                }
                let new = &texts[before..];
                match new.len() {
                    0 => levels.push(if there == 0 { NO_LIST } else { EMPTY_LIST }),
                    n => levels.extend(std::iter::repeat_n(ELEMENT, n)),
                }
                repeated.push(0);
                repeated.extend(std::iter::repeat_n(1, new.len().saturating_sub(1)));
                Ok(new.iter().map(|part| size_of::<ByteArray>() + part.len()).sum())
            }
            (_, value) => Err(ParquetError::General(format!("{value:?} in a column of numbers"))),
        }
    }

    fn write(&self, writer: &mut ColumnWriter<'_>) -> ParquetResult<()> {
        match (self, writer) {
            (
                Self::Text(texts, levels) | Self::List(texts, levels, _),
                ColumnWriter::ByteArrayColumnWriter(writer),
            ) => {
                let repeated = if let Self::List(_, _, repeated) = self { Some(&repeated[..]) } else { None };
                writer.write_batch(texts, Some(levels), repeated)?;
            }
            (Self::Whole(numbers, levels), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(numbers, Some(levels), None)?;
            }
            (Self::Real(numbers, levels), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(numbers, Some(levels), None)?;
            }
            _ => return Err(ParquetError::General("a column whose type differs from its field".into())),
        }
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            Self::Text(texts, levels) => (texts.clear(), levels.clear()),
            Self::Whole(numbers, levels) => (numbers.clear(), levels.clear()),
            Self::Real(numbers, levels) => (numbers.clear(), levels.clear()),
            Self::List(texts, levels, repeated) => {
                repeated.clear();
                (texts.clear(), levels.clear())
            }
        };
    }
}
