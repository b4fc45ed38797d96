//! The steps of `fused.rs` and `attention.rs` made of candle's own operations, which run on every device. The texts of a
//! batch are padded to one length.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::attention::Attention;
use super::fused::DropoutMask;
use super::rows::Rows;

/// The score of a token that pads a text: its exponential is 0 beside any other.
const PADDING: f32 = -1e30;

/// rows · weightᵀ + bias.
pub(super) fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    rows.matmul(&weight.t()?)?.broadcast_add(bias)
}

/// Normalizes rows to mean 0 and variance 1, then scales and shifts their columns.
pub(super) fn layer_norm(rows: &Tensor, scale: &Tensor, shift: &Tensor, epsilon: f32) -> Result<Tensor> {
    let centered = rows.broadcast_sub(&rows.mean_keepdim(1)?)?;
    let deviation = (centered.sqr()?.mean_keepdim(1)? + f64::from(epsilon))?.sqrt()?;
    centered.broadcast_div(&deviation)?.broadcast_mul(scale)?.broadcast_add(shift)
}

/// Sets values of a matrix to 0 at random, and scales the others up. Values of rows that are padded are numbered as in rows
/// without padding, so that the same ones are dropped.
pub(super) fn dropout(values: &Tensor, mask: DropoutMask, rows: Option<&Rows>) -> Result<Tensor> {
    let (n_rows, width) = values.dims2()?;
    let mut kept = vec![0u8; n_rows * width];
    kept.par_chunks_mut(width.max(1)).enumerate().for_each(|(row, kept)| {
        let Some(row) = rows.map_or(Some(row), |rows| rows.without_padding(row)) else { return };
        let columns = kept.iter_mut().enumerate();
        columns.for_each(|(column, kept)| *kept = u8::from(mask.keeps(row * width + column)));
    });
    keep(values, mask, kept)
}

/// Sets values to 0 where `kept` is 0, and scales the others up.
fn keep(values: &Tensor, mask: DropoutMask, kept: Vec<u8>) -> Result<Tensor> {
    // A byte for each value is uploaded, not four.
    let kept = Tensor::from_vec(kept, values.shape(), values.device())?.to_dtype(values.dtype())?;
    values * (kept * f64::from(mask.scale()))?
}

/// Mask that keeps attention from padding, added to its scores: texts × 1 × 1 × tokens.
pub(super) fn padding(rows: &Rows, n: usize, device: &Device) -> Result<Tensor> {
    let of_text = |text: usize| (0..n).map(move |at| if at < rows.spans[text].len() { 0.0 } else { PADDING });
    let values: Vec<f32> = (0..rows.spans.len()).flat_map(of_text).collect();
    Tensor::from_vec(values, (rows.spans.len(), 1, 1, n), device)
}

/// The result of [`Attention`] in texts padded to `n` tokens; `biases`, which are added to the scores, broadcast to texts ×
/// heads × tokens × tokens.
pub(super) fn attention(attention: &Attention, n: usize, rows: &Tensor, biases: &Tensor) -> Result<Tensor> {
    let Attention { n_heads, scale, .. } = *attention;
    let (n_rows, row_width) = rows.dims2()?;
    let (n_texts, width) = (n_rows / n.max(1), row_width / 3 / n_heads);
    let parts =
        rows.reshape(vec![n_texts, n, 3, n_heads, width])?.permute(vec![2, 0, 3, 1, 4])?.contiguous()?;
    let [query, key, value] = [parts.get(0)?, parts.get(1)?, parts.get(2)?];
    let scores = (query * f64::from(scale))?.matmul(&key.t()?)?.broadcast_add(biases)?;
    let exponentials = scores.broadcast_sub(&scores.max_keepdim(3)?.detach())?.exp()?;
    let mut weights = exponentials.broadcast_div(&exponentials.sum_keepdim(3)?)?;
    if attention.dropout.0 > 0.0 {
        weights = drop_weights(attention, n, &weights)?;
    }
    weights.matmul(&value)?.transpose(1, 2)?.reshape((n_rows, n_heads * width))
}

fn drop_weights(attention: &Attention, n: usize, weights: &Tensor) -> Result<Tensor> {
    let mut kept = vec![0u8; weights.elem_count()];
    kept.par_chunks_mut((n * n).max(1)).enumerate().for_each(|(number, kept)| {
        let text = number / attention.n_heads;
        let Some(mask) = attention.dropout_mask(text, number % attention.n_heads) else { return };
        let length = attention.spans[text].len();
        for (position, kept) in kept.chunks_exact_mut(n).enumerate().take(length) {
            let kept = kept[..length].iter_mut().enumerate();
            kept.for_each(|(at, kept)| *kept = u8::from(mask.keeps(position * length + at)));
        }
    });
    let (rate, seed) = attention.dropout;
    keep(weights, DropoutMask { rate, seed }, kept)
}
