#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_gpt2_reference.py - what PyTorch computes for a tiny GPT-2
#
# Writes gpt2_tiny.safetensors (weights, logits, gradients under `grad.`) and
# gpt2_tiny.json (config, batch, the loss of every step) beside this script.
# Needs Debian's python3-torch and nothing else: the model is written out here
# in plain operations, with the names and weight orders of Hugging Face.
import json
import math
import os
import struct

import torch
import torch.nn.functional as F

CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 97,
    "n_positions": 24,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "layer_norm_epsilon": 1e-5,
}
B, T, STEPS = 3, 16, 20
ADAMW = {"lr": 2e-3, "betas": (0.9, 0.99), "eps": 1e-8}
WEIGHT_DECAY, MAX_NORM = 0.1, 1.0
IGNORE = -100


def make_parameters():
    """Far from their usual first values, so that no gradient is trivial."""
    V, P, C = (CONFIG[k] for k in ("vocab_size", "n_positions", "n_embd"))
    params = {}

    def add(name, *shape, mean=0.0, std=0.15):
        p = mean + std * torch.randn(*shape)
        params["transformer." + name] = p.requires_grad_()

    add("wte.weight", V, C)
    add("wpe.weight", P, C)
    for i in range(CONFIG["n_layer"]):
        for ln in ("ln_1", "ln_2"):
            add(f"h.{i}.{ln}.weight", C, mean=1.0)
            add(f"h.{i}.{ln}.bias", C)
        for name, c_in, c_out in (
            ("attn.c_attn", C, 3 * C),
            ("attn.c_proj", C, C),
            ("mlp.c_fc", C, 4 * C),
            ("mlp.c_proj", 4 * C, C),
        ):
            add(f"h.{i}.{name}.weight", c_in, c_out)
            add(f"h.{i}.{name}.bias", c_out)
    add("ln_f.weight", C, mean=1.0)
    add("ln_f.bias", C)
    return params


def forward(params, ids):
    def p(name):
        return params["transformer." + name]

    def norm(x, name):
        return F.layer_norm(x, (x.shape[-1],), p(name + ".weight"),
                            p(name + ".bias"), CONFIG["layer_norm_epsilon"])

    def conv1d(x, name):
        return x @ p(name + ".weight") + p(name + ".bias")

    def attention(x, i):
        rows, length, C = x.shape
        heads = CONFIG["n_head"]
        q, k, v = (
            part.view(rows, length, heads, C // heads).transpose(1, 2)
            for part in conv1d(x, f"h.{i}.attn.c_attn").split(C, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // heads)
        later = torch.ones(length, length).triu(1).bool()
        y = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(rows, length, C)
        return conv1d(y, f"h.{i}.attn.c_proj")

    def mlp(x, i):
        x = conv1d(x, f"h.{i}.mlp.c_fc")
        x = 0.5 * x * (1 + torch.tanh(
            math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return conv1d(x, f"h.{i}.mlp.c_proj")

    x = p("wte.weight")[ids] + p("wpe.weight")[:ids.shape[1]]
    for i in range(CONFIG["n_layer"]):
        x = x + attention(norm(x, f"h.{i}.ln_1"), i)
        x = x + mlp(norm(x, f"h.{i}.ln_2"), i)
    return norm(x, "ln_f") @ p("wte.weight").T


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        end = offset + 4 * t.numel()
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.numpy().tobytes())


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    params = make_parameters()
    first = {name: p.detach().clone() for name, p in params.items()}
    tokens = torch.randint(CONFIG["vocab_size"], (B, T + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[0, :5] = IGNORE
    targets[2, 11] = IGNORE

    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params.values() if p.ndim > 1],
          "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in params.values() if p.ndim == 1],
          "weight_decay": 0.0}], **ADAMW)
    losses, norms, result = [], [], None
    for _ in range(STEPS):
        logits = forward(params, inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                               ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        if result is None:
            result = dict(first, logits=logits.detach())
            result.update(("grad." + name, p.grad.clone())
                          for name, p in params.items())
        norm = torch.nn.utils.clip_grad_norm_(params.values(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())

    here = os.path.dirname(os.path.abspath(__file__))
    write_safetensors(os.path.join(here, "gpt2_tiny.safetensors"), result)
    with open(os.path.join(here, "gpt2_tiny.json"), "w") as f:
        json.dump({
            "torch": torch.__version__, "config": CONFIG,
            "lr": ADAMW["lr"], "betas": ADAMW["betas"], "eps": ADAMW["eps"],
            "weight_decay": WEIGHT_DECAY, "max_norm": MAX_NORM,
            "inputs": inputs.tolist(), "targets": targets.tolist(),
            "losses": losses, "grad_norms": norms}, f)
        f.write("\n")


if __name__ == "__main__":
    main()
