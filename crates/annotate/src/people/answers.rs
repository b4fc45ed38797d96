//! What systems or data sets answer to the same queries, for ratings of lists and for preferences.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use quarry_corpus::dataset;
use quarry_corpus::formats::{Holds, Record};

use super::form::{Answers, Side};
use crate::digest::digest;
use crate::error::AnnotateError;

/// Which answers are shown.
#[derive(Clone, Debug)]
pub struct AnswersOptions {
    /// A BEIR folder that says what the ids in runs and judgements stand for.
    pub benchmark: Option<PathBuf>,
    /// The split of judgements in folders.
    pub split: String,
    /// Results of each system for a query; those with fewer show what they have.
    pub top: usize,
    /// At most so many queries.
    pub at_most: Option<usize>,
    /// What is drawn with: the queries and their order, which side is left, and which one of a data set's answers to
    /// a query is shown where there are more than `top`.
    pub seed: u64,
}

/// What a system answers to a query.
#[derive(Debug, Default)]
struct Answered {
    query_id: String,
    query: String,
    codes: Vec<Code>,
}

#[derive(Debug)]
struct Code {
    /// Of a ranking.
    score: Option<f64>,
    id: String,
    text: String,
}

/// All that one system answers, by the text of the query without its white space.
type System = HashMap<String, Answered>;

/// What one or two systems answer to the queries that all of them answer: files of pairs (those with label 0 or less
/// are no answers), BEIR folders, or TREC runs of a benchmark. Queries to which both sides show the same are left out.
/// The number of those, and the answers in the order drawn.
///
/// # Errors
/// When a file cannot be read or is wrong, or there is no query that all answer.
pub fn answers(
    systems: &[(String, PathBuf)],
    options: &AnswersOptions,
) -> Result<(usize, Vec<Answers>), AnnotateError> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let texts = match &options.benchmark {
        Some(folder) => Texts::read(folder, &options.split)?,
        None => Texts::default(),
    };
    let read = |(_, path): &(String, PathBuf)| read_system(path, &texts, options);
    let mut read = systems.iter().map(read).collect::<Result<Vec<System>, _>>()?;
    let Some((first, others)) = read.split_first_mut() else { return Ok((0, Vec::new())) };
    // Sorted before anything is drawn: the order of a map differs from run to run.
    let mut keys: Vec<String> =
        first.keys().filter(|key| others.iter().all(|other| other.contains_key(*key))).cloned().collect();
    keys.sort();
    random.shuffle(&mut keys);
    let (mut same, mut found) = (0, Vec::new());
    for key in keys {
        if options.at_most.is_some_and(|most| found.len() >= most) {
            break;
        }
        let Some(Answered { query_id, query, codes }) = first.remove(&key) else { continue };
        let others = others.iter_mut().filter_map(|other| Some(other.remove(&key)?.codes));
        let mut sides: Vec<Side> = systems
            .iter()
            .zip(std::iter::once(codes).chain(others))
            .map(|((system, _), codes)| Side {
                system: system.clone(),
                codes: shown(codes, options.top, &mut random),
            })
            .collect();
        if let [a, b] = sides.as_slice()
            && a.codes.iter().map(|code| squeezed(code)).eq(b.codes.iter().map(|code| squeezed(code)))
        {
            same += 1;
            continue;
        }
        random.shuffle(&mut sides);
        found.push(Answers { query_id, query, sides });
    }
    if found.is_empty() {
        let path = systems.first().map(|(_, path)| path.clone()).unwrap_or_default();
        return Err(AnnotateError::Plan {
            path,
            problem: format!(
                "expected queries that every side answers, with different answers, found none ({same} with the same \
                 answers); give runs the --benchmark that their ids are of, and check that the sides hold the same \
                 queries"
            ),
        });
    }
    Ok((same, found))
}

/// The codes that are shown: the best of a ranking, equal scores by id, descending, as trec_eval has them; of a data
/// set's answers, which have no order, some that are drawn. Equal texts are shown once.
fn shown(mut codes: Vec<Code>, top: usize, random: &mut fastrand::Rng) -> Vec<String> {
    random.shuffle(&mut codes);
    let score = |code: &Code| code.score.unwrap_or(f64::NEG_INFINITY);
    if codes.iter().any(|code| code.score.is_some()) {
        codes.sort_by(|a, b| score(b).total_cmp(&score(a)).then_with(|| b.id.cmp(&a.id)));
    }
    let mut seen = HashSet::new();
    codes.retain(|code| seen.insert(squeezed(&code.text)));
    codes.truncate(top);
    codes.into_iter().map(|code| code.text).collect()
}

/// A text without its white space.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What the ids of a benchmark stand for.
#[derive(Debug, Default)]
struct Texts {
    queries: HashMap<String, String>,
    documents: HashMap<String, String>,
}

impl Texts {
    fn read(folder: &Path, split: &str) -> Result<Self, AnnotateError> {
        let mut texts = Self::default();
        let mut sources = dataset::sources(&[folder.to_owned()], "", split)?;
        sources.retain(|source| matches!(source.format.holds, Holds::Documents | Holds::Queries));
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

/// What one system answers.
fn read_system(path: &Path, texts: &Texts, options: &AnswersOptions) -> Result<System, AnnotateError> {
    let mut own = Texts::default();
    let mut system = System::new();
    let mut unknown: Option<String> = None;
    let mut add = |query_id: String, query: &str, code: Code| {
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
                let code = Code { score: None, id: pair.code.id.unwrap_or_default(), text: pair.code.text };
                add(query_id, &pair.query.text, code);
                return Ok(());
            }
            Record::Judgement(judgement) if judgement.grade > 0 => {
                (judgement.query, judgement.document, None)
            }
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
            (Some(query), Some(text)) => add(query_id, query, Code { score, id, text: text.clone() }),
            (None, _) => drop(unknown.get_or_insert(format!("the query {query_id:?}"))),
            (_, None) => drop(unknown.get_or_insert(format!("the document {id:?}"))),
        }
        Ok(())
    })?;
    match unknown {
        None => Ok(system),
        Some(unknown) => Err(AnnotateError::Plan {
            path: path.to_owned(),
            problem: format!(
                "expected the text of {unknown}, found none; name with --benchmark the BEIR folder that the ids are of"
            ),
        }),
    }
}
