//! The contrastive objective: a question is closer to its answer than to the batch's other answers.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::examples::Batch;
use crate::TrainError;

/// Sums of exponentials are taken to be at least this, so that nothing overflows where a text is empty and the
/// temperature very low.
const SMALLEST_SUM: f32 = 1e-30;

#[derive(Debug)]
pub(super) struct Outcome {
    /// Mean loss in nats: half the cross-entropy over the rows plus half that over the columns.
    pub loss: f32,
    /// Gradient by the unnormalized question vectors, one row a question.
    pub queries: Vec<f32>,
    /// Gradient by the unnormalized document vectors.
    pub documents: Vec<f32>,
}

/// Symmetric InfoNCE over in-batch negatives (van den Oord et al. 2018; both directions as in CLIP): with
/// `S = cos(q, d) / τ`, the mean over i of `−½ ln softmax(S[i, ·])[i] − ½ ln softmax(S[·, i])[i]`. Off-diagonal cells
/// whose question or document equals the row's own are not negatives and are left out. Documents beyond the number of
/// questions are negatives of every row, and no answers of their own.
///
/// With a teacher, the cross-entropies are taken against its distributions instead of against the diagonal alone:
/// `targets` holds what [`soften`] makes of them.
///
/// # Errors
/// When the matrix library fails.
pub(super) fn info_nce(
    mut queries: Vec<f32>,
    mut documents: Vec<f32>,
    dimension: usize,
    temperature: f32,
    batch: &Batch,
    targets: Option<&[f32]>,
) -> Result<Outcome, TrainError> {
    let n = batch.query_hash.len();
    let query_norms = normalize_rows(&mut queries, dimension);
    let document_norms = normalize_rows(&mut documents, dimension);
    let q = Tensor::from_slice(&queries, (n, dimension), &Device::Cpu)?;
    let n_documents = batch.code_hash.len();
    let d = Tensor::from_slice(&documents, (n_documents, dimension), &Device::Cpu)?;
    let mut cells = q.matmul(&d.t()?)?.flatten_all()?.to_vec1::<f32>()?;

    // Cosines are at most 1, so subtracting 1/τ keeps every exponential in 0..=1, for rows and columns alike.
    let positives: f32 = match targets {
        None => (0..n).map(|i| cells[i * n_documents + i]).sum(),
        // A row of targets is as long as there are answers.
        Some(targets) => cells
            .par_chunks(n_documents)
            .zip(targets.par_chunks(n))
            .map(|(cells, targets)| dot(&cells[..n], targets))
            .collect::<Vec<_>>()
            .iter()
            .sum(),
    };
    let row_sums: Vec<f32> = cells
        .par_chunks_exact_mut(n_documents)
        .enumerate()
        .map(|(i, row)| {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = if is_same(batch, i, j) { 0.0 } else { ((*cell - 1.0) / temperature).exp() };
            }
            row.iter().sum::<f32>().max(SMALLEST_SUM)
        })
        .collect();
    let mut column_sums = vec![0.0f32; n];
    for row in cells.chunks_exact(n_documents) {
        column_sums.iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
    }
    column_sums.iter_mut().for_each(|sum| *sum = sum.max(SMALLEST_SUM));
    let entropies: f32 = row_sums.iter().chain(&column_sums).map(|sum| 0.5 * sum.ln()).sum();
    let loss = (entropies - (positives - n as f32) / temperature) / n as f32;

    let share = 0.5 / (n as f32 * temperature);
    cells.par_chunks_exact_mut(n_documents).enumerate().for_each(|(i, row)| {
        let by_row = share / row_sums[i];
        let (answers, negatives) = row.split_at_mut(n);
        for (cell, column_sum) in answers.iter_mut().zip(&column_sums) {
            *cell *= by_row + share / column_sum;
        }
        negatives.iter_mut().for_each(|cell| *cell *= by_row);
        match targets {
            None => answers[i] -= 2.0 * share,
            Some(targets) => {
                answers
                    .iter_mut()
                    .zip(&targets[i * n..])
                    .for_each(|(cell, target)| *cell -= 2.0 * share * target);
            }
        }
    });
    let cells = Tensor::from_vec(cells, (n, n_documents), &Device::Cpu)?;
    let mut query_gradient = cells.matmul(&d)?.flatten_all()?.to_vec1::<f32>()?;
    let mut document_gradient = cells.t()?.matmul(&q)?.flatten_all()?.to_vec1::<f32>()?;
    backward_normalization(&mut query_gradient, &queries, &query_norms, dimension);
    backward_normalization(&mut document_gradient, &documents, &document_norms, dimension);
    Ok(Outcome { loss, queries: query_gradient, documents: document_gradient })
}

/// Returns whether document `j` is the answer of row `i`, or that of a row that asks the same, without being that of
/// row `i`.
fn is_same(batch: &Batch, i: usize, j: usize) -> bool {
    let asks_the_same = batch.query_hash.get(j) == Some(&batch.query_hash[i]);
    i != j && (asks_the_same || batch.code_hash[i] == batch.code_hash[j])
}

/// The targets of a batch by a teacher: in row i, `1 - share` on the question's own answer, and `share` spread as
/// the softmax of the teacher's cosines between this question and the others over `temperature`. A question that
/// the teacher does not know (a row of zeros) has only its own answer and answers no other question; cells that are
/// not negatives get nothing. Since the loss takes row i for the question and again for its answer, the result is
/// the mean of this matrix and its transpose.
///
/// # Errors
/// When the matrix library fails.
pub(super) fn soften(
    teacher: Vec<f32>,
    dimension: usize,
    temperature: f32,
    share: f32,
    batch: &Batch,
) -> Result<Vec<f32>, TrainError> {
    let n = batch.query_hash.len();
    let teacher = Tensor::from_vec(teacher, (n, dimension), &Device::Cpu)?;
    let mut cells = teacher.matmul(&teacher.t()?)?.flatten_all()?.to_vec1::<f32>()?;
    let known: Vec<bool> = (0..n).map(|i| cells[i * n + i] > 0.0).collect();
    cells.par_chunks_exact_mut(n).enumerate().for_each(|(i, row)| {
        let share = if known[i] { share } else { 0.0 };
        for (j, cell) in row.iter_mut().enumerate() {
            let counts = i == j || known[j] && !is_same(batch, i, j);
            *cell = if counts { ((*cell - 1.0) / temperature).exp() } else { 0.0 };
        }
        let scale = share / row.iter().sum::<f32>().max(SMALLEST_SUM);
        row.iter_mut().for_each(|cell| *cell *= scale);
        row[i] += 1.0 - share;
    });
    let cells = Tensor::from_vec(cells, (n, n), &Device::Cpu)?;
    Ok(((&cells + cells.t()?)? * 0.5)?.flatten_all()?.to_vec1::<f32>()?)
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (a_chunks, b_chunks) = (a.chunks_exact(16), b.chunks_exact(16));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum::<f32>() + tail
}

/// Scales each row to length 1 and returns the lengths; rows of zeros stay, with length 1.
pub(super) fn normalize_rows(rows: &mut [f32], dimension: usize) -> Vec<f32> {
    rows.par_chunks_exact_mut(dimension)
        .map(|row| {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            let norm = if norm > 0.0 { norm } else { 1.0 };
            row.iter_mut().for_each(|x| *x /= norm);
            norm
        })
        .collect()
}

/// Turns gradients by normalized rows into gradients by the rows before: (g − u (u·g)) / ‖v‖ with u = v / ‖v‖.
pub(super) fn backward_normalization(gradient: &mut [f32], unit: &[f32], norms: &[f32], dimension: usize) {
    gradient.par_chunks_exact_mut(dimension).zip(unit.par_chunks_exact(dimension)).zip(norms).for_each(
        |((gradient, unit), norm)| {
            let along = dot(gradient, unit);
            gradient.iter_mut().zip(unit).for_each(|(g, u)| *g = (*g - along * u) / norm);
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(query_hash: &[u64], code_hash: &[u64]) -> Batch {
        Batch { query_hash: query_hash.to_vec(), code_hash: code_hash.to_vec(), ..Batch::default() }
    }

    fn random(n: usize, seed: u64) -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..n).map(|_| random.f32() * 2.0 - 1.0).collect()
    }

    fn loss(q: &[f32], d: &[f32], batch: &Batch, targets: Option<&[f32]>) -> f32 {
        info_nce(q.to_vec(), d.to_vec(), 4, 0.1, batch, targets).unwrap().loss
    }

    fn check_gradient(batch: &Batch, targets: Option<&[f32]>) {
        let (q, d) = (random(12, 1), random(12, 2));
        let outcome = info_nce(q.clone(), d.clone(), 4, 0.1, batch, targets).unwrap();
        for at in 0..12 {
            let by = |change: f32, of_query: bool| {
                let (mut q, mut d) = (q.clone(), d.clone());
                if of_query {
                    q[at] += change
                } else {
                    d[at] += change
                }
                loss(&q, &d, batch, targets)
            };
            for (of_query, found) in [(true, outcome.queries[at]), (false, outcome.documents[at])] {
                let expected = (by(3e-3, of_query) - by(-3e-3, of_query)) / 6e-3;
                assert!(
                    (found - expected).abs() < 2e-2 * (1.0 + expected.abs()),
                    "{found} is not {expected}"
                );
            }
        }
    }

    #[test]
    fn gradients_agree_with_differences() {
        check_gradient(&batch(&[1, 2, 3], &[1, 2, 3]), None);
    }

    #[test]
    fn hard_negatives_push_their_question_away_and_are_no_answers() {
        // Rows 4 and 5 of the documents are negatives, of which row 5 is the answer of the first question.
        let batch = batch(&[1, 2, 3], &[1, 2, 3, 9, 1]);
        let (q, d) = (random(12, 1), random(20, 2));
        let outcome = info_nce(q.clone(), d.clone(), 4, 0.1, &batch, None).unwrap();
        assert_eq!((outcome.queries.len(), outcome.documents.len()), (12, 20));
        for at in 0..20 {
            let by = |change: f32| {
                let mut d = d.clone();
                d[at] += change;
                loss(&q, &d, &batch, None)
            };
            let (found, expected) = (outcome.documents[at], (by(3e-3) - by(-3e-3)) / 6e-3);
            assert!((found - expected).abs() < 2e-2 * (1.0 + expected.abs()), "{found} is not {expected}");
        }
        let without = self::batch(&[1, 2, 3], &[1, 2, 3]);
        assert!(outcome.loss > loss(&q, &d[..12], &without, None));
        // A negative of one question that is the answer of all is not in the way of any.
        let all = self::batch(&[1, 1, 1], &[1, 1, 1, 1]);
        assert!(loss(&q, &d[..16], &all, None).abs() < 1e-5);
    }

    #[test]
    fn repeated_questions_and_answers_are_no_negatives() {
        check_gradient(&batch(&[1, 1, 3], &[1, 2, 2]), None);
        let all_equal = batch(&[1, 1, 1], &[1, 2, 3]);
        assert!(loss(&random(12, 1), &random(12, 2), &all_equal, None).abs() < 1e-5);
    }

    #[test]
    fn a_teacher_shares_the_target_out() {
        let mut teacher = random(12, 5);
        normalize_rows(&mut teacher, 4);
        teacher[8..].fill(0.0);
        for (queries, codes) in [([1, 2, 3], [1, 2, 3]), ([1, 1, 3], [1, 2, 3])] {
            let batch = batch(&queries, &codes);
            let targets = soften(teacher.clone(), 4, 0.5, 0.4, &batch).unwrap();
            assert!((targets.iter().sum::<f32>() - 3.0).abs() < 1e-5, "{targets:?}");
            assert_eq!(targets[6..], [0.0, 0.0, 1.0]);
            assert!(targets[0] > 0.6 && (targets[1] > 0.0) == (queries[0] != queries[1]), "{targets:?}");
            check_gradient(&batch, Some(&targets));
        }
    }

    #[test]
    fn a_perfect_match_costs_little_and_a_wrong_one_much() {
        let unit = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let rotated = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        let distinct = batch(&[1, 2, 3], &[1, 2, 3]);
        assert!(loss(&unit, &unit, &distinct, None) < 1e-3);
        assert!(loss(&unit, &rotated, &distinct, None) > 9.0);
    }

    #[test]
    fn empty_texts_do_no_harm() {
        let outcome =
            info_nce(vec![0.0; 12], random(12, 2), 4, 0.01, &batch(&[1, 2, 3], &[1, 2, 3]), None).unwrap();
        assert!(outcome.loss.is_finite());
        assert!(outcome.queries.iter().chain(&outcome.documents).all(|x| x.is_finite()));
    }
}
