//! The tokens of units, in the vocabulary of the built-in model, for comparing their words with those of a query
//! ([`quarry_embed::QueryTokens`]).

use quarry_files::Directory;

use crate::Error;
use crate::storage::column::{Column, LazyColumn};
use crate::storage::stored_file::StoredFile;

pub(crate) const IDS_FILE: &str = "tokens";
pub(crate) const ENDS_FILE: &str = "token-ends";

/// The distinct tokens of each row of a part, ascending.
pub(crate) struct PartTokens {
    ids: LazyColumn<u16>,
    /// The end offset of each row's tokens.
    ends: Column<u32>,
}

/// [`PartTokens`] that are being built.
#[derive(Default)]
pub(crate) struct PartTokensBuilder {
    ids: Vec<u16>,
    ends: Vec<u32>,
}

impl PartTokens {
    /// Maps what [`PartTokensBuilder::write`] wrote.
    ///
    /// # Errors
    /// When the files do not contain this many tokens and rows.
    pub fn open(
        directory: &Directory,
        (ids, n_tokens): (&StoredFile, usize),
        (ends, n_rows): (&StoredFile, usize),
    ) -> Result<Self, Error> {
        let ids = LazyColumn::open(directory, ids, n_tokens)?;
        Ok(Self { ids, ends: Column::open(directory, ends, n_rows)? })
    }

    /// The tokens of a row; empty if there is no such row, or it is damaged.
    pub fn row(&self, row: usize) -> &[u16] {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(row).copied());
        range.and_then(|(start, end)| self.ids.get(start as usize..end as usize)).unwrap_or_default()
    }
}

impl From<PartTokensBuilder> for PartTokens {
    fn from(built: PartTokensBuilder) -> Self {
        Self { ids: built.ids.into(), ends: built.ends.into() }
    }
}

impl PartTokensBuilder {
    /// Appends a row.
    ///
    /// # Errors
    /// When the part is full.
    pub fn push(&mut self, tokens: &[u16]) -> Result<(), Error> {
        self.ids.extend_from_slice(tokens);
        self.ends.push(u32::try_from(self.ids.len()).map_err(|_| Error::TooLarge)?);
        Ok(())
    }

    /// Number of tokens of all rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Writes all rows.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Directory) -> Result<(), Error> {
        Column::write(directory, IDS_FILE, &self.ids)?;
        Column::write(directory, ENDS_FILE, &self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_own_tokens_in_memory_and_from_a_file() {
        let mut builder = PartTokensBuilder::default();
        for row in [&[3, 7][..], &[], &[1]] {
            builder.push(row).unwrap();
        }
        let scratch = tempfile::tempdir().unwrap();
        let directory = Directory::open(scratch.path()).unwrap();
        builder.write(&directory).unwrap();
        let [ids, ends] =
            [IDS_FILE, ENDS_FILE].map(|name| StoredFile::record(&directory, name.to_owned()).unwrap());
        let open = |n_tokens| PartTokens::open(&directory, (&ids, n_tokens), (&ends, 3));
        for tokens in [open(builder.len()).unwrap(), builder.into()] {
            let rows: Vec<&[u16]> = (0..4).map(|row| tokens.row(row)).collect();
            assert_eq!(rows, [&[3, 7][..], &[], &[1], &[]]);
        }
        assert!(open(4).is_err(), "another number of tokens");
    }
}
