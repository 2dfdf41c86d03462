#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_model_reference.py - what transformers computes for tiny models
#
# Writes models/ beside this script: sft.json (documents, batches, settings of
# the optimizer) and for each family a directory with
#   config.json, model.safetensors  as save_pretrained writes them
#   config_v4.json                  the same in the spelling of transformers 4
#   reference.safetensors           for the documents of the first step `logits`
#                                   (tokens, V) and the gradients as `grad.*`
#   reference.json                  losses and gradient norms of every step
# Made with transformers 5.23 and torch 2.6; needs nothing else.
import copy
import json
import pathlib
import shutil

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent / "models"
V, T, STEPS, IGNORE = 79, 32, 20, -100
LENGTHS = [[32, 5, 17, 11, 9, 6], [24, 1, 8, 20, 3, 13], [29, 10, 2, 15, 7, 12]]
BETAS, EPS, WEIGHT_DECAY, MAX_NORM = (0.9, 0.99), 1e-8, 0.01, 1.0
LR = [2e-3 * min(1, (k + 1) / 5) * (1 - k / (2 * STEPS)) for k in range(STEPS)]
SMOOTHING = 0.1

COMMON = {"vocab_size": V, "bos_token_id": 1, "eos_token_id": 2}
SIZES = dict(COMMON, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
FAMILIES = {
    "gpt2": transformers.GPT2Config(
        **COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=48,
        embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0),
    "llama": transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "llama_linear": transformers.LlamaConfig(
        **dict(SIZES, num_key_value_heads=4), tie_word_embeddings=True,
        attention_bias=True, mlp_bias=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0,
                         "factor": 2.0}),
    "mistral": transformers.MistralConfig(
        **SIZES, sliding_window=8, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "qwen2": transformers.Qwen2Config(
        **SIZES, tie_word_embeddings=True, use_sliding_window=True,
        sliding_window=8, max_window_layers=1,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen3": transformers.Qwen3Config(
        **SIZES, head_dim=16, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
}


def make_documents():
    """Steps of documents: ids, and which of them an assistant said. The id 0
    that pads is a token like any other."""
    def document(length):
        ids = torch.randint(V, (length,)).tolist()
        start, said = torch.randint(3, (1,)).item(), []
        while len(said) < length:
            said += [0] * start + [1] * (2 + start % 3)
            start = torch.randint(1, 6, (1,)).item()
        return {"ids": ids, "assistant": said[:length]}

    return [[document(n) for n in lengths] for lengths in LENGTHS]


def pack(documents):
    """Best-fit decreasing: rows of indices into documents."""
    rows, left = [], []
    sizes = [len(d["ids"]) for d in documents]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        fits = [r for r in range(len(rows)) if left[r] >= sizes[i]]
        if fits:
            best = min(fits, key=lambda r: left[r])
        else:
            best = len(rows)
            rows.append([])
            left.append(T)
        rows[best].append(i)
        left[best] -= sizes[i]
    return rows


class Batch:
    """Documents in rows: what the model is given, and where each one lies."""

    def __init__(self, documents, rows, assistant):
        shape = (len(rows), T)
        self.ids = torch.zeros(shape, dtype=torch.long)
        self.targets = torch.full(shape, IGNORE)
        self.positions = torch.zeros(shape, dtype=torch.long)
        self.places = [None] * len(documents)
        for r, row in enumerate(rows):
            at = 0
            for i in row:
                ids = torch.tensor(documents[i]["ids"])
                said = torch.tensor(documents[i]["assistant"]).bool()
                end = at + len(ids)
                target = ids[1:].clone()
                if assistant:
                    target[~said[1:]] = IGNORE
                self.ids[r, at:end] = ids
                self.targets[r, at:end - 1] = target
                self.positions[r, at:end] = torch.arange(len(ids))
                self.places[i] = (r, slice(at, end))
                at = end
            self.positions[r, at:] = torch.arange(T - at)

    def logits(self, model):
        """Without a mask, restarting positions are what packs documents."""
        return model(input_ids=self.ids, position_ids=self.positions,
                     use_cache=False).logits

    def loss(self, model, smoothing=0.0):
        logits = self.logits(model).flatten(0, 1)
        if logits.itemsize < 4:
            logits = logits.float()
        return F.cross_entropy(logits, self.targets.flatten(),
                               ignore_index=IGNORE, label_smoothing=smoothing)

    def by_document(self, logits):
        return torch.cat([logits[place] for place in self.places])


def make_model(config):
    """Far from the usual first values, so that no gradient is trivial."""
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if "norm" in name or "ln_" in name else 0.0, 0.15)
            if name.endswith("bias"):
                p.normal_(0.0, 0.15)
    return model.train()


def train(model, batches, smoothing=0.0, dtype=torch.float32, scale=1.0):
    """Losses and gradient norms; forward and backward in dtype, all else in
    fp32."""
    model = copy.deepcopy(model)
    worker = copy.deepcopy(model).to(dtype)
    params = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params if p.ndim > 1],
          "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0}],
        betas=BETAS, eps=EPS)
    losses, norms = [], []
    for k in range(STEPS):
        with torch.no_grad():
            for w, p in zip(worker.parameters(), params):
                w.copy_(p)
        worker.zero_grad()
        loss = batches[k % len(batches)].loss(worker, smoothing)
        (loss * scale).backward()
        for w, p in zip(worker.parameters(), params):
            p.grad = w.grad.to(p.dtype) / scale
        norms.append(torch.nn.utils.clip_grad_norm_(params, MAX_NORM).item())
        for group in optimizer.param_groups:
            group["lr"] = LR[k]
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "grad_norms": norms}


def compute_first(model, padded, packed):
    """Logits and gradients of the first step, the same in both layouts."""
    model = copy.deepcopy(model)
    padded.loss(model).backward()
    tensors = {"grad." + name: p.grad for name, p in model.named_parameters()}
    with torch.no_grad():
        tensors["logits"] = padded.by_document(padded.logits(model))
        again = packed.by_document(packed.logits(model))
    assert (again - tensors["logits"]).abs().max() < 1e-5
    return tensors


def compute_low(model, dtype, scale, packed, first):
    """How far the reference itself is off in bf16 or fp16."""
    def error(got, want):
        got, want = (torch.cat([x.flatten() for x in xs])
                     for xs in (got, want))
        return ((got - want).norm() / want.norm()).item()

    worker = copy.deepcopy(model).to(dtype)
    (packed[0].loss(worker) * scale).backward()
    grads = [(p.grad.float() / scale, first["grad." + name])
             for name, p in worker.named_parameters()]
    with torch.no_grad():
        logits = packed[0].by_document(packed[0].logits(worker)).float()
    return dict(train(model, packed, dtype=dtype, scale=scale),
                logits_error=error([logits], [first["logits"]]),
                grads_error=error(*zip(*grads)))


def write_v4(name, path):
    """The spelling of transformers 4, without what it left to defaults."""
    config = json.loads((path / "config.json").read_text())
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    config.pop("layer_types", None)
    if name != "qwen3":
        config.pop("head_dim", None)
    if name in ("gpt2", "llama"):
        del config["tie_word_embeddings"]
    if name == "llama_linear":
        del config["num_key_value_heads"]
    rope = config.pop("rope_parameters", None)
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        old = "type" if kind == "linear" else "rope_type"
        config["rope_scaling"] = (
            {old: kind, **rope} if kind != "default" else None)
    if name == "qwen3":  # a window that is not in use
        config["sliding_window"] = 8
    text = json.dumps(config, indent=2) + "\n"
    (path / "config_v4.json").write_text(text)


def check_v4(path, padded, want):
    other = path / "v4"
    other.mkdir()
    shutil.copy(path / "config_v4.json", other / "config.json")
    shutil.copy(path / "model.safetensors", other)
    model = AutoModelForCausalLM.from_pretrained(other)
    with torch.no_grad():
        got = padded.by_document(padded.logits(model))
    assert (got - want).abs().max() < 1e-5
    shutil.rmtree(other)


def off(a, b):
    return max(abs(x / y - 1) for x, y in zip(a["losses"], b["losses"]))


def make_family(name, config, steps):
    path = HERE / name
    batches = {
        (layout, said): [
            Batch(docs, pack(docs) if layout == "packed"
                  else [[i] for i in range(len(docs))], said)
            for docs in steps]
        for layout in ("padded", "packed") for said in (False, True)}
    padded, packed = batches["padded", False], batches["packed", False]
    make_model(config).save_pretrained(path)
    write_v4(name, path)
    model = AutoModelForCausalLM.from_pretrained(
        path, attn_implementation="eager").train()
    tensors = compute_first(model, padded[0], packed[0])
    save_file(tensors, path / "reference.safetensors", {"format": "pt"})
    check_v4(path, padded[0], tensors["logits"])
    runs = {
        "padded": train(model, padded),
        "packed": train(model, packed),
        "assistant": train(model, batches["padded", True]),
        "smoothed": train(model, batches["packed", True], SMOOTHING),
        "bf16": compute_low(model, torch.bfloat16, 1.0, packed, tensors),
        "fp16": compute_low(model, torch.float16, 128.0, packed, tensors),
    }
    double = train(model.double(), padded, dtype=torch.float64)
    print(f"{name}: loss {runs['padded']['losses'][0]:.3f} to "
          f"{runs['padded']['losses'][-1]:.3f}; largest relative difference: "
          f"packed {off(runs['packed'], runs['padded']):.1g}, "
          f"float64 {off(double, runs['padded']):.1g}, "
          f"bf16 {off(runs['bf16'], runs['packed']):.1g}, "
          f"fp16 {off(runs['fp16'], runs['packed']):.1g}")
    (path / "reference.json").write_text(json.dumps(runs) + "\n")
    (path / "generation_config.json").unlink()
    for file in path.iterdir():
        file.chmod(0o644)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    steps = make_documents()
    for name, config in FAMILIES.items():
        make_family(name, config, steps)
    (HERE / "sft.json").write_text(json.dumps({
        "transformers": transformers.__version__, "torch": torch.__version__,
        "T": T, "lr": LR, "betas": BETAS, "eps": EPS,
        "weight_decay": WEIGHT_DECAY, "max_norm": MAX_NORM,
        "label_smoothing": SMOOTHING,
        "packing": [pack(docs) for docs in steps], "steps": steps}) + "\n")


if __name__ == "__main__":
    main()
