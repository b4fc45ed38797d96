//! The arithmetic of a transformer on plain slices: matrix products, and the functions between them.
//!
//! The functions between the products are simple loops that the compiler turns into vector instructions, once for
//! each instruction set that `pulp` picks from at run time. Sums run over [`LANES`] partial sums in a fixed order,
//! so that they do not depend on the width of the machine's registers.

use pulp::Arch;

/// Partial sums of a reduction, and the multiple to which the rows of [`softmax_rows`] are padded.
pub const LANES: usize = 16;

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

/// Whether a product replaces what its output held or is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The output's old values are not read.
    Replace,
    /// The product is added to the output's old values.
    Add,
}

/// Multiplies `left` (`rows` × `inner`) by `right` (`inner` × `columns`) into `output`, whose row i starts at
/// `i * output_stride`. Runs on the calling thread.
///
/// # Panics
/// When a slice is too short for its shape: a fault of this crate, never of its input.
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
    // assertions bound the greatest of these indices by the slices' lengths, and `output` is borrowed mutably, so
    // it overlaps neither operand and, with its stride no less than its columns, no element twice.
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
}

impl Activation {
    /// Applies the function to every value.
    pub fn apply(self, values: &mut [f32]) {
        Arch::new().dispatch(|| match self {
            Activation::Gelu => values.iter_mut().for_each(|value| *value = gelu(*value)),
            Activation::GeluTanh => values.iter_mut().for_each(|value| *value = gelu_tanh(*value)),
            Activation::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
        });
    }
}

/// Shifts and scales every row of `values` (rows of `scale.len()`) to mean 0 and variance 1, then multiplies it by
/// `scale` and adds `shift`; `epsilon` is added to the variance.
pub fn layer_norm_rows(values: &mut [f32], scale: &[f32], shift: &[f32], epsilon: f32) {
    Arch::new().dispatch(|| {
        let n = scale.len();
        for row in values.chunks_exact_mut(n) {
            let mean = sum(row, |value| value) / n as f32;
            let variance = sum(row, |value| (value - mean) * (value - mean)) / n as f32;
            let factor = 1.0 / (variance + epsilon).sqrt();
            for ((value, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
                *value = (*value - mean) * factor * scale + shift;
            }
        }
    });
}

/// Replaces the first `columns` values of every row by their softmax. Rows are `stride` apart, a multiple of
/// [`LANES`] no less than `columns`; what lies between rows is overwritten.
pub fn softmax_rows(values: &mut [f32], columns: usize, stride: usize) {
    debug_assert!(stride.is_multiple_of(LANES) && stride >= columns);
    Arch::new().dispatch(|| {
        for row in values.chunks_exact_mut(stride) {
            row[columns..].fill(f32::NEG_INFINITY);
            let chunks = row.as_chunks_mut::<LANES>().0;
            let mut lanes = [f32::NEG_INFINITY; LANES];
            for chunk in chunks.iter() {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane = if *value > *lane { *value } else { *lane };
                }
            }
            let greatest = lanes.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
            let mut lanes = [0.0f32; LANES];
            for chunk in chunks.iter_mut() {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *value = exp(*value - greatest);
                    *lane += *value;
                }
            }
            let factor = 1.0 / lanes.iter().sum::<f32>();
            row.iter_mut().for_each(|value| *value *= factor);
        }
    });
}

/// Adds `addend` to every row of `values` (rows of `addend.len()`).
pub fn add_to_rows(values: &mut [f32], addend: &[f32]) {
    Arch::new().dispatch(|| {
        for row in values.chunks_exact_mut(addend.len()) {
            row.iter_mut().zip(addend).for_each(|(value, addend)| *value += addend);
        }
    });
}

/// Scales `vector` to length 1; a vector of zeros stays as it is.
pub fn normalise(vector: &mut [f32]) {
    let length = sum(vector, |value| value * value).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
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

#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    // 0.5 · (1 + tanh(u)) = 1 / (1 + e^(-2u)), with u = √(2/π) · (x + 0.044715 x³).
    let u = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp(-2.0 * u))
}

/// The error function to 5e-7, as a quotient of polynomials fitted on -4..=4 (the one Eigen and XLA use).
#[inline(always)]
fn erf(x: f32) -> f32 {
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
    let square = x * x;
    let numerator = NUMERATOR.iter().fold(0.0, |sum, factor| sum * square + factor);
    let denominator = DENOMINATOR.iter().fold(0.0, |sum, factor| sum * square + factor);
    x * numerator / denominator
}

/// e^x to a relative error of 2e-7, for x in -87..=88; nearer values stand for those outside.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // e^x = 2^n · e^r with |r| <= ln 2 / 2; the polynomial for e^r and the two-part ln 2 are those of Cephes' expf.
    const POLYNOMIAL: [f32; 6] =
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];
    // 1.5 · 2^23: adding it leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let polynomial = POLYNOMIAL.iter().fold(0.0, |sum, factor| sum * r + factor);
    let power_of_two = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    (polynomial * r * r + r + 1.0) * power_of_two
}
