#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_step.py - the same steps as torch_step.py in disttrain, timed.

Writes a configuration for a random model of a given shape (GPT-2 124M, those of
Qwen2.5-0.5B and -1.5B, a tiny GPT-2, or that of a config.json), trains with it, alone or as --ranks tasks
of srun on as many nodes, and prints the same line of JSON as torch_step.py.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time

from disttrain_run import peak_mb

CONFIG = """\
algorithm: sft
run: {{output_dir: "{dir}/out", seed: 1, device: {device}}}
model: {{config_path: "{dir}", init: random, attention: {attention}}}
precision: {{compute: {precision}}}
data: {{train: "{data}", format: tokens_bin, max_length: {tokens}}}
training: {{per_device_batch_size: {batch}, max_steps: {total},
           gradient_accumulation_steps: {accumulate}, max_grad_norm: 1.0}}
optimizer: {{lr: 1.0e-4, weight_decay: 0.1}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
distributed: {{strategy: {strategy}}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""

GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
        "n_embd": 768, "n_layer": 12, "n_head": 12, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0, "resid_pdrop": 0.0}
LLAMA = {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896,
         "intermediate_size": 4864, "num_hidden_layers": 24,
         "num_attention_heads": 14, "num_key_value_heads": 2,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-06,
         "rope_theta": 1000000.0, "tie_word_embeddings": True,
         "hidden_act": "silu"}
MODELS = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "llama-1.5b": {**LLAMA, "hidden_size": 1536, "intermediate_size": 8960,
                   "num_hidden_layers": 28, "num_attention_heads": 12},
    "tiny": {**GPT2, "vocab_size": 256, "n_positions": 64, "n_embd": 16,
             "n_layer": 2, "n_head": 2},
}


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", help="a shard of tokens")
    p.add_argument("--print-model", action="store_true",
                   help="print config.json, do nothing else")
    p.add_argument("--disttrain", default="disttrain", help="the program")
    p.add_argument("--ranks", type=int, default=1, help="by srun if > 1")
    p.add_argument("--nodes", type=int, help="for these; default: one each")
    p.add_argument("--strategy", default="ddp",
                   help="zero1 ..., and other keys of distributed behind it: "
                   "'zero3, shard_group: world'")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--accumulate", type=int, default=1,
                   help="forward passes in a step")
    p.add_argument("--model", choices=MODELS, default="gpt2")
    p.add_argument("--config", help="a config.json in place of the model")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    return p.parse_args()


def card_memory():
    """MiB in use on the GPU as its driver counts, None if nothing says so."""
    command = ["nvidia-smi", "--query-gpu=memory.used",
               "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.check_output(command, timeout=20).split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def watch(command, args):
    """Runs it, and returns what it printed, seconds to the end of the first
    step, and the memory of the card after the warm-up."""
    start = time.perf_counter()
    first, card, output = None, None, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if first is None and line.startswith("step 1/"):
                first = time.perf_counter() - start
            if args.device == "cuda" and line.startswith(
                    f"step {args.warmup}/"):
                card = card_memory()
            output.append(line)
            sys.stderr.write(line)
    if run.returncode != 0:
        sys.exit(f"disttrain_step.py: {command[0]}: exit status "
                 f"{run.returncode}")
    return "".join(output), first, card


def shape(args):
    """The content of config.json."""
    if not args.config:
        return MODELS[args.model]
    with open(args.config, encoding="utf-8") as f:
        return json.load(f)


def attention(args):
    """On a GPU cuDNN's or none: another would be measured without a word."""
    fused = args.device == "cuda" and args.precision != "fp32"
    return "flash" if fused else "auto"


def train(args, work):
    """Trains; returns what watch does, and the lines of the metrics."""
    with open(f"{work}/config.json", "w", encoding="utf-8") as f:
        json.dump(shape(args), f)
    config = f"{work}/config.yaml"
    with open(config, "w", encoding="utf-8") as f:
        f.write(CONFIG.format(dir=work, total=args.warmup + args.steps,
                              attention=attention(args), **vars(args)))
    command = [args.disttrain, "train", config]
    if args.ranks > 1:
        command = ["srun", f"-N{args.nodes or args.ranks}",
                   f"-n{args.ranks}", f"--disttrain={config}"]
    seen = watch(command, args)
    with open(f"{work}/metrics.jsonl", encoding="utf-8") as f:
        return *seen, [json.loads(line) for line in f]


def main():
    args = parse()
    if args.print_model:
        print(json.dumps(MODELS[args.model]))
        return
    with tempfile.TemporaryDirectory() as work:
        output, first, card, lines = train(args, work)
    tokens = args.batch * args.accumulate * args.tokens * args.ranks
    lines = lines[args.warmup:]
    result = {
        "name": "disttrain" + (
            f" {args.strategy}" if args.strategy != "ddp" else ""),
        "tokens": tokens,
        "batch": args.batch,
        "first_s": first,
        "seconds": [round(tokens / x["tokens_per_s"], 6) for x in lines],
        "peak_mb": peak_mb(output),
        "loss": lines[-1]["loss"],
    }
    if card is not None:
        result["card_mb"] = card
    print(json.dumps(result))


if __name__ == "__main__":
    main()
