//! The losses: functions of scores or vectors, whose gradients are computed by candle.
//!
//! Every logarithm of a sum or of a probability is computed as a log-sum-exp, to avoid overflow and underflow.
//! Scores are rows of queries against columns of documents; those of a query and its own document are on the
//! diagonal.

use candle_core::{DType, Device, Result, Tensor};

/// The score of an ignored pair: its exponential is 0 relative to any other.
const IGNORED: f32 = -1e30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// From each query to its document: softmax over the documents of the batch.
    #[default]
    One,
    /// Both ways: also from each document to its query.
    Two,
}

/// ln Σ exp over a dimension; shape without that dimension.
fn log_sum_exp(x: &Tensor, dimension: usize) -> Result<Tensor> {
    let max = x.max_keepdim(dimension)?.detach();
    x.broadcast_sub(&max)?.exp()?.sum(dimension)?.log()? + max.squeeze(dimension)?
}

/// ln(1 + exp(x)), element by element.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let max = x.relu()?.detach();
    (((x - &max)?.exp()? + max.neg()?.exp()?)?.log()? + max)?.contiguous()
}

/// ln softmax over the last dimension of a matrix.
fn log_softmax(x: &Tensor) -> Result<Tensor> {
    x.broadcast_sub(&log_sum_exp(x, 1)?.unsqueeze(1)?)
}

fn diagonal(scores: &Tensor) -> Result<Tensor> {
    let n = scores.dim(0)?;
    let index = Tensor::arange(0u32, n as u32, scores.device())?.unsqueeze(1)?;
    scores.gather(&index, 1)?.squeeze(1)
}

/// Mean of the values where `mask` is true; `None` if it is true nowhere.
fn masked_mean(values: &Tensor, mask: &[bool]) -> Result<Option<Tensor>> {
    let n = mask.iter().filter(|on| **on).count();
    if n == 0 {
        return Ok(None);
    }
    let counted: Vec<f32> = mask.iter().map(|on| if *on { 1.0 } else { 0.0 }).collect();
    let counted = Tensor::from_vec(counted, values.shape(), values.device())?.to_dtype(values.dtype())?;
    Ok(Some(((values * counted)?.sum_all()? / n as f64)?))
}

fn sum_of(terms: impl IntoIterator<Item = Option<Tensor>>, device: &Device) -> Result<Tensor> {
    let mut sum = Tensor::zeros((), DType::F32, device)?;
    for term in terms.into_iter().flatten() {
        sum = (sum.to_dtype(term.dtype())? + term)?;
    }
    Ok(sum)
}

/// Replaces scores where `ignored` is true.
fn without(scores: &Tensor, ignored: &[bool]) -> Result<Tensor> {
    if !ignored.contains(&true) {
        return Ok(scores.clone());
    }
    let mask: Vec<u8> = ignored.iter().map(|on| u8::from(*on)).collect();
    let mask = Tensor::from_vec(mask, scores.shape(), scores.device())?;
    let low = Tensor::full(IGNORED, scores.shape(), scores.device())?.to_dtype(scores.dtype())?;
    mask.where_cond(&low, scores)
}

/// InfoNCE (van den Oord et al., 2018) over scores of n queries and at least n documents, already multiplied by their
/// scale: the mean cross-entropy of finding the document on the diagonal. Cells that are `ignored` (in row-major
/// order) are not negatives: those where the document also answers the query. The second direction is over the
/// first n documents; the loss is then the mean of both.
pub fn info_nce(scores: &Tensor, ignored: &[bool], directions: Directions) -> Result<Tensor> {
    let scores = without(scores, ignored)?;
    let n = scores.dim(0)?;
    let own = diagonal(&scores)?;
    let forward = (log_sum_exp(&scores, 1)? - &own)?.mean_all()?;
    match directions {
        Directions::One => Ok(forward),
        Directions::Two => {
            let backward = (log_sum_exp(&scores.narrow(1, 0, n)?, 0)? - own)?.mean_all()?;
            (forward + backward)? * 0.5
        }
    }
}

/// Like [`info_nce`] in one direction, with any number of positives in a row, at least one: the negative logarithm
/// of their share of the sum.
pub fn multi_positive(scores: &Tensor, positives: &[bool]) -> Result<Tensor> {
    let others: Vec<bool> = positives.iter().map(|on| !on).collect();
    (log_sum_exp(scores, 1)? - log_sum_exp(&without(scores, &others)?, 1)?)?.mean_all()
}

/// Query4Code's objective for queries, summaries and codes (its equation 6): the two positives are summed within
/// one logarithm. Both matrices are n × n.
pub fn tri_loss(query_scores: &Tensor, summary_scores: &Tensor) -> Result<Tensor> {
    let all = log_sum_exp(&Tensor::cat(&[query_scores, summary_scores], 1)?, 1)?;
    let own = Tensor::stack(&[diagonal(query_scores)?, diagonal(summary_scores)?], 1)?;
    (all - log_sum_exp(&own, 1)?)?.mean_all()
}

/// Binary cross-entropy of logits against labels in 0..=1.
pub fn binary_cross_entropy(logits: &Tensor, labels: &[f32]) -> Result<Tensor> {
    let labels = Tensor::from_slice(labels, logits.shape(), logits.device())?.to_dtype(logits.dtype())?;
    (softplus(logits)? - (logits * labels)?)?.mean_all()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coclr {
    /// The released code's loss for search: all positives together weigh as much as all negatives.
    Released,
    /// The released code's loss for questions and answers: before that, drops negatives that score at least as high
    /// as every positive, and positives that score at most as high as every negative.
    Online,
}

/// CoCLR's loss over the logits of n queries and n codes, as in its code. Cells on the diagonal with label 1 are
/// positive, all others negative: L = −mean ln s over positives − mean ln(1 − s) over negatives. A side without
/// cells adds nothing, where the released code gives NaN. Of the other codes of the batch, only the next `others`
/// after a query's own count, cyclically; all if it is 0.
pub fn coclr(logits: &Tensor, labels: &[bool], others: usize, form: Coclr) -> Result<Tensor> {
    let n = labels.len();
    let mut positives: Vec<bool> = (0..n * n).map(|at| at / n == at % n && labels[at / n]).collect();
    let mut negatives: Vec<bool> =
        (0..n * n).map(|at| !positives[at] && counts(at / n, at % n, n, others)).collect();
    if form == Coclr::Online {
        let values: Vec<f32> = logits.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?;
        (positives, negatives) = online_cells(&values, &positives, &negatives);
    }
    let positive = masked_mean(&softplus(&logits.neg()?)?, &positives)?;
    let negative = masked_mean(&softplus(logits)?, &negatives)?;
    sum_of([positive, negative], logits.device())
}

/// Returns true if the code in a column counts for a query whose code is in the column `own`, among n: its own, and
/// the next `others`.
fn counts(own: usize, column: usize, n: usize, others: usize) -> bool {
    others == 0 || (column + n - own) % n <= others
}

/// The cells that the online form keeps. If one side has a single cell, the mean of the other side is the bound.
fn online_cells(logits: &[f32], positives: &[bool], negatives: &[bool]) -> (Vec<bool>, Vec<bool>) {
    // Means are taken of probabilities; for comparisons, these and logits are equivalent.
    let scores: Vec<f32> = logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    let masked = |mask: &[bool]| -> Vec<f32> {
        scores.iter().zip(mask).filter(|(_, on)| **on).map(|(score, _)| *score).collect()
    };
    let (p, n) = (masked(positives), masked(negatives));
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len().max(1) as f32;
    let below = if p.len() > 1 { p.iter().copied().fold(f32::MIN, f32::max) } else { mean(&n) };
    let above = if n.len() > 1 { n.iter().copied().fold(f32::MAX, f32::min) } else { mean(&p) };
    let keep = |mask: &[bool], keeps: &dyn Fn(f32) -> bool| -> Vec<bool> {
        mask.iter().zip(&scores).map(|(on, score)| *on && keeps(*score)).collect()
    };
    (keep(positives, &|score| score > above), keep(negatives, &|score| score < below))
}

/// The logits of a rewritten query for each positive, against the codes of the batch.
pub struct Rewritten<'a> {
    /// One row for each rewritten query.
    pub logits: &'a Tensor,
    /// The column of its own code.
    pub own: &'a [usize],
}

/// CoCLR's loss as in its paper: for each example its binary cross-entropy, plus the mean of −ln(1 − s) over the
/// other codes of the batch (the next `others` as in [`coclr`]), and for positives both again with the rewritten
/// query; averaged over the examples.
pub fn coclr_paper(
    logits: &Tensor,
    labels: &[bool],
    others: usize,
    rewritten: Option<Rewritten<'_>>,
) -> Result<Tensor> {
    let n = labels.len();
    let signs: Vec<f32> = labels.iter().map(|label| if *label { 1.0 } else { 0.0 }).collect();
    let in_batch = |logits: &Tensor, own: &[usize]| -> Result<Option<Tensor>> {
        let is_other = |own: usize, column: usize| column != own && counts(own, column, n, others);
        let cells: Vec<bool> =
            own.iter().flat_map(|own| (0..n).map(move |column| is_other(*own, column))).collect();
        masked_mean(&softplus(logits)?, &cells)
    };
    let own: Vec<usize> = (0..n).collect();
    let base = binary_cross_entropy(&diagonal(logits)?, &signs)?;
    let mut terms = vec![Some(base), in_batch(logits, &own)?];
    if let Some(Rewritten { logits, own }) = rewritten.filter(|rewritten| !rewritten.own.is_empty()) {
        let share = own.len() as f64 / n as f64;
        let cells: Vec<bool> = own.iter().flat_map(|own| (0..n).map(move |column| column == *own)).collect();
        for term in [masked_mean(&softplus(&logits.neg()?)?, &cells)?, in_batch(logits, own)?] {
            terms.push(term.map(|term| term * share).transpose()?);
        }
    }
    sum_of(terms, logits.device())
}

/// Mean cross-entropy of logits (one row per example, one column per class).
pub fn cross_entropy(logits: &Tensor, classes: &[u32]) -> Result<Tensor> {
    let index = Tensor::from_slice(classes, (classes.len(), 1), logits.device())?;
    log_softmax(logits)?.gather(&index, 1)?.mean_all()?.neg()
}

/// Mean over the negatives of max(0, margin − own score + their score); `ignored` cells are not negatives.
pub fn margin(scores: &Tensor, ignored: &[bool], margin: f64) -> Result<Tensor> {
    let (n, m) = scores.dims2()?;
    let negatives: Vec<bool> = (0..n * m).map(|at| at / m != at % m && !ignored[at]).collect();
    let own = diagonal(scores)?.unsqueeze(1)?;
    let hinge = (scores.broadcast_sub(&own)? + margin)?.relu()?;
    sum_of([masked_mean(&hinge, &negatives)?], scores.device())
}

/// Kullback–Leibler divergence of the softmax of each row of a student's scores from that of a teacher's, both
/// divided by a temperature. Cosines need one far below 1; the gradient then has the same magnitude as that of
/// [`info_nce`] at the same scale, so it is not multiplied by the squared temperature, unlike for temperatures
/// above 1.
pub fn distill_scores(scores: &Tensor, teacher: &Tensor, temperature: f64) -> Result<Tensor> {
    let student = log_softmax(&(scores / temperature)?)?;
    let teacher = log_softmax(&(teacher.detach() / temperature)?)?;
    (teacher.exp()? * (&teacher - student)?)?.sum(1)?.mean_all()
}

/// Like [`distill_scores`], over the documents whose teacher scores are known (`known`, row by row); both
/// distributions exclude the others.
pub fn distill_known_scores(
    scores: &Tensor,
    teacher: &Tensor,
    known: &[bool],
    temperature: f64,
) -> Result<Tensor> {
    let mask: Vec<u8> = known.iter().map(|known| u8::from(*known)).collect();
    let mask = Tensor::from_vec(mask, scores.shape(), scores.device())?;
    let ignored = Tensor::full(IGNORED, scores.shape(), scores.device())?.to_dtype(scores.dtype())?;
    let masked = |scores: &Tensor| mask.where_cond(scores, &ignored);
    distill_scores(&masked(scores)?, &masked(teacher)?, temperature)
}

/// Mean squared distance of vectors from a teacher's.
pub fn distill_vectors(vectors: &Tensor, teacher: &Tensor) -> Result<Tensor> {
    (vectors - teacher.detach())?.sqr()?.sum(1)?.mean_all()
}

/// Rows of length 1; a row of zeros is unchanged.
pub fn normalize(rows: &Tensor) -> Result<Tensor> {
    // The square root has an infinite gradient at 0.
    let length = (rows.sqr()?.sum_keepdim(1)? + 1e-24)?.sqrt()?;
    rows.broadcast_div(&length)
}

/// The mean of a loss of queries and documents over their first columns, for each of `dimensions` (Kusupati et al.,
/// 2022). Truncated vectors are normalized again if `cosine` is set; empty dimensions mean all columns.
pub fn matryoshka(
    vectors: &[Tensor],
    dimensions: &[usize],
    cosine: bool,
    loss: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Tensor> {
    if dimensions.is_empty() {
        return loss(vectors);
    }
    let mut terms = Vec::new();
    for dimension in dimensions {
        let cut = |rows: &Tensor| {
            let rows = rows.narrow(1, 0, *dimension)?;
            // CUDA does not multiply rows with gaps between them.
            if cosine { normalize(&rows) } else { rows.contiguous() }
        };
        let cut = vectors.iter().map(cut).collect::<Result<Vec<_>>>()?;
        terms.push(Some(loss(&cut)?));
    }
    let device = vectors.first().map_or(&Device::Cpu, Tensor::device);
    sum_of(terms, device)? / dimensions.len() as f64
}
