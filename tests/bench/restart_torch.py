# SPDX-License-Identifier: Apache-2.0
"""restart_torch.py DIR KILLS - a script of DistributedDataParallel that resumes

It saves every 10 steps to DIR, and loads that when it starts. The last rank
kills itself KILLS times, in steps 25, 45, 65 and so on. Rank 0 writes into
DIR/steps when each step was done, and the last rank when it was killed.
"""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

out, kills = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, last = dist.get_rank(), dist.get_world_size() - 1
torch.manual_seed(rank)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.AdamW(model.parameters())
step = 0
if os.path.exists(f"{out}/last.pt"):
    saved = torch.load(f"{out}/last.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]


def note(what):
    with open(f"{out}/steps", "a", encoding="ascii") as file:
        file.write(f"{what} {time.time():.3f}\n")


while step < 20 * kills + 20:
    step += 1
    if rank == last and step % 20 == 5 and 5 < step <= 20 * kills + 5:
        mark = f"{out}/killed-{step}"
        if not os.path.exists(mark):
            open(mark, "w", encoding="ascii").close()
            note("killed")
            os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    if rank == 0:
        note(step)
        if step % 10 == 0:
            torch.save({"model": model.state_dict(), "step": step,
                        "optimizer": optimizer.state_dict()}, f"{out}/next.pt")
            os.replace(f"{out}/next.pt", f"{out}/last.pt")
dist.destroy_process_group()
