//! The parts of a model beside its encoder: the matcher of CoSQA's siamese network, and a classifier of sequences.

use candle_core::{Result, Tensor};
use quarry_transformer::trainable::NamedTensor;

use super::network::{Dropout, Parameters};
use super::objective::normalize;

/// A linear layer as PyTorch begins it: uniform within 1/√inputs.
fn linear(name: &str, n_inputs: usize, n_outputs: usize, random: &mut fastrand::Rng) -> [NamedTensor; 2] {
    let bound = 1.0 / (n_inputs as f32).sqrt();
    let mut values = |n: usize| (0..n).map(|_| (random.f32() * 2.0 - 1.0) * bound).collect();
    let weight = values(n_inputs * n_outputs);
    let bias = values(n_outputs);
    [
        NamedTensor { name: format!("{name}.weight"), shape: vec![n_outputs, n_inputs], values: weight },
        NamedTensor { name: format!("{name}.bias"), shape: vec![n_outputs], values: bias },
    ]
}

pub(super) fn new_matcher(dimension: usize, seed: u64) -> Vec<NamedTensor> {
    let mut random = fastrand::Rng::with_seed(seed);
    let dense = linear("matcher.dense", 4 * dimension, dimension, &mut random);
    let output = linear("matcher.out_proj", dimension, 1, &mut random);
    dense.into_iter().chain(output).collect()
}

/// The logits of all queries (n × d) against all documents (m × d): n × m. The matcher is a network on (q, d, q − d,
/// q ⊙ d), whose first three parts are linear in one side and so are computed once for each.
pub(super) fn match_all(parameters: &Parameters, queries: &Tensor, documents: &Tensor) -> Result<Tensor> {
    let ((n, d), m) = (queries.dims2()?, documents.dim(0)?);
    let weight = parameters.get("matcher.dense.weight")?;
    let part = |index: usize| weight.narrow(1, index * d, d);
    let of_query = queries.matmul(&(part(0)? + part(2)?)?.t()?)?.unsqueeze(1)?;
    let of_document = documents.matmul(&(part(1)? - part(2)?)?.t()?)?.unsqueeze(0)?;
    let product = queries.unsqueeze(1)?.broadcast_mul(&documents.unsqueeze(0)?)?.reshape((n * m, d))?;
    let of_both = product.matmul(&part(3)?.contiguous()?.t()?)?.reshape((n, m, d))?;
    let sum = of_both.broadcast_add(&of_query)?.broadcast_add(&of_document)?;
    let inner = sum.broadcast_add(parameters.get("matcher.dense.bias")?)?.tanh()?;
    parameters.linear("matcher.out_proj", &inner.reshape((n * m, d))?)?.reshape((n, m))
}

/// Returns whether a model's classifier reads its projection, of length 1, as GenCodeSearchNet's CodeT5+ does.
fn has_projection(model_type: &str) -> bool {
    model_type == "codet5p_embedding"
}

/// Returns whether a model's classifier is BERT's: its pooler and one layer. RoBERTa has two layers of its own.
fn has_pooler(model_type: &str) -> bool {
    model_type == "bert"
}

/// The tensors of a new classifier, those of a pooler included where the model needs one and `known` has none.
pub(super) fn new_classifier(
    model_type: &str,
    hidden: usize,
    n_classes: usize,
    seed: u64,
    known: &[NamedTensor],
) -> Vec<NamedTensor> {
    let mut random = fastrand::Rng::with_seed(seed);
    let names = if has_pooler(model_type) {
        ["pooler.dense", "classifier"]
    } else {
        ["classifier.dense", "classifier.out_proj"]
    };
    let dense = linear(names[0], hidden, hidden, &mut random);
    let output = linear(names[1], hidden, n_classes, &mut random);
    let is_new = |tensor: &NamedTensor| !known.iter().any(|other| other.name == tensor.name);
    dense.into_iter().chain(output).filter(is_new).collect()
}

/// The logits of sequences, from the states of their first tokens.
pub(super) fn classify(
    parameters: &Parameters,
    model_type: &str,
    first: &Tensor,
    dropout: &mut Dropout,
) -> Result<Tensor> {
    if has_pooler(model_type) {
        let pooled = parameters.linear("pooler.dense", first)?.tanh()?;
        return parameters.linear("classifier", &dropout.apply(&pooled)?);
    }
    let first = match has_projection(model_type) {
        true => normalize(&parameters.linear("proj", first)?)?,
        false => first.clone(),
    };
    let inner = parameters.linear("classifier.dense", &dropout.apply(&first)?)?.tanh()?;
    parameters.linear("classifier.out_proj", &dropout.apply(&inner)?)
}
