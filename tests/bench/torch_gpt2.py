#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_gpt2.py - training steps of GPT-2 in PyTorch, timed: the peer."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import torch_step

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


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


if __name__ == "__main__":
    torch_step.run(GPT2, torch_step.parse(
        __doc__, layers=12, heads=12, width=768, vocab=50257, positions=1024))
