#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decode_peer.py - tokens per second of transformers' generate

Usage: decode_peer.py fp32|bf16 SLOTS SEQUENCES TOKENS STOPS

The same work as decode.c: GPT-2 124M with random weights, prompts of 16 tokens,
in batches of SLOTS rows, which end at their longest row. Only tokens up to the
first stop id count.
"""

import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT = 16


def main():
    dtype = torch.bfloat16 if sys.argv[1] == "bf16" else torch.float32
    slots, sequences, tokens, stops = map(int, sys.argv[2:])
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).to(dtype).eval()
    model.generation_config.eos_token_id = list(range(stops)) or None
    model.generation_config.pad_token_id = 50256
    drawn, seconds = 0, 0.0
    for first in range(0, sequences, slots):
        rows = min(slots, sequences - first)
        ids = torch.randint(0, 50257, (rows, PROMPT))
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                max_new_tokens=tokens,
            )
        seconds += time.perf_counter() - start
        for row in out[:, PROMPT:].tolist():
            ends = [i + 1 for i, id in enumerate(row) if id < stops]
            drawn += ends[0] if ends else len(row)
    print(f"{drawn / seconds:.1f} tokens/s of {drawn}")


main()
