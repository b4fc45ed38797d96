//! The terms of texts, in a form that is quick to write into postings.

use quarry_text::TermRules;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::LexicalText;
use crate::storage::field_sizes::N_FIELDS;

/// Terminates each term of a field; no identifier contains it.
pub(super) const TERM_END: char = '\n';

/// The terms of a text, field by field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    /// Each term with [`TERM_END`] after it.
    pub fields: [String; N_FIELDS],
    pub n_terms: [u32; N_FIELDS],
    /// The folded symbol that it defines, in the same form; empty if it defines none.
    pub symbol: String,
}

impl Terms {
    /// Splits a text by the rules of search.
    pub fn new(text: &LexicalText) -> Self {
        Self::with_rules(TermRules::default(), text)
    }

    pub fn with_rules(rules: TermRules, text: &LexicalText) -> Self {
        let mut terms = Self { symbol: quarry_text::folded(text.symbol), ..Self::default() };
        if !terms.symbol.is_empty() {
            terms.symbol.push(TERM_END);
        }
        for (field, value) in text.fields().into_iter().enumerate() {
            rules.terms(value, |term, _| {
                terms.fields[field].push_str(term);
                terms.fields[field].push(TERM_END);
                terms.n_terms[field] += 1;
            });
        }
        terms
    }
}

/// Splits [`Terms`]. They are created in many threads, but tantivy writes in a single one.
#[derive(Clone, Default)]
pub(super) struct TermSplitter(Token);

pub(super) struct SplitTerms<'a> {
    rest: &'a str,
    token: &'a mut Token,
}

impl Tokenizer for TermSplitter {
    type TokenStream<'a> = SplitTerms<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        self.0.reset();
        SplitTerms { rest: text, token: &mut self.0 }
    }
}

impl TokenStream for SplitTerms<'_> {
    fn advance(&mut self) -> bool {
        let Some((term, rest)) = self.rest.split_once(TERM_END) else { return false };
        self.rest = rest;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(term);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
