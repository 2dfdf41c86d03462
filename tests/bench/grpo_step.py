#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grpo_step.py - optimizer steps of GRPO on a random model, timed.

In TRL, as the Python that runs it has it, or with --disttrain PROGRAM in
disttrain: the same shape, tokenizer, prompts, numbers of completions and rule
reward, sampling with a cache of keys and values, the whole batch in one forward
pass, AdamW and clipping. TRL gets fused AdamW, no checkpointing of activations
and a plain function as its reward. Weights are random, so that completions end
by chance, and hardly before their longest length. With --reward S the reward of
disttrain is a program that takes S seconds for those of a step. Prints one line
of JSON, as torch_step.py does; tokens are those of prompts and completions.
"""
import argparse
import contextlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

SHAPES = {  # model, prompts, completions of each, tokens of both
    "tiny": ({"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 257},
             8, 8, 16, 16),
    "gpt2": ({"n_embd": 768, "n_layer": 12, "n_head": 12,
              "vocab_size": 50257}, 8, 8, 64, 64),
}

CONFIG = """\
algorithm: grpo
run: {{output_dir: "{dir}/out", seed: 1, device: cpu}}
model: {{config_path: "{dir}", init: random, tokenizer: "{dir}"}}
precision: {{compute: fp32}}
data: {{train: "{dir}/prompts.jsonl", max_prompt_length: {prompt},
       chat_template: none}}
rollout: {{max_completion_length: {completion}, log_every: 0,
          overlap: {overlap}}}
grpo: {{num_generations: {copies}}}
reward: {{functions: [{reward}]}}
training: {{per_device_batch_size: {batch}, max_steps: {total},
           max_grad_norm: 1.0}}
optimizer: {{lr: 1.0e-6, weight_decay: 0.0}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""

# A program that answers each request after a while.
SLOW = """\
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if "samples" not in request:
        reply = {"ready": True, "abi": 1}
    else:
        time.sleep(float(sys.argv[1]) * len(request["samples"]))
        reply = {"id": request["id"], "rewards": [
            len(set(s["completion"])) for s in request["samples"]]}
    print(json.dumps(reply), flush=True)
"""


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--disttrain", help="the program; else TRL")
    p.add_argument("--model", choices=SHAPES, default="tiny")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--reward", type=float, help="seconds that rewards take")
    p.add_argument("--overlap", type=int, default=0, choices=(0, 1))
    p.add_argument("--suffix", default="", help="to the name in the result")
    return p.parse_args()


def byte_letters():
    """The letter of each byte in tokenizers of the kind of GPT-2."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown}
    letters.update({b: chr(256 + i) for i, b in enumerate(hidden)})
    return [letters[b] for b in range(256)]


def write_model(work, shape, prompt_tokens, rows):
    """config.json, tokenizer.json and prompts of one token a letter."""
    count = shape["vocab_size"]
    words = byte_letters() + [f"unused{i}" for i in range(256, count - 1)]
    vocab = {w: i for i, w in enumerate(words + ["<|end|>"])}
    level = {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}
    files = {
        "config.json": {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
            "n_positions": 1024, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
            "resid_pdrop": 0.0, "bos_token_id": count - 1,
            "eos_token_id": count - 1, **shape},
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{
                "id": count - 1, "content": "<|end|>", "special": True,
                "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False}],
            "normalizer": None, "pre_tokenizer": level,
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []}},
        "tokenizer_config.json": {"eos_token": "<|end|>",
                                  "pad_token": "<|end|>"},
    }
    for name, content in files.items():
        with open(f"{work}/{name}", "w", encoding="utf-8") as f:
            json.dump(content, f)
    random.seed(1)
    with open(f"{work}/prompts.jsonl", "w", encoding="utf-8") as f:
        for _ in range(rows):
            text = "".join(random.choices("abcdefgh", k=prompt_tokens))
            f.write(json.dumps({"prompt": text}) + "\n")


def disttrain(args, work, prompts, copies, prompt, completion):
    config = f"{work}/config.yaml"
    reward = f"{{type: length, shape: target, tokens: {completion // 2}}}"
    if args.reward is not None:
        with open(f"{work}/slow.py", "w", encoding="utf-8") as f:
            f.write(SLOW)
        each = args.reward / (prompts * copies)
        reward = f'{{type: command, command: ["{sys.executable}", ' \
            f'"{work}/slow.py", "{each}"]}}'
    with open(config, "w", encoding="utf-8") as f:
        f.write(CONFIG.format(
            reward=reward, overlap=args.overlap, dir=work, prompt=prompt, completion=completion, copies=copies,
            batch=prompts * copies,
            total=args.warmup + args.steps))
    output = subprocess.run([args.disttrain, "train", config], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    sys.stderr.write(output)
    with open(f"{work}/metrics.jsonl", encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    peak = re.search(r"peak memory of rank 0 ([0-9.]+) ([GM])iB", output)
    return {
        "name": "disttrain",
        "peak_mb": round(float(peak[1]) * (1024 if peak[2] == "G" else 1)),
        "mean_length": lines[-1]["completions/mean_length"],
    }, [x["time"] for x in lines]


def trl(args, work, prompts, copies, prompt, completion):
    import torch
    import trl as library
    from datasets import load_dataset
    from transformers import (AutoConfig, AutoModelForCausalLM,
                              AutoTokenizer, TrainerCallback)

    class Clock(TrainerCallback):
        times = []

        def on_step_end(self, *_, **__):
            self.times.append(time.perf_counter())

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.manual_seed(1)
    half = completion // 2
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(work))
    trainer = library.GRPOTrainer(
        model=model, processing_class=AutoTokenizer.from_pretrained(work),
        reward_funcs=lambda completion_ids, **_: [
            1 - abs(len(ids) - half) / half for ids in completion_ids],
        train_dataset=load_dataset(
            "json", data_files=f"{work}/prompts.jsonl", split="train"),
        callbacks=[Clock()],
        args=library.GRPOConfig(
            output_dir=f"{work}/out", use_cpu=True, bf16=False,
            per_device_train_batch_size=prompts * copies,
            num_generations=copies, max_completion_length=completion,
            max_steps=args.warmup + args.steps, learning_rate=1e-6,
            lr_scheduler_type="constant", gradient_checkpointing=False,
            optim="adamw_torch_fused", save_strategy="no", report_to="none",
            logging_steps=1, disable_tqdm=True, temperature=1.0))
    with contextlib.redirect_stdout(sys.stderr):  # where it shows its losses
        trainer.train()
    lengths = [x["completions/mean_length"] for x in trainer.state.log_history
               if "completions/mean_length" in x]
    return {
        "name": f"TRL {library.__version__}",
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "mean_length": lengths[-1],
    }, Clock.times


def main():
    args = parse()
    shape, prompts, copies, prompt, completion = SHAPES[args.model]
    with tempfile.TemporaryDirectory() as work:
        write_model(work, shape, prompt, prompts * 64)
        run = disttrain if args.disttrain else trl
        result, times = run(args, work, prompts, copies, prompt, completion)
    times = times[args.warmup - 1:]
    result["name"] += args.suffix
    print(json.dumps(dict(
        result, tokens=prompts * copies * (prompt + completion),
        batch=prompts * copies,
        seconds=[round(b - a, 6) for a, b in zip(times, times[1:])])))


if __name__ == "__main__":
    main()
