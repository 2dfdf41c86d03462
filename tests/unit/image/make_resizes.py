#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes resizes.txt: resizes of noise by torchvision and by Pillow.

Run in this folder, on a processor with AVX2; needs Pillow 13, torch and
torchvision 0.29. A line has the old and the new height and width, the filter,
top, left, height and width of the part that is kept, and the first 16 digits of
the SHA-256 of that part, of torchvision and of Pillow.
"""

import hashlib
import random

import numpy
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

FILTERS = {1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR,
           3: InterpolationMode.BICUBIC}
SIZES = [(1, 1, 1, 1), (1, 1, 40, 30), (2, 3, 1, 2), (40, 50, 40, 50),
         (40, 50, 20, 50), (40, 50, 40, 25), (60, 30, 40, 20),
         (61, 30, 40, 20), (62, 30, 40, 20), (80, 50, 30, 60),
         (48, 64, 48, 65), (17, 16, 16, 17), (500, 3, 7, 90), (3, 700, 8, 2),
         (200, 1, 224, 1), (333, 500, 336, 504), (300, 400, 224, 298)]


def noise(height, width):
    """Bytes that the test computes, too."""
    i = numpy.arange(height * width * 3, dtype=numpy.uint32) + 1
    i *= numpy.uint32(2654435761)
    i ^= i >> 15
    i *= numpy.uint32(2246822519)
    return (i >> 24).astype(numpy.uint8).reshape(height, width, 3)


def both(array, height, width, number):
    tensor = torch.from_numpy(array).permute(2, 0, 1).contiguous()
    yield functional.resize(tensor, [height, width], FILTERS[number],
                            antialias=True).permute(1, 2, 0).numpy()
    yield numpy.array(Image.fromarray(array).resize((width, height), number))


def main():
    rng = random.Random(3)
    cases = [(*size, number) for size in SIZES for number in FILTERS]
    for _ in range(70):
        cases.append((*(rng.randint(1, 160) for _ in range(4)),
                      rng.choice(list(FILTERS))))
    with open("resizes.txt", "w") as f:
        for y, x, height, width, number in cases:
            box = [0, 0, height, width]
            if rng.random() < 0.4:
                box[0] = rng.randrange(height)
                box[1] = rng.randrange(width)
                box[2] = rng.randint(1, height - box[0])
                box[3] = rng.randint(1, width - box[1])
            rows = slice(box[0], box[0] + box[2])
            columns = slice(box[1], box[1] + box[3])
            hashes = [hashlib.sha256(out[rows, columns].tobytes())
                      .hexdigest()[:16]
                      for out in both(noise(y, x), height, width, number)]
            print(y, x, height, width, number, *box, *hashes, file=f)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
