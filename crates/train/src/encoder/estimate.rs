//! Duration of a run, estimated from one step of it.

use std::time::Instant;

use quarry_embed::Side;

use super::data::Examples;
use super::learner::Learner;
use super::network::Dropout;
use super::optimizer::Moments;
use super::settings::{Kind, Select};
use super::teacher::teacher_targets;
use super::{Prepared, Run, accumulate};
use crate::TrainError;
use crate::encoder::Row;

/// Held-out texts that are embedded to measure how long it takes.
const SAMPLE: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub n_examples: usize,
    pub n_steps: u64,
    pub step_seconds: f64,
    /// Seconds of measuring the held-out pairs, after all epochs together.
    pub measure_seconds: f64,
}

/// Measures a step of a run on pairs spread over all, and the reading of a few held-out texts; nothing is written. What a
/// teacher reads before the first step is not counted.
///
/// # Errors
/// As [`super::train`].
pub fn estimate(run: &Run<'_>) -> Result<Estimate, TrainError> {
    let Run { model, rows, settings, teacher, .. } = *run;
    let Prepared { network, parameters, reader, examples, measured, steps_an_epoch } = Prepared::new(run)?;
    let learner =
        Learner { network: &network, parameters: &parameters, settings, model_type: &model.model_type };
    // Twice as many, since some of them may not be examples of this objective.
    let wanted = 2 * settings.batch * settings.accumulate;
    let spread = (rows.len() / wanted).max(1);
    let sample: Vec<Row> = rows.iter().step_by(spread).take(wanted).cloned().collect();
    let n_examples = examples.list.len();
    let mut sample = Examples::new(&sample, &reader, settings)?;
    let mut batches = sample.plan(settings, 0);
    if batches.is_empty() {
        batches = examples.plan(settings, 0);
        sample = examples;
    }
    batches.truncate(settings.accumulate);
    let targets = teacher_targets(teacher, &sample, settings, &mut |_| {})?;
    let mut values: Vec<Vec<f32>> = parameters.tensors()?.into_iter().map(|tensor| tensor.values).collect();
    let mut moments: Vec<Moments> = values.iter().map(|values| Moments::new(values.len())).collect();
    let decays = parameters.decays();
    let mut step_seconds = f64::INFINITY;
    // Memory is new in the first of two.
    for step in 1..=2 {
        let start = Instant::now();
        let (_, gradients) = accumulate(&learner, &sample, &batches, targets.as_ref(), step)?;
        for (((values, gradient), moments), decays) in
            values.iter_mut().zip(&gradients).zip(&mut moments).zip(&decays)
        {
            settings.optimizer.update(values, gradient, moments, 0.0, step, *decays);
        }
        parameters.set(&values)?;
        step_seconds = step_seconds.min(start.elapsed().as_secs_f64());
    }
    Ok(Estimate {
        n_examples,
        n_steps: steps_an_epoch * settings.epochs as u64,
        step_seconds,
        measure_seconds: measure_seconds(&learner, &measured)? * settings.epochs as f64,
    })
}

/// Seconds of measuring the held-out examples once.
fn measure_seconds(learner: &Learner<'_>, measured: &Examples) -> Result<f64, TrainError> {
    let settings = learner.settings;
    if settings.select == Select::Last || measured.list.is_empty() {
        return Ok(0.0);
    }
    let spread = |n: usize| (0..n).step_by((n / SAMPLE).max(1)).take(SAMPLE);
    let start = Instant::now();
    if settings.objective.kind() == Kind::Classifier {
        let examples: Vec<_> = spread(measured.list.len()).map(|at| &measured.list[at]).collect();
        learner.classes(&examples, &mut Dropout::new(0.0, 0))?;
        return Ok(start.elapsed().as_secs_f64() / examples.len() as f64 * measured.list.len() as f64);
    }
    let codes: Vec<&[u32]> = spread(measured.codes.len()).map(|at| measured.codes[at].as_slice()).collect();
    let queries: Vec<&[u32]> =
        spread(measured.list.len()).map(|at| measured.list[at].query.as_slice()).collect();
    let of_codes = learner.embed_all(&codes, Side::Document)?;
    let code_seconds = start.elapsed().as_secs_f64() / codes.len() as f64;
    let start = Instant::now();
    let of_queries = learner.embed_all(&queries, Side::Query)?;
    let query_seconds = start.elapsed().as_secs_f64() / queries.len() as f64;
    let (n_queries, n_codes) = (measured.list.len() as f64, measured.codes.len() as f64);
    let embedding = n_queries * query_seconds + n_codes * code_seconds;
    if settings.objective.kind() != Kind::Matcher || !settings.select.ranks() {
        return Ok(embedding);
    }
    let start = Instant::now();
    learner.match_by_parts(&of_queries, &of_codes)?;
    let pair_seconds = start.elapsed().as_secs_f64() / (queries.len() * codes.len()) as f64;
    Ok(embedding + n_queries * n_codes * pair_seconds)
}
