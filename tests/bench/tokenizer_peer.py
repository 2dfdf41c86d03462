#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# tokenizer_peer.py - the library tokenizers, on one thread
#
# usage: tokenizer_peer.py make TEXTS DIRECTORY SIZE
#        tokenizer_peer.py encode TOKENIZER TEXTS IDS
# `make` trains the families of tests/parity on the texts. `encode` writes ids
# as tests/bench/tokenize does, and prints seconds of the CPU.
import os
import struct
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../parity"))
sys.dont_write_bytecode = True

import make_tokenizer_reference as families  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


def read_texts(path):
    with open(path, "rb") as f:
        data = f.read()
    texts, at = [], 0
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + n].decode("utf-8", "replace"))
        at += 4 + n
    return texts


def make(texts, directory, size):
    texts = [t.replace("\0", "") for t in read_texts(texts)]
    for family in families.FAMILIES:
        made = family(texts, int(size))
        made.save(os.path.join(directory, f"{family.__name__}.json"))


def encode(tokenizer, texts, out):
    start = time.process_time()
    made = Tokenizer.from_file(tokenizer)
    loaded = time.process_time()
    texts = read_texts(texts)
    started = time.process_time()
    encodings = made.encode_batch_fast(texts, add_special_tokens=False)
    done = time.process_time()
    print(f"load {loaded - start:.3f} s, encode {done - started:.3f} s")
    with open(out, "wb") as f:
        for ids in (e.ids for e in encodings):
            f.write(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids))


{"make": make, "encode": encode}[sys.argv[1]](*sys.argv[2:])
