//! The protocol buffers of a checkpoint, with TensorFlow's field numbers: `tensor_bundle.proto`, `tensor_shape.proto`,
//! `trackable_object_graph.proto`. Fields that nothing here reads are left out.

use prost::Message;

/// The value of the empty key.
#[derive(Clone, PartialEq, Message)]
pub struct BundleHeader {
    /// Number of `.data` files.
    #[prost(int32, tag = "1")]
    pub num_shards: i32,
    /// 0: little, 1: big.
    #[prost(int32, tag = "2")]
    pub endianness: i32,
}

/// Where a tensor lies, and what it is.
#[derive(Clone, PartialEq, Message)]
pub struct BundleEntry {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
    #[prost(int32, tag = "3")]
    pub shard_id: i32,
    #[prost(int64, tag = "4")]
    pub offset: i64,
    #[prost(int64, tag = "5")]
    pub size: i64,
    /// Masked, of the `size` bytes.
    #[prost(fixed32, tag = "6")]
    pub crc32c: u32,
    /// Where there are any, the tensor lies in pieces, each under a key of its own.
    #[prost(message, repeated, tag = "7")]
    pub slices: Vec<TensorSlice>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}

/// Its extent is not read.
#[derive(Clone, PartialEq, Message)]
pub struct TensorSlice {}

/// The objects of a program and how it reaches them; node 0 is the root.
#[derive(Clone, PartialEq, Message)]
pub struct TrackableObjectGraph {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<TrackableObject>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackableObject {
    #[prost(message, repeated, tag = "1")]
    pub children: Vec<ObjectReference>,
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<SerializedTensor>,
}

/// An attribute of the parent.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectReference {
    #[prost(int32, tag = "1")]
    pub node_id: i32,
    #[prost(string, tag = "2")]
    pub local_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SerializedTensor {
    /// `VARIABLE_VALUE` for a variable.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub checkpoint_key: String,
}
