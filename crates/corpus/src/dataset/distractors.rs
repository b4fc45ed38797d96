//! Candidates to rank and codes to match, drawn with exactly the random numbers of GenCodeSearchNet's scripts
//! (sections 4 and 5.2; github.com/drndr/gencodesearchnet).

use super::key;
use super::python_random::PythonRandom;
use crate::formats::beir::Benchmark;
use crate::formats::gecs::PAIRS;
use crate::formats::huggingface::TOP_RANKED;
use crate::formats::write::{Staged, Writer};
use crate::formats::{Document, FormatError, Pair, Query, Record, Side, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::slice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// All documents that do not answer it, with equal probability: `random.sample(others, count)`, as in the
    /// GenBench task and the notebook for Ada 2.
    Uniform,
    /// Like [`Self::Uniform`] for the first query; for each other query, drawn from the candidates of the previous
    /// query, without the position of the query's own (0-based) number. The released script for CodeT5+
    /// does so: its loop overwrites the list of codes that it draws from. Distractors are then mostly earlier records,
    /// often of the same repository, and for the first `count` queries may include the very document that answers.
    Rolling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistractorOptions {
    pub count: usize,
    pub sampling: Sampling,
    /// If true, excludes documents with the same text as an answer to the query, because even a perfect method
    /// cannot rank the answer before them. Ignored by [`Sampling::Rolling`].
    pub without_twins: bool,
    pub seed: u64,
}

/// Indices of the distractors of each query, in the order in which they are drawn, from 0 up to `n_documents`;
/// `answers` contains the indices of the documents that answer each query, ascending. For records of a text and its
/// code these are `[[0], [1], ...]`, and the result is that of the released scripts, which seed once with 42 and
/// continue from file to file: pass the same `random` for the next file.
///
/// # Errors
/// The index of the first query with too few documents to draw from, and their number.
pub fn draw(
    n_documents: usize,
    answers: &[Vec<usize>],
    count: usize,
    sampling: Sampling,
    random: &mut PythonRandom,
) -> Result<Vec<Vec<usize>>, (usize, usize)> {
    // The candidates of the previous query: its answers, then its distractors.
    let mut before: Option<Vec<usize>> = None;
    let next = |(number, own): (usize, &Vec<usize>)| {
        let pool = before.take();
        let length = pool.as_ref().map_or(n_documents, Vec::len);
        let left_out = match (sampling, number < length) {
            (Sampling::Uniform, _) => own.as_slice(),
            (Sampling::Rolling, true) => slice::from_ref(&number),
            (Sampling::Rolling, false) => &[],
        };
        let n_others = length - left_out.len();
        let drawn = random.sample(n_others, count).ok_or((number, n_others))?;
        let drawn: Vec<usize> = drawn
            .into_iter()
            .map(|index| nth_excluding(index, left_out))
            .map(|index| pool.as_ref().map_or(index, |pool| pool[index]))
            .collect();
        if sampling == Sampling::Rolling {
            before = Some([own.as_slice(), &drawn].concat());
        }
        Ok(drawn)
    };
    answers.iter().enumerate().map(next).collect()
}

/// The n-th number (0-based) that is not in the ascending list `left_out`.
fn nth_excluding(n: usize, left_out: &[usize]) -> usize {
    left_out.iter().fold(n, |number, out| number + usize::from(*out <= number))
}

/// For each record, another record whose code serves as a negative: drawn with `random.choice` from the list of all
/// others, in which each record moves to the end after its turn, as in the scripts for AdvTest and the languages of
/// CodeSearchNet. `answers` contains for each record the indices of the records whose codes answer its query,
/// ascending and including itself; for records of a text and its code, these are `[[0], [1], ...]`. `None` if a
/// record has nothing to draw from.
pub fn mismatches(answers: &[Vec<usize>], random: &mut PythonRandom) -> Option<Vec<usize>> {
    let n_records = answers.len();
    let other = |(record, answers): (usize, &Vec<usize>)| {
        // The list is a rotation of the numbers that ends with the record, so nothing has to be moved.
        let first = record + 1;
        let rotated = |position: usize| (position + n_records - first) % n_records;
        let mut left_out: Vec<usize> = answers.iter().map(|position| rotated(*position)).collect();
        left_out.sort_unstable();
        let drawn = random.below(n_records - left_out.len())?;
        Some((first + nth_excluding(drawn, &left_out)) % n_records)
    };
    answers.iter().enumerate().map(other).collect()
}

/// Like [`mismatches`], but drawn from the records whose code has a different text from the answers, in their
/// order, as in the script for StatCodeSearch. `None` if a record has nothing to draw from because all codes are
/// the same.
pub fn different_mismatches(
    codes: &[&str],
    answers: &[Vec<usize>],
    random: &mut PythonRandom,
) -> Option<Vec<usize>> {
    let twins = positions_by_text(codes.iter().copied());
    let other = |answers: &Vec<usize>| {
        let same = answers.iter().flat_map(|position| &twins[&key(codes[*position])]);
        let mut same: Vec<usize> = same.copied().collect();
        same.sort_unstable();
        same.dedup();
        Some(nth_excluding(random.below(codes.len() - same.len())?, &same))
    };
    answers.iter().map(other).collect()
}

/// Indices of each text, ascending.
fn positions_by_text<'t>(texts: impl Iterator<Item = &'t str>) -> HashMap<u128, Vec<usize>> {
    let mut positions: HashMap<u128, Vec<usize>> = HashMap::new();
    for (position, text) in texts.enumerate() {
        positions.entry(key(text)).or_default().push(position);
    }
    positions
}

/// The candidates of each query with an answer, in the order of the queries: ids of the distractors, then of the
/// answers, so that breaking ties by order does not favor the answers. `path` is for error messages.
///
/// # Errors
/// When a query has fewer documents to draw from than requested.
pub fn sample(
    benchmark: &Benchmark,
    options: DistractorOptions,
    path: &Path,
) -> Result<Vec<(String, Vec<String>)>, FormatError> {
    let documents = &benchmark.documents;
    let positions: HashMap<&str, usize> =
        documents.iter().enumerate().map(|(position, document)| (document.id.as_str(), position)).collect();
    let twins = match options.without_twins {
        true => positions_by_text(documents.iter().map(|document| document.text.as_str())),
        false => HashMap::new(),
    };
    let (mut queries, mut answers, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for query in &benchmark.queries {
        let grades = benchmark.qrels.get(&query.id).into_iter().flatten();
        let mut relevant: Vec<usize> = grades
            .filter(|(_, grade)| **grade >= 1)
            .filter_map(|(document, _)| positions.get(document.as_str()).copied())
            .collect();
        if relevant.is_empty() {
            continue;
        }
        relevant.sort_unstable();
        let same_texts = relevant.iter().filter_map(|position| twins.get(&key(&documents[*position].text)));
        let mut out: Vec<usize> = same_texts.flatten().chain(&relevant).copied().collect();
        out.sort_unstable();
        out.dedup();
        queries.push(&query.id);
        answers.push(relevant);
        left_out.push(out);
    }
    let own = if options.sampling == Sampling::Rolling { &answers } else { &left_out };
    let mut random = PythonRandom::new(options.seed);
    let drawn = draw(documents.len(), own, options.count, options.sampling, &mut random).map_err(
        |(number, n_others)| FormatError::File {
            path: path.to_owned(),
            expected: format!("{} documents that do not answer {:?}", options.count, queries[number]),
            found: format!("{n_others} documents to draw from"),
            remedy: "ask for fewer with --count".into(),
        },
    )?;
    let ids = |positions: Vec<usize>| positions.into_iter().map(|position| documents[position].id.clone());
    let lists = queries.into_iter().zip(drawn.into_iter().zip(answers));
    Ok(lists.map(|(query, (drawn, own))| (query.clone(), ids(drawn).chain(ids(own)).collect())).collect())
}

/// The minimum and maximum number of candidates of a query. They differ if queries have different numbers of
/// positives, each of which is among the candidates.
pub fn candidate_counts(lists: &[(String, Vec<String>)]) -> (usize, usize) {
    let counts = || lists.iter().map(|(_, candidates)| candidates.len());
    (counts().min().unwrap_or_default(), counts().max().unwrap_or_default())
}

/// The number of queries with a repeated document among their candidates, which [`Sampling::Rolling`] can produce.
pub fn n_with_repeats(lists: &[(String, Vec<String>)]) -> usize {
    let repeats = |ids: &[String]| ids.iter().collect::<HashSet<_>>().len() < ids.len();
    lists.iter().filter(|(_, candidates)| repeats(candidates)).count()
}

/// Pairs to classify: each query with each document that answers it (label 1), and then with a drawn one (label 0).
/// `draw` gets the texts of the answering documents and the indices of those that answer each query; see
/// [`different_mismatches`] and [`mismatches`]. `path` is for error messages.
///
/// # Errors
/// When there is nothing to draw from.
pub fn to_match(
    benchmark: &Benchmark,
    draw: impl FnOnce(&[&str], &[Vec<usize>]) -> Option<Vec<usize>>,
    path: &Path,
) -> Result<Vec<Pair>, FormatError> {
    let documents: HashMap<&str, &Document> =
        benchmark.documents.iter().map(|document| (document.id.as_str(), document)).collect();
    let mut matches = Vec::new();
    for query in &benchmark.queries {
        let grades = benchmark.qrels.get(&query.id).into_iter().flatten();
        let relevant = grades.filter(|(_, grade)| **grade >= 1);
        matches.extend(relevant.filter_map(|(id, _)| Some((query, *documents.get(id.as_str())?))));
    }
    let codes: Vec<&str> = matches.iter().map(|(_, code)| code.text.as_str()).collect();
    let drawn = draw(&codes, &positions_of_answers(&matches)).ok_or_else(|| FormatError::File {
        path: path.to_owned(),
        expected: "pairs with different codes to draw from".into(),
        found: format!("{} pairs", codes.len()),
        remedy: "name more data".into(),
    })?;
    let pair = |query: &Query, code: &Document, label| Pair {
        query: Side::new(Some(query.id.clone()), query.text.clone(), None),
        code: Side::new(Some(code.id.clone()), code.text.clone(), None),
        label: Some(label),
        ..Pair::default()
    };
    let both = |((query, code), other): (&(&Query, &Document), usize)| {
        [pair(query, code, 1), pair(query, matches[other].1, 0)]
    };
    Ok(matches.iter().zip(drawn).flat_map(both).collect())
}

/// For each match, the ascending indices of all matches whose document answers its query.
fn positions_of_answers(matches: &[(&Query, &Document)]) -> Vec<Vec<usize>> {
    let mut documents: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, (query, document)) in matches.iter().enumerate() {
        documents.entry(&query.id).or_default().push(&document.id);
        positions.entry(&document.id).or_default().push(position);
    }
    let answers = |(query, _): &(&Query, &Document)| {
        let all = documents[query.id.as_str()].iter().flat_map(|document| &positions[document]);
        let mut all: Vec<usize> = all.copied().collect();
        all.sort_unstable();
        all
    };
    matches.iter().map(answers).collect()
}

/// Writes pairs in GenCodeSearchNet's format, see [`PAIRS`].
pub fn write_pairs(pairs: Vec<Pair>, out: &Path) -> Result<(), FormatError> {
    let staged = Staged::new(out)?;
    let mut writer = Writer::create(&staged.path, &PAIRS, PAIRS.container, None)?;
    for pair in pairs {
        writer.write(&Record::Pair(Box::new(pair)))?;
    }
    writer.finish()?;
    staged.publish()
}

/// Writes candidates as JSON lines of MTEB's `top_ranked`, see [`TOP_RANKED`].
pub fn write(lists: &[(String, Vec<String>)], out: &Path) -> Result<(), FormatError> {
    let staged = Staged::new(out)?;
    let mut writer = Writer::create(&staged.path, &TOP_RANKED, TOP_RANKED.container, None)?;
    for (query, candidates) in lists {
        writer.write_values(&[query.clone().into(), Value::List(candidates.clone())])?;
    }
    writer.finish()?;
    staged.publish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(n: usize) -> Vec<Vec<usize>> {
        (0..n).map(|number| vec![number]).collect()
    }

    // The expected values were printed by Python 3.11, with the lines in the comments.

    #[test]
    fn uniform_draws_are_those_of_the_released_task() {
        // random.seed(42); items = list(range(8))
        // [random.sample(items[:i] + items[i+1:], 3) for i in items]
        let drawn = draw(8, &pairs(8), 3, Sampling::Uniform, &mut PythonRandom::new(42)).unwrap();
        assert_eq!(
            drawn,
            [
                vec![6, 1, 7],
                vec![6, 3, 2],
                vec![1, 7, 0],
                vec![6, 7, 5],
                vec![0, 5, 3],
                vec![0, 7, 6],
                vec![1, 7, 4],
                vec![4, 0, 6]
            ]
        );
    }

    #[test]
    fn rolling_draws_are_those_of_the_released_script() {
        // random.seed(42); codes, chunks = list(range(9)), []
        // for i, code in enumerate(list(codes)):
        //     rest = codes[:i] + codes[i + 1:]
        //     distractors = random.sample(rest, 3)
        //     codes = [code] + distractors
        //     chunks.append(distractors)
        let drawn = draw(9, &pairs(9), 3, Sampling::Rolling, &mut PythonRandom::new(42)).unwrap();
        assert_eq!(
            drawn,
            [
                vec![2, 1, 6],
                vec![1, 0, 6],
                vec![1, 6, 1],
                vec![6, 1, 2],
                vec![3, 2, 1],
                vec![3, 2, 4],
                vec![3, 2, 4],
                vec![3, 4, 2],
                vec![7, 2, 3]
            ]
        );
    }

    #[test]
    fn mismatches_are_those_of_the_released_scripts() {
        // random.seed(42); indices = list(range(9)); drawn = []
        // for i in range(9):
        //     indices.remove(i); drawn.append(random.choice(indices)); indices.append(i)
        assert_eq!(mismatches(&pairs(9), &mut PythonRandom::new(42)).unwrap(), [2, 2, 7, 7, 8, 8, 8, 0, 6]);
        // random.seed(42); codes = list("abacabd")
        // [random.choice([j for j in range(7) if codes[j] != code]) for code in codes]
        let codes = ["a", "b", "a", "c", "a", "b", "d"];
        let drawn = different_mismatches(&codes, &pairs(7), &mut PythonRandom::new(42)).unwrap();
        assert_eq!(drawn, [1, 0, 5, 1, 3, 2, 5]);
        assert_eq!(mismatches(&pairs(1), &mut PythonRandom::new(1)), None);
        assert_eq!(mismatches(&[], &mut PythonRandom::new(1)), Some(Vec::new()));
        assert_eq!(different_mismatches(&["a", "a"], &pairs(2), &mut PythonRandom::new(1)), None);
    }

    #[test]
    fn no_mismatch_is_an_answer_of_the_same_query() {
        // Records 0, 1 and 4 have the same query, 2 and 3 others.
        let answers = [vec![0, 1, 4], vec![0, 1, 4], vec![2], vec![3], vec![0, 1, 4]];
        let codes = ["a", "b", "b", "c", "d"];
        for seed in 0..100 {
            let drawn = mismatches(&answers, &mut PythonRandom::new(seed)).unwrap();
            for (record, drawn) in drawn.iter().enumerate() {
                assert!(!answers[record].contains(drawn), "seed {seed}: {record} gets {drawn}");
            }
            let drawn = different_mismatches(&codes, &answers, &mut PythonRandom::new(seed)).unwrap();
            assert_eq!((drawn[0], drawn[1], drawn[4]), (3, 3, 3), "the code of 2 is that of an answer, 1");
        }
        assert_eq!(mismatches(&[vec![0, 1], vec![0, 1]], &mut PythonRandom::new(1)), None);
    }

    #[test]
    fn too_few_are_named_with_their_number() {
        let mut random = PythonRandom::new(1);
        assert_eq!(draw(3, &[vec![0], vec![0, 2]], 2, Sampling::Uniform, &mut random), Err((1, 1)));
    }
}
