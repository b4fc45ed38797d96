//! Products with matrices of 8 bits, in whole numbers: several times as fast as in 32-bit floats where the processor has
//! instructions for them, at a quarter of the memory.

use std::borrow::Cow;

use half::f16;
use rayon::prelude::*;
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix, QuantParams};
use rten_tensor::NdTensorView;

use crate::numeric::{Output, simd_functions};
use crate::weights::StoredRows;

/// Rows of the input that are multiplied at once, so that the sums of whole numbers stay in the cache.
const BLOCK: usize = 128;

thread_local! {
    static EXECUTOR: GemmExecutor<u8, i8, i32> = GemmExecutor::default();
}

/// 1.5 · 2^23: adding it leaves the nearest integer in the low bits, the even one of two. Rounding is a call of a function
/// where the processor is not known to have an instruction for it.
const SHIFT: f32 = 12_582_912.0;

/// The nearest whole number of a value within ±127.
fn nearest(value: f32) -> i8 {
    (value + SHIFT).to_bits() as i8
}

/// Bytes of the input: 0 is `zero`, and the largest value of a row `zero` ± `maximum`.
struct Range {
    zero: u8,
    maximum: f32,
}

impl Range {
    /// The range that the processor multiplies exactly: where two products are added in 16 bits, one bit less.
    fn for_processor() -> Range {
        match EXECUTOR.with(GemmExecutor::may_saturate) {
            true => Range { zero: 64, maximum: 63.0 },
            false => Range { zero: 128, maximum: 127.0 },
        }
    }
}

/// A matrix of whole numbers from −127 to 127 with a factor for each row, before it is packed; row-major.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Int8Matrix {
    /// The whole numbers.
    pub values: Vec<i8>,
    /// One for each row.
    pub factors: Vec<f32>,
}

/// Values that share a factor in [`Int4Matrix`].
pub(crate) const GROUP: usize = 32;

/// Shares of the largest value of a group that are tried for the lowest whole number: a group with one value far from the
/// others may have a smaller error if that one is cut.
const CUTS: [f32; 6] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75];

/// A matrix of whole numbers from −8 to 7 with a factor for each [`GROUP`] of a row; row-major.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Int4Matrix<'a> {
    /// Two whole numbers each, plus 8: the first one in the lower bits.
    pub bytes: Cow<'a, [u8]>,
    /// One for each group; the largest value of a group is −8 times its factor, or less far from 0.
    pub factors: Vec<f16>,
}

impl Int4Matrix<'_> {
    /// Quantizes a matrix, whose columns must be a multiple of [`GROUP`].
    pub(crate) fn quantize(values: &[f32]) -> Int4Matrix<'static> {
        let groups: Vec<([u8; GROUP / 2], f16)> =
            values.par_chunks_exact(GROUP).map(quantized_group).collect();
        Int4Matrix {
            bytes: groups.iter().flat_map(|(bytes, _)| *bytes).collect(),
            factors: groups.iter().map(|(_, factor)| *factor).collect(),
        }
    }

    /// The matrix in 32-bit floats.
    pub(crate) fn dequantized(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.bytes.len() * 2];
        let groups = self.bytes.par_chunks_exact(GROUP / 2).zip(&self.factors);
        let dequantized = values.par_chunks_exact_mut(GROUP).zip(groups);
        dequantized.for_each(|(values, (bytes, factor))| dequantize_group(bytes, *factor, values));
        values
    }

    /// [`Int8Matrix::quantize`] the dequantized matrix with `n_columns` columns, without dequantizing it.
    pub(crate) fn to_int8(&self, n_columns: usize) -> Int8Matrix {
        let n_columns = n_columns.max(GROUP);
        let mut values = vec![0; self.bytes.len() * 2];
        let factors = values
            .par_chunks_mut(n_columns)
            .zip(self.bytes.par_chunks(n_columns / 2).zip(self.factors.par_chunks(n_columns / GROUP)))
            .map(|(values, (bytes, factors))| quantize_groups(bytes, factors, values))
            .collect();
        Int8Matrix { values, factors }
    }
}

fn dequantize_group(bytes: &[u8], factor: f16, values: &mut [f32]) {
    let factor = factor.to_f32();
    for (pair, byte) in values.chunks_exact_mut(2).zip(bytes) {
        pair[0] = (f32::from(byte & 15) - 8.0) * factor;
        pair[1] = (f32::from(byte >> 4) - 8.0) * factor;
    }
}

/// A matrix of which few rows are read, so that all of it stays as its file has it.
pub(crate) enum Table {
    /// 32-bit floats.
    Float(Vec<f32>),
    /// 8 bits, in the file.
    Stored(StoredRows),
    Int4(Int4Matrix<'static>),
}

impl Table {
    /// Sets `values` to a row; all rows have as many columns as it has values.
    pub(crate) fn read(&self, row: usize, values: &mut [f32]) {
        let width = values.len();
        let columns = row * width..(row + 1) * width;
        match self {
            Table::Float(all) => values.copy_from_slice(&all[columns]),
            Table::Stored(rows) => rows.read(row, values),
            Table::Int4(Int4Matrix { bytes, factors }) => {
                let groups = columns.start / GROUP..columns.end / GROUP;
                let bytes = bytes[columns.start / 2..columns.end / 2].chunks_exact(GROUP / 2);
                for ((values, bytes), factor) in
                    values.chunks_exact_mut(GROUP).zip(bytes).zip(&factors[groups])
                {
                    dequantize_group(bytes, *factor, values);
                }
            }
        }
    }
}

simd_functions! {
    /// Quantizes a row of [`Int4Matrix`] to 8 bits, and gives its factor.
    fn quantize_groups<'a, S>(bytes: &'a [u8], factors: &'a [f16], values: &'a mut [i8]) -> f32 {
        let groups = || bytes.as_chunks::<{ GROUP / 2 }>().0.iter().zip(factors);
        let mut lanes = [0_f32; GROUP / 2];
        for (bytes, factor) in groups() {
            let factor = factor.to_f32().abs();
            for (lane, byte) in lanes.iter_mut().zip(bytes) {
                let size = f32::from((byte & 15).abs_diff(8).max((byte >> 4).abs_diff(8))) * factor;
                *lane = if size > *lane { size } else { *lane };
            }
        }
        let largest = lanes.into_iter().fold(0_f32, f32::max);
        let of_row = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        for (values, (bytes, factor)) in values.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups()) {
            let factor = factor.to_f32();
            let mut bits = [0; GROUP];
            for (pair, byte) in bits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
                *pair = [byte & 15, byte >> 4];
            }
            for (value, bits) in values.iter_mut().zip(bits) {
                *value = nearest((f32::from(bits) - 8.0) * factor / of_row);
            }
        }
        of_row
    }

    /// Quantizes each row to bytes, and appends its factor.
    fn quantize_rows<'a, S>(
        input: &'a [f32],
        width: usize,
        range: &'a Range,
        bytes: &'a mut [u8],
        factors: &'a mut Vec<f32>,
    ) {
        let shift = SHIFT + f32::from(range.zero);
        for (row, bytes) in input.chunks_exact(width).zip(bytes.chunks_exact_mut(width)) {
            let (chunks, rest) = row.as_chunks::<16>();
            let mut lanes = [0.0_f32; 16];
            for chunk in chunks {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    let size = value.abs();
                    *lane = if size > *lane { size } else { *lane };
                }
            }
            let maximum = lanes.iter().chain(rest).fold(0.0_f32, |maximum, value| maximum.max(value.abs()));
            let factor = maximum / range.maximum;
            // The inverse of a number too small to have one is infinite.
            let inverse = if factor.is_normal() { 1.0 / factor } else { 0.0 };
            for (byte, value) in bytes.iter_mut().zip(row) {
                *byte = (value * inverse + shift).to_bits() as u8;
            }
            factors.push(factor);
        }
    }

    /// Multiplies sums of whole numbers by the factors of their row and column.
    fn dequantize<'a, S>(
        mode: Output,
        sums: &'a [i32],
        rows: &'a [f32],
        columns: &'a [f32],
        output: &'a mut [f32],
    ) {
        let width = columns.len();
        let rows = sums.chunks_exact(width).zip(output.chunks_exact_mut(width)).zip(rows);
        for ((sums, output), row) in rows {
            let values = sums.iter().zip(columns).map(|(sum, column)| *sum as f32 * (row * column));
            match mode {
                Output::Replace => output.iter_mut().zip(values).for_each(|(output, value)| *output = value),
                Output::Add => output.iter_mut().zip(values).for_each(|(output, value)| *output += value),
            }
        }
    }
}

/// The bytes of a group with the factor that leaves the least squared error.
fn quantized_group(group: &[f32]) -> ([u8; GROUP / 2], f16) {
    let largest = group.iter().fold(0_f32, |largest, x| if x.abs() > largest.abs() { *x } else { largest });
    let quantized = |factor: f16| {
        let factor = if factor == f16::ZERO { 1.0 } else { factor.to_f32() };
        group.iter().map(move |x| (x, (x / factor).round().clamp(-8.0, 7.0), factor))
    };
    let error =
        |factor| quantized(factor).map(|(x, whole, factor)| (whole * factor - x).powi(2)).sum::<f32>();
    let factors = CUTS.map(|cut| f16::from_f32(largest * cut / -8.0));
    let best = factors.into_iter().min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(f16::ZERO);
    let mut bytes = [0; GROUP / 2];
    for (at, (_, whole, _)) in quantized(best).enumerate() {
        bytes[at / 2] |= ((whole + 8.0) as u8) << (at % 2 * 4);
    }
    (bytes, best)
}

/// The map x ↦ x · matrixᵀ of a [`Int8Matrix`] matrix, in the order in which the processor reads it.
pub(crate) struct Packed {
    matrix: PackedBMatrix<i8>,
    /// One for each column of the output.
    pub factors: Vec<f32>,
    n_inputs: usize,
}

impl Int8Matrix {
    /// Quantizes each row of a matrix with `n_columns` columns by the factor that maps its largest value to ±127.
    pub(crate) fn quantize(values: &[f32], n_columns: usize) -> Int8Matrix {
        let mut quantized = vec![0; values.len()];
        let factors = quantized
            .par_chunks_mut(n_columns.max(1))
            .zip(values.par_chunks(n_columns.max(1)))
            .map(|(quantized, row)| {
                let largest = row.iter().fold(0_f32, |largest, x| largest.max(x.abs()));
                let factor = if largest > 0.0 { largest / 127.0 } else { 1.0 };
                quantized.iter_mut().zip(row).for_each(|(quantized, x)| *quantized = nearest(x / factor));
                factor
            })
            .collect();
        Int8Matrix { values: quantized, factors }
    }

    pub(crate) fn n_inputs(&self) -> usize {
        self.values.len() / self.factors.len().max(1)
    }

    /// The matrix in 32-bit floats.
    pub(crate) fn dequantized(&self) -> Vec<f32> {
        let mut dequantized = vec![0.0; self.values.len()];
        let width = self.n_inputs().max(1);
        let rows = self.values.par_chunks_exact(width).zip(&self.factors);
        dequantized.par_chunks_exact_mut(width).zip(rows).for_each(|(dequantized, (row, factor))| {
            dequantized
                .iter_mut()
                .zip(row)
                .for_each(|(dequantized, value)| *dequantized = f32::from(*value) * factor);
        });
        dequantized
    }

    pub(crate) fn pack(self) -> Packed {
        let (n_inputs, n_outputs) = (self.n_inputs(), self.factors.len());
        let transposed =
            NdTensorView::from_slice_with_strides([n_inputs, n_outputs], &self.values, [1, n_inputs]);
        let transposed = transposed.unwrap_or_else(|error| unreachable!("a row for each factor: {error}"));
        Packed {
            matrix: EXECUTOR.with(|executor| executor.prepack_b(transposed)),
            factors: self.factors,
            n_inputs,
        }
    }
}

impl Packed {
    pub(crate) fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Maps every row of `input` to a row of `output`. Each row of the input is quantized: whole numbers times a factor
    /// of its own.
    pub(crate) fn multiply(&self, mode: Output, input: &[f32], output: &mut [f32]) {
        let n_outputs = self.factors.len();
        let range = Range::for_processor();
        let mut bytes = vec![0; BLOCK.min(input.len() / self.n_inputs) * self.n_inputs];
        let mut factors = Vec::with_capacity(BLOCK);
        let mut sums = vec![0; bytes.len() / self.n_inputs * n_outputs];
        let zeros = [range.zero; BLOCK];
        for (input, output) in input.chunks(BLOCK * self.n_inputs).zip(output.chunks_mut(BLOCK * n_outputs)) {
            let n_rows = input.len() / self.n_inputs;
            let bytes = &mut bytes[..input.len()];
            factors.clear();
            quantize_rows(input, self.n_inputs, &range, bytes, &mut factors);
            let sums = &mut sums[..n_rows * n_outputs];
            let options = GemmOptions {
                a_quant: Some(QuantParams { zero_point: &zeros[..n_rows] }),
                ..GemmOptions::default()
            };
            let left = NdTensorView::from_data([n_rows, self.n_inputs], &*bytes);
            let (left, right) = (GemmInputA::Unpacked(left), GemmInputB::Packed(&self.matrix));
            EXECUTOR
                .with(|executor| executor.gemm(sums, left, right, options))
                .unwrap_or_else(|error| unreachable!("the shapes are those of the matrix: {error}"));
            dequantize(mode, sums, &factors, &self.factors, output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::ZERO;

    fn random(n: usize, seed: u64) -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..n).map(|_| random.f32() - 0.5).collect()
    }

    fn random_matrix(n_outputs: usize, n_inputs: usize) -> Int8Matrix {
        let mut random = fastrand::Rng::with_seed(3);
        Int8Matrix {
            values: (0..n_outputs * n_inputs).map(|_| random.i8(-127..=127)).collect(),
            factors: (0..n_outputs).map(|at| 0.001 * (at % 7 + 1) as f32).collect(),
        }
    }

    /// The product in 64-bit floats.
    fn exact(matrix: &Int8Matrix, input: &[f32]) -> Vec<f64> {
        let n_inputs = matrix.n_inputs();
        let value = |row: &[f32], at: usize| -> f64 {
            let weights = &matrix.values[at * n_inputs..][..n_inputs];
            row.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
                * f64::from(matrix.factors[at])
        };
        input
            .chunks(n_inputs)
            .flat_map(|row| (0..matrix.factors.len()).map(move |at| value(row, at)))
            .collect()
    }

    #[test]
    fn quantization_is_within_half_a_step_of_each_row() {
        let values = [1.0, -0.5, 0.26, 100.0, -100.0, 3.3, 0.0, 0.0, 0.0];
        let quantized = Int8Matrix::quantize(&values, 3);
        for (at, (value, dequantized)) in values.iter().zip(quantized.dequantized()).enumerate() {
            let factor = quantized.factors[at / 3];
            assert!((dequantized - value).abs() <= factor / 2.0 + 1e-6, "{value} {dequantized}");
        }
        assert_eq!([0, 3, 4, 6].map(|at| quantized.values[at]), [127, 127, -127, 0]);
    }

    #[test]
    fn four_bits_are_within_half_a_step_unless_the_largest_value_is_cut() {
        let mut values = random(4 * GROUP, 5);
        values[..GROUP].fill(0.0);
        // Beside one that is far from the others: cutting it would cost more than it brings.
        values[GROUP] = 40.0;
        let quantized = Int4Matrix::quantize(&values);
        assert_eq!((quantized.bytes.len(), quantized.factors.len()), (2 * GROUP, 4));
        let dequantized = quantized.dequantized();
        assert!(dequantized[..GROUP].iter().all(|value| *value == 0.0));
        assert!((dequantized[GROUP] - 40.0).abs() < 0.1, "{}", dequantized[GROUP]);
        let error = |group: usize| -> f32 {
            let pairs = values.iter().zip(&dequantized).skip(group * GROUP).take(GROUP);
            pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>() / GROUP as f32
        };
        assert_eq!(quantized.to_int8(2 * GROUP), Int8Matrix::quantize(&dequantized, 2 * GROUP));
        // Values from -0.5 to 0.5 in 16 steps.
        assert!(
            (2..4).all(|group| error(group) < (1.0_f32 / 15.0).powi(2) / 6.0),
            "{:?}",
            [error(2), error(3)]
        );
    }

    #[test]
    fn a_table_has_the_rows_of_its_matrix() {
        let values = random(6 * GROUP, 5);
        let (int8, int4) = (Int8Matrix::quantize(&values, 2 * GROUP), Int4Matrix::quantize(&values));
        let dequantized = [values.clone(), int8.dequantized(), int4.dequantized()];
        let bytes: Vec<u8> = int8.values.iter().map(|value| value.cast_unsigned() ^ ZERO).collect();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[&[7; 3][..], &bytes].concat()).unwrap();
        let stored = StoredRows::new(file, 3, int8.factors);
        let tables = [Table::Float(values), Table::Stored(stored), Table::Int4(int4)];
        for (table, dequantized) in tables.iter().zip(dequantized) {
            for (row, expected) in dequantized.chunks_exact(2 * GROUP).enumerate() {
                let mut found = [f32::NAN; 2 * GROUP];
                table.read(row, &mut found);
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_is_no_number() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[129, 127, 0, 129, 129]).unwrap();
        let stored = StoredRows::new(file, 0, vec![0.5; 3]);
        let row = |row| {
            let mut values = [0.0; 2];
            stored.read(row, &mut values);
            values
        };
        assert_eq!(row(0), [0.5, -0.5]);
        assert!(row(1)[1].is_nan() && row(2)[0].is_nan());
    }

    #[test]
    fn products_are_as_close_as_quantizing_the_input_allows() {
        for (n_rows, n_inputs, n_outputs) in [(1, 1, 1), (3, 7, 5), (BLOCK + 3, 48, 33), (2, 384, 1536)] {
            let matrix = random_matrix(n_outputs, n_inputs);
            let input = random(n_rows * n_inputs, 9);
            let expected = exact(&matrix, &input);
            let packed = matrix.clone().pack();
            let mut output = vec![1.0; n_rows * n_outputs];
            packed.multiply(Output::Add, &input, &mut output);
            // Each input is off by half a step at most, in either direction.
            let step = 0.5 / Range::for_processor().maximum;
            for (at, (found, expected)) in output.iter().zip(&expected).enumerate() {
                let weights = &matrix.values[at % n_outputs * n_inputs..][..n_inputs];
                let size: f32 = weights.iter().map(|weight| f32::from(weight.unsigned_abs())).sum();
                let most = f64::from(0.5 * step * size * matrix.factors[at % n_outputs]) + 1e-4;
                assert!((f64::from(*found) - 1.0 - expected).abs() <= most, "{found} {expected} {most}");
            }
            packed.multiply(Output::Replace, &input, &mut output);
            assert!(output.iter().zip(&expected).all(|(found, expected)| {
                (f64::from(*found) - expected).abs() < 0.05 * f64::from(n_inputs as f32).sqrt()
            }));
        }
    }

    #[test]
    fn whole_numbers_are_multiplied_exactly() {
        let matrix = Int8Matrix { values: vec![127; 64], factors: vec![1.0] };
        let largest = Range::for_processor().maximum;
        let packed = matrix.pack();
        let mut output = [0.0];
        packed.multiply(Output::Replace, &[largest; 64], &mut output);
        assert_eq!(output, [127.0 * largest * 64.0]);
        packed.multiply(Output::Replace, &[-largest; 64], &mut output);
        assert_eq!(output, [-127.0 * largest * 64.0]);
    }

    #[test]
    fn rows_without_size_give_zero() {
        let packed = random_matrix(4, 8).pack();
        let mut output = vec![f32::NAN; 12];
        let input: Vec<f32> = [0.0; 8].into_iter().chain([1e-44; 8]).chain([f32::MIN_POSITIVE; 8]).collect();
        packed.multiply(Output::Replace, &input, &mut output);
        assert!(output.iter().all(|value| value.abs() < 1e-30), "{output:?}");
        packed.multiply(Output::Replace, &[], &mut []);
    }
}
