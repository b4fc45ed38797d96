//! Queries from the documentation of the pool, its history, or a file.

pub(crate) mod authoring;
pub(crate) mod categories;
pub(crate) mod category;
pub(crate) mod english;
pub(crate) mod found;
pub(crate) mod history;
pub(crate) mod intent;
pub(crate) mod issues;
pub(crate) mod mask;
pub(crate) mod order;
pub(crate) mod styles;
pub(crate) mod written;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::slice;

use quarry_corpus::dataset;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{Record, RecordKind};
use quarry_corpus::messages;
use quarry_corpus::pairs::question;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::outputs::QUERIES;
use crate::plan::{Plan, QueryKind, QueryPlan};
use crate::queries::authoring::first_drawn;
use crate::queries::english::is_english;
use crate::queries::found::{Excluded, Found};
use crate::queries::intent::Intents;
use crate::record::{CodeKind, CodeRecord, QueryRecord, id_of, normalized_hash};
use crate::sources::pool::POOL;
use crate::step::{Key, Step, Watch, content_hash};

/// Incremented when the same input and parameters lead to other queries.
const VERSION: u32 = 6;
const MERGE_VERSION: u32 = 1;

const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Queries that a filter removed, each with the rule that matched.
const EXCLUDED: &str = "excluded.jsonl";
/// The first queries that each filter removed.
const EXAMPLES: &str = "examples.json";

/// Number of examples of what each filter removed, and their maximum length in characters.
const MAX_EXAMPLES: usize = 3;
const MAX_EXAMPLE_CHARS: usize = 80;

#[derive(Serialize)]
struct Identity {
    plan: QueryPlan,
    seed: Option<u64>,
    /// Hash of the file of queries.
    content: Option<String>,
    /// The rules of filters that are data.
    rules: Option<String>,
}

pub(crate) fn step(
    plan: &Plan,
    queries: &QueryPlan,
    pool: &Key,
    history: Option<&Key>,
) -> Result<Step, BuildError> {
    let content = match &queries.path {
        Some(path) => Some(content_hash(path)?),
        None => None,
    };
    let rules = rules_of(queries);
    let seed = queries.maximum.map(|_| plan.seed);
    let of_pool = (queries.kind == QueryKind::Docstrings).then_some(pool);
    let inputs: Vec<&Key> = of_pool.into_iter().chain(history).collect();
    let identity = Identity { plan: without_paths(queries), seed, content, rules };
    Ok(Step::new(format!("queries {}", queries.name), VERSION, &identity, &inputs))
}

/// A plan as it is part of a step's key, which depends on the content of files, not on their paths.
pub(crate) fn without_paths(plan: &QueryPlan) -> QueryPlan {
    QueryPlan { path: None, ..plan.clone() }
}

pub(crate) fn write(
    plan: &Plan,
    queries: &QueryPlan,
    (pool, history): (&Path, Option<&Path>),
    step: &Path,
    watch: Watch<'_>,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let (mut found, mut left_out) = match history {
        Some(history) => history::read_found(history)?,
        None => Default::default(),
    };
    match (queries.kind, &queries.path) {
        (QueryKind::Docstrings, _) => jsonl::for_each(&pool.join(POOL), &mut |record: CodeRecord, _| {
            if let Some(text) = question_of(&record, queries) {
                found.add(&text, Some(record.id));
            }
            Ok(())
        })?,
        (QueryKind::Issues, Some(path)) if history.is_none() => {
            left_out = history::titles(path, &[], pool, watch, &mut found)?;
        }
        (QueryKind::File, Some(path)) => read_file(path, &mut |text| found.add(text, None))?,
        (QueryKind::File, None) | (QueryKind::Commits | QueryKind::Issues | QueryKind::Written, _) => {}
    }
    finish(queries, plan.seed, found, (left_out.counts, left_out.excluded), step)
}

/// The query that the documentation of a code is, if it is plausible as one.
pub(crate) fn question_of(record: &CodeRecord, plan: &QueryPlan) -> Option<String> {
    let base_name = record.name.rsplit('.').next().unwrap_or_default();
    match record.kind {
        // The title of a question, and a comment with the code below it, are used unchanged as queries.
        CodeKind::Snippet | CodeKind::Block => Some(record.documentation.clone()),
        _ => question(&record.documentation, base_name, plan.extent),
    }
}

/// The rules of the filters used by a source of queries, if they are data.
pub(crate) fn rules_of(plan: &QueryPlan) -> Option<String> {
    let mut rules: Vec<String> = (plan.filters.iter())
        .filter_map(|filter| match filter.as_str() {
            "intent" => Some(Intents::builtin_text().to_owned()),
            "mask" => Some(mask::RULES_TEXT.to_owned()),
            _ => None,
        })
        .collect();
    if plan.is_untrusted() {
        rules.extend([messages::RULES_TEXT.to_owned(), mask::RULES_TEXT.to_owned()]);
    }
    (!rules.is_empty()).then(|| rules.concat())
}

/// Filters and samples the queries of a source, and writes them with the removed ones, including those removed
/// before; `counts` has these already.
pub(crate) fn finish(
    plan: &QueryPlan,
    seed: u64,
    found: Found,
    (mut counts, mut excluded): (BTreeMap<String, u64>, Vec<Excluded>),
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let n_read = found.n_read;
    let filters = Filters::new(plan);
    let is_masked = plan.has_filter("mask") || plan.is_untrusted();
    let found = if is_masked { found.masked(&mut counts) } else { found };
    let mut kept = Vec::new();
    for (text, codes) in found.queries {
        match filters.rule_against(&text) {
            Some((filter, rule)) => {
                *counts.entry(format!("removed by {filter}")).or_default() += 1;
                excluded.push(Excluded { text, filter, rule });
            }
            None => kept.push((text, codes)),
        }
    }
    let mut writer = Writer::create(&step.join(EXCLUDED))?;
    for excluded in &excluded {
        writer.write(excluded)?;
    }
    writer.finish()?;
    jsonl::write_json(&step.join(EXAMPLES), &examples_of(&excluded))?;
    let kept = first_drawn(kept, |(text, _): &(String, _)| text, plan.maximum, seed);
    counts.insert("read".into(), n_read);
    counts.insert("kept".into(), kept.len() as u64);
    let mut writer = Writer::create(&step.join(QUERIES))?;
    for (text, codes) in kept {
        writer.write(&QueryRecord { id: id_of(&[&text]), text, origin: plan.name.clone(), codes })?;
    }
    writer.finish()?;
    Ok(counts)
}

fn examples_of(excluded: &[Excluded]) -> BTreeMap<&str, Vec<String>> {
    let mut examples: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Excluded { text, filter, .. } in excluded.iter().filter(|excluded| !excluded.text.is_empty()) {
        let examples = examples.entry(filter).or_default();
        if examples.len() < MAX_EXAMPLES {
            examples.push(text.chars().take(MAX_EXAMPLE_CHARS).collect());
        }
    }
    examples
}

/// Reads from a step's directory the first queries that each filter removed.
pub(crate) fn examples(step: &Path) -> Result<BTreeMap<String, Vec<String>>, BuildError> {
    jsonl::read_json(&step.join(EXAMPLES))
}

pub(crate) struct Filters {
    /// In lower case.
    containing: Vec<String>,
    english: bool,
    intents: Option<&'static Intents>,
}

impl Filters {
    pub(crate) fn new(plan: &QueryPlan) -> Self {
        Self {
            containing: plan.containing.iter().map(|word| word.to_lowercase()).collect(),
            english: plan.has_filter("english"),
            intents: plan.has_filter("intent").then(Intents::builtin),
        }
    }

    /// The filter that removes a query, as it is counted, and the rule by which it does.
    pub(crate) fn rule_against(&self, text: &str) -> Option<(String, String)> {
        let lower = text.to_lowercase();
        if !self.containing.is_empty() && !self.containing.iter().any(|word| lower.contains(word)) {
            return Some(("containing".into(), format!("contains none of {}", self.containing.join(", "))));
        }
        if self.english && !is_english(text) {
            return Some(("english".into(), "is not in English".into()));
        }
        if let Some(finding) = self.intents.and_then(|intents| intents.find(text)) {
            let rule = format!("{}: {}", finding.category, finding.keyword);
            return Some((format!("intent {}", finding.category), rule));
        }
        None
    }
}

/// As many queries as asked for, in an order that a seed decides; more of them begin with fewer.
pub fn draw_queries(mut queries: Vec<String>, maximum: usize, seed: u64) -> Vec<String> {
    queries.sort_by_cached_key(|query| (xxh3_64_with_seed(query.as_bytes(), seed), query.clone()));
    queries.truncate(maximum);
    queries
}

/// Checks that the file of queries and the histories that a source names can be read.
pub(crate) fn check(plan: &Plan, queries: &QueryPlan) -> Result<(), BuildError> {
    history::open(plan, queries)?;
    match (&queries.path, queries.kind) {
        (None, _) => Ok(()),
        (Some(path), QueryKind::Issues) => issues::read(path, &mut |_| Ok(())),
        (Some(path), _) => check_file(path),
    }
}

/// Returns whether a file can contain queries, judging by its first record; a text file is read completely.
fn check_file(path: &Path) -> Result<(), BuildError> {
    if is_text(path) {
        read_text(path)?;
        return Ok(());
    }
    let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
    let holds = |source: &Source| matches!(source.format.holds, RecordKind::Queries | RecordKind::Pairs);
    if sources.iter().any(holds) {
        return Ok(());
    }
    let formats: Vec<&str> = sources.iter().map(|source| source.format.name).collect();
    let problem = format!(
        "expected a file of queries or pairs, found {}; name another, or write one query per line into a .txt",
        formats.join(", ")
    );
    Err(BuildError::Line { path: path.to_owned(), line: 1, problem })
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "txt")
}

fn read_text(path: &Path) -> Result<String, BuildError> {
    let bytes = quarry_files::read_regular(path, MAX_TEXT_BYTES).map_err(BuildError::read(path))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = quarry_files::invalid_line(&error);
        let problem = "expected text in UTF-8, found other bytes; convert the file".to_owned();
        BuildError::Line { path: path.to_owned(), line, problem }
    })
}

/// The queries of a file, in order: one per line of a text file (`.txt`), otherwise those of a data set format.
///
/// # Errors
/// When it cannot be read, or is not in a format of queries or pairs.
pub fn read_file(path: &Path, each: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    if is_text(path) {
        read_text(path)?.lines().for_each(each);
        return Ok(());
    }
    let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
    dataset::for_each(&sources, &mut |_, record| {
        match record {
            Record::Query(query) => each(&query.text),
            Record::Pair(pair) => each(&pair.query.text),
            _ => {}
        }
        Ok(())
    })?;
    Ok(())
}

pub(crate) fn merge_step(sources: &[&Key]) -> Step {
    Step::new("merge", MERGE_VERSION, &(), sources)
}

/// Writes the queries of all sources without duplicate texts; a query's codes are those of all sources that have it.
pub(crate) fn merge(sources: &[PathBuf], step: &Path) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut merged: Vec<QueryRecord> = Vec::new();
    let mut places: HashMap<u128, usize> = HashMap::new();
    let mut n_repeated = 0;
    for source in sources {
        jsonl::for_each(&source.join(QUERIES), &mut |query: QueryRecord, _| {
            let next = merged.len();
            let place = *places.entry(normalized_hash(&query.text.to_lowercase())).or_insert(next);
            if place == next {
                merged.push(query);
            } else {
                n_repeated += 1;
                merged[place].codes.extend(query.codes);
            }
            Ok(())
        })?;
    }
    if merged.is_empty() {
        let problem = "expected queries, found none: no documentation is a question, no message describes what code \
                       does, no answer of the model could be read, or the filters removed everything; `excluded.jsonl` \
                       in the directories of the steps `queries` lists which and why; loosen the filters, or name a \
                       file of queries";
        return Err(BuildError::step("queries", problem));
    }
    let mut writer = Writer::create(&step.join(QUERIES))?;
    for query in &mut merged {
        query.codes.sort_unstable();
        query.codes.dedup();
        writer.write(query)?;
    }
    writer.finish()?;
    Ok([("queries".to_owned(), merged.len() as u64), ("repeated".to_owned(), n_repeated)].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_against_queries_are_named() {
        let filters = Filters {
            containing: vec!["python".to_owned()],
            english: false,
            intents: Some(Intents::builtin()),
        };
        let rule = |text| filters.rule_against(text);
        assert_eq!(rule("Python reverse a list"), None);
        assert_eq!(rule("reverse a list").unwrap().0, "containing");
        let (name, why) = rule("what is a python list").unwrap();
        assert_eq!((name.as_str(), why.as_str()), ("intent conceptual", "conceptual: what is"));
    }
}
