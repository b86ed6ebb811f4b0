//! Which objects a TensorFlow 2 program saved, and how it reaches them: `model`, `layer_with_weights-0`, `kernel`.
//!
//! The key of a tensor is one of the paths to its variable, and which one depends on the order in which the program met
//! its objects. The graph has them all.

use std::fmt;

use prost::Message;

use super::proto::{TrackableObject, TrackableObjectGraph};

/// All objects of a program.
pub struct ObjectGraph {
    nodes: Vec<TrackableObject>,
}

/// An object.
#[derive(Clone, Copy)]
pub struct Node<'graph> {
    graph: &'graph ObjectGraph,
    number: usize,
}

impl ObjectGraph {
    /// From `_CHECKPOINTABLE_OBJECT_GRAPH`.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self { nodes: TrackableObjectGraph::decode(bytes).ok()?.nodes })
    }

    /// All objects; the first is the root.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.nodes.len()).map(|number| Node { graph: self, number })
    }
}

impl<'graph> Node<'graph> {
    /// The object at the end of a path, its parts with `/` between. A name that holds one itself is written `.S`.
    pub fn at(self, path: &str) -> Option<Self> {
        path.split('/').try_fold(self, |node, part| node.child(&part.replace(".S", "/")))
    }

    fn child(self, name: &str) -> Option<Self> {
        let children = &self.graph.nodes[self.number].children;
        let number = children.iter().find(|child| child.local_name == name)?.node_id;
        let number = usize::try_from(number).ok().filter(|number| *number < self.graph.nodes.len())?;
        Some(Self { number, ..self })
    }

    /// The key of the variable at the end of a path.
    pub fn variable(self, path: &str) -> Option<&'graph str> {
        let attributes = &self.graph.nodes[self.at(path)?.number].attributes;
        let value = attributes.iter().find(|attribute| attribute.name == "VARIABLE_VALUE")?;
        Some(&value.checkpoint_key)
    }
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.graph, other.graph) && self.number == other.number
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "object {}", self.number)
    }
}
