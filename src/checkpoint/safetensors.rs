//! Lists of named tensors in the safetensors format.
//!
//! ```
//! use wgpu_bert::checkpoint::{NamedTensor, TensorFile, safetensors};
//!
//! let bias = NamedTensor { name: "bias".into(), shape: vec![2], data: vec![0.5, -1.0] };
//! let bytes = safetensors::write(&[bias.clone()])?;
//! assert_eq!(TensorFile::parse(&bytes, "bias.safetensors")?.f32("bias")?, bias);
//! # Ok::<(), wgpu_bert::checkpoint::CheckpointError>(())
//! ```

use std::collections::{HashMap, HashSet};

use ::safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};

use super::CheckpointError;

/// A tensor on the host: row-major values under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor<T = f32> {
    /// The name in the file.
    pub name: String,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// `shape`'s product of values.
    pub data: Vec<T>,
}

/// The bytes of a safetensors file that holds `tensors` in f32.
///
/// # Errors
/// [`CheckpointError::Unstorable`] if data and shape disagree or a name comes twice.
pub fn write(tensors: &[NamedTensor]) -> Result<Vec<u8>, CheckpointError> {
    let mut seen = HashSet::new();
    let views = tensors.iter().map(|tensor| {
        let unstorable = |problem| CheckpointError::Unstorable {
            tensor: tensor.name.clone(),
            shape: tensor.shape.clone(),
            values: tensor.data.len(),
            problem,
        };
        if !seen.insert(&tensor.name) {
            return Err(unstorable("there is another of this name"));
        }
        TensorView::new(Dtype::F32, tensor.shape.clone(), bytemuck::cast_slice(&tensor.data))
            .map(|view| (tensor.name.as_str(), view))
            .map_err(|_| unstorable("the numbers disagree"))
    });
    let views = views.collect::<Result<Vec<_>, _>>()?;
    // Readers of the format ask which framework wrote it; "pt" is what Hugging Face's own files say.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    ::safetensors::serialize(views, Some(metadata))
        .map_err(|source| CheckpointError::NotSafetensors { file: "the model".into(), source })
}

/// A safetensors file in memory: its header read and checked, its tensors converted when asked for.
pub struct TensorFile<'data> {
    source_name: String,
    tensors: SafeTensors<'data>,
}

impl<'data> TensorFile<'data> {
    /// Reads the header and checks that it covers the data exactly. `source_name` is for messages.
    ///
    /// # Errors
    /// [`CheckpointError::NotSafetensors`].
    pub fn parse(bytes: &'data [u8], source_name: &str) -> Result<Self, CheckpointError> {
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|source| CheckpointError::NotSafetensors { file: source_name.into(), source })?;
        Ok(Self { source_name: source_name.into(), tensors })
    }

    /// The name given to [`TensorFile::parse`].
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names = self.tensors.names();
        names.sort_unstable();
        names
    }

    /// The shape of a tensor, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.tensor(name).ok().map(|view| view.shape().to_vec())
    }

    /// A tensor of floats; f16 and bf16 become f32.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`] or [`CheckpointError::TensorType`].
    pub fn f32(&self, name: &str) -> Result<NamedTensor, CheckpointError> {
        self.convert(name, "F32, F16 or BF16", |dtype, bytes| match dtype {
            Dtype::F32 => Some(bytemuck::pod_collect_to_vec(bytes)),
            Dtype::F16 => Some(pairs(bytes).map(|bits| half::f16::from_bits(bits).to_f32()).collect()),
            Dtype::BF16 => Some(pairs(bytes).map(|bits| half::bf16::from_bits(bits).to_f32()).collect()),
            _ => None,
        })
    }

    /// A tensor of 32-bit integers.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`] or [`CheckpointError::TensorType`].
    pub fn i32(&self, name: &str) -> Result<NamedTensor<i32>, CheckpointError> {
        self.convert(name, "I32", |dtype, bytes| {
            (dtype == Dtype::I32).then(|| bytemuck::pod_collect_to_vec(bytes))
        })
    }

    fn convert<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl FnOnce(Dtype, &[u8]) -> Option<Vec<T>>,
    ) -> Result<NamedTensor<T>, CheckpointError> {
        let view = self.tensors.tensor(name).map_err(|error| match error {
            SafeTensorError::TensorNotFound(tensor) => {
                CheckpointError::MissingTensor { file: self.source_name.clone(), tensor }
            }
            source => CheckpointError::NotSafetensors { file: self.source_name.clone(), source },
        })?;
        let data = read(view.dtype(), view.data()).ok_or_else(|| CheckpointError::TensorType {
            file: self.source_name.clone(),
            tensor: name.into(),
            expected,
            found: format!("{:?}", view.dtype()),
        })?;
        Ok(NamedTensor { name: name.into(), shape: view.shape().to_vec(), data })
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, shape: &[usize], data: &[f32]) -> NamedTensor {
        NamedTensor { name: name.into(), shape: shape.into(), data: data.into() }
    }

    fn file_of(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
        let view = TensorView::new(dtype, shape.into(), bytes).unwrap();
        ::safetensors::serialize([("x", view)], None).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let tensors = [
            tensor("b", &[2, 3], &[1.0, -2.5, f32::MIN_POSITIVE, 0.0, f32::INFINITY, 6.0]),
            tensor("a", &[1], &[7.0]),
            tensor("scalar", &[], &[3.0]),
        ];
        let bytes = write(&tensors).unwrap();
        let file = TensorFile::parse(&bytes, "x").unwrap();
        assert_eq!(file.names(), ["a", "b", "scalar"]);
        assert_eq!(file.shape("b"), Some(vec![2, 3]));
        assert_eq!(file.shape("c"), None);
        for tensor in &tensors {
            assert_eq!(&file.f32(&tensor.name).unwrap(), tensor);
        }
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
    }

    #[test]
    fn half_precision_becomes_f32() {
        let values = [1.5f32, -0.25, 0.0, 65504.0];
        let f16: Vec<u8> = values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
        let bytes = file_of(Dtype::F16, &[4], &f16);
        assert_eq!(TensorFile::parse(&bytes, "").unwrap().f32("x").unwrap().data, values);
        let values = [1.5f32, -0.25, 1e38f32];
        let bf16: Vec<u8> = values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect();
        let bytes = file_of(Dtype::BF16, &[3], &bf16);
        let read = TensorFile::parse(&bytes, "").unwrap().f32("x").unwrap().data;
        assert_eq!(read[..2], values[..2]);
        assert!((read[2] / values[2] - 1.0).abs() < 1.0 / 256.0);
    }

    #[test]
    fn integers_and_floats_are_not_mixed_up() {
        let bytes = file_of(Dtype::I32, &[2], &[1, 0, 0, 0, 255, 255, 255, 255]);
        let file = TensorFile::parse(&bytes, "b.safetensors").unwrap();
        assert_eq!(file.i32("x").unwrap().data, [1, -1]);
        assert_eq!(
            file.f32("x").unwrap_err().to_string(),
            "b.safetensors: tensor x holds I32, but F32, F16 or BF16 is needed"
        );
        assert_eq!(file.f32("y").unwrap_err().to_string(), "b.safetensors has no tensor y");
        let bytes = write(&[tensor("x", &[1], &[1.0])]).unwrap();
        let error = TensorFile::parse(&bytes, "f").unwrap().i32("x").unwrap_err();
        assert_eq!(error.to_string(), "f: tensor x holds F32, but I32 is needed");
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = write(&[tensor("x", &[2], &[1.0, 2.0])]).unwrap();
        let mut longer = whole.clone();
        longer.push(0);
        let mut huge_header = whole.clone();
        huge_header[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        for bytes in [&whole[..whole.len() - 1], &longer, &huge_header, b"", b"<html>not found</html>"] {
            let error = TensorFile::parse(bytes, "m.safetensors").err().unwrap().to_string();
            assert!(error.starts_with("m.safetensors is not a whole safetensors file: "), "{error}");
        }
    }

    #[test]
    fn wrong_lists_are_not_written() {
        let error = write(&[tensor("x", &[2, 2], &[1.0, 2.0])]).unwrap_err().to_string();
        assert_eq!(error, "cannot store tensor x of shape [2, 2] and 2 values: the numbers disagree");
        let twice = [tensor("x", &[1], &[1.0]), tensor("x", &[1], &[2.0])];
        assert!(write(&twice).unwrap_err().to_string().ends_with("there is another of this name"));
    }
}
