//! The tensors of an encoder by name.

/// The tensors of an encoder, and their roles.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Names and shapes of the tensors.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// The prefixes that the names may have in a file.
    pub prefixes: &'static [&'static str],
    /// The token whose position is its own id, for models that count the positions of others from after that.
    pub padding: Option<usize>,
    pub wiring: Wiring,
}

/// Names of the tensors of an encoder; those of layers without what they begin with, and those of maps and
/// normalizations without `.weight` and `.bias`.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// A vector for each token.
    pub tokens: &'static str,
    /// Added to the vectors of tokens: a table for positions, one for types of tokens, of which all have the first.
    pub positions: Option<&'static str>,
    /// See `positions`.
    pub token_types: Option<&'static str>,
    /// Normalizes the input of the first layer.
    pub embedding_norm: Option<&'static str>,
    /// Biases of attention by distance, shared by all layers.
    pub relative: Option<Relative>,
    /// Prefix of the names of layers, before their number.
    pub layer: &'static str,
    /// The map to queries.
    pub query: &'static str,
    /// The map to keys.
    pub key: &'static str,
    /// The map to values.
    pub value: &'static str,
    /// The map after attention.
    pub attention_output: &'static str,
    /// Normalizes the first half of a layer.
    pub attention_norm: &'static str,
    /// The first map of the feed-forward block, which has the activation.
    pub inner: &'static str,
    /// The map that its result is multiplied with.
    pub gate: Option<&'static str>,
    /// The last map of the block.
    pub output: &'static str,
    /// Normalizes the second half of a layer.
    pub output_norm: &'static str,
    /// Normalizes the result of the last layer.
    pub last_norm: Option<&'static str>,
    /// Whether the rules are T5's: maps without bias, normalization of the root mean square of the input of each half, and
    /// scores of attention as they are. Else they are BERT's: with bias, of the mean and variance of the sum after each
    /// half, and scores divided by the root of a head's width.
    pub is_t5: bool,
}

/// Biases of attention by the distance between two tokens.
#[derive(Debug, Clone)]
pub struct Relative {
    /// The tensor: one row per bucket, one column per head.
    pub name: &'static str,
    /// Number of buckets.
    pub n_buckets: usize,
    /// The distance from which on all share a bucket.
    pub max_distance: usize,
}

impl Relative {
    /// Row of a token that is `distance` tokens after the one that attends to it.
    #[must_use]
    pub fn bucket(&self, distance: isize) -> usize {
        super::attention::bucket(distance, self.n_buckets, self.max_distance)
    }
}
