//! How the values of a parameter are arranged in a file.

use crate::model::config::BertConfig;

/// The arrangement in a file; the model's own matrices are `[out, in]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// As in the model.
    Same,
    /// `[in, out]`.
    Kernel,
    /// The bias of query, key or value: `[heads, head size]`.
    HeadsBias,
    /// The kernel of query, key or value: `[in, heads, head size]`.
    HeadsOut,
    /// The kernel of the attention output: `[heads, head size, out]`.
    HeadsIn,
}

impl Layout {
    /// The shape in the file of what has `shape` in the model.
    pub fn shape_in_file(self, shape: &[usize], config: &BertConfig) -> Vec<usize> {
        let heads = [config.num_attention_heads, config.head_size()];
        match self {
            Self::Same => shape.to_vec(),
            Self::Kernel => shape.iter().rev().copied().collect(),
            Self::HeadsBias => heads.to_vec(),
            Self::HeadsOut => [&shape[1..], &heads].concat(),
            Self::HeadsIn => [&heads, &shape[..1]].concat(),
        }
    }

    /// Values of the file in the order of the model, where they have `shape`. The width of all heads together is that of
    /// the model, so whether it is cut into heads does not matter.
    pub fn in_model(self, values: Vec<f32>, shape: &[usize]) -> Vec<f32> {
        match (self, shape) {
            (Self::Kernel | Self::HeadsOut | Self::HeadsIn, &[outputs, inputs]) => {
                let columns =
                    (0..outputs).flat_map(|out| (0..inputs).map(move |input| input * outputs + out));
                columns.map(|at| values[at]).collect()
            }
            _ => values,
        }
    }
}
