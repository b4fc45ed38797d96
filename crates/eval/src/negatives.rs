//! Hard negatives: codes that a method ranks high for a query that they do not answer.
//!
//! Codes of the same group, such as a repository, are ranked by any method. Some of the best ones answer the query as well
//! as its own code does, so a model compares both with the query: a candidate whose cosine is more than a share of that of
//! the own code is left out (Moreira et al., *NV-Retriever*, 2024, "TopK-PercPos").

use std::collections::{HashMap, HashSet};

use quarry_corpus::formats::{Document, Query};
use quarry_embed::{Embedder, Side, embed_many};

use crate::EvalError;
use crate::method::{LoadModel, Method};

/// Texts that are embedded at once.
const CHUNK: usize = 1024;

/// A pair of a query and a code that answers it, or a code alone, with an empty query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    pub query: &'a str,
    pub code: &'a str,
    /// Codes are ranked among those of their group.
    pub group: &'a str,
}

/// Choice of the candidates that become negatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub count: usize,
    /// Number of the best codes that are considered, those that answer included.
    pub depth: usize,
    /// Maximum cosine of a negative with the query, as a share of the cosine of the own code.
    pub maximum_share: f32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Negatives {
    /// For each pair, the pairs whose codes are its negatives, in the order of the method; none without a query.
    pub of_pairs: Vec<Vec<usize>>,
    /// Candidates that were left out as they may answer the query.
    pub left_out: usize,
}

/// Looks for negatives of all pairs. `on_pairs` is called with the number of further pairs that are done.
///
/// # Errors
/// When the method cannot be prepared, or a model fails.
pub fn mine(
    pairs: &[Pair<'_>],
    method: &Method,
    load: &LoadModel<'_>,
    judge: &dyn Embedder,
    options: Options,
    on_pairs: &mut dyn FnMut(usize),
) -> Result<Negatives, EvalError> {
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, pair) in pairs.iter().enumerate() {
        groups.entry(pair.group).or_default().push(number);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort_unstable();
    let mut answers: HashMap<String, HashSet<String>> = HashMap::new();
    for pair in pairs.iter().filter(|pair| asks(pair)) {
        answers.entry(key(pair.query)).or_default().insert(key(pair.code));
    }
    let mut found = Negatives { of_pairs: vec![Vec::new(); pairs.len()], left_out: 0 };
    for group in groups {
        // Each code once, by the first pair that has it.
        let mut seen = HashSet::new();
        let codes: Vec<usize> =
            group.iter().copied().filter(|&number| seen.insert(key(pairs[number].code))).collect();
        let asking: Vec<usize> = group.iter().copied().filter(|&number| asks(&pairs[number])).collect();
        if !asking.is_empty() && codes.len() > 1 {
            group_negatives(pairs, &codes, &asking, &answers, (method, load, judge, options), &mut found)?;
        }
        on_pairs(group.len());
    }
    Ok(found)
}

type MiningSetup<'a> = (&'a Method, &'a LoadModel<'a>, &'a dyn Embedder, Options);

fn group_negatives(
    pairs: &[Pair<'_>],
    codes: &[usize],
    asking: &[usize],
    answers: &HashMap<String, HashSet<String>>,
    (method, load, judge, options): MiningSetup<'_>,
    found: &mut Negatives,
) -> Result<(), EvalError> {
    let document =
        |(at, &number): (usize, &usize)| Document::new(at.to_string(), pairs[number].code.to_owned());
    let documents: Vec<Document> = codes.iter().enumerate().map(document).collect();
    let scorer = method.prepare(documents[..].into(), load, &mut |_| {})?.scorer;
    let text = |&number: &usize| Query { id: number.to_string(), text: pairs[number].query.to_owned() };
    let queries: Vec<Query> = asking.iter().map(text).collect();
    let ranked = scorer.best(&queries.iter().collect::<Vec<_>>(), options.depth)?;

    let texts: Vec<&str> = codes.iter().map(|&number| pairs[number].code).collect();
    let of_codes = embed_many(judge, Side::Document, &texts, CHUNK, |_| {})?;
    let texts: Vec<&str> = asking.iter().map(|&number| pairs[number].query).collect();
    let of_queries = embed_many(judge, Side::Query, &texts, CHUNK, |_| {})?;
    let place: HashMap<String, usize> =
        codes.iter().enumerate().map(|(at, &number)| (key(pairs[number].code), at)).collect();
    let row = |at: usize| &of_codes.values[at * of_codes.dimension..][..of_codes.dimension];
    for ((&number, of_query), ranked) in asking.iter().zip(of_queries.rows()).zip(ranked) {
        let cosine = |at: usize| row(at).iter().zip(of_query).map(|(a, b)| a * b).sum::<f32>();
        let own = place[&key(pairs[number].code)];
        let maximum = options.maximum_share * cosine(own);
        let known = &answers[&key(pairs[number].query)];
        for candidate in ranked {
            let at = candidate.position;
            if known.contains(&key(pairs[codes[at]].code)) {
                continue;
            }
            if cosine(at) > maximum {
                found.left_out += 1;
                continue;
            }
            found.of_pairs[number].push(codes[at]);
            if found.of_pairs[number].len() == options.count {
                break;
            }
        }
    }
    Ok(())
}

fn asks(pair: &Pair<'_>) -> bool {
    !pair.query.trim().is_empty()
}

/// A text whatever its white space.
fn key(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_embed::EmbedError;

    use super::*;
    use crate::method::ModelName;
    use crate::method::tests::TestEmbedder;

    fn mined(pairs: &[Pair<'_>], options: Options) -> Negatives {
        // A text is as far along the first axis as it has letters `a`.
        let letters = TestEmbedder {
            id: "letters",
            query: |_| [1.0, 0.0],
            document: |text| [text.matches('a').count() as f32 / 10.0, 0.0],
        };
        let load = |_: ModelName<'_>| -> Result<Arc<dyn Embedder>, EmbedError> { unreachable!() };
        let mut done = 0;
        let found = mine(pairs, &Method::Bm25, &load, &letters, options, &mut |n| done += n).unwrap();
        assert_eq!(done, pairs.len());
        found
    }

    #[test]
    fn negatives_rank_high_and_do_not_answer() {
        let pair = |query, code, group| Pair { query, code, group };
        let pairs = [
            pair("sort list", "sort list aaaaa", "one"),
            // Answers the same query.
            pair("sort list", "sort  list b", "one"),
            // As close as the own code of the first pair, but not to that of the third.
            pair("sort tree", "sort list tree aaaaaa", "one"),
            pair("", "list aa", "one"),
            // The same code twice.
            pair("", "list  aa", "one"),
            pair("", "list nothing", "one"),
            pair("", "sort list of another", "two"),
        ];
        let options = Options { count: 2, depth: 10, maximum_share: 0.95 };
        let Negatives { of_pairs, left_out } = mined(&pairs, options);
        assert_eq!(of_pairs[0], [3, 5]);
        // Nothing is closer than its own code, which has no `a`.
        assert_eq!(of_pairs[1], [5]);
        assert_eq!(of_pairs[2], [0, 1]);
        assert!(of_pairs[3..].iter().all(Vec::is_empty));
        assert_eq!(left_out, 3);
        assert_eq!(mined(&pairs, Options { count: 1, ..options }).of_pairs[0], [3]);
        // The best two answer the query.
        assert!(mined(&pairs, Options { depth: 2, ..options }).of_pairs[0].is_empty());
        assert_eq!(mined(&pairs, Options { maximum_share: 10.0, ..options }).of_pairs[0], [2, 3]);
    }
}
