//! Files as values, and their records.

use quarry_source::{SourceText, UnitKind};
use serde::{Deserialize, Serialize};

use super::{CallBytes, FileRecord, PartBuilder, UnitRecord, kind_of};
use crate::Error;
use crate::storage::field_sizes::{N_FIELDS, TermFrequencies, has_terms};

/// An indexed file with its units: everything that a search needs of it, except for its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortableFile {
    /// Relative to its tree, `/` between its parts.
    pub path: String,
    /// Name of the language.
    pub language: String,
    /// The bits of its flags.
    pub flags: u32,
    /// Its length, for scoring.
    pub text_bytes: u32,
    /// Its text; bytes that are not UTF-8 are `?`.
    pub text: String,
    /// For a notebook, the line of the file for each line of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notebook_lines: Option<Vec<u32>>,
    /// In their order.
    pub units: Vec<PortableUnit>,
}

/// A unit of a [`PortableFile`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortableUnit {
    /// Qualified name.
    pub name: String,
    /// Declaration without body.
    pub signature: String,
    /// Name of the language.
    pub language: String,
    /// Number of the kind.
    pub(crate) kind: u32,
    /// True if it is test code.
    pub is_test: bool,
    /// First and last line, 1-based.
    pub lines: (u32, u32),
    /// Its span in the text.
    pub bytes: (u32, u32),
    /// Hash of the text that is embedded: the upper and the lower half.
    pub(crate) hash: [u64; 2],
    /// Its tokens in the vocabulary of the built-in model.
    pub(crate) tokens: Vec<u16>,
    /// The symbol that it defines, folded; empty if it defines none.
    pub symbol: String,
    pub(crate) terms: TermFrequencies,
    /// The bits of the factor of its vector, and the quantized values; none without a model.
    pub(crate) vector: Option<(u32, Vec<i8>)>,
}

impl PortableFile {
    /// Its text, as it is shown.
    pub fn source_text(&self) -> SourceText {
        let bytes = self.text.clone().into_bytes();
        match &self.notebook_lines {
            Some(lines) => SourceText::with_lines(bytes, lines),
            None => SourceText::plain(bytes),
        }
    }
}

impl PortableUnit {
    pub fn kind(&self) -> UnitKind {
        kind_of(self.kind).unwrap_or(UnitKind::Module)
    }

    /// Its vector; none without a model.
    pub fn vector(&self) -> Option<Vec<f32>> {
        let (factor, values) = self.vector.as_ref()?;
        let factor = f32::from_bits(*factor);
        Some(values.iter().map(|&value| f32::from(value) * factor).collect())
    }

    /// Number of its terms by field.
    fn n_terms(&self) -> [u32; N_FIELDS] {
        std::array::from_fn(|field| {
            self.terms[field].iter().fold(0, |sum: u32, (_, n)| sum.saturating_add(*n))
        })
    }
}

impl PartBuilder {
    /// Appends a file with its units.
    ///
    /// # Errors
    /// When the part is full.
    pub fn push_portable(&mut self, file: &PortableFile) -> Result<(), Error> {
        let (path, language) = (self.push_text(&file.path)?, self.push_text(&file.language)?);
        let mut record = FileRecord {
            bytes: file.text_bytes.into(),
            modified_ns: 0,
            changed_ns: 0,
            inode: 0,
            hash: 0,
            path,
            language,
            flags: file.flags,
            text_bytes: file.text_bytes,
            calls: CallBytes { start: 0, length: 0 },
            n_terms: [0; N_FIELDS],
            n_texts: [0; N_FIELDS],
        };
        let mut units = Vec::with_capacity(file.units.len());
        for unit in &file.units {
            let n_terms = unit.n_terms();
            record.n_terms.iter_mut().zip(n_terms).for_each(|(sum, n)| *sum = sum.saturating_add(n));
            record.n_texts.iter_mut().zip(has_terms(&n_terms)).for_each(|(sum, n)| *sum += n);
            units.push(self.unit_record(unit)?);
        }
        self.files.push((record, units));
        Ok(())
    }

    fn unit_record(&mut self, unit: &PortableUnit) -> Result<UnitRecord, Error> {
        let (name, signature) = (self.push_text(&unit.name)?, self.push_text(&unit.signature)?);
        let language = self.push_text(&unit.language)?;
        let row = u32::try_from(self.hashes.len()).map_err(|_| Error::TooLarge)?;
        self.hashes.push(u128::from(unit.hash[0]) << 64 | u128::from(unit.hash[1]));
        self.tokens.push(&unit.tokens)?;
        Ok(UnitRecord {
            file: 0,
            start_line: unit.lines.0,
            end_line: unit.lines.1,
            start_byte: unit.bytes.0,
            end_byte: unit.bytes.1,
            name,
            signature,
            language,
            kind: unit.kind,
            row,
            is_test: unit.is_test.into(),
        })
    }
}
