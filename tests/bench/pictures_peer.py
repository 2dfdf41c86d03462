#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of pictures.c: PyTorch's DataLoader with transformers' processor.

Usage: pictures_peer.py MODEL WORKERS B BATCHES FILE...

Prints images per second of BATCHES batches, after as many that are not counted.
"""

import sys
import time

import torch
from PIL import Image
from transformers import AutoImageProcessor


class Files(torch.utils.data.Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return Image.open(self.files[i]).convert("RGB")


class Forever(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()


def main():
    model, workers, rows, batches = sys.argv[1:5]
    files = Files(sys.argv[5:])
    processor = AutoImageProcessor.from_pretrained(model)
    loader = iter(torch.utils.data.DataLoader(
        files, batch_size=int(rows), num_workers=int(workers),
        prefetch_factor=2, sampler=Forever(len(files)),
        collate_fn=lambda images: processor(images=images,
                                            return_tensors="pt")))
    for counted in range(2):
        start = time.time()
        for _ in range(int(batches)):
            next(loader)
        seconds = time.time() - start
    print(f"{int(batches) * int(rows) / seconds:.2f}")


if __name__ == "__main__":
    main()
