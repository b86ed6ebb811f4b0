"""Checkpoints with what a BERT's have seldom or never, made with TensorFlow alone.

usage: make_kinds.py TF1 OUT   (TF1 is the folder that make_tf1.py wrote)

    pip install tensorflow-cpu==2.19.1 safetensors protobuf==5.29.5

Writes into OUT:
- `older*`: the encoder of TF1, as objects named like those of the checkpoints that Google released in 2019 and 2020.
- `foreign*`: objects that are no BERT.
- `types*`: numbers of several types, in two files.
- `slices*`: a variable that a partitioner cut into two.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file

from tiny import CONFIG

tf1, out = sys.argv[1:]
weights = load_file(tf1 + "/weights.safetensors")
heads = (CONFIG["num_attention_heads"], CONFIG["hidden_size"] // CONFIG["num_attention_heads"])


def objects(**children):
    """An object with these children; arrays become variables."""
    made = {name: child if isinstance(child, tf.train.Checkpoint) else tf.Variable(child)
            for name, child in children.items()}
    return tf.train.Checkpoint(**made)


def dense(name, shape=None, bias_shape=None):
    kernel, bias = weights[name + ".weight"].T, weights[name + ".bias"]
    return objects(kernel=kernel.reshape(shape or kernel.shape), bias=bias.reshape(bias_shape or bias.shape))


def norm(name):
    return objects(gamma=weights[name + ".weight"], beta=weights[name + ".bias"])


def layer(number):
    name = f"bert.encoder.layer.{number}."
    hidden = CONFIG["hidden_size"]
    parts = {f"_{part}_dense": dense(f"{name}attention.self.{part}", (hidden, *heads), heads)
             for part in ("query", "key", "value")}
    return objects(
        _attention_layer=objects(**parts),
        _attention_output_dense=dense(name + "attention.output.dense", (*heads, hidden)),
        _attention_layer_norm=norm(name + "attention.output.LayerNorm"),
        _intermediate_dense=dense(name + "intermediate.dense"),
        _output_dense=dense(name + "output.dense"),
        _output_layer_norm=norm(name + "output.LayerNorm"))


tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
numbered = [objects(embeddings=weights[f"bert.embeddings.{table}.weight"]) for table in tables]
numbered.append(norm("bert.embeddings.LayerNorm"))
numbered += [layer(number) for number in range(CONFIG["num_hidden_layers"])]
numbered.append(dense("bert.pooler.dense"))
encoder = objects(**{f"layer_with_weights-{number}": child for number, child in enumerate(numbered)})
tf.train.Checkpoint(model=encoder).write(out + "/older")
tf.train.Checkpoint(model=dense("bert.pooler.dense")).write(out + "/foreign")

values = [1.5, -0.25, 3.0]
shards = [
    {"float32": tf.constant(values), "float64": tf.constant(values, tf.float64), "int32": tf.constant([1, 2])},
    {"float16": tf.constant(values, tf.float16), "bfloat16": tf.constant([values], tf.bfloat16),
     "text": tf.constant(["a", "b"]), "nothing": tf.zeros([0, 4])},
]
for number, tensors in enumerate(shards):
    tf.raw_ops.SaveV2(prefix=f"{out}/part{number}", tensor_names=list(tensors), tensors=list(tensors.values()),
                      shape_and_slices=[""] * len(tensors))
tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[f"{out}/part{number}" for number in range(len(shards))],
                              destination_prefix=out + "/types")
tf.raw_ops.SaveV2(prefix=out + "/slices", tensor_names=["cut", "cut", "whole"],
                  tensors=[tf.zeros([2, 3]), tf.ones([1, 3]), tf.constant(values)],
                  shape_and_slices=["3 3 0,2:-", "3 3 2,1:-", ""])
