//! The pool: the code that is kept, and what was removed and why.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use quarry_corpus::dataset::compared::{layout_hash, without_comments};
use quarry_source::{hide_names, language_called, language_named};
use quarry_text::near::NearIndex;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl::{self, RandomReader, Writer, read_json, write_json};
use crate::plan::{Documentation, PoolPlan};
use crate::queries::mask;
use crate::record::CodeRecord;
use crate::sources::filter::{Filter, SNIPPETS, kind_of_snippet};
use crate::sources::license::is_allowed;
use crate::step::{Key, Step};

/// Incremented when the same records and parameters lead to another pool.
const VERSION: u32 = 4;

pub(crate) const POOL: &str = "pool.jsonl";
const REMOVED: &str = "removed.json";
const SHARES: &str = "shares.json";

pub(crate) const UNKNOWN_LICENSE: &str = "unknown";

/// The filter that removes code whose names cannot be hidden.
const NAMES: &str = "names";

/// Number of examples of each filter's removals.
const EXAMPLES: usize = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) filter: String,
    pub(crate) about: String,
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) sources: BTreeMap<String, u64>,
    /// The first removed codes, by location and name.
    pub(crate) examples: Vec<String>,
}

/// Number of codes in the pool by language, license and source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shares {
    pub(crate) languages: BTreeMap<String, u64>,
    pub(crate) licenses: BTreeMap<String, u64>,
    pub(crate) sources: BTreeMap<String, u64>,
    /// Sources whose code is mostly that of another source.
    pub(crate) forks: Vec<Fork>,
    /// Number of masked texts, by rule.
    pub(crate) masked: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Identity<'p> {
    plan: &'p PoolPlan,
    mask_rules: Option<&'p str>,
}

pub(crate) fn step(plan: &PoolPlan, sources: &[&Key]) -> Step {
    let identity = Identity { plan, mask_rules: plan.mask.then_some(mask::RULES_TEXT) };
    Step::new("pool", VERSION, &identity, sources)
}

/// Filters the records of sources in order, one at a time.
pub(crate) fn write(
    plan: &PoolPlan,
    sources: &[PathBuf],
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut filter = RecordFilter::new(plan);
    let mut writer = Writer::create(&step.join(POOL))?;
    for (number, source) in sources.iter().enumerate() {
        jsonl::for_each(source, &mut |record: CodeRecord, _| match filter.keep(record, number) {
            Some(record) => writer.write(&record),
            None => Ok(()),
        })?;
    }
    writer.finish()?;
    let RecordFilter { removed, n_read, n_kept, shares, by_kind, masked, forks, .. } = filter;
    let shares = Shares { forks: forks.found(), masked: masked.clone(), ..shares };
    write_summary(step, &removed, &shares)?;
    if n_kept == 0 {
        let counts: Vec<String> =
            removed.iter().map(|removed| format!("{} {}", removed.count, removed.filter)).collect();
        let problem = format!(
            "expected code that is kept, found none of {n_read}; removed by {}; loosen [pool], or name other sources",
            counts.join(", ")
        );
        return Err(BuildError::step("pool", problem));
    }
    let mut counts: BTreeMap<String, u64> = [("read".to_owned(), n_read), ("kept".to_owned(), n_kept)].into();
    counts
        .extend(removed.into_iter().map(|removed| (format!("removed by {}", removed.filter), removed.count)));
    counts.extend(by_kind.into_iter().map(|(kind, count)| (format!("snippets removed: {kind}"), count)));
    counts.extend(masked.into_iter().map(|(rule, count)| (format!("masked: {rule}"), count)));
    Ok(counts)
}

/// The records of a sample that a pool has, each with the index of its source.
pub(crate) fn kept(plan: &PoolPlan, records: Vec<(usize, CodeRecord)>) -> Vec<(usize, CodeRecord)> {
    let mut filter = RecordFilter::new(plan);
    records.into_iter().filter_map(|(source, record)| Some((source, filter.keep(record, source)?))).collect()
}

/// Decides which records are kept, and counts the others.
struct RecordFilter<'p> {
    plan: &'p PoolPlan,
    languages: Vec<&'static str>,
    filters: Vec<&'static Filter>,
    removed: Vec<Removed>,
    n_read: u64,
    n_kept: u64,
    shares: Shares,
    /// Number of removed snippets, by kind.
    by_kind: BTreeMap<&'static str, u64>,
    /// Number of masked texts, by rule.
    masked: BTreeMap<String, u64>,
    /// The source of the first code with each text, without comments.
    seen: HashMap<u128, usize>,
    near: Option<NearIndex>,
    of_near: Vec<usize>,
    forks: Forks,
}

impl<'p> RecordFilter<'p> {
    fn new(plan: &'p PoolPlan) -> Self {
        let named = plan.languages.iter().filter_map(|name| language_called(name));
        let languages: Vec<&str> = named.map(|language| language.name()).collect();
        let filters: Vec<&Filter> = plan.filters.iter().filter_map(|name| Filter::named(name)).collect();
        let mut removed: Vec<Removed> = Vec::new();
        if !languages.is_empty() {
            removed.push(Removed::new("languages", &format!("code in {}", languages.join(", "))));
        }
        if !plan.licenses.is_empty() {
            removed.push(Removed::new("licenses", &format!("code under {}", plan.licenses.join(", "))));
        }
        removed.extend(filters.iter().map(|filter| Removed::new(filter.name, filter.about)));
        if plan.hide_names {
            removed.push(Removed::new(
                NAMES,
                "functions whose names can be hidden, of languages with rules for it",
            ));
        }
        removed.push(Removed::new("empty", "code with content"));
        if !plan.keep_duplicates {
            let about = "code that is not repeated, ignoring comments and white space";
            removed.push(Removed::new("duplicates", about));
        }
        if let Some(similarity) = plan.near_duplicates {
            let about = format!(
                "code that shares less than {similarity} of its runs of three identifiers with other code"
            );
            removed.push(Removed::new("near duplicates", &about));
        }
        Self {
            plan,
            languages,
            filters,
            removed,
            n_read: 0,
            n_kept: 0,
            shares: Shares::default(),
            by_kind: BTreeMap::new(),
            masked: BTreeMap::new(),
            seen: HashMap::new(),
            near: plan.near_duplicates.map(NearIndex::new),
            of_near: Vec::new(),
            forks: Forks::default(),
        }
    }

    /// The record as stored in the pool; `None` if it is removed.
    fn keep(&mut self, mut record: CodeRecord, source: usize) -> Option<CodeRecord> {
        self.n_read += 1;
        self.forks.name(source, &record.source);
        if let Some(name) = self.removed_by(&mut record, source) {
            if let Some(removed) = self.removed.iter_mut().find(|removed| removed.filter == name) {
                removed.count(&record);
            }
            return None;
        }
        self.n_kept += 1;
        self.shares.count(&record);
        Some(record)
    }

    /// The filter that removes a record. The record's code is changed to that of the pool on the way.
    fn removed_by(&mut self, record: &mut CodeRecord, source: usize) -> Option<&'static str> {
        if !self.languages.is_empty() && !self.languages.contains(&record.language.as_str()) {
            return Some("languages");
        }
        if !self.plan.licenses.is_empty() && !is_allowed(record.license.as_deref(), &self.plan.licenses) {
            return Some("licenses");
        }
        if let Some(filter) = self.filters.iter().find(|filter| !filter.keeps(record)) {
            if let Some(kind) = kind_of_snippet(record).filter(|_| filter.name == SNIPPETS) {
                *self.by_kind.entry(kind.name()).or_default() += 1;
            }
            return Some(filter.name);
        }
        let whole = std::mem::take(&mut record.whole);
        if self.plan.documentation == Documentation::Kept {
            record.code = whole;
        }
        if self.plan.mask {
            for text in [&mut record.code, &mut record.documentation, &mut record.signature] {
                if let Cow::Owned(masked) = mask::masked(text, &mut self.masked) {
                    *text = masked;
                }
            }
        }
        if self.plan.hide_names {
            let language = language_named(&record.language);
            let hidden = language.and_then(|language| hide_names(language, &record.code));
            let Some(hidden) = hidden else { return Some(NAMES) };
            // The signature contains the names, too.
            (record.code, record.signature) = (hidden, String::new());
        }
        if record.code.trim().is_empty() {
            return Some("empty");
        }
        if self.plan.keep_duplicates {
            return None;
        }
        let bare = match language_named(&record.language) {
            Some(language) => Cow::Owned(without_comments(language, &record.code)),
            None => Cow::Borrowed(&*record.code),
        };
        match self.seen.entry(layout_hash(&bare)) {
            Entry::Occupied(first) => {
                self.forks.count(source, Some(*first.get()));
                return Some("duplicates");
            }
            Entry::Vacant(place) => place.insert(source),
        };
        if let Some(near) = &mut self.near {
            if let Some(number) = near.find_or_add(&bare) {
                self.forks.count(source, self.of_near.get(number).copied());
                return Some("near duplicates");
            }
            self.of_near.push(source);
        }
        self.forks.count(source, None);
        None
    }
}

/// Minimum share of a fork's code that is also in another source.
const FORK: f64 = 0.5;

#[derive(Default)]
struct Forks {
    names: Vec<String>,
    /// By source: the number of codes, and the number of those that each earlier source had.
    shared: BTreeMap<usize, (u64, BTreeMap<usize, u64>)>,
}

impl Forks {
    fn name(&mut self, source: usize, name: &str) {
        if self.names.len() <= source {
            self.names.resize(source + 1, String::new());
        }
        if self.names[source].is_empty() {
            name.clone_into(&mut self.names[source]);
        }
    }

    /// Records a code of a source, with the source that had it first.
    fn count(&mut self, source: usize, first: Option<usize>) {
        let (n_codes, shared) = self.shared.entry(source).or_default();
        *n_codes += 1;
        if let Some(first) = first.filter(|first| *first != source) {
            *shared.entry(first).or_default() += 1;
        }
    }

    fn found(&self) -> Vec<Fork> {
        let mut found = Vec::new();
        for (source, (n_codes, shared)) in &self.shared {
            if let Some((first, n_shared)) =
                shared.iter().max_by_key(|(first, count)| (**count, usize::MAX - **first))
                && *n_shared as f64 >= FORK * *n_codes as f64
            {
                let name = |source: usize| self.names.get(source).cloned().unwrap_or_default();
                let (source, of) = (name(*source), name(*first));
                found.push(Fork { source, of, shared: *n_shared, codes: *n_codes });
            }
        }
        found
    }
}

/// A source whose code is mostly that of another source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fork {
    pub(crate) source: String,
    /// The name of the other source.
    pub(crate) of: String,
    /// Number of codes of the first that are also in the second, exactly or nearly.
    pub(crate) shared: u64,
    pub(crate) codes: u64,
}

impl Removed {
    pub(crate) fn new(filter: &str, about: &str) -> Self {
        Self { filter: filter.to_owned(), about: about.to_owned(), ..Self::default() }
    }

    pub(crate) fn count(&mut self, record: &CodeRecord) {
        self.count += 1;
        *self.sources.entry(record.source.clone()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            let CodeRecord { source, path, start_line, name, .. } = record;
            self.examples.push(format!("{source}:{path}:{start_line} {name}"));
        }
    }
}

impl Shares {
    pub(crate) fn count(&mut self, record: &CodeRecord) {
        let license = record.license.clone().unwrap_or_else(|| UNKNOWN_LICENSE.to_owned());
        for (shares, name) in [
            (&mut self.languages, record.language.clone()),
            (&mut self.licenses, license),
            (&mut self.sources, record.source.clone()),
        ] {
            *shares.entry(name).or_default() += 1;
        }
    }
}

/// Reads what the filters of a pool removed, and what is left.
pub(crate) fn summary(step: &Path) -> Result<(Vec<Removed>, Shares), BuildError> {
    Ok((read_json(&step.join(REMOVED))?, read_json(&step.join(SHARES))?))
}

pub(crate) fn write_summary(step: &Path, removed: &[Removed], shares: &Shares) -> Result<(), BuildError> {
    write_json(&step.join(REMOVED), &removed)?;
    write_json(&step.join(SHARES), shares)
}

/// Finds the codes of a pool by id, without holding their texts in memory.
pub(crate) struct PoolReader {
    /// 0-based index and byte offset, by id.
    places: HashMap<u64, (u32, u64)>,
    file: RandomReader,
    /// Codes that are not in the pool, with the indices that follow.
    others: Vec<CodeRecord>,
}

impl PoolReader {
    pub(crate) fn open(step: &Path) -> Result<Self, BuildError> {
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        let path = step.join(POOL);
        let mut places = HashMap::new();
        jsonl::for_each(&path, &mut |record: Id, at| {
            let number = u32::try_from(places.len()).unwrap_or(u32::MAX);
            places.insert(number_of(&record.id), (number, at));
            Ok(())
        })?;
        Ok(Self { places, file: RandomReader::open(&path)?, others: Vec::new() })
    }

    pub(crate) fn add(&mut self, others: Vec<CodeRecord>) {
        self.others.extend(others);
    }

    /// The code with an id, with its 0-based index in the pool.
    pub(crate) fn get(&mut self, id: &str) -> Result<(usize, CodeRecord), BuildError> {
        let other = match self.places.get(&number_of(id)) {
            Some((number, at)) => return Ok((*number as usize, self.file.read(*at)?)),
            None => self.others.iter().position(|other| other.id == id),
        };
        match other {
            Some(other) => Ok((self.places.len() + other, self.others[other].clone())),
            None => Err(BuildError::step(
                "pool",
                format!(
                    "expected the code {id}, which is missing; remove the build's directory `steps` and build again"
                ),
            )),
        }
    }
}

/// The number whose digits are an id.
fn number_of(id: &str) -> u64 {
    u64::from_str_radix(id, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::function::{Origin, record_of_text, snippet_record};

    fn function(source: &str, code: &str) -> CodeRecord {
        let origin = Origin { source: source.into(), path: "a.py".into(), ..Origin::default() };
        record_of_text(&origin, language_named("python").unwrap(), code)
    }

    /// Names of the codes that a plan keeps, and the filters that removed the others.
    fn filtered(
        plan: &PoolPlan,
        records: &[(usize, CodeRecord)],
    ) -> (Vec<CodeRecord>, BTreeMap<String, u64>, Vec<Fork>) {
        let mut filter = RecordFilter::new(plan);
        let kept =
            records.iter().filter_map(|(source, record)| filter.keep(record.clone(), *source)).collect();
        let removed = filter.removed.iter().filter(|removed| removed.count > 0);
        let mut removed: BTreeMap<String, u64> =
            removed.map(|removed| (removed.filter.clone(), removed.count)).collect();
        removed.extend(filter.by_kind.iter().map(|(kind, count)| ((*kind).to_owned(), *count)));
        removed.extend(filter.masked);
        (kept, removed, filter.forks.found())
    }

    /// A function with many words, ending with the given one.
    fn long(name: &str, last: &str) -> String {
        let lines: String =
            (0..30).map(|n| format!("    value_{n} = compute_{n}(value_{n}, other_{n})\n")).collect();
        format!("def {name}(value):\n{lines}    return {last}\n")
    }

    #[test]
    fn near_duplicates_are_folded_and_forks_are_recognized() {
        let mut records = vec![
            (0, function("one", &long("first", "a"))),
            (0, function("one", "def small(x):\n    return x\n")),
            (1, function("two", &long("first", "b"))),
            (1, function("two", "def small(x):\n    return  x\n")),
            (1, function("two", "def own(x):\n    return g(x) * 2\n")),
            (2, function("three", "def other(y):\n    return y + 3\n")),
        ];
        let fork = Fork { source: "two".into(), of: "one".into(), shared: 2, codes: 3 };
        let plan = PoolPlan { near_duplicates: Some(0.8), ..PoolPlan::default() };
        let (kept, removed, forks) = filtered(&plan, &records);
        assert_eq!(kept.len(), 4);
        assert_eq!(removed, [("duplicates".into(), 1), ("near duplicates".into(), 1)].into());
        assert_eq!(forks, [fork]);
        // Without it only equal texts are duplicates, and a third is not a fork.
        let (kept, removed, forks) = filtered(&PoolPlan::default(), &records);
        assert_eq!((kept.len(), removed, forks), (5, [("duplicates".into(), 1)].into(), vec![]));
        records.iter_mut().for_each(|(_, record)| record.language = "go".into());
        let plan = PoolPlan { languages: vec!["python".into()], ..PoolPlan::default() };
        assert_eq!(filtered(&plan, &records).1, [("languages".into(), 6)].into());
        records[4].1.license = Some("MIT".into());
        records[5].1.license = Some("GPL-3.0-only".into());
        let plan = PoolPlan { licenses: vec!["permissive".into()], ..PoolPlan::default() };
        assert_eq!(filtered(&plan, &records).1, [("licenses".into(), 5)].into());
    }

    #[test]
    fn comments_and_documentation_make_no_other_code() {
        let commented =
            long("first", "a").replace("_7)\n", "_7)  # whatever it is that this line is about\n");
        let documented = commented.replace("(value):\n", "(value):\n    \"\"\"Compute all of it.\"\"\"\n");
        let near = documented.replace("return a", "return other");
        let records =
            [long("first", "a"), commented, documented, near].map(|code| (0, function("one", &code)));
        for documentation in [Documentation::Kept, Documentation::Removed] {
            let plan = PoolPlan { near_duplicates: Some(0.9), documentation, ..PoolPlan::default() };
            let (kept, removed, _) = filtered(&plan, &records);
            assert_eq!(kept.len(), 1);
            assert_eq!(removed, [("duplicates".into(), 2), ("near duplicates".into(), 1)].into());
        }
    }

    #[test]
    fn code_whose_names_cannot_be_hidden_is_removed() {
        let python = language_named("python").unwrap();
        let plan = PoolPlan { hide_names: true, ..PoolPlan::default() };
        let records = [
            (0, function("one", "def add(a, b):\n    return a + b\n")),
            // The same function with other names.
            (0, function("one", "def plus(c, d):\n    return c + d\n")),
            (0, snippet_record(&Origin::default(), python, "x = 1\n")),
        ];
        let (kept, removed, _) = filtered(&plan, &records);
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (kept[0].code.as_str(), kept[0].signature.as_str()),
            ("def func(arg_0, arg_1):\n    return arg_0 + arg_1", "")
        );
        assert_eq!(removed, [("duplicates".into(), 1), ("names".into(), 1)].into());
    }

    #[test]
    fn masked_texts_and_snippets_are_counted() {
        let code = "def mail():\n    \"\"\"Ask jane@example.org.\"\"\"\n    return 'joe@example.org'\n";
        let plan = PoolPlan { mask: true, ..PoolPlan::default() };
        let (kept, counts, _) = filtered(&plan, &[(0, function("one", code))]);
        assert_eq!(kept[0].documentation, "Ask <EMAIL>.");
        assert_eq!(kept[0].code, "def mail():\n    \n    return '<EMAIL>'");
        assert_eq!(counts, [("e-mail address".into(), 2)].into());
        let python = language_named("python").unwrap();
        let snippet = |text: &str| (0, snippet_record(&Origin::default(), python, text));
        let plan = PoolPlan { filters: vec!["snippets".into()], ..PoolPlan::default() };
        let records =
            [snippet("x = 1\n"), snippet(">>> x\n1\n"), snippet("def f(:\n"), (0, function("a", code))];
        let (kept, counts, _) = filtered(&plan, &records);
        assert_eq!(kept.len(), 2);
        assert_eq!(
            counts,
            [("snippets".into(), 2), ("a transcript".into(), 1), ("incomplete at the end".into(), 1)].into()
        );
    }
}
