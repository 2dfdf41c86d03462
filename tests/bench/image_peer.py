#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of image.c: Pillow, or torchvision's resize of Pillow's pixels.

Usage: image_peer.py make FILE HEIGHT WIDTH
       image_peer.py FILE HEIGHT WIDTH FILTER torchvision|pillow COUNT

Prints for each of COUNT times the milliseconds of the CPU to decode and to
resize, on one thread.
"""

import io
import sys
import time

import numpy
from PIL import Image


def make(path, height, width):
    """Waves, edges and noise: 2 to 3 bits a pixel, as photographs have."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    noise = numpy.random.default_rng(1).normal(0, 6, (height, width, 1))
    waves = numpy.stack([127 + 90 * numpy.sin(x / 37) + 30 * numpy.cos(y / 15),
                         127 + 80 * numpy.sin((x + y) / 53),
                         127 + 99 * numpy.cos(y / 61) * numpy.sin(x / 21)], -1)
    waves[(x // 97 + y // 83) % 5 == 0] += 60
    image = numpy.clip(waves + noise, 0, 255).astype(numpy.uint8)
    Image.fromarray(image).save(path, quality=90)


def resizer(height, width, number, backend):
    if backend == "pillow":
        return lambda image: image.resize((width, height), number)
    import torch
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional
    torch.set_num_threads(1)
    names = {1: "LANCZOS", 2: "BILINEAR", 3: "BICUBIC"}
    mode = InterpolationMode[names[number]]

    def resize(image):
        tensor = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)
        return functional.resize(tensor.contiguous(), [height, width], mode,
                                 antialias=True)
    return resize


def main():
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    path, height, width, number, backend, count = sys.argv[1:]
    resize = resizer(int(height), int(width), int(number), backend)
    with open(path, "rb") as f:
        data = f.read()
    for _ in range(int(count)):
        start = time.process_time()
        image = Image.open(io.BytesIO(data)).convert("RGB")
        decoded = time.process_time()
        resize(image)
        end = time.process_time()
        print(f"{1e3 * (decoded - start):.3f} {1e3 * (end - decoded):.3f}")


if __name__ == "__main__":
    main()
