//! Steps of an encoder's forward pass with their gradients, each in one go over rows of tokens: candle's own operations would
//! write a tensor for every sum and product in them, and most of a training step would go by in waiting for memory. They run
//! on the CPU; `composed.rs` has the same for other devices.

use candle_core::{CpuStorage, CustomOp1, CustomOp3, Device, Error, Layout, Result, Shape, Storage, Tensor};
use quarry_transformer::trainable::{Activation, Output, Strided, multiply};
use rayon::prelude::*;

/// Rows that a thread takes at a time; sums over rows are made of the sums of such parts, so that they do not depend on the
/// number of threads.
const ROWS: usize = 64;

/// The values of a contiguous argument.
pub(super) fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (start, end) = layout
        .contiguous_offsets()
        .ok_or_else(|| Error::Msg("an argument of a fused step is not contiguous".into()))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Applies `read` to the values of a tensor, which are copied from other devices.
pub(super) fn with_values<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(read(slice(storage, layout)?)),
        _ => Err(Error::Msg("values were not copied from the device".into())),
    }
}

pub(super) fn tensor(values: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, like.shape(), like.device())
}

/// The sum of equally long vectors, in their order.
pub(super) fn sum_of(parts: Vec<Vec<f32>>, n: usize) -> Vec<f32> {
    let mut sum = vec![0.0; n];
    for part in parts {
        sum.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
    }
    sum
}

/// Normalizes rows to mean 0 and variance 1, then scales and shifts their columns.
pub(super) fn layer_norm(rows: &Tensor, scale: &Tensor, shift: &Tensor, epsilon: f32) -> Result<Tensor> {
    rows.contiguous()?.apply_op3(scale, shift, LayerNorm { epsilon })
}

struct LayerNorm {
    epsilon: f32,
}

impl LayerNorm {
    /// Mean of a row, and 1 over its deviation.
    fn moments(&self, row: &[f32]) -> (f32, f32) {
        let n = row.len() as f32;
        let mean = row.iter().sum::<f32>() / n;
        let variance = row.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / n;
        (mean, 1.0 / (variance + self.epsilon).sqrt())
    }

    /// The gradient of a row; adds to those of scale and shift.
    fn backward(
        &self,
        row: &[f32],
        scale: &[f32],
        gradient: &[f32],
        grad_row: &mut [f32],
        grad_scale: &mut [f32],
        grad_shift: &mut [f32],
    ) {
        let (mean, factor) = self.moments(row);
        let (mut sum, mut product) = (0.0, 0.0);
        let columns = row.iter().zip(scale).zip(gradient);
        for (((value, scale), gradient), (grad_scale, grad_shift)) in
            columns.zip(grad_scale.iter_mut().zip(grad_shift))
        {
            let normed = (value - mean) * factor;
            *grad_scale += gradient * normed;
            *grad_shift += gradient;
            sum += gradient * scale;
            product += gradient * scale * normed;
        }
        let n = row.len() as f32;
        let (sum, product) = (sum / n, product / n);
        for (((grad_row, value), scale), gradient) in grad_row.iter_mut().zip(row).zip(scale).zip(gradient) {
            let normed = (value - mean) * factor;
            *grad_row = (gradient * scale - sum - normed * product) * factor;
        }
    }
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        layout: &Layout,
        scale: &CpuStorage,
        scale_layout: &Layout,
        shift: &CpuStorage,
        shift_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, scale) = (slice(rows, layout)?, slice(scale, scale_layout)?);
        let shift = slice(shift, shift_layout)?;
        let mut result = vec![0.0; rows.len()];
        let width = scale.len().max(1);
        let parts = result.par_chunks_mut(ROWS * width).zip(rows.par_chunks(ROWS * width));
        parts.for_each(|(result, rows)| {
            for (result, row) in result.chunks_exact_mut(width).zip(rows.chunks_exact(width)) {
                let (mean, factor) = self.moments(row);
                for (((result, value), scale), shift) in result.iter_mut().zip(row).zip(scale).zip(shift) {
                    *result = (value - mean) * factor * scale + shift;
                }
            }
        });
        Ok((CpuStorage::F32(result), layout.shape().clone()))
    }

    fn bwd(
        &self,
        rows: &Tensor,
        scale: &Tensor,
        shift: &Tensor,
        _result: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let width = scale.elem_count().max(1);
        let (grad_rows, sums) = with_values(rows, |rows| {
            with_values(scale, |scale| {
                with_values(gradient, |gradient| {
                    let mut grad_rows = vec![0.0; rows.len()];
                    let parts = grad_rows
                        .par_chunks_mut(ROWS * width)
                        .zip(rows.par_chunks(ROWS * width))
                        .zip(gradient.par_chunks(ROWS * width));
                    let sums: Vec<Vec<f32>> = parts
                        .map(|((grad_rows, rows), gradient)| {
                            let mut sums = vec![0.0; 2 * width];
                            let (grad_scale, grad_shift) = sums.split_at_mut(width);
                            let parts = grad_rows.chunks_exact_mut(width).zip(rows.chunks_exact(width));
                            for ((grad_row, row), gradient) in parts.zip(gradient.chunks_exact(width)) {
                                self.backward(row, scale, gradient, grad_row, grad_scale, grad_shift);
                            }
                            sums
                        })
                        .collect();
                    (grad_rows, sum_of(sums, 2 * width))
                })
            })
        })???;
        let [grad_scale, grad_shift] = [&sums[..width], &sums[width..]].map(<[f32]>::to_vec);
        Ok((
            Some(tensor(grad_rows, rows)?),
            Some(tensor(grad_scale, scale)?),
            Some(tensor(grad_shift, shift)?),
        ))
    }
}

pub(super) fn gelu(values: &Tensor) -> Result<Tensor> {
    values.contiguous()?.apply_op1(Gelu)
}

struct Gelu;

/// Values that a thread takes at a time.
const VALUES: usize = 1 << 14;

impl CustomOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn cpu_fwd(&self, values: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut result = slice(values, layout)?.to_vec();
        result
            .par_chunks_mut(VALUES)
            .for_each(|values| Activation::Gelu.apply(values, &vec![0.0; values.len()]));
        Ok((CpuStorage::F32(result), layout.shape().clone()))
    }

    fn bwd(&self, values: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let input_gradient = with_values(values, |values| {
            with_values(result, |result| {
                with_values(gradient, |gradient| {
                    let mut input_gradient = gradient.to_vec();
                    let parts = input_gradient
                        .par_chunks_mut(VALUES)
                        .zip(values.par_chunks(VALUES))
                        .zip(result.par_chunks(VALUES));
                    parts.for_each(|((input_gradient, values), result)| {
                        for ((input_gradient, value), result) in
                            input_gradient.iter_mut().zip(values).zip(result)
                        {
                            *input_gradient *= gelu_slope(*value, *result);
                        }
                    });
                    input_gradient
                })
            })
        })???;
        tensor(input_gradient, values).map(Some)
    }
}

/// The slope of GELU at x, whose value is x times the share of a normal distribution below x.
fn gelu_slope(x: f32, value: f32) -> f32 {
    const DENSITY: f32 = 0.398_942_3;
    let below = if x.abs() < 1e-2 { 0.5 + DENSITY * x } else { value / x };
    below + x * DENSITY * (-0.5 * x * x).exp()
}

/// Sets values to 0 at random, and scales the others up.
pub(super) fn dropout(values: &Tensor, mask: DropoutMask) -> Result<Tensor> {
    values.contiguous()?.apply_op1(mask)
}

#[derive(Clone, Copy)]
pub(super) struct DropoutMask {
    pub(super) rate: f32,
    pub(super) seed: u64,
}

impl DropoutMask {
    pub(super) fn keeps(self, number: usize) -> bool {
        // SplitMix64.
        let mut x = self.seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32;
        share >= self.rate
    }

    /// Factor of the values that are kept.
    pub(super) fn scale(self) -> f32 {
        1.0 / (1.0 - self.rate)
    }

    /// Factor of the value at an index.
    pub(super) fn factor(self, number: usize) -> f32 {
        if self.keeps(number) { self.scale() } else { 0.0 }
    }
}

impl CustomOp1 for DropoutMask {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, values: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut result = slice(values, layout)?.to_vec();
        result.par_chunks_mut(VALUES).enumerate().for_each(|(part, values)| {
            let values = values.iter_mut().enumerate();
            values.for_each(|(at, value)| *value *= self.factor(part * VALUES + at));
        });
        Ok((CpuStorage::F32(result), layout.shape().clone()))
    }

    fn bwd(&self, _values: &Tensor, _result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        gradient.contiguous()?.apply_op1_no_bwd(self).map(Some)
    }
}

/// The matrix with rows and columns exchanged.
pub(super) fn transposed(matrix: Strided<'_>) -> Strided<'_> {
    Strided { values: matrix.values, row_stride: matrix.column_stride, column_stride: matrix.row_stride }
}

/// The rows of `n` columns in a slice.
pub(super) fn matrix(values: &[f32], n: usize) -> Strided<'_> {
    Strided { values, row_stride: n, column_stride: 1 }
}

/// rows · weightᵀ + bias.
pub(super) fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    rows.contiguous()?.apply_op3(&weight.contiguous()?, &bias.contiguous()?, Linear)
}

struct Linear;

/// Rows of a product that a thread computes at a time.
const PRODUCT_ROWS: usize = 256;

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((n_rows, n_inputs), n_outputs) = (layout.shape().dims2()?, weight_layout.shape().dims2()?.0);
        let (rows, weight) = (slice(rows, layout)?, slice(weight, weight_layout)?);
        let bias = slice(bias, bias_layout)?;
        let mut result = vec![0.0; n_rows * n_outputs];
        let parts =
            result.par_chunks_mut(PRODUCT_ROWS * n_outputs).zip(rows.par_chunks(PRODUCT_ROWS * n_inputs));
        parts.for_each(|(result, rows)| {
            result.chunks_exact_mut(n_outputs).for_each(|row| row.copy_from_slice(bias));
            let sizes = [rows.len() / n_inputs, n_outputs, n_inputs];
            let weight = transposed(matrix(weight, n_inputs));
            multiply(Output::Add, result, n_outputs, matrix(rows, n_inputs), weight, sizes);
        });
        Ok((CpuStorage::F32(result), (n_rows, n_outputs).into()))
    }

    fn bwd(
        &self,
        rows: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _result: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let ((n_rows, n_inputs), n_outputs) = (rows.dims2()?, weight.dim(0)?);
        let (grad_rows, grad_weight, grad_bias) = with_values(gradient, |gradient| {
            let mut grad_bias = vec![0.0; n_outputs];
            for row in gradient.chunks_exact(n_outputs) {
                grad_bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            let grad_rows = with_values(weight, |weight| {
                let mut grad_rows = vec![0.0; n_rows * n_inputs];
                let parts = grad_rows
                    .par_chunks_mut(PRODUCT_ROWS * n_inputs)
                    .zip(gradient.par_chunks(PRODUCT_ROWS * n_outputs));
                parts.for_each(|(grad_rows, gradient)| {
                    let sizes = [gradient.len() / n_outputs, n_inputs, n_outputs];
                    let (gradient, weight) = (matrix(gradient, n_outputs), matrix(weight, n_inputs));
                    multiply(Output::Replace, grad_rows, n_inputs, gradient, weight, sizes);
                });
                grad_rows
            });
            let grad_weight = with_values(rows, |rows| {
                let mut grad_weight = vec![0.0; n_outputs * n_inputs];
                let parts = grad_weight.par_chunks_mut(PRODUCT_ROWS * n_inputs).enumerate();
                parts.for_each(|(part, grad_weight)| {
                    if n_rows == 0 {
                        return;
                    }
                    let sizes = [grad_weight.len() / n_inputs, n_inputs, n_rows];
                    let gradient = transposed(matrix(&gradient[part * PRODUCT_ROWS..], n_outputs));
                    multiply(Output::Replace, grad_weight, n_inputs, gradient, matrix(rows, n_inputs), sizes);
                });
                grad_weight
            });
            (grad_rows, grad_weight, grad_bias)
        })?;
        let (grad_rows, grad_weight) = (tensor(grad_rows?, rows)?, tensor(grad_weight?, weight)?);
        Ok((Some(grad_rows), Some(grad_weight), Some(tensor(grad_bias, bias)?)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::encoder::composed;

    pub(in crate::encoder) fn noise(rows: usize, columns: usize, seed: u64) -> Var {
        let mut random = fastrand::Rng::with_seed(seed);
        let values: Vec<f32> = (0..rows * columns).map(|_| random.f32() * 2.0 - 1.0).collect();
        Var::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
    }

    pub(in crate::encoder) fn values(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    pub(in crate::encoder) fn check_close(found: &Tensor, expected: &Tensor, case: &str) {
        assert_eq!(found.dims(), expected.dims(), "{case}");
        for (found, expected) in values(found).iter().zip(values(expected)) {
            let tolerance = 1e-4 * expected.abs().max(1.0);
            assert!((found - expected).abs() <= tolerance, "{case}: {found} not {expected}");
        }
    }

    /// Checks that two functions give the same result and the same gradients.
    pub(in crate::encoder) fn check_same(
        case: &str,
        inputs: &[Var],
        ours: impl Fn() -> Result<Tensor>,
        theirs: impl Fn() -> Result<Tensor>,
    ) {
        let [ours, theirs] = [ours().unwrap(), theirs().unwrap()];
        check_close(&ours, &theirs, case);
        let (rows, columns) = ours.dims2().unwrap();
        let weights = noise(rows, columns, 99);
        let gradients = [ours, theirs]
            .map(|result| (result * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap());
        for (number, input) in inputs.iter().enumerate() {
            let [ours, theirs] = [0, 1].map(|at: usize| gradients[at].get(input.as_tensor()).unwrap());
            check_close(ours, theirs, &format!("{case}, gradient {number}"));
        }
    }

    #[test]
    fn fused_steps_are_those_of_candle_operations() {
        // More rows than a thread takes at a time, and not a multiple of these.
        let (rows, weight, vector) = (noise(601, 12, 1), noise(300, 12, 2), noise(1, 300, 3));
        let bias = vector.flatten_all().unwrap();
        check_same(
            "linear",
            &[rows.clone(), weight.clone(), vector.clone()],
            || linear(&rows, &weight, &bias),
            || composed::linear(&rows, &weight, &bias),
        );
        let [scale, shift] = [4, 5].map(|seed| noise(1, 12, seed));
        let flat = |vector: &Var| vector.flatten_all();
        check_same(
            "layer norm",
            &[rows.clone(), scale.clone(), shift.clone()],
            || layer_norm(&rows, &flat(&scale)?, &flat(&shift)?, 1e-5),
            || composed::layer_norm(&rows, &flat(&scale)?, &flat(&shift)?, 1e-5),
        );
        let wide = Var::from_tensor(&(noise(2000, 12, 6).as_tensor() * 6.0).unwrap()).unwrap();
        check_same("gelu", std::slice::from_ref(&wide), || gelu(&wide), || wide.gelu_erf());
        let mask = DropoutMask { rate: 0.3, seed: 5 };
        check_same(
            "dropout",
            std::slice::from_ref(&rows),
            || dropout(&rows, mask),
            || composed::dropout(&rows, mask, None),
        );
    }
}
