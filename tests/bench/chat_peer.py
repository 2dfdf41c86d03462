#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# chat_peer.py - conversations for a benchmark, and how fast jinja2 renders them
#
# usage: chat_peer.py make FILE BYTES
#        chat_peer.py render TEMPLATE FILE HASHES
# `make` writes lines of JSON with messages of words, about BYTES. `render` is
# tests/bench/render with transformers, and prints the same seconds of the CPU.
import json
import random
import sys
import time


def text(random, words):
    vocabulary = "the model answers, and nobody asks why; caf\u00e9 \u4f60\u597d 42 \n\n".split(" ")
    return " ".join(random.choice(vocabulary) for _ in range(words))


def make(path, limit):
    rng, written = random.Random(1), 0
    with open(path, "w") as f:
        while written < int(limit):
            messages = [{"role": "system", "content": text(rng, 12)}]
            for _ in range(rng.randint(1, 4)):
                messages.append({"role": "user", "content": text(rng, rng.randint(5, 120))})
                messages.append({"role": "assistant", "content": text(rng, rng.randint(20, 400))})
            written += f.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")


def render(template, path, hashes):
    import xxhash
    from transformers.utils.chat_template_utils import render_jinja_template

    source = open(template).read()
    start = time.process_time()
    rows = [json.loads(line)["messages"] for line in open(path)]
    parsed = time.process_time()
    texts, _ = render_jinja_template(conversations=rows, chat_template=source)
    rendered = time.process_time()
    print(f"parse {parsed - start:.3f} s, render {rendered - parsed:.3f} s, trained 0 s")
    with open(hashes, "w") as f:
        f.writelines(xxhash.xxh3_64_hexdigest(t.encode()) + "\n" for t in texts)


{"make": make, "render": render}[sys.argv[1]](*sys.argv[2:])
