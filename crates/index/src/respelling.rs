//! Reads a query whose symbols are written otherwise than in the code: in another case, without underscores, or with a
//! letter missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use quarry_text::{folded, is_stop_word, lexical_terms, parts};

use crate::rules::{Query, last_part, symbol_words};
use crate::{Error, Index};

/// What the definition of a symbol counts that is typed in another case or without its underscores, over one that is
/// typed as it is written; and of one that is spelled almost so.
const FOLDED: f32 = 0.9;
const NEAR: f32 = 0.7;

/// Letters of a word in a longer query that may be a symbol in another case.
const MIN_LETTERS: usize = 5;

/// Symbols that a misspelled one may stand for, at most.
const MAX_NEAR: usize = 5;

/// A query as it is answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// What was typed, with its symbols as they are written in the code.
    pub text: String,
    /// The units that define the symbol that the query is, and how exactly it is spelled as their name, above 0 to 1.
    pub definitions: HashMap<usize, f32>,
}

/// What a word that was typed may stand for.
struct Meant {
    /// How it is written in the code, if that is otherwise than it was typed.
    written: Option<String>,
    /// See [`Reading::definitions`].
    definitions: HashMap<usize, f32>,
}

impl Index {
    /// Reads a query. Of the units, those that are not `allowed` define nothing.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn read_query(&self, query: &str, allowed: Option<&[bool]>) -> Result<Reading, Error> {
        let symbol = Query { text: query, terms: &[], weights: &[] }.symbol();
        let (mut text, mut end) = (String::new(), 0);
        let mut definitions = HashMap::new();
        for word in symbol_words(query) {
            let at = position(query, word);
            let meant = match symbol {
                Some(symbol) if position(query, symbol) == at => self.symbol(word, allowed)?,
                _ => self.word(word, allowed)?,
            };
            text.push_str(&query[end..at.start]);
            text.push_str(meant.written.as_deref().unwrap_or(word));
            definitions.extend(meant.definitions);
            end = at.end;
        }
        text.push_str(&query[end..]);
        Ok(Reading { text, definitions })
    }

    /// What the symbol may stand for that a query is: itself, or the same in another case where anything defines that,
    /// else what is spelled almost so. A single word with a capital is meant as it is written.
    fn symbol(&self, typed: &str, allowed: Option<&[bool]>) -> Result<Meant, Error> {
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
            let written = if is_written_so { None } else { self.commonest_name(&units) };
            return Ok(Meant { written, definitions });
        }
        let near = self.near(typed, &folded, allowed)?;
        let written = near.first().and_then(|(_, units)| self.commonest_name(units));
        let definitions = near.into_iter().flat_map(|(_, units)| units).map(|unit| (unit, NEAR)).collect();
        Ok(Meant { written, definitions })
    }

    /// What a word may stand for among others: itself unless it occurs nowhere.
    fn word(&self, typed: &str, allowed: Option<&[bool]>) -> Result<Meant, Error> {
        let folded = folded(typed);
        let mut meant = Meant { written: None, definitions: HashMap::new() };
        if folded.chars().count() < MIN_LETTERS || is_stop_word(typed) || self.is_known(typed, &folded)? {
            return Ok(meant);
        }
        let units = self.defining(&folded, allowed)?;
        meant.written = match units.is_empty() {
            false => self.commonest_name(&units),
            // What is no plain word is not an unknown word either.
            true if parts(typed).count() > 1 => {
                let near = self.near(typed, &folded, allowed)?;
                near.first().and_then(|(_, units)| self.commonest_name(units))
            }
            true => None,
        };
        Ok(meant)
    }

    /// The symbols that are spelled almost like one that nothing defines, the likeliest first, with the units that
    /// define them; none for a word that occurs in the code, which is not misspelled.
    fn near(
        &self,
        typed: &str,
        folded: &str,
        allowed: Option<&[bool]>,
    ) -> Result<Vec<(String, Vec<usize>)>, Error> {
        if self.is_known(typed, folded)? {
            return Ok(Vec::new());
        }
        let near = self.lexical.near_symbols(folded)?.into_iter();
        let mut near: Vec<(String, Vec<usize>)> = near
            .map(|(symbol, units)| (symbol, self.only_allowed(units, allowed)))
            .filter(|(_, units)| !units.is_empty())
            .collect();
        // A letter is missed more often than any other slip is made, and the first one seldom.
        near.sort_by_key(|(symbol, units)| {
            let same_start = symbol.chars().next() == folded.chars().next();
            (Reverse(symbol.len() > folded.len()), Reverse(same_start), Reverse(units.len()), symbol.clone())
        });
        near.truncate(MAX_NEAR);
        Ok(near)
    }

    /// Whether a word, or the whole of an identifier, occurs in the index.
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
        Ok(self.only_allowed(self.lexical.definitions(folded)?, allowed))
    }

    fn only_allowed(&self, mut units: Vec<usize>, allowed: Option<&[bool]>) -> Vec<usize> {
        units.retain(|&unit| allowed.is_none_or(|allowed| allowed[unit]));
        units
    }

    /// The name that most of some units have, of equally many the first.
    fn commonest_name(&self, units: &[usize]) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        units.iter().for_each(|&unit| *counts.entry(self.own_name(unit)).or_default() += 1);
        let commonest = counts.into_iter().max_by_key(|&(name, count)| (count, Reverse(name)));
        commonest.map(|(name, _)| name.to_owned())
    }

    fn own_name(&self, unit: usize) -> &str {
        last_part(self.table.text(self.table.units[unit].name))
    }
}

/// Where a word stands in the text that it is a part of.
fn position(text: &str, word: &str) -> Range<usize> {
    let start = word.as_ptr() as usize - text.as_ptr() as usize;
    start..start + word.len()
}
