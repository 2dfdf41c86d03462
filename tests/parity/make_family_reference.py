#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_family_reference.py - what transformers computes in each family's variants
#
# Writes families.json beside this script: for each variant its config.json and,
# for the same few documents,
#   logits   of each token the dot product with a vector of hashes
#   bf16     how far bf16 moves the logits, relative root of the mean square
#   grads    of each parameter its shape, norm, and the dot product with hashes
#   losses, norms  of five steps of AdamW on all documents
#   greedy   what follows the first document, token by token
# Weights are hashes of their names, so that none is stored: see fill() here and
# in test_families.c. The documents contain the id of padding, of which the row
# of the embedding has no gradient as an input. Made with transformers 5.24 and
# torch 2.15.
import copy
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
V, LENGTHS, PROMPT, NEW, STEPS = 79, [21, 13, 6], 9, 20, 5
LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 2e-3, (0.9, 0.99), 1e-8, 0.01, 1.0

COMMON = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 20,
          "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 128,
          "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 64}
FULL, SLIDING = "full_attention", "sliding_attention"


def rope(kind, theta=1e4, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


SHORT, LONG = [1.0, 1.25, 1.5], [2.0, 3.5, 6.0]
GRANITE = {"embedding_multiplier": 6.0, "residual_multiplier": 0.5,
           "attention_multiplier": 0.125, "logits_scaling": 4.0}
VARIANTS = {
    "gemma2": ("gemma2", dict(
        head_dim=8, query_pre_attn_scalar=12, sliding_window=5,
        attn_logit_softcapping=2.0, final_logit_softcapping=6.0)),
    "gemma2 without caps": ("gemma2", dict(
        head_dim=6, attention_bias=True, attn_logit_softcapping=None,
        final_logit_softcapping=None, tie_word_embeddings=False,
        sliding_window=4, layer_types=[FULL, SLIDING],
        hidden_activation="silu", **rope("yarn", factor=4.0))),
    "gemma3": ("gemma3_text", dict(
        head_dim=8, query_pre_attn_scalar=12, sliding_window=5,
        num_hidden_layers=3, layer_types=[SLIDING, SLIDING, FULL])),
    "gemma3 scaled": ("gemma3_text", dict(
        head_dim=10, sliding_window=3, layer_types=[FULL, SLIDING],
        final_logit_softcapping=8.0, rope_parameters={
            FULL: {"rope_type": "linear", "rope_theta": 1e5, "factor": 8.0},
            SLIDING: {"rope_type": "default", "rope_theta": 100.0}})),
    "granite": ("granite", GRANITE),
    "granite with biases": ("granite", dict(
        GRANITE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        **rope("dynamic", factor=2.0))),
    "olmo2": ("olmo2", {}),
    "olmo2 with biases": ("olmo2", dict(
        num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True,
        **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=32))),
    "phi3": ("phi3", {}),
    "phi3 in part": ("phi3", dict(
        hidden_size=32, num_hidden_layers=1, sliding_window=7,
        tie_word_embeddings=True, partial_rotary_factor=0.75,
        original_max_position_embeddings=64,
        **rope("longrope", short_factor=SHORT, long_factor=LONG))),
    "phi3 beyond": ("phi3", dict(
        original_max_position_embeddings=10,
        **rope("longrope", short_factor=SHORT, long_factor=LONG))),
    "smollm3": ("smollm3", dict(
        num_hidden_layers=3, no_rope_layers=[1, 0, 1])),
    "smollm3 with windows": ("smollm3", dict(
        num_hidden_layers=4, use_sliding_window=True, sliding_window=6,
        no_rope_layer_interval=2, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=False)),
    "llama yarn": ("llama", rope("yarn", factor=4.0, beta_fast=16.0,
                                 original_max_position_embeddings=32)),
    "llama yarn, not truncated": ("llama", dict(
        head_dim=16, **rope("yarn", factor=8.0, mscale=0.7, mscale_all_dim=1.1,
                            truncate=False,
                            original_max_position_embeddings=16))),
    "llama longrope": ("llama", rope(
        "longrope", short_factor=SHORT, long_factor=LONG, attention_factor=1.2,
        factor=4.0, original_max_position_embeddings=64)),
    "llama with gelu": ("llama", {"hidden_act": "gelu_pytorch_tanh"}),
    "qwen2 yarn": ("qwen2", rope("yarn", theta=1e6, factor=4.0,
                                 attention_factor=1.1,
                                 original_max_position_embeddings=32)),
    "qwen3 interleaved": ("qwen3", dict(
        head_dim=8, num_hidden_layers=3, use_sliding_window=True,
        sliding_window=4, layer_types=[SLIDING, FULL, SLIDING])),
    "mistral interleaved": ("mistral", dict(
        head_dim=6, num_hidden_layers=3, sliding_window=4,
        layer_types=[FULL, SLIDING, FULL])),
}


def hashes(name, count):
    """splitmix64 from FNV-1a of the name, as floats of [-1, 1) with 24 bits."""
    seed = np.uint64(0xcbf29ce484222325)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(0x100000001b3)
        x = seed + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9e3779b97f4a7c15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        x ^= x >> np.uint64(31)
    return torch.from_numpy(
        (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - 1)


def fill(model, shifted):
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale, one = (0.25, 1.0) if p.ndim == 1 else (0.375, 0.0)
            if name.endswith("bias") or shifted:
                one = 0.0
            p.copy_((hashes(name, p.numel()) * scale + one).view(p.shape))


def documents():
    return [((hashes(f"document {i}", n) + 1) * (V / 2)).long()
            for i, n in enumerate(LENGTHS)]


def all_logits(model, docs):
    """Each document by itself."""
    return [model(d[None], use_cache=False).logits[0] for d in docs]


def mean_loss(model, docs):
    total = sum(F.cross_entropy(x[:-1].float(), d[1:], reduction="sum")
                for x, d in zip(all_logits(model, docs), docs))
    return total / sum(len(d) - 1 for d in docs)


def project(x, name):
    return (x.double() * hashes(name, x.numel()).view(x.shape).double()).sum(
        ).item()


def short(x):
    return float(f"{x:.8g}")


def train(model, docs, mean_loss=mean_loss):
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params if p.ndim > 1],
          "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0}],
        lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(model, docs)
        loss.backward()
        norms.append(short(torch.nn.utils.clip_grad_norm_(
            params, MAX_NORM).item()))
        optimizer.step()
        losses.append(short(loss.item()))
    return losses, norms


def greedy(model, ids):
    """Without a cache; the difference of the two best must not be luck."""
    out = []
    with torch.no_grad():
        for _ in range(NEW):
            best = model(ids[None], use_cache=False).logits[0, -1].topk(2)
            assert best.values[0] - best.values[1] > 2e-5
            out.append(best.indices[0].item())
            ids = torch.cat([ids, best.indices[:1]])
    return out


def create(family, changes):
    """A filled model, and its config.json."""
    with tempfile.TemporaryDirectory() as top:
        path = pathlib.Path(top)
        (path / "config.json").write_text(json.dumps(
            {"model_type": family, **COMMON, **changes}))
        config = AutoConfig.from_pretrained(path)
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", dtype=torch.float32).eval()
        fill(model, family.startswith("gemma"))
        model.save_pretrained(path)
        text = json.loads((path / "config.json").read_text())
    if config.model_type == "ministral":  # what AutoModel makes of mistral
        text.update(model_type="mistral",
                    architectures=["MistralForCausalLM"])
    return model, text


def make(name, family, changes):
    model, text = create(family, changes)
    docs = documents()
    mean_loss(model, docs).backward()
    grads = {n: [list(p.shape), short(p.grad.norm().item()),
                 short(project(p.grad, n))]
             for n, p in model.named_parameters()}
    with torch.no_grad():
        logits = torch.cat(all_logits(model, docs))
        low = torch.cat(all_logits(copy.deepcopy(model).bfloat16(), docs))
    result = {
        "config": text,
        "logits": [short(project(x, "logits")) for x in logits],
        "bf16": short(((low.float() - logits).norm() / logits.norm()).item()),
        "grads": grads,
        "greedy": greedy(model, docs[0][:PROMPT]),
    }
    result["losses"], result["norms"] = train(model, docs)
    print(f"{name}: loss {result['losses'][0]:.4g} to "
          f"{result['losses'][-1]:.4g}, bf16 {result['bf16']:.2g}")
    return result


def main():
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    names = sys.argv[1:] or VARIANTS
    out = {"transformers": transformers.__version__, "torch": torch.__version__,
           "ids": [d.tolist() for d in documents()], "prompt": PROMPT,
           "lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": WEIGHT_DECAY,
           "max_norm": MAX_NORM,
           "variants": {n: make(n, *VARIANTS[n]) for n in names}}
    lines = json.dumps(out, separators=(",", ":"))
    (HERE / "families.json").write_text(
        lines.replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
