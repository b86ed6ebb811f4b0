"""Trains a tiny BERT with TensorFlow's `run_pretraining` and keeps the checkpoints that it wrote; converts the TensorFlow 1
checkpoint of make_tf1.py with TensorFlow's own converter.

usage: make_tf2.py TF1 OUT   (TF1 is the folder that make_tf1.py wrote)

    pip install tensorflow-cpu==2.19.1 tf-keras==2.19.0
    pip install --no-deps tf-models-official==2.19.1 tensorflow-text==2.19.0 tensorflow-model-optimization tensorflow-hub \\
        tf_slim gin-config
    pip install pyyaml scipy psutil tensorflow-datasets safetensors
    pip install protobuf==5.29.5 absl-py==1.4.0

Writes into OUT:
- `run`: what the program leaves in its --model_dir at the end, but for its curves and older checkpoints.
- `weights.safetensors`, `expected_gelu_new.safetensors`: those weights under Hugging Face's names, and what the model computes
  of the batch of TF1.
- `converted/encoder*`, `converted/pretrainer*`: the TensorFlow 1 checkpoint, converted in both ways.
"""
import glob
import os
import shutil
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from official.legacy.bert import bert_models, configs

from tiny import BATCH, B, P, S, write_tensors

tf1, out = sys.argv[1:]
run = out + "/run"
config_file = tf1 + "/bert_config.json"
V1_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}


def program(module, *flags):
    subprocess.run([sys.executable, "-m", module, *(f"--{flag}" for flag in flags)], check=True)


def example(row):
    features = {}
    for name, values in BATCH.items():
        values = values[row].tolist()
        if name == "masked_lm_weights":
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        features[V1_NAMES.get(name, name)] = feature
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def hugging_face(name, value):
    """A variable of the reference's model under Hugging Face's name and in its shape."""
    name = name.split(":")[0].replace("/", ".").replace("transformer.layer_", "bert.encoder.layer.")
    for theirs, ours in (
        ("word_embeddings.embeddings", "bert.embeddings.word_embeddings.weight"),
        ("position_embedding.embeddings", "bert.embeddings.position_embeddings.weight"),
        ("type_embeddings.embeddings", "bert.embeddings.token_type_embeddings.weight"),
        ("embeddings.layer_norm", "bert.embeddings.LayerNorm"),
        ("self_attention.attention_output", "attention.output.dense"),
        ("self_attention_layer_norm", "attention.output.LayerNorm"),
        ("self_attention.", "attention.self."),
        ("output_layer_norm", "output.LayerNorm"),
        (".intermediate.", ".intermediate.dense."),
        (".output.kernel", ".output.dense.kernel"),
        (".output.bias", ".output.dense.bias"),
        ("pooler_transform", "bert.pooler.dense"),
        ("predictions.transform.logits", "cls.seq_relationship"),
        ("predictions.output_bias.bias", "predictions.bias"),
        ("gamma", "weight"),
        ("beta", "bias"),
    ):
        name = name.replace(theirs, ours)
    name = name[name.find("bert.") if "bert." in name else name.find("cls."):]
    name = name.replace("bert.cls.", "cls.")
    if name.endswith(".kernel"):
        inputs = value.shape[:2] if name.endswith("attention.output.dense.kernel") else value.shape[:1]
        return name.replace(".kernel", ".weight"), value.reshape(np.prod(inputs), -1).T
    return name, value.reshape(-1) if name.endswith("bias") else value


with tf.io.TFRecordWriter(out + "/train.tfrecord") as writer:
    for row in range(B):
        writer.write(example(row))
program(
    "official.legacy.bert.run_pretraining",
    f"input_files={out}/train.tfrecord", f"model_dir={run}", f"bert_config_file={config_file}", f"max_seq_length={S}",
    f"max_predictions_per_seq={P}", f"train_batch_size={B}", "num_steps_per_epoch=6", "num_train_epochs=2",
    "steps_per_loop=6", "learning_rate=0.03", "warmup_steps=2", "distribution_strategy=one_device")
shutil.rmtree(run + "/summaries")
for older in glob.glob(run + "/ctl_step_6.*") + glob.glob(run + "/pretrained/bert_model_step_*"):
    os.remove(older)
os.remove(out + "/train.tfrecord")

tf.random.set_seed(1)
config = configs.BertConfig.from_json_file(config_file)
model, encoder, core = bert_models.pretrain_model(config, S, P, return_core_pretrainer_model=True)
restored = tf.train.Checkpoint(model=model).restore(tf.train.latest_checkpoint(run))
restored.assert_existing_objects_matched().expect_partial()
write_tensors(out + "/weights.safetensors", dict(hugging_face(v.name, v.numpy()) for v in model.trainable_variables))
inputs = {name: tf.constant(values) for name, values in BATCH.items()}
logits = core([inputs[name] for name in ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")])
sequence_output, pooled_output = encoder([inputs[n] for n in ("input_word_ids", "input_mask", "input_type_ids")])
loss = model(inputs)
measured = {metric.name: metric.result().numpy() for metric in model.metrics}
write_tensors(out + "/expected_gelu_new.safetensors", {
    "sequence_output": sequence_output.numpy(),
    "pooled_output": pooled_output.numpy(),
    "mlm_logits": logits["masked_lm"].numpy(),
    "nsp_logits": logits["classification"].numpy(),
    "mlm_loss": measured["lm_example_loss"],
    "nsp_loss": measured["next_sentence_loss"],
    "total_loss": loss.numpy()[0],
})

for kind in ("encoder", "pretrainer"):
    program(
        "official.nlp.tools.tf2_bert_encoder_checkpoint_converter", f"bert_config_file={config_file}",
        f"checkpoint_to_convert={tf1}/bert_model.ckpt", f"converted_checkpoint_path={out}/converted/{kind}",
        f"converted_model={kind}", f"checkpoint_model_name={kind}")
os.remove(out + "/converted/checkpoint")
