//! Splits by query, so that no query is in two parts, with as many queries of each number of positives in
//! every part as its size asks for; parts may have positives only.

use super::rows::{RowWriter, writable};
use super::{key, normalized};
use crate::formats::source::Source;
use crate::formats::write::Staged;
use crate::formats::{FormatError, Record, RecordKind};
use quarry_text::counted;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::path::Path;

/// Allowed weights of parts: their sums and quotients are exact enough.
pub const WEIGHTS: RangeInclusive<f64> = 1e-9..=1e9;

/// A part of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name, a file name without extension.
    pub name: String,
    /// Its size relative to those of the other parts, within [`WEIGHTS`].
    pub weight: f64,
    /// Whether it has only queries with a positive, and only their positives, as the development and test parts of
    /// CoSQA's search data.
    pub positives_only: bool,
}

/// The size of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSize {
    /// Name.
    pub name: String,
    /// Number of queries.
    pub queries: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of rows of its queries that were left out, since they do not match and the part has positives only.
    pub left_out: usize,
}

/// Splits files of pairs or judgments by query. Queries with the same text (runs of white space as one space) count
/// as one; queries of judgments are identified by their texts if there are files of queries among `sources`,
/// otherwise by their ids. For each number of positives, queries are shuffled by `seed` and distributed by weight;
/// remainders go to the part that is furthest below its share so far. Rows are copied unchanged, in order.
///
/// `out` becomes a directory with `PART.ENDING` for one file that is split, and `PART/FILE` for several. Files of
/// queries and documents belong to all parts and are not written.
///
/// # Errors
/// An invalid row, nothing to split, an encoding in which rows cannot be written, or when `out` exists.
pub fn split(
    sources: &[Source],
    parts: &[Part],
    seed: u64,
    out: &Path,
) -> Result<Vec<PartSize>, FormatError> {
    let staged = Staged::new(out)?;
    let divided: Vec<&Source> = sources
        .iter()
        .filter(|source| matches!(source.format.holds, RecordKind::Pairs | RecordKind::Judgments))
        .collect();
    let Some(first) = divided.first() else {
        return Err(FormatError::File {
            path: sources.first().map(|source| source.path.clone()).unwrap_or_default(),
            expected: "a file of pairs or judgments to split".into(),
            found: "none".into(),
            remedy: "name one; `quarry data formats` lists the formats".into(),
        });
    };
    divided.iter().try_for_each(|source| writable(source))?;
    let mut queries = Queries::default();
    for source in sources {
        source.for_each(&mut |record| {
            queries.count(&record);
            Ok(())
        })?;
    }
    let assigned = queries.deal(parts, seed);
    let mut sizes: Vec<PartSize> = parts
        .iter()
        .map(|part| PartSize { name: part.name.clone(), queries: 0, rows: 0, left_out: 0 })
        .collect();
    for part in assigned.values() {
        sizes[*part].queries += 1;
    }
    for source in &divided {
        let name = source.path.file_name().unwrap_or_default().to_string_lossy();
        // The text after the first dot; compressed files are written uncompressed.
        let ending = name.trim_end_matches(".gz").split_once('.').map_or("", |(_, ending)| ending).to_owned();
        let mut writers = parts
            .iter()
            .map(|part| {
                let path = if divided.len() == 1 {
                    staged.path.join(&part.name).with_extension(&ending)
                } else {
                    staged.path.join(&part.name).join(name.trim_end_matches(".gz"))
                };
                RowWriter::create(&path, source)
            })
            .collect::<Result<Vec<_>, _>>()?;
        source.for_each_row(&mut |row| {
            let row = row?;
            let (mut part, mut is_positive) = (None, false);
            (source.format.read)(&row, &mut |record| {
                is_positive |= is_match(&record);
                part = part.or_else(|| assigned.get(&queries.key_of(&record)?).copied());
                Ok(())
            })?;
            let part = part.unwrap_or_default();
            if parts[part].positives_only && !is_positive {
                sizes[part].left_out += 1;
                return Ok(());
            }
            sizes[part].rows += 1;
            writers[part].write(&row)
        })?;
        writers.into_iter().try_for_each(RowWriter::finish)?;
    }
    if let Some(empty) = sizes.iter().find(|size| size.queries == 0) {
        let n_answered = queries.positives.values().filter(|(positives, _)| *positives > 0).count();
        let n_queries = counted(assigned.len(), "query");
        return Err(FormatError::File {
            path: first.path.clone(),
            expected: format!("enough queries for the part {}", empty.name),
            found: format!("{n_queries} in all, of which {n_answered} with a positive"),
            remedy: "increase the size of the part, make fewer parts, or do not limit it to positives".into(),
        });
    }
    staged.publish()?;
    Ok(sizes)
}

/// Whether a record is a positive pair or judgment.
fn is_match(record: &Record) -> bool {
    match record {
        Record::Pair(pair) => pair.label.is_some_and(|label| label >= 1),
        Record::Judgment(judgment) => judgment.grade >= 1,
        _ => false,
    }
}

#[derive(Default)]
struct Queries {
    /// Hash of the text by hash of the id, for texts in separate files.
    texts: HashMap<u128, u128>,
    /// Number of positives, and index among all queries, by hash of the text.
    positives: HashMap<u128, (usize, usize)>,
}

impl Queries {
    fn key_of(&self, record: &Record) -> Option<u128> {
        match record {
            Record::Pair(pair) => Some(key(&normalized(&pair.query.text))),
            Record::Judgment(judgment) => {
                let id = key(&judgment.query);
                Some(self.texts.get(&id).copied().unwrap_or(id))
            }
            _ => None,
        }
    }

    fn count(&mut self, record: &Record) {
        if let Record::Query(query) = record {
            self.texts.insert(key(&query.id), key(&normalized(&query.text)));
            return;
        }
        let Some(query) = self.key_of(record) else { return };
        let position = self.positives.len();
        let count = match self.positives.entry(query) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert((0, position)),
        };
        count.0 += usize::from(is_match(record));
    }

    /// The part of each query.
    fn deal(&self, parts: &[Part], seed: u64) -> HashMap<u128, usize> {
        // The order of a hash map differs in each run.
        let mut queries: Vec<(usize, usize, u128)> = self
            .positives
            .iter()
            .map(|(query, (positives, position))| (*position, *positives, *query))
            .collect();
        queries.sort_unstable();
        let positives: Vec<usize> = queries.iter().map(|(_, positives, _)| *positives).collect();
        queries.iter().map(|(_, _, query)| *query).zip(deal(&positives, parts, seed)).collect()
    }
}

/// The part of each query, by its number of positives, distributed as by [`split`].
#[must_use]
pub fn deal(positives: &[usize], parts: &[Part], seed: u64) -> Vec<usize> {
    let mut strata: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (query, positives) in positives.iter().enumerate() {
        strata.entry(*positives).or_default().push(query);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut assigned = vec![0; positives.len()];
    let (mut sizes, mut n_assigned) = (vec![0_usize; parts.len()], 0);
    for (positives, mut queries) in strata {
        random.shuffle(&mut queries);
        // Queries without a positive are kept out of parts for positives, unless all parts are such.
        let takes = |part: &Part| positives > 0 || !part.positives_only;
        let has_place = parts.iter().any(takes);
        let weight = |part: &Part| if takes(part) || !has_place { part.weight } else { 0.0 };
        let total: f64 = parts.iter().map(weight).sum();
        let shares: Vec<f64> = parts.iter().map(|part| weight(part) / total).collect();
        let mut counts: Vec<usize> =
            shares.iter().map(|share| (share * queries.len() as f64).floor() as usize).collect();
        n_assigned += queries.len();
        while counts.iter().sum::<usize>() < queries.len() {
            let lack = |part: usize| shares[part] * n_assigned as f64 - (sizes[part] + counts[part]) as f64;
            // The first of ties.
            let neediest = (0..parts.len())
                .rev()
                .filter(|part| shares[*part] > 0.0)
                .max_by(|a, b| lack(*a).total_cmp(&lack(*b)));
            counts[neediest.unwrap_or_default()] += 1;
        }
        let mut rest = queries.into_iter();
        for (part, count) in counts.into_iter().enumerate() {
            sizes[part] += count;
            rest.by_ref().take(count).for_each(|query| assigned[query] = part);
        }
    }
    assigned
}
