# SPDX-License-Identifier: Apache-2.0
"""torch_allreduce.py - joins whatever started it, and sums one number."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
assert one.item() == dist.get_world_size()
if dist.get_rank() == 0:
    print("summed", dist.get_world_size(), flush=True)
dist.destroy_process_group()
