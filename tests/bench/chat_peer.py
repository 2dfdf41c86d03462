#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# chat_peer.py - conversations for a benchmark, and how fast jinja2 renders them
#
# usage: chat_peer.py make FILE BYTES TEXTS
#        chat_peer.py render TEMPLATE FILE HASHES
# `make` writes lines of JSON with messages, about BYTES, and to TEXTS what they
# say, for tokenizer_peer.py. `render` is tests/bench/render with transformers,
# and prints the same seconds of the CPU.
import itertools
import json
import random
import struct
import sys
import time


class Writer:
    """Writes as people do: 20000 words, the n-th of which is 1/n as frequent as the first."""

    def __init__(self):
        self.rng = random.Random(1)
        words = ["".join(self.rng.choices("etaoinshrdlucmfw", k=self.rng.randint(1, 10))) for _ in range(19990)]
        self.words = "the and, it. 42 caf\u00e9 \u4f60\u597d \n\n I'm (x) why?".split(" ") + words
        self.weights = list(itertools.accumulate(1 / n for n in range(1, len(self.words) + 1)))

    def text(self, words):
        return " ".join(self.rng.choices(self.words, cum_weights=self.weights, k=words))

    def conversation(self):
        yield {"role": "system", "content": self.text(12)}
        for _ in range(self.rng.randint(1, 4)):
            yield {"role": "user", "content": self.text(self.rng.randint(5, 120))}
            yield {"role": "assistant", "content": self.text(self.rng.randint(20, 400))}


def make(path, limit, texts):
    writer, written = Writer(), 0
    with open(path, "w") as f, open(texts, "wb") as said:
        while written < int(limit):
            messages = list(writer.conversation())
            written += f.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
            for text in (m["content"].encode() for m in messages):
                said.write(struct.pack("<I", len(text)) + text)


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
