//! The fields of texts: their number, their lengths, and the terms in them.

/// Number of fields of a text; [`FIELDS`](crate::lexical::FIELDS) has their names.
pub const N_FIELDS: usize = 5;

/// The terms of a text by field, in the order of [`FIELDS`](crate::lexical::FIELDS), with the frequency of each.
pub type TermFrequencies = [Vec<(String, u32)>; N_FIELDS];

/// Total lengths of the fields of some texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FieldSizes {
    n_terms: [u64; N_FIELDS],
    /// Number of texts with any term in the field.
    n_texts: [u64; N_FIELDS],
}

impl FieldSizes {
    /// Adds texts: the number of their terms, and the number of texts with any, by field.
    pub fn add(&mut self, n_terms: &[u32; N_FIELDS], n_texts: &[u32; N_FIELDS]) {
        for (sums, counts) in [(&mut self.n_terms, n_terms), (&mut self.n_texts, n_texts)] {
            sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u64::from(count));
        }
    }

    /// Adds those of other texts.
    pub fn add_all(&mut self, others: &Self) {
        let sum = |sums: &mut [u64; N_FIELDS], counts: &[u64; N_FIELDS]| {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        };
        sum(&mut self.n_terms, &others.n_terms);
        sum(&mut self.n_texts, &others.n_texts);
    }

    /// The mean length of each field over the texts that have it, at least 1: in a field that few texts have, a
    /// normal length should not count as long.
    pub fn mean_lengths(&self) -> [f32; N_FIELDS] {
        std::array::from_fn(|field| self.n_terms[field].max(1) as f32 / self.n_texts[field].max(1) as f32)
    }
}

/// 1 for each field of a text that has terms, otherwise 0.
pub(crate) fn has_terms(n_terms: &[u32; N_FIELDS]) -> [u32; N_FIELDS] {
    n_terms.map(|n| u32::from(n > 0))
}
