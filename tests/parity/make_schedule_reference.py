#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_schedule_reference.py - learning rates of transformers' schedules
#
# Writes schedules.json beside this script: for each case the name, the keys and
# the learning rate of 100 optimizer steps. Needs transformers 5 and PyTorch.
import json
import os

import torch
from transformers import get_scheduler

STEPS = 100
CASES = [
    ("constant", 10, {}),
    ("constant_with_warmup", 10, {}),
    ("linear", 10, {}),
    ("linear", 0, {}),
    ("cosine", 10, {}),
    ("cosine", 7, {"num_cycles": 1.5}),
    ("cosine_with_restarts", 10, {}),
    ("cosine_with_restarts", 0, {"num_cycles": 3}),
    ("cosine_with_min_lr", 10, {"min_lr": 1e-5}),
    ("cosine_with_min_lr", 3, {"min_lr_rate": 0.1, "num_cycles": 0.75}),
    ("cosine_warmup_with_min_lr", 10, {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", 10, {"min_lr": 1e-5, "warmup_lr_rate": 0.3}),
    ("cosine_warmup_with_min_lr", 1, {"min_lr_rate": 0.1}),
    ("polynomial", 10, {}),
    ("polynomial", 5, {"lr_end": 1e-4, "power": 2.5}),
    ("inverse_sqrt", 10, {}),
    ("inverse_sqrt", 0, {}),
    ("inverse_sqrt", 8, {"timescale": 20}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 20}),
    (
        "warmup_stable_decay",
        10,
        {"num_decay_steps": 30, "min_lr_ratio": 0.1, "decay_type": "1-sqrt"},
    ),
    (
        "warmup_stable_decay",
        20,
        {
            "num_decay_steps": 40,
            "num_stable_steps": 15,
            "warmup_type": "1-sqrt",
            "decay_type": "linear",
            "min_lr_ratio": 0.2,
        },
    ),
    (
        "warmup_stable_decay",
        20,
        {"num_decay_steps": 40, "warmup_type": "cosine", "num_cycles": 1.5},
    ),
]
LR = 1e-3


def rates(name, warmup, keys):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=LR)
    scheduler = get_scheduler(
        name, optimizer, warmup, STEPS, scheduler_specific_kwargs=keys
    )
    out = []
    for _ in range(STEPS):
        out.append(float(f"{optimizer.param_groups[0]['lr']:.14g}"))
        optimizer.step()
        scheduler.step()
    return out


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    rows = [
        {"name": n, "warmup": w, "keys": k, "lr": rates(n, w, k)}
        for n, w, k in CASES
    ]
    with open(os.path.join(here, "schedules.json"), "w") as out:
        out.write("[\n")
        out.write(",\n".join(json.dumps(row) for row in rows))
        out.write("\n]\n")


main()
