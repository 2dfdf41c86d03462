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
#     peer.py towers TO            makes random models of CLIP and SigLIP, whole
#                                  ones and their towers: TO/clip, TO/clip_tower
#     peer.py halves [DIR VISION LANGUAGE]...  fails unless each LLaVA model has
#                                  the weights of both, and a processor that
#                                  makes what it reads
import json
import pathlib
import re
import sys

import torch
from transformers import (AutoConfig, AutoModel, AutoModelForCausalLM,
                          AutoModelForImageTextToText,
                          AutoModelForSequenceClassification, AutoProcessor,
                          logging)

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


def towers(target):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "image_size": 8,
             "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 2}
    torch.manual_seed(0)
    for name in ("clip", "siglip"):
        config = AutoConfig.for_model(
            name, text_config={**sizes, "vocab_size": 64}, vision_config=sizes)
        model = AutoModel.from_config(config)
        model.save_pretrained(f"{target}/{name}")
        AutoModel.from_config(config.vision_config).save_pretrained(
            f"{target}/{name}_tower")


def halves(*paths):
    for three in zip(paths[0::3], paths[1::3], paths[2::3]):
        check_halves(*three)


def check_halves(path, vision, language):
    model = load(path, torch.float32, AutoModelForImageTextToText)
    processor = AutoProcessor.from_pretrained(path)
    ours = model.state_dict()
    tower = load(vision, torch.float32, AutoModel)
    tower = getattr(tower, "vision_model", tower).state_dict()
    text = load(language, torch.float32).state_dict()
    for name, theirs in [*tower.items(), *text.items()]:
        found = [x for x in ours if x.endswith("." + name.removeprefix("model."))
                 or x == name]
        assert any(torch.equal(ours[x][:len(theirs)], theirs)
                   for x in found if ours[x].shape[1:] == theirs.shape[1:]), name
    text = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"},
                                      {"type": "text", "text": "Hi?"}]}])
    inputs = processor(
        text=text, images=torch.zeros(3, 20, 30, dtype=torch.uint8),
        return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits
    assert logits.isfinite().all()
    print(f"{path}: {len(tower)} tensors of a tower, {tuple(logits.shape)}")


logging.set_verbosity_error()
logging.disable_progress_bar()
{"compare": compare, "continue": follow, "make": make, "save": save,
 "score": score, "towers": towers, "halves": halves}[sys.argv[1]](*sys.argv[2:])
