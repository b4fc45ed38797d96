//! The pages of a column, decompressed within limits that do not depend on sizes stated in the file.

use super::thrift::Compact;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum size of a page in bytes, compressed or not. Writers end a page at about 1 MiB.
const MAX_PAGE_BYTES: usize = 256 << 20;
/// Maximum size of a dictionary in bytes, which takes ten times as much when decoded. Writers end it at about 1 MiB.
const MAX_DICTIONARY_BYTES: usize = 16 << 20;

/// Maximum number of list values decoded at a time.
pub(super) const MAX_LIST_VALUES: usize = 8 << 20;

/// Reads the pages of one column of one row group.
pub(super) struct Pages {
    file: Arc<File>,
    position: u64,
    end: u64,
    codec: Compression,
    has_definitions: bool,
    has_repetitions: bool,
    has_dictionary: bool,
    /// Number of values that may still be decoded, because pages of many short lists could contain any number.
    pub(super) budget: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Header {
    kind: i64,
    unpacked: usize,
    packed: usize,
    n_values: u32,
    encoding: i64,
    levels: [i64; 2],
    n_nulls: u32,
    n_rows: u32,
    levels_length: [u32; 2],
    is_compressed: bool,
}

fn wrong(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

impl Header {
    fn read(reader: impl Read) -> std::io::Result<Self> {
        let mut header = Self { is_compressed: true, ..Self::default() };
        let size = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        Compact(reader).structure(&mut |reader, field, _| {
            match field {
                1 => header.kind = reader.integer()?,
                2 => header.unpacked = size(reader.integer()?),
                3 => header.packed = size(reader.integer()?),
                // The header for the kind of page: data, dictionary, data of the second version.
                5 | 7 | 8 => reader.structure(&mut |reader, inner, kind| {
                    match (field, inner) {
                        (_, 1) => header.n_values = count(reader.integer()?),
                        (5 | 7, 2) | (8, 4) => header.encoding = reader.integer()?,
                        (5, 3) => header.levels[0] = reader.integer()?,
                        (5, 4) => header.levels[1] = reader.integer()?,
                        (8, 2) => header.n_nulls = count(reader.integer()?),
                        (8, 3) => header.n_rows = count(reader.integer()?),
                        (8, 5) => header.levels_length[0] = count(reader.integer()?),
                        (8, 6) => header.levels_length[1] = count(reader.integer()?),
                        // A boolean is encoded in its type.
                        (8, 7) => header.is_compressed = kind == 1,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(header)
    }
}

/// The encodings whose decoders allocate no more than they are asked to decode.
fn encoding(number: i64) -> Result<Encoding> {
    match number {
        0 => Ok(Encoding::PLAIN),
        2 => Ok(Encoding::PLAIN_DICTIONARY),
        3 => Ok(Encoding::RLE),
        5 => Ok(Encoding::DELTA_BINARY_PACKED),
        8 => Ok(Encoding::RLE_DICTIONARY),
        _ => Err(wrong(format!("values of the encoding {number}, which is not supported"))),
    }
}

/// The encoding of levels; without levels, files may state any encoding.
fn level_encoding(number: i64, has_levels: bool) -> Result<Encoding> {
    if has_levels { encoding(number) } else { Ok(Encoding::RLE) }
}

impl Pages {
    pub(super) fn new(file: &Arc<File>, column: &ColumnChunkMetaData) -> Result<Self> {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let (Ok(position), Ok(length)) = (u64::try_from(start), u64::try_from(column.compressed_size()))
        else {
            return Err(wrong("a column that begins before the file"));
        };
        let descriptor = column.column_descr();
        Ok(Self {
            file: Arc::clone(file),
            position,
            end: position.saturating_add(length),
            codec: column.compression(),
            has_definitions: descriptor.max_def_level() > 0,
            has_repetitions: descriptor.max_rep_level() > 0,
            has_dictionary: false,
            budget: Arc::new(AtomicUsize::new(MAX_LIST_VALUES)),
        })
    }

    /// The header of the next page, and its raw bytes.
    fn next_packed(&mut self) -> Result<(Header, Vec<u8>)> {
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.position))?;
        let length = self.end - self.position;
        let mut reader = BufReader::new(file.take(length));
        let header = Header::read(&mut reader)?;
        let in_header = length - reader.get_ref().limit() - reader.buffer().len() as u64;
        if header.packed.max(header.unpacked) > MAX_PAGE_BYTES {
            return Err(wrong(format!("a page of more than {} MiB", MAX_PAGE_BYTES >> 20)));
        }
        let mut packed = Vec::new();
        reader.take(header.packed as u64).read_to_end(&mut packed)?;
        if packed.len() < header.packed {
            return Err(wrong("the end of a column within a page"));
        }
        self.position += in_header + packed.len() as u64;
        Ok((header, packed))
    }

    fn unpack(&self, packed: &[u8], size: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One more than allowed, to detect an excess.
        let limit = size as u64 + 1;
        match self.codec {
            Compression::UNCOMPRESSED => bytes.extend_from_slice(packed),
            Compression::SNAPPY => {
                if snap::raw::decompress_len(packed).map_err(|error| wrong(error.to_string()))? == size {
                    let unpacked = snap::raw::Decoder::new().decompress_vec(packed);
                    bytes = unpacked.map_err(|error| wrong(error.to_string()))?;
                }
            }
            Compression::GZIP(_) => {
                let _ = flate2::read::MultiGzDecoder::new(packed).take(limit).read_to_end(&mut bytes)?;
            }
            Compression::ZSTD(_) => {
                let _ = zstd::stream::read::Decoder::new(packed)?.take(limit).read_to_end(&mut bytes)?;
            }
            other => return Err(wrong(format!("pages compressed by {other}, which is not supported"))),
        }
        if bytes.len() == size { Ok(bytes) } else { Err(wrong("a page whose size differs from its header")) }
    }

    fn page(&mut self) -> Result<Option<Page>> {
        while self.position < self.end {
            let (header, packed) = self.next_packed()?;
            let buf = |bytes: Vec<u8>| bytes.into();
            return match header.kind {
                0 | 3 if self.has_repetitions && !self.spend(header.n_values) => {
                    Err(wrong(format!("lists of more than {MAX_LIST_VALUES} values")))
                }
                0 | 3 if matches!(header.encoding, 2 | 8) && !self.has_dictionary => {
                    Err(wrong("values of a dictionary, but no dictionary"))
                }
                0 => Ok(Some(Page::DataPage {
                    buf: buf(self.with_levels(self.unpack(&packed, header.unpacked)?)?),
                    num_values: header.n_values,
                    encoding: encoding(header.encoding)?,
                    def_level_encoding: level_encoding(header.levels[0], self.has_definitions)?,
                    rep_level_encoding: level_encoding(header.levels[1], self.has_repetitions)?,
                    statistics: None,
                })),
                2 => {
                    let bytes = self.unpack(&packed, header.unpacked)?;
                    // The smallest values, numbers and empty texts, take four bytes.
                    if bytes.len() > MAX_DICTIONARY_BYTES || header.n_values as usize > bytes.len() / 4 {
                        return Err(wrong("a dictionary of more values than it has room for"));
                    }
                    let (num_values, encoding) = (header.n_values, encoding(header.encoding)?);
                    self.has_dictionary = true;
                    Ok(Some(Page::DictionaryPage { buf: buf(bytes), num_values, encoding, is_sorted: false }))
                }
                3 => self.second_version(&header, &packed).map(Some),
                // An index of pages, or additions of later versions.
                _ => continue,
            };
        }
        Ok(None)
    }

    /// A data page of the first version, whose levels must have the stated length.
    fn with_levels(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut rest = bytes.as_slice();
        for has_levels in [self.has_repetitions, self.has_definitions] {
            if has_levels {
                let split = rest.split_first_chunk::<4>();
                let cut = |(length, rest): (&[u8; 4], _)| {
                    <[u8]>::split_at_checked(rest, u32::from_le_bytes(*length) as usize)
                };
                rest = split.and_then(cut).ok_or_else(|| wrong("a page shorter than its levels"))?.1;
            }
        }
        Ok(bytes)
    }

    /// A data page of the second version: levels, which are never compressed, before values.
    fn second_version(&self, header: &Header, packed: &[u8]) -> Result<Page> {
        let [definitions, repetitions] = header.levels_length;
        let in_levels = definitions as usize + repetitions as usize;
        let (Some((levels, values)), Some(size)) =
            (packed.split_at_checked(in_levels), header.unpacked.checked_sub(in_levels))
        else {
            return Err(wrong("a page shorter than its levels"));
        };
        let mut bytes = levels.to_vec();
        match header.is_compressed && size > 0 {
            true => bytes.extend(self.unpack(values, size)?),
            false => bytes.extend_from_slice(values),
        }
        Ok(Page::DataPageV2 {
            buf: bytes.into(),
            num_values: header.n_values,
            encoding: encoding(header.encoding)?,
            num_nulls: header.n_nulls,
            num_rows: header.n_rows,
            def_levels_byte_len: definitions,
            rep_levels_byte_len: repetitions,
            is_compressed: false,
            statistics: None,
        })
    }

    fn spend(&self, n_values: u32) -> bool {
        let spend = |left: usize| left.checked_sub(n_values as usize);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.page()
    }

    /// Without an index of pages, nothing is known about the next one.
    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(wrong("pages are read one after the other"))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.next_packed().map(drop)
    }

    /// A record may continue in the next page, except in the last one.
    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(self.position >= self.end)
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.page().transpose()
    }
}
