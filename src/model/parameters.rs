//! The parameters of a model: Hugging Face's names and shapes, and where each lies in an arena.
//!
//! An arena is what the optimizer walks over: weights, gradients and moments each have one with the same
//! layout. It is cut into slabs no larger than one binding may be. Query, key and value of a layer are
//! neighbours where their size allows it, so that one matrix product computes all three. The vocabulary's parameters
//! are followed by rows of zeros up to a multiple of 4, which nothing updates, so that products over the vocabulary can
//! read four logits at a time.

use super::config::BertConfig;
use crate::gpu::{BufferRange, Plan, Precision, Tensor};
use crate::ops::cast;

/// Elements between the starts of parameters, for a binding to start there in fp16 too.
const ALIGNMENT: usize = 2 * Tensor::ALIGNMENT_WORDS;

/// One parameter and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Hugging Face's name.
    pub name: String,
    /// Its shape; matrices are `[out, in]`.
    pub shape: Vec<usize>,
    /// The slab it lies in.
    pub slab: usize,
    /// Its first word there.
    pub offset: usize,
}

impl Parameter {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of words that are kept for it.
    fn room(&self) -> usize {
        match self.name.as_str() {
            WORDS | DECODER_BIAS => self.len() / self.shape[0] * self.shape[0].next_multiple_of(4),
            _ => self.len(),
        }
    }

    /// Never: every parameter has elements.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// All parameters of a model and the layout of its arenas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterTable {
    /// In the order the reference creates them.
    pub parameters: Vec<Parameter>,
    /// Words of each slab.
    pub slabs: Vec<usize>,
    /// Are query, key and value of a layer neighbours?
    pub fused: bool,
}

/// Names and shapes of all parameters, in the order the reference creates them.
///
/// `cls.predictions.decoder` is not among them: it is the word embedding and `cls.predictions.bias`. Without the
/// next-sentence task there is no pooler and no `cls.seq_relationship`: nothing would read or train them.
pub fn parameter_shapes(config: &BertConfig, next_sentence: bool) -> Vec<(String, Vec<usize>)> {
    let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
    let mut list = Vec::new();
    let mut add = |name: String, shape: &[usize]| list.push((name, shape.to_vec()));
    add(WORDS.into(), &[config.vocab_size, hidden]);
    add("bert.embeddings.position_embeddings.weight".into(), &[config.max_position_embeddings, hidden]);
    add("bert.embeddings.token_type_embeddings.weight".into(), &[config.type_vocab_size, hidden]);
    let mut layer_of = |name: &str, weight: &[usize]| {
        add(format!("{name}.weight"), weight);
        add(format!("{name}.bias"), &weight[..1]);
    };
    layer_of("bert.embeddings.LayerNorm", &[hidden]);
    for layer in 0..config.num_hidden_layers {
        let name = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
        for part in ["query", "key", "value"] {
            layer_of(&name(&format!("attention.self.{part}")), &[hidden, hidden]);
        }
        layer_of(&name("attention.output.dense"), &[hidden, hidden]);
        layer_of(&name("attention.output.LayerNorm"), &[hidden]);
        layer_of(&name("intermediate.dense"), &[intermediate, hidden]);
        layer_of(&name("output.dense"), &[hidden, intermediate]);
        layer_of(&name("output.LayerNorm"), &[hidden]);
    }
    if next_sentence {
        layer_of("bert.pooler.dense", &[hidden, hidden]);
        layer_of("cls.seq_relationship", &[2, hidden]);
    }
    add(DECODER_BIAS.into(), &[config.vocab_size]);
    let mut layer_of = |name: &str, weight: &[usize]| {
        add(format!("{name}.weight"), weight);
        add(format!("{name}.bias"), &weight[..1]);
    };
    layer_of("cls.predictions.transform.dense", &[hidden, hidden]);
    layer_of("cls.predictions.transform.LayerNorm", &[hidden]);
    list
}

/// Rows of the decoder, and so columns of the logits: those of the vocabulary up to a multiple of 4.
pub fn padded_vocabulary(config: &BertConfig) -> usize {
    config.vocab_size.next_multiple_of(4)
}

const WORDS: &str = "bert.embeddings.word_embeddings.weight";
const DECODER_BIAS: &str = "cls.predictions.bias";

/// Parameters that must be neighbours share a key; all others stand alone.
fn neighbours(name: &str, fused: bool) -> String {
    let parts = if fused { &["query", "key", "value"][..] } else { &[] };
    parts.iter().fold(name.to_string(), |name, part| name.replace(&format!("self.{part}"), "self"))
}

impl ParameterTable {
    /// Lay out the parameters of `config` in slabs of at most `max_slab_bytes`, unless a single one is larger.
    pub fn new(config: &BertConfig, next_sentence: bool, max_slab_bytes: u64) -> Self {
        let shapes = parameter_shapes(config, next_sentence);
        let mut parameters: Vec<_> =
            shapes.into_iter().map(|(name, shape)| Parameter { name, shape, slab: 0, offset: 0 }).collect();
        // The optimizer wants every parameter to start at a multiple of 4 words.
        let fused = config.hidden_size.is_multiple_of(4);
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, parameter) in parameters.iter().enumerate() {
            let key = neighbours(&parameter.name, fused);
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, members)) => members.push(index),
                None => groups.push((key, vec![index])),
            }
        }
        let mut slabs = vec![0];
        for (_, members) in groups {
            let words: usize = members.iter().map(|i| parameters[*i].room()).sum();
            let mut slab = slabs.len() - 1;
            if slabs[slab] > 0 && (slabs[slab] + words) as u64 * 4 > max_slab_bytes {
                slabs.push(0);
                slab += 1;
            }
            for index in members {
                parameters[index].slab = slab;
                parameters[index].offset = slabs[slab];
                slabs[slab] += parameters[index].room();
            }
            slabs[slab] = slabs[slab].next_multiple_of(ALIGNMENT);
        }
        Self { parameters, slabs, fused }
    }

    /// The parameter of that name.
    ///
    /// # Panics
    /// When the model has none of that name: a mistake in the model.
    pub fn parameter(&self, name: &str) -> &Parameter {
        self.parameters.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no parameter {name}"))
    }

    /// Number of elements of all parameters.
    pub fn elements(&self) -> usize {
        self.parameters.iter().map(Parameter::len).sum()
    }
}

/// An arena in a plan.
#[derive(Debug, Clone)]
pub struct Arena {
    /// Its slabs.
    pub slabs: Vec<Tensor>,
}

/// A weight and its bias in an arena.
#[derive(Debug, Clone, Copy)]
pub struct WeightAndBias {
    /// `[out, in]`, or `[hidden]` of a layer norm.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Tensor,
}

impl Arena {
    /// A new arena that keeps its content.
    pub fn new(plan: &mut Plan, name: &str, table: &ParameterTable) -> Self {
        let slab = |(i, words): (usize, &usize)| plan.persistent(&format!("{name} {i}"), *words);
        Self { slabs: table.slabs.iter().enumerate().map(slab).collect() }
    }

    /// One of the same layout for copies of `weights` that are stored so, made each time the plan gets here.
    pub fn copies(plan: &mut Plan, precision: Precision, weights: &Self) -> Self {
        let copy = |(i, slab): (usize, &Tensor)| {
            let copy = plan.persistent_as(precision, &format!("weights {i} in fp16"), slab.len());
            cast(plan, *slab, copy);
            copy
        };
        Self { slabs: weights.slabs.iter().enumerate().map(copy).collect() }
    }

    /// The arena of another program with the same table.
    ///
    /// # Panics
    /// When its slabs are of other sizes.
    pub fn import(plan: &mut Plan, name: &str, table: &ParameterTable, slabs: &[BufferRange]) -> Self {
        let sizes = slabs.iter().map(|slab| slab.bytes as usize / 4);
        assert!(sizes.eq(table.slabs.iter().copied()), "slabs of another model");
        let slab = |(i, range): (usize, &BufferRange)| plan.import(&format!("{name} {i}"), range);
        Self { slabs: slabs.iter().enumerate().map(slab).collect() }
    }

    /// Where a parameter lies.
    ///
    /// # Panics
    /// When the model has no parameter of that name: a mistake in the model.
    pub fn tensor(&self, table: &ParameterTable, name: &str) -> Tensor {
        let parameter = table.parameter(name);
        self.slabs[parameter.slab].part(parameter.offset, parameter.len())
    }

    /// `name.weight` and `name.bias`.
    pub fn pair(&self, table: &ParameterTable, name: &str) -> WeightAndBias {
        let part = |part: &str| self.tensor(table, &format!("{name}.{part}"));
        WeightAndBias { weight: part("weight"), bias: part("bias") }
    }

    /// The decoder: the word embeddings and its bias with the zeros behind them, `[padded vocabulary, hidden]` and
    /// `[padded vocabulary]`.
    pub fn decoder(&self, table: &ParameterTable) -> WeightAndBias {
        let padded = |name: &str| {
            let parameter = table.parameter(name);
            self.slabs[parameter.slab].part(parameter.offset, parameter.room())
        };
        WeightAndBias { weight: padded(WORDS), bias: padded(DECODER_BIAS) }
    }

    /// Query, key and value of a layer: one weight `[3 hidden, hidden]` and bias `[3 hidden]` where they are
    /// neighbours, else one each.
    pub fn query_key_value(&self, table: &ParameterTable, layer: usize) -> Vec<WeightAndBias> {
        let name = |part: &str| format!("bert.encoder.layer.{layer}.attention.self.{part}");
        if !table.fused {
            return ["query", "key", "value"].map(|part| self.pair(table, &name(part))).to_vec();
        }
        let widened = |part: &str| {
            let query = table.parameter(&name(&format!("query.{part}")));
            self.slabs[query.slab].part(query.offset, 3 * query.len())
        };
        vec![WeightAndBias { weight: widened("weight"), bias: widened("bias") }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_published_models() {
        let count = |name: &str, next_sentence| {
            let config = BertConfig::preset(name, 30522).unwrap();
            let table = ParameterTable::new(&config, next_sentence, 128 << 20);
            (table.parameters.len(), table.elements(), table.slabs.len())
        };
        assert_eq!(count("tiny", true), (46, 4_433_468, 1));
        assert_eq!(count("base", true), (206, 110_106_428, 4));
        assert_eq!(count("base", false), (202, 110_106_428 - 590_592 - 1_538, 4));
    }

    #[test]
    fn parameters_start_aligned_and_never_meet() {
        for hidden_size in [6, 12] {
            let config = BertConfig {
                hidden_size,
                num_attention_heads: 3,
                intermediate_size: 7,
                ..BertConfig::preset("tiny", 19).unwrap()
            };
            let table = ParameterTable::new(&config, true, 4096);
            assert!(table.slabs.len() > 1);
            let mut sorted = table.parameters.clone();
            sorted.sort_by_key(|p| (p.slab, p.offset));
            for pair in sorted.windows(2) {
                assert!(pair[0].slab < pair[1].slab || pair[0].offset + pair[0].len() <= pair[1].offset);
            }
            for parameter in &sorted {
                let inside = parameter.name.contains("self.key") || parameter.name.contains("self.value");
                let alignment = if inside { 4 } else { ALIGNMENT };
                assert!(parameter.offset.is_multiple_of(alignment), "{parameter:?}");
                assert!(parameter.offset + parameter.len() <= table.slabs[parameter.slab]);
            }
            let at =
                |part: &str| table.parameter(&format!("bert.encoder.layer.1.attention.self.{part}")).offset;
            assert_eq!(table.fused, hidden_size == 12);
            assert_eq!(table.fused, at("key.weight") == at("query.weight") + hidden_size * hidden_size);
            assert_eq!(table.fused, at("value.bias") == at("key.bias") + hidden_size);
        }
    }

    #[test]
    fn the_vocabulary_has_room_for_rows_of_zeros() {
        let config = BertConfig { vocab_size: 37, ..BertConfig::preset("tiny", 37).unwrap() };
        let table = ParameterTable::new(&config, true, 128 << 20);
        assert_eq!(table.parameter(WORDS).len(), 37 * config.hidden_size);
        let mut plan = Plan::new(crate::gpu::KernelFamily::Tile);
        let decoder = Arena::new(&mut plan, "weights", &table).decoder(&table);
        assert_eq!((decoder.weight.len(), decoder.bias.len()), (40 * config.hidden_size, 40));
        for padded in [WORDS, DECODER_BIAS].map(|name| table.parameter(name)) {
            let end = padded.offset + padded.room();
            let behind = |p: &&Parameter| p.slab == padded.slab && p.offset > padded.offset;
            assert!(table.parameters.iter().filter(behind).all(|p| p.offset >= end), "{}", padded.name);
        }
    }
}
