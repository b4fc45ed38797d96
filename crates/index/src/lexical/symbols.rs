//! Finds the texts that define a symbol in any spelling, and symbols with similar spelling.

use std::collections::BTreeMap;

use quarry_text::edits_within;
use tantivy::postings::Postings;
use tantivy::query::FuzzyTermQuery;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{InvertedIndexReader, TERMINATED, Term};

use super::LexicalIndex;
use crate::Error;
use crate::storage::table::PartUnits;

/// Lengths of words for which similar spellings are searched: shorter words have too many neighbors, longer ones are
/// not words.
const NEAR_LETTERS: std::ops::RangeInclusive<usize> = 4..=100;

impl LexicalIndex {
    /// The texts that define a symbol, which is given in the form of [`quarry_text::folded`].
    pub(crate) fn definitions(&self, folded: &str) -> Result<Vec<usize>, Error> {
        let mut texts = Vec::new();
        for (part, units) in self.parts.iter().zip(&self.numbering.parts) {
            let part = part.get()?;
            let term = Term::from_field_text(part.symbols.field, folded);
            let postings = part.symbols.postings.read_postings(&term, IndexRecordOption::Basic);
            let postings = postings.map_err(tantivy::TantivyError::from)?;
            texts.extend(postings.into_iter().flat_map(|postings| texts_of(postings, units)));
        }
        Ok(texts)
    }

    /// The folded symbols at an edit distance of one from `folded` (insertion, deletion, substitution or
    /// transposition of adjacent letters), with the texts that define them. Empty for words of unsuitable length.
    pub(crate) fn near_symbols(&self, folded: &str) -> Result<BTreeMap<String, Vec<usize>>, Error> {
        let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        if !NEAR_LETTERS.contains(&folded.chars().count()) {
            return Ok(found);
        }
        for (part, units) in self.parts.iter().zip(&self.numbering.parts) {
            let part = part.get()?;
            let symbols = &part.symbols;
            let automaton =
                FuzzyTermQuery::new(Term::from_field_text(symbols.field, folded), 1, true).automaton()?;
            let near = symbols.postings.terms().search(automaton).into_stream();
            let mut near = near.map_err(tantivy::TantivyError::from)?;
            while let Some((symbol, information)) = near.next() {
                let postings =
                    symbols.postings.read_postings_from_terminfo(information, IndexRecordOption::Basic);
                let postings = postings.map_err(tantivy::TantivyError::from)?;
                let texts = found.entry(String::from_utf8_lossy(symbol).into_owned()).or_default();
                texts.extend(texts_of(postings, units));
            }
        }
        found.retain(|_, texts| !texts.is_empty());
        Ok(found)
    }

    /// The folded symbols with the fewest edits from `folded`, at most two in a symbol of eight letters and three in one of
    /// sixteen, with the texts that define them. Empty for shorter words. Only symbols with the same first letter are
    /// compared, since it is seldom wrong and all symbols would take milliseconds.
    pub(crate) fn close_symbols(&self, folded: &str) -> Result<BTreeMap<String, Vec<usize>>, Error> {
        let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let n_letters = folded.chars().count();
        let mut most = match n_letters {
            _ if !NEAR_LETTERS.contains(&n_letters) => 0,
            0..8 => 0,
            8..16 => 2,
            _ => 3,
        };
        let Some(first) = folded.chars().next().filter(|_| most > 0) else { return Ok(found) };
        let begin = first.to_string().into_bytes();
        let mut end = begin.clone();
        if let Some(byte) = end.last_mut() {
            // The last byte of a character is never the maximum.
            *byte += 1;
        }
        for (part, units) in self.parts.iter().zip(&self.numbering.parts) {
            let part = part.get()?;
            let symbols = &part.symbols.postings;
            let alike = symbols.terms().range().ge(&begin).lt(&end).into_stream();
            let mut alike = alike.map_err(tantivy::TantivyError::from)?;
            while let Some((symbol, information)) = alike.next() {
                let symbol = String::from_utf8_lossy(symbol);
                let Some(edits) = edits_within(folded, &symbol, most) else { continue };
                let postings = symbols.read_postings_from_terminfo(information, IndexRecordOption::Basic);
                let texts = texts_of(postings.map_err(tantivy::TantivyError::from)?, units);
                if texts.is_empty() {
                    continue;
                }
                if edits < most {
                    most = edits;
                    found.clear();
                }
                found.entry(symbol.into_owned()).or_default().extend(texts);
            }
        }
        Ok(found)
    }

    /// The texts that contain a term in any field, ascending.
    pub(crate) fn texts_with(&self, term: &str) -> Result<Vec<usize>, Error> {
        let mut texts = Vec::new();
        for (part, units) in self.parts.iter().zip(&self.numbering.parts) {
            for reader in &part.get()?.fields {
                let term = Term::from_field_text(reader.field, term);
                let postings = reader.postings.read_postings(&term, IndexRecordOption::Basic);
                let postings = postings.map_err(tantivy::TantivyError::from)?;
                texts.extend(postings.into_iter().flat_map(|postings| texts_of(postings, units)));
            }
        }
        texts.sort_unstable();
        texts.dedup();
        Ok(texts)
    }

    /// Number of the texts, including removed ones, that contain a term in the field where most contain it.
    pub(crate) fn frequency(&self, term: &str) -> Result<usize, Error> {
        let mut frequency = 0;
        for part in &self.parts {
            let mut most = 0;
            for reader in &part.get()?.fields {
                let found = reader.postings.get_term_info(&Term::from_field_text(reader.field, term));
                most =
                    most.max(found.map_err(tantivy::TantivyError::from)?.map_or(0, |found| found.doc_freq));
            }
            frequency += most as usize;
        }
        Ok(frequency)
    }

    /// Returns true if a term occurs in any text, including removed ones.
    pub(crate) fn has_term(&self, term: &str) -> Result<bool, Error> {
        if let Some(whole) = &self.whole {
            return Ok(whole.counts.count(term)?.units > 0);
        }
        for part in &self.parts {
            // Most words occur in a body.
            for reader in part.get()?.fields.iter().rev() {
                let information = reader.postings.get_term_info(&Term::from_field_text(reader.field, term));
                if information.map_err(tantivy::TantivyError::from)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The definitions of symbols in a part.
pub(super) struct SymbolReader {
    pub field: Field,
    pub postings: std::sync::Arc<InvertedIndexReader>,
}

/// The texts that contain a term, without removed ones.
fn texts_of(mut postings: impl Postings, units: &PartUnits) -> Vec<usize> {
    let mut texts = Vec::new();
    while postings.doc() != TERMINATED {
        texts.extend(units.unit(postings.doc() as usize));
        postings.advance();
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::LexicalText;

    fn index(symbols: &[&'static str]) -> LexicalIndex {
        let text = |symbol: &&'static str| LexicalText { name: symbol, symbol, ..LexicalText::default() };
        LexicalIndex::in_memory(symbols.iter().map(text)).unwrap()
    }

    #[test]
    fn a_symbol_is_found_however_it_is_written() {
        let index = index(&["parseHTTPHeader", "other", "parse_http_header", ""]);
        assert_eq!(index.definitions("parsehttpheader").unwrap(), [0, 2]);
        assert_eq!(index.definitions("parse").unwrap(), [0_usize; 0]);
        assert_eq!(index.definitions("").unwrap(), [0_usize; 0]);
    }

    #[test]
    fn near_symbols_are_one_change_away() {
        let index = index(&["parseHeader", "parse_headers", "parserHeader", "read", "PARSE_HEADER"]);
        let near = |folded: &str| index.near_symbols(folded).unwrap().into_iter().collect::<Vec<_>>();
        let header = || ("parseheader".to_owned(), vec![0, 4]);
        for typed in ["pareheader", "parseheeader", "parsehaeder", "parsehfader"] {
            assert_eq!(near(typed), [header()], "{typed}");
        }
        let expected = [header(), ("parseheaders".to_owned(), vec![1]), ("parserheader".to_owned(), vec![2])];
        assert_eq!(near("parseheader"), expected);
        assert_eq!(near("parsheaer"), []);
        // Words that are too short or too long.
        assert_eq!(near("rea"), []);
        assert_eq!(near(&"x".repeat(100_000)), []);
    }

    #[test]
    fn close_symbols_have_the_fewest_edits() {
        let index = index(&["prepend_scheme_if_needed", "append_scheme_if_needed", "other_name"]);
        let close = |folded: &str| index.close_symbols(folded).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(close("preprendshemeifneded"), [("prependschemeifneeded".to_owned(), vec![0])]);
        assert_eq!(close("otername"), [("othername".to_owned(), vec![2])]);
        assert_eq!(close("another"), []);
        assert_eq!(close("atername"), []);
        assert_eq!(close(&"x".repeat(100_000)), []);
    }

    #[test]
    fn a_term_is_known_in_any_field() {
        let index = index(&["parseHeader"]);
        assert!(index.has_term("parseheader").unwrap() && index.has_term("header").unwrap());
        assert!(!index.has_term("headers").unwrap());
        assert_eq!(index.texts_with("header").unwrap(), [0]);
        assert_eq!(index.texts_with("headers").unwrap(), [0_usize; 0]);
    }
}
