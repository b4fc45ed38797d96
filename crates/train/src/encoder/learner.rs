//! Losses and gradients of one batch, and predictions for held-out pairs.

use std::cmp::Ordering;
use std::collections::HashMap;

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};
use quarry_embed::Side;
use rayon::prelude::*;

use super::data::{Example, Examples, mix};
use super::fused::with_values;
use super::head::{classify, match_all};
use super::network::{Dropout, Network, Parameters, first};
use super::objective::{
    Coclr, Rewritten, binary_cross_entropy, coclr, coclr_paper, cross_entropy, distill_known_scores,
    distill_scores, distill_vectors, info_nce, margin, matryoshka, multi_positive, normalize, tri_loss,
};
use super::selection::Ranked;
use super::settings::{CodeVectors, Kind, Objective, OtherPositives, Settings};

/// The loss of vectors against the targets of a teacher.
type Distillation<'a> = dyn Fn(&[Tensor], &BatchTargets) -> Result<Tensor> + 'a;

/// Values of a gradient that a thread takes at a time.
const PART: usize = 1 << 16;

/// Texts that go through the encoder at once where no gradient is needed.
const EVALUATION_CHUNK: usize = 32;

/// The targets of a teacher for all examples.
#[derive(Debug)]
pub(super) enum TeacherTargets {
    /// Its vectors: one row for each example's query, and one for each code.
    Vectors { queries: Tensor, codes: Tensor },
    /// Scores of the codes that are labeled for a query, by the hash of the query and the number of the code.
    Scores(HashMap<(u64, u32), f32>),
}

enum BatchTargets {
    /// Vectors of queries and of codes.
    Vectors([Tensor; 2]),
    /// A score for each query and code, and which of these are known.
    Scores(Tensor, Vec<bool>),
}

pub(super) struct Learner<'a> {
    pub network: &'a Network,
    pub parameters: &'a Parameters,
    pub settings: &'a Settings,
    pub model_type: &'a str,
}

/// Returns whether a score is counted above a pair's own: unless it is below it, so that NaN is never first.
fn is_above(score: f32, own: f32) -> bool {
    score.partial_cmp(&own) != Some(Ordering::Less)
}

/// Loss of a batch, and the gradient of each parameter.
#[derive(Debug)]
pub(super) struct Outcome {
    /// In nats.
    pub loss: f32,
    /// In the order of the parameters.
    pub gradients: Vec<Vec<f32>>,
}

/// Description of a batch, beside its vectors, that a loss of vectors needs.
struct Batch {
    labels: Vec<bool>,
    ignored: Vec<bool>,
    /// The examples whose query was rewritten, as positions in the batch.
    rewritten: Vec<usize>,
    teacher: Option<BatchTargets>,
}

impl Learner<'_> {
    /// Loss and gradients of a batch of examples. `seed` decides what is dropped and which hard negatives are drawn.
    pub(super) fn learn(
        &self,
        data: &Examples,
        batch: &[u32],
        targets: Option<&TeacherTargets>,
        seed: u64,
    ) -> Result<Outcome> {
        match self.settings.objective.kind() {
            Kind::Classifier => self.learn_classes(data, batch, seed),
            _ => self.learn_vectors(data, batch, targets, seed),
        }
    }

    fn learn_vectors(
        &self,
        data: &Examples,
        numbers: &[u32],
        targets: Option<&TeacherTargets>,
        seed: u64,
    ) -> Result<Outcome> {
        let columns = data.columns(numbers, self.settings, seed);
        let examples: Vec<&Example> = numbers.iter().map(|at| &data.list[*at as usize]).collect();
        let rewritten: Vec<usize> =
            (0..examples.len()).filter(|at| examples[*at].rewritten.is_some()).collect();
        let mut sides: Vec<Vec<&[u32]>> =
            vec![examples.iter().map(|example| example.query.as_slice()).collect()];
        if self.settings.code_vectors == CodeVectors::Own {
            sides.push(columns.iter().map(|code| data.codes[*code as usize].as_slice()).collect());
        }
        if self.settings.objective == Objective::TriLoss {
            sides.push(examples.iter().map(|example| example.summary.as_slice()).collect());
        }
        if !rewritten.is_empty() {
            sides.push(rewritten.iter().filter_map(|at| examples[*at].rewritten.as_deref()).collect());
        }
        let teacher = match targets {
            None => None,
            Some(TeacherTargets::Vectors { queries, codes }) => {
                let rows = |table: &Tensor, rows: &[u32]| {
                    let rows = Tensor::from_slice(rows, rows.len(), table.device())?;
                    table.index_select(&rows, 0)?.to_device(self.parameters.device())
                };
                let queries = match self.settings.objective.distills() {
                    true => rows(queries, numbers)?,
                    false => queries.clone(),
                };
                Some(BatchTargets::Vectors([queries, rows(codes, &columns)?]))
            }
            Some(TeacherTargets::Scores(scores)) => {
                let score = |example: &&Example, code: &u32| scores.get(&(example.query_key, *code)).copied();
                let cells: Vec<Option<f32>> = (examples.iter())
                    .flat_map(|example| columns.iter().map(move |code| score(example, code)))
                    .collect();
                let values: Vec<f32> = cells.iter().map(|cell| cell.unwrap_or_default()).collect();
                let shape = (examples.len(), columns.len());
                let scores = Tensor::from_vec(values, shape, self.parameters.device())?;
                Some(BatchTargets::Scores(scores, cells.iter().map(Option::is_some).collect()))
            }
        };
        let batch = Batch {
            labels: examples.iter().map(|example| example.label).collect(),
            ignored: data.ignored(numbers, &columns, self.settings),
            rewritten,
            teacher,
        };
        let n_texts: usize = sides.iter().map(Vec::len).sum();
        if self.settings.chunk == 0 || n_texts <= self.settings.chunk {
            let mut dropout = Dropout::new(self.settings.dropout, seed);
            let vectors = sides
                .iter()
                .enumerate()
                .map(|(number, side)| {
                    self.network.embed(self.parameters, side, side_of(number), &mut dropout)
                })
                .collect::<Result<Vec<_>>>()?;
            let loss = self.loss(&vectors, &batch)?;
            let mut gradients = self.zeros();
            self.add(&mut gradients, &loss.backward()?)?;
            return Ok(Outcome { loss: loss.to_scalar()?, gradients });
        }
        self.learn_by_chunks(&sides, &batch, seed)
    }

    /// As above with one chunk of texts in memory at a time: once for the vectors, and once more to backpropagate the gradient of
    /// the loss by each vector into the encoder (GradCache). Both times drop the same values.
    fn learn_by_chunks(&self, sides: &[Vec<&[u32]>], batch: &Batch, seed: u64) -> Result<Outcome> {
        let embed = |side: usize, chunk: usize, texts: &[&[u32]]| {
            let seed = mix(mix(seed, side as u64), chunk as u64);
            let mut dropout = Dropout::new(self.settings.dropout, seed);
            self.network.embed(self.parameters, texts, side_of(side), &mut dropout)
        };
        let size = self.settings.chunk;
        let mut vectors = Vec::new();
        for (number, side) in sides.iter().enumerate() {
            let parts = side
                .chunks(size)
                .enumerate()
                .map(|(chunk, texts)| Ok(embed(number, chunk, texts)?.detach()))
                .collect::<Result<Vec<_>>>()?;
            vectors.push(Var::from_tensor(&Tensor::cat(&parts, 0)?)?);
        }
        let leaves: Vec<Tensor> = vectors.iter().map(|vector| vector.as_tensor().clone()).collect();
        let loss = self.loss(&leaves, batch)?;
        let of_loss = loss.backward()?;
        let mut sum = self.zeros();
        self.add(&mut sum, &of_loss)?;
        for (number, (side, leaf)) in sides.iter().zip(&leaves).enumerate() {
            let Some(gradient) = of_loss.get(leaf) else { continue };
            for (chunk, texts) in side.chunks(size).enumerate() {
                // It is a function of the matcher's weights, whose gradient is counted already.
                let gradient = gradient.narrow(0, chunk * size, texts.len())?.detach();
                let product = (embed(number, chunk, texts)? * gradient)?.sum_all()?;
                self.add(&mut sum, &product.backward()?)?;
            }
        }
        Ok(Outcome { loss: loss.to_scalar()?, gradients: sum })
    }

    fn learn_classes(&self, data: &Examples, numbers: &[u32], seed: u64) -> Result<Outcome> {
        let size = if self.settings.chunk == 0 { numbers.len() } else { self.settings.chunk };
        let mut outcome = Outcome { loss: 0.0, gradients: self.zeros() };
        for (chunk, numbers_of_chunk) in numbers.chunks(size).enumerate() {
            let examples: Vec<&Example> =
                numbers_of_chunk.iter().map(|at| &data.list[*at as usize]).collect();
            let mut dropout = Dropout::new(self.settings.dropout, mix(seed, chunk as u64));
            let classes: Vec<u32> = examples.iter().map(|example| u32::from(example.label)).collect();
            let share = examples.len() as f64 / numbers.len() as f64;
            let loss = (cross_entropy(&self.classes(&examples, &mut dropout)?, &classes)? * share)?;
            self.add(&mut outcome.gradients, &loss.backward()?)?;
            outcome.loss += loss.to_scalar::<f32>()?;
        }
        Ok(outcome)
    }

    pub(super) fn classes(&self, examples: &[&Example], dropout: &mut Dropout) -> Result<Tensor> {
        let texts: Vec<&[u32]> = examples.iter().map(|example| example.query.as_slice()).collect();
        let (states, rows) = self.network.states(self.parameters, &texts, dropout)?;
        classify(self.parameters, self.model_type, &first(&states, &rows)?, dropout)
    }

    /// The loss of the vectors of queries, codes, and what else the objective takes.
    fn loss(&self, vectors: &[Tensor], batch: &Batch) -> Result<Tensor> {
        let Settings { objective, scale, matryoshka: dimensions, .. } = self.settings;
        let cosine = self.network.cosine;
        let scores = |queries: &Tensor, codes: &Tensor| self.network.scores(queries, codes)? * *scale;
        let contrastive = |v: &[Tensor]| {
            let scores = scores(&v[0], &v[1])?;
            if self.settings.other_positives == OtherPositives::Positive {
                let columns = scores.dim(1)?;
                let own = |at: usize| at / columns == at % columns;
                let positives: Vec<bool> =
                    batch.ignored.iter().enumerate().map(|(at, other)| *other || own(at)).collect();
                return multi_positive(&scores, &positives);
            }
            info_nce(&scores, &batch.ignored, self.settings.directions)
        };
        let share = self.settings.teacher_share;
        let mixed = |taught: &Distillation| match &batch.teacher {
            None => Err(candle_core::Error::Msg("no teacher was given".into())),
            Some(teacher) => matryoshka(vectors, dimensions, cosine, |v| {
                let taught = taught(v, teacher)?;
                if share >= 1.0 { Ok(taught) } else { (taught * share)? + (contrastive(v)? * (1.0 - share))? }
            }),
        };
        match objective {
            Objective::InfoNce if self.settings.code_vectors == CodeVectors::Teacher => {
                let Some(BatchTargets::Vectors([_, codes])) = &batch.teacher else {
                    return Err(candle_core::Error::Msg("no teacher with vectors was given".into()));
                };
                contrastive(&[self.truncated_queries(codes, &vectors[0])?, codes.detach()])
            }
            Objective::InfoNce => matryoshka(vectors, dimensions, cosine, contrastive),
            Objective::TriLoss => matryoshka(vectors, dimensions, cosine, |v| {
                tri_loss(&scores(&v[0], &v[1])?, &scores(&v[2], &v[1])?)
            }),
            Objective::Margin => matryoshka(vectors, dimensions, cosine, |v| {
                margin(&v[0].matmul(&v[1].t()?)?, &batch.ignored, self.settings.margin)
            }),
            Objective::DistillScores => mixed(&|v, teacher| {
                let student = v[0].matmul(&v[1].t()?)?;
                let temperature = self.settings.teacher_temperature;
                match teacher {
                    BatchTargets::Vectors([queries, codes]) => {
                        distill_scores(&student, &queries.matmul(&codes.t()?)?, temperature)
                    }
                    BatchTargets::Scores(scores, known) => {
                        distill_known_scores(&student, &(scores / *scale)?, known, temperature)
                    }
                }
            }),
            Objective::DistillVectors => mixed(&|v, teacher| {
                let BatchTargets::Vectors(teacher) = teacher else {
                    return Err(candle_core::Error::Msg("no teacher with vectors was given".into()));
                };
                let loss = |side: usize| {
                    let columns = v[side].dim(1)?;
                    distill_vectors(&v[side], &teacher[side].narrow(1, 0, columns)?)
                };
                (loss(0)? + loss(1)?)? * 0.5
            }),
            Objective::Siamese => {
                let logits = match_all(self.parameters, &vectors[0], &vectors[1])?;
                let n = batch.labels.len();
                let index = Tensor::arange(0u32, n as u32, logits.device())?.unsqueeze(1)?;
                let labels: Vec<f32> =
                    batch.labels.iter().map(|label| if *label { 1.0 } else { 0.0 }).collect();
                binary_cross_entropy(&logits.gather(&index, 1)?.squeeze(1)?, &labels)
            }
            Objective::Coclr | Objective::CoclrOnline => {
                let logits = match_all(self.parameters, &vectors[0], &vectors[1])?;
                let form = if *objective == Objective::Coclr { Coclr::Released } else { Coclr::Online };
                coclr(&logits, &batch.labels, self.settings.batch_negatives, form)
            }
            Objective::CoclrPaper => {
                let logits = match_all(self.parameters, &vectors[0], &vectors[1])?;
                let rewritten = match vectors.get(2) {
                    Some(rewritten) => Some(match_all(self.parameters, rewritten, &vectors[1])?),
                    None => None,
                };
                let rewritten = rewritten.as_ref().map(|logits| Rewritten { logits, own: &batch.rewritten });
                coclr_paper(&logits, &batch.labels, self.settings.batch_negatives, rewritten)
            }
            Objective::CrossEntropy => Err(candle_core::Error::Msg("classes have no vectors".into())),
        }
    }

    /// Vectors of queries, cut to the columns of `codes`.
    fn truncated_queries(&self, codes: &Tensor, queries: &Tensor) -> Result<Tensor> {
        let columns = codes.dim(1)?;
        if queries.dim(1)? == columns {
            return Ok(queries.clone());
        }
        let queries = queries.narrow(1, 0, columns)?;
        if self.network.cosine { normalize(&queries) } else { queries.contiguous() }
    }

    fn zeros(&self) -> Vec<Vec<f32>> {
        self.parameters.variables().iter().map(|variable| vec![0.0; variable.elem_count()]).collect()
    }

    fn add(&self, sum: &mut [Vec<f32>], store: &GradStore) -> Result<()> {
        for (sum, variable) in sum.iter_mut().zip(self.parameters.variables()) {
            if let Some(gradient) = store.get(variable.as_tensor()) {
                with_values(gradient, |gradient| {
                    sum.par_chunks_mut(PART).zip(gradient.par_chunks(PART)).for_each(|(sum, gradient)| {
                        sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
                    });
                })?;
            }
        }
        Ok(())
    }

    /// The vectors of texts, in order, without anything dropped.
    pub(super) fn embed_all(&self, texts: &[&[u32]], side: Side) -> Result<Tensor> {
        // Texts of a chunk have about one length, so that few are padded.
        let mut order: Vec<u32> = (0..texts.len() as u32).collect();
        order.sort_by_key(|at| texts[*at as usize].len());
        let mut parts = Vec::new();
        for chunk in order.chunks(EVALUATION_CHUNK) {
            let texts: Vec<&[u32]> = chunk.iter().map(|at| texts[*at as usize]).collect();
            let mut dropout = Dropout::new(0.0, 0);
            parts.push(self.network.embed(self.parameters, &texts, side, &mut dropout)?.detach());
        }
        let mut places = vec![0u32; texts.len()];
        for (place, at) in order.iter().enumerate() {
            places[*at as usize] = place as u32;
        }
        Tensor::cat(&parts, 0)?
            .index_select(&Tensor::from_vec(places, texts.len(), self.parameters.device())?, 0)
    }

    /// Rank of each positive pair's code among all codes. Ties count against the model, other codes that answer the
    /// query do not.
    pub(super) fn ranks(&self, data: &Examples, targets: Option<&TeacherTargets>) -> Result<Vec<Ranked>> {
        if self.settings.objective.kind() == Kind::Classifier {
            return self.ranks_by_class(data);
        }
        let asked: Vec<&Example> = data.list.iter().filter(|example| example.label).collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let queries: Vec<&[u32]> = asked.iter().map(|example| example.query.as_slice()).collect();
        let mut queries = self.embed_all(&queries, Side::Query)?;
        let codes = match targets {
            Some(TeacherTargets::Vectors { codes, .. })
                if self.settings.code_vectors == CodeVectors::Teacher =>
            {
                queries = self.truncated_queries(codes, &queries)?;
                codes.to_device(self.parameters.device())?
            }
            _ => {
                let codes: Vec<&[u32]> = data.codes.iter().map(Vec::as_slice).collect();
                self.embed_all(&codes, Side::Document)?
            }
        };
        let mut ranks = Vec::new();
        for (chunk, examples) in asked.chunks(EVALUATION_CHUNK).enumerate() {
            let queries = queries.narrow(0, chunk * EVALUATION_CHUNK, examples.len())?;
            let scores = match self.settings.objective.kind() {
                Kind::Matcher => self.match_by_parts(&queries, &codes)?,
                _ if self.network.is_late() => {
                    by_parts(&queries, &codes, |queries, codes| self.network.scores(queries, codes))?
                }
                _ => queries.matmul(&codes.t()?)?.to_vec2::<f32>()?,
            };
            for (scores, example) in scores.iter().zip(examples) {
                let own = scores[example.code as usize];
                let above = |(code, score): (usize, &f32)| {
                    is_above(*score, own) && !data.answers(example, code as u32)
                };
                let above = scores.iter().enumerate().filter(|cell| above(*cell)).count();
                ranks.push(Ranked { query: example.query_key, above, code: example.code });
            }
        }
        Ok(ranks)
    }

    /// The same for a classifier, among the codes that are labeled for the query.
    fn ranks_by_class(&self, data: &Examples) -> Result<Vec<Ranked>> {
        let mut scores = Vec::with_capacity(data.list.len());
        for examples in data.list.chunks(EVALUATION_CHUNK) {
            let examples: Vec<&Example> = examples.iter().collect();
            let logits = self.classes(&examples, &mut Dropout::new(0.0, 0))?.detach();
            scores.extend(logits.to_vec2::<f32>()?.iter().map(|row| row[1] - row[0]));
        }
        let mut others: HashMap<u64, Vec<f32>> = HashMap::new();
        for (example, score) in data.list.iter().zip(&scores).filter(|(example, _)| !example.label) {
            others.entry(example.query_key).or_default().push(*score);
        }
        let rank = |(example, own): (&Example, &f32)| {
            let others = others.get(&example.query_key).into_iter().flatten();
            let above = others.filter(|score| is_above(**score, *own)).count();
            Ranked { query: example.query_key, above, code: example.code }
        };
        Ok(data.list.iter().zip(&scores).filter(|(example, _)| example.label).map(rank).collect())
    }

    /// The matcher's logits, by parts of the codes that fit in memory.
    pub(super) fn match_by_parts(&self, queries: &Tensor, codes: &Tensor) -> Result<Vec<Vec<f32>>> {
        by_parts(queries, codes, |queries, codes| match_all(self.parameters, queries, codes))
    }

    pub(super) fn hits(&self, data: &Examples) -> Result<Vec<f64>> {
        let mut hits = Vec::new();
        for examples in data.list.chunks(EVALUATION_CHUNK) {
            let examples: Vec<&Example> = examples.iter().collect();
            let answers: Vec<bool> = match self.settings.objective.kind() {
                Kind::Classifier => {
                    let logits = self.classes(&examples, &mut Dropout::new(0.0, 0))?.detach();
                    logits.to_vec2::<f32>()?.iter().map(|row| row[1] > row[0]).collect()
                }
                _ => {
                    let queries: Vec<&[u32]> =
                        examples.iter().map(|example| example.query.as_slice()).collect();
                    let codes: Vec<&[u32]> =
                        examples.iter().map(|example| data.codes[example.code as usize].as_slice()).collect();
                    let queries = self.embed_all(&queries, Side::Query)?;
                    let codes = self.embed_all(&codes, Side::Document)?;
                    let logits = match_all(self.parameters, &queries, &codes)?.detach().to_vec2::<f32>()?;
                    logits.iter().enumerate().map(|(at, row)| row[at] > 0.0).collect()
                }
            };
            hits.extend(
                answers.iter().zip(&examples).map(|(answer, example)| f64::from(*answer == example.label)),
            );
        }
        Ok(hits)
    }
}

/// The side of the texts with this number among those of a batch: codes come second.
fn side_of(number: usize) -> Side {
    if number == 1 { Side::Document } else { Side::Query }
}

/// The scores of queries against codes, by parts of the codes that fit in memory.
fn by_parts(
    queries: &Tensor,
    codes: &Tensor,
    score: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Vec<Vec<f32>>> {
    const PART: usize = 256;
    let mut rows: Vec<Vec<f32>> = vec![Vec::new(); queries.dim(0)?];
    for start in (0..codes.dim(0)?).step_by(PART) {
        let part = codes.narrow(0, start, PART.min(codes.dim(0)? - start))?;
        let scores = score(queries, &part)?.detach().to_vec2::<f32>()?;
        rows.iter_mut().zip(scores).for_each(|(row, part)| row.extend(part));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use quarry_transformer::trainable::Trainable;

    use super::super::data::{Reader, Row};
    use super::super::head::new_matcher;
    use super::super::settings::Batches;
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |query: &str, code: &str, label| Row {
            query: query.into(),
            code: code.into(),
            label: Some(label),
            summary: format!("the {query}"),
            ..Row::default()
        };
        let judged = Row { negatives: vec!["sort by value".into()], ..row("open the file", "def open", 1) };
        vec![
            row("sort a list", "def sort list", 1),
            row("open the file", "open file and read every line in it", 1),
            judged,
            row("find value", "def find ( value ) : return value", 1),
        ]
    }

    #[test]
    fn chunks_give_the_gradients_of_the_whole_batch() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../transformer/tests/fixtures/tiny-bert");
        let model = Trainable::read(path.as_ref()).unwrap();
        for objective in [Objective::InfoNce, Objective::TriLoss, Objective::Coclr] {
            let settings = Settings { objective, dropout: 0.0, hard_negatives: 1, ..Settings::default() };
            let mut tensors = model.tensors.clone();
            if objective == Objective::Coclr {
                tensors.extend(new_matcher(16, 1));
            }
            let parameters = Parameters::new(&tensors, &candle_core::Device::Cpu).unwrap();
            let network = Network::new(&model, true);
            let data = Examples::new(&rows(), &Reader::new(&model, &settings).unwrap(), &settings).unwrap();
            let batch: Vec<u32> = (0..data.list.len() as u32).collect();
            let learn = |chunk| {
                let settings = Settings { chunk, ..settings.clone() };
                let learner = Learner {
                    network: &network,
                    parameters: &parameters,
                    settings: &settings,
                    model_type: "bert",
                };
                learner.learn(&data, &batch, None, 1).unwrap()
            };
            let (whole, parts) = (learn(0), learn(2));
            assert!((whole.loss - parts.loss).abs() < 1e-5, "{objective:?}");
            let pairs = whole.gradients.iter().flatten().zip(parts.gradients.iter().flatten());
            assert!(pairs.clone().any(|(a, _)| a.abs() > 1e-3));
            for (a, b) in pairs {
                assert!((a - b).abs() < 1e-4 + 1e-3 * a.abs(), "{objective:?}: {a}, {b}");
            }
        }
    }

    #[test]
    fn batches_are_of_one_repository_as_far_as_they_go() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../transformer/tests/fixtures/tiny-bert");
        let model = Trainable::read(path.as_ref()).unwrap();
        let settings = Settings { batches: Batches::Repository, batch: 4, ..Settings::default() };
        let rows: Vec<Row> = (0..30)
            .map(|at| Row {
                query: format!("query {at}"),
                code: format!("code {at}"),
                repository: format!("owner/{}", at % 3),
                ..Row::default()
            })
            .collect();
        let data = Examples::new(&rows, &Reader::new(&model, &settings).unwrap(), &settings).unwrap();
        let plan = data.plan(&settings, 0);
        let mut seen = plan.concat();
        seen.sort_unstable();
        assert_eq!(seen, (0..30).collect::<Vec<u32>>());
        // Ten of each: two whole batches, and six examples are left over.
        let of_one = |batch: &&Vec<u32>| batch.len() == 4 && batch.iter().all(|at| at % 3 == batch[0] % 3);
        assert!(plan.iter().filter(of_one).count() >= 6);
        assert!(plan.iter().any(|batch| batch.iter().any(|at| at % 3 != batch[0] % 3)));
        assert_eq!(plan, data.plan(&settings, 0));
        assert_ne!(plan, data.plan(&settings, 1));
    }

    #[test]
    fn codes_that_answer_too_are_no_negatives() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../transformer/tests/fixtures/tiny-bert");
        let model = Trainable::read(path.as_ref()).unwrap();
        let settings = Settings { hard_negatives: 3, ..Settings::default() };
        let data = Examples::new(&rows(), &Reader::new(&model, &settings).unwrap(), &settings).unwrap();
        assert_eq!(data.list.len(), 4);
        let columns = data.columns(&[0, 1, 2, 3], &settings, 1);
        assert_eq!(columns, [0, 1, 2, 4, 3, 3]);
        let ignored = data.ignored(&[0, 1, 2, 3], &columns, &settings);
        let cells: Vec<usize> = (0..ignored.len()).filter(|at| ignored[*at]).collect();
        assert_eq!(cells, [8, 13]);
        let settings = Settings { other_positives: OtherPositives::Negative, ..settings };
        assert!(!data.ignored(&[0, 1, 2, 3], &columns, &settings).contains(&true));
    }
}
