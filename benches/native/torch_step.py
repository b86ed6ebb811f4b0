"""A pre-training step of Hugging Face's BertForPreTraining in PyTorch, on the CPU:

    OMP_WAIT_POLICY=PASSIVE python3 torch_step.py MODEL_SIZE VOCAB_SIZE STEPS gathered|default

`gathered` projects the masked positions alone onto the vocabulary, as this project does; `default` is what a user of Hugging
Face gets: every position. Forward with dropout, both losses, backward, clipping to norm 1, AdamW; 8 sequences of 128 tokens
with 20 predictions, padded from token 120 on. Prints one JSON object. Needs `pip install torch transformers`.
"""

import json
import statistics
import sys
import time

import torch
import transformers
from torch.nn.functional import cross_entropy

CONFIGS = {"tiny": (2, 128, 2, 512), "mini": (4, 256, 4, 1024), "small": (4, 512, 8, 2048)}
SEQUENCES, TOKENS, PREDICTIONS, LENGTH = 8, 128, 20, 120
WARMUP_STEPS = 2

size, vocab_size, steps, head = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
layers, hidden, heads, intermediate = CONFIGS[size]
torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=vocab_size, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=intermediate
)
model = transformers.BertForPreTraining(config).train()
named = list(model.named_parameters())
undecayed = [name for name, _ in named if name.endswith("bias") or "LayerNorm" in name]
groups = [
    {"params": [p for name, p in named if name not in undecayed], "weight_decay": 0.01},
    {"params": [p for name, p in named if name in undecayed], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6)

ids = torch.randint(vocab_size, (SEQUENCES, TOKENS))
types = (torch.arange(TOKENS) >= TOKENS // 2).long().expand(SEQUENCES, -1)
mask = (torch.arange(TOKENS) < LENGTH).long().expand(SEQUENCES, -1)
positions = torch.stack([torch.randperm(LENGTH)[:PREDICTIONS].sort().values for _ in range(SEQUENCES)])
targets = torch.randint(vocab_size, (SEQUENCES, PREDICTIONS))
labels = torch.full((SEQUENCES, TOKENS), -100).scatter_(1, positions, targets)
rows = (positions + torch.arange(SEQUENCES)[:, None] * TOKENS).flatten()
next_labels = torch.randint(2, (SEQUENCES,))


def loss():
    batch = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
    if head == "default":
        return model(**batch, labels=labels, next_sentence_label=next_labels).loss
    output = model.bert(**batch)
    logits = model.cls.predictions(output.last_hidden_state.flatten(0, 1)[rows])
    next_logits = model.cls.seq_relationship(output.pooler_output)
    return cross_entropy(logits, targets.flatten()) + cross_entropy(next_logits, next_labels)


def step():
    start = time.perf_counter()
    loss().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return (time.perf_counter() - start) * 1e3


times = [step() for _ in range(WARMUP_STEPS + steps)][WARMUP_STEPS:]
versions = f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads"
print(json.dumps({"name": versions, "step_ms": statistics.median(times), "min_step_ms": min(times), "loss": loss().item()}))
