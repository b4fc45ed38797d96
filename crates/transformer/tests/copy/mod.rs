//! Copies of the tiny models that tests may break.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use quarry_embed::{Embedder, Vectors, normalize};
use quarry_transformer::TransformerModel;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokenizers::{Tokenizer, TruncationParams};

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A copy of a model directory that a test may change.
pub(crate) struct Copy(TempDir);

impl Copy {
    pub(crate) fn new(name: &str) -> Copy {
        let copy = TempDir::new().unwrap();
        let source = fixtures().join(name);
        for directory in ["", "1_Pooling", "2_Normalize", "1_Dense", "2_Dense", "3_Dense"] {
            if !source.join(directory).is_dir() {
                continue;
            }
            fs::create_dir_all(copy.path().join(directory)).unwrap();
            for entry in fs::read_dir(source.join(directory)).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    fs::copy(entry.path(), copy.path().join(directory).join(entry.file_name())).unwrap();
                }
            }
        }
        Copy(copy)
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn remove(self, file: &str) -> Copy {
        fs::remove_file(self.path(file)).unwrap();
        self
    }

    pub(crate) fn write(self, file: &str, content: impl AsRef<[u8]>) -> Copy {
        fs::write(self.path(file), content).unwrap();
        self
    }

    pub(crate) fn set(self, file: &str, key: &str, value: Value) -> Copy {
        let mut json = self.json(file);
        json[key] = value;
        self.write(file, json.to_string())
    }

    pub(crate) fn json(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(file)).unwrap()).unwrap()
    }

    /// Changes the tensors of model.safetensors.
    pub(crate) fn change_tensors(&self, change: impl FnOnce(&mut HashMap<String, Tensor>)) {
        let path = self.path("model.safetensors");
        let mut tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
        change(&mut tensors);
        candle_core::safetensors::save(&tensors, &path).unwrap();
    }

    /// Keeps the first half of a file.
    pub(crate) fn cut(self, file: &str) -> Copy {
        let bytes = fs::read(self.path(file)).unwrap();
        self.write(file, &bytes[..bytes.len() / 2])
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn load(&self) -> TransformerModel {
        TransformerModel::load(self.root()).unwrap()
    }

    /// The error of loading with options after the path, its causes included, with the directory's own path taken out.
    pub(crate) fn error(&self, options: &str) -> String {
        let error = TransformerModel::load(&with_options(self.root(), options)).err().expect("an error");
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message += &format!(": {error}");
            cause = error.source();
        }
        message.replace(&self.0.path().display().to_string(), "MODEL")
    }
}

/// Checks that loading with options after the path fails, with a message that has these parts.
pub(crate) fn check_error(copy: &Copy, options: &str, parts: &[&str]) {
    let error = copy.error(options);
    for part in parts {
        assert!(error.contains(part), "expected {part:?} in {error:?}");
    }
}

pub(crate) fn expected(file: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(file)).unwrap()).unwrap()
}

/// Compares every pooling of a model's tokens with what the library computed.
pub(crate) fn check_poolings(copy: &Copy, name: &str, expected: &Value, poolings: &[&str]) {
    let texts = texts(expected);
    // The copies have no prompts.
    let _ = fs::remove_file(copy.path("config_sentence_transformers.json"));
    for pooling in poolings {
        let model = load(copy.root(), &format!(":{pooling}:dot"));
        let found = model.embed_documents(&texts).unwrap();
        // A text may have no tokens only where the tokenizer adds none.
        check_rows(&found, &rows(&expected[name][pooling]), &format!("{name} {pooling}"));
        for (text, row) in texts.iter().zip(found.values.chunks(found.dimension)) {
            check_rows(&model.embed_queries(&[text]).unwrap(), &[row.to_vec()], name);
        }
    }
}

pub(crate) fn check_tokens(name: &str, max_length: usize, expected: &Value) {
    let mut tokenizer = Tokenizer::from_file(fixtures().join(name).join("tokenizer.json")).unwrap();
    let truncation = TruncationParams { max_length, ..Default::default() };
    tokenizer.with_truncation(Some(truncation)).unwrap();
    for (text, ids) in texts(expected).iter().zip(expected[name]["ids"].as_array().unwrap()) {
        assert_eq!(json!(tokenizer.encode(*text, true).unwrap().get_ids()), *ids, "{name}: {text}");
    }
}

pub(crate) fn texts(expected: &Value) -> Vec<&str> {
    expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

pub(crate) fn rows(value: &Value) -> Vec<Vec<f32>> {
    serde_json::from_value(value.clone()).unwrap()
}

pub(crate) fn with_options(path: &Path, options: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(options);
    path.into()
}

/// A model with options after its path.
pub(crate) fn load(path: &Path, options: &str) -> TransformerModel {
    TransformerModel::load(&with_options(path, options)).unwrap()
}

/// Every value within the tolerance (of its size, where that is above 1).
pub(crate) fn check_values(found: &Vectors, expected: &[Vec<f32>], tolerance: f32, case: &str) {
    assert_eq!(found.values.len(), expected.iter().map(Vec::len).sum::<usize>(), "{case}");
    for (number, (found, expected)) in found.values.chunks(found.dimension).zip(expected).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            let tolerance = tolerance * expected.abs().max(1.0);
            assert!((found - expected).abs() <= tolerance, "{case}, text {number}: {found} not {expected}");
        }
    }
}

/// Every value within 1e-4 (of its size, where that is above 1), and the cosine of every row at least 0.99999.
pub(crate) fn check_rows(found: &Vectors, expected: &[Vec<f32>], case: &str) {
    check_values(found, expected, 1e-4, case);
    for (number, (found, expected)) in found.values.chunks(found.dimension).zip(expected).enumerate() {
        let (mut found, mut expected) = (found.to_vec(), expected.clone());
        normalize(&mut found);
        normalize(&mut expected);
        let cosine: f32 = found.iter().zip(&expected).map(|(found, expected)| found * expected).sum();
        assert!(cosine >= 0.99999, "{case}, text {number}: cosine {cosine}");
    }
}
