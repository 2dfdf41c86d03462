#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_lora.py - steps of LoRA, timed.

Prints the same line of JSON as trl_lora.py, which has made the model and the
rows.
"""
import argparse
import json
import tempfile

from disttrain_run import peak_mb, train

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


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as work:
        output, lines = train(args, work, CONFIG, rows=ROWS)
    tokens = ROWS * args.tokens
    first, lines = lines[0], lines[args.warmup:]
    print(json.dumps({
        "name": "disttrain", "tokens": tokens, "batch": ROWS,
        "seconds": [round(tokens / x["tokens_per_s"], 6) for x in lines],
        "peak_mb": peak_mb(output),
        "loss": first["loss"]}))


if __name__ == "__main__":
    main()
