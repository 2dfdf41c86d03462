#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# peer.py - what transformers has to say about model directories
#
#     peer.py compare IDS DIR...   fails unless the logits of each DIR for the
#                                  tokens IDS are those in DIR.logits
#     peer.py make FILE TO NAME... makes random models TO/NAME of the variants of
#                                  families.json
#     peer.py save TO SIZE DIR...  saves each DIR as TO/name.dtype, for three
#                                  dtypes, in files of at most SIZE
#     peer.py continue IDS N DIR...  fails unless what is likeliest behind the
#                                  tokens IDS, N of them at most, is in DIR.ids
#     peer.py score LINES DIR...   fails unless the scores of each DIR for the
#                                  ids of LINES are those in DIR.scores
import json
import pathlib
import re
import sys

import torch
from transformers import (AutoConfig, AutoModelForCausalLM,
                          AutoModelForSequenceClassification, logging)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def load(path, dtype, auto=AutoModelForCausalLM):
    model, info = auto.from_pretrained(
        path, dtype=dtype, output_loading_info=True)
    problems = {what: names for what, names in info.items() if names}
    if problems:
        sys.exit(f"{path}: {problems}")
    return model


def compare(ids, *paths):
    for path in paths:
        lines = pathlib.Path(path + ".logits").read_text().splitlines()
        ours = torch.tensor([[float(x) for x in line.split()]
                             for line in lines])
        with torch.no_grad():
            theirs = load(path, torch.float32)(
                torch.tensor([[int(i) for i in ids.split()]]),
                use_cache=False).logits[0]
        largest = (ours - theirs).abs().max().item()
        print(f"{path}: largest difference of a logit: {largest:.2g}")
        if not largest < 1e-4:
            sys.exit(1)


def make(file, target, *names):
    variants = json.loads(pathlib.Path(file).read_text())["variants"]
    for name in names:
        path = pathlib.Path(target) / name
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(variants[name]["config"]))
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(path), dtype=torch.float32)
        for p in model.parameters():
            p.data.normal_(1.0 if p.ndim == 1 else 0.0, 0.15)
        model.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)


def follow(ids, count, *paths):
    """Without a cache: what the whole text says, up to the end of the text."""
    prompt, count = [int(i) for i in ids.split()], int(count)
    for path in paths:
        ours = [int(i) for i in re.findall(
            "[0-9]+", pathlib.Path(path + ".ids").read_text())]
        ours = ours[len(prompt):] if ours[:len(prompt)] == prompt else ours
        model, theirs = load(path, torch.float32), []
        with torch.no_grad():
            while len(theirs) < count and theirs[-1:] != [2]:
                given = torch.tensor([prompt + theirs])
                logits = model(given, use_cache=False).logits[0, -1]
                theirs.append(logits.argmax().item())
        print(f"{path}: {ours}")
        assert ours and ours in (theirs, theirs[:-1]), theirs
        assert len(ours) == count or theirs[-1] == 2, theirs


def save(target, size, *paths):
    for path in map(pathlib.Path, paths):
        for name, dtype in DTYPES.items():
            load(path, dtype).save_pretrained(
                f"{target}/{path.name}.{name}", max_shard_size=size)


def score(lines, *paths):
    texts = [json.loads(line)["input_ids"]
             for line in pathlib.Path(lines).read_text().splitlines()]
    for path in paths:
        ours = [float(x) for x in
                pathlib.Path(path + ".scores").read_text().split()]
        model = load(path, torch.float32, AutoModelForSequenceClassification)
        with torch.no_grad():
            theirs = [model(torch.tensor([ids])).logits for ids in texts]
        assert all(x.shape == (1, 1) for x in theirs), "expected one label"
        assert len(ours) == len(theirs)
        largest = max(abs(a - b.item()) for a, b in zip(ours, theirs))
        spread = max(ours) - min(ours)
        print(f"{path}: largest difference of a score: {largest:.2g}, "
              f"scores differ by {spread:.2g}")
        if not (largest < 1e-5 and spread > 1e-2):
            sys.exit(1)


logging.set_verbosity_error()
logging.disable_progress_bar()
{"compare": compare, "continue": follow, "make": make, "save": save,
 "score": score}[sys.argv[1]](*sys.argv[2:])
