//! Rewrites the weights of a model directory: as safetensors, or quantized to 8 or 4 bits.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};

use super::pickle;
use super::quantized::{GROUP, Int4Matrix, Int8Matrix};
use super::reader::guarded;
use super::trainable::MATCHER_FILE;
use super::weights::{DAMAGED, NOT_SAFETENSORS, SCALE, ZERO, check_header};
use quarry_embed::EmbedError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    Same,
    /// Matrices in 8 bits, with a factor for each row that maps its largest value to ±127. The maps of the
    /// encoder are computed in 8 bits as well.
    Int8,
    /// Matrices in 4 bits, with a factor for each 32 values of a row; those whose rows have another length in 8 bits. The maps
    /// of the encoder are computed in 8 bits.
    Int4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewritten {
    pub files: usize,
    pub tensors: usize,
    pub values: usize,
    /// Bytes of the files read.
    pub bytes_before: u64,
    /// Bytes of the files written.
    pub bytes_after: u64,
}

const SAFETENSORS: &str = "model.safetensors";
const PICKLE: &str = "pytorch_model.bin";

/// Endings of files with weights, of which only those above are read.
const WEIGHTS: [&str; 10] =
    ["bin", "safetensors", "h5", "msgpack", "onnx", "ot", "pt", "pth", "ckpt", "gguf"];

/// Maximum depth of the directories of modules.
const MAX_DEPTH: usize = 2;

/// Writes the model directory `source` to the new directory `target`: its weights and those of its modules as
/// `model.safetensors`, in a precision, and all other files unchanged, except weights in other forms. No code of a pickle
/// file is run.
///
/// # Errors
/// When a file cannot be read or written, or there are no weights.
pub fn rewrite(source: &Path, target: &Path, precision: Precision) -> Result<Rewritten, EmbedError> {
    let mut rewritten = Rewritten::default();
    rewrite_directory(source, target, precision, MAX_DEPTH, &mut rewritten)?;
    if rewritten.files == 0 {
        let problem = format!("has neither {SAFETENSORS} nor {PICKLE}; name the directory of a model");
        return Err(EmbedError::model(source, problem));
    }
    Ok(rewritten)
}

fn rewrite_directory(
    source: &Path,
    target: &Path,
    precision: Precision,
    depth: usize,
    rewritten: &mut Rewritten,
) -> Result<(), EmbedError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| EmbedError::model_file(&path, "cannot be read", error)
    };
    let unwritable = |path: &Path| {
        let path = path.to_owned();
        move |error| {
            EmbedError::model_file(&path, "cannot be written; make space, or name another one", error)
        }
    };
    let mut entries: Vec<PathBuf> = fs::read_dir(source)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(unreadable(source))?;
    entries.sort();
    fs::create_dir_all(target).map_err(unwritable(target))?;
    for path in &entries {
        let Some(name) = path.file_name() else { continue };
        let to = target.join(name);
        let is_weights = path.extension().is_some_and(|ending| WEIGHTS.iter().any(|known| ending == *known))
            && name != MATCHER_FILE;
        if path.is_dir() && depth > 0 {
            rewrite_directory(path, &to, precision, depth - 1, rewritten)?;
        } else if path.is_file() && !is_weights {
            fs::copy(path, &to).map_err(unwritable(&to))?;
        }
    }
    let Some(file) =
        [SAFETENSORS, PICKLE].map(|name| source.join(name)).into_iter().find(|path| path.is_file())
    else {
        return Ok(());
    };
    let tensors = read(&file)?;
    let to = target.join(SAFETENSORS);
    rewritten.files += 1;
    rewritten.tensors += tensors.len();
    rewritten.values += tensors.values().map(Tensor::elem_count).sum::<usize>();
    let tensors = match precision {
        Precision::Same => tensors,
        Precision::Int8 | Precision::Int4 => {
            let problem = "contains a tensor that cannot be quantized; save it as 32-bit floats";
            guarded(&file, problem, || quantized(tensors, precision))?
        }
    };
    let problem = "cannot be written; make space, or name another directory";
    guarded(&to, problem, || save(&tensors, &to))?;
    let size = |path: &Path| fs::metadata(path).map(|found| found.len()).map_err(unreadable(path));
    rewritten.bytes_before += size(&file)?;
    rewritten.bytes_after += size(&to)?;
    Ok(())
}

/// Writes tensors as safetensors, into a file that others may read as any other: the library makes files for their owner
/// alone.
///
/// # Errors
/// When the file cannot be written.
pub fn save(tensors: &HashMap<String, Tensor>, path: &Path) -> candle_core::Result<()> {
    let permissions = fs::File::create(path).and_then(|file| file.metadata())?.permissions();
    candle_core::safetensors::save(tensors, path)?;
    Ok(fs::set_permissions(path, permissions)?)
}

/// The tensors of a checkpoint, whose values are finite.
fn read(file: &Path) -> Result<HashMap<String, Tensor>, EmbedError> {
    let tensors = if file.ends_with(PICKLE) { read_pickle(file)? } else { read_safetensors(file)? };
    if tensors.is_empty() {
        return Err(EmbedError::model(
            file,
            "contains no tensor; name the directory of a model with weights",
        ));
    }
    let mut names: Vec<&String> = tensors.keys().collect();
    names.sort();
    for name in names {
        if !guarded(file, NOT_SAFETENSORS, || is_finite(&tensors[name]))? {
            let problem = format!("contains NaN or infinity in {name}; train or copy the model again");
            return Err(EmbedError::model(file, problem));
        }
    }
    Ok(tensors)
}

fn is_finite(tensor: &Tensor) -> candle_core::Result<bool> {
    if !tensor.dtype().is_float() {
        return Ok(true);
    }
    let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(values.iter().all(|value| value.is_finite()))
}

fn read_pickle(file: &Path) -> Result<HashMap<String, Tensor>, EmbedError> {
    pickle::check(file)?;
    guarded(file, DAMAGED, || -> candle_core::Result<_> {
        let tensors = candle_core::pickle::read_all(file)?.into_iter();
        // Rows of a transposed tensor are not beside each other.
        tensors.map(|(name, tensor)| Ok((name, tensor.contiguous()?))).collect()
    })
}

/// All tensors of a safetensors file.
///
/// # Errors
/// When it cannot be read, or is damaged.
pub fn read_safetensors(file: &Path) -> Result<HashMap<String, Tensor>, EmbedError> {
    let bytes = quarry_embed::read_file(file)
        .map_err(|error| EmbedError::model_file(file, "cannot be read", error))?;
    check_header(file, &bytes)?;
    guarded(file, NOT_SAFETENSORS, || candle_core::safetensors::load_buffer(&bytes, &Device::Cpu))
}

/// Matrices of floats in few bits, with their factors; other tensors unchanged.
fn quantized(
    tensors: HashMap<String, Tensor>,
    precision: Precision,
) -> candle_core::Result<HashMap<String, Tensor>> {
    let mut quantized = HashMap::new();
    for (name, tensor) in tensors {
        if tensor.rank() != 2 || !tensor.dtype().is_float() {
            quantized.insert(name, tensor);
            continue;
        }
        let (n_rows, n_columns) = tensor.dims2()?;
        let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        let device = &Device::Cpu;
        let (bytes, factors) = if precision == Precision::Int4 && n_columns % GROUP == 0 {
            let Int4Matrix { bytes, factors } = Int4Matrix::quantize(&values);
            let factors = Tensor::from_vec(factors, (n_rows, n_columns / GROUP), device)?;
            (Tensor::from_vec(bytes.into_owned(), (n_rows, n_columns / 2), device)?, factors)
        } else {
            let Int8Matrix { values, factors } = Int8Matrix::quantize(&values, n_columns);
            let bytes: Vec<u8> = values.into_iter().map(|value| value.cast_unsigned() ^ ZERO).collect();
            (
                Tensor::from_vec(bytes, (n_rows, n_columns), device)?,
                Tensor::from_vec(factors, n_rows, device)?,
            )
        };
        quantized.insert(format!("{name}{SCALE}"), factors);
        quantized.insert(name, bytes);
    }
    Ok(quantized)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransformerModel;
    use quarry_embed::Embedder;

    fn tiny() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-bert")
    }

    #[test]
    fn a_rewritten_model_gives_the_same_vectors_and_a_quantized_one_nearly_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let (same, int8) = (directory.path().join("same"), directory.path().join("int8"));
        let texts = ["sort a list", "read every line of the file", ""];
        let embed = |path: &Path| TransformerModel::load(path).unwrap().embed_documents(&texts).unwrap();
        let original = embed(&tiny());
        assert_eq!(rewrite(&tiny(), &same, Precision::Same).unwrap().files, 1);
        assert_eq!(embed(&same), original);
        let sizes = rewrite(&tiny(), &int8, Precision::Int8).unwrap();
        assert!(sizes.bytes_after * 2 < sizes.bytes_before, "{sizes:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |name: &str| fs::metadata(int8.join(name)).unwrap().permissions().mode() & 0o777;
            fs::write(int8.join("other"), "").unwrap();
            assert_eq!(mode(SAFETENSORS), mode("other"), "who may read a file may read the weights");
            fs::remove_file(int8.join("other")).unwrap();
        }
        let int4 = directory.path().join("int4");
        let smaller = rewrite(&tiny(), &int4, Precision::Int4).unwrap();
        assert!(smaller.bytes_after < sizes.bytes_after, "{smaller:?}");
        for (path, least) in [(&int8, 0.99), (&int4, 0.9)] {
            let quantized = embed(path);
            assert_ne!(quantized, original);
            for (a, b) in quantized.rows().zip(original.rows()) {
                let cosine: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                assert!(cosine > least, "{cosine}");
            }
        }
        // Quantized weights without their factors are not weights. (Those of the pooler are not read.)
        let file = int8.join(SAFETENSORS);
        let mut tensors = read(&file).unwrap();
        let is_read = |name: &&String| name.starts_with("encoder.") && name.ends_with(SCALE);
        let name = tensors.keys().find(is_read).unwrap().clone();
        tensors.remove(&name);
        candle_core::safetensors::save(&tensors, &file).unwrap();
        let error = TransformerModel::load(&int8).err().unwrap().to_string();
        assert!(error.contains(&name), "{error}");
        // Nor are those of 4 bits with factors for groups of other lengths.
        let file = int4.join(SAFETENSORS);
        let mut tensors = read(&file).unwrap();
        let is_of_groups = |name: &&String| name.ends_with(SCALE) && tensors[*name].rank() == 2;
        let name = tensors.keys().find(is_of_groups).unwrap().clone();
        let halved = tensors[&name].narrow(0, 0, tensors[&name].dim(0).unwrap() / 2).unwrap();
        tensors.insert(name.clone(), halved.contiguous().unwrap());
        candle_core::safetensors::save(&tensors, &file).unwrap();
        let error = TransformerModel::load(&int4).err().unwrap().to_string();
        assert!(error.contains(&name) && error.contains("quantize the model again"), "{error}");
        let error = rewrite(directory.path(), &directory.path().join("none"), Precision::Same);
        assert!(error.is_ok_and(|found| found.files > 0), "modules are found below");
        let empty = tempfile::tempdir().unwrap();
        let error =
            rewrite(empty.path(), &empty.path().join("none"), Precision::Same).unwrap_err().to_string();
        assert!(error.contains("has neither model.safetensors nor"), "{error}");
    }
}
