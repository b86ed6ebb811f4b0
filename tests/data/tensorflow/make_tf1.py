"""Trains a tiny BERT with google-research's own code and saves it as that code does: checkpoints with TensorFlow 1 names.

usage: make_tf1.py SITE_PACKAGES OUT

SITE_PACKAGES holds the folder `bert` of the PyPI package bert-tensorflow 1.0.4, which is google-research/bert:

    pip install --no-deps --target SITE_PACKAGES bert-tensorflow==1.0.4
    pip install tensorflow-cpu==2.19.1 tf-keras==2.19.0 safetensors protobuf==5.29.5

Writes into OUT what a released archive holds, `bert_config.json`, `vocab.txt` and `bert_model.ckpt.*`, and beside it
`weights.safetensors`, the weights under Hugging Face's names, `batch.safetensors` and `expected_gelu_new.safetensors`, what
the model computes of the batch.
"""
import os
import sys
import types

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

from tiny import B, BATCH, CONFIG, P, write_config, write_tensors


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
    """tf.contrib.layers.layer_norm, which TensorFlow 2 no longer has."""
    assert begin_norm_axis == begin_params_axis == -1
    with tf.variable_scope(scope, "LayerNorm"):
        width = inputs.shape[-1:]
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


site_packages, out = sys.argv[1:]
tf.disable_v2_behavior()
contrib = types.ModuleType("tensorflow.contrib")
contrib.layers = types.SimpleNamespace(layer_norm=layer_norm)
tf.estimator = types.SimpleNamespace(tpu=None)
tf.flags.DEFINE_string("f", None, "")
sys.modules.update({"tensorflow": tf, "tensorflow.contrib": contrib})
sys.path.append(site_packages)
from bert import modeling, optimization, run_pretraining  # noqa: E402

write_config(out)
config = modeling.BertConfig.from_dict(CONFIG)
tf.set_random_seed(7)
batch = {name: tf.constant(values) for name, values in BATCH.items()}
model = modeling.BertModel(
    config,
    is_training=False,
    input_ids=batch["input_word_ids"],
    input_mask=batch["input_mask"],
    token_type_ids=batch["input_type_ids"],
)
mlm_loss, _, _ = run_pretraining.get_masked_lm_output(
    config, model.get_sequence_output(), model.get_embedding_table(),
    batch["masked_lm_positions"], batch["masked_lm_ids"], batch["masked_lm_weights"])
nsp_loss, _, _ = run_pretraining.get_next_sentence_output(
    config, model.get_pooled_output(), batch["next_sentence_labels"])
train = optimization.create_optimizer(mlm_loss + nsp_loss, 0.03, 20, 2, False)


def hugging_face(name):
    """The name of a variable of google-research's model in Hugging Face's, and whether it is transposed there."""
    name = name.split(":")[0].replace("/", ".").replace("layer_", "layer.")
    for theirs, ours in (
        ("LayerNorm.gamma", "LayerNorm.weight"),
        ("LayerNorm.beta", "LayerNorm.bias"),
        ("embeddings.word_embeddings", "embeddings.word_embeddings.weight"),
        ("embeddings.position_embeddings", "embeddings.position_embeddings.weight"),
        ("embeddings.token_type_embeddings", "embeddings.token_type_embeddings.weight"),
        ("seq_relationship.output_weights", "seq_relationship.weight"),
        ("output_bias", "bias"),
    ):
        name = name.replace(theirs, ours)
    return name.replace(".kernel", ".weight"), name.endswith(".kernel")


graph = tf.get_default_graph()
outputs = {
    "sequence_output": model.get_sequence_output(),
    "pooled_output": model.get_pooled_output(),
    "mlm_logits": graph.get_tensor_by_name("cls/predictions/BiasAdd:0"),
    "nsp_logits": graph.get_tensor_by_name("cls/seq_relationship/BiasAdd:0"),
    "mlm_loss": mlm_loss,
    "nsp_loss": nsp_loss,
}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(12):
        session.run(train)
    tf.train.Saver().save(session, out + "/bert_model.ckpt", write_meta_graph=False, write_state=False)
    values = session.run(tf.trainable_variables())
    outputs = session.run(outputs)
weights = {}
for variable, value in zip(tf.trainable_variables(), values):
    name, transposed = hugging_face(variable.name)
    weights[name] = value.T if transposed else value
outputs["mlm_logits"] = outputs["mlm_logits"].reshape(B, P, -1)
write_tensors(out + "/weights.safetensors", weights)
write_tensors(out + "/batch.safetensors", BATCH)
write_tensors(out + "/expected_gelu_new.safetensors", outputs)
