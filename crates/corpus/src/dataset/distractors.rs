//! Candidates to rank: what answers a query among others that do not, as GenCodeSearchNet ranks (section 5.2).

use crate::formats::beir::Benchmark;
use crate::formats::huggingface::TOP_RANKED;
use crate::formats::write::{Staged, Writer};
use crate::formats::{FormatError, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Where the distractors of a query come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// All documents that do not answer it, each as likely as any other.
    Uniform,
    /// For the first query as [`Self::Uniform`], for each other what the query before it was ranked among: so does
    /// the released script for CodeT5+, which overwrites the list of codes in its loop. Distractors are then earlier
    /// records, often of the same repository.
    Rolling,
}

/// Choices of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Distractors a query.
    pub count: usize,
    /// Where they come from.
    pub sampling: Sampling,
    /// Whether documents with the text of one that answers the query are no distractors for it: with them not even
    /// a perfect system can rank it first.
    pub without_twins: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The candidates of each query that something answers, in the order of the queries: ids of the distractors, then of
/// what answers it, so that no order among equal scores favours the latter. `path` is named in errors.
///
/// # Errors
/// When a query has fewer documents to draw from than are asked for.
pub fn sample(
    benchmark: &Benchmark,
    options: Options,
    path: &Path,
) -> Result<Vec<(String, Vec<String>)>, FormatError> {
    let documents = &benchmark.documents;
    let positions: HashMap<&str, usize> =
        documents.iter().enumerate().map(|(position, document)| (document.id.as_str(), position)).collect();
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut pool: Vec<usize> = (0..documents.len()).collect();
    let mut lists = Vec::new();
    for query in &benchmark.queries {
        let Some(grades) = benchmark.qrels.get(&query.id) else { continue };
        let relevant: Vec<usize> = grades
            .iter()
            .filter(|(_, grade)| **grade >= 1)
            .filter_map(|(document, _)| positions.get(document.as_str()).copied())
            .collect();
        if relevant.is_empty() {
            continue;
        }
        let texts: HashSet<&str> =
            relevant.iter().map(|position| documents[*position].text.as_str()).collect();
        let may_distract = |position: &usize| {
            let is_twin = || texts.contains(documents[*position].text.as_str());
            !relevant.contains(position) && (!options.without_twins || !is_twin())
        };
        let Some(mut candidates) = draw(&pool, options.count, may_distract, &mut random) else {
            return Err(FormatError::File {
                path: path.to_owned(),
                expected: format!("{} documents that do not answer {:?}", options.count, query.id),
                found: format!("{} documents to draw from", pool.len()),
                remedy: "ask for fewer with --count".into(),
            });
        };
        candidates.extend(relevant);
        let ids = candidates.iter().map(|position| documents[*position].id.clone()).collect();
        lists.push((query.id.clone(), ids));
        if options.sampling == Sampling::Rolling {
            pool = candidates;
        }
    }
    Ok(lists)
}

/// Writes candidates as JSON lines of MTEB's `top_ranked`, see [`TOP_RANKED`].
///
/// # Errors
/// When `out` is there already or cannot be written.
pub fn write(lists: &[(String, Vec<String>)], out: &Path) -> Result<(), FormatError> {
    let staged = Staged::new(out)?;
    let mut writer = Writer::create(&staged.path, &TOP_RANKED, TOP_RANKED.container, None)?;
    for (query, candidates) in lists {
        writer.write_values(&[query.clone().into(), Value::List(candidates.clone())])?;
    }
    writer.finish()?;
    staged.publish()
}

/// `count` different members of the pool that are admitted, each set of them as likely as any other.
fn draw(
    pool: &[usize],
    count: usize,
    admit: impl Fn(&usize) -> bool,
    random: &mut fastrand::Rng,
) -> Option<Vec<usize>> {
    // Few of many are drawn again and again until they are new and admitted; else all that are admitted are listed.
    if count < pool.len() / 4 {
        let mut drawn = Vec::with_capacity(count);
        let mut seen = HashSet::new();
        // Where nearly nothing is admitted this ends, and the list is made.
        for _ in 0..20 * count {
            if drawn.len() == count {
                break;
            }
            let position = pool[random.usize(..pool.len())];
            if seen.insert(position) && admit(&position) {
                drawn.push(position);
            }
        }
        if drawn.len() == count {
            return Some(drawn);
        }
    }
    let mut admitted: Vec<usize> = pool.iter().copied().filter(|position| admit(position)).collect();
    if admitted.len() < count {
        return None;
    }
    for place in 0..count {
        let other = random.usize(place..admitted.len());
        admitted.swap(place, other);
    }
    admitted.truncate(count);
    Some(admitted)
}
