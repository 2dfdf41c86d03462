#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llmc_gpt2.py - the steps of llm.c's train_gpt2 (GPT-2 124M, 4 x 64), timed.

Takes the program that llm.c's own Makefile builds (`make train_gpt2`), gives it
a random model and our tokens in a temporary directory, reads the times that it
prints, and stops it. llm.c has no gradient clipping on a CPU. Prints the same
line of JSON as torch_gpt2.py.
"""
import argparse
import array
import json
import os
import random
import re
import resource
import subprocess
import tempfile

LAYERS, WIDTH, HEADS, VOCAB, PADDED, POSITIONS = 12, 768, 12, 50257, 50304, 1024
BLOCK = 12 * WIDTH * WIDTH + 13 * WIDTH
PARAMETERS = (PADDED + POSITIONS) * WIDTH + LAYERS * BLOCK + 2 * WIDTH


def write_model(path):
    """A checkpoint of llm.c, version 3: 256 int32 of header, fp32 weights."""
    header = [20240326, 3, POSITIONS, VOCAB, LAYERS, HEADS, WIDTH, PADDED]
    noise = array.array("f", (random.gauss(0, 0.02) for _ in range(1 << 18)))
    with open(path, "wb") as f:
        array.array("i", header + [0] * 248).tofile(f)
        for left in range(PARAMETERS, 0, -len(noise)):
            noise[:left].tofile(f)


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", required=True, help="a shard of tokens")
    p.add_argument("--llmc", required=True, help="where train_gpt2 is")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    return p.parse_args()


def main():
    args = parse()
    times, loss = [], None
    with tempfile.TemporaryDirectory() as work:
        shards = f"{work}/dev/data/tinyshakespeare"
        os.makedirs(shards)
        for part in ("train", "val"):
            os.symlink(os.path.abspath(args.data),
                       f"{shards}/tiny_shakespeare_{part}.bin")
        write_model(f"{work}/gpt2_124M.bin")
        command = ["stdbuf", "-oL", f"{os.path.abspath(args.llmc)}/train_gpt2"]
        with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE,
                              text=True) as program:
            for line in program.stdout:
                step = re.match(r"step .* loss (.*) \(took (.*) ms\)", line)
                if step:
                    loss = float(step[1])
                    times.append(float(step[2]) / 1000)
                if len(times) == args.warmup + args.steps:
                    program.kill()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"name": "llm.c", "tokens": 256,
                      "seconds": times[args.warmup:],
                      "peak_mb": usage.ru_maxrss // 1024, "loss": loss}))


if __name__ == "__main__":
    main()
