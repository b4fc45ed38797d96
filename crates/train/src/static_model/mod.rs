//! Trains the static model of `quarry-embed`: a contrastive objective over question–function pairs.

mod checkpoint;
mod contrastive;
mod examples;
mod start;
mod table;
mod validation;
mod vocabulary;

use std::path::Path;

use quarry_embed::static_model::{StaticWeights, write_model};
use quarry_embed::vocabulary::{Tokenizer, build_slots};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Teacher, TrainError};
use checkpoint::Checkpoint;
use contrastive::{info_nce, soften};
use examples::{Bag, Batch, Examples};
use quarry_source::FunctionPair;
use start::start;
use table::Table;
use validation::Validation;
pub use vocabulary::{Vocabulary, VocabularySize, choose};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchesOf {
    /// Any examples.
    All,
    /// Functions in one language, so that the language carries no information.
    Language,
    /// Functions of one repository, so that the topic carries no information.
    Repository,
}

impl BatchesOf {
    fn key(self, pair: &FunctionPair) -> &str {
        match self {
            BatchesOf::All => "",
            BatchesOf::Language => &pair.language,
            BatchesOf::Repository => &pair.repository,
        }
    }
}

/// A training recipe. Shares are probabilities in 0..=1, drawn anew for each example and epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Number of columns of a token vector.
    pub dimension: usize,
    pub vocabulary: VocabularySize,
    /// Number of position weights, see [`quarry_embed::static_model::position_bucket`].
    pub positions: usize,
    /// Maximum number of words read from a document.
    pub max_words: usize,
    /// Maximum number of words read from the documentation within a document.
    pub max_doc_words: usize,
    /// Maximum number of words read from a question.
    pub max_query_words: usize,
    /// Number of pairs per step.
    pub batch: usize,
    pub batches_of: BatchesOf,
    /// Number of times that each pair is seen.
    pub epochs: usize,
    /// Adam's step size after warm-up; it falls linearly to zero.
    pub rate: f32,
    /// Number of steps over which the step size rises from zero.
    pub warm_up: u64,
    pub temperature: f32,
    /// Share of the target distribution that comes from the teacher, if one is given.
    pub teacher: f32,
    pub teacher_temperature: f32,
    /// True to initialize token vectors with the teacher's vectors of the words.
    pub start_from_teacher: bool,
    /// Smooth inverse frequency at initialization: each token vector is multiplied by `sif / (sif + p)`, where `p`
    /// is the token's share of all tokens in the training texts. 0 leaves all vectors at the same length.
    pub sif: f32,
    /// Share of questions that are the function's name, even if it has documentation.
    pub ask_name: f32,
    /// Share of name questions whose words are removed from the document.
    pub hide_name: f32,
    /// Share of documents that start with the qualified name.
    pub with_name: f32,
    /// Share of documents that contain the documentation after its first sentence.
    pub with_doc: f32,
    /// Share of documents that contain the question itself.
    pub with_query: f32,
    /// Share of documents of name questions that contain the first sentence of the documentation.
    pub name_with_query: f32,
    /// Share of question words that are omitted.
    pub drop_query_words: f32,
    /// Maximum number of codes, judged as not answering a question, that its batch contains, if the pairs have
    /// some.
    pub hard_negatives: usize,
    /// Number of functions without documentation used per function with documentation, at most, with their names as
    /// questions.
    pub undocumented: f32,
    /// Share of repositories held out for validation.
    pub validation: f32,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dimension: 256,
            vocabulary: VocabularySize { words: 40_000, bigrams: 0, query: 20_000 },
            positions: 10,
            max_words: 256,
            max_doc_words: 64,
            max_query_words: 32,
            batch: 1024,
            batches_of: BatchesOf::Language,
            epochs: 3,
            rate: 2e-3,
            warm_up: 100,
            temperature: 0.05,
            teacher: 0.5,
            teacher_temperature: 0.05,
            start_from_teacher: true,
            sif: 0.0,
            ask_name: 0.1,
            hide_name: 0.5,
            with_name: 0.3,
            with_doc: 0.4,
            with_query: 0.1,
            name_with_query: 0.5,
            drop_query_words: 0.1,
            hard_negatives: 4,
            undocumented: 0.0,
            validation: 0.04,
            seed: 1,
        }
    }
}

impl Settings {
    /// Checks that the values are valid together.
    ///
    /// # Errors
    /// Names the first invalid value.
    pub fn check(&self) -> Result<(), TrainError> {
        let shares = [
            ("teacher", self.teacher),
            ("ask_name", self.ask_name),
            ("hide_name", self.hide_name),
            ("with_name", self.with_name),
            ("with_doc", self.with_doc),
            ("with_query", self.with_query),
            ("name_with_query", self.name_with_query),
            ("drop_query_words", self.drop_query_words),
            ("validation", self.validation),
        ];
        let bad = |problem: String| Err(TrainError::Settings(problem));
        if let Some((name, value)) = shares.into_iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return bad(format!("{name}: expected a share in 0..=1, found {value}"));
        }
        let VocabularySize { words, bigrams, query } = self.vocabulary;
        for (name, value, range) in [
            ("dimension", self.dimension, 4..=4096),
            ("vocabulary.words", words, 0..=10_000_000),
            ("vocabulary.bigrams", bigrams, 0..=10_000_000),
            ("vocabulary.query", query, 0..=10_000_000),
            ("positions", self.positions, 1..=64),
            ("max_words", self.max_words, 1..=1_000_000),
            ("max_doc_words", self.max_doc_words, 0..=1_000_000),
            ("max_query_words", self.max_query_words, 1..=1_000_000),
            ("batch", self.batch, 2..=1_000_000),
            ("epochs", self.epochs, 0..=1_000_000),
            ("hard_negatives", self.hard_negatives, 0..=10_000),
        ] {
            if !range.contains(&value) {
                return bad(format!("{name}: expected {} to {}, found {value}", range.start(), range.end()));
            }
        }
        if !self.dimension.is_multiple_of(4) {
            return bad(format!("dimension: expected a multiple of 4, found {}", self.dimension));
        }
        if !(self.undocumented >= 0.0 && self.undocumented.is_finite()) {
            return bad(format!("undocumented: expected 0 or more, found {}", self.undocumented));
        }
        if !(self.sif >= 0.0 && self.sif.is_finite()) {
            return bad(format!("sif: expected 0 or more, found {}", self.sif));
        }
        for (name, value) in [
            ("temperature", self.temperature),
            ("teacher_temperature", self.teacher_temperature),
            ("rate", self.rate),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return bad(format!("{name}: expected more than 0, found {value}"));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// Data are ready: numbers of training and validation pairs, of tokens, and of steps to run.
    Ready {
        n_pairs: usize,
        /// Number of pairs of held-out repositories.
        n_validation: usize,
        n_tokens: usize,
        n_steps: u64,
    },
    Step {
        /// Number of the step, from 1.
        step: u64,
        /// Loss of its batch, in nats.
        loss: f32,
    },
    /// Retrieval quality on the held-out repositories.
    Validated {
        step: u64,
        /// Held-out MRR; `None` if nothing is held out.
        mrr: Option<HeldOutMrr>,
    },
}

/// Mean reciprocal ranks on the held-out repositories.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOutMrr {
    /// MRR of queries from the first sentence of documentation, among code without documentation.
    pub summary: f64,
    /// MRR of queries by name, among documented code without names.
    pub name: f64,
}

/// The state of a run between two steps.
#[derive(Debug, Clone, PartialEq)]
struct State {
    step: u64,
    documents: Table,
    queries: Table,
}

/// Trains a model. With `begin`, continues training that model, which keeps its tokens, so that only those in the
/// pairs change. With `directory`, the state is stored there after each epoch, and an interrupted run resumes from
/// it with the same result as without the interruption. Equal pairs, settings and number of threads give an equal
/// model on one type of machine.
///
/// # Errors
/// When the settings or pairs are invalid, or the directory cannot be used.
pub fn train(
    pairs: &[FunctionPair],
    settings: &Settings,
    teacher: Option<&Teacher>,
    begin: Option<&StaticWeights>,
    directory: Option<&Path>,
    mut report: impl FnMut(Progress),
) -> Result<(StaticWeights, Vocabulary), TrainError> {
    settings.check()?;
    if let Some(begin) = begin {
        fits(begin, settings)?;
    }
    let (learned, held_out) = split(pairs, settings);
    if learned.len() < settings.batch {
        return Err(TrainError::Settings(format!(
            "{} training pairs do not fill one batch of {}: give more pairs or a smaller batch",
            learned.len(),
            settings.batch
        )));
    }
    let (vocabulary, slots) = match begin {
        // A model stores the hashes of its tokens, not their texts.
        Some(begin) => (Vocabulary::default(), begin.slots.clone()),
        None => {
            let vocabulary = choose(&learned, settings.vocabulary);
            let slots = build_slots(&vocabulary.hashes);
            (vocabulary, slots)
        }
    };
    let tokenizer = Tokenizer { slots: &slots, max_words: settings.max_words };
    let examples = Examples::new(&learned, tokenizer, settings);
    let validation = Validation::new(&held_out, tokenizer, settings);
    let steps_an_epoch = examples.plan(settings, 0).len() as u64;
    let n_steps = steps_an_epoch * settings.epochs as u64;
    report(Progress::Ready {
        n_pairs: learned.len(),
        n_validation: held_out.len(),
        n_tokens: begin.map_or(vocabulary.hashes.len(), |begin| begin.document_rows.len() / begin.dimension),
        n_steps,
    });

    let checkpoint =
        directory.map(|directory| Checkpoint::new(directory, settings, run_identity(pairs, begin)));
    let resumed = checkpoint.as_ref().map(Checkpoint::read).transpose()?.flatten();
    let mut state = resumed.unwrap_or_else(|| match begin {
        Some(begin) => State::new(begin),
        None => start(&vocabulary, settings, teacher, &examples),
    });
    let teacher_vectors =
        teacher.filter(|_| settings.teacher > 0.0).map(|teacher| TeacherVectors::new(teacher, &learned));
    let first_epoch = (state.step / steps_an_epoch.max(1)) as usize;
    for epoch in first_epoch..settings.epochs {
        for batch in examples.plan(settings, epoch) {
            state.step += 1;
            let rate = rate(settings, state.step, n_steps);
            let batch = examples.draw(&batch, settings, epoch);
            let targets = teacher_vectors
                .as_ref()
                .map(|teacher_vectors| teacher_vectors.targets(&batch, settings))
                .transpose()?;
            let loss = state.learn(&batch, targets.as_deref(), settings, rate)?;
            if !loss.is_finite() {
                return Err(diverged(format!("the loss is {loss}"), state.step, rate));
            }
            report(Progress::Step { step: state.step, loss });
        }
        // The last step has no loss after it.
        if !state.is_finite() {
            return Err(diverged("the weights are not finite".to_owned(), state.step, settings.rate));
        }
        let mrr = validation.measure(&state.queries, &state.documents);
        report(Progress::Validated { step: state.step, mrr });
        if let Some(checkpoint) = &checkpoint {
            checkpoint.write(&state)?;
        }
    }
    let weights = StaticWeights {
        dimension: settings.dimension,
        max_words: settings.max_words,
        slots,
        position_weights: state.documents.positions.iter().map(|position| position[0]).collect(),
        document_rows: state.documents.vectors(),
        query_rows: state.queries.vectors(),
    };
    Ok((weights, vocabulary))
}

/// The error of a run whose numbers exceeded the range of floats.
fn diverged(what: String, step: u64, rate: f32) -> TrainError {
    TrainError::Settings(format!(
        "step {step}: {what}, at a step size of {rate:e}; lower rate, or raise temperature or warm_up, and start in \
         another directory; no model was written"
    ))
}

/// Checks that training of a model can continue with these settings.
fn fits(begin: &StaticWeights, settings: &Settings) -> Result<(), TrainError> {
    for (name, of_settings, of_model) in [
        ("dimension", settings.dimension, begin.dimension),
        ("positions", settings.positions, begin.position_weights.len()),
        ("max_words", settings.max_words, begin.max_words),
    ] {
        if of_settings != of_model {
            return Err(TrainError::Settings(format!(
                "{name}: expected {of_model}, as in the model to begin with, found {of_settings}"
            )));
        }
    }
    Ok(())
}

struct TeacherVectors<'a> {
    dimension: usize,
    vectors: Vec<Option<&'a [f32]>>,
}

impl<'a> TeacherVectors<'a> {
    fn new(teacher: &'a Teacher, pairs: &[&FunctionPair]) -> TeacherVectors<'a> {
        let vectors = pairs.iter().map(|pair| teacher.vector(&pair.query)).collect();
        TeacherVectors { dimension: teacher.dimension, vectors }
    }

    fn targets(&self, batch: &Batch, settings: &Settings) -> Result<Vec<f32>, TrainError> {
        let mut rows = vec![0.0; batch.examples.len() * self.dimension];
        for (row, &example) in rows.chunks_exact_mut(self.dimension).zip(&batch.examples) {
            if let Some(vector) = self.vectors[example as usize] {
                row.copy_from_slice(vector);
            }
        }
        soften(rows, self.dimension, settings.teacher_temperature, settings.teacher, batch)
    }
}

impl State {
    fn new(model: &StaticWeights) -> Self {
        let table = |rows, positions: &[f32]| Table::from_rows(rows, model.dimension, positions);
        Self {
            step: 0,
            documents: table(&model.document_rows, &model.position_weights),
            queries: table(&model.query_rows, &[]),
        }
    }

    fn is_finite(&self) -> bool {
        self.documents.is_finite() && self.queries.is_finite()
    }

    fn learn(
        &mut self,
        batch: &Batch,
        targets: Option<&[f32]>,
        settings: &Settings,
        rate: f32,
    ) -> Result<f32, TrainError> {
        let queries = query_sums(&self.queries, &self.documents, &batch.queries);
        let documents = self.documents.sums(&batch.documents);
        let outcome = info_nce(queries, documents, settings.dimension, settings.temperature, batch, targets)?;
        let n_query = self.queries.n_rows() as u32;
        let (own, shared) = split_bag(&batch.queries, n_query);
        self.queries.learn(&own, &outcome.queries, rate, self.step);
        if shared.tokens.is_empty() {
            self.documents.learn(&batch.documents, &outcome.documents, rate, self.step);
        } else {
            let (bag, gradient) = join(&batch.documents, &outcome.documents, &shared, &outcome.queries);
            self.documents.learn(&bag, &gradient, rate, self.step);
        }
        Ok(outcome.loss)
    }
}

/// The sums of questions' token vectors: tokens with a query row from `queries`, others from `documents`.
fn query_sums(queries: &Table, documents: &Table, bag: &Bag) -> Vec<f32> {
    let (own, shared) = split_bag(bag, queries.n_rows() as u32);
    let mut sums = queries.sums(&own);
    let others = documents.sums(&shared);
    sums.iter_mut().zip(others).for_each(|(sum, x)| *sum += x);
    sums
}

/// Splits a bag into the entries with tokens below `n` and the others; both bags have all rows.
fn split_bag(bag: &Bag, n: u32) -> (Bag, Bag) {
    let (mut own, mut shared) = (Bag::default(), Bag::default());
    for row in 0..bag.len() {
        for at in bag.row(row) {
            let part = if bag.tokens[at] < n { &mut own } else { &mut shared };
            part.rows.push(row as u32);
            part.tokens.push(bag.tokens[at]);
            part.buckets.push(bag.buckets[at]);
        }
        own.ends.push(own.tokens.len());
        shared.ends.push(shared.tokens.len());
    }
    (own, shared)
}

/// Concatenates both bags with their gradients.
fn join(a: &Bag, a_gradient: &[f32], b: &Bag, b_gradient: &[f32]) -> (Bag, Vec<f32>) {
    let mut bag = a.clone();
    let (n_rows, n_tokens) = (a.len() as u32, a.tokens.len());
    bag.ends.extend(b.ends.iter().map(|end| end + n_tokens));
    bag.rows.extend(b.rows.iter().map(|row| row + n_rows));
    bag.tokens.extend_from_slice(&b.tokens);
    bag.buckets.extend_from_slice(&b.buckets);
    (bag, [a_gradient, b_gradient].concat())
}

fn rate(settings: &Settings, step: u64, n_steps: u64) -> f32 {
    let warm = (step as f32 / settings.warm_up.max(1) as f32).min(1.0);
    let left = 1.0 - (step - 1) as f32 / n_steps.max(1) as f32;
    settings.rate * warm * left
}

/// Training and validation pairs: whole repositories are held out, chosen by the hash of their name.
fn split<'a>(
    pairs: &'a [FunctionPair],
    settings: &Settings,
) -> (Vec<&'a FunctionPair>, Vec<&'a FunctionPair>) {
    let held_out = |pair: &FunctionPair| {
        let hash = xxh3_64(pair.repository.as_bytes()) % 10_000;
        (hash as f32) < settings.validation * 10_000.0
    };
    let (held_out, mut learned): (Vec<&FunctionPair>, Vec<&FunctionPair>) =
        pairs.iter().partition(|pair| held_out(pair));
    let n_documented = learned.iter().filter(|pair| !pair.query.is_empty()).count();
    let n_undocumented = learned.len() - n_documented;
    let share =
        (f64::from(settings.undocumented) * n_documented as f64 / n_undocumented.max(1) as f64).min(1.0);
    let limit = (share * u32::MAX as f64) as u64;
    learned.retain(|pair| !pair.query.is_empty() || xxh3_64(pair.code.as_bytes()) >> 32 < limit);
    (learned, held_out)
}

/// Identifies the pairs of a run, for resuming.
fn run_identity(pairs: &[FunctionPair], begin: Option<&StaticWeights>) -> u64 {
    let begin = begin.map_or(0, |begin| xxh3_64(&write_model(begin)));
    pairs.iter().fold(pairs.len() as u64 ^ begin, |hash, pair| {
        let negatives =
            pair.negatives.iter().fold(0, |hash: u64, code| hash.rotate_left(9) ^ xxh3_64(code.as_bytes()));
        hash.rotate_left(5)
            ^ xxh3_64(pair.code.as_bytes())
            ^ xxh3_64(pair.query.as_bytes()).rotate_left(17)
            ^ negatives.rotate_left(29)
    })
}
