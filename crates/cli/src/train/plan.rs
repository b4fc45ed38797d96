//! Trains the models of evaluation plans.

use std::path::Path;

use quarry_eval::plan::{TrainedRun, Trainer, TrainerError, TrainingEstimate, TrainingRun};
use quarry_train::encoder::{Estimate, Report, VERSION};

use super::encoder::{
    ComparedPairs, DeviceChoice, EncoderArgs, compare_pairs, estimate_encoder, settings, train_encoder,
};

#[derive(Default)]
pub struct EncoderTrainer {
    compared: ComparedPairs,
}

fn arguments(run: &TrainingRun, directory: &Path) -> EncoderArgs {
    let run = run.clone();
    EncoderArgs {
        model: run.model,
        pairs: run.pairs,
        dev: run.dev,
        corpus: run.corpus,
        teacher: run.teacher,
        recipe: run.recipe,
        settings: run.settings,
        device: DeviceChoice::Cpu,
        exclude: run.exclude,
        tolerate: run.tolerate,
        measured: run.measured,
        allow_evaluation_data: run.allow_evaluation_data,
        manifest: None,
        out: directory.to_owned(),
    }
}

impl Trainer for EncoderTrainer {
    fn settings(&self, run: &TrainingRun) -> Result<String, TrainerError> {
        let settings = settings(&arguments(run, Path::new("")))?;
        settings.check()?;
        Ok(format!("version {VERSION} {}", serde_json::to_string(&settings)?))
    }

    fn compare(&self, run: &TrainingRun) -> Result<String, TrainerError> {
        Ok(compare_pairs(&arguments(run, Path::new("")), &self.compared)?)
    }

    fn train(&self, run: &TrainingRun, directory: &Path) -> Result<(), TrainerError> {
        train_encoder(&arguments(run, directory), &self.compared)?;
        Ok(())
    }

    fn finished(&self, directory: &Path) -> Result<Option<TrainedRun>, TrainerError> {
        Ok(Report::read(directory)?.map(|report| TrainedRun {
            measure: report.settings.select.measure().to_owned(),
            value: report.kept.as_ref().and_then(|kept| kept.value),
            epoch: report.kept.map(|kept| kept.epoch),
            examples: report.n_examples,
        }))
    }

    fn estimate(&self, run: &TrainingRun) -> Result<TrainingEstimate, TrainerError> {
        let Estimate { n_examples, n_steps, step_seconds, measure_seconds } =
            estimate_encoder(&arguments(run, Path::new("")), &self.compared)?;
        Ok(TrainingEstimate { examples: n_examples, steps: n_steps, step_seconds, measure_seconds })
    }
}
