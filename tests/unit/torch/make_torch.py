#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files of torch.save: good ones, and such as must be refused.

Run in this folder; needs torch. good.txt has the values of good.bin.
"""

import collections
import os
import zipfile

import torch


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)


def numbers(*shape, dtype=torch.float32, start=0.5):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 0.75 + start).reshape(shape).to(dtype)


shared = numbers(6)
good = collections.OrderedDict(
    f32=numbers(2, 3), f16=numbers(3, dtype=torch.float16),
    bf16=numbers(1, 3, dtype=torch.bfloat16),
    f64=numbers(2, 2, dtype=torch.float64, start=1e-3),
    i64=torch.tensor([1, -2]), bool=torch.tensor([True, False]),
    scalar=torch.tensor(-4.5), empty=torch.zeros(0, 3),
    first=shared[:2], last=shared[4:], again=shared[4:],
    parameter=torch.nn.Parameter(numbers(2)))
good._metadata = collections.OrderedDict([("", {"version": 1})])
torch.save(good, "good.bin")
with open("good.txt", "w") as f:
    for name, t in sorted(good.items()):
        values = " ".join(f"{v:.9g}" for v in t.flatten().float().tolist())
        f.write(f"{name} {values}\n".replace(" \n", "\n"))
torch.save({"a": numbers(2, 2), "b": numbers(1)}, "part-1.bin")
torch.save({"c": numbers(3)}, "part-2.bin")

torch.save({"w": numbers(2, 3).t()}, "transposed.bin")
torch.save({"w": Evil()}, "evil.bin")
torch.save({"model": {"w": numbers(1)}}, "nested.bin")
torch.save({"w": numbers(1), "epoch": 3}, "number.bin")
torch.save([numbers(1)], "list.bin")
torch.save({"w": torch.nn.Linear(1, 1)}, "module.bin")
torch.save({"w": numbers(1)}, "old.bin",
           _use_new_zipfile_serialization=False)
with zipfile.ZipFile("good.bin") as a, \
        zipfile.ZipFile("packed.bin", "w", zipfile.ZIP_DEFLATED) as b:
    for info in a.infolist():
        b.writestr(zipfile.ZipInfo(info.filename), a.read(info),
                   zipfile.ZIP_DEFLATED)
