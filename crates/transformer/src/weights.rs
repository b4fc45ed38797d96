//! Reads named tensors from a checkpoint file.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::safetensors::Load;
use candle_core::{DType, Device, Tensor, pickle::PthTensors};
use half::f16;
use safetensors::tensor::{Metadata, TensorInfo, TensorView};
use safetensors::{Dtype, SafeTensorError};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use xxhash_rust::xxh3::Xxh3;

use super::pickle;
use super::quantized::{GROUP, Int4Matrix, Int8Matrix, Table};
use super::reader::guarded;
use quarry_embed::EmbedError;

/// A checkpoint file whose tensors are read by name, each checked against the expected shape.
pub(crate) struct Weights {
    path: PathBuf,
    source: Source,
    prefix: &'static str,
    /// If true, layers are prepared for products one by one, so that only few are in memory twice.
    pub packs: bool,
}

enum Source {
    Safetensors(Safetensors),
    Pickle(PthTensors),
}

/// A safetensors file, of which one tensor at a time is in memory.
struct Safetensors {
    file: Arc<Mutex<File>>,
    /// Offset of the tensors in the file.
    start: u64,
    tensors: Metadata,
}

/// Rows of 8-bit values that are read from the file one by one.
pub(crate) struct StoredRows {
    file: Arc<Mutex<File>>,
    /// Offset of the first row in the file.
    start: u64,
    factors: Vec<f32>,
}

impl StoredRows {
    #[cfg(test)]
    pub(crate) fn new(file: File, start: u64, factors: Vec<f32>) -> Self {
        Self { file: Arc::new(Mutex::new(file)), start, factors }
    }

    /// Sets `values` to a row; to NaN if it cannot be read.
    pub(crate) fn read(&self, row: usize, values: &mut [f32]) {
        let mut bytes = vec![0; values.len()];
        let start = self.start + (row * values.len()) as u64;
        let read = at(&self.file, start).and_then(|mut file| file.read_exact(&mut bytes));
        // A byte of 0 does not represent a number.
        let factor = if read.is_ok() && !bytes.contains(&0) { self.factors[row] } else { f32::NAN };
        for (value, byte) in values.iter_mut().zip(bytes) {
            *value = f32::from((byte ^ ZERO).cast_signed()) * factor;
        }
    }
}

/// The file, positioned at an offset.
fn at(file: &Mutex<File>, position: u64) -> io::Result<MutexGuard<'_, File>> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(position))?;
    Ok(file)
}

/// Number of bytes hashed at once: few enough for a core's cache.
const CHUNK: usize = 1 << 18;

/// Maximum length of the header of a safetensors file, as in other readers.
const MAX_HEADER: u64 = 100_000_000;

impl Safetensors {
    /// Opens a file, and adds its bytes to `hash`.
    fn open(path: &Path, hash: &mut Xxh3) -> Result<Self, EmbedError> {
        let unreadable = |error: io::Error| EmbedError::model_file(path, "cannot be read", error);
        let damaged = || EmbedError::model(path, NOT_SAFETENSORS);
        let mut file = quarry_files::open_regular(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut header = Vec::new();
        (&file).take(8).read_to_end(&mut header).map_err(unreadable)?;
        let header_length = header.first_chunk().map(|length| u64::from_le_bytes(*length));
        let header_length = header_length.filter(|n| *n <= MAX_HEADER).ok_or_else(damaged)?;
        (&file).take(header_length).read_to_end(&mut header).map_err(unreadable)?;
        check_header(path, &header)?;
        let tensors: Metadata = serde_json::from_slice(&header[8..])
            .map_err(|error| EmbedError::model_file(path, NOT_SAFETENSORS, error))?;
        let start = header.len() as u64;
        if start + tensors.data_len() as u64 != length {
            return Err(damaged());
        }
        hash.update(&header);
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk).map_err(unreadable)? {
                0 => break,
                n => hash.update(&chunk[..n]),
            }
        }
        Ok(Self { file: Arc::new(Mutex::new(file)), start, tensors })
    }

    fn read(&self, tensor: &TensorInfo) -> io::Result<Vec<u8>> {
        let (start, end) = tensor.data_offsets;
        let mut file = at(&self.file, self.start + start as u64)?;
        let mut bytes = Vec::with_capacity(end - start);
        (&mut *file).take((end - start) as u64).read_to_end(&mut bytes)?;
        if bytes.len() < end - start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn load(&self, name: &str) -> candle_core::Result<Tensor> {
        let missing = || SafeTensorError::TensorNotFound(name.to_owned());
        let tensor = self.tensors.info(name).ok_or_else(missing)?;
        let bytes = self.read(tensor)?;
        TensorView::new(tensor.dtype, tensor.shape.clone(), &bytes)?.load(&Device::Cpu)
    }
}

/// The problem of a pickle file that cannot be read.
pub(crate) const DAMAGED: &str =
    "is not a complete checkpoint of PyTorch 1.6 or later; copy it again, or convert it to safetensors";

/// The problem of a safetensors file that cannot be read.
pub(crate) const NOT_SAFETENSORS: &str = "is not a complete safetensors file; copy it again";

/// Suffix that turns the name of an 8-bit matrix into that of its row factors ([`crate::convert`]).
pub(crate) const SCALE: &str = ".scale";

/// The byte that represents 0 in an 8-bit matrix.
pub(crate) const ZERO: u8 = 128;

/// A matrix in the precision of its file.
pub(crate) enum StoredMatrix {
    /// 32-bit floats.
    Float(Vec<f32>),
    /// Whole numbers.
    Int8(Int8Matrix),
}

impl Weights {
    /// Opens `model.safetensors` of a directory, otherwise `pytorch_model.bin`, and adds its bytes to `hash`. Code
    /// in a pickle file is not run.
    ///
    /// # Errors
    /// When the directory has neither file or the file cannot be parsed.
    pub(crate) fn open(directory: &Path, hash: &mut Xxh3) -> Result<Weights, EmbedError> {
        let path = directory.join("model.safetensors");
        let (path, source) = if path.is_file() {
            let source = Source::Safetensors(Safetensors::open(&path, hash)?);
            (path, source)
        } else {
            let path = directory.join("pytorch_model.bin");
            if !path.is_file() {
                let problem =
                    "has neither model.safetensors nor pytorch_model.bin; copy the model's weights into it";
                return Err(EmbedError::model(directory, problem));
            }
            let bytes = quarry_embed::read_file(&path)
                .map_err(|error| EmbedError::model_file(&path, "cannot be read", error))?;
            hash.update(&bytes);
            pickle::check(&path)?;
            let source = Source::Pickle(guarded(&path, DAMAGED, || PthTensors::new(&path, None))?);
            (path, source)
        };
        Ok(Weights { path, source, prefix: "", packs: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the prefix of subsequent names: the first of `prefixes` with which the file contains a tensor `name`. A
    /// complete model has a prefix for its encoder, a bare encoder has none.
    pub(crate) fn find_prefix(&mut self, prefixes: &[&'static str], name: &str) {
        let found = prefixes.iter().find(|prefix| self.shape(&format!("{prefix}{name}")).is_some());
        self.prefix = found.copied().unwrap_or_default();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.shape(&format!("{}{name}", self.prefix)).is_some()
    }

    /// The values of a tensor in row-major order, as 32-bit floats regardless of the file's precision.
    ///
    /// # Errors
    /// When the file lacks the tensor, or the tensor has another shape or values that are not finite.
    pub(crate) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let name = self.find(name, shape)?;
        match self.bytes(&name)? {
            Some(bytes) if self.is_int4(&name) => Ok(self.int4(&name, shape, bytes)?.dequantized()),
            Some(bytes) => Ok(self.int8(&name, shape, bytes)?.dequantized()),
            None => self.floats(&name, self.load(&name)?),
        }
    }

    /// A matrix in row-major order, in 8 or 4 bits if the file stores it so.
    ///
    /// # Errors
    /// Like [`get`](Self::get).
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<StoredMatrix, EmbedError> {
        let name = self.find(name, &shape)?;
        Ok(match self.bytes(&name)? {
            Some(bytes) if self.is_int4(&name) => {
                StoredMatrix::Int8(self.int4(&name, &shape, bytes)?.to_int8(shape[1]))
            }
            Some(bytes) => StoredMatrix::Int8(self.int8(&name, &shape, bytes)?),
            None => StoredMatrix::Float(self.floats(&name, self.load(&name)?)?),
        })
    }

    /// A matrix of which few rows are read, in the file's precision.
    ///
    /// # Errors
    /// Like [`get`](Self::get).
    pub(crate) fn table(&self, name: &str, shape: [usize; 2]) -> Result<Table, EmbedError> {
        let name = self.find(name, &shape)?;
        if let Source::Safetensors(Safetensors { file, start, tensors }) = &self.source
            && let Some(tensor) = tensors.info(&name).filter(|tensor| tensor.dtype == Dtype::U8)
            && !self.is_int4(&name)
        {
            let start = start + tensor.data_offsets.0 as u64;
            let factors = self.factors(&name, &shape)?;
            return Ok(Table::Stored(StoredRows { file: Arc::clone(file), start, factors }));
        }
        Ok(match self.bytes(&name)? {
            Some(bytes) => Table::Int4(self.int4(&name, &shape, bytes)?),
            None => Table::Float(self.floats(&name, self.load(&name)?)?),
        })
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<String, EmbedError> {
        let name = format!("{}{name}", self.prefix);
        // Old checkpoints, converted from TensorFlow, name the scale and shift of a normalization gamma and beta.
        let old_name =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        // PyTorch renames a parametrized matrix, such as one with an adapter.
        let adapted_name = match name.strip_suffix(".weight") {
            Some(stem) => format!("{stem}.parametrizations.weight.original"),
            None => name.clone(),
        };
        let Some((found, found_shape)) =
            [&name, &old_name, &adapted_name].into_iter().find_map(|name| Some((name, self.shape(name)?)))
        else {
            let problem = format!(
                "has no tensor {name}, which config.json asks for; expected the weights of the model that \
                 config.json describes"
            );
            return Err(EmbedError::model(&self.path, problem));
        };
        // A byte contains two 4-bit values.
        let stored = match *shape {
            [n_rows, n_columns] if self.is_int4(found) => vec![n_rows, n_columns / 2],
            _ => shape.to_vec(),
        };
        if found_shape != stored {
            let bits = match self.is_int4(found) {
                true => format!(" in 4 bits, as {found}{SCALE} says"),
                false => String::new(),
            };
            let problem = format!(
                "contains {found} with shape {found_shape:?}, expected {stored:?} from config.json{bits}; use the two files of \
                 one model"
            );
            return Err(EmbedError::model(&self.path, problem));
        }
        Ok(found.clone())
    }

    /// The bytes of a tensor of bytes, such as an 8-bit or 4-bit matrix.
    fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, EmbedError> {
        let Source::Safetensors(source) = &self.source else { return Ok(None) };
        let tensor = source.tensors.info(name).filter(|tensor| tensor.dtype == Dtype::U8);
        let read = tensor.map(|tensor| source.read(tensor)).transpose();
        read.map_err(|error| EmbedError::model_file(&self.path, "cannot be read", error))
    }

    fn load(&self, name: &str) -> Result<Tensor, EmbedError> {
        match &self.source {
            Source::Safetensors(source) => {
                let problem =
                    format!("contains {name} in a form that cannot be read; save it as 32-bit floats");
                guarded(&self.path, &problem, || source.load(name))
            }
            Source::Pickle(source) => guarded(&self.path, DAMAGED, || {
                source.get(name)?.ok_or_else(|| candle_core::Error::CannotFindTensor { path: name.into() })
            }),
        }
    }

    /// The values of a tensor, all of which must be finite.
    fn floats(&self, name: &str, tensor: Tensor) -> Result<Vec<f32>, EmbedError> {
        let problem = format!("contains {name} in a form that cannot be read; save it as 32-bit floats");
        let values = guarded(&self.path, &problem, || floats(tensor))?;
        if !values.iter().all(|value| value.is_finite()) {
            let problem = format!("contains NaN or infinity in {name}; train or copy the model again");
            return Err(EmbedError::model(&self.path, problem));
        }
        Ok(values)
    }

    /// An 8-bit matrix, with its row factors.
    fn int8(&self, name: &str, shape: &[usize], bytes: Vec<u8>) -> Result<Int8Matrix, EmbedError> {
        let factors = self.factors(name, shape)?;
        if bytes.contains(&0) {
            let problem = format!(
                "contains the byte 0 in {name}, expected 1 to 255 for whole numbers from -127; quantize the model again"
            );
            return Err(EmbedError::model(&self.path, problem));
        }
        // Subtracts 128, which flips only the highest bit.
        let values = bytes.into_iter().map(|byte| (byte ^ ZERO).cast_signed()).collect();
        Ok(Int8Matrix { values, factors })
    }

    /// The row factors of an 8-bit matrix.
    fn factors(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let of_scales = format!("{name}{SCALE}");
        let found = self.shape(&of_scales);
        let &[n_rows, _] = shape else {
            let problem =
                format!("contains {name} in 8 bits, which only matrices support; save it as 32-bit floats");
            return Err(EmbedError::model(&self.path, problem));
        };
        if found.as_deref() != Some(&[n_rows]) {
            let problem = format!(
                "contains {name} in 8 bits, and {of_scales} with shape {found:?}, expected [{n_rows}]; quantize the model \
                 again"
            );
            return Err(EmbedError::model(&self.path, problem));
        }
        self.floats(&of_scales, self.load(&of_scales)?)
    }

    /// Returns whether a matrix has factors for groups within its rows, as 4-bit matrices have.
    fn is_int4(&self, name: &str) -> bool {
        self.shape(&format!("{name}{SCALE}")).is_some_and(|shape| shape.len() == 2)
    }

    /// A 4-bit matrix, with its group factors.
    fn int4(&self, name: &str, shape: &[usize], bytes: Vec<u8>) -> Result<Int4Matrix<'static>, EmbedError> {
        let of_scales = format!("{name}{SCALE}");
        let found = self.shape(&of_scales);
        let expected = match *shape {
            [n_rows, n_columns] if n_columns % GROUP == 0 => Some(vec![n_rows, n_columns / GROUP]),
            _ => None,
        };
        if expected.is_none() || found != expected {
            let problem = format!(
                "contains {name} of shape {shape:?} in 4 bits, and {of_scales} with shape {found:?}, expected a factor for \
                 each {GROUP} values of a row; quantize the model again"
            );
            return Err(EmbedError::model(&self.path, problem));
        }
        let factors = self.floats(&of_scales, self.load(&of_scales)?)?;
        let factors: Vec<f16> = factors.into_iter().map(f16::from_f32).collect();
        if !factors.iter().all(|factor| factor.is_finite()) {
            let problem = format!(
                "contains a factor in {of_scales} that 16 bits cannot hold; quantize the model again"
            );
            return Err(EmbedError::model(&self.path, problem));
        }
        Ok(Int4Matrix { bytes: Cow::Owned(bytes), factors })
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match &self.source {
            Source::Safetensors(source) => Some(source.tensors.info(name)?.shape.clone()),
            Source::Pickle(source) => Some(source.tensor_infos().get(name)?.layout.dims().to_vec()),
        }
    }
}

/// Checks that a safetensors file names each tensor once: the library's reader keeps the last of several.
///
/// # Errors
/// When its header is damaged, or repeats a name.
pub(crate) fn check_header(path: &Path, bytes: &[u8]) -> Result<(), EmbedError> {
    let header = bytes
        .split_first_chunk()
        .and_then(|(length, rest)| rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?));
    let Some(header) = header else { return Err(EmbedError::model(path, NOT_SAFETENSORS)) };
    serde_json::Deserializer::from_slice(header)
        .deserialize_map(Names)
        .map_err(|error| EmbedError::model_file(path, NOT_SAFETENSORS, error))
}

/// The keys of an object, each of which must occur once.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a key for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            if let Some(name) = names.replace(name) {
                return Err(A::Error::custom(format!("the tensor {name:?} occurs twice")));
            }
        }
        Ok(())
    }
}

fn floats(tensor: Tensor) -> candle_core::Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}
