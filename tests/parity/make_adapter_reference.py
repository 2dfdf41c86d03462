#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_adapter_reference.py - what PEFT computes with adapters of tiny models
#
# Writes, beside the models of make_model_reference.py, adapters/<name>/ with
# adapter_config.json and adapter_model.safetensors as PEFT saves them before
# the first step, and adapters.json with losses and gradient norms of 20 steps
# on the same batches. Pairs begin with random B, so that no gradient is 0.
# Also families.json: losses and norms of five steps beside some variants of
# make_family_reference.py, whose pairs are hashes of their names, too.
# Made with PEFT 0.21, transformers 5.23 and torch 2.15; needs nothing else.
import json
import shutil

import peft
import torch
from transformers import AutoModelForCausalLM

import make_family_reference as families
from make_model_reference import (BETAS, EPS, HERE, LR, MAX_NORM, STEPS,
                                  WEIGHT_DECAY, Batch)

OUT = HERE.parent / "adapters"
ALL = "all-linear"
CASES = {
    "gpt2": dict(r=4, lora_alpha=8, target_modules=ALL),
    "llama": dict(r=4, lora_alpha=6, target_modules=ALL,
                  modules_to_save=["lm_head"]),
    "llama_linear": dict(r=3, lora_alpha=8),
    "mistral": dict(r=5, lora_alpha=8, use_rslora=True,
                    target_modules=["q_proj", "k_proj", "v_proj",
                                    "down_proj"]),
    "qwen2": dict(r=4, lora_alpha=8, target_modules=["k_proj", "up_proj"]),
    "qwen3": dict(r=2, lora_alpha=16, target_modules=["self_attn.o_proj",
                                                      "gate_proj"],
                  modules_to_save=["layernorm"]),
}
VARIANTS = {
    "gemma2": dict(r=4, lora_alpha=8, target_modules=ALL,
                   modules_to_save=["input_layernorm"]),
    "gemma3 scaled": dict(r=3, lora_alpha=12),
    "granite with biases": dict(r=4, lora_alpha=4, target_modules=ALL),
    "olmo2": dict(r=2, lora_alpha=8, target_modules=["o_proj", "down_proj"],
                  modules_to_save=["q_norm", "lm_head"]),
    "phi3": dict(r=4, lora_alpha=8, target_modules=ALL),
    "phi3 in part": dict(r=5, lora_alpha=10, use_rslora=True,
                         target_modules=["qkv_proj", "gate_up_proj"]),
    "smollm3 with windows": dict(r=4, lora_alpha=8, target_modules=ALL),
}


def make_adapter(name, keys):
    model = AutoModelForCausalLM.from_pretrained(
        HERE / name, attn_implementation="eager")
    config = peft.LoraConfig(task_type="CAUSAL_LM",
                             fan_in_fan_out=name == "gpt2", **keys)
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.normal_(0.0, 0.1)
    return model


def train(model, batches):
    model.train()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params if p.ndim > 1],
          "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0}],
        betas=BETAS, eps=EPS)
    losses, norms = [], []
    for k in range(STEPS):
        optimizer.zero_grad()
        loss = batches[k % len(batches)].loss(model)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params, MAX_NORM).item())
        for group in optimizer.param_groups:
            group["lr"] = LR[k]
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "grad_norms": norms}


def train_variant(name, keys):
    model, _ = families.create(*families.VARIANTS[name])
    model = peft.get_peft_model(
        model, peft.LoraConfig(task_type="CAUSAL_LM", **keys))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_" in key:
                stored = key.replace(".default", "")
                p.copy_(families.hashes(stored, p.numel()).view(p.shape) / 4)
    losses, norms = families.train(model, families.documents())
    print(name, losses[0], losses[-1])
    return dict(keys, losses=losses, norms=norms)


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    shutil.rmtree(OUT, ignore_errors=True)
    steps = json.loads((HERE / "sft.json").read_text())["steps"]
    batches = [Batch(docs, [[i] for i in range(len(docs))], False)
               for docs in steps]
    runs = {}
    for name, keys in CASES.items():
        model = make_adapter(name, keys)
        model.save_pretrained(OUT / name)
        path = OUT / name / "adapter_config.json"
        config = json.loads(path.read_text())
        config["base_model_name_or_path"] = "../../models/" + name
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        (OUT / name / "README.md").unlink()
        runs[name] = train(model, batches)
        print(name, runs[name]["losses"][0], runs[name]["losses"][-1])
    (OUT / "adapters.json").write_text(json.dumps(dict(
        peft=peft.__version__, **runs)) + "\n")
    (OUT / "families.json").write_text(json.dumps({
        name: train_variant(name, keys)
        for name, keys in VARIANTS.items()}).replace("}, ", "},\n") + "\n")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
