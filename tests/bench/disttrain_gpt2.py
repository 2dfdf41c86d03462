#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_gpt2.py - the same steps as torch_gpt2.py in disttrain, timed.

Writes a configuration for a random model of the given shape, trains with it,
alone or as --ranks tasks of srun on as many nodes, and prints the same line of
JSON as torch_gpt2.py.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile

CONFIG = """\
algorithm: sft
run: {{output_dir: "{dir}/out", seed: 1}}
model: {{vocab_size: {vocab}, n_positions: {positions}, n_embd: {width},
        n_layer: {layers}, n_head: {heads}, init: random}}
data: {{train: "{data}", format: tokens_bin, max_length: {tokens}}}
training: {{per_device_batch_size: {batch}, max_steps: {total},
           max_grad_norm: 1.0}}
optimizer: {{lr: 1.0e-4, weight_decay: 0.1}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no"}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", required=True, help="a shard of tokens")
    p.add_argument("--disttrain", default="disttrain", help="the program")
    p.add_argument("--ranks", type=int, default=1, help="by srun if > 1")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--vocab", type=int, default=50257)
    p.add_argument("--positions", type=int, default=1024)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    return p.parse_args()


def train(args, work):
    """Runs it; returns what it printed and the lines of its metrics."""
    config = f"{work}/config.yaml"
    with open(config, "w", encoding="utf-8") as f:
        f.write(CONFIG.format(dir=work, total=args.warmup + args.steps,
                              **vars(args)))
    command = [args.disttrain, "train", config]
    if args.ranks > 1:
        command = ["srun", f"-N{args.ranks}", f"-n{args.ranks}",
                   f"--disttrain={config}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          check=False)
    sys.stderr.write(done.stdout)
    if done.returncode != 0:
        sys.exit(f"disttrain_gpt2.py: {command[0]}: exit status "
                 f"{done.returncode}")
    with open(f"{work}/metrics.jsonl", encoding="utf-8") as f:
        return done.stdout, [json.loads(line) for line in f]


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as work:
        output, lines = train(args, work)
    tokens = args.batch * args.tokens * args.ranks
    peak = re.search(r"peak memory of rank 0 ([0-9.]+) ([GM])iB", output)
    lines = lines[args.warmup:]
    print(json.dumps({
        "name": "disttrain",
        "tokens": tokens,
        "seconds": [round(tokens / x["tokens_per_s"], 6) for x in lines],
        "peak_mb": round(float(peak[1]) * (1024 if peak[2] == "G" else 1)),
        "loss": lines[-1]["loss"],
    }))


if __name__ == "__main__":
    main()
