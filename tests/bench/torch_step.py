# SPDX-License-Identifier: Apache-2.0
"""torch_step.py - what the peers in PyTorch share: data, optimizer, the steps.

Written as somebody would who wants speed from PyTorch: few large operations,
fused attention, fused AdamW and grouped clipping where the version at hand has
them. (AdamW with foreach=True is no faster on a CPU than the plain one, and
needs 600 MB more.) With WORLD_SIZE > 1 (set by torchrun or by srun) the ranks
train together through DistributedDataParallel over gloo, or with --fsdp through
FSDP2, with a group for each block and one for the rest.

With --compile by torch.compile, which cuts the backward pass where the buckets
of DistributedDataParallel end. On a GPU also TF32 for what is fp32 under
autocast, and batches that lie on the card before the first step.

The shards are llm.c's: 256 int32 of header, then uint16 tokens. Rank 0 prints
one line of JSON: the time of every step without warm-up, and peak memory. With
BENCH_START, seconds of the epoch when it was started, also the time from there
to the end of the first step.
"""
import argparse
import contextlib
import itertools
import json
import os
import resource
import sys
import time

import torch
from torch import nn

HAS_FUSED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)


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


def parse(description, **shape):
    """Arguments; shape: those of the model, with their defaults."""
    p = argparse.ArgumentParser(description=description.splitlines()[0])
    p.add_argument("--data", required=True, help="a shard of tokens")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--accumulate", type=int, default=1,
                   help="forward passes in a step")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--compile", metavar="MODE", help="of torch.compile")
    for name, value in shape.items():
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--fsdp", action="store_true", help="shard everything")
    p.add_argument("--bf16", action="store_true", help="under autocast")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--suffix", default="", help="to the name in the result")
    return p.parse_args()


def prepare(args):
    """What the hardware can do for speed."""
    torch.manual_seed(1)
    if args.device == "cuda":
        torch.set_float32_matmul_precision("high")
    else:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))


def place(args):
    """Where weights are made."""
    if args.device == "cpu":
        return contextlib.nullcontext()
    return torch.device(args.device)


def micro_batches(args, rank, world):
    """Endless; on a GPU those of one step, which are there already."""
    source = batches(args.data, args.batch, args.tokens, rank, world)
    if args.device == "cpu":
        return source
    return itertools.cycle([
        tuple(t.to(args.device) for t in next(source))
        for _ in range(args.accumulate)
    ])


def share(model, args):
    """The model, trained by all ranks together. FSDP2 changes it in place, so
    this comes before the optimizer."""
    if not args.fsdp:
        return nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, static_graph=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train_step(model, params, optimizer, source, args):
    """The mean loss; waits for it."""
    total = 0.0
    for _ in range(args.accumulate):
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss = model(*next(source)) / args.accumulate
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total.item()


def memory(args):
    """Peaks in MiB; card: all that the process has on the GPU."""
    peak = {
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    }
    if args.device == "cuda":
        free, whole = torch.cuda.mem_get_info()
        peak = {
            "peak_mb": torch.cuda.max_memory_allocated() >> 20,
            "reserved_mb": torch.cuda.max_memory_reserved() >> 20,
            "card_mb": (whole - free) >> 20,
        }
    return peak


def run(make_model, args):
    rank = int(os.environ.get("RANK", 0))
    world = int(os.environ.get("WORLD_SIZE", 1))
    prepare(args)
    with place(args):
        model = make_model(args)
    if world > 1:
        torch.distributed.init_process_group("gloo")
        model = share(model, args)
    params = list(model.parameters())
    optimizer = make_optimizer(model)
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    source = micro_batches(args, rank, world)
    times, losses, first = [], [], None
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        losses.append(train_step(model, params, optimizer, source, args))
        # the loss is there before the optimizer is done with a GPU
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if step == 0 and "BENCH_START" in os.environ:
            first = time.time() - float(os.environ["BENCH_START"])
        if rank == 0:
            print(f"step {step + 1} loss {losses[-1]:.4f}", file=sys.stderr)
    if rank == 0:
        print(json.dumps({
            "name": f"PyTorch {torch.__version__}{args.suffix}",
            "tokens": args.batch * args.accumulate * args.tokens * world,
            "batch": args.batch,
            "first_s": first,
            "seconds": [round(t, 6) for t in times[args.warmup :]],
            **memory(args),
            "loss": losses[-1],
        }))
    if world > 1:
        torch.distributed.destroy_process_group()
