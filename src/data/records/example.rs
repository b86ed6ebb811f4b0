//! `tf.train.Example`, the protocol buffer inside a record: names with lists of integers, floats or bytes.

use std::collections::BTreeMap;

use prost::Message;

use super::RecordProblem;

/// The values of a feature.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    /// Byte strings, or nothing at all; no feature of ours.
    Other,
}

/// The message with its field numbers, as TensorFlow defines it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<FeatureMap>,
}

#[derive(Clone, PartialEq, Message)]
struct FeatureMap {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(IntList),
}

#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct IntList {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

impl Example {
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordProblem> {
        Self::decode(bytes).map_err(|error| RecordProblem::NotAnExample(error.to_string()))
    }

    /// The feature that has one of the names, by the first name that is there.
    pub fn find(&self, names: &[&'static str]) -> Result<(&'static str, Values), RecordProblem> {
        let features = self.features.iter().flat_map(|features| &features.feature);
        let features: BTreeMap<&str, &Feature> =
            features.map(|(name, feature)| (name.as_str(), feature)).collect();
        let found = names.iter().find_map(|name| Some((*name, *features.get(name)?)));
        let (name, feature) = found.ok_or(RecordProblem::MissingFeature(names[0]))?;
        let values = match &feature.kind {
            Some(Kind::Ints(list)) => Values::Ints(list.value.clone()),
            Some(Kind::Floats(list)) => Values::Floats(list.value.clone()),
            Some(Kind::Bytes(_)) | None => Values::Other,
        };
        Ok((name, values))
    }
}
