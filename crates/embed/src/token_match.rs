//! Coverage of a query's words by those of a text, by meaning: late interaction over the token vectors of a static
//! model.
//!
//! Each token of a query is compared with all tokens of a text and keeps the best cosine (Khattab & Zaharia, *ColBERT*,
//! SIGIR 2020, §3.3). One vector per text blurs what its words say; this finds "terminate" where "kill" is asked for, and
//! misses nothing for the text being long.

use rayon::prelude::*;
use simsimd::SpatialSimilarity;

use crate::StaticModel;
use crate::static_model::Parts;
use crate::thesaurus::Meaning;
use crate::word_vectors::WordVectors;

/// Distinct tokens of texts that one thread compares with a query: enough to pay for handing them out.
const TOKENS_PER_TASK: usize = 128;

/// Texts whose similarities one thread computes.
const TEXTS_PER_TASK: usize = 64;

/// Weight of the static model in the cosine of two tokens that have a word vector, too.
const STATIC_SHARE: f32 = 0.5;

/// Weight of the cosine of a word that programmers write for one of the query.
const MEANING_SHARE: f32 = 0.9;

/// The tokens of a query, to be compared with texts.
pub struct QueryTokens<'a> {
    parts: Parts<'a>,
    words: Option<WordVectors<'a>>,
    /// The tokens of the query itself.
    ids: Vec<u32>,
    tokens: Vec<QueryToken<'a>>,
}

struct QueryToken<'a> {
    row: Row<'a>,
    word: Option<Row<'a>>,
    /// Its share of the query, from the length of its vector: its weight in the model.
    weight: f32,
    /// The token that it may stand for, by its position.
    stands_for: Option<usize>,
}

/// A vector in 8 bits.
struct Row<'a> {
    values: &'a [i8],
    length: f32,
}

impl<'a> Row<'a> {
    fn new(values: &'a [i8]) -> Self {
        Self { values, length: dot(values, values).sqrt() }
    }

    /// The cosine with another; 0 where either is 0.
    fn cosine(&self, other: &Self) -> f32 {
        dot(self.values, other.values) * inverse(self.length * other.length)
    }
}

impl StaticModel {
    /// The distinct tokens of a text as the model reads it, ascending; those that 16 bits do not hold are left out.
    pub fn token_ids(&self, text: &str) -> Vec<u16> {
        let mut ids = Vec::new();
        self.parts().tokenizer.tokens(text, |id, _| ids.extend(u16::try_from(id)));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The distinct tokens of a query, compared by the vectors of this model alone.
    pub fn query_tokens(&self, query: &str) -> QueryTokens<'_> {
        self.tokens_of_query(query, None)
    }

    /// The same, compared by the word vectors that come with the program, too: for the built-in model, whose tokens they
    /// belong to.
    pub fn query_words(&self, query: &str) -> QueryTokens<'_> {
        self.tokens_of_query(query, WordVectors::for_model(self))
    }

    fn tokens_of_query<'a>(&'a self, query: &str, words: Option<WordVectors<'a>>) -> QueryTokens<'a> {
        let parts = self.parts();
        let mut ids = Vec::new();
        parts.tokenizer.tokens(query, |id, _| {
            if !ids.contains(&id) {
                ids.push(id);
            }
        });
        let mut tokens: Vec<QueryToken> = ids
            .iter()
            .map(|&id| {
                let (row, scale) = parts.query_row(id as usize);
                let row = Row::new(row);
                let word = words.and_then(|words| words.row(id as usize)).map(Row::new);
                QueryToken { weight: row.length * scale, row, word, stands_for: None }
            })
            .collect();
        let total: f32 = tokens.iter().map(|token| token.weight).sum();
        tokens.iter_mut().for_each(|token| token.weight *= inverse(total));
        QueryTokens { parts, words, ids, tokens }
    }
}

impl QueryTokens<'_> {
    /// Also compares the words that programmers write for those of the query, which count for the cosine of these.
    pub fn with_meanings(mut self, meanings: &[Meaning]) -> Self {
        let tokenizer = self.parts.tokenizer;
        for Meaning { word, code_words } in meanings {
            let mut first = None;
            tokenizer.tokens(word, |id, _| first = first.or(Some(id)));
            let stands_for = self.ids.iter().position(|id| Some(*id) == first);
            tokenizer.tokens(code_words, |id, _| {
                let row = Row::new(self.parts.document_row(id as usize));
                let word = self.words.and_then(|words| words.row(id as usize)).map(Row::new);
                self.tokens.push(QueryToken { row, word, weight: 0.0, stands_for });
            });
        }
        self
    }

    /// For each text the weighted mean, over the tokens of the query, of the best cosine with a token of the text: -1 to
    /// 1, greater is closer; 0 where either has no token. The texts are what [`StaticModel::token_ids`] gave; a token that
    /// the model does not have is left out.
    pub fn similarities(&self, texts: &[&[u16]]) -> Vec<f32> {
        self.compare(texts, |best| {
            let found = best.iter().zip(&self.tokens).filter(|(best, _)| best.is_finite());
            found.map(|(best, token)| best * token.weight).sum()
        })
    }

    /// For each text how much of the query it lacks at the worst token: the maximum, over the tokens of the query, of
    /// the token's weight times the distance (1 - cosine) of the nearest token of the text; 0 to 1, 0 if the query has
    /// no token.
    pub fn largest_gaps(&self, texts: &[&[u16]]) -> Vec<f32> {
        self.compare(texts, |best| {
            let gaps =
                best.iter().zip(&self.tokens).map(|(best, token)| token.weight * (1.0 - best.max(0.0)));
            gaps.fold(0.0, f32::max)
        })
    }

    /// A value of each text, given the best cosine of each token of the query with a token of the text, which is -∞
    /// if the text has none; 0 if the query has no token.
    fn compare(&self, texts: &[&[u16]], value: impl Fn(&[f32]) -> f32 + Sync) -> Vec<f32> {
        let n = self.tokens.len();
        if n == 0 {
            return vec![0.0; texts.len()];
        }
        let ids = IdSet::new(texts, self.parts.n_tokens());
        // In ascending order, so that the table is read from its start to its end.
        let ascending: Vec<usize> = ids.iter().collect();
        let mut cosines = vec![0.0; ascending.len() * n];
        let tasks = cosines.par_chunks_mut(TOKENS_PER_TASK * n).zip(ascending.par_chunks(TOKENS_PER_TASK));
        tasks.for_each(|(cosines, ids)| {
            cosines.chunks_exact_mut(n).zip(ids).for_each(|(cosines, &id)| self.cosines(id, cosines));
        });
        let value = |text: &&[u16]| value(&self.best(text, &ids, &cosines));
        texts.par_iter().with_min_len(TEXTS_PER_TASK).map(value).collect()
    }

    /// Computes the cosines of a token of a text with each token of the query.
    fn cosines(&self, id: usize, cosines: &mut [f32]) {
        let row = Row::new(self.parts.document_row(id));
        let word = self.words.and_then(|words| words.row(id)).map(Row::new);
        for (cosine, token) in cosines.iter_mut().zip(&self.tokens) {
            *cosine = token.row.cosine(&row);
            if let (Some(of_query), Some(of_text)) = (&token.word, &word) {
                *cosine = STATIC_SHARE * *cosine + (1.0 - STATIC_SHARE) * of_query.cosine(of_text);
            }
        }
    }

    /// The best cosine of each token of the query with one of a text, given the cosines of all `ids`.
    fn best(&self, text: &[u16], ids: &IdSet, cosines: &[f32]) -> Vec<f32> {
        let n = self.tokens.len();
        let mut best = vec![f32::NEG_INFINITY; n];
        for number in text.iter().filter_map(|&id| ids.number(id)) {
            for (best, &cosine) in best.iter_mut().zip(&cosines[number * n..][..n]) {
                *best = best.max(cosine);
            }
        }
        for (position, token) in self.tokens.iter().enumerate() {
            if let Some(of) = token.stands_for {
                best[of] = best[of].max(MEANING_SHARE * best[position]);
            }
        }
        best
    }
}

/// A set of tokens, numbered in ascending order.
struct IdSet {
    words: Vec<u64>,
    /// Number of tokens before each word.
    before: Vec<u32>,
}

impl IdSet {
    /// The tokens of texts below `n_tokens`.
    fn new(texts: &[&[u16]], n_tokens: usize) -> Self {
        let mut words = vec![0u64; n_tokens.div_ceil(64)];
        for id in texts.iter().copied().flatten().map(|&id| usize::from(id)).filter(|&id| id < n_tokens) {
            words[id / 64] |= 1 << (id % 64);
        }
        let mut n = 0;
        let before = words.iter().map(|word| {
            let before = n;
            n += word.count_ones();
            before
        });
        Self { before: before.collect(), words }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(number, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number * 64 + bit)
        })
    }

    /// The number of a token; `None` if it is not in the set.
    fn number(&self, id: u16) -> Option<usize> {
        let (word, bit) = (usize::from(id) / 64, id % 64);
        let bits = self.words.get(word)?;
        let is_there = bits >> bit & 1 == 1;
        is_there.then(|| self.before[word] as usize + (bits & ((1 << bit) - 1)).count_ones() as usize)
    }
}

fn dot(a: &[i8], b: &[i8]) -> f32 {
    i8::dot(a, b).unwrap_or_default() as f32
}

/// 1 over a length; 0 of 0.
fn inverse(length: f32) -> f32 {
    if length > 0.0 { 1.0 / length } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_model::tests::model;

    #[track_caller]
    fn check(query: &str, text: &str, expected: f32) {
        let model = model(2);
        let found = model.query_tokens(query).similarities(&[&model.token_ids(text)])[0];
        assert!((found - expected).abs() < 1e-2, "{query:?} {text:?}: {found}");
    }

    #[test]
    fn each_token_of_a_query_takes_its_best_match() {
        // Documents: read (1, 0, 0), file (0, 2, 0), sort (0, 0, 1); queries: read (0, 0, 3), file (0, 2, 0).
        check("file", "file", 1.0);
        check("read", "sort", 1.0);
        check("read", "read", 0.0);
        check("read file", "file sort sort", 1.0);
        // Weights are the lengths 3 and 2.
        check("read file", "sort", 3.0 / 5.0);
        check("file read file", "read file", 2.0 / 5.0);
    }

    #[test]
    fn texts_without_tokens_have_no_similarity() {
        check("", "file", 0.0);
        check("file", "", 0.0);
        check("ü", "ü", 0.0);
    }

    #[test]
    fn tokens_are_kept_once_and_unknown_ones_left_out() {
        let model = model(0);
        assert_eq!(model.token_ids("sort read sort file read"), [0, 1, 2]);
        let query = model.query_tokens("sort");
        let found = query.similarities(&[&[u16::MAX], &[2, u16::MAX], &[], &[1], &[2]]);
        for (found, expected) in found.into_iter().zip([0.0, 1.0, 0.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-2, "{found} {expected}");
        }
    }

    #[test]
    fn word_vectors_know_words_that_documentation_does_not_pair() {
        let model = StaticModel::builtin();
        let texts = [model.token_ids("currency"), model.token_ids("scroll"), model.token_ids("money")];
        let texts: Vec<&[u16]> = texts.iter().map(Vec::as_slice).collect();
        let found = model.query_words("money").similarities(&texts);
        assert!(found[2] > found[0] && found[0] > found[1] + 0.2, "{found:?}");
    }

    #[test]
    fn the_tokens_of_the_builtin_model_fit_into_16_bits() {
        assert!(StaticModel::builtin().parts().n_tokens() <= 1 << 16);
    }
}
