//! Checkpoints of TensorFlow, in its tensor-bundle format: an `.index` file, a sorted table of names, says where in the
//! `.data-00000-of-0000N` files beside it the tensors lie. Every block and every tensor has a checksum.
//!
//! Sizes in these files are believed only as far as the files reach: nothing is allocated for bytes that are not there.

mod error;
mod object_graph;
mod prefix;
mod proto;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use prost::Message;
use prost::encoding::decode_varint;

pub use error::{BundleError, IndexProblem, TensorProblem};
pub use object_graph::{Node, ObjectGraph};
pub use prefix::{find_prefix, folder_of};

use super::storage::io_error;
use super::{CheckpointError, NamedTensor};
use crate::data::masked_crc;
use proto::{BundleEntry, BundleHeader};

/// Where the objects of a TensorFlow 2 program are listed.
const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// Numbers in TensorFlow's `DataType`.
mod dtype {
    pub const FLOAT: i32 = 1;
    pub const DOUBLE: i32 = 2;
    pub const STRING: i32 = 7;
    pub const BFLOAT16: i32 = 14;
    pub const HALF: i32 = 19;
    /// Other types' names, for messages.
    pub const NAMES: [(i32, &str); 8] = [
        (3, "int32"),
        (4, "uint8"),
        (5, "int16"),
        (6, "int8"),
        (STRING, "strings"),
        (9, "int64"),
        (10, "bool"),
        (22, "uint32"),
    ];
}

/// A checkpoint whose index was read and checked; its tensors are read when asked for.
#[derive(Debug)]
pub struct TensorBundle<S> {
    prefix: String,
    entries: BTreeMap<String, Entry>,
    shards: BTreeMap<i32, Shard<S>>,
}

/// A file of values, and its length.
#[derive(Debug)]
struct Shard<S> {
    name: String,
    file: S,
    length: u64,
}

/// Where a tensor lies, and what it is.
#[derive(Debug)]
struct Entry {
    dtype: i32,
    shape: Vec<usize>,
    shard: i32,
    offset: u64,
    size: u64,
    crc: u32,
    slices: usize,
}

impl TensorBundle<File> {
    /// Opens the checkpoint whose files are called `prefix.index` and `prefix.data-…`.
    ///
    /// # Errors
    /// [`CheckpointError::TensorFlow`] or [`CheckpointError::Io`].
    pub fn open(prefix: &Path) -> Result<Self, CheckpointError> {
        let prefix = prefix.display().to_string();
        let index = format!("{prefix}.index");
        let bytes = fs::read(&index).map_err(|error| unreadable(&index, error))?;
        Self::read(&bytes, &prefix, |shard| File::open(shard))
    }
}

impl<S: Read + Seek> TensorBundle<S> {
    /// Reads an index. `open` opens the files of values, by name.
    ///
    /// # Errors
    /// [`CheckpointError::TensorFlow`] or [`CheckpointError::Io`].
    pub fn read(
        index: &[u8],
        prefix: &str,
        mut open: impl FnMut(&str) -> io::Result<S>,
    ) -> Result<Self, CheckpointError> {
        let (entries, num_shards) = entries(index)
            .map_err(|problem| BundleError::Index { file: format!("{prefix}.index"), problem })?;
        let mut shards = BTreeMap::new();
        for entry in entries.values() {
            if shards.contains_key(&entry.shard) || entry.slices > 0 {
                continue;
            }
            let name = format!("{prefix}.data-{:05}-of-{num_shards:05}", entry.shard);
            let mut file = open(&name).map_err(|error| unreadable(&name, error))?;
            let length = file.seek(SeekFrom::End(0)).map_err(io_error("read", Path::new(&name)))?;
            shards.insert(entry.shard, Shard { name, file, length });
        }
        let bundle = Self { prefix: prefix.into(), entries, shards };
        bundle.check_lengths()?;
        Ok(bundle)
    }

    /// What the checkpoint is called: the start of its files' names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The keys of all tensors, sorted, and their shapes. The list of objects is none.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let tensors = self.entries.iter().filter(|(key, _)| *key != OBJECT_GRAPH);
        tensors.map(|(key, entry)| (key.as_str(), entry.shape.as_slice()))
    }

    /// A tensor of floats; f64, f16 and bf16 become f32.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`], [`CheckpointError::TensorType`], [`CheckpointError::TensorFlow`] or
    /// [`CheckpointError::Io`].
    pub fn f32(&mut self, key: &str) -> Result<NamedTensor, CheckpointError> {
        let entry = self.entry(key)?;
        let (dtype, shape) = (entry.dtype, entry.shape.clone());
        let convert: fn(&[u8]) -> Vec<f32> = match dtype {
            dtype::FLOAT => |bytes| values(bytes, f32::from_le_bytes),
            dtype::DOUBLE => |bytes| values(bytes, |bytes| f64::from_le_bytes(bytes) as f32),
            dtype::HALF => |bytes| values(bytes, |bytes| half::f16::from_le_bytes(bytes).to_f32()),
            dtype::BFLOAT16 => |bytes| values(bytes, |bytes| half::bf16::from_le_bytes(bytes).to_f32()),
            _ => return Err(self.wrong_type(key, dtype)),
        };
        let bytes = self.bytes(key)?;
        if masked_crc(&bytes) != self.entry(key)?.crc {
            return Err(self.problem(key, TensorProblem::Checksum));
        }
        Ok(NamedTensor { name: key.into(), shape, data: convert(&bytes) })
    }

    /// The objects of a TensorFlow 2 program; nothing where a TensorFlow 1 program saved its variables by name.
    ///
    /// # Errors
    /// [`CheckpointError::TensorFlow`] or [`CheckpointError::Io`].
    pub fn object_graph(&mut self) -> Result<Option<ObjectGraph>, CheckpointError> {
        match self.entries.get(OBJECT_GRAPH) {
            None => return Ok(None),
            Some(entry) if entry.dtype == dtype::STRING && entry.shape.is_empty() => {}
            Some(_) => return Err(self.problem(OBJECT_GRAPH, TensorProblem::Content)),
        }
        let bytes = self.bytes(OBJECT_GRAPH)?;
        let graph = match string(&bytes) {
            Some((_, crc)) if crc != self.entry(OBJECT_GRAPH)?.crc => Err(TensorProblem::Checksum),
            Some((text, _)) => ObjectGraph::parse(text).ok_or(TensorProblem::Content),
            None => Err(TensorProblem::Content),
        };
        graph.map(Some).map_err(|problem| self.problem(OBJECT_GRAPH, problem))
    }

    /// A checkpoint that was cut off is told as soon as it is opened.
    fn check_lengths(&self) -> Result<(), CheckpointError> {
        for (key, entry) in &self.entries {
            let Some(shard) = self.shards.get(&entry.shard) else { continue };
            // Neither is above 2^63.
            let (end, length) = (entry.offset + entry.size, shard.length);
            if end > length {
                return Err(self.problem(key, TensorProblem::Cut { end, length }));
            }
        }
        Ok(())
    }

    /// The bytes of a tensor, which are known to be there.
    fn bytes(&mut self, key: &str) -> Result<Vec<u8>, CheckpointError> {
        let Entry { shard, offset, size, slices, .. } = *self.entry(key)?;
        if slices > 0 {
            return Err(self.problem(key, TensorProblem::Sliced { slices }));
        }
        let Some(Shard { name, file, .. }) = self.shards.get_mut(&shard) else {
            return Err(self.problem(key, TensorProblem::Content));
        };
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(size).read_to_end(&mut bytes));
        read.map_err(io_error("read", Path::new(name)))?;
        if bytes.len() as u64 != size {
            let (end, length) = (offset + size, offset + bytes.len() as u64);
            return Err(self.problem(key, TensorProblem::Cut { end, length }));
        }
        Ok(bytes)
    }

    fn entry(&self, key: &str) -> Result<&Entry, CheckpointError> {
        let missing = || CheckpointError::MissingTensor { file: self.prefix.clone(), tensor: key.into() };
        self.entries.get(key).ok_or_else(missing)
    }

    fn problem(&self, key: &str, problem: TensorProblem) -> CheckpointError {
        let shard = self.entries.get(key).and_then(|entry| self.shards.get(&entry.shard));
        let file = shard.map_or(&self.prefix, |shard| &shard.name).clone();
        BundleError::Tensor { file, tensor: key.into(), problem }.into()
    }

    fn wrong_type(&self, key: &str, dtype: i32) -> CheckpointError {
        let name = dtype::NAMES.iter().find(|(number, _)| *number == dtype);
        CheckpointError::TensorType {
            file: self.prefix.clone(),
            tensor: key.into(),
            expected: "float32, float64, float16 or bfloat16",
            found: name.map_or_else(|| format!("TensorFlow's type {dtype}"), |(_, name)| (*name).into()),
        }
    }
}

/// The entries of an index by key, and the number of `.data` files.
fn entries(index: &[u8]) -> Result<(BTreeMap<String, Entry>, i32), IndexProblem> {
    let mut table = table::read(index)?.into_iter();
    let (_, header) = table.next().filter(|(key, _)| key.is_empty()).ok_or(IndexProblem::Header)?;
    let header = BundleHeader::decode(header).map_err(|_| IndexProblem::Header)?;
    if header.endianness != 0 {
        return Err(IndexProblem::BigEndian);
    }
    let mut entries = BTreeMap::new();
    for (key, value) in table {
        // The pieces of tensors in slices have keys that begin so, and are no text.
        if key.first() == Some(&0) {
            continue;
        }
        let key = String::from_utf8_lossy(&key).into_owned();
        let entry = BundleEntry::decode(value).ok().and_then(|entry| sound(&entry, header.num_shards));
        let entry = entry.ok_or_else(|| IndexProblem::Entry { tensor: key.clone() })?;
        entries.insert(key, entry);
    }
    Ok((entries, header.num_shards))
}

/// An entry whose numbers fit together.
fn sound(entry: &BundleEntry, num_shards: i32) -> Option<Entry> {
    let dims = entry.shape.iter().flat_map(|shape| &shape.dim);
    let shape = dims.map(|dim| usize::try_from(dim.size).ok()).collect::<Option<Vec<_>>>()?;
    let (offset, size) = (u64::try_from(entry.offset).ok()?, u64::try_from(entry.size).ok()?);
    let width = match entry.dtype {
        dtype::FLOAT => Some(4),
        dtype::DOUBLE => Some(8),
        dtype::HALF | dtype::BFLOAT16 => Some(2),
        _ => None,
    };
    // That of pieces is told with the pieces.
    if let Some(width) = width.filter(|_| entry.slices.is_empty()) {
        let elements = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        if elements.checked_mul(width)? as u64 != size {
            return None;
        }
    }
    (0..num_shards).contains(&entry.shard_id).then_some(Entry {
        dtype: entry.dtype,
        shape,
        shard: entry.shard_id,
        offset,
        size,
        crc: entry.crc32c,
        slices: entry.slices.len(),
    })
}

/// A single string and the checksum it should have: its length, the masked checksum of that, and its bytes. Checksums
/// are of the length as a word, whatever its form in the file.
fn string(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let mut rest = bytes;
    let length = u32::try_from(decode_varint(&mut rest).ok()?).ok()?.to_le_bytes();
    let (checksum, text) = rest.split_first_chunk::<4>()?;
    let is_sound = *checksum == masked_crc(&length).to_le_bytes()
        && text.len() == usize::try_from(u32::from_le_bytes(length)).ok()?;
    is_sound.then(|| (text, masked_crc(&[&length, checksum, text].concat())))
}

fn values<const WIDTH: usize>(bytes: &[u8], value: fn([u8; WIDTH]) -> f32) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| value(*bytes)).collect()
}

fn unreadable(file: &str, error: io::Error) -> CheckpointError {
    match error.kind() {
        ErrorKind::NotFound => BundleError::MissingFile { file: file.into() }.into(),
        _ => io_error("read", Path::new(file))(error),
    }
}
