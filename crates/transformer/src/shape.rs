//! The shape of an encoder.

use super::numeric::Activation;

/// Shape of an encoder.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Columns of a token's vector.
    pub hidden: usize,
    /// Columns between the two products of a feed-forward block.
    pub intermediate: usize,
    /// Number of attention heads.
    pub n_heads: usize,
    /// Number of keys and values of a token, a divisor of the number of heads: several heads may share them.
    pub n_key_heads: usize,
    /// Columns of a head.
    pub head_width: usize,
    pub n_layers: usize,
    /// Number of token ids.
    pub n_tokens: usize,
    /// Maximum number of tokens in a text, if the positions limit it.
    pub max_tokens: Option<usize>,
    /// Added to the variance in every normalization.
    pub epsilon: f32,
    /// The function inside a feed-forward block.
    pub activation: Activation,
}

impl Shape {
    /// Columns of the queries, keys and values of a token.
    pub(super) fn query_key_value_width(&self) -> usize {
        (self.n_heads + 2 * self.n_key_heads) * self.head_width
    }

    /// Factor of the scores of attention.
    pub(super) fn score_factor(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }
}
