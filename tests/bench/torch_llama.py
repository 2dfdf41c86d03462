#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_llama.py - training steps of a Llama-type model in PyTorch, timed.

By default of the shape of Qwen2.5-0.5B: biases of q, k and v, tied embeddings.
"""
import torch
import torch.nn.functional as F
from torch import nn

import torch_step

# the CPU's attention has no groups of heads of its own
HAS_GROUPS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x * scale)


class Block(nn.Module):
    """Grouped attention and SwiGLU; q, k, v are one matrix, gate and up too."""

    def __init__(self, args):
        super().__init__()
        self.heads, self.kv_heads = args.heads, args.kv_heads
        size = args.width // args.heads
        self.sizes = [args.width, args.kv_heads * size, args.kv_heads * size]
        self.norm_1, self.norm_2 = RMSNorm(args.width), RMSNorm(args.width)
        self.qkv = nn.Linear(args.width, sum(self.sizes))
        self.out = nn.Linear(args.width, args.width, bias=False)
        self.gate_up = nn.Linear(args.width, 2 * args.inner, bias=False)
        self.down = nn.Linear(args.inner, args.width, bias=False)

    def heads_of(self, x, rotation):
        """(B, heads, T, size) of x (B, T, heads * size), rotated."""
        B, T, width = x.shape
        cos, sin = rotation
        x = x.view(B, T, -1, cos.shape[-1]).transpose(1, 2)
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    def attention(self, x, rotation):
        B, T, width = x.shape
        q, k, v = self.qkv(x).split(self.sizes, 2)
        q, k = self.heads_of(q, rotation), self.heads_of(k, rotation)
        v = v.view(B, T, self.kv_heads, -1).transpose(1, 2)
        q, k = q.to(v.dtype), k.to(v.dtype)
        groups = {}
        if HAS_GROUPS and x.is_cuda:
            groups["enable_gqa"] = True
        else:
            k = k.repeat_interleave(self.heads // self.kv_heads, 1)
            v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, **groups)
        return self.out(y.transpose(1, 2).reshape(B, T, width))

    def forward(self, x, rotation):
        x = x + self.attention(self.norm_1(x), rotation)
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = RMSNorm(args.width)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        size = args.width // args.heads
        angle = torch.outer(torch.arange(args.tokens),
                            1e6 ** (-torch.arange(0, size, 2) / size))
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, (self.cos, self.sin))
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    torch_step.run(Llama, torch_step.parse(
        __doc__, layers=24, heads=14, kv_heads=2, width=896, inner=4864,
        vocab=151936))
