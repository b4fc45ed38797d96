//! The losses against PyTorch's values and gradients, against finite differences, and at extreme scores.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;

use candle_core::{DType, Device, Result, Tensor, Var};
use quarry_train::encoder::objective::{
    Coclr, Directions, Rewritten, binary_cross_entropy, coclr, coclr_paper, cross_entropy, distill_scores,
    distill_vectors, info_nce, margin, matryoshka, multi_positive, normalize, tri_loss,
};
use serde_json::Value;

fn fixture() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/objectives.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn labels(fixture: &Value) -> Vec<bool> {
    numbers(&fixture["labels"]).iter().map(|label| *label == 1.0).collect()
}

/// The ignored cells among `n_columns`.
fn ignored(fixture: &Value, n_columns: usize) -> Vec<bool> {
    let mut cells = vec![false; 4 * n_columns];
    for cell in fixture["ignored"].as_array().unwrap() {
        let [row, column] = numbers(cell)[..] else { panic!("two numbers") };
        cells[row as usize * n_columns + column as usize] = true;
    }
    cells
}

/// The loss of the case `name` of these inputs.
fn loss(fixture: &Value, name: &str, inputs: &[Tensor]) -> Result<Tensor> {
    let x = &inputs[0];
    let teacher =
        Tensor::from_vec(numbers(&fixture["teacher"]), (4, 4), &Device::Cpu)?.to_dtype(x.dtype())?;
    let none = vec![false; x.elem_count()];
    match name {
        "info-nce" | "info-nce-extreme" => info_nce(x, &none, Directions::One),
        "info-nce-masked" => info_nce(x, &ignored(fixture, 6), Directions::One),
        "info-nce-two" => info_nce(x, &ignored(fixture, 6), Directions::Two),
        "multi-positive" => {
            let positives = [0, 3, 7, 14, 17, 21];
            multi_positive(x, &(0..24).map(|at| positives.contains(&at)).collect::<Vec<_>>())
        }
        "tri-loss" => tri_loss(x, &inputs[1]),
        "bce" => binary_cross_entropy(x, &[1.0, 1.0, 0.0, 0.5]),
        "coclr" => coclr(x, &labels(fixture), 0, Coclr::Released),
        "coclr-online" => coclr(x, &labels(fixture), 0, Coclr::Online),
        "coclr-paper" => {
            let rewritten = Rewritten { logits: &inputs[1], own: &[0, 2, 3] };
            coclr_paper(x, &labels(fixture), 0, Some(rewritten))
        }
        "cross-entropy" => cross_entropy(x, &[1, 0, 1, 1]),
        "margin" => margin(x, &ignored(fixture, 6), 0.5),
        "distill-scores" => distill_scores(x, &teacher, 2.0),
        "distill-vectors" => distill_vectors(x, &teacher),
        "matryoshka" => matryoshka(inputs, &[2, 6], true, |v| {
            info_nce(&(v[0].matmul(&v[1].t()?)? * 20.0)?, &[false; 16], Directions::One)
        }),
        other => panic!("{other} is not known here"),
    }
}

/// Loss and gradients of a case.
fn learn(
    fixture: &Value,
    name: &str,
    inputs: &[(Vec<usize>, Vec<f64>)],
    dtype: DType,
) -> (f64, Vec<Vec<f64>>) {
    let leaves: Vec<Var> = inputs
        .iter()
        .map(|(shape, values)| {
            let tensor = Tensor::from_slice(values, shape.as_slice(), &Device::Cpu).unwrap();
            Var::from_tensor(&tensor.to_dtype(dtype).unwrap()).unwrap()
        })
        .collect();
    let tensors: Vec<Tensor> = leaves.iter().map(|leaf| leaf.as_tensor().clone()).collect();
    let value = loss(fixture, name, &tensors).unwrap();
    let store = value.backward().unwrap();
    let plain = |tensor: &Tensor| {
        tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    let gradients = tensors.iter().map(|leaf| plain(store.get(leaf).unwrap())).collect();
    (plain(&value)[0], gradients)
}

fn inputs(case: &Value) -> Vec<(Vec<usize>, Vec<f64>)> {
    let input = |input: &Value| {
        let shape = numbers(&input["shape"]).iter().map(|n| *n as usize).collect();
        (shape, numbers(&input["values"]))
    };
    case["inputs"].as_array().unwrap().iter().map(input).collect()
}

fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let near = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
    assert!(near, "{what}: expected {expected}, found {found}");
}

#[test]
fn values_and_gradients_are_those_of_pytorch() {
    let fixture = fixture();
    let cases = fixture["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 15);
    for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F32, 2e-5)] {
        for case in cases {
            let name = case["name"].as_str().unwrap();
            let (value, gradients) = learn(&fixture, name, &inputs(case), dtype);
            assert_near(name, value, case["loss"].as_f64().unwrap(), tolerance);
            let expected = case["gradients"].as_array().unwrap();
            assert_eq!(gradients.len(), expected.len());
            for (found, expected) in gradients.iter().zip(expected) {
                for (found, expected) in found.iter().zip(numbers(expected)) {
                    assert_near(name, *found, expected, tolerance);
                }
            }
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let fixture = fixture();
    for case in fixture["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let inputs = inputs(case);
        let (_, gradients) = learn(&fixture, name, &inputs, DType::F64);
        for (number, gradient) in gradients.iter().enumerate() {
            for (at, gradient) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut inputs = inputs.clone();
                    inputs[number].1[at] += by;
                    learn(&fixture, name, &inputs, DType::F64).0
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert_near(&format!("{name}, input {number}, value {at}"), *gradient, difference, 1e-6);
            }
        }
    }
}

#[test]
fn extreme_scores_give_finite_losses_and_gradients() {
    let fixture = fixture();
    for size in [1e4, 1e8] {
        for case in fixture["cases"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            // The vectors of these are not scores; a square of 10¹⁶ is what it is.
            if name == "distill-vectors" {
                continue;
            }
            let mut inputs = inputs(case);
            inputs.iter_mut().flat_map(|(_, values)| values).for_each(|value| *value *= size);
            let (value, gradients) = learn(&fixture, name, &inputs, DType::F32);
            assert!(value.is_finite() && value >= -1e-6, "{name} at {size}: {value}");
            assert!(gradients.iter().flatten().all(|x| x.is_finite()), "{name} at {size}: {gradients:?}");
        }
    }
}

#[test]
fn a_batch_without_positives_or_without_kept_cells_has_a_loss() {
    let logits = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap();
    for form in [Coclr::Released, Coclr::Online] {
        for labels in [[false, false], [true, true], [true, false]] {
            let value: f32 = coclr(&logits, &labels, 0, form).unwrap().to_scalar().unwrap();
            assert!(value.is_finite(), "{form:?} {labels:?}: {value}");
        }
    }
    let value: f32 = coclr_paper(&logits, &[false, true], 0, None).unwrap().to_scalar().unwrap();
    assert!(value.is_finite());
}

#[test]
fn with_one_example_of_the_batch_a_query_has_the_next_code_only() {
    let rows = [[1f32, -2.0, 3.0], [0.5, 2.0, -1.0], [4.0, 0.0, -3.0]];
    let logits = Tensor::new(&rows, &Device::Cpu).unwrap();
    let value = |loss: Result<Tensor>| loss.unwrap().to_scalar::<f32>().unwrap();
    let is = |x: f32| (1.0 + (-x).exp()).ln();
    let is_not = |x: f32| (1.0 + x.exp()).ln();
    let labels = [true, false, true];
    // The diagonal's 2.0 is labeled 0; the next codes of the three queries score -2.0, -1.0 and, in a circle, 4.0.
    let negatives = (is_not(2.0) + is_not(-2.0) + is_not(-1.0) + is_not(4.0)) / 4.0;
    let expected = (is(1.0) + is(-3.0)) / 2.0 + negatives;
    let found = value(coclr(&logits, &labels, 1, Coclr::Released));
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    let others = (is_not(-2.0) + is_not(-1.0) + is_not(4.0)) / 3.0;
    let expected = (is(1.0) + is_not(2.0) + is(-3.0)) / 3.0 + others;
    let found = value(coclr_paper(&logits, &labels, 1, None));
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    let all = value(coclr(&logits, &labels, 0, Coclr::Released));
    assert_eq!(value(coclr(&logits, &labels, 2, Coclr::Released)), all);
}

#[test]
fn a_vector_of_zeros_has_no_direction_and_no_nan() {
    let rows = Var::new(&[[0f32, 0.0], [3.0, 4.0]], &Device::Cpu).unwrap();
    let normalized = normalize(rows.as_tensor()).unwrap();
    assert_eq!(normalized.to_vec2::<f32>().unwrap(), [[0.0, 0.0], [0.6, 0.8]]);
    let gradients = normalized.sum_all().unwrap().backward().unwrap();
    let gradient = gradients.get(rows.as_tensor()).unwrap().to_vec2::<f32>().unwrap();
    assert!(gradient.iter().flatten().all(|x| x.is_finite()), "{gradient:?}");
}
