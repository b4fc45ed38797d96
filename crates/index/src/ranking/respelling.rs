//! Interprets a query whose symbols are written differently than in the code: in another case, without underscores,
//! or with a misspelled letter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use quarry_text::{folded, is_stop_word, lexical_terms, parts};

use crate::ranking::rules::{Query, last_part, symbol_words};
use crate::{Error, Filter, Index};

/// Weight of the definition of a symbol that is typed in another case or without its underscores, relative to one
/// that is typed exactly; and of one with a similar spelling.
const FOLDED: f32 = 0.9;
const NEAR: f32 = 0.7;

/// Minimum length of a word in a longer query that may be a symbol in another case.
const MIN_LETTERS: usize = 5;

/// Maximum number of symbols that a misspelled one may stand for.
const MAX_NEAR: usize = 5;

/// A query as the search interprets it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryReading {
    /// The typed text, with its symbols as they are written in the code.
    pub text: String,
    /// The units that define the symbol that the query is, with the exactness of its spelling, greater than 0 and at
    /// most 1.
    pub definitions: HashMap<usize, f32>,
}

/// The interpretation of a typed word.
struct WordReading {
    /// Its spelling in the code, if that differs.
    written: Option<String>,
    /// See [`QueryReading::definitions`].
    definitions: HashMap<usize, f32>,
}

impl Index {
    /// The symbols that a query may name, folded.
    pub fn symbols_of(query: &str) -> Vec<String> {
        let symbols = symbol_words(query).map(folded);
        symbols.filter(|symbol| !symbol.is_empty()).collect()
    }

    /// A query in English, with its symbols as they are written in the code of this index.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn as_written(&self, query: &str, filter: &Filter) -> Result<String, Error> {
        let english = self.in_english(query)?;
        Ok(self.read_query(english.as_deref().unwrap_or(query), self.allowed(filter).as_deref())?.text)
    }

    /// Interprets a query. Definitions in units that are not `allowed` are ignored.
    pub(crate) fn read_query(&self, query: &str, allowed: Option<&[bool]>) -> Result<QueryReading, Error> {
        let symbol = Query { text: query, terms: &[], weights: &[] }.symbol();
        let (mut text, mut end) = (String::new(), 0);
        let mut definitions = HashMap::new();
        for word in symbol_words(query) {
            let at = position(query, word);
            let reading = match symbol {
                Some(symbol) if position(query, symbol) == at => self.symbol(word, allowed)?,
                _ => self.word(word, allowed)?,
            };
            text.push_str(&query[end..at.start]);
            text.push_str(reading.written.as_deref().unwrap_or(word));
            definitions.extend(reading.definitions);
            end = at.end;
        }
        text.push_str(&query[end..]);
        Ok(QueryReading { text, definitions })
    }

    /// The interpretation of a query that is a symbol: itself, or the same in another case if that is defined,
    /// otherwise a similar spelling. A single word with a capital letter is taken as it is written.
    fn symbol(&self, typed: &str, allowed: Option<&[bool]>) -> Result<WordReading, Error> {
        let folded = folded(typed);
        let mut units = self.defining(&folded, allowed)?;
        if parts(typed).count() < 2 && typed.contains(char::is_uppercase) {
            units.retain(|&unit| self.own_name(unit) == typed);
        }
        if !units.is_empty() {
            let exactness = |unit: &usize| if self.own_name(*unit) == typed { 1.0 } else { FOLDED };
            let definitions: HashMap<usize, f32> =
                units.iter().map(|unit| (*unit, exactness(unit))).collect();
            let is_written_so = definitions.values().any(|&exactness| exactness == 1.0);
            let written = if is_written_so { None } else { self.most_common_name(&units) };
            return Ok(WordReading { written, definitions });
        }
        let near = self.near(typed, &folded, allowed)?;
        let written = near.first().and_then(|(_, units)| self.most_common_name(units));
        let definitions = near.into_iter().flat_map(|(_, units)| units).map(|unit| (unit, NEAR)).collect();
        Ok(WordReading { written, definitions })
    }

    /// The interpretation of a word among others: itself unless it occurs nowhere.
    fn word(&self, typed: &str, allowed: Option<&[bool]>) -> Result<WordReading, Error> {
        let folded = folded(typed);
        let mut reading = WordReading { written: None, definitions: HashMap::new() };
        if folded.chars().count() < MIN_LETTERS || is_stop_word(typed) || self.is_known(typed, &folded)? {
            return Ok(reading);
        }
        let units = self.defining(&folded, allowed)?;
        reading.written = match units.is_empty() {
            false => self.most_common_name(&units),
            // Only identifiers of several parts may be misspelled symbols; other unknown words stay.
            true if parts(typed).count() > 1 => {
                let near = self.near(typed, &folded, allowed)?;
                near.first().and_then(|(_, units)| self.most_common_name(units))
            }
            true => None,
        };
        Ok(reading)
    }

    /// The symbols with a similar spelling to one that is not defined, the most likely first, with the units that
    /// define them; empty for a word that occurs in the code, which is not misspelled.
    fn near(
        &self,
        typed: &str,
        folded: &str,
        allowed: Option<&[bool]>,
    ) -> Result<Vec<(String, Vec<usize>)>, Error> {
        if self.is_known(typed, folded)? {
            return Ok(Vec::new());
        }
        let mut near = self.lexical.near_symbols(folded)?;
        if near.is_empty() {
            near = self.lexical.close_symbols(folded)?;
        }
        let mut near: Vec<(String, Vec<usize>)> = near
            .into_iter()
            .map(|(symbol, units)| (symbol, self.retain_allowed(units, allowed)))
            .filter(|(_, units)| !units.is_empty())
            .collect();
        // A missing letter is the most common error, a wrong first letter a rare one.
        near.sort_by_key(|(symbol, units)| {
            let same_start = symbol.chars().next() == folded.chars().next();
            (Reverse(symbol.len() > folded.len()), Reverse(same_start), Reverse(units.len()), symbol.clone())
        });
        near.truncate(MAX_NEAR);
        Ok(near)
    }

    /// Returns whether a word, or the whole of an identifier, occurs in the index.
    fn is_known(&self, typed: &str, folded: &str) -> Result<bool, Error> {
        if parts(typed).count() == 1 {
            let mut stem = String::new();
            lexical_terms(typed, |term, _| stem = term.to_owned());
            if self.lexical.has_term(&stem)? {
                return Ok(true);
            }
        }
        self.lexical.has_term(folded)
    }

    fn defining(&self, folded: &str, allowed: Option<&[bool]>) -> Result<Vec<usize>, Error> {
        Ok(self.retain_allowed(self.lexical.definitions(folded)?, allowed))
    }

    fn retain_allowed(&self, mut units: Vec<usize>, allowed: Option<&[bool]>) -> Vec<usize> {
        units.retain(|&unit| allowed.is_none_or(|allowed| allowed[unit]));
        units
    }

    /// The most common name of some units; the first one in case of a tie.
    fn most_common_name(&self, units: &[usize]) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        units.iter().for_each(|&unit| *counts.entry(self.own_name(unit)).or_default() += 1);
        let commonest = counts.into_iter().max_by_key(|&(name, count)| (count, Reverse(name)));
        commonest.map(|(name, _)| name.to_owned())
    }

    fn own_name(&self, unit: usize) -> &str {
        last_part(self.table.text(self.table.units[unit].name))
    }
}

/// The byte range of a word in the text that it is a slice of.
fn position(text: &str, word: &str) -> Range<usize> {
    let start = word.as_ptr() as usize - text.as_ptr() as usize;
    start..start + word.len()
}
