//! BERT with its masked-LM head as a graph of ONNX, for T = B·S rows as in `model::encoder` and `model::heads`.

use super::builder::Builder;
use super::proto::{Attribute, FLOAT};
use crate::model::config::BertConfig;

pub const INPUT_IDS: &str = "input_ids";
pub const ATTENTION_MASK: &str = "attention_mask";
pub const TOKEN_TYPE_IDS: &str = "token_type_ids";
pub const LOGITS: &str = "logits";

const WORDS: &str = "bert.embeddings.word_embeddings.weight";

/// The nodes and constants; the parameters, which the nodes call by Hugging Face's names, are not among them.
pub fn build(config: &BertConfig) -> Builder {
    let [hidden, vocabulary, heads, head_size] =
        [config.hidden_size, config.vocab_size, config.num_attention_heads, config.head_size()]
            .map(|size| size as i64);
    let mut graph = Builder::default();
    // [batch, sequence], and what follows from it.
    let input_shape = graph.node("Shape", "input shape", &[INPUT_IDS], Vec::new());
    let mut with_batch_and_sequence = |name: &str, sizes: &[i64]| {
        let sizes = graph.integers(sizes);
        graph.node("Concat", name, &[&input_shape, &sizes], vec![Attribute::int("axis", 0)])
    };
    let heads_shape = with_batch_and_sequence("heads shape", &[heads, head_size]);
    let logits_shape = with_batch_and_sequence("logits shape", &[vocabulary]);
    let rows_shape = graph.integers(&[-1, hidden]);
    let mask = attention_bias(&mut graph);
    let mut model = FillMask { config, graph, heads_shape, rows_shape, mask };

    let mut x = model.embeddings();
    for layer in 0..config.num_hidden_layers {
        x = model.layer(layer, &x);
    }
    let logits = model.head(&x);
    let mut graph = model.graph;
    graph.reshape(LOGITS, &logits, &logits_shape);
    graph
}

/// `(1 - mask) * -1e9`, as `[batch, 1, 1, sequence]`.
fn attention_bias(graph: &mut Builder) -> String {
    let mask = graph.node("Cast", "mask", &[ATTENTION_MASK], vec![Attribute::int("to", FLOAT.into())]);
    let one = graph.scalar(1.0);
    let hidden = graph.node("Sub", "hidden keys", &[&one, &mask], Vec::new());
    let far = graph.scalar(-1e9);
    let bias = graph.mul("key bias", &hidden, &far);
    let axes = graph.integers(&[1, 2]);
    graph.node("Unsqueeze", "attention bias", &[&bias, &axes], Vec::new())
}

struct FillMask<'config> {
    config: &'config BertConfig,
    graph: Builder,
    /// The name of the shape `[B, S, A, D]`.
    heads_shape: String,
    /// The name of the shape `[T, H]`.
    rows_shape: String,
    /// The name of what is added to all scores.
    mask: String,
}

impl FillMask<'_> {
    /// `[T, H]`.
    fn embeddings(&mut self) -> String {
        let Self { config, graph, rows_shape, .. } = self;
        let table = |part: &str| format!("bert.embeddings.{part}_embeddings.weight");
        let words = graph.gather("word embeddings", WORDS, INPUT_IDS);
        let types = graph.gather("token type embeddings", &table("token_type"), TOKEN_TYPE_IDS);
        let only_sequence = vec![Attribute::int("start", 1), Attribute::int("end", 2)];
        let length = graph.node("Shape", "sequence length", &[INPUT_IDS], only_sequence);
        // From 0 up to the length, along axis 0.
        let (table, zero) = (table("position"), graph.integers(&[0]));
        let positions =
            graph.node("Slice", "position embeddings", &[&table, &zero, &length, &zero], Vec::new());
        let sum = graph.add("words and positions", &words, &positions);
        let sum = graph.add("embedding sum", &sum, &types);
        let rows = graph.reshape("embedding rows", &sum, rows_shape);
        graph.layer_norm("bert.embeddings.LayerNorm", &rows, config.layer_norm_eps)
    }

    /// `[T, H]` → `[T, H]`.
    fn layer(&mut self, layer: usize, x: &str) -> String {
        let Self { config, graph, heads_shape, rows_shape, mask } = self;
        let name = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
        let mut heads = |part: &str, perm: [i64; 4]| {
            let name = name(&format!("attention.self.{part}"));
            let rows = graph.linear(&name, x);
            let heads = graph.reshape(&format!("{name}/heads"), &rows, heads_shape);
            graph.transpose(&format!("{name}/transposed"), &heads, perm)
        };
        let query = heads("query", [0, 2, 1, 3]);
        let key = heads("key", [0, 2, 3, 1]);
        let value = heads("value", [0, 2, 1, 3]);
        let products = graph.matmul(&name("attention/products"), &query, &key);
        let scale = graph.scalar(1.0 / (config.head_size() as f64).sqrt());
        let scores = graph.mul(&name("attention/scores"), &products, &scale);
        let scores = graph.add(&name("attention/masked scores"), &scores, mask);
        let over_keys = vec![Attribute::int("axis", -1)];
        let probabilities = graph.node("Softmax", &name("attention/probabilities"), &[&scores], over_keys);
        let context = graph.matmul(&name("attention/context"), &probabilities, &value);
        let context = graph.transpose(&name("attention/context by token"), &context, [0, 2, 1, 3]);
        let context = graph.reshape(&name("attention/context rows"), &context, rows_shape);
        let attended = graph.linear(&name("attention.output.dense"), &context);
        let sum = graph.add(&name("attention/sum"), &attended, x);
        let x = graph.layer_norm(&name("attention.output.LayerNorm"), &sum, config.layer_norm_eps);

        let intermediate = graph.linear(&name("intermediate.dense"), &x);
        let activated = graph.activation(config.hidden_act, &name("intermediate/activated"), &intermediate);
        let fed = graph.linear(&name("output.dense"), &activated);
        let sum = graph.add(&name("output/sum"), &fed, &x);
        graph.layer_norm(&name("output.LayerNorm"), &sum, config.layer_norm_eps)
    }

    /// `[T, H]` → `[T, V]`. The decoder is the word embedding, which is in the file only once.
    fn head(&mut self, x: &str) -> String {
        let Self { config, graph, .. } = self;
        let x = graph.linear("cls.predictions.transform.dense", x);
        let x = graph.activation(config.hidden_act, "cls.predictions.transform/activated", &x);
        let x = graph.layer_norm("cls.predictions.transform.LayerNorm", &x, config.layer_norm_eps);
        graph.product("cls.predictions.decoder", &x, WORDS, "cls.predictions.bias")
    }
}
