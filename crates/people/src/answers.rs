//! The answers of systems or data sets to the same queries, for ratings of lists and for preferences.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use quarry_corpus::dataset;
use quarry_corpus::formats::{Record, RecordKind};
use quarry_files::digest;
use quarry_judge::JudgeError;
use quarry_judge::ledger::{Answers, Side};

#[derive(Clone, Debug)]
pub struct AnswersOptions {
    /// A BEIR directory with the texts for the ids in runs and judgments.
    pub benchmark: Option<PathBuf>,
    /// The split of judgments in directories.
    pub split: String,
    /// Maximum number of results shown per system and query.
    pub top: usize,
    pub at_most: Option<usize>,
    /// Random seed: for choosing and ordering the queries, choosing the left side, and choosing among a data set's
    /// answers to a query if there are more than `top`.
    pub seed: u64,
}

#[derive(Debug, Default)]
struct SystemAnswer {
    query_id: String,
    query: String,
    codes: Vec<RankedCode>,
}

#[derive(Clone, Debug)]
struct RankedCode {
    score: Option<f64>,
    id: String,
    text: String,
}

/// All answers of one system, by the query's text without white space.
type SystemAnswers = HashMap<String, SystemAnswer>;

/// Collects the answers of one or two systems to the queries that all of them answer, from files of pairs (pairs with
/// label 0 or less are not answers), BEIR directories, or TREC runs of a benchmark. Of the answers of a data set,
/// those that the other side does not show come first; queries for which both sides can only show the same are
/// omitted. Returns the number of omitted queries, and the answers in random order.
///
/// # Errors
/// When a file cannot be read or is invalid, or no query is answered by all.
pub fn answers(
    systems: &[(String, PathBuf)],
    options: &AnswersOptions,
) -> Result<(usize, Vec<Answers>), JudgeError> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let texts = match &options.benchmark {
        Some(directory) => BenchmarkTexts::read(directory, &options.split)?,
        None => BenchmarkTexts::default(),
    };
    let read = |(_, path): &(String, PathBuf)| read_system(path, &texts, options);
    let mut read = systems.iter().map(read).collect::<Result<Vec<SystemAnswers>, _>>()?;
    let Some((first, others)) = read.split_first_mut() else { return Ok((0, Vec::new())) };
    // Sorted before any random choice, because the order of a map differs from run to run.
    let mut keys: Vec<String> =
        first.keys().filter(|key| others.iter().all(|other| other.contains_key(*key))).cloned().collect();
    keys.sort();
    random.shuffle(&mut keys);
    let (mut same, mut found) = (0, Vec::new());
    for key in keys {
        if options.at_most.is_some_and(|most| found.len() >= most) {
            break;
        }
        let Some(SystemAnswer { query_id, query, codes }) = first.remove(&key) else { continue };
        let others = others.iter_mut().filter_map(|other| Some(other.remove(&key)?.codes));
        let in_order: Vec<Vec<RankedCode>> =
            std::iter::once(codes).chain(others).map(|codes| ordered(codes, &mut random)).collect();
        let Some(shown) = shown(&in_order, options.top) else {
            same += 1;
            continue;
        };
        let side = |((system, _), codes): (&(String, PathBuf), Vec<&RankedCode>)| Side {
            system: system.clone(),
            codes: codes.into_iter().map(|code| code.text.clone()).collect(),
        };
        let mut sides: Vec<Side> = systems.iter().zip(shown).map(side).collect();
        random.shuffle(&mut sides);
        found.push(Answers { query_id, query, sides });
    }
    if found.is_empty() {
        let path = systems.first().map(|(_, path)| path.clone()).unwrap_or_default();
        return Err(JudgeError::Plan {
            path,
            problem: format!(
                "expected queries that every side answers, with different answers, found none ({same} with the same \
                 answers); name with --benchmark the data set that the ids of runs refer to, and check that the sides \
                 contain the same queries"
            ),
        });
    }
    Ok((same, found))
}

/// Distinct codes in display order: ranked codes by descending score, equal scores by descending id as in trec_eval;
/// the answers of a data set, which have no order, shuffled.
fn ordered(mut codes: Vec<RankedCode>, random: &mut fastrand::Rng) -> Vec<RankedCode> {
    random.shuffle(&mut codes);
    let score = |code: &RankedCode| code.score.unwrap_or(f64::NEG_INFINITY);
    if is_ranking(&codes) {
        codes.sort_by(|a, b| score(b).total_cmp(&score(a)).then_with(|| b.id.cmp(&a.id)));
    }
    let mut seen = HashSet::new();
    codes.retain(|code| seen.insert(squeezed(&code.text)));
    codes
}

fn is_ranking(codes: &[RankedCode]) -> bool {
    codes.iter().any(|code| code.score.is_some())
}

/// The codes that each side shows: its first `top`, but data sets prefer codes that the other side does not show.
/// `None` if two sides can only show the same.
fn shown(sides: &[Vec<RankedCode>], top: usize) -> Option<Vec<Vec<&RankedCode>>> {
    let first = |codes| select(codes, top, &[]);
    let [a, b] = sides else { return Some(sides.iter().map(|codes| first(codes)).collect()) };
    let show = [first(a), select(b, top, &first(a))];
    let show = if is_same(&show) { [select(a, top, &show[1]), first(b)] } else { show };
    (!is_same(&show)).then(|| show.into())
}

fn is_same([a, b]: &[Vec<&RankedCode>; 2]) -> bool {
    let texts = |codes: &[&RankedCode]| codes.iter().map(|code| squeezed(&code.text)).collect::<Vec<_>>();
    texts(a) == texts(b)
}

/// The first `top` codes of a side; ranked codes regardless of what the other side shows.
fn select<'c>(codes: &'c [RankedCode], top: usize, other: &[&RankedCode]) -> Vec<&'c RankedCode> {
    let of_other: HashSet<String> = other.iter().map(|code| squeezed(&code.text)).collect();
    let mut selected: Vec<&RankedCode> = codes.iter().collect();
    if !is_ranking(codes) {
        // Stable, so that otherwise the random order remains.
        selected.sort_by_key(|code| of_other.contains(&squeezed(&code.text)));
    }
    selected.truncate(top);
    selected
}

/// A text without white space.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[derive(Debug, Default)]
struct BenchmarkTexts {
    queries: HashMap<String, String>,
    documents: HashMap<String, String>,
}

impl BenchmarkTexts {
    fn read(directory: &Path, split: &str) -> Result<Self, JudgeError> {
        let mut texts = Self::default();
        let mut sources = dataset::sources(&[directory.to_owned()], "", split)?;
        sources.retain(|source| matches!(source.format.holds, RecordKind::Documents | RecordKind::Queries));
        dataset::for_each(&sources, &mut |_, record| {
            texts.add(record);
            Ok(())
        })?;
        Ok(texts)
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Query(query) => drop(self.queries.insert(query.id, query.text)),
            Record::Document(document) => {
                let text = document.full_text().into_owned();
                self.documents.insert(document.id, text);
            }
            _ => {}
        }
    }
}

fn read_system(
    path: &Path,
    texts: &BenchmarkTexts,
    options: &AnswersOptions,
) -> Result<SystemAnswers, JudgeError> {
    let mut own = BenchmarkTexts::default();
    let mut system = SystemAnswers::new();
    let mut unknown: Option<String> = None;
    let mut add = |query_id: String, query: &str, code: RankedCode| {
        let answered = system.entry(squeezed(query)).or_default();
        if answered.codes.is_empty() {
            (answered.query_id, answered.query) = (query_id, query.to_owned());
        }
        answered.codes.push(code);
    };
    let sources = dataset::sources(&[path.to_owned()], "", &options.split)?;
    dataset::for_each(&sources, &mut |_, record| {
        let (query_id, id, score) = match record {
            Record::Pair(pair) if pair.label.is_none_or(|label| label > 0) => {
                let query_id = pair.query.id.unwrap_or_else(|| digest(&[&pair.query.text])[..16].to_owned());
                let code =
                    RankedCode { score: None, id: pair.code.id.unwrap_or_default(), text: pair.code.text };
                add(query_id, &pair.query.text, code);
                return Ok(());
            }
            Record::Judgment(judgment) if judgment.grade > 0 => (judgment.query, judgment.document, None),
            Record::Retrieved(found) => (found.query, found.document, Some(found.score)),
            Record::Query(_) | Record::Document(_) => {
                own.add(record);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let query = own.queries.get(&query_id).or_else(|| texts.queries.get(&query_id));
        let text = own.documents.get(&id).or_else(|| texts.documents.get(&id));
        match (query, text) {
            (Some(query), Some(text)) => add(query_id, query, RankedCode { score, id, text: text.clone() }),
            (None, _) => drop(unknown.get_or_insert(format!("the query {query_id:?}"))),
            (_, None) => drop(unknown.get_or_insert(format!("the document {id:?}"))),
        }
        Ok(())
    })?;
    match unknown {
        None => Ok(system),
        Some(unknown) => Err(JudgeError::Plan {
            path: path.to_owned(),
            problem: format!(
                "expected the text of {unknown}, found none; name with --benchmark the BEIR directory that the ids \
                 refer to"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_set(texts: &[&str]) -> Vec<RankedCode> {
        texts
            .iter()
            .map(|text| RankedCode { score: None, id: String::new(), text: (*text).to_owned() })
            .collect()
    }

    fn run(texts: &[&str]) -> Vec<RankedCode> {
        let scored = |(rank, text): (usize, &&str)| RankedCode {
            score: Some(-(rank as f64)),
            id: String::new(),
            text: (*text).to_owned(),
        };
        texts.iter().enumerate().map(scored).collect()
    }

    fn check(sides: [Vec<RankedCode>; 2], expected: Option<[&[&str]; 2]>) {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let sides = sides.each_ref().map(|codes| ordered(codes.clone(), &mut random));
            let found = shown(&sides, 1);
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    for (codes, expected) in found.iter().zip(expected) {
                        assert!(expected.contains(&codes[0].text.as_str()), "seed {seed}: {codes:?}");
                    }
                    assert_ne!(squeezed(&found[0][0].text), squeezed(&found[1][0].text), "seed {seed}");
                }
                _ => panic!("seed {seed}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn one_of_several_answers_is_drawn_that_differs_from_the_other_side() {
        check([data_set(&["a"]), data_set(&["a", "b", "c"])], Some([&["a"], &["b", "c"]]));
        check([data_set(&["a", "b"]), data_set(&[" a"])], Some([&["b"], &[" a"]]));
        check([data_set(&["a"]), data_set(&["a "])], None);
        check([data_set(&["a"]), data_set(&["b"])], Some([&["a"], &["b"]]));
    }

    #[test]
    fn what_a_run_ranks_first_is_shown_whatever_the_other_side_has() {
        check([run(&["a", "b"]), data_set(&["a", "c"])], Some([&["a"], &["c"]]));
        check([data_set(&["a", "c"]), run(&["a", "b"])], Some([&["c"], &["a"]]));
        check([run(&["a", "b"]), run(&["a", "c"])], None);
        check([run(&["a", "b"]), data_set(&["a"])], None);
    }
}
