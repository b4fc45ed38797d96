//! The tensors of an encoder by name.

/// The tensors of an encoder, and their roles.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Names and shapes of the tensors.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// The prefixes that the names may have in a file.
    pub prefixes: &'static [&'static str],
    /// The padding token, whose position is its own id, for models that number the positions of other tokens from
    /// after it.
    pub padding: Option<usize>,
    pub wiring: Wiring,
}

/// Names of the tensors of an encoder. Names within layers omit the layer's prefix, and those of maps and
/// normalizations omit `.weight` and `.bias`.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// A vector for each token.
    pub tokens: &'static str,
    /// Table added to the vectors of tokens by position; likewise `token_types` by token type, of which all tokens
    /// have the first.
    pub positions: Option<&'static str>,
    /// See `positions`.
    pub token_types: Option<&'static str>,
    /// Normalizes the input of the first layer.
    pub embedding_norm: Option<&'static str>,
    /// Biases of attention by distance, shared by all layers.
    pub relative: Option<Relative>,
    /// Prefix of the names of layers, before their number.
    pub layer: &'static str,
    pub query: &'static str,
    pub key: &'static str,
    pub value: &'static str,
    pub attention_output: &'static str,
    /// Normalization of the first half of a layer.
    pub attention_norm: &'static str,
    /// The first map of the feed-forward block, followed by the activation.
    pub inner: &'static str,
    /// The map whose result is multiplied with the activation's.
    pub gate: Option<&'static str>,
    /// The last map of the feed-forward block.
    pub output: &'static str,
    /// Normalization of the second half of a layer.
    pub output_norm: &'static str,
    /// Normalization of the result of the last layer.
    pub last_norm: Option<&'static str>,
    /// True for T5's rules: maps without bias, root mean square normalization of the input of each half, and
    /// unscaled attention scores. Otherwise BERT's: maps with bias, normalization by the mean and variance of the
    /// sum after each half, and scores divided by the square root of a head's width.
    pub is_t5: bool,
}

/// Biases of attention by the distance between two tokens.
#[derive(Debug, Clone)]
pub struct Relative {
    /// The tensor: one row per bucket, one column per head.
    pub name: &'static str,
    pub n_buckets: usize,
    /// The distance from which all tokens share a bucket.
    pub max_distance: usize,
}

impl Relative {
    /// Row of a token that comes `distance` tokens after the one that attends to it.
    pub fn bucket(&self, distance: isize) -> usize {
        super::attention::bucket(distance, self.n_buckets, self.max_distance)
    }
}
