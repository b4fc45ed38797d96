//! The pool: the code that is kept, with what was removed and why.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use quarry_source::language_called;
use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::filter::Filter;
use crate::jsonl::{self, RandomReader, Writer};
use crate::plan::{Documentation, PoolPlan};
use crate::record::{CodeRecord, normalized_hash};
use crate::step::{Key, Step, write_file};

/// Changes when the same records and parameters give another pool.
const VERSION: u32 = 1;

/// The code that is kept.
pub(crate) const POOL: &str = "pool.jsonl";
const REMOVED: &str = "removed.json";
const SHARES: &str = "shares.json";

/// Examples of what each filter removed.
const EXAMPLES: usize = 3;

/// What a filter removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) filter: String,
    pub(crate) about: String,
    pub(crate) count: u64,
    /// The first of them, by place and name.
    pub(crate) examples: Vec<String>,
}

/// How many codes of the pool have each language, license and source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shares {
    pub(crate) languages: BTreeMap<String, u64>,
    pub(crate) licenses: BTreeMap<String, u64>,
    pub(crate) sources: BTreeMap<String, u64>,
}

/// The step that makes the pool of sources.
pub(crate) fn step(plan: &PoolPlan, sources: &[&Key]) -> Step {
    Step::new("pool", VERSION, plan, sources)
}

/// Filters the records of sources, in their order, one at a time.
///
/// # Errors
/// When a record cannot be read or written, or none is left.
pub(crate) fn write(
    plan: &PoolPlan,
    sources: &[PathBuf],
    step: &Path,
) -> Result<BTreeMap<String, u64>, FactoryError> {
    let languages: Vec<&str> = plan
        .languages
        .iter()
        .filter_map(|name| language_called(name))
        .map(|language| language.name())
        .collect();
    let filters: Vec<&Filter> = plan.filters.iter().filter_map(|name| Filter::named(name)).collect();
    let mut removed: Vec<Removed> = Vec::new();
    if !languages.is_empty() {
        removed.push(Removed::by("languages", &format!("code in {}", languages.join(", "))));
    }
    removed.extend(filters.iter().map(|filter| Removed::by(filter.name, filter.about)));
    removed.push(Removed::by("empty", "code that says something"));
    if !plan.keep_duplicates {
        removed.push(Removed::by("duplicates", "code that is not there already, whatever its white space"));
    }
    let mut writer = Writer::create(&step.join(POOL))?;
    let (mut n_read, mut n_kept, mut seen, mut shares) = (0, 0, HashSet::new(), Shares::default());
    for source in sources {
        jsonl::for_each(source, &mut |mut record: CodeRecord, _| {
            n_read += 1;
            if plan.documentation == Documentation::Kept {
                record.code = record.whole;
            }
            record.whole = String::new();
            let lacks = || -> Option<&str> {
                if !languages.is_empty() && !languages.contains(&record.language.as_str()) {
                    return Some("languages");
                }
                if let Some(filter) = filters.iter().find(|filter| !filter.keeps(&record)) {
                    return Some(filter.name);
                }
                if record.code.trim().is_empty() {
                    return Some("empty");
                }
                (!plan.keep_duplicates && !seen.insert(normalized_hash(&record.code))).then_some("duplicates")
            };
            if let Some(name) = {
                let mut lacks = lacks;
                lacks()
            } {
                if let Some(removed) = removed.iter_mut().find(|removed| removed.filter == name) {
                    removed.note(&record);
                }
                return Ok(());
            }
            n_kept += 1;
            shares.note(&record);
            writer.write(&record)
        })?;
    }
    writer.finish()?;
    write_json(&step.join(REMOVED), &removed)?;
    write_json(&step.join(SHARES), &shares)?;
    if n_kept == 0 {
        let counts: Vec<String> =
            removed.iter().map(|removed| format!("{} {}", removed.count, removed.filter)).collect();
        let problem = format!(
            "expected code that is kept, found none of {n_read}; removed by {}; loosen [pool], or name other sources",
            counts.join(", ")
        );
        return Err(FactoryError::step("pool", problem));
    }
    let mut counts: BTreeMap<String, u64> = [("read".to_owned(), n_read), ("kept".to_owned(), n_kept)].into();
    counts
        .extend(removed.into_iter().map(|removed| (format!("removed by {}", removed.filter), removed.count)));
    Ok(counts)
}

impl Removed {
    fn by(filter: &str, about: &str) -> Self {
        Self { filter: filter.to_owned(), about: about.to_owned(), ..Self::default() }
    }

    fn note(&mut self, record: &CodeRecord) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            let CodeRecord { source, path, start_line, name, .. } = record;
            self.examples.push(format!("{source}:{path}:{start_line} {name}"));
        }
    }
}

impl Shares {
    fn note(&mut self, record: &CodeRecord) {
        let license = record.license.clone().unwrap_or_else(|| "unknown".to_owned());
        for (shares, name) in [
            (&mut self.languages, record.language.clone()),
            (&mut self.licenses, license),
            (&mut self.sources, record.source.clone()),
        ] {
            *shares.entry(name).or_default() += 1;
        }
    }
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FactoryError> {
    let text = serde_json::to_vec_pretty(value).unwrap_or_default();
    write_file(path, &text)
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FactoryError> {
    let text = std::fs::read(path).map_err(FactoryError::read(path))?;
    serde_json::from_slice(&text).map_err(|error| FactoryError::Line {
        path: path.to_owned(),
        line: error.line(),
        problem: format!(
            "expected what this version of quarry writes: {error}; remove its directory and build again"
        ),
    })
}

/// What the filters of a pool removed.
pub(crate) fn removed(step: &Path) -> Result<Vec<Removed>, FactoryError> {
    read_json(&step.join(REMOVED))
}

/// What a pool is made of.
pub(crate) fn shares(step: &Path) -> Result<Shares, FactoryError> {
    read_json(&step.join(SHARES))
}

/// Finds the codes of a pool by their ids, without having their texts in memory.
pub(crate) struct PoolReader {
    /// Number, from 0, and first byte, by id.
    places: std::collections::HashMap<u64, (u32, u64)>,
    file: RandomReader,
    /// Codes that are not of the pool, whose numbers follow.
    others: Vec<CodeRecord>,
}

impl PoolReader {
    /// # Errors
    /// When the pool cannot be read.
    pub(crate) fn open(step: &Path) -> Result<Self, FactoryError> {
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        let path = step.join(POOL);
        let mut places = std::collections::HashMap::new();
        jsonl::for_each(&path, &mut |record: Id, at| {
            let number = u32::try_from(places.len()).unwrap_or(u32::MAX);
            places.insert(number_of(&record.id), (number, at));
            Ok(())
        })?;
        Ok(Self { places, file: RandomReader::open(&path)?, others: Vec::new() })
    }

    /// Finds these codes too.
    pub(crate) fn add(&mut self, others: Vec<CodeRecord>) {
        self.others.extend(others);
    }

    /// The code of an id, with its number in the pool, from 0.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn get(&mut self, id: &str) -> Result<(usize, CodeRecord), FactoryError> {
        let other = match self.places.get(&number_of(id)) {
            Some((number, at)) => return Ok((*number as usize, self.file.read(*at)?)),
            None => self.others.iter().position(|other| other.id == id),
        };
        match other {
            Some(other) => Ok((self.places.len() + other, self.others[other].clone())),
            None => Err(FactoryError::step(
                "pool",
                format!(
                    "expected the code {id}, which is not there; remove the build's directory `steps` and build again"
                ),
            )),
        }
    }
}

/// The number that an id is the digits of.
fn number_of(id: &str) -> u64 {
    u64::from_str_radix(id, 16).unwrap_or_default()
}
