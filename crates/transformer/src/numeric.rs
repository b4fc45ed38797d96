//! The arithmetic of a transformer on plain slices: matrix products, and the functions between them.
//!
//! The functions between the products are simple loops that the compiler turns into vector instructions, once for
//! each instruction set that `pulp` picks from at run time. Sums run over [`LANES`] partial sums in a fixed order.

use pulp::Simd;

/// Partial sums of a reduction, and the multiple to which the rows of [`softmax_rows`] are padded.
pub(crate) const LANES: usize = 16;

/// A matrix read from a slice: element (i, j) is `values[i * row_stride + j * column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a> {
    /// Holds every element of the matrix.
    pub values: &'a [f32],
    /// Distance between an element and the one below it.
    pub row_stride: usize,
    /// Distance between an element and the one to its right.
    pub column_stride: usize,
}

/// Treatment of the output's previous values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The output's previous values are not read.
    Replace,
    /// The product is added to the output's previous values.
    Add,
}

/// Multiplies `left` (`rows` × `inner`) by `right` (`inner` × `columns`) into `output`, whose row i starts at
/// `i * output_stride`. Runs on the calling thread.
///
/// # Panics
/// When a slice is too short for its shape: a bug of this crate, never of its input.
#[expect(unsafe_code, reason = "gemm takes raw pointers")]
pub fn multiply(
    mode: Output,
    output: &mut [f32],
    output_stride: usize,
    left: Strided,
    right: Strided,
    [rows, columns, inner]: [usize; 3],
) {
    let holds = |length: usize, rows: usize, columns: usize, row_stride: usize, column_stride: usize| {
        rows == 0 || columns == 0 || (rows - 1) * row_stride + (columns - 1) * column_stride < length
    };
    assert!(output_stride >= columns && holds(output.len(), rows, columns, output_stride, 1));
    assert!(holds(left.values.len(), rows, inner, left.row_stride, left.column_stride));
    assert!(holds(right.values.len(), inner, columns, right.row_stride, right.column_stride));
    // Strides index slices in memory, whose lengths fit an isize.
    let signed = |stride: usize| stride as isize;
    // SAFETY: gemm reads (i, j) of each operand and writes (i, j) of the output at the strides it is given; the
    // assertions bound the maximum of these indices by the slices' lengths, and `output` is borrowed mutably, so
    // it overlaps neither operand and, with its stride at least its columns, no element twice.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            output.as_mut_ptr(),
            1,
            signed(output_stride),
            mode == Output::Add,
            left.values.as_ptr(),
            signed(left.column_stride),
            signed(left.row_stride),
            right.values.as_ptr(),
            signed(right.column_stride),
            signed(right.row_stride),
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The function between the two products of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · Φ(x), Φ the normal distribution function (Hendrycks and Gimpel, 2016).
    Gelu,
    /// The same with Φ approximated by a hyperbolic tangent.
    GeluTanh,
    /// max(x, 0).
    Relu,
    /// x / (1 + e^-x) (Elfwing et al., 2018).
    Silu,
}

impl Activation {
    /// Adds `bias` to every row of `values` (rows of `bias.len()`), then applies the function to every value.
    pub fn apply(self, values: &mut [f32], bias: &[f32]) {
        activate(self, values, bias);
    }
}

/// Defines functions whose bodies are compiled for each instruction set, of which the best one of the processor runs; `S`
/// stands for it. What `dispatch` runs must be fully inlined into the function that it compiles for an instruction set.
/// Closures cannot request that, so the arguments become the fields of a struct.
macro_rules! simd_functions {
    (@output) => { () };
    (@output $output:ty) => { $output };
    ($(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident<$lifetime:lifetime, $simd:ident>($($argument:ident: $type:ty),* $(,)?)
        $(-> $output:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        $visibility fn $name<$lifetime>($($argument: $type),*) $(-> $output)? {
            struct Operation<$lifetime> {
                $($argument: $type),*
            }

            impl<$lifetime> pulp::WithSimd for Operation<$lifetime> {
                type Output = simd_functions!(@output $($output)?);

                #[inline(always)]
                fn with_simd<$simd: pulp::Simd>(self, _: $simd) -> Self::Output {
                    let Self { $($argument),* } = self;
                    $body
                }
            }

            pulp::Arch::new().dispatch(Operation { $($argument),* })
        }
    )*};
}

pub(crate) use simd_functions;

simd_functions! {
    fn activate<'a, S>(function: Activation, values: &'a mut [f32], bias: &'a [f32]) {
        for row in values.chunks_exact_mut(bias.len()) {
            match function {
                Activation::Gelu => map_sum(row, bias, gelu::<S>),
                Activation::GeluTanh => map_sum(row, bias, gelu_tanh::<S>),
                Activation::Relu => map_sum(row, bias, relu),
                Activation::Silu => map_sum(row, bias, silu::<S>),
            }
        }
    }

    /// Shifts and scales every row of `values` (rows of `scale.len()`) to mean 0 and variance 1, then multiplies it by
    /// `scale` and adds `shift`; `epsilon` is added to the variance.
    pub(crate) fn layer_norm_rows<'a, S>(
        values: &'a mut [f32],
        scale: &'a [f32],
        shift: &'a [f32],
        epsilon: f32,
    ) {
        let n = scale.len();
        for row in values.chunks_exact_mut(n) {
            let mean = sum(row, |value| value) / n as f32;
            let variance = sum(row, |value| (value - mean) * (value - mean)) / n as f32;
            let factor = 1.0 / (variance + epsilon).sqrt();
            for ((value, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
                *value = (*value - mean) * factor * scale + shift;
            }
        }
    }

    /// Divides every row of `values` (rows of `scale.len()`) by its root mean square, then multiplies it by `scale`;
    /// `epsilon` is added to the mean of the squares.
    pub(crate) fn root_mean_square_norm_rows<'a, S>(values: &'a mut [f32], scale: &'a [f32], epsilon: f32) {
        let n = scale.len();
        for row in values.chunks_exact_mut(n) {
            let factor = 1.0 / (sum(row, |value| value * value) / n as f32 + epsilon).sqrt();
            for (value, scale) in row.iter_mut().zip(scale) {
                *value *= factor * scale;
            }
        }
    }

    /// Replaces the first `columns` values of every row by their softmax. Rows are `stride` apart, a multiple of
    /// [`LANES`] and at least `columns`; the values between rows are overwritten.
    pub(crate) fn softmax_rows<'a, S>(values: &'a mut [f32], columns: usize, stride: usize) {
        debug_assert!(stride.is_multiple_of(LANES) && stride >= columns);
        for row in values.chunks_exact_mut(stride) {
            row[columns..].fill(f32::NEG_INFINITY);
            let chunks = row.as_chunks_mut::<LANES>().0;
            let mut maximum = [f32::NEG_INFINITY; LANES];
            for chunk in chunks.iter() {
                for (lane, value) in maximum.iter_mut().zip(chunk) {
                    *lane = if *value > *lane { *value } else { *lane };
                }
            }
            let maximum = maximum.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
            let mut sums = [0.0; LANES];
            for chunk in chunks.iter_mut() {
                for (lane, value) in sums.iter_mut().zip(chunk) {
                    *value = exp::<S>(*value - maximum);
                    *lane += *value;
                }
            }
            let factor = 1.0 / sums.iter().sum::<f32>();
            for value in row {
                *value *= factor;
            }
        }
    }

    /// Rotates every row of `values` (rows of twice `cosines.len()`): column i and the one half a row further by the angle
    /// with the i-th cosine and sine.
    pub(crate) fn rotate_rows<'a, S>(values: &'a mut [f32], cosines: &'a [f32], sines: &'a [f32]) {
        let half = cosines.len();
        for row in values.chunks_exact_mut(2 * half) {
            let (first, second) = row.split_at_mut(half);
            let angles = cosines.iter().zip(sines);
            for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(angles) {
                (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
            }
        }
    }

    /// Adds `addend` to every row of `values` (rows of `addend.len()`).
    pub(crate) fn add_to_rows<'a, S>(values: &'a mut [f32], addend: &'a [f32]) {
        for row in values.chunks_exact_mut(addend.len()) {
            map_sum(row, addend, |sum| sum);
        }
    }
}

/// Replaces each value by the function of its sum with the addend at its index.
#[inline(always)]
fn map_sum(values: &mut [f32], addends: &[f32], function: impl Fn(f32) -> f32) {
    for (value, addend) in values.iter_mut().zip(addends) {
        *value = function(*value + addend);
    }
}

#[inline(always)]
fn sum(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term(*value);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|value| term(*value)).sum::<f32>()
}

/// a · b + c, in one instruction if S has vectors: all of pulp's vector instruction sets support it, and without
/// one `f32::mul_add` is a slow call.
#[inline(always)]
fn multiply_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::F32_LANES > 1 { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial with these coefficients, highest power first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(factors: [f32; N], x: f32) -> f32 {
    let mut sum = 0.0;
    for factor in factors {
        sum = multiply_add::<S>(sum, x, factor);
    }
    sum
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    x.max(0.0)
}

#[inline(always)]
fn silu<S: Simd>(x: f32) -> f32 {
    x / (1.0 + exp::<S>(-x))
}

#[inline(always)]
fn gelu<S: Simd>(x: f32) -> f32 {
    let half = 0.5 * x;
    multiply_add::<S>(half, erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2), half)
}

#[inline(always)]
fn gelu_tanh<S: Simd>(x: f32) -> f32 {
    // 0.5 · (1 + tanh(u)) = 1 / (1 + e^(-2u)), with u = √(2/π) · (x + 0.044715 x³).
    let u = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp::<S>(-2.0 * u))
}

/// The error function to 5e-7, as a quotient of polynomials fitted on -4..=4 (the one Eigen and XLA use).
#[inline(always)]
fn erf<S: Simd>(x: f32) -> f32 {
    const NUMERATOR: [f32; 7] = [
        -2.726_142_4e-10,
        2.770_681_5e-8,
        -2.101_024e-6,
        -5.692_506_5e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_4e-2,
    ];
    const DENOMINATOR: [f32; 5] =
        [-1.456_607_2e-5, -2.133_740_5e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2];
    let x = x.clamp(-4.0, 4.0);
    x * polynomial::<S, _>(NUMERATOR, x * x) / polynomial::<S, _>(DENOMINATOR, x * x)
}

/// e^x to a relative error of 2e-7, for x in -87..=88; x is clamped to that range.
#[inline(always)]
fn exp<S: Simd>(x: f32) -> f32 {
    // e^x = 2^n · e^r with |r| <= ln 2 / 2; the polynomial for e^r and the two-part ln 2 are those of Cephes' expf.
    const FACTORS: [f32; 8] =
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0];
    // 1.5 · 2^23: adding it leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = multiply_add::<S>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<S>(n, 2.121_944_4e-4, multiply_add::<S>(n, -0.693_359_4, x));
    polynomial::<S, _>(FACTORS, r) * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error function by its Maclaurin series, exact enough up to 4.
    fn exact_erf(x: f64) -> f64 {
        let (mut power, mut sum) = (x, x);
        for n in 1..200 {
            power *= -x * x / f64::from(n);
            sum += power / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    fn check_activation(activation: Activation, exact: impl Fn(f64) -> f64) {
        // Halved, because the bias adds the other half; more values than fill one vector register.
        let inputs: Vec<f32> = (-550..=550).map(|n| n as f32 / 200.0).collect();
        let mut values = inputs.clone();
        activation.apply(&mut values, &inputs);
        for (input, value) in inputs.iter().zip(values) {
            let x = 2.0 * f64::from(*input);
            assert!((f64::from(value) - exact(x)).abs() < 2e-6, "{activation:?} of {x} is {value}");
        }
    }

    #[test]
    fn activations_equal_their_definitions() {
        check_activation(Activation::Gelu, |x| 0.5 * x * (1.0 + exact_erf(x / std::f64::consts::SQRT_2)));
        let factor = (2.0 / std::f64::consts::PI).sqrt();
        check_activation(Activation::GeluTanh, |x| {
            0.5 * x * (1.0 + (factor * (x + 0.044_715 * x.powi(3))).tanh())
        });
        check_activation(Activation::Relu, |x| x.max(0.0));
        check_activation(Activation::Silu, |x| x / (1.0 + (-x).exp()));
    }

    #[test]
    fn activations_of_great_values() {
        let inputs = [1e4f32, -1e4, 1e30, -1e30];
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
            let mut values = inputs;
            activation.apply(&mut values, &[0.0; 4]);
            for (input, value) in inputs.iter().zip(values) {
                assert!(
                    (value - input.max(0.0)).abs() <= 1e-7 * input.abs(),
                    "{activation:?} of {input} is {value}"
                );
            }
        }
    }

    #[test]
    fn softmax_equals_its_definition() {
        for (columns, spread) in [(1usize, 1.0), (3, 10.0), (16, 0.1), (17, 80.0), (100, 1.0), (100, 1e4)] {
            let stride = columns.next_multiple_of(LANES);
            // NaN between the rows, which must not matter.
            let mut values = vec![f32::NAN; 2 * stride];
            let scores: Vec<f32> =
                (0..2 * columns).map(|n| ((n * 37 % 101) as f32 / 50.0 - 1.0) * spread).collect();
            for (row, scores) in values.chunks_mut(stride).zip(scores.chunks(columns)) {
                row[..columns].copy_from_slice(scores);
            }
            softmax_rows(&mut values, columns, stride);
            for (row, scores) in values.chunks(stride).zip(scores.chunks(columns)) {
                let maximum = f64::from(scores.iter().fold(f32::MIN, |a, b| a.max(*b)));
                let powers: Vec<f64> =
                    scores.iter().map(|score| (f64::from(*score) - maximum).exp()).collect();
                let total: f64 = powers.iter().sum();
                for (found, power) in row.iter().zip(powers) {
                    assert!((f64::from(*found) - power / total).abs() < 1e-6, "{columns} columns, {spread}");
                }
            }
        }
    }

    #[test]
    fn layer_norm_equals_its_definition() {
        for n in [1, 5, 16, 384] {
            let value = |index: usize| ((index * 29 % 83) as f32) / 10.0 + 100.0;
            let scale: Vec<f32> = (0..n).map(|index| 1.0 + index as f32 / 7.0).collect();
            let shift: Vec<f32> = (0..n).map(|index| index as f32 - 3.0).collect();
            let mut values: Vec<f32> = (0..2 * n).map(value).collect();
            layer_norm_rows(&mut values, &scale, &shift, 1e-5);
            for (start, row) in values.chunks(n).enumerate().map(|(row, values)| (row * n, values)) {
                let inputs: Vec<f64> = (start..start + n).map(|index| f64::from(value(index))).collect();
                let mean = inputs.iter().sum::<f64>() / n as f64;
                let variance = inputs.iter().map(|input| (input - mean).powi(2)).sum::<f64>() / n as f64;
                for (index, found) in row.iter().enumerate() {
                    let standard = (inputs[index] - mean) / (variance + 1e-5).sqrt();
                    let expected = standard * f64::from(scale[index]) + f64::from(shift[index]);
                    let error = (f64::from(*found) - expected).abs() / expected.abs().max(1.0);
                    assert!(error < 1e-4, "row of {n}: found {found}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn root_mean_square_norm_equals_its_definition() {
        for n in [1, 5, 16, 384] {
            let inputs: Vec<f32> = (0..2 * n).map(|index| ((index * 29 % 83) as f32) / 10.0 - 3.0).collect();
            let scale: Vec<f32> = (0..n).map(|index| 1.0 + index as f32 / 7.0).collect();
            let mut values = inputs.clone();
            root_mean_square_norm_rows(&mut values, &scale, 1e-6);
            for (inputs, values) in inputs.chunks(n).zip(values.chunks(n)) {
                let squares: f64 = inputs.iter().map(|input| f64::from(*input).powi(2)).sum();
                let root = (squares / n as f64 + 1e-6).sqrt();
                for ((input, scale), found) in inputs.iter().zip(&scale).zip(values) {
                    let expected = f64::from(*input) / root * f64::from(*scale);
                    let error = (f64::from(*found) - expected).abs() / expected.abs().max(1.0);
                    assert!(error < 1e-5, "row of {n}: found {found}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn rotation_equals_its_definition() {
        let angles = [0.3f32, -2.0];
        let (cosines, sines) = (angles.map(f32::cos), angles.map(f32::sin));
        let mut values = [1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0];
        rotate_rows(&mut values, &cosines, &sines);
        let expected = [
            cosines[0] - 3.0 * sines[0],
            2.0 * cosines[1] - 4.0 * sines[1],
            3.0 * cosines[0] + sines[0],
            4.0 * cosines[1] + 2.0 * sines[1],
            -sines[0],
            cosines[1],
            cosines[0],
            sines[1],
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn multiply_reads_strides_and_writes_only_its_columns() {
        let (rows, columns, inner) = (5, 3, 4);
        let left: Vec<f32> = (0..rows * 7).map(|n| n as f32).collect();
        let right: Vec<f32> = (0..columns * 6).map(|n| n as f32 - 8.0).collect();
        let mut output = vec![1.0; rows * 4];
        let left_view = Strided { values: &left, row_stride: 7, column_stride: 1 };
        // Transposed: element (i, j) is at j * 6 + i.
        let right_view = Strided { values: &right, row_stride: 1, column_stride: 6 };
        multiply(Output::Add, &mut output, 4, left_view, right_view, [rows, columns, inner]);
        for row in 0..rows {
            for column in 0..columns {
                let product: f32 = (0..inner).map(|k| left[row * 7 + k] * right[column * 6 + k]).sum();
                assert_eq!(output[row * 4 + column], 1.0 + product);
            }
            assert_eq!(output[row * 4 + 3], 1.0);
        }
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn multiply_refuses_a_slice_that_is_too_short() {
        let values = [0.0; 5];
        let view = Strided { values: &values, row_stride: 3, column_stride: 1 };
        multiply(Output::Replace, &mut [0.0; 9], 3, view, view, [3, 3, 3]);
    }
}
