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
    tokens: Vec<QueryToken<'a>>,
}

struct QueryToken<'a> {
    id: u32,
    token: Token<'a>,
    /// Its share of the query, from the length of its vector: its weight in the model.
    weight: f32,
    /// The tokens of what programmers write for its word.
    meanings: Vec<Token<'a>>,
}

/// The vectors of a token: that of the model, and its word vector.
struct Token<'a> {
    row: Row<'a>,
    word: Option<Row<'a>>,
}

impl Token<'_> {
    fn cosine(&self, other: &Self) -> f32 {
        let cosine = self.row.cosine(&other.row);
        match (&self.word, &other.word) {
            (Some(a), Some(b)) => STATIC_SHARE * cosine + (1.0 - STATIC_SHARE) * a.cosine(b),
            _ => cosine,
        }
    }
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
            .into_iter()
            .map(|id| {
                let (row, scale) = parts.query_row(id as usize);
                let (row, word) = (Row::new(row), word_row(words, id as usize));
                let weight = row.length * scale;
                QueryToken { id, token: Token { row, word }, weight, meanings: Vec::new() }
            })
            .collect();
        let total: f32 = tokens.iter().map(|token| token.weight).sum();
        tokens.iter_mut().for_each(|token| token.weight *= inverse(total));
        QueryTokens { parts, words, tokens }
    }
}

fn word_row(words: Option<WordVectors<'_>>, id: usize) -> Option<Row<'_>> {
    words.and_then(|words| words.row(id)).map(Row::new)
}

impl<'a> QueryTokens<'a> {
    /// Also compares the words that programmers write for those of the query, for
    /// [`similarities_by_meaning`](Self::similarities_by_meaning).
    pub fn with_meanings(mut self, meanings: &[Meaning]) -> Self {
        let tokenizer = self.parts.tokenizer;
        for Meaning { word, code_words } in meanings {
            let mut first = None;
            tokenizer.tokens(word, |id, _| first = first.or(Some(id)));
            let Some(position) = self.tokens.iter().position(|token| Some(token.id) == first) else {
                continue;
            };
            tokenizer.tokens(code_words, |id, _| {
                let token = self.document_token(id as usize);
                self.tokens[position].meanings.push(token);
            });
        }
        self
    }

    fn document_token(&self, id: usize) -> Token<'a> {
        Token { row: Row::new(self.parts.document_row(id)), word: word_row(self.words, id) }
    }

    /// For each text the weighted mean, over the tokens of the query, of the best cosine with a token of the text: -1 to
    /// 1, greater is closer; 0 where either has no token. The texts are what [`StaticModel::token_ids`] gave; a token that
    /// the model does not have is left out.
    pub fn similarities(&self, texts: &[&[u16]]) -> Vec<f32> {
        self.compare(texts, |best| self.mean(best))
    }

    /// The same, without and with the meanings of the words of the query: a token has the best cosine of its meanings,
    /// times 0.9, where that is greater than its own.
    pub fn similarities_by_meaning(&self, texts: &[&[u16]]) -> Vec<[f32; 2]> {
        self.compare(texts, |best| {
            let (own, by_meaning) = best.split_at(self.tokens.len());
            [self.mean(own), self.mean(if by_meaning.is_empty() { own } else { by_meaning })]
        })
    }

    /// The mean of a value of each token, by their weights; values that are not finite are left out.
    fn mean(&self, values: &[f32]) -> f32 {
        let found = values.iter().zip(&self.tokens).filter(|(value, _)| value.is_finite());
        found.map(|(value, token)| value * token.weight).sum()
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
    /// if the text has none, and after these, if any token has meanings, the best ones by meaning; the default value if
    /// the query has no token.
    fn compare<T>(&self, texts: &[&[u16]], value: impl Fn(&[f32]) -> T + Sync) -> Vec<T>
    where
        T: Default + Clone + Send,
    {
        if self.tokens.is_empty() {
            return vec![T::default(); texts.len()];
        }
        let has_meanings = self.tokens.iter().any(|token| !token.meanings.is_empty());
        let n = self.tokens.len() * if has_meanings { 2 } else { 1 };
        let ids = IdSet::new(texts, self.parts.n_tokens());
        // In ascending order, so that the table is read from its start to its end.
        let ascending: Vec<usize> = ids.iter().collect();
        let mut cosines = vec![0.0; ascending.len() * n];
        let tasks = cosines.par_chunks_mut(TOKENS_PER_TASK * n).zip(ascending.par_chunks(TOKENS_PER_TASK));
        tasks.for_each(|(cosines, ids)| {
            cosines.chunks_exact_mut(n).zip(ids).for_each(|(cosines, &id)| self.cosines(id, cosines));
        });
        let value = |text: &&[u16]| value(&best(text, &ids, &cosines, n));
        texts.par_iter().with_min_len(TEXTS_PER_TASK).map(value).collect()
    }

    /// Computes the cosines of a token of a text with each token of the query, and by meaning if there is room for these.
    fn cosines(&self, id: usize, cosines: &mut [f32]) {
        let other = self.document_token(id);
        let (own, by_meaning) = cosines.split_at_mut(self.tokens.len());
        for (cosine, token) in own.iter_mut().zip(&self.tokens) {
            *cosine = token.token.cosine(&other);
        }
        for ((cosine, own), token) in by_meaning.iter_mut().zip(own).zip(&self.tokens) {
            let meanings = token.meanings.iter().map(|meaning| MEANING_SHARE * meaning.cosine(&other));
            *cosine = meanings.fold(*own, f32::max);
        }
    }
}

/// The best of each of `n` cosines over the tokens of a text, given those of all `ids`.
fn best(text: &[u16], ids: &IdSet, cosines: &[f32], n: usize) -> Vec<f32> {
    let mut best = vec![f32::NEG_INFINITY; n];
    for number in text.iter().filter_map(|&id| ids.number(id)) {
        for (best, &cosine) in best.iter_mut().zip(&cosines[number * n..][..n]) {
            *best = best.max(cosine);
        }
    }
    best
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
    fn a_word_may_stand_for_its_meanings() {
        let model = model(2);
        let texts = [model.token_ids("sort"), model.token_ids("file")];
        let texts: Vec<&[u16]> = texts.iter().map(Vec::as_slice).collect();
        let found = |meanings: &[Meaning]| {
            model.query_tokens("read file").with_meanings(meanings).similarities_by_meaning(&texts)
        };
        let meaning = |word: &str, code_words| Meaning { word: word.to_owned(), code_words };
        assert!(found(&[]).iter().all(|[own, by_meaning]| own == by_meaning));
        assert_eq!(found(&[]), found(&[meaning("absent", "file")]));
        let [[own, by_meaning], [_, of_file]] = found(&[meaning("read", "file")])[..] else { unreachable!() };
        // As above; "read" has the cosine of "file" with "file" where the text has that.
        assert!((own - 3.0 / 5.0).abs() < 1e-2 && (by_meaning - own).abs() < 1e-2, "{own} {by_meaning}");
        assert!((of_file - (0.9 * 3.0 + 2.0) / 5.0).abs() < 1e-2, "{of_file}");
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
