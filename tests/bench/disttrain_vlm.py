#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disttrain_vlm.py - steps on text and images, timed.

Prints the same line of JSON as trl_vlm.py, which has made the model and the
rows.
"""
import argparse
import json
import tempfile

from disttrain_run import peak_mb, train

ROWS = 2  # a step
CONFIG = """\
algorithm: {algorithm}
run: {{output_dir: "{dir}/out", seed: 1}}
model: {{path: "{work}/model", train_vision: {tower}, disable_dropout: true}}
precision: {{compute: {precision}}}
data: {{train: "{work}/rows.jsonl", image_root: "{work}", shuffle: false,
       max_length: {max_length}, cache_dir: "{dir}/cache"{more}}}
training: {{per_device_batch_size: {rows}, max_steps: {total},
           gradient_checkpointing: {recompute}}}
optimizer: {{lr: 1.0e-4, weight_decay: 0.0, state_dtype: {state}}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
{reference}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--disttrain", default="disttrain", help="the program")
    p.add_argument("--work", required=True, help="directory of the files")
    p.add_argument("--algorithm", default="sft", help="sft or dpo")
    p.add_argument("--parts", default="all", help="all or frozen")
    p.add_argument("--edge", type=int, default=512, help="of a photograph")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--recompute", action="store_true")
    p.add_argument("--precompute", action="store_true",
                   help="the reference of dpo, before the first step")
    p.add_argument("--state", action="store_true",
                   help="weights, moments and passes in bf16")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def word(truth):
    return "true" if truth else "false"


def main():
    args = parse()
    if args.state:
        args.precision = "bf16"
    with open(f"{args.work}/length", encoding="utf-8") as f:
        length = int(f.read())
    with tempfile.TemporaryDirectory() as work:
        output, lines = train(args, work, CONFIG, max_length=length, rows=ROWS,
                              recompute=word(args.recompute),
                              state="bf16" if args.state else "fp32",
                              tower=word(args.parts == "all"),
                              reference="dpo.reference.mode: precompute"
                              if args.precompute else "",
                              more=", packing: none, train_on_image_tokens: true"
                              if args.algorithm == "sft" else "")
    first, lines = lines[0], lines[args.warmup:]
    options = ", gradient checkpointing" if args.recompute else ""
    options += ", precomputed reference" if args.precompute else ""
    options += ", bf16 state" if args.state else ""
    print(json.dumps({
        "name": f"disttrain{options}", "tokens": first["tokens"] + ROWS * (args.algorithm == "sft"),
        "batch": ROWS, "seconds": [x["step_s"] for x in lines],
        "peak_mb": peak_mb(output),
        "loss": first["loss"]}))


if __name__ == "__main__":
    main()
