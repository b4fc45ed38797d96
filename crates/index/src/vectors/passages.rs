//! Vectors of the passages that units are read in by a re-ranker: longer units have more of them.

use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, Vectors};
use quarry_files::Directory;
use xxhash_rust::xxh3::xxh3_64;

use super::quantize;
use crate::Error;
use crate::storage::column::{Column, LazyColumn};
use crate::storage::stored_file::{StoredFile, replace_file};
use crate::storage::table::PartSize;

/// Prefix of the names of the files of their vectors.
const PASSAGES: &str = "pieces-";

/// Maximum number of bytes of a unit's source that are read.
pub(crate) const MAX_BYTES: usize = 2000;

/// Maximum number of bytes of a passage: what the model of `--quality best` reads at once. A unit whose answer is at
/// its end is missed by a model that reads its beginning (`docs/reports/ranking.md`).
const PASSAGE_BYTES: usize = 400;

/// The passages of an [`embedding_text`](crate::embedding_text): lines of its source, each below its first line, which says
/// where they are. At least one.
pub(crate) fn passages(text: &str) -> Vec<String> {
    let (head, source) = text.split_at(text.find('\n').map_or(text.len(), |end| end + 1));
    let mut rest = &source[..source.floor_char_boundary(MAX_BYTES)];
    let mut passages = Vec::new();
    while passages.is_empty() || !rest.trim().is_empty() {
        let most = rest.floor_char_boundary(PASSAGE_BYTES);
        let last_line = rest[..most].rfind('\n').map(|end| end + 1);
        let (passage, after) =
            rest.split_at(if most < rest.len() { last_line.unwrap_or(most) } else { most });
        passages.push(format!("{head}{passage}"));
        rest = after;
    }
    passages
}

/// The vectors of the passages of texts, or of the tokens of a model that gives each of them one; the texts are given with a
/// key each.
pub(crate) fn embedded_passages(
    texts: &[(usize, String)],
    model: &dyn Embedder,
) -> Result<Vec<(usize, Vectors)>, EmbedError> {
    if let Some(model) = model.token_embedder() {
        let whole = |(_, text): &(usize, String)| text[..text.floor_char_boundary(MAX_BYTES)].to_owned();
        let whole: Vec<String> = texts.iter().map(whole).collect();
        let vectors = model.document_tokens(&whole.iter().map(String::as_str).collect::<Vec<_>>())?;
        return Ok(texts.iter().map(|(key, _)| *key).zip(vectors).collect());
    }
    let passages: Vec<Vec<String>> = texts.iter().map(|(_, text)| passages(text)).collect();
    let all: Vec<&str> = passages.iter().flatten().map(String::as_str).collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let Vectors { dimension, values } = model.embed_documents(&all)?;
    let mut rest = &values[..];
    let of_text = |((key, _), passages): (&(usize, String), &Vec<String>)| {
        let (values, after) = rest.split_at((passages.len() * dimension).min(rest.len()));
        rest = after;
        (*key, Vectors { dimension, values: values.to_vec() })
    };
    Ok(texts.iter().zip(&passages).map(of_text).collect())
}

/// The vectors of the passages of the rows of a part, with 8 bits per value like those of a
/// [`VectorMatrix`](crate::vectors::VectorMatrix).
pub(crate) struct PassageVectors {
    dimension: usize,
    /// For each row the end of its vectors, which begin where those of the row before end; none for a missing row.
    ends: Column<u32>,
    factors: LazyColumn<f32>,
    values: LazyColumn<i8>,
}

impl PassageVectors {
    /// Without any. Rows that are only asked for vectors of a dimension need not be counted.
    pub fn missing(n_rows: usize) -> Self {
        Self {
            dimension: 0,
            ends: vec![0; n_rows].into(),
            factors: Vec::new().into(),
            values: Vec::new().into(),
        }
    }

    /// Vectors of a model in a part; all missing if it has none.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn open_for_model(index: &Directory, part: &PartSize, model: &str) -> Result<Self, Error> {
        let Some(file) = part.passages.get(model) else { return Ok(Self::missing(part.units)) };
        let directory = part.directory(index)?;
        Self::open(&directory, file, part.units)
    }

    /// Maps what [`PassageRows::write`] wrote.
    fn open(directory: &Directory, file: &StoredFile, n_rows: usize) -> Result<Self, Error> {
        let file = Arc::new(file.map(directory)?);
        let bytes = file.len();
        let unlike = |problem: &str| Error::corrupt(file.path(), format!("{problem} in {bytes} bytes"));
        let of_ends = n_rows * size_of::<u32>();
        if bytes < of_ends {
            return Err(unlike(&format!("expected {n_rows} rows")));
        }
        let ends = Column::<u32>::part_of(&file, 0, n_rows)?;
        if !ends.is_sorted() {
            return Err(unlike("expected rows in order"));
        }
        let n = ends.last().map_or(0, |end| *end as usize);
        let values_start = of_ends.saturating_add(n.saturating_mul(size_of::<f32>()));
        let dimension = bytes.saturating_sub(values_start) / n.max(1);
        if values_start.checked_add(n.saturating_mul(dimension)) != Some(bytes) {
            return Err(unlike(&format!("expected {n} vectors")));
        }
        Ok(Self {
            dimension,
            ends,
            factors: LazyColumn::part_of(&file, of_ends, n)?,
            values: LazyColumn::part_of(&file, values_start, n * dimension)?,
        })
    }

    /// The factors and the values of the vectors of a row; none if they are damaged.
    fn row(&self, row: usize) -> (&[f32], &[i8]) {
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let end = self.ends[row] as usize;
        let factors = self.factors.get(begin..end);
        factors.zip(self.values.get(begin * self.dimension..end * self.dimension)).unwrap_or_default()
    }

    /// Returns whether a row has vectors.
    pub fn has(&self, row: usize) -> bool {
        row < self.ends.len() && !self.row(row).0.is_empty()
    }

    /// Returns whether a row has vectors of a model with `dimension` columns.
    pub fn has_row(&self, row: usize, dimension: usize) -> bool {
        self.dimension == dimension && self.has(row)
    }

    /// The maximum dot product of a vector of the row with that of a query, or the mean of these of the query's vectors; `None`
    /// if the row has none.
    pub fn best(&self, row: usize, query: &Vectors) -> Option<f32> {
        if !self.has_row(row, query.dimension) {
            return None;
        }
        let (factors, values) = self.row(row);
        let best = |query: &[f32]| {
            let vectors = factors.iter().zip(values.chunks_exact(self.dimension.max(1)));
            let cosines = vectors.map(|(factor, vector)| {
                factor * vector.iter().zip(query).map(|(a, b)| f32::from(*a) * b).sum::<f32>()
            });
            cosines.fold(f32::NEG_INFINITY, f32::max)
        };
        Some(query.rows().map(best).sum::<f32>() / query.n_rows().max(1) as f32)
    }
}

/// The vectors of one row: their factors and values.
type Row = (Vec<f32>, Vec<i8>);

/// Vectors of passages that are being collected.
pub(crate) struct PassageRows(Vec<Row>);

impl PassageRows {
    /// A copy of stored ones with this dimension, none of others.
    pub fn from_stored(stored: &PassageVectors, dimension: usize) -> Self {
        let row = |row| {
            if !stored.has_row(row, dimension) {
                return Row::default();
            }
            let (factors, values) = stored.row(row);
            (factors.to_vec(), values.to_vec())
        };
        Self((0..stored.ends.len()).map(row).collect())
    }

    /// Without any.
    pub fn missing(n_rows: usize) -> Self {
        Self(vec![Row::default(); n_rows])
    }

    /// Number of rows without vectors.
    pub fn n_missing(&self) -> usize {
        self.0.iter().filter(|(factors, _)| factors.is_empty()).count()
    }

    /// Sets the vectors of a row, in 8 bits.
    pub fn set<'a>(&mut self, row: usize, vectors: impl IntoIterator<Item = &'a [f32]>) {
        let (factors, values) = &mut self.0[row];
        factors.clear();
        values.clear();
        vectors.into_iter().for_each(|vector| factors.push(quantize(vector, values)));
    }

    /// Copies a row of others; false if it is missing there.
    pub fn copy(&mut self, row: usize, from: &PassageVectors, from_row: usize) -> bool {
        let (factors, values) = from.row(from_row);
        self.0[row] = (factors.to_vec(), values.to_vec());
        !factors.is_empty()
    }

    /// Writes the vectors of a model to a new file, which becomes valid with the next manifest.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(
        &self,
        index: &Directory,
        part: &mut PartSize,
        model: &str,
        generation: &str,
    ) -> Result<(), Error> {
        let directory = part.directory(index)?;
        let mut name = format!("{PASSAGES}{:016x}-{generation}", xxh3_64(model.as_bytes()));
        // The file that is valid until then is not overwritten.
        if part.passages.get(model).is_some_and(|file| file.path() == name) {
            name.push_str("-b");
        }
        let ends = self.0.iter().scan(0_usize, |end, (factors, _)| {
            *end += factors.len();
            Some(u32::try_from(*end).map_err(|_| Error::TooLarge))
        });
        let ends: Vec<u32> = ends.collect::<Result<_, _>>()?;
        let factors: Vec<f32> = self.0.iter().flat_map(|(factors, _)| factors).copied().collect();
        let values: Vec<i8> = self.0.iter().flat_map(|(_, values)| values).copied().collect();
        let columns =
            [bytemuck::cast_slice(&ends), bytemuck::cast_slice(&factors), bytemuck::cast_slice(&values)];
        replace_file(&directory, &name, &columns)?;
        part.passages.insert(model.to_owned(), StoredFile::record(&directory, name)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_whole_lines_below_the_first() {
        assert_eq!(passages("net connect\n"), ["net connect\n"]);
        assert_eq!(passages("net"), ["net"]);
        let line = "x".repeat(149);
        let source = format!("{line}\n").repeat(5);
        let two = format!("head\n{line}\n{line}\n");
        assert_eq!(passages(&format!("head\n{source}")), [two.clone(), two, format!("head\n{line}\n")]);
        // Text without line ends, and characters of several bytes.
        let long = "ä".repeat(3000);
        let all = passages(&format!("head\n{long}"));
        assert!(all.iter().all(|passage| passage.len() <= "head\n".len() + PASSAGE_BYTES), "{all:?}");
        let read: usize = all.iter().map(|passage| passage.len() - "head\n".len()).sum();
        assert_eq!(read, MAX_BYTES);
        assert_eq!(passages(&format!("head\n{}", "\n".repeat(3000))).len(), 1);
    }

    #[test]
    fn a_written_file_is_read_back() {
        let temporary = tempfile::tempdir().unwrap();
        let index = Directory::open(temporary.path()).unwrap();
        index.create_directory("part-1".as_ref()).unwrap();
        let mut part = PartSize { name: "part-1".to_owned(), units: 4, ..PartSize::default() };
        let of_query = |query: &[f32]| Vectors { dimension: query.len(), values: query.to_vec() };
        let none = PassageVectors::open_for_model(&index, &part, "m").unwrap();
        assert_eq!(none.best(3, &of_query(&[1.0, 0.0])), None);
        let mut rows = PassageRows::missing(4);
        rows.set(1, [&[1.0, 0.0][..], &[0.0, 1.0]]);
        rows.set(3, [&[0.6, 0.8][..]]);
        assert_eq!(rows.n_missing(), 2);
        rows.write(&index, &mut part, "m", "generation-1").unwrap();
        let stored = PassageVectors::open_for_model(&index, &part, "m").unwrap();
        let best = |row: usize, query: &[f32]| stored.best(row, &of_query(query));
        assert_eq!((best(0, &[1.0, 0.0]), best(2, &[1.0, 0.0])), (None, None));
        assert!((best(1, &[0.6, 0.8]).unwrap() - 0.8).abs() < 0.01);
        assert!((best(3, &[1.0, 0.0]).unwrap() - 0.6).abs() < 0.01);
        // The mean over the vectors of a query.
        let several = Vectors { dimension: 2, values: vec![1.0, 0.0, 0.6, 0.8] };
        assert!((stored.best(1, &several).unwrap() - 0.9).abs() < 0.01);
        // Of another dimension.
        assert_eq!(best(1, &[1.0, 0.0, 0.0]), None);
        let mut copied = PassageRows::from_stored(&stored, 2);
        assert!(copied.copy(0, &stored, 3) && !copied.copy(3, &stored, 2));
        copied.write(&index, &mut part, "m", "generation-1").unwrap();
        let copied = PassageVectors::open_for_model(&index, &part, "m").unwrap();
        let query = of_query(&[1.0, 0.0]);
        assert_eq!((copied.best(0, &query), copied.best(3, &query)), (best(3, &[1.0, 0.0]), None));
        // Files of every length, and rows out of order, are refused or have rows of their own.
        let path = temporary.path().join("part-1").join(part.passages["m"].path());
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(PassageVectors::open_for_model(&index, &part, "m").is_err(), "{length} bytes");
            let (directory, name) = (part.directory(&index).unwrap(), part.passages["m"].path().to_owned());
            let opened = PassageVectors::open(&directory, &StoredFile::record(&directory, name).unwrap(), 4);
            assert!(opened.is_err() || opened.unwrap().dimension < 2, "{length} bytes");
        }
        std::fs::write(&path, [[9, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]].concat()).unwrap();
        assert!(PassageVectors::open_for_model(&index, &part, "m").is_err());
    }
}
