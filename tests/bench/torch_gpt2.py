#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_gpt2.py - training steps of GPT-2 in PyTorch, timed: the peer.

Written as somebody would who wants speed from PyTorch on a CPU: few large
operations, fused attention, fused AdamW and grouped clipping where the version
at hand has them. (AdamW with foreach=True is no faster on a CPU than the plain
one, and needs 600 MB more.) With WORLD_SIZE > 1 (set by torchrun or by srun) the
ranks train together through DistributedDataParallel over gloo.

The shards are llm.c's: 256 int32 of header, then uint16 tokens. Rank 0 prints
one line of JSON: the time of every step without warm-up, and peak memory.
"""
import argparse
import json
import math
import os
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")
HAS_FUSED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)


class Block(nn.Module):
    """Pre-norm block of GPT-2; weights as Linear stores them."""

    def __init__(self, width, heads, layers):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attn_proj = nn.Linear(width, width)
        self.fc = nn.Linear(width, 4 * width)
        self.mlp_proj = nn.Linear(4 * width, width)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                std = 0.02
                if name.endswith("proj"):
                    std /= math.sqrt(2 * layers)
                nn.init.normal_(module.weight, std=std)
                nn.init.zeros_(module.bias)

    def attention(self, x, mask):
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.heads, -1).transpose(1, 2)
            for t in self.qkv(x).split(C, dim=2)
        )
        if HAS_SDPA:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scale = 1 / math.sqrt(C // self.heads)
            scores = torch.baddbmm(
                mask.expand(B * self.heads, T, T),
                q.reshape(B * self.heads, T, -1),
                k.reshape(B * self.heads, T, -1).transpose(1, 2),
                alpha=scale,
            )
            y = scores.softmax(-1) @ v.reshape(B * self.heads, T, -1)
            y = y.view(B, self.heads, T, -1)
        return self.attn_proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x, mask):
        x = x + self.attention(self.ln_1(x), mask)
        h = F.gelu(self.fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_proj(h)


class GPT2(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.wte = nn.Embedding(args.vocab, args.width)
        self.wpe = nn.Embedding(args.positions, args.width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(
            Block(args.width, args.heads, args.layers)
            for _ in range(args.layers)
        )
        self.ln_f = nn.LayerNorm(args.width)
        mask = torch.full((args.tokens, args.tokens), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_optimizer(model):
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    kind = {"fused": True} if HAS_FUSED else {}
    return torch.optim.AdamW(groups, lr=1e-4, **kind)


def batches(path, B, T, rank, world):
    """Endless (ids, targets), B x T each; ranks take turns."""
    data = torch.from_file(
        path, dtype=torch.int16, size=os.path.getsize(path) // 2
    )[512:]
    data = data.to(torch.int64) & 0xFFFF
    count = (len(data) - 1) // (B * T)
    i = rank
    while True:
        at = i % count * B * T
        piece = data[at : at + B * T + 1]
        yield piece[:-1].view(B, T), piece[1:].view(B, T)
        i += world


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", required=True, help="a shard of tokens")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--vocab", type=int, default=50257)
    p.add_argument("--positions", type=int, default=1024)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--suffix", default="", help="to the name in the result")
    return p.parse_args()


def main():
    args = parse()
    rank = int(os.environ.get("RANK", 0))
    world = int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.manual_seed(1)
    model = GPT2(args)
    params = list(model.parameters())
    optimizer = make_optimizer(model)
    if world > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, static_graph=True
        )
    source = batches(args.data, args.batch, args.tokens, rank, world)
    times, losses = [], []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        loss = model(*next(source))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        if rank == 0:
            print(f"step {step + 1} loss {losses[-1]:.4f}", file=sys.stderr)
    if rank == 0:
        print(json.dumps({
            "name": f"PyTorch {torch.__version__}{args.suffix}",
            "tokens": args.batch * args.tokens * world,
            "seconds": [round(t, 6) for t in times[args.warmup :]],
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            // 1024,
            "loss": losses[-1],
        }))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
