//! Splits by query, or by groups of queries that are nearly equal or share an answer, so that no query or group is
//! in two parts. Queries with the same number of positives are distributed over the parts in proportion to their
//! sizes. Parts may be limited to positives.

use super::compared::{ComparedCode, ComparedQuery};
use super::rows::{row_writer, writable};
use super::{key, normalized};
use crate::formats::source::Source;
use crate::formats::write::Staged;
use crate::formats::{FormatError, Record, RecordKind};
use quarry_text::counted;
use quarry_text::near::NearIndex;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::path::Path;

/// Allowed weights of parts, within which their sums and quotients are exact enough.
pub const WEIGHTS: RangeInclusive<f64> = 1e-9..=1e9;

#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name, a file name without extension.
    pub name: String,
    /// Its size relative to those of the other parts, within [`WEIGHTS`].
    pub weight: f64,
    /// True if it only has queries with a positive, and only their positives, like the development and test parts
    /// of CoSQA's search data.
    pub positives_only: bool,
}

/// Queries that stay in one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryGrouping {
    /// Those that are nearly equal or share an answer, directly or through others.
    #[default]
    Related,
    /// Only those with the same text.
    Equal,
}

/// Similarity from which two answers count as the same.
const NEAR: f64 = 0.8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSize {
    pub name: String,
    pub queries: usize,
    pub rows: usize,
    /// Number of omitted rows of its queries that are not matches, because the part only has positives.
    pub left_out: usize,
}

/// Splits files of pairs or judgments by query. Queries with the same text (runs of white space as one space) count
/// as one; queries of judgments are identified by their texts if there are files of queries among `sources`,
/// otherwise by their ids. For each number of positives, queries, or groups of them that stay `together`, are shuffled by
/// `seed` and distributed by weight; remainders go to the part that is furthest below its share so far. Rows are copied
/// unchanged, in order.
///
/// `out` becomes a directory with `PART.ENDING` for one file that is split, and `PART/FILE` for several. Files of
/// queries and documents belong to all parts and are not written.
///
/// # Errors
/// An invalid row, nothing to split, an encoding in which rows cannot be written, or when `out` exists.
pub fn split(
    sources: &[Source],
    parts: &[Part],
    (seed, together): (u64, QueryGrouping),
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
    let mut queries = Queries { together, ..Queries::default() };
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
                row_writer(&path, source)
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
            writers[part].write_text(row.line.text)
        })?;
        for writer in writers {
            writer.finish()?;
        }
    }
    if let Some(empty) = sizes.iter().find(|size| size.queries == 0) {
        let n_answered = queries.positives.values().filter(|(positives, _)| *positives > 0).count();
        let n_queries = counted(assigned.len(), "query");
        return Err(FormatError::File {
            path: first.path.clone(),
            expected: format!("enough queries for the part {}", empty.name),
            found: format!("{n_queries} in all, of which {n_answered} with a positive"),
            remedy: "increase the size of the part, make fewer parts, do not limit it to positives, or keep only equal \
                     queries together"
                .into(),
        });
    }
    staged.publish()?;
    Ok(sizes)
}

fn is_match(record: &Record) -> bool {
    match record {
        Record::Pair(pair) => pair.label.is_some_and(|label| label >= 1),
        Record::Judgment(judgment) => judgment.grade >= 1,
        _ => false,
    }
}

#[derive(Default)]
struct Queries {
    together: QueryGrouping,
    /// Hash of the text by hash of the id, for texts in separate files.
    texts: HashMap<u128, u128>,
    /// The same texts, compared with others as soon as a judgment or pair refers to them.
    compared: HashMap<u128, ComparedQuery>,
    /// Documents in separate files, by hash of the id.
    documents: HashMap<u128, ComparedCode>,
    /// Number of positives, and index among all queries, by hash of the text.
    positives: HashMap<u128, (usize, usize)>,
    groups: Groups,
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
        let groups = self.together == QueryGrouping::Related;
        match record {
            Record::Query(query) => {
                let text = key(&normalized(&query.text));
                self.texts.insert(key(&query.id), text);
                if groups {
                    self.compared.insert(text, ComparedQuery::new(&query.text));
                }
                return;
            }
            Record::Document(document) if groups => {
                let code = ComparedCode::new(&document.full_text(), document.language_name().as_deref());
                self.documents.insert(key(&document.id), code);
                return;
            }
            _ => {}
        }
        let Some(query) = self.key_of(record) else { return };
        let next = self.positives.len();
        let (number, is_new) = match self.positives.entry(query) {
            Entry::Occupied(mut known) => {
                known.get_mut().0 += usize::from(is_match(record));
                (known.get().1, false)
            }
            Entry::Vacant(free) => {
                free.insert((usize::from(is_match(record)), next));
                (next, true)
            }
        };
        if groups {
            if is_new {
                self.groups.parents.push(number);
            }
            self.relate(record, query, number, is_new);
        }
    }

    /// Puts a query into a group with those that are nearly equal or share an answer.
    fn relate(&mut self, record: &Record, query: u128, number: usize, is_new: bool) {
        match record {
            Record::Pair(pair) => {
                if is_new {
                    self.groups.relate_query(&ComparedQuery::new(&pair.query.text), number);
                }
                if pair.label != Some(0) {
                    let own = ComparedCode::new(&pair.code.text, pair.language_name().as_deref());
                    let in_file = pair.code.id.as_deref().and_then(|id| self.documents.get(&key(id)));
                    let is_elsewhere = pair.code.text.is_empty();
                    self.groups.relate_code(in_file.filter(|_| is_elsewhere).unwrap_or(&own), number);
                }
            }
            Record::Judgment(judgment) => {
                if let Some(query) = self.compared.get(&query).filter(|_| is_new) {
                    self.groups.relate_query(query, number);
                }
                if judgment.grade >= 1 {
                    let document = key(&judgment.document);
                    self.groups.relate_hash(document as u64, number);
                    if let Some(code) = self.documents.get(&document) {
                        self.groups.relate_code(code, number);
                    }
                }
            }
            _ => {}
        }
    }

    fn deal(&mut self, parts: &[Part], seed: u64) -> HashMap<u128, usize> {
        // The iteration order of a hash map differs in each run.
        let mut queries: Vec<(usize, usize, u128)> = self
            .positives
            .iter()
            .map(|(query, (positives, position))| (*position, *positives, *query))
            .collect();
        queries.sort_unstable();
        if self.together == QueryGrouping::Equal {
            let positives: Vec<usize> = queries.iter().map(|(_, positives, _)| *positives).collect();
            return queries.iter().map(|(_, _, query)| *query).zip(deal(&positives, parts, seed)).collect();
        }
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let of_query: Vec<usize> = queries
            .iter()
            .map(|(position, positives, _)| {
                let root = self.groups.root(*position);
                let number = *numbers.entry(root).or_insert(groups.len());
                if number == groups.len() {
                    groups.push(Group { positives: 0, size: 0 });
                }
                groups[number].positives += positives;
                groups[number].size += 1;
                number
            })
            .collect();
        let assigned = deal_groups(&groups, parts, seed);
        queries.iter().zip(of_query).map(|((_, _, query), group)| (*query, assigned[group])).collect()
    }
}

/// Queries that belong together, as a forest over their numbers.
struct Groups {
    parents: Vec<usize>,
    /// A query by hash of its text, of its words, or of an answer.
    hashes: HashMap<u64, usize>,
    near: NearIndex,
    of_near: Vec<usize>,
}

impl Default for Groups {
    fn default() -> Self {
        let (parents, hashes, near, of_near) = (Vec::new(), HashMap::new(), NearIndex::new(NEAR), Vec::new());
        Self { parents, hashes, near, of_near }
    }
}

impl Groups {
    fn root(&mut self, mut query: usize) -> usize {
        while self.parents[query] != query {
            self.parents[query] = self.parents[self.parents[query]];
            query = self.parents[query];
        }
        query
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    fn relate_hash(&mut self, hash: u64, query: usize) {
        let other = *self.hashes.entry(hash).or_insert(query);
        self.join(other, query);
    }

    fn relate_query(&mut self, compared: &ComparedQuery, query: usize) {
        compared.hashes().for_each(|hash| self.relate_hash(hash, query));
    }

    fn relate_code(&mut self, code: &ComparedCode, query: usize) {
        code.hashes().for_each(|hash| self.relate_hash(hash, query));
        for shingles in code.shingles(false) {
            match self.near.find_shingles(shingles) {
                Some(other) => self.join(self.of_near[other], query),
                None => {
                    self.near.find_or_add_shingles(shingles.clone());
                    self.of_near.push(query);
                }
            }
        }
    }
}

struct Group {
    positives: usize,
    size: usize,
}

/// The part of each query, by its number of positives, distributed as by [`split`].
pub fn deal(positives: &[usize], parts: &[Part], seed: u64) -> Vec<usize> {
    let groups: Vec<Group> =
        positives.iter().map(|positives| Group { positives: *positives, size: 1 }).collect();
    deal_groups(&groups, parts, seed)
}

/// The part of each group. Large groups come first, because small ones can fill the remaining space.
fn deal_groups(groups: &[Group], parts: &[Part], seed: u64) -> Vec<usize> {
    let mut strata: BTreeMap<(Reverse<usize>, usize), Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        strata.entry((Reverse(group.size), group.positives)).or_default().push(number);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut assigned = vec![0; groups.len()];
    let (mut sizes, mut n_assigned) = (vec![0_usize; parts.len()], 0);
    for ((Reverse(size), positives), mut stratum) in strata {
        random.shuffle(&mut stratum);
        // Queries without a positive are excluded from positives-only parts, unless all parts are of that kind.
        let takes = |part: &Part| positives > 0 || !part.positives_only;
        let has_place = parts.iter().any(takes);
        let weight = |part: &Part| if takes(part) || !has_place { part.weight } else { 0.0 };
        let total: f64 = parts.iter().map(weight).sum();
        let shares: Vec<f64> = parts.iter().map(|part| weight(part) / total).collect();
        let mut counts: Vec<usize> =
            shares.iter().map(|share| (share * stratum.len() as f64).floor() as usize).collect();
        n_assigned += stratum.len() * size;
        while counts.iter().sum::<usize>() < stratum.len() {
            let lack =
                |part: usize| shares[part] * n_assigned as f64 - (sizes[part] + counts[part] * size) as f64;
            // The first of ties.
            let neediest = (0..parts.len())
                .rev()
                .filter(|part| shares[*part] > 0.0)
                .max_by(|a, b| lack(*a).total_cmp(&lack(*b)));
            counts[neediest.unwrap_or_default()] += 1;
        }
        let mut rest = stratum.into_iter();
        for (part, count) in counts.into_iter().enumerate() {
            sizes[part] += count * size;
            rest.by_ref().take(count).for_each(|group| assigned[group] = part);
        }
    }
    assigned
}
