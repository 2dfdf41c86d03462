#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# trial_vision_generate.py - whether `disttrain generate` says what transformers
# says of images
#
# usage: trial_vision_generate.py DISTTRAIN [FAMILY...]
#
# Makes a tiny model of each family (all of them) with its processor, tokenizer
# and template, and images of several sizes. Both continue conversations with
# none, one and two of these by 64 tokens, always the likeliest, and the first
# token that differs is printed. By hand, as vision_models.py asks for
# transformers 5.24; takes a minute.
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from PIL import Image

from make_vision_runs import HERE, tokenizer
from vision_models import (
    CLIP, FULL, GEMMA, IDEFICS, QWEN2, QWEN25, QWEN3, SIGLIP, SLIDING,
    create, gemma, idefics, llava, processor, qwen, text)

NEW = 64
SIZES = [(40, 56), (9, 60), (23, 23), (64, 30)]  # rows and columns of pixels
# Images, and the text of a message.
QUESTIONS = [([0], "What?"), ([1, 2], "Same or not?"), ([], "Hello."),
             ([3], "A longer question about this image, with a few words."),
             ([2, 0], "First <image> and then <image>, which is larger?")]


def families(words):
    id = words.convert_tokens_to_ids
    given = {"vocab_size": 368, "bos_token_id": id("<s>"),
             "eos_token_id": id("</s>"), "pad_token_id": id("<pad>"),
             "max_position_embeddings": 512}
    language = text("llama", **given)
    tied = {"tie_word_embeddings": True}
    qwens = {"image_token_id": id("<|image_pad|>"),
             "video_token_id": id("<|video_pad|>"),
             "vision_start_token_id": id("<|vision_start|>"),
             "vision_end_token_id": id("<|vision_end|>")}
    here = {"image_token_id": id("<image>")}
    return {
        "llava": ("llava", llava(CLIP, language, -2), {
            "image_token_index": id("<image>")}),
        "llava siglip": ("llava", llava(
            {**SIGLIP, "vision_use_head": False}, text("qwen2", **given), -1,
            "full", **tied), {"image_token_index": id("<image>")}),
        "smolvlm": ("smolvlm", idefics(
            "smolvlm", language, scale_factor=2, **tied), here),
        "idefics3": ("idefics3", idefics(
            "idefics3", language, {**IDEFICS, "image_size": 8},
            scale_factor=2, tie_word_embeddings=False), here),
        "qwen2_vl": ("qwen2_vl", qwen(
            "qwen2_vl", QWEN2, [1, 1, 2], **given), qwens),
        "qwen2_5_vl": ("qwen2_vl", qwen(
            "qwen2_5_vl", QWEN25, [2, 1, 1], num_hidden_layers=2, **given),
            qwens),
        "gemma3": ("gemma3", gemma(
            GEMMA, 16, num_hidden_layers=2, sliding_window=5,
            layer_types=[SLIDING, FULL], query_pre_attn_scalar=12, **given), {
                "image_token_index": id("<image_soft_token>"),
                "boi_token_index": id("<start_of_image>"),
                "eoi_token_index": id("<end_of_image>")}),
        "qwen3_vl": ("qwen3_vl", qwen(
            "qwen3_vl", QWEN3, [3, 2, 1], 5e6, head_dim=12,
            num_hidden_layers=2, **given), qwens),
    }


def message(images, question):
    pieces = question.split("<image>")
    parts = [{"type": "image"} for _ in images] if len(pieces) == 1 else []
    for i, piece in enumerate(pieces):
        if i > 0:
            parts.append({"type": "image"})
        parts.append({"type": "text", "text": piece})
    return [{"role": "user", "content": parts}]


def theirs(model, words, pictures, question):
    prompt = words.apply_chat_template(
        message(pictures, question), add_generation_prompt=True)
    given = words(text=[prompt], images=[pictures] if pictures else None,
                  add_special_tokens=False, return_tensors="pt")
    config = model.config
    never = [getattr(config, key) for key in (
        "image_token_id", "video_token_id") if hasattr(config, key)]
    with torch.no_grad():
        out = model.generate(**given, max_new_tokens=NEW, do_sample=False,
                             suppress_tokens=never)
    ids = out[0, given["input_ids"].shape[1]:].tolist()
    return ids, words.tokenizer.decode(ids, skip_special_tokens=True)


def generate(program, folder, *words):
    run = subprocess.run(
        [program, "generate", "--model", folder, *words, "--temperature", "0",
         "--max-tokens", str(NEW)], stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    return run.stdout


def ours(program, folder, paths, question):
    images = [word for path in paths for word in ("--image", path)]
    return generate(program, folder, *images, "--chat", "--prompt",
                    question).removesuffix("\n")


def ours_of_file(program, folder, root):
    """The same, all at once."""
    lines = "".join(json.dumps({
        "messages": [{"role": "user", "content": question}],
        "images": [f"{i}.png" for i in images]}) + "\n"
        for images, question in QUESTIONS)
    (root / "lines.jsonl").write_text(lines)
    out = generate(program, folder, "--image-root", root, "--prompts",
                   root / "lines.jsonl")
    return [json.loads(line)["completion"] for line in out.split("\n")[:-1]]


def shown(text):
    """As a terminal gets it."""
    return re.sub("[\0-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", text)


def try_family(program, name, template, made, ids):
    kind, changes = made
    model, _ = create(kind, {**changes, **ids})
    with tempfile.TemporaryDirectory() as top:
        root = pathlib.Path(top)
        folder = root / "model"
        model.save_pretrained(folder)
        source = HERE / "vision_templates" / f"{template}.jinja"
        words = processor(model.config, tokenizer(kind),
                          chat_template=source.read_text())
        words.save_pretrained(folder)
        random = np.random.default_rng(7)
        pictures = []
        for i, size in enumerate(SIZES):
            pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
            pictures.append(Image.fromarray(pixels))
            pictures[i].save(root / f"{i}.png")
        whole = ours_of_file(program, folder, root)
        same = tokens = 0
        for (images, question), line in zip(QUESTIONS, whole):
            want_ids, want = theirs(
                model, words, [pictures[i] for i in images], question)
            got = ours(program, folder, [root / f"{i}.png" for i in images],
                       question)
            tokens += len(want_ids)
            if got == shown(want) and line == want:
                same += 1
            else:
                print(f"{name}, {question}\n  {want!r}\n  {got!r}\n  {line!r}")
        print(f"{name}: {same} of {len(QUESTIONS)} alike, {tokens} tokens",
              flush=True)
        return same == len(QUESTIONS)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    all = families(tokenizer(None))
    alike = [try_family(sys.argv[1], name, *all[name])
             for name in sys.argv[2:] or all]
    sys.exit(not min(alike))


if __name__ == "__main__":
    main()
