#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_dpo.py - steps of direct preference optimization, timed.

Prints the same line of JSON as trl_dpo.py. With --make it writes the pairs that
both read.
"""
import argparse
import json
import random
import tempfile

from disttrain_run import peak_mb, train
from disttrain_step import GPT2

PAIRS = 4  # a step
CONFIG = """\
algorithm: dpo
run: {{output_dir: "{dir}/out", seed: 1}}
model: {{config_path: "{dir}", init: random, tokenizer: "{dir}"}}
precision: {{compute: {precision}}}
data: {{train: "{data}", max_length: {tokens}, cache_dir: "{dir}/cache",
       shuffle: false}}
training: {{per_device_batch_size: {pairs}, max_steps: {total}}}
optimizer: {{lr: 1.0e-6, weight_decay: 0.0}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
dpo: {{beta: 0.1, reference: {{mode: {reference}}}}}
"""
# A tokenizer that has nothing to do.
TOKENIZER = {"model": {"type": "BPE", "merges": [],
                       "vocab": {f"t{i}": i for i in range(50257)}},
             "added_tokens": []}


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--make", action="store_true", help="write the pairs")
    p.add_argument("--disttrain", default="disttrain", help="the program")
    p.add_argument("--data", help="the pairs")
    p.add_argument("--reference", default="", help="-live, or nothing")
    p.add_argument("--tokens", type=int, default=256, help="of a side")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def ids(count):
    return [random.randrange(50256) for _ in range(count)]


def make(args):
    """Half of a side is the prompt."""
    random.seed(1)
    half = args.tokens // 2
    with open(args.data, "w", encoding="utf-8") as f:
        for _ in range(PAIRS * (args.warmup + args.steps)):
            json.dump({"prompt_ids": ids(half), "chosen_ids": ids(half),
                       "rejected_ids": ids(args.tokens - half)}, f)
            f.write("\n")


def model(work):
    """Writes what names its shape, and its tokenizer."""
    with open(f"{work}/config.json", "w", encoding="utf-8") as f:
        json.dump({**GPT2, "eos_token_id": 50256}, f)
    with open(f"{work}/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(TOKENIZER, f)


def main():
    args = parse()
    if args.make:
        make(args)
        return
    mode = "live" if args.reference == "-live" else "precompute"
    with tempfile.TemporaryDirectory() as work:
        model(work)
        output, lines = train(args, work, CONFIG, pairs=PAIRS, reference=mode)
    tokens = PAIRS * 2 * args.tokens
    lines = lines[args.warmup:]
    print(json.dumps({
        "name": f"disttrain{args.reference}", "tokens": tokens, "batch": PAIRS,
        "seconds": [round(tokens / x["tokens_per_s"], 6) for x in lines],
        "peak_mb": peak_mb(output),
        "loss": lines[-1]["loss"]}))


if __name__ == "__main__":
    main()
