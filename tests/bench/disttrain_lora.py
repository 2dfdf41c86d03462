#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_lora.py - steps of LoRA, timed.

Prints the same line of JSON as trl_lora.py, which has made the model and the
rows.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile

ROWS = 4  # a step
CONFIG = """\
algorithm: sft
run: {{output_dir: "{dir}/out", seed: 1}}
model: {{path: "{work}/model"}}
adapter: {{type: lora, r: 16, alpha: 32, target_modules: all-linear}}
precision: {{compute: {precision}}}
data: {{train: "{work}/rows.jsonl", format: tokenized, max_length: {tokens},
       shuffle: false, cache_dir: "{dir}/cache"}}
model.disable_dropout: true
training: {{per_device_batch_size: {rows}, max_steps: {total}}}
optimizer: {{lr: 1.0e-4, weight_decay: 0.0}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--disttrain", default="disttrain", help="the program")
    p.add_argument("--work", required=True, help="directory of the files")
    p.add_argument("--tokens", type=int, default=256, help="of a row")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def train(args, work):
    """Trains; returns what was printed, and the lines of the metrics."""
    values = {**vars(args), "dir": work, "rows": ROWS,
              "total": args.warmup + args.steps}
    with open(f"{work}/config.yaml", "w", encoding="utf-8") as f:
        f.write(CONFIG.format(**values))
    run = subprocess.run([args.disttrain, "train", f"{work}/config.yaml"],
                         stdout=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(run.stdout)
    if run.returncode != 0:
        sys.exit(f"disttrain_lora.py: exit status {run.returncode}")
    with open(f"{work}/metrics.jsonl", encoding="utf-8") as f:
        return run.stdout, [json.loads(line) for line in f]


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as work:
        output, lines = train(args, work)
    tokens = ROWS * args.tokens
    first, lines = lines[0], lines[args.warmup:]
    peak = re.search(r"peak memory of rank 0 ([0-9.]+) ([GM])iB", output)
    print(json.dumps({
        "name": "disttrain", "tokens": tokens, "batch": ROWS,
        "seconds": [round(tokens / x["tokens_per_s"], 6) for x in lines],
        "peak_mb": round(float(peak[1]) * (1024 if peak[2] == "G" else 1)),
        "loss": first["loss"]}))


if __name__ == "__main__":
    main()
