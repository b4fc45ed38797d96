//! The share of each field in the score of a text, for explanations.

use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, Term};

use super::{Bm25f, LexicalIndex, Part, norms};
use crate::Error;
use crate::storage::field_sizes::N_FIELDS;
use crate::storage::segments::Segment;

impl LexicalIndex {
    /// The contribution of each field to the score of a text, in the order of [`FIELDS`](super::FIELDS): the score of
    /// each term is divided in proportion to the fields' contributions to its frequency. `idf` is that of
    /// [`Scores`](super::Scores).
    pub(crate) fn field_scores(
        &self,
        terms: &[String],
        idf: &[f32],
        parameters: &Bm25f,
        text: usize,
    ) -> Result<[f32; N_FIELDS], Error> {
        let Bm25f { weights, k1, b } = parameters;
        let mut scores = [0.0; N_FIELDS];
        let Some((part, document)) = self.part_of(text) else { return Ok(scores) };
        let part = part.get()?;
        for (term, idf) in terms.iter().zip(idf) {
            let mut frequencies = [0.0; N_FIELDS];
            for (field, reader) in part.fields.iter().enumerate() {
                let term = Term::from_field_text(reader.field, term);
                let postings = reader.postings.read_postings(&term, IndexRecordOption::WithFreqs);
                let Some(mut postings) = postings.map_err(tantivy::TantivyError::from)? else { continue };
                if postings.doc() <= document && postings.seek(document) == document {
                    let norm = norms(b[field], self.mean_lengths[field]);
                    frequencies[field] = weights[field] * postings.term_freq() as f32
                        / norm[usize::from(reader.lengths.fieldnorm_id(document))];
                }
            }
            let whole: f32 = frequencies.iter().sum();
            for (score, frequency) in scores.iter_mut().zip(frequencies) {
                *score += idf * (k1 + 1.0) * frequency / (k1 + whole);
            }
        }
        Ok(scores)
    }

    /// The part that contains a text, and the text's number in it.
    fn part_of(&self, text: usize) -> Option<(&Segment<Part>, u32)> {
        self.parts.iter().zip(&self.numbering.parts).find_map(|(part, units)| {
            let document = (0..units.len()).find(|&document| units.unit(document) == Some(text))?;
            Some((part, u32::try_from(document).ok()?))
        })
    }
}
