//! The forward pass of an encoder with the layers of BERT, MPNet or T5, with gradients; `quarry-transformer`
//! contains the fast one without gradients.

use std::collections::HashMap;

use candle_core::{DType, Device, Error, Result, Tensor, Var};
use quarry_embed::Side;
use quarry_transformer::trainable::{
    Activation, NamedTensor, Relative, Shape, TokenSettings, Trainable, TrainablePooling, Wiring,
};

use super::attention::Attention;
use super::fused::DropoutMask;
use super::objective::normalize;
use super::rows::Rows;
use super::{composed, fused};

/// Named trainable tensors, in a fixed order.
pub(super) struct Parameters {
    names: Vec<String>,
    variables: Vec<Var>,
    by_name: HashMap<String, usize>,
    device: Device,
    /// If true, uses candle's operations in place of fused steps.
    composed: bool,
}

impl Parameters {
    pub(super) fn new(tensors: &[NamedTensor], device: &Device) -> Result<Parameters> {
        let names: Vec<String> = tensors.iter().map(|tensor| tensor.name.clone()).collect();
        let variables = tensors
            .iter()
            .map(|tensor| Var::from_slice(&tensor.values, tensor.shape.as_slice(), device))
            .collect::<Result<Vec<_>>>()?;
        let by_name = names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Ok(Parameters { names, variables, by_name, device: device.clone(), composed: !device.is_cpu() })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn variables(&self) -> &[Var] {
        &self.variables
    }

    pub(super) fn tensors(&self) -> Result<Vec<NamedTensor>> {
        self.names
            .iter()
            .zip(&self.variables)
            .map(|(name, variable)| {
                Ok(NamedTensor {
                    name: name.clone(),
                    shape: variable.dims().to_vec(),
                    values: variable.flatten_all()?.to_vec1()?,
                })
            })
            .collect()
    }

    /// Replaces all values, in the order of [`Parameters::tensors`].
    pub(super) fn set(&self, values: &[Vec<f32>]) -> Result<()> {
        for (variable, values) in self.variables.iter().zip(values) {
            variable.set(&Tensor::from_slice(values, variable.shape(), &self.device)?)?;
        }
        Ok(())
    }

    /// Returns for each tensor whether weight decay applies: as usual, not to biases and normalizations.
    pub(super) fn decays(&self) -> Vec<bool> {
        let decays = |name: &String| {
            !name.ends_with(".bias") && !name.contains("LayerNorm") && !name.contains("layer_norm")
        };
        self.names.iter().map(decays).collect()
    }

    pub(super) fn get(&self, name: &str) -> Result<&Tensor> {
        match self.by_name.get(name) {
            Some(at) => Ok(self.variables[*at].as_tensor()),
            None => Err(Error::CannotFindTensor { path: name.to_owned() }),
        }
    }

    /// rows · weightᵀ + bias.
    pub(super) fn linear(&self, name: &str, rows: &Tensor) -> Result<Tensor> {
        self.affine(rows, self.get(&format!("{name}.weight"))?, self.get(&format!("{name}.bias"))?)
    }

    fn affine(&self, rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        if self.composed { composed::linear(rows, weight, bias) } else { fused::linear(rows, weight, bias) }
    }

    /// rows · weightᵀ.
    fn linear_without_bias(&self, name: &str, rows: &Tensor) -> Result<Tensor> {
        rows.matmul(&self.get(&format!("{name}.weight"))?.t()?)
    }

    fn root_mean_square_norm(&self, name: &str, rows: &Tensor, epsilon: f64) -> Result<Tensor> {
        let size = (rows.sqr()?.mean_keepdim(1)? + epsilon)?.sqrt()?;
        rows.broadcast_div(&size)?.broadcast_mul(self.get(&format!("{name}.weight"))?)
    }

    fn layer_norm(&self, name: &str, rows: &Tensor, epsilon: f32) -> Result<Tensor> {
        let [scale, shift] = [self.get(&format!("{name}.weight"))?, self.get(&format!("{name}.bias"))?];
        if self.composed {
            return composed::layer_norm(rows, scale, shift, epsilon);
        }
        fused::layer_norm(rows, scale, shift, epsilon)
    }

    /// Applies the maps with these names, which have the same inputs, and concatenates the results.
    fn side_by_side(&self, names: [String; 3], rows: &Tensor, has_bias: bool) -> Result<Tensor> {
        let join = |part: &str| {
            let parts = names.iter().map(|name| self.get(&format!("{name}.{part}")));
            Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
        };
        let weight = join("weight")?;
        if has_bias { self.affine(rows, &weight, &join("bias")?) } else { rows.matmul(&weight.t()?) }
    }
}

/// Sets values to 0 at random and scales the others up; the same seed drops the same values.
pub(super) struct Dropout {
    rate: f32,
    random: fastrand::Rng,
}

impl Dropout {
    /// Creates a dropout; a rate of 0 changes nothing.
    pub(super) fn new(rate: f32, seed: u64) -> Dropout {
        Dropout { rate, random: fastrand::Rng::with_seed(seed) }
    }

    /// Applies it to a matrix.
    pub(super) fn apply(&mut self, values: &Tensor) -> Result<Tensor> {
        self.apply_to(values, None)
    }

    /// Applies it to rows of tokens.
    fn apply_to(&mut self, values: &Tensor, rows: Option<&Rows>) -> Result<Tensor> {
        let (rate, seed) = self.next();
        let mask = DropoutMask { rate, seed };
        let padded = rows.is_some_and(|rows| rows.padded_to.is_some());
        match rate > 0.0 {
            true if padded || !values.device().is_cpu() => composed::dropout(values, mask, rows),
            true => fused::dropout(values, mask),
            false => Ok(values.clone()),
        }
    }

    /// The share of values to drop, and the seed that selects them.
    fn next(&mut self) -> (f32, u64) {
        (self.rate, if self.rate > 0.0 { self.random.u64(..) } else { 0 })
    }
}

/// An encoder whose weights are in [`Parameters`].
#[derive(Debug, Clone)]
pub(super) struct Network {
    pub shape: Shape,
    padding: Option<usize>,
    wiring: Wiring,
    pub pooling: TrainablePooling,
    /// Columns of that vector.
    pub dimension: usize,
    /// True if the vector has length 1.
    pub cosine: bool,
    late: Option<TokenSettings>,
}

impl Network {
    pub(super) fn new(model: &Trainable, cosine: bool) -> Network {
        Network {
            shape: model.shape.clone(),
            padding: model.padding,
            wiring: model.wiring.clone(),
            pooling: model.pooling,
            dimension: model.dimension,
            cosine,
            late: model.late.clone(),
        }
    }

    /// The same network for texts limited to these numbers of tokens.
    pub(super) fn limited(mut self, max_query: usize, max_code: usize) -> Network {
        if let Some(TokenSettings { lengths: [query, code], .. }) = &mut self.late {
            (*query, *code) = ((*query).min(max_query), (*code).min(max_code));
        }
        self
    }

    /// Returns whether texts have a vector for each token.
    pub(super) fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// The scores of queries against codes, given as rows from [`Network::embed`]: n × m. With late interaction,
    /// the sum over a query's tokens of the maximum over a code's tokens.
    pub(super) fn scores(&self, queries: &Tensor, codes: &Tensor) -> Result<Tensor> {
        if !self.is_late() {
            return queries.matmul(&codes.t()?);
        }
        let d = self.dimension;
        let ((n, a), (m, b)) = (queries.dims2()?, codes.dims2()?);
        let (a, b) = (a / d, b / d);
        let products = queries.reshape((n * a, d))?.matmul(&codes.reshape((m * b, d))?.t()?)?;
        let products = products.reshape((n, a, m, b))?;
        // Of several equal maxima, only one gets the gradient.
        let best = products.detach().argmax_keepdim(3)?;
        products.gather(&best, 3)?.squeeze(3)?.sum(1)
    }

    /// One row for each text, given as a list of token ids. With late interaction, the row concatenates the vectors
    /// of all tokens and is padded: for a query with zeros, which do not change a sum, and for a document with the
    /// vector of its first token, which does not change a maximum.
    pub(super) fn embed(
        &self,
        parameters: &Parameters,
        texts: &[&[u32]],
        side: Side,
        dropout: &mut Dropout,
    ) -> Result<Tensor> {
        let (states, rows) = self.states(parameters, texts, dropout)?;
        if let Some(late) = &self.late {
            let vectors = normalize(&parameters.linear_without_bias("linear", &states)?)?;
            let zero = Tensor::zeros((1, self.dimension), vectors.dtype(), vectors.device())?;
            let n_states = vectors.dim(0)? as u32;
            let n_vectors = late.lengths[if side == Side::Query { 0 } else { 1 }];
            let mut index = Vec::with_capacity(texts.len() * n_vectors);
            for (text, span) in texts.iter().zip(&rows.spans) {
                let counts = |id: &u32| side == Side::Query || late.skipped.binary_search(id).is_err();
                let kept =
                    text.iter().zip(span.clone()).filter(|(id, _)| counts(id)).map(|(_, row)| row as u32);
                let filler = if side == Side::Query { n_states } else { span.start as u32 };
                index.extend(kept.chain(std::iter::repeat(filler)).take(n_vectors));
            }
            let index = Tensor::from_vec(index, texts.len() * n_vectors, vectors.device())?;
            let rows = Tensor::cat(&[vectors, zero], 0)?.index_select(&index, 0)?;
            return rows.reshape((texts.len(), n_vectors * self.dimension));
        }
        let pooled = match self.pooling {
            TrainablePooling::Tokens => return Err(Error::Msg("tokens have no pooling".into())),
            TrainablePooling::Cls => first(&states, &rows)?,
            TrainablePooling::Pooler => parameters.linear("pooler.dense", &first(&states, &rows)?)?.tanh()?,
            TrainablePooling::Projection => parameters.linear("proj", &first(&states, &rows)?)?,
            TrainablePooling::Mean => mean(&states, &rows, texts)?,
        };
        if self.cosine { normalize(&pooled) } else { Ok(pooled) }
    }

    /// The vectors of all tokens, and their row layout.
    pub(super) fn states(
        &self,
        parameters: &Parameters,
        texts: &[&[u32]],
        dropout: &mut Dropout,
    ) -> Result<(Tensor, Rows)> {
        let Shape { n_heads, head_width, .. } = self.shape;
        let wiring = &self.wiring;
        let device = parameters.device();
        let rows = Rows::new(texts, parameters.composed);
        let (ids, positions) = self.inputs(texts, &rows);
        let ids = Tensor::from_vec(ids, rows.n, device)?;

        let linear = |name: &str, rows: &Tensor| {
            if wiring.is_t5 {
                parameters.linear_without_bias(name, rows)
            } else {
                parameters.linear(name, rows)
            }
        };
        let norm = |name: &str, rows: &Tensor| {
            if wiring.is_t5 {
                parameters.root_mean_square_norm(name, rows, f64::from(self.shape.epsilon))
            } else {
                parameters.layer_norm(name, rows, self.shape.epsilon)
            }
        };
        // The input and the result of half a layer.
        let input = |name: &str, states: &Tensor| {
            if wiring.is_t5 { norm(name, states) } else { Ok(states.clone()) }
        };
        let result = |name: &str, sum: Tensor| if wiring.is_t5 { Ok(sum) } else { norm(name, &sum) };

        let mut states = parameters.get(wiring.tokens)?.index_select(&ids, 0)?;
        if let Some(name) = wiring.positions {
            let positions = Tensor::from_vec(positions, rows.n, device)?;
            states = (states + parameters.get(name)?.index_select(&positions, 0)?)?;
        }
        if let Some(name) = wiring.token_types {
            states = states.broadcast_add(&parameters.get(name)?.narrow(0, 0, 1)?)?;
        }
        if let Some(name) = wiring.embedding_norm {
            states = norm(name, &states)?;
        }
        states = dropout.apply_to(&states, Some(&rows))?;

        let biases = match rows.padded_to {
            None => biases(parameters, wiring.relative.as_ref(), n_heads, rows.longest())?,
            Some(n) => padded_biases(parameters, wiring.relative.as_ref(), &rows, n)?,
        };
        let scale = if wiring.is_t5 { 1.0 } else { 1.0 / (head_width as f32).sqrt() };
        for layer in 0..self.shape.n_layers {
            let at = |name: &str| format!("{}{layer}.{name}", wiring.layer);
            let normed = input(&at(wiring.attention_norm), &states)?;
            let names = [wiring.query, wiring.key, wiring.value].map(at);
            let query_key_value = parameters.side_by_side(names, &normed, !wiring.is_t5)?;
            let attention = Attention { n_heads, spans: rows.spans.clone(), scale, dropout: dropout.next() };
            let context = match rows.padded_to {
                None => attention.apply(&query_key_value, &biases)?,
                Some(n) => composed::attention(&attention, n, &query_key_value, &biases)?,
            };
            let output = linear(&at(wiring.attention_output), &context)?;
            let output = dropout.apply_to(&output, Some(&rows))?;
            states = result(&at(wiring.attention_norm), (output + states)?)?;

            let normed = input(&at(wiring.output_norm), &states)?;
            let inner = linear(&at(wiring.inner), &normed)?;
            let mut inner = match self.shape.activation {
                Activation::Gelu if parameters.composed => inner.gelu_erf()?,
                Activation::Gelu => fused::gelu(&inner)?,
                Activation::GeluTanh => inner.gelu()?,
                Activation::Relu => inner.relu()?,
                Activation::Silu => inner.silu()?,
            };
            if let Some(gate) = wiring.gate {
                inner = (inner * linear(&at(gate), &normed)?)?;
            }
            // T5 also applies dropout between the two maps.
            let inner = if wiring.is_t5 { dropout.apply_to(&inner, Some(&rows))? } else { inner };
            let output = linear(&at(wiring.output), &inner)?;
            let output = dropout.apply_to(&output, Some(&rows))?;
            states = result(&at(wiring.output_norm), (output + states)?)?;
        }
        if let Some(name) = wiring.last_norm {
            states = dropout.apply_to(&norm(name, &states)?, Some(&rows))?;
        }
        Ok((states, rows))
    }

    /// Token ids and positions of all rows.
    fn inputs(&self, texts: &[&[u32]], rows: &Rows) -> (Vec<u32>, Vec<u32>) {
        let filler = self.padding.unwrap_or(0) as u32;
        let (mut ids, mut positions) = (vec![filler; rows.n], vec![filler; rows.n]);
        for (text, span) in texts.iter().zip(&rows.spans) {
            let mut next = self.padding.map_or(0, |padding| padding as u32 + 1);
            let text: &[u32] = if text.is_empty() { &[filler] } else { text };
            for (id, row) in text.iter().zip(span.clone()) {
                ids[row] = *id;
                if self.padding == Some(*id as usize) {
                    positions[row] = *id;
                } else {
                    positions[row] = next;
                    next += 1;
                }
            }
        }
        (ids, positions)
    }
}

/// Attention bias by the distance of two tokens: one row for each head.
fn by_distance(
    parameters: &Parameters,
    relative: &Relative,
    distances: impl Iterator<Item = isize>,
) -> Result<Tensor> {
    let buckets: Vec<u32> = distances.map(|distance| relative.bucket(distance) as u32).collect();
    let buckets = Tensor::new(buckets, parameters.device())?;
    parameters.get(relative.name)?.index_select(&buckets, 0)?.t()?.contiguous()
}

/// Attention bias for each distance from 1 - n to n - 1.
fn biases(parameters: &Parameters, relative: Option<&Relative>, n_heads: usize, n: usize) -> Result<Tensor> {
    match relative {
        Some(relative) => by_distance(parameters, relative, 1 - n as isize..n as isize),
        None => Tensor::zeros((n_heads, 2 * n - 1), DType::F32, parameters.device()),
    }
}

/// Attention bias in texts padded to `n` tokens.
fn padded_biases(
    parameters: &Parameters,
    relative: Option<&Relative>,
    rows: &Rows,
    n: usize,
) -> Result<Tensor> {
    let padding = composed::padding(rows, n, parameters.device())?;
    let Some(relative) = relative else { return Ok(padding) };
    let n_signed = n as isize;
    let distances = (0..n_signed).flat_map(|from| (0..n_signed).map(move |to| to - from));
    let biases = by_distance(parameters, relative, distances)?;
    padding.broadcast_add(&biases.reshape((1, biases.dim(0)?, n, n))?)
}

/// The vector of each text's first token.
pub(super) fn first(states: &Tensor, rows: &Rows) -> Result<Tensor> {
    let starts: Vec<u32> = rows.spans.iter().map(|span| span.start as u32).collect();
    states.index_select(&Tensor::from_vec(starts, rows.spans.len(), states.device())?, 0)
}

fn mean(states: &Tensor, rows: &Rows, texts: &[&[u32]]) -> Result<Tensor> {
    let n_rows = states.dim(0)?;
    let mut weights = vec![0.0f32; texts.len() * n_rows];
    for ((row, span), text) in weights.chunks_exact_mut(n_rows).zip(&rows.spans).zip(texts) {
        row[span.clone()].fill(if text.is_empty() { 0.0 } else { 1.0 / text.len() as f32 });
    }
    Tensor::from_vec(weights, (texts.len(), n_rows), states.device())?.matmul(states)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use quarry_embed::Embedder;
    use quarry_transformer::TransformerModel;

    use super::*;
    use crate::encoder::fused::tests::{check_close, values};

    const TEXTS: [&str; 4] = [
        "sort a list by value",
        "",
        "def sort(values):\n    return sorted(values)",
        "read every line of the file",
    ];

    fn path(name: &str) -> PathBuf {
        format!("{}/../transformer/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")).into()
    }

    fn read(name: &str) -> (Network, Parameters, Vec<Vec<u32>>) {
        let model = Trainable::read(&path(name)).unwrap();
        let network = Network::new(&model, model.cosine);
        let tokenizer = model.text_tokenizer(500).unwrap();
        let ids = TEXTS
            .iter()
            .map(|text| tokenizer.ids(&format!("{}{text}", model.query_prompt)).unwrap())
            .collect();
        (network, Parameters::new(&model.tensors, &Device::Cpu).unwrap(), ids)
    }

    fn embed(network: &Network, parameters: &Parameters, ids: &[Vec<u32>]) -> Tensor {
        let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        network.embed(parameters, &ids, Side::Document, &mut Dropout::new(0.0, 0)).unwrap()
    }

    #[test]
    fn vectors_are_those_of_the_fast_forward_pass() {
        for name in [
            "tiny-bert",
            "tiny-bert:cls",
            "tiny-bert:pooler:dot",
            "tiny-bert:mean:dot",
            "tiny-roberta",
            "tiny-roberta:pooler",
            "tiny-xlm-roberta:mean",
            "tiny-mpnet:mean",
            "tiny-mpnet:cls:dot",
            "tiny-t5:mean",
            "tiny-t5:mean:dot",
            "tiny-codet5p:mean",
            "tiny-codet5p",
        ] {
            let (network, parameters, ids) = read(name);
            let found: Vec<f32> =
                embed(&network, &parameters, &ids).flatten_all().unwrap().to_vec1().unwrap();
            let expected = TransformerModel::load(&path(name)).unwrap().embed_queries(&TEXTS).unwrap().values;
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-4, "{name}: expected {expected}, found {found}");
            }
        }
    }

    /// Tests the operations of other devices on the CPU: they drop the same values, and padding changes nothing.
    #[test]
    fn candle_operations_give_the_vectors_and_gradients_of_the_fused_steps() {
        for name in [
            "tiny-bert:pooler:dot",
            "tiny-roberta",
            "tiny-mpnet:mean",
            "tiny-t5:mean",
            "tiny-codet5p",
            "tiny-late-bert",
        ] {
            let (network, mut parameters, ids) = read(name);
            let texts: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
            let mut run = |composed| {
                parameters.composed = composed;
                let vectors =
                    network.embed(&parameters, &texts, Side::Document, &mut Dropout::new(0.2, 7)).unwrap();
                let weights: Vec<f32> =
                    (0..vectors.elem_count()).map(|at| (at * 7 % 11) as f32 - 5.0).collect();
                let weights = Tensor::from_vec(weights, vectors.shape(), &Device::Cpu).unwrap();
                let store = (&vectors * weights).unwrap().sum_all().unwrap().backward().unwrap();
                let gradients = parameters.variables().iter().map(|variable| store.get(variable).cloned());
                (vectors, gradients.collect::<Vec<_>>())
            };
            let ((fused, fused_gradients), (composed, gradients)) = (run(false), run(true));
            check_close(&composed, &fused, name);
            let tensors = parameters.tensors().unwrap();
            for ((composed, fused), tensor) in gradients.iter().zip(&fused_gradients).zip(&tensors) {
                let case = format!("{name}, {}", tensor.name);
                match (composed, fused) {
                    (Some(composed), Some(fused)) => {
                        // Sums of many terms are rounded differently.
                        let largest = values(fused).into_iter().fold(0.1f32, |most, x| most.max(x.abs()));
                        for (composed, fused) in values(composed).into_iter().zip(values(fused)) {
                            assert!(
                                (composed - fused).abs() <= 1e-4 * largest,
                                "{case}: {composed}, {fused}, {largest}"
                            );
                        }
                    }
                    (composed, fused) => assert_eq!(composed.is_some(), fused.is_some(), "{case}"),
                }
            }
            assert!(gradients.iter().flatten().count() > 10);
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        for name in
            ["tiny-bert:pooler:dot", "tiny-roberta", "tiny-mpnet:mean", "tiny-t5:mean", "tiny-codet5p"]
        {
            let (network, parameters, ids) = read(name);
            let loss = |parameters: &Parameters| {
                let vectors = embed(&network, parameters, &ids);
                let n = vectors.elem_count();
                let weights: Vec<f32> = (0..n).map(|at| ((at * 7 % 11) as f32 - 5.0) / 5.0).collect();
                let weights = Tensor::from_vec(weights, vectors.shape(), &Device::Cpu).unwrap();
                (vectors * weights).unwrap().sum_all().unwrap()
            };
            let store = loss(&parameters).backward().unwrap();
            let tensors = parameters.tensors().unwrap();
            let values: Vec<Vec<f32>> = tensors.iter().map(|tensor| tensor.values.clone()).collect();
            let mut n_other_than_zero = 0;
            for (number, tensor) in tensors.iter().enumerate() {
                let gradient = store.get(parameters.variables()[number].as_tensor());
                let gradient = gradient.map_or(vec![0.0; tensor.values.len()], |x| {
                    x.flatten_all().unwrap().to_vec1::<f32>().unwrap()
                });
                let steepest =
                    (0..gradient.len()).max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()));
                for at in [0, gradient.len() / 2, steepest.unwrap()] {
                    let moved = |by: f32| {
                        let mut values = values.clone();
                        values[number][at] += by;
                        parameters.set(&values).unwrap();
                        loss(&parameters).to_scalar::<f32>().unwrap()
                    };
                    let difference = (moved(4e-3) - moved(-4e-3)) / 8e-3;
                    let found = gradient[at];
                    let tolerance = 1e-2 + 0.03 * difference.abs();
                    assert!(
                        (found - difference).abs() < tolerance,
                        "{name}, {} {at}: {found}, {difference}",
                        tensor.name
                    );
                    n_other_than_zero += usize::from(found.abs() > 0.02);
                }
            }
            parameters.set(&values).unwrap();
            assert!(n_other_than_zero > 40, "{n_other_than_zero}");
        }
    }

    #[test]
    fn dropout_repeats_itself_and_keeps_the_mean() {
        let ones = Tensor::ones((100, 100), DType::F32, &Device::Cpu).unwrap();
        let once = |seed| {
            Dropout::new(0.25, seed).apply(&ones).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        assert_eq!(once(1), once(1));
        assert_ne!(once(1), once(2));
        let dropped = once(1).iter().filter(|x| **x == 0.0).count();
        assert!((2300..2700).contains(&dropped), "{dropped}");
        assert!(once(1).iter().all(|x| *x == 0.0 || (*x - 4.0 / 3.0).abs() < 1e-6));
    }
}
