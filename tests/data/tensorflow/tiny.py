"""The model, the vocabulary and the batch of the recipes beside this file."""
import json

import numpy as np
from safetensors.numpy import save_file

# Sizes that all differ, so that no axis can be taken for another.
CONFIG = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 6,
    "initializer_range": 0.3,
    "intermediate_size": 10,
    "max_position_embeddings": 16,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 30,
}
WORDS = "the a dog cat bird man sees hears calls and sings runs here there now then big small old new".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", ",", "##s", "##ing", "##er"]
B, S, P = 3, 14, 4


def batch():
    draw = np.random.default_rng(3)
    lengths = np.array([S, 9, 5])
    mask = (np.arange(S) < lengths[:, None]).astype(np.int32)
    ids = draw.integers(5, CONFIG["vocab_size"], (B, S)).astype(np.int32) * mask
    ids[:, 0] = VOCABULARY.index("[CLS]")
    segments = (np.arange(S) >= lengths[:, None] // 2).astype(np.int32) * mask
    positions = np.stack([np.sort(draw.choice(np.arange(1, n), P, replace=False)) for n in lengths])
    weights = np.ones((B, P), np.float32)
    weights[1, 3] = weights[2, 2:] = 0
    labels = np.where(weights > 0, np.take_along_axis(ids, positions, 1), 0)
    np.put_along_axis(ids, positions[:, :2], VOCABULARY.index("[MASK]"), 1)
    return {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": segments,
        "masked_lm_positions": (positions * (weights > 0)).astype(np.int32),
        "masked_lm_ids": labels.astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": np.array([[0], [1], [0]], np.int32),
    }


BATCH = batch()


def write_config(out):
    """`bert_config.json` and `vocab.txt`, as they lie beside a released checkpoint."""
    assert len(VOCABULARY) == CONFIG["vocab_size"], len(VOCABULARY)
    with open(out + "/bert_config.json", "w") as file:
        json.dump(CONFIG, file, indent=2)
    with open(out + "/vocab.txt", "w") as file:
        file.write("\n".join(VOCABULARY) + "\n")


def write_tensors(path, tensors):
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)
