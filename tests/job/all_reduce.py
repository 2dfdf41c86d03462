# SPDX-License-Identifier: Apache-2.0
"""all_reduce.py - a program for torchrun, as everybody writes it"""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
expected = dist.get_world_size() * (dist.get_world_size() + 1) / 2
assert total.item() == expected, (total.item(), expected)
print("rank", dist.get_rank(), "of", dist.get_world_size(),
      "port", os.environ["MASTER_PORT"], "sum", int(total.item()))
