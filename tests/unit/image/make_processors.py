#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes pixels.txt and counts.txt: what transformers makes of images.

Run in this folder after make_images.py, on a processor with AVX2; needs Pillow
13, torch, torchvision 0.29 and transformers 5.24. processors.json has for each
processor the files of a model directory, the side of the tower's patches, and
whether its pixels or its counts are compared.

A line of pixels.txt has a file, a processor, the number of patches, and the
first 16 digits of the SHA-256 of the pixel values, as rows of fp32, of
torchvision and of Pillow. A line of counts.txt has a processor and the SHA-256
of the lines "height width resized-height resized-width rows columns tokens" of
10,000 sizes.
"""

import hashlib
import json
import os

import numpy
import torch
import transformers
from PIL import Image, ImageOps
from torchvision.transforms.v2 import functional
from transformers.image_transforms import convert_to_rgb

COUNT = 10000


def load(entry, backend):
    files = entry["files"]
    keys = files.get("processor_config.json", {}).get("image_processor")
    keys = dict(keys or files["preprocessor_config.json"])
    name = keys.pop("image_processor_type").removesuffix("Fast")
    name += "Pil" if backend == "pil" else ""
    return getattr(transformers, name)(**keys)


def rows_of(values, patch):
    """(tiles, 3, height, width) in patches, as the tower's convolution."""
    tiles, colors, height, width = values.shape
    high, wide = height // patch, width // patch
    values = values[:, :, :high * patch, :wide * patch]
    values = values.reshape(tiles, colors, high, patch, wide, patch)
    return values.transpose(0, 2, 4, 1, 3, 5).reshape(tiles * high * wide, -1)


def pixel_rows(processor, image, patch):
    out = numpy.asarray(processor(images=[image], return_tensors="np")
                        ["pixel_values"], dtype=numpy.float32)
    if out.ndim == 2:
        return out
    return rows_of(out.reshape(-1, *out.shape[-3:]), patch)


def write_pixels(entries, f):
    loaded = [(name, entry, load(entry, "torchvision"), load(entry, "pil"))
              for name, entry in entries.items() if entry["pixels"]]
    for file in sorted(os.listdir("files")):
        image = ImageOps.exif_transpose(Image.open(f"files/{file}"))
        # which some classes leave out
        image = Image.fromarray(convert_to_rgb(image, return_numpy=True))
        for name, entry, *both in loaded:
            rows = [pixel_rows(p, image, entry["patch"]) for p in both]
            hashes = [hashlib.sha256(numpy.ascontiguousarray(r).tobytes())
                      .hexdigest()[:16] for r in rows]
            print(file, name, len(rows[0]), *hashes, file=f)


def sizes():
    """Sizes of all magnitudes, the same as in the test."""
    state, left = 1, COUNT
    while left > 0:
        sides = []
        for _ in range(3):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            sides.append(state >> 33)
        most = 1 << (4 + sides[2] % 11)
        height, width = 1 + sides[0] % most, 1 + sides[1] % most
        if max(height, width) <= 200 * min(height, width) and \
                height * width <= 89478485:
            left -= 1
            yield height, width


def counts(processor, entry, height, width):
    """The reference's own functions, on tensors that have no memory."""
    image = torch.zeros(()).expand(1, 3, height, width)
    patch, tokens = entry["patch"], entry["tokens"]
    if hasattr(processor, "merge_size"):
        merge = processor.merge_size
        out = processor.resize(image, processor.size, processor.resample,
                               factor=patch * merge)
        high, wide = out.shape[-2:]
        tokens = (high // patch) * (wide // patch) // merge ** 2
        return high, wide, 0, 0, tokens
    out = processor.resize(image, processor.size, processor.resample)
    rows = columns = 0
    if hasattr(processor, "max_image_size"):
        tile = processor.max_image_size["longest_edge"]
        out = processor.resize_for_vision_encoder(out, tile,
                                                  processor.resample)
        if out.shape[-2] > tile or out.shape[-1] > tile:
            rows, columns = out.shape[-2] // tile, out.shape[-1] // tile
    tokens *= rows * columns + 1
    return *out.shape[-2:], rows, columns, tokens


def write_counts(entries, f):
    real = functional.resize
    functional.resize = lambda image, size, **_: \
        torch.zeros(()).expand(*image.shape[:-2], *size)
    for name, entry in entries.items():
        if entry["pixels"]:
            continue
        processor = load(entry, "torchvision")
        text = "".join(" ".join(map(str, (h, w, *counts(processor, entry, h,
                                                        w)))) + "\n"
                       for h, w in sizes())
        if os.environ.get("DUMP"):
            with open(f"{os.environ['DUMP']}/{name}", "w") as dump:
                dump.write(text)
        print(name, hashlib.sha256(text.encode()).hexdigest(), file=f)
    functional.resize = real


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open("processors.json") as f:
        all_entries = json.load(f)
    with open("pixels.txt", "w") as f:
        write_pixels(all_entries, f)
    with open("counts.txt", "w") as f:
        write_counts(all_entries, f)
