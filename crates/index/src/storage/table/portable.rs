//! Records of files that come from elsewhere.

use super::{CallBytes, FileRecord, N_FIELDS, PartBuilder, UnitRecord};
use crate::Error;
use crate::index::portable::{PortableFile, PortableUnit};
use crate::lexical::has_terms;

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
