//! Reads vectors that another program computed.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use candle_core::safetensors::BufferedSafetensors;
use candle_core::{DType, Device};
use npyz::{NpyFile, Order};

use super::weights::check_header;
use quarry_embed::{EmbedError, Vectors};

/// The expected form of a file of vectors.
const EXPECTED: &str = "expected one matrix of 32- or 64-bit floats, row by row, a row a text; write it with \
                        numpy.save(path, matrix.astype('float32')), or as the one tensor of a safetensors file";

/// Reads a matrix, one row per text: a `.npy` file as NumPy writes it, or a `.safetensors` file with one tensor. Rows
/// are as in the file, not normalized.
///
/// # Errors
/// When the file cannot be read, has another name, or is not a matrix of finite floats.
pub fn read_vectors(path: &Path) -> Result<Vectors, EmbedError> {
    let vectors = match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => read_npy(path)?,
        Some("safetensors") => read_safetensors(path)?,
        _ => {
            return Err(EmbedError::model(
                path,
                "expected a file of vectors, .npy or .safetensors; name it so",
            ));
        }
    };
    if let Some(position) = vectors.values.iter().position(|value| !value.is_finite()) {
        let row = position / vectors.dimension.max(1);
        let problem = format!(
            "row {row} (from 0) contains {}, expected finite values; fix it",
            vectors.values[position]
        );
        return Err(EmbedError::model(path, problem));
    }
    Ok(vectors)
}

fn read_npy(path: &Path) -> Result<Vectors, EmbedError> {
    let unreadable = |error: io::Error| EmbedError::model_file(path, "cannot be read as .npy", error);
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let file = NpyFile::new(BufReader::new(file)).map_err(unreadable)?;
    let &[rows, columns] = file.shape() else {
        return Err(found(path, &format!("shape {:?}", file.shape())));
    };
    // A header may claim more than the file holds, and memory is allocated for its claim.
    if rows.checked_mul(columns).and_then(|n| n.checked_mul(4)).is_none_or(|bytes| bytes > length) {
        return Err(found(
            path,
            &format!("a header for {rows} rows of {columns} in a file of {length} bytes"),
        ));
    }
    if file.order() != Order::C {
        return Err(found(path, "a matrix column by column"));
    }
    let values = match file.try_data::<f32>() {
        Ok(values) => values.collect::<io::Result<_>>(),
        Err(file) => match file.try_data::<f64>() {
            Ok(values) => values.map(|value| value.map(|value| value as f32)).collect(),
            Err(file) => return Err(found(path, &format!("numbers of type {}", file.dtype().descr()))),
        },
    };
    let values: Vec<f32> = values.map_err(unreadable)?;
    matrix(path, rows as usize, columns as usize, values)
}

fn read_safetensors(path: &Path) -> Result<Vectors, EmbedError> {
    let unreadable =
        |error: candle_core::Error| EmbedError::model_file(path, "cannot be read as safetensors", error);
    let bytes = quarry_embed::read_file(path)
        .map_err(|error| EmbedError::model_file(path, "cannot be read", error))?;
    check_header(path, &bytes)?;
    let file = BufferedSafetensors::new(bytes).map_err(unreadable)?;
    let names: Vec<String> = file.tensors().into_iter().map(|(name, _)| name).collect();
    let [name] = &names[..] else { return Err(found(path, &format!("{} tensors", names.len()))) };
    let tensor = file.load(name, &Device::Cpu).map_err(unreadable)?;
    let &[rows, columns] = tensor.dims() else {
        return Err(found(path, &format!("shape {:?}", tensor.dims())));
    };
    if !matches!(tensor.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(found(path, &format!("numbers of type {:?}", tensor.dtype())));
    }
    let values = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all()?.to_vec1());
    matrix(path, rows, columns, values.map_err(unreadable)?)
}

fn matrix(path: &Path, rows: usize, dimension: usize, values: Vec<f32>) -> Result<Vectors, EmbedError> {
    if values.len() != rows * dimension {
        return Err(found(path, &format!("{} values for {rows} rows of {dimension}", values.len())));
    }
    if rows > 0 && dimension == 0 {
        return Err(found(path, "rows without a value"));
    }
    Ok(Vectors { dimension, values })
}

fn found(path: &Path, found: &str) -> EmbedError {
    EmbedError::model(path, format!("{EXPECTED}; found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::fs;

    use candle_core::Tensor;
    use npyz::WriterBuilder;

    fn npy<T: npyz::Serialize + npyz::AutoSerialize>(path: &Path, shape: &[u64], values: &[T]) {
        let file = npyz::WriteOptions::new().default_dtype().shape(shape).writer(File::create(path).unwrap());
        let mut writer = file.begin_nd().unwrap();
        values.iter().for_each(|value| writer.push(value).unwrap());
        writer.finish().unwrap();
    }

    #[test]
    fn matrices_of_both_kinds_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let expected = Vectors { dimension: 3, values: vec![1.0, -2.5, 0.0, 4.0, 5.0, 1e-3] };
        let path = directory.path().join("a.npy");
        npy(&path, &[2, 3], &expected.values);
        assert_eq!(read_vectors(&path).unwrap(), expected);
        let doubles: Vec<f64> = expected.values.iter().map(|value| f64::from(*value)).collect();
        npy(&path, &[2, 3], &doubles);
        assert_eq!(read_vectors(&path).unwrap(), expected);
        let path = directory.path().join("a.safetensors");
        let tensor = Tensor::from_vec(doubles, (2, 3), &Device::Cpu).unwrap();
        candle_core::safetensors::save(&HashMap::from([("any", tensor)]), &path).unwrap();
        assert_eq!(read_vectors(&path).unwrap(), expected);
    }

    #[test]
    fn other_matrices_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.npy");
        let check = |message: &str| {
            let error = read_vectors(&path).unwrap_err().to_string();
            assert!(error.contains("a.npy") && error.contains(message), "{error}");
        };
        check("cannot be read");
        npy(&path, &[4], &[1.0_f32; 4]);
        check("shape [4]");
        npy(&path, &[2, 2], &[1_i64; 4]);
        check("i8");
        npy(&path, &[2, 2], &[1.0, 2.0, f32::NAN, 3.0]);
        check("row 1 (from 0) contains NaN");
        npy(&path, &[2, 2], &[1.0_f32; 4]);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            check("");
        }
        // Headers as NumPy writes them, over no values.
        let header = |order: &str, shape: &str| {
            let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}");
            fs::write(&path, [b"\x93NUMPY\x01\x00\x76\x00", format!("{header:117}\n").as_bytes()].concat())
                .unwrap();
        };
        header("False", "(99999999999, 2)");
        check("99999999999 rows of 2");
        header("True", "(0, 2)");
        check("column by column");
        assert!(read_vectors(Path::new("vectors.bin")).unwrap_err().to_string().contains(".safetensors"));
    }
}
