//! The shape of an encoder.

use super::numeric::Activation;

#[derive(Debug, Clone)]
pub struct Shape {
    /// Columns of a token's vector.
    pub hidden: usize,
    /// Columns between the two products of a feed-forward block.
    pub intermediate: usize,
    pub n_heads: usize,
    /// Number of keys and values of a token, a divisor of the number of heads: several heads may share them.
    pub n_key_heads: usize,
    pub head_width: usize,
    pub n_layers: usize,
    pub n_tokens: usize,
    /// Maximum number of tokens in a text, if the positions limit it.
    pub max_tokens: Option<usize>,
    /// Added to the variance in every normalization.
    pub epsilon: f32,
    /// The function inside a feed-forward block.
    pub activation: Activation,
}

impl Shape {
    pub(super) fn query_key_value_width(&self) -> usize {
        (self.n_heads + 2 * self.n_key_heads) * self.head_width
    }

    pub(super) fn score_factor(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }
}
