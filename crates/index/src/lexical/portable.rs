//! The terms of texts as values, and the scores of some texts among many that are elsewhere.

use std::sync::Arc;

use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::terms::TERM_END;
use super::{Bm25f, LexicalIndex, Part, Terms};
use crate::Error;
use crate::storage::field_sizes::{N_FIELDS, TermFrequencies};
use crate::storage::table::PartUnits;

/// Placeholder for all terms that are not requested: they count for the length of a text only. No identifier contains
/// it.
const OTHER_TERM: char = '\0';

/// The most occurrences of a term in a field that are believed.
const MAX_FREQUENCY: u32 = 1 << 16;

/// In how many texts a term occurs, and in how many groups of them (files).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TermCount {
    /// Number of texts.
    pub units: u64,
    /// Number of groups.
    pub files: u64,
}

/// Tells in how many of all texts a term occurs, for an index that holds some of them.
pub trait TermCounts: Send + Sync {
    /// # Errors
    /// When this cannot be found out now.
    fn count(&self, term: &str) -> Result<TermCount, Error>;
}

/// The texts that the texts of an index are some of.
pub(crate) struct WholeCollection {
    pub n_texts: f32,
    pub n_groups: f32,
    /// The mean length of a group.
    pub mean_group: f32,
    pub counts: Arc<dyn TermCounts>,
}

/// An occurrence of a term.
pub(crate) struct Occurrence {
    pub document: u32,
    pub field: usize,
    pub frequency: u32,
}

impl LexicalIndex {
    /// Scores its texts as some of a larger collection.
    pub(crate) fn within(self, whole: WholeCollection) -> Self {
        Self { whole: Some(whole), ..self }
    }
}

impl LexicalIndex {
    /// Visits its parts, with the texts of their documents.
    ///
    /// # Errors
    /// When one cannot be opened, or by `visit`.
    pub(crate) fn for_each_part(
        &self,
        mut visit: impl FnMut(&Part, &PartUnits) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut parts = self.parts.iter().zip(&self.numbering.parts);
        parts.try_for_each(|(part, units)| visit(&*part.get()?, units))
    }

    /// A part, with the texts of its documents.
    pub(crate) fn part(&self, number: usize) -> Result<(Arc<Part>, &PartUnits), Error> {
        Ok((self.parts[number].get()?, &self.numbering.parts[number]))
    }
}

impl Part {
    /// Visits all terms in order, each with its occurrences.
    ///
    /// # Errors
    /// When the postings cannot be read.
    pub fn for_each_term(&self, mut visit: impl FnMut(&str, &[Occurrence])) -> Result<(), Error> {
        let streams = self.fields.iter().map(|field| field.postings.terms().stream());
        let mut streams = streams.collect::<Result<Vec<_>, _>>().map_err(tantivy::TantivyError::from)?;
        let mut is_open: Vec<bool> = streams.iter_mut().map(|stream| stream.advance()).collect();
        let mut found = Vec::new();
        loop {
            let open = || streams.iter().zip(&is_open).filter(|(_, open)| **open).map(|(stream, _)| stream);
            let Some(term) = open().map(|stream| stream.key()).min().map(<[u8]>::to_vec) else {
                return Ok(());
            };
            found.clear();
            for (field, (stream, open)) in streams.iter_mut().zip(&mut is_open).enumerate() {
                if !*open || stream.key() != term {
                    continue;
                }
                let postings = self.fields[field]
                    .postings
                    .read_postings_from_terminfo(stream.value(), IndexRecordOption::WithFreqs);
                let mut postings = postings.map_err(tantivy::TantivyError::from)?;
                while postings.doc() != TERMINATED {
                    let (document, frequency) = (postings.doc(), postings.term_freq());
                    found.push(Occurrence { document, field, frequency });
                    postings.advance();
                }
                *open = stream.advance();
            }
            visit(&String::from_utf8_lossy(&term), &found);
        }
    }

    /// The folded symbol that each text defines; empty if it defines none.
    ///
    /// # Errors
    /// When the postings cannot be read.
    pub fn symbols(&self) -> Result<Vec<String>, Error> {
        let mut symbols = vec![String::new(); self.n_documents];
        let mut stream = self.symbols.postings.terms().stream().map_err(tantivy::TantivyError::from)?;
        while let Some((symbol, information)) = stream.next() {
            let postings =
                self.symbols.postings.read_postings_from_terminfo(information, IndexRecordOption::Basic);
            let mut postings = postings.map_err(tantivy::TantivyError::from)?;
            while postings.doc() != TERMINATED {
                symbols[postings.doc() as usize] = String::from_utf8_lossy(symbol).into_owned();
                postings.advance();
            }
        }
        Ok(symbols)
    }
}

impl Terms {
    /// Terms with these frequencies. Of those that are not `wanted` only the number is kept.
    pub fn with_frequencies(
        frequencies: &TermFrequencies,
        symbol: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let mut terms = Self::default();
        if !symbol.is_empty() {
            terms.symbol = format!("{symbol}{TERM_END}");
        }
        for (field, frequencies) in frequencies.iter().enumerate() {
            for (term, n) in frequencies {
                let n = (*n).min(MAX_FREQUENCY);
                for _ in 0..n {
                    if wanted(term) {
                        terms.fields[field].push_str(term);
                    } else {
                        terms.fields[field].push(OTHER_TERM);
                    }
                    terms.fields[field].push(TERM_END);
                }
                terms.n_terms[field] += n;
            }
        }
        terms
    }
}

/// The numbers whose inner product with the inverse document frequencies of a query's terms is the
/// [score](LexicalIndex::scores) of a text, one for each of its terms; exact if the mean lengths are those of the
/// collection.
pub fn term_weights<'a>(
    frequencies: &'a TermFrequencies,
    parameters: &Bm25f,
    mean_lengths: &[f32; N_FIELDS],
) -> Vec<(&'a str, f32)> {
    let mut weights: std::collections::BTreeMap<&str, f32> = std::collections::BTreeMap::new();
    for (field, frequencies) in frequencies.iter().enumerate() {
        let length: u32 = frequencies.iter().map(|(_, n)| *n).sum();
        let b = parameters.b[field];
        let norm = 1.0 - b + b * length as f32 / mean_lengths[field];
        for (term, n) in frequencies {
            *weights.entry(term).or_default() += parameters.weights[field] * *n as f32 / norm;
        }
    }
    let saturated = |frequency: f32| (parameters.k1 + 1.0) * frequency / (parameters.k1 + frequency);
    weights.into_iter().map(|(term, frequency)| (term, saturated(frequency))).collect()
}

/// The weight of a term that occurs in `n_matches` of `n_texts` texts: the one of [`LexicalIndex::scores`].
pub fn inverse_document_frequency(n_texts: u64, n_matches: u64) -> f32 {
    super::inverse_frequency(n_texts as f32, n_matches as f32)
}
