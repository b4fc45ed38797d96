//! Conversion of rows to the examples of a batch.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use quarry_transformer::trainable::{TextTokenizer, Trainable};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::rewrite::Rewrite;
use super::settings::{Batches, Kind, Objective, OtherPositives, Settings};
use crate::TrainError;
use crate::rows::{key, label};

/// A training pair: a line of the output of `quarry data pairs`, some fields of which are not read here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    pub query: String,
    /// A function or snippet.
    pub code: String,
    /// 1 if the code answers the query, 0 if it does not; 1 if missing.
    #[serde(deserialize_with = "label")]
    pub label: Option<i32>,
    /// Codes judged as not answering the query.
    pub negatives: Vec<String>,
    /// A summary of the code, for `tri-loss`.
    pub summary: String,
    /// Origin of the code, as `owner/name`.
    pub repository: String,
    pub license: String,
}

impl Row {
    pub fn answers(&self) -> bool {
        self.label != Some(0)
    }
}

/// Number of successive examples of a repository that stay together in [`Batches::Repository`]. Rows are in the
/// order of the files, and neighboring functions are the hardest to distinguish.
const NEIGHBORS: usize = 4;

impl crate::Example for Row {
    fn query(&self) -> &str {
        &self.query
    }

    fn code(&self) -> &str {
        &self.code
    }

    fn answers(&self) -> bool {
        self.answers()
    }

    fn is_empty(&self) -> bool {
        self.query.trim().is_empty() || self.code.trim().is_empty()
    }

    fn negatives(&self) -> &[String] {
        &self.negatives
    }

    fn negatives_mut(&mut self) -> &mut Vec<String> {
        &mut self.negatives
    }
}

/// Splits rows into a training and a held-out side: by repository for rows that have one, otherwise by query, so
/// that no query is on both sides. If that leaves a side without a query, because there are few repositories, all
/// rows are split by query.
pub fn split(rows: Vec<Row>, share: f64) -> (Vec<Row>, Vec<Row>) {
    let limit = (share * 10_000.0) as u64;
    let by_query = |row: &Row| key(&row.query) % 10_000 < limit;
    let by_repository = |row: &Row| match row.repository.as_str() {
        "" => by_query(row),
        repository => xxh3_64(repository.as_bytes()) % 10_000 < limit,
    };
    let mut sides = rows.iter().filter(|row| !row.query.trim().is_empty()).map(by_repository);
    let first = sides.next();
    let is_split = sides.any(|side| Some(side) != first);
    let (held_out, learned) = match is_split || limit == 0 {
        true => rows.into_iter().partition(by_repository),
        false => rows.into_iter().partition(by_query),
    };
    (learned, held_out)
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Example {
    /// Tokens of the query; of query and code for a classifier.
    pub query: Vec<u32>,
    /// Number of the code in [`Examples::codes`].
    pub code: u32,
    pub summary: Vec<u32>,
    /// Tokens of the rewritten query, for `coclr-paper`.
    pub rewritten: Option<Vec<u32>>,
    pub label: bool,
    pub query_key: u64,
    /// Hash of the repository's name.
    pub repository: u64,
}

/// All pairs of one side of a split.
#[derive(Debug, Default)]
pub(super) struct Examples {
    pub list: Vec<Example>,
    /// Tokens of each distinct code.
    pub codes: Vec<Vec<u32>>,
    /// Texts read by a teacher: of `codes` here, and of the query of each example in `query_texts`.
    pub code_texts: Vec<String>,
    pub query_texts: Vec<String>,
    /// Number of rows omitted because they contain special tokens of the tokenizer.
    pub n_special: usize,
    /// Codes that answer a query, by its hash.
    positives: HashSet<(u64, u32)>,
    /// Codes labeled 0 for a query, by its hash.
    negatives: HashMap<u64, Vec<u32>>,
}

/// Converts texts to token ids for a model.
pub(super) struct Reader {
    query: TextTokenizer,
    code: TextTokenizer,
    query_prompt: String,
    document_prompt: String,
    collapses: bool,
    max_first: usize,
    kind: Kind,
    /// Texts that a classifier would read as end-of-text tokens.
    ends: Vec<String>,
}

impl Reader {
    pub(super) fn new(model: &Trainable, settings: &Settings) -> Result<Reader, TrainError> {
        let kind = settings.objective.kind();
        let max_query =
            if kind == Kind::Classifier { settings.max_code_tokens } else { settings.max_query_tokens };
        let code = model.text_tokenizer(settings.max_code_tokens).map_err(TrainError::Model)?;
        Ok(Reader {
            query: model.query_tokenizer(max_query).map_err(TrainError::Model)?,
            ends: if kind == Kind::Classifier { code.sequence_tokens() } else { Vec::new() },
            code,
            query_prompt: model.query_prompt.clone(),
            document_prompt: model.document_prompt.clone(),
            collapses: settings.collapse,
            max_first: settings.max_query_tokens,
            kind,
        })
    }

    fn has_end(&self, text: &str) -> bool {
        self.ends.iter().any(|end| text.contains(end))
    }

    fn code(&self, text: &str) -> Result<Vec<u32>, TrainError> {
        self.code.ids(&format!("{}{}", self.document_prompt, self.read(text))).map_err(TrainError::Model)
    }

    fn query(&self, text: &str) -> Result<Vec<u32>, TrainError> {
        self.query.ids(&format!("{}{}", self.query_prompt, self.read(text))).map_err(TrainError::Model)
    }

    fn read<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.collapses {
            true => Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            false => Cow::Borrowed(text),
        }
    }
}

impl Examples {
    /// Reads rows. Omits rows without a query or a code, those without a summary for `tri-loss`, and, as in
    /// GenCodeSearchNet, those with special tokens for a classifier.
    pub(super) fn new(rows: &[Row], reader: &Reader, settings: &Settings) -> Result<Examples, TrainError> {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut code_texts: Vec<&str> = Vec::new();
        let mut numbered: Vec<(String, u32, &Row, bool)> = Vec::new();
        let usable = |row: &&Row| {
            !row.query.trim().is_empty()
                && !row.code.trim().is_empty()
                && (settings.objective != Objective::TriLoss || !row.summary.trim().is_empty())
        };
        let mut n_special = 0;
        for row in rows.iter().filter(usable) {
            let mut texts = [&row.query, &row.code].into_iter().chain(&row.negatives);
            if texts.any(|text| reader.has_end(text)) {
                n_special += 1;
                continue;
            }
            let codes = std::iter::once((&row.code, row.answers()));
            for (code, answers) in codes.chain(row.negatives.iter().map(|code| (code, false))) {
                let number = *numbers.entry(code).or_insert_with(|| {
                    code_texts.push(code);
                    code_texts.len() as u32 - 1
                });
                numbered.push((row.query.clone(), number, row, answers));
            }
        }
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let n = numbered.len();
        for at in 0..n {
            for _ in 0..settings.random_negatives {
                let (query, own, row, answers) = &numbered[at];
                // Drawn as in GenCodeSearchNet: the code of any other pair.
                let other = numbered[(at + 1 + random.usize(..(n - 1).max(1))) % n].1;
                if *answers && other != *own {
                    let negative = (query.clone(), other, *row, false);
                    numbered.push(negative);
                }
            }
        }
        let offline = settings.rewrite != Rewrite::None && settings.objective != Objective::CoclrPaper;
        if offline {
            for at in 0..numbered.len() {
                let (query, code, row, answers) = &numbered[at];
                if let Some(query) = settings.rewrite.apply(query, &mut random).filter(|_| *answers) {
                    let copy = (query, *code, *row, true);
                    numbered.push(copy);
                }
            }
        }
        let rewritten: Vec<Option<String>> = numbered
            .iter()
            .map(|(query, _, _, answers)| {
                settings.rewrite.apply(query, &mut random).filter(|_| *answers && !offline)
            })
            .collect();
        let codes = match reader.kind {
            Kind::Classifier => Vec::new(),
            _ => {
                code_texts.par_iter().map(|code| reader.code(code)).collect::<Result<Vec<_>, TrainError>>()?
            }
        };
        let all: Vec<Example> = numbered
            .par_iter()
            .zip(&rewritten)
            .map(|((query, code, row, label), rewritten)| {
                let ids = match reader.kind {
                    Kind::Classifier => reader
                        .code
                        .pair_ids(query, code_texts[*code as usize], reader.max_first)
                        .map_err(TrainError::Model)?,
                    _ => reader.query(query)?,
                };
                let summary = match settings.objective {
                    Objective::TriLoss => reader.query(&row.summary)?,
                    _ => Vec::new(),
                };
                let rewritten = rewritten.as_ref().map(|query| reader.query(query)).transpose()?;
                Ok(Example {
                    query: ids,
                    code: *code,
                    summary,
                    rewritten,
                    label: *label,
                    query_key: key(query),
                    repository: xxh3_64(row.repository.as_bytes()),
                })
            })
            .collect::<Result<_, TrainError>>()?;
        let mut examples = Examples {
            codes,
            code_texts: code_texts.into_iter().map(str::to_owned).collect(),
            n_special,
            ..Examples::default()
        };
        for (example, (query, ..)) in all.into_iter().zip(numbered) {
            if example.label {
                examples.positives.insert((example.query_key, example.code));
            } else {
                examples.negatives.entry(example.query_key).or_default().push(example.code);
            }
            if example.label || settings.objective.uses_labels() {
                examples.list.push(example);
                examples.query_texts.push(query);
            }
        }
        Ok(examples)
    }

    /// Adds codes to rank along with the others, unless already present.
    pub(super) fn add_codes(&mut self, codes: &[String], reader: &Reader) -> Result<(), TrainError> {
        let mut known: HashSet<String> = self.code_texts.iter().cloned().collect();
        let new: Vec<&String> = codes.iter().filter(|code| known.insert((*code).clone())).collect();
        let ids = new.par_iter().map(|code| reader.code(code)).collect::<Result<Vec<_>, TrainError>>()?;
        self.codes.extend(ids);
        self.code_texts.extend(new.into_iter().cloned());
        Ok(())
    }

    /// The batches of an epoch, as numbers of examples. A last batch of one example is omitted if a loss compares
    /// examples.
    pub(super) fn plan(&self, settings: &Settings, epoch: usize) -> Vec<Vec<u32>> {
        let mut random = fastrand::Rng::with_seed(mix(settings.seed, epoch as u64));
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        let mut batches: Vec<Vec<u32>> = Vec::new();
        match settings.batches {
            Batches::Random => random.shuffle(&mut order),
            Batches::Repository => {
                order.sort_by_key(|at| self.list[*at as usize].repository);
                let mut rest = Vec::new();
                let of_repository =
                    |a: &u32, b: &u32| self.list[*a as usize].repository == self.list[*b as usize].repository;
                for examples in order.chunk_by(of_repository) {
                    let mut runs: Vec<&[u32]> = examples.chunks(NEIGHBORS).collect();
                    random.shuffle(&mut runs);
                    let mixed = runs.concat();
                    let (whole, left) = mixed.split_at(mixed.len() - mixed.len() % settings.batch);
                    batches.extend(whole.chunks(settings.batch).map(<[u32]>::to_vec));
                    rest.push(left.to_vec());
                }
                random.shuffle(&mut rest);
                order = rest.concat();
            }
        }
        let least = if settings.objective.kind() == Kind::Classifier { 1 } else { 2 };
        batches
            .extend(order.chunks(settings.batch).filter(|batch| batch.len() >= least).map(<[u32]>::to_vec));
        if settings.batches == Batches::Repository {
            random.shuffle(&mut batches);
        }
        batches
    }

    /// The codes of a batch: one per example, followed by its hard negatives.
    pub(super) fn columns(&self, batch: &[u32], settings: &Settings, seed: u64) -> Vec<u32> {
        let mut columns: Vec<u32> = batch.iter().map(|at| self.list[*at as usize].code).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        // If labels are used, codes labeled 0 are in separate examples.
        for at in batch.iter().filter(|_| !settings.objective.uses_labels()) {
            let Some(known) = self.negatives.get(&self.list[*at as usize].query_key) else { continue };
            let n = settings.hard_negatives.min(known.len());
            columns.extend(random.choose_multiple(known.iter().copied(), n));
        }
        columns
    }

    /// Cells of the batch's scores that are not negatives: those where the code of another column also answers the
    /// query, unless the recipe counts them.
    pub(super) fn ignored(&self, batch: &[u32], columns: &[u32], settings: &Settings) -> Vec<bool> {
        let cell = |row: usize, column: usize| {
            let example = &self.list[batch[row] as usize];
            settings.other_positives != OtherPositives::Negative
                && row != column
                && self.answers(example, columns[column])
        };
        (0..batch.len()).flat_map(|row| (0..columns.len()).map(move |column| cell(row, column))).collect()
    }

    /// The pairs of a query and a code with a label for it, as numbers of an example and of a code, without
    /// duplicates.
    pub(super) fn labeled(&self) -> Vec<(usize, u32)> {
        let mut seen = HashSet::new();
        let of_example = |(at, example): (usize, &Example)| {
            let negatives = self.negatives.get(&example.query_key).into_iter().flatten();
            std::iter::once(&example.code).chain(negatives).map(|code| (at, *code)).collect::<Vec<_>>()
        };
        let pairs = self.list.iter().enumerate().flat_map(of_example);
        pairs.filter(|(at, code)| seen.insert((self.list[*at].query_key, *code))).collect()
    }

    pub(super) fn answers(&self, example: &Example, code: u32) -> bool {
        self.positives.contains(&(example.query_key, code))
    }
}

/// Combines two numbers into a seed.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    xxh3_64(&[a.to_le_bytes(), b.to_le_bytes()].concat())
}
