//! The model to learn from, and its targets for all examples.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use quarry_embed::{Embedder, PairModel, Vectors};

use super::Progress;
use super::data::Examples;
use super::learner::TeacherTargets;
use super::settings::{CodeVectors, Objective, Settings};
use crate::TrainError;

/// Queries or codes that a teacher embeds at once.
const TEACHER_BATCH: usize = 64;

#[derive(Clone, Copy)]
pub enum Teacher<'a> {
    Encoder(&'a dyn Embedder),
    /// One that reads a query and a code together.
    CrossEncoder(&'a dyn PairModel),
}

impl<'a> Teacher<'a> {
    /// Identity of the model with its weights.
    pub fn id(self) -> &'a str {
        match self {
            Teacher::Encoder(model) => model.id(),
            Teacher::CrossEncoder(model) => model.id(),
        }
    }
}

/// The targets that the teacher gives for all queries and codes, if the recipe needs it.
pub(super) fn teacher_targets(
    teacher: Option<Teacher<'_>>,
    examples: &Examples,
    settings: &Settings,
    report: &mut impl FnMut(Progress),
) -> Result<Option<TeacherTargets>, TrainError> {
    if !settings.needs_teacher() {
        return Ok(None);
    }
    let Some(teacher) = teacher else {
        return Err(TrainError::Settings(
            "the recipe needs a teacher; name its directory with --teacher".into(),
        ));
    };
    let teacher = match teacher {
        Teacher::Encoder(teacher) => teacher,
        Teacher::CrossEncoder(teacher) => return scores(teacher, examples, settings, report).map(Some),
    };
    let n_queries = if settings.objective.distills() { examples.query_texts.len() } else { 0 };
    let all = n_queries + examples.code_texts.len();
    let mut done = 0;
    let mut embed = |texts: &[String], queries: bool| -> Result<Tensor, TrainError> {
        let mut values = Vec::new();
        for texts in texts.chunks(TEACHER_BATCH) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let Vectors { values: rows, .. } =
                if queries { teacher.embed_queries(&texts) } else { teacher.embed_documents(&texts) }
                    .map_err(TrainError::Teacher)?;
            values.extend(rows);
            done += texts.len();
            report(Progress::Teacher { done, all });
        }
        Ok(Tensor::from_vec(values, (texts.len(), teacher.dimension()), &Device::Cpu)?)
    };
    Ok(Some(TeacherTargets::Vectors {
        queries: embed(&examples.query_texts[..n_queries], true)?,
        codes: embed(&examples.code_texts, false)?,
    }))
}

/// The scores that a cross-encoder gives each query with the codes that are labeled for it.
fn scores(
    teacher: &dyn PairModel,
    examples: &Examples,
    settings: &Settings,
    report: &mut impl FnMut(Progress),
) -> Result<TeacherTargets, TrainError> {
    if settings.objective != Objective::DistillScores {
        return Err(TrainError::Settings(
            "the teacher is a cross-encoder, which has no vectors; set objective = \"distill-scores\", or name another \
             teacher"
                .into(),
        ));
    }
    let labeled = examples.labeled();
    if settings.hard_negatives == 0 || labeled.len() == examples.list.len() {
        return Err(TrainError::Settings(
            "a cross-encoder compares the code of a query with its negatives, and there are none; give rows with \
             `negatives`, and set hard_negatives to how many of a query's are drawn for a batch"
                .into(),
        ));
    }
    let mut found = HashMap::with_capacity(labeled.len());
    for labeled_now in labeled.chunks(TEACHER_BATCH) {
        let pairs: Vec<(&str, &str)> = (labeled_now.iter())
            .map(|&(at, code)| {
                (examples.query_texts[at].as_str(), examples.code_texts[code as usize].as_str())
            })
            .collect();
        let keys = labeled_now.iter().map(|&(at, code)| (examples.list[at].query_key, code));
        found.extend(keys.zip(teacher.log_odds(&pairs).map_err(TrainError::Teacher)?));
        report(Progress::Teacher { done: found.len(), all: labeled.len() });
    }
    Ok(TeacherTargets::Scores(found))
}

/// Checks that a teacher's vectors fit the model that learns from them.
pub(super) fn check_teacher(
    targets: &TeacherTargets,
    settings: &Settings,
    hidden: usize,
) -> Result<(), TrainError> {
    let TeacherTargets::Vectors { codes, .. } = targets else { return Ok(()) };
    let columns = codes.dim(1)?;
    if settings.code_vectors == CodeVectors::Teacher && columns > hidden {
        return Err(TrainError::Settings(format!(
            "the teacher's vectors have {columns} columns, expected at most the {hidden} of the model that learns its space; \
             use a larger model, or another teacher"
        )));
    }
    if settings.objective == Objective::DistillVectors && columns < hidden {
        return Err(TrainError::Settings(format!(
            "the teacher's vectors have {columns} columns, expected at least the {hidden} of the model that learns \
             them; use the objective distill-scores, or another teacher"
        )));
    }
    Ok(())
}
