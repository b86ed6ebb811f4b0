//! What can go wrong with a TensorFlow checkpoint.

/// A TensorFlow checkpoint that cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// No checkpoint of this name.
    #[error("there is no TensorFlow checkpoint {path}; beside it {}", listed(.there))]
    NotFound {
        /// What was asked for.
        path: String,
        /// The checkpoints in its folder.
        there: Vec<String>,
    },
    /// A folder of several checkpoints, none of which is said to be the latest.
    #[error("{folder} holds several TensorFlow checkpoints, so name one: {}", .there.join(", "))]
    Several {
        /// The folder.
        folder: String,
        /// The checkpoints in it.
        there: Vec<String>,
    },
    /// A file named `checkpoint` that names none.
    #[error(
        "{file} should name the latest checkpoint, in a line like model_checkpoint_path: \"bert_model.ckpt\""
    )]
    NoState {
        /// The file.
        file: String,
    },
    /// One of the files that a checkpoint consists of.
    #[error("{file} is missing: a TensorFlow checkpoint is an .index file and all the .data files beside it")]
    MissingFile {
        /// The file.
        file: String,
    },
    /// An index that is damaged, or cannot be read here.
    #[error("{file} cannot be read as the index of a TensorFlow checkpoint: {problem}")]
    Index {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: IndexProblem,
    },
    /// A tensor that is damaged, or cannot be read here.
    #[error("{file}: tensor {tensor} {problem}")]
    Tensor {
        /// The file.
        file: String,
        /// The tensor's key.
        tensor: String,
        /// What is wrong with it.
        problem: TensorProblem,
    },
    /// A checkpoint of objects none of which is a BERT.
    #[error(
        "{file} holds no BERT: no object in it has the embeddings and attention layers that TensorFlow's \
         run_pretraining saves"
    )]
    NoBert {
        /// The checkpoint.
        file: String,
    },
}

/// What is wrong with an index.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexProblem {
    /// The magic number is not there.
    #[error("its end is missing, or it is another kind of file")]
    NoTable,
    /// The footer does not say where the blocks are.
    #[error("its last 48 bytes are damaged")]
    Footer,
    /// A block lies outside the file.
    #[error("{size} bytes are expected from byte {at} on, but the file has {length}")]
    Cut {
        /// Where the block begins.
        at: u64,
        /// Its size.
        size: u64,
        /// Bytes of the file.
        length: usize,
    },
    /// A block that is not as it was written.
    #[error("the block at byte {at} is damaged: its checksum does not fit")]
    Checksum {
        /// Where the block begins.
        at: u64,
    },
    /// A block that must be unpacked first.
    #[error(
        "the block at byte {at} is compressed by {by}: load it in TensorFlow and save it again, uncompressed"
    )]
    Compressed {
        /// Where the block begins.
        at: u64,
        /// The method.
        by: &'static str,
    },
    /// A block with a sound checksum and senseless content.
    #[error("the block at byte {at} is no list of keys in order")]
    Block {
        /// Where the block begins.
        at: u64,
    },
    /// The first entry is not a header.
    #[error("it has no header")]
    Header,
    /// Tensors in the byte order of other machines.
    #[error("its numbers are big-endian: load it in TensorFlow and save it again on a little-endian machine")]
    BigEndian,
    /// An entry that is not one.
    #[error("what it says of tensor {tensor} makes no sense")]
    Entry {
        /// The tensor's key.
        tensor: String,
    },
}

/// What is wrong with a tensor.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorProblem {
    /// It lies beyond the end of its file.
    #[error("ends at byte {end}, but the file has {length}: it was cut off")]
    Cut {
        /// The byte behind it.
        end: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// It is not as it was written.
    #[error("is damaged: its checksum does not fit")]
    Checksum,
    /// It lies in pieces.
    #[error("was saved in {slices} slices: load it in TensorFlow and save it as one")]
    Sliced {
        /// How many.
        slices: usize,
    },
    /// Its bytes are not what its type says.
    #[error("is not what it is said to be")]
    Content,
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "there is none".into(),
        names => format!("there are: {}", names.join(", ")),
    }
}
