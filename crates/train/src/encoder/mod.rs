//! Fine-tunes encoders with BERT's layers, alone or with a matcher or a classifier.
//!
//! `objective.rs` has the losses, `network.rs` the forward pass, `learner.rs` the gradients of a batch; the loop is here.

mod attention;
mod checkpoint;
mod composed;
mod data;
mod device;
mod estimate;
mod fused;
mod head;
mod learner;
mod network;
pub mod objective;
mod optimizer;
mod output;
mod rewrite;
mod rows;
mod selection;
mod settings;
mod teacher;

use std::fs;
use std::path::Path;

use quarry_transformer::read_matcher;
use quarry_transformer::trainable::{MATCHER_FILE, NamedTensor, Trainable, TrainablePooling};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::TrainError;
use checkpoint::{Checkpoint, RunLock, State, check_directory};
use data::{Examples, Reader, mix};
use learner::{Learner, TeacherTargets};
use network::{Network, Parameters};
use optimizer::{Moments, clip, schedule};
use teacher::{check_teacher, teacher_targets};

pub use data::{Row, split};
pub use device::Device;
pub use estimate::{Estimate, estimate};
pub use optimizer::{AdamW, Decay};
pub use output::{Provenance, Report};
pub use rewrite::Rewrite;
pub use settings::{Batches, CodeVectors, Form, Kind, Objective, OtherPositives, Select, Settings};
pub use teacher::Teacher;

/// Raised when the same settings, model and pairs give other weights than before.
pub const VERSION: u32 = 1;

pub const LOSS_POINTS: u64 = 200;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub epoch: usize,
    pub step: u64,
    /// Mean loss of the epoch's steps, in nats.
    pub loss: f32,
    /// The measure that [`Settings::select`] names; none if nothing is held out or nothing is measured.
    pub value: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Ready {
        /// Examples to learn from.
        n_examples: usize,
        /// Examples to measure.
        n_held_out: usize,
        /// Codes that are ranked to measure them.
        n_codes: usize,
        n_steps: u64,
        /// Steps that were done before.
        n_done: u64,
        /// Rows left out because they contain special tokens of the tokenizer, as GenCodeSearchNet leaves them out.
        n_special: usize,
    },
    /// Progress of a teacher that reads texts, or pairs of texts.
    Teacher {
        /// Texts or pairs done.
        done: usize,
        /// In all.
        all: usize,
    },
    Step {
        /// Counted from 1.
        step: u64,
        /// Loss of its batches, in nats.
        loss: f32,
    },
    /// An epoch is done and measured: the progress of the run.
    Evaluated(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The last of them, counted from 1.
    pub step: u64,
    /// In nats.
    pub loss: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The loss over the whole run, in about [`LOSS_POINTS`] points.
    pub losses: Vec<LossPoint>,
    pub evaluations: Vec<Evaluation>,
    pub kept: Option<Evaluation>,
}

pub struct Run<'a> {
    pub model: &'a Trainable,
    pub rows: &'a [Row],
    /// Pairs to choose the best epoch by.
    pub held_out: &'a [Row],
    /// Codes that are ranked for the queries of these pairs, besides the pairs' own.
    pub corpus: &'a [String],
    pub settings: &'a Settings,
    /// A model to learn from, for the objectives that need one.
    pub teacher: Option<Teacher<'a>>,
    /// Device that runs the network. Another one gives the same weights within rounding, and may resume the run.
    pub device: &'a Device,
    /// The text of the card.
    pub provenance: &'a Provenance,
    /// Directory of the result, and of the state of the run.
    pub directory: &'a Path,
}

/// Trains a model and writes it into the run's directory, where an interrupted run resumes; the result is the same
/// as without the cut, bit for bit, with an equal number of threads on one type of processor.
///
/// # Errors
/// When settings or rows do not allow it, the loss is not a number, or the directory cannot be used. A model that is in
/// the directory is never overwritten.
pub fn train(run: &Run<'_>, mut report: impl FnMut(Progress)) -> Result<Outcome, TrainError> {
    let Run { model, rows, held_out, corpus, settings, teacher, device, provenance, directory } = *run;
    check_directory(directory)?;
    let Prepared { network, parameters, reader: _, examples, measured, steps_an_epoch } = Prepared::new(run)?;
    fs::create_dir_all(directory).map_err(|error| TrainError::file(directory, error))?;
    let n_steps = steps_an_epoch * settings.epochs as u64;
    let warm_up =
        if settings.warm_up < 1.0 { settings.warm_up * n_steps as f64 } else { settings.warm_up } as u64;
    let measured_targets = match settings.code_vectors {
        CodeVectors::Teacher => teacher_targets(teacher, &measured, settings, &mut report)?,
        CodeVectors::Own => None,
    };
    let targets = teacher_targets(teacher, &examples, settings, &mut report)?;
    if let Some(targets) = &targets {
        check_teacher(targets, settings, network.dimension)?;
    }

    let mut values: Vec<Vec<f32>> = parameters.tensors()?.into_iter().map(|tensor| tensor.values).collect();
    let lengths: Vec<usize> = values.iter().map(Vec::len).collect();
    let teacher_id = teacher.map(Teacher::id).unwrap_or_default();
    let identity = identity(rows, held_out, corpus, &examples, teacher_id, &values);
    let _lock = RunLock::take(directory)?;
    let checkpoint = Checkpoint::new(directory, settings, identity);
    let mut state = match checkpoint.read(&lengths)? {
        Some(state) => state,
        None => State {
            step: 0,
            average: (settings.average_decay > 0.0).then(|| values.clone()),
            values: std::mem::take(&mut values),
            moments: lengths.iter().map(|n| Moments::new(*n)).collect(),
            losses: Mean::default(),
            curve: Curve::default(),
            best: None,
            evaluations: Vec::new(),
        },
    };
    parameters.set(&state.values)?;
    report(Progress::Ready {
        n_examples: examples.list.len(),
        n_held_out: measured.list.len(),
        n_codes: measured.codes.len(),
        n_steps,
        n_done: state.step,
        n_special: examples.n_special + measured.n_special,
    });

    let learner =
        Learner { network: &network, parameters: &parameters, settings, model_type: &model.model_type };
    let decays = parameters.decays();
    let first_epoch = (state.step / steps_an_epoch) as usize;
    for epoch in first_epoch..settings.epochs {
        if stops(&state.evaluations, state.best.as_ref().map(|(best, _)| best), settings.patience) {
            break;
        }
        let plan = examples.plan(settings, epoch);
        let done = (state.step % steps_an_epoch) as usize;
        for (at, batches) in plan.chunks(settings.accumulate).enumerate().skip(done) {
            let (loss, mut gradients) = accumulate(
                &learner,
                &examples,
                batches,
                targets.as_ref(),
                mix(mix(settings.seed, epoch as u64), at as u64),
            )?;
            state.step += 1;
            let rate = settings.rate * schedule(settings.decay, state.step, warm_up, n_steps);
            let norm = clip(&mut gradients, settings.clip);
            if !loss.is_finite() || !norm.is_finite() {
                return Err(TrainError::Settings(format!(
                    "step {}: the loss is {loss} and the length of its gradient {norm}, at a step size of {rate:e}; \
                     lower rate, set clip, or raise warm_up, and start in another directory; the last checkpoint is \
                     kept",
                    state.step
                )));
            }
            let tensors = state.values.iter_mut().zip(&gradients).zip(&mut state.moments).zip(&decays);
            for (((values, gradient), moments), decays) in tensors {
                settings.optimizer.update(values, gradient, moments, rate, state.step, *decays);
            }
            parameters.set(&state.values)?;
            if let Some(average) = &mut state.average {
                move_average(average, &state.values, settings.average_decay, state.step);
            }
            state.losses.add(loss);
            state.curve.add(state.step, loss, n_steps);
            report(Progress::Step { step: state.step, loss });
            let ends_epoch = state.step.is_multiple_of(steps_an_epoch);
            if settings.checkpoint_steps > 0
                && state.step.is_multiple_of(settings.checkpoint_steps)
                && !ends_epoch
            {
                checkpoint.write(&state)?;
            }
        }
        // The last step has no loss after it.
        if !state.values.iter().flatten().all(|value| value.is_finite()) {
            return Err(TrainError::Settings(format!(
                "step {}: the weights are not finite; lower rate, set clip, or raise warm_up, and start in another \
                 directory; the last checkpoint is kept",
                state.step
            )));
        }
        parameters.set(state.measured())?;
        let value = match settings.select {
            Select::Mrr => {
                let ranked = learner.ranks(&measured, measured_targets.as_ref())?;
                average(&selection::reciprocal_ranks(&ranked))
            }
            Select::Ndcg => average(&selection::ndcg(&learner.ranks(&measured, measured_targets.as_ref())?)),
            Select::Accuracy => average(&learner.hits(&measured)?),
            Select::Last => None,
        };
        let evaluation = Evaluation {
            epoch: epoch + 1,
            step: state.step,
            loss: std::mem::take(&mut state.losses).value(),
            value,
        };
        let better = state.best.as_ref().is_none_or(|(best, _)| value >= best.value);
        if better {
            state.best = Some((evaluation.clone(), state.measured().clone()));
        }
        parameters.set(&state.values)?;
        state.evaluations.push(evaluation);
        checkpoint.write(&state)?;
        report(Progress::Evaluated(Outcome {
            losses: state.curve.points.clone(),
            evaluations: state.evaluations.clone(),
            kept: state.best.as_ref().map(|(best, _)| best.clone()),
        }));
    }

    let State { best, evaluations, values, average, curve, .. } = state;
    let (kept, values) = match best {
        Some((kept, values)) => (Some(kept), values),
        None => (None, average.unwrap_or(values)),
    };
    parameters.set(&values)?;
    let report = Report {
        settings: settings.clone(),
        device: device.name(),
        n_examples: examples.list.len(),
        n_held_out: measured.list.len(),
        n_codes: measured.codes.len(),
        evaluations: evaluations.clone(),
        kept: kept.clone(),
    };
    let card = output::card(provenance, &report);
    let tensors = parameters.tensors()?;
    output::write_model(directory, model, network.cosine, settings, &tensors, &card, &report)?;
    checkpoint.remove()?;
    Ok(Outcome { losses: curve.points, evaluations, kept })
}

/// A run before its first step.
struct Prepared {
    network: Network,
    parameters: Parameters,
    reader: Reader,
    examples: Examples,
    measured: Examples,
    steps_an_epoch: u64,
}

impl Prepared {
    /// Reads the texts, and checks that they and the settings allow training.
    fn new(run: &Run<'_>) -> Result<Prepared, TrainError> {
        let Run { model, rows, held_out, corpus, settings, device, .. } = *run;
        settings.check()?;
        if settings.layers > 0 && settings.layers != model.shape.n_layers {
            return Err(TrainError::Settings(format!(
                "layers: expected a model with {} layers, found {}; see Trainable::keep_layers",
                settings.layers, model.shape.n_layers
            )));
        }
        if model.late.is_some()
            && (settings.objective != Objective::InfoNce
                || settings.code_vectors != CodeVectors::Own
                || !settings.matryoshka.is_empty())
        {
            return Err(TrainError::Settings(
                "a model with a vector for each token is trained with objective = \"info-nce\", code_vectors = \"own\" and no \
                 matryoshka alone"
                    .into(),
            ));
        }
        let network =
            Network::new(model, model.cosine).limited(settings.max_query_tokens, settings.max_code_tokens);
        let parameters = Parameters::new(&start(model, settings)?, device.inner())?;
        let reader = Reader::new(model, settings)?;
        let examples = Examples::new(rows, &reader, settings)?;
        let measured = measured(held_out, corpus, &reader, settings)?;
        let steps_an_epoch = examples.plan(settings, 0).len().div_ceil(settings.accumulate) as u64;
        if steps_an_epoch == 0 {
            return Err(TrainError::Settings(format!(
                "{} examples are too few to learn from; give more pairs (a query and a code, for tri-loss a summary too)",
                examples.list.len()
            )));
        }
        if settings.objective.kind() == Kind::Classifier && examples.list.iter().all(|example| example.label)
        {
            return Err(TrainError::Settings(
                "all pairs are labeled 1, so nothing can be learned; give some with label 0 or with negatives (`quarry \
                 data negatives`), or set random_negatives"
                    .into(),
            ));
        }
        if measured.list.is_empty() && settings.select != Select::Last {
            return Err(TrainError::Settings(
                "nothing is held out to choose the best epoch by; raise held_out, name a file with --dev, or set select = \
             \"last\""
                    .into(),
            ));
        }
        if let Some(columns) =
            settings.matryoshka.iter().find(|columns| !(1..=network.dimension).contains(*columns))
        {
            return Err(TrainError::Settings(format!(
                "matryoshka: expected numbers of columns from 1 to {}, found {columns}",
                network.dimension
            )));
        }
        Ok(Prepared { network, parameters, reader, examples, measured, steps_an_epoch })
    }
}

fn measured(
    held_out: &[Row],
    corpus: &[String],
    reader: &Reader,
    settings: &Settings,
) -> Result<Examples, TrainError> {
    if !corpus.is_empty() && (settings.objective.kind() == Kind::Classifier || !settings.select.ranks()) {
        return Err(TrainError::Settings(
            "a corpus is ranked to choose the best epoch, with select = \"mrr\" or \"ndcg\" and an objective that trains \
             vectors; leave out --corpus"
                .into(),
        ));
    }
    let mut measured =
        Examples::new(held_out, reader, &Settings { rewrite: Rewrite::None, ..settings.clone() })?;
    measured.add_codes(corpus, reader)?;
    Ok(measured)
}

/// Moves an average towards the values after a step. In the first steps it keeps less of its previous value, so that the
/// initial weights do not stay in it.
fn move_average(average: &mut [Vec<f32>], values: &[Vec<f32>], decay: f64, step: u64) {
    let decay = decay.min((1.0 + step as f64) / (10.0 + step as f64)) as f32;
    for (average, values) in average.iter_mut().flatten().zip(values.iter().flatten()) {
        *average = decay * *average + (1.0 - decay) * values;
    }
}

/// The tensors that a run begins with: the model's, and those of a new head, or of the matcher beside the model.
fn start(model: &Trainable, settings: &Settings) -> Result<Vec<NamedTensor>, TrainError> {
    let mut tensors = model.tensors.clone();
    let seed = mix(settings.seed, 0x6865_6164);
    match settings.objective.kind() {
        Kind::Encoder => {}
        Kind::Classifier
            if model.wiring.relative.is_some() && model.pooling != TrainablePooling::Projection =>
        {
            return Err(TrainError::Settings(format!(
                "cross-entropy needs a BERT or RoBERTa model, or CodeT5+ with its projection, found {}; name one of these, or another objective",
                model.model_type
            )));
        }
        Kind::Classifier => {
            tensors.extend(head::new_classifier(&model.model_type, model.dimension, 2, seed, &model.tensors));
        }
        Kind::Matcher => {
            let path = model.directory.join(MATCHER_FILE);
            let known = path.is_file().then(|| read_matcher(&path, model.dimension)).transpose();
            tensors.extend(match known.map_err(TrainError::Model)? {
                Some(known) => known.into(),
                None => head::new_matcher(model.dimension, seed),
            });
        }
    }
    Ok(tensors)
}

/// Mean loss and gradients of several batches.
fn accumulate(
    learner: &Learner<'_>,
    examples: &Examples,
    batches: &[Vec<u32>],
    targets: Option<&TeacherTargets>,
    seed: u64,
) -> Result<(f32, Vec<Vec<f32>>), TrainError> {
    let mut sum: Option<learner::Outcome> = None;
    for (at, batch) in batches.iter().enumerate() {
        let outcome = learner.learn(examples, batch, targets, mix(seed, at as u64))?;
        match &mut sum {
            None => sum = Some(outcome),
            Some(sum) => {
                sum.loss += outcome.loss;
                for (sum, gradient) in sum.gradients.iter_mut().zip(outcome.gradients) {
                    sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
                }
            }
        }
    }
    let n = batches.len() as f32;
    let Some(mut sum) = sum else { return Ok((0.0, Vec::new())) };
    if batches.len() > 1 {
        sum.gradients.iter_mut().flatten().for_each(|x| *x /= n);
    }
    Ok((sum.loss / n, sum.gradients))
}

/// Returns whether training ends: `patience` epochs in a row are not better than the best before them.
fn stops(evaluations: &[Evaluation], best: Option<&Evaluation>, patience: usize) -> bool {
    let (Some(last), Some(best)) = (evaluations.last(), best) else { return false };
    patience > 0 && last.epoch - best.epoch >= patience
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Tells the data, the teacher and the first weights of one run from those of another.
fn identity(
    rows: &[Row],
    held_out: &[Row],
    corpus: &[String],
    examples: &Examples,
    teacher: &str,
    values: &[Vec<f32>],
) -> u64 {
    let mut hash = Xxh3::new();
    for code in corpus {
        hash.update(&xxh3_64(code.as_bytes()).to_le_bytes());
    }
    for row in rows.iter().chain(held_out) {
        for text in [&row.query, &row.code, &row.summary].into_iter().chain(&row.negatives) {
            hash.update(&xxh3_64(text.as_bytes()).to_le_bytes());
        }
        hash.update(&[u8::from(row.answers())]);
    }
    hash.update(&(rows.len() as u64).to_le_bytes());
    hash.update(teacher.as_bytes());
    // Texts as the model's tokenizer reads them.
    for ids in examples.list.iter().map(|example| &example.query).chain(&examples.codes) {
        hash.update(bytemuck::cast_slice(ids));
    }
    for values in values {
        hash.update(bytemuck::cast_slice(values));
    }
    hash.digest()
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Mean {
    sum: f64,
    n: usize,
}

impl Mean {
    fn add(&mut self, value: f32) {
        self.sum += f64::from(value);
        self.n += 1;
    }

    fn value(&self) -> f32 {
        (self.sum / self.n.max(1) as f64) as f32
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Curve {
    points: Vec<LossPoint>,
    /// Losses of the steps since the last point.
    since: Mean,
}

impl Curve {
    /// Adds the loss of a step of a run of `n_steps`.
    fn add(&mut self, step: u64, loss: f32, n_steps: u64) {
        self.since.add(loss);
        if step.is_multiple_of(n_steps.div_ceil(LOSS_POINTS).max(1)) || step == n_steps {
            self.points.push(LossPoint { step, loss: std::mem::take(&mut self.since).value() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_follows_the_values_and_forgets_where_it_began() {
        let mut average = vec![vec![100.0, 0.0]];
        for step in 1..=2000 {
            move_average(&mut average, &[vec![1.0, step as f32]], 0.99, step);
        }
        assert!((average[0][0] - 1.0).abs() < 1e-3, "{average:?}");
        // An average of the last steps with weights that fall by 0.99: 99 steps behind.
        assert!((average[0][1] - 1901.0).abs() < 0.5, "{average:?}");
        move_average(&mut average, &[vec![12.0, 12.0]], 0.99, 1);
        assert!((average[0][0] - (1.0 * 2.0 + 12.0 * 9.0) / 11.0).abs() < 1e-2, "{average:?}");
    }

    #[test]
    fn the_curve_of_a_run_has_few_points_and_leaves_no_step_out() {
        for n_steps in [1, 3, 200, 201, 12_345] {
            let mut curve = Curve::default();
            (1..=n_steps).for_each(|step| curve.add(step, step as f32, n_steps));
            assert!(curve.points.len() <= LOSS_POINTS as usize, "{n_steps}: {}", curve.points.len());
            assert_eq!(curve.points.last().unwrap().step, n_steps);
            let mut first = 1;
            for point in &curve.points {
                assert!((point.loss - (first + point.step) as f32 / 2.0).abs() < 1e-2, "{point:?}");
                first = point.step + 1;
            }
        }
    }
}
