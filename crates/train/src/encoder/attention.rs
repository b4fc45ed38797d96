//! Attention with its gradient, over rows of tokens of many texts. No more than the scores of one head in one text are in
//! memory for each thread; they are computed again for the gradient.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use quarry_transformer::trainable::{Output, Strided, multiply};
use rayon::prelude::*;

use super::fused::{DropoutMask, matrix, slice, sum_of, tensor, transposed, with_values};

/// Attention of the tokens of each text to each other, from rows of queries, keys and values of all heads side by side.
pub(super) struct Attention {
    pub n_heads: usize,
    /// The rows of each text, one text after the other.
    pub spans: Vec<Range<usize>>,
    pub scale: f32,
    /// Share of the weights of attention that are dropped, and what decides which.
    pub dropout: (f32, u64),
}

/// The matrices of one head in one text.
struct Head<'a> {
    query: Strided<'a>,
    key: Strided<'a>,
    value: Strided<'a>,
}

impl Attention {
    /// The rows of all heads' results; `biases` has what is added to the scores by distance: one row for each head, one
    /// column for each distance from 1 - n to n - 1 of the longest text.
    pub(super) fn apply(self, rows: &Tensor, biases: &Tensor) -> Result<Tensor> {
        rows.contiguous()?.apply_op2(&biases.contiguous()?, self)
    }

    /// Dropout mask of the weights of a head in a text: from each token to each other.
    pub(super) fn dropout_mask(&self, text: usize, head: usize) -> Option<DropoutMask> {
        let (rate, seed) = self.dropout;
        let number = (text * self.n_heads + head) as u64;
        (rate > 0.0).then_some(DropoutMask { rate, seed: seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03) })
    }

    fn head<'a>(&self, rows: &'a [f32], row_width: usize, head: usize) -> Head<'a> {
        let width = row_width / 3 / self.n_heads;
        let part = |part: usize| Strided {
            values: &rows[part * row_width / 3 + head * width..],
            row_stride: row_width,
            column_stride: 1,
        };
        Head { query: part(0), key: part(1), value: part(2) }
    }

    /// The weights of attention of a head in a text of `n` tokens, nothing dropped.
    fn weights(&self, head: &Head<'_>, width: usize, biases: &[f32], n: usize, scores: &mut Vec<f32>) {
        scores.resize(n * n, 0.0);
        multiply(Output::Replace, scores, n, head.query, transposed(head.key), [n, n, width]);
        let middle = biases.len() / 2;
        for (position, row) in scores.chunks_exact_mut(n).enumerate() {
            let biases = &biases[middle - position..][..n];
            let mut maximum = f32::NEG_INFINITY;
            for (score, bias) in row.iter_mut().zip(biases) {
                *score = *score * self.scale + bias;
                maximum = maximum.max(*score);
            }
            let mut sum = 0.0;
            for score in &mut *row {
                *score = (*score - maximum).exp();
                sum += *score;
            }
            row.iter_mut().for_each(|score| *score /= sum);
        }
    }
}

/// Cuts the rows of each text out of all.
fn cut<'a>(mut rows: &'a mut [f32], spans: &[Range<usize>], width: usize) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(spans.len());
    for span in spans {
        let (part, rest) = rows.split_at_mut(span.len() * width);
        parts.push(part);
        rows = rest;
    }
    parts
}

impl CustomOp2 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        layout: &Layout,
        biases: &CpuStorage,
        biases_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (n_rows, row_width) = layout.shape().dims2()?;
        let (rows, biases) = (slice(rows, layout)?, slice(biases, biases_layout)?);
        let (hidden, n_biases) = (row_width / 3, biases.len() / self.n_heads);
        let width = hidden / self.n_heads;
        let mut result = vec![0.0; n_rows * hidden];
        let texts = cut(&mut result, &self.spans, hidden).into_par_iter().zip(&self.spans).enumerate();
        texts.for_each(|(text, (result, span))| {
            let rows = &rows[span.start * row_width..span.end * row_width];
            let (n, mut weights) = (span.len(), Vec::new());
            for number in 0..if n == 0 { 0 } else { self.n_heads } {
                let head = self.head(rows, row_width, number);
                self.weights(&head, width, &biases[number * n_biases..][..n_biases], n, &mut weights);
                if let Some(mask) = self.dropout_mask(text, number) {
                    weights.iter_mut().enumerate().for_each(|(at, weight)| *weight *= mask.factor(at));
                }
                let output = &mut result[number * width..];
                multiply(Output::Replace, output, hidden, matrix(&weights, n), head.value, [n, width, n]);
            }
        });
        Ok((CpuStorage::F32(result), (n_rows, hidden).into()))
    }

    fn bwd(
        &self,
        rows: &Tensor,
        biases: &Tensor,
        _result: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (_, row_width) = rows.dims2()?;
        let (hidden, n_biases) = (row_width / 3, biases.elem_count() / self.n_heads);
        let (grad_rows, grad_biases) = with_values(rows, |all| {
            with_values(biases, |biases| {
                with_values(gradient, |gradient| {
                    let mut grad_all = vec![0.0; all.len()];
                    let texts = cut(&mut grad_all, &self.spans, row_width).into_par_iter().zip(&self.spans);
                    let sums: Vec<Vec<f32>> = texts
                        .enumerate()
                        .map(|(text, (grad_rows, span))| {
                            let rows = &all[span.start * row_width..span.end * row_width];
                            let gradient = &gradient[span.start * hidden..span.end * hidden];
                            self.backward(text, [rows, biases, gradient], grad_rows)
                        })
                        .collect();
                    (grad_all, sum_of(sums, self.n_heads * n_biases))
                })
            })
        })???;
        Ok((Some(tensor(grad_rows, rows)?), Some(tensor(grad_biases, biases)?)))
    }
}

impl Attention {
    /// The gradient of the rows of a text; returns the gradient of the biases.
    fn backward(
        &self,
        text: usize,
        [rows, biases, gradient]: [&[f32]; 3],
        grad_rows: &mut [f32],
    ) -> Vec<f32> {
        let mut grad_biases = vec![0.0; biases.len()];
        let n = self.spans[text].len();
        if n == 0 {
            return grad_biases;
        }
        let (row_width, hidden, n_biases) = (rows.len() / n, gradient.len() / n, biases.len() / self.n_heads);
        let width = hidden / self.n_heads;
        let (mut weights, mut dropped, mut grad_scores) = (Vec::new(), Vec::new(), vec![0.0; n * n]);
        for number in 0..self.n_heads {
            let head = self.head(rows, row_width, number);
            let own = number * n_biases..(number + 1) * n_biases;
            self.weights(&head, width, &biases[own.clone()], n, &mut weights);
            dropped.clone_from(&weights);
            let mask = self.dropout_mask(text, number);
            if let Some(mask) = mask {
                dropped.iter_mut().enumerate().for_each(|(at, weight)| *weight *= mask.factor(at));
            }
            let grad_context =
                Strided { values: &gradient[number * width..], row_stride: hidden, column_stride: 1 };
            let mut backward = |part: usize, left: Strided<'_>, right: Strided<'_>| {
                let output = &mut grad_rows[part * hidden + number * width..];
                multiply(Output::Replace, output, row_width, left, right, [n, width, n]);
            };
            backward(2, transposed(matrix(&dropped, n)), grad_context);
            multiply(
                Output::Replace,
                &mut grad_scores,
                n,
                grad_context,
                transposed(head.value),
                [n, n, width],
            );
            let grad_head_biases = &mut grad_biases[own];
            let rows = grad_scores.chunks_exact_mut(n).zip(weights.chunks_exact(n));
            for (position, (grad_scores, weights)) in rows.enumerate() {
                if let Some(mask) = mask {
                    let grad_scores = grad_scores.iter_mut().enumerate();
                    grad_scores.for_each(|(at, value)| *value *= mask.factor(position * n + at));
                }
                let mean: f32 = grad_scores.iter().zip(weights).map(|(value, weight)| value * weight).sum();
                let grad_biases = &mut grad_head_biases[n_biases / 2 - position..];
                for ((value, weight), grad_bias) in grad_scores.iter_mut().zip(weights).zip(grad_biases) {
                    *value = weight * (*value - mean);
                    *grad_bias += *value;
                    *value *= self.scale;
                }
            }
            backward(0, matrix(&grad_scores, n), head.key);
            backward(1, transposed(matrix(&grad_scores, n)), head.query);
        }
        grad_biases
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::encoder::fused::dropout;
    use crate::encoder::fused::tests::{check_same, noise, values};

    #[test]
    fn attention_is_that_of_each_text() {
        let spans = vec![0..3, 3..4, 4..9];
        let (n_heads, width) = (2, 4);
        let (rows, biases) = (noise(9, 3 * n_heads * width, 1), noise(n_heads, 9, 2));
        let ours =
            |dropout| Attention { n_heads, spans: spans.clone(), scale: 0.5, dropout }.apply(&rows, &biases);
        let theirs = || {
            let of_text = |span: &Range<usize>| {
                let n = span.len();
                let rows = rows.narrow(0, span.start, n)?;
                let of_head = |head: usize| {
                    let part = |part: usize| {
                        rows.narrow(1, part * n_heads * width + head * width, width)?.contiguous()
                    };
                    let grad_row = |row: usize| biases.narrow(0, head, 1)?.narrow(1, 4 - row, n);
                    let biases = Tensor::cat(&(0..n).map(grad_row).collect::<Result<Vec<_>>>()?, 0)?;
                    let scores = ((part(0)?.matmul(&part(1)?.t()?)? * 0.5)? + biases)?.exp()?;
                    scores.broadcast_div(&scores.sum_keepdim(1)?)?.matmul(&part(2)?)
                };
                Tensor::cat(&(0..n_heads).map(of_head).collect::<Result<Vec<_>>>()?, 1)
            };
            Tensor::cat(&spans.iter().map(of_text).collect::<Result<Vec<_>>>()?, 0)
        };
        check_same("attention", &[rows.clone(), biases.clone()], || ours((0.0, 0)), theirs);
        assert_ne!(values(&ours((0.5, 1)).unwrap()), values(&ours((0.5, 2)).unwrap()));
    }

    #[test]
    fn gradients_know_what_was_dropped() {
        let (rows, biases) = (noise(5, 12, 1), noise(1, 9, 2));
        let loss = |rows: &Tensor| -> Result<Tensor> {
            let attention = Attention { n_heads: 1, spans: vec![0..2, 2..5], scale: 1.0, dropout: (0.4, 3) };
            let mask = DropoutMask { rate: 0.3, seed: 8 };
            dropout(&attention.apply(rows, &biases)?, mask)?.sqr()?.sum_all()
        };
        let gradient = loss(&rows).unwrap().backward().unwrap().get(rows.as_tensor()).cloned().unwrap();
        let start = values(&rows);
        for (at, found) in values(&gradient).into_iter().enumerate() {
            let moved = |by: f32| {
                let mut values = start.clone();
                values[at] += by;
                loss(&Tensor::from_vec(values, (5, 12), &Device::Cpu).unwrap())
                    .unwrap()
                    .to_scalar::<f32>()
                    .unwrap()
            };
            let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((found - difference).abs() < 1e-2, "{at}: {found}, {difference}");
        }
    }
}
