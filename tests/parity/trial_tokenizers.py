#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# trial_tokenizers.py - whether any id differs on megabytes of hostile text
#
# usage: trial_tokenizers.py PROGRAM [--bytes N] [--seed N] [NAME...]
#
# PROGRAM is tests/bench/tokenize. Trains a tokenizer of each name (all of
# them), has it and ours encode N bytes (10000000) of text that the seed makes,
# and prints how many texts differ, and the first one. By hand; takes minutes.
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile

import make_tokenizer_reference as byte_level
import sentencepiece
import tokenizer_kinds as kinds

SPELLED = [
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|endoftext|>", "<|im_start|>",
    "<0x41>", "<0xE2>", "<sep>", "<ctl>", "Fuchs", "WORD", "[L]", "[R]", "[LR]", "[S]", "[[[R]", "caf\u00e9", "Cafe\u0301",
    "\u4f60\u597d", "e\u0301e", "##ed", "''", "``", "<extra_id_0>", "ABC", "\u2581a\u2581b", "xx",
]
SPACES = "     \t\n\r\u00a0\u3000\u2003\u2028\u0085\u200b\u1680\ufeff\u2581\u2581\u000b\u000c"
MARKS = "\u0301\u0300\u0323\u0327\u0308\u0345\u0334\u093c\u094d\u0903\u0bbe\u09d7\u200d\u200c\u20dd\u3099\u1d165\ufe0f\U000e0100"
BLOCKS = [
    (0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x24f), (0x250, 0x36f), (0x370, 0x5ff), (0x600, 0x8ff), (0x900, 0xdff), (0xe00, 0x10ff),
    (0x1100, 0x11ff), (0x1200, 0x1fff), (0x2000, 0x2bff), (0x2c00, 0x2fff), (0x3000, 0x33ff), (0x3400, 0x9fff), (0xa000, 0xabff),
    (0xac00, 0xd7a3), (0xe000, 0xf8ff), (0xf900, 0xfaff), (0xfb00, 0xffff), (0x10000, 0x12fff), (0x16000, 0x1bfff),
    (0x1d000, 0x1dfff), (0x1e000, 0x1efff), (0x1f000, 0x1faff), (0x20000, 0x2fa1f), (0x0, 0x10ffff),
]


def piece(rng):
    kind = rng.randrange(12)
    if kind == 0:
        return rng.choice(SPELLED)
    if kind == 1:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 5)))
    if kind == 2:
        return chr(rng.randint(0x20, 0x2ff)) + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 4)))
    if kind < 6:
        low, high = rng.choice(BLOCKS)
        points = [rng.randint(low, high) for _ in range(rng.randint(1, 12))]
        return "".join(chr(p) for p in points if not 0xd800 <= p < 0xe000)
    if kind == 6:
        return rng.choice("ab=- \u00e9\u4e2d\U0001f600") * rng.choice([2, 3, 17, 33, 101, 200])
    if kind == 7:
        return str(rng.randint(0, 10 ** rng.randint(1, 20)))
    line = rng.choice(byte_level.TEXTS)
    start = rng.randrange(len(line) + 1)
    return line[start : start + rng.randint(1, 60)]


def hostile(seed, limit):
    rng, texts, total = random.Random(seed), [], 0
    while total < limit:
        size, text = rng.choice([0, 1, 2, 5, 20, 80]), ""
        for _ in range(size):
            text += piece(rng)
            if rng.random() < 0.5:
                text += " "
        texts.append(text)
        total += len(text.encode())
    return texts


def ours(program, path, texts, work):
    with open(os.path.join(work, "texts"), "wb") as f:
        for text in texts:
            data = text.encode()
            f.write(struct.pack("<I", len(data)) + data)
    out = os.path.join(work, "ids")
    plain = ["plain"] if path.endswith(".model") else []  # SentencePiece finds no control symbols in text
    done = subprocess.run([program, path, f.name, out, *plain], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    with open(out, "rb") as f:
        data = f.read()
    ids, at = [], 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        ids.append(list(struct.unpack_from(f"<{count}i", data, at + 4)))
        at += 4 + 4 * count
    return ids, done.stdout.strip()


def tokenizer(name, work, large):
    """A file of a tokenizer, and a function from texts to ids."""
    path = os.path.join(work, name)
    if name in kinds.MODELS:
        options = dict(kinds.MODELS[name])
        model = kinds.train_sentencepiece(byte_level.CORPUS * 3, path, 900, **options)
        return model, sentencepiece.SentencePieceProcessor(model_file=model).encode
    for make in byte_level.FAMILIES + kinds.PLAIN:
        if make.__name__ == name:
            made = make(byte_level.CORPUS, 900)
    for make in kinds.TABLED:
        if make.__name__ == name:
            made = make(byte_level.CORPUS, 900, large)
    made.save(path + ".json")
    return path + ".json", lambda texts: [e.ids for e in made.encode_batch(texts, add_special_tokens=False)]


def main():
    names = [make.__name__ for make in byte_level.FAMILIES + kinds.TABLED + kinds.PLAIN] + list(kinds.MODELS)
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*", default=names)
    parser.add_argument("--bytes", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_intermixed_args()
    texts, bad = hostile(args.seed, args.bytes), 0
    with tempfile.TemporaryDirectory() as work:
        large = kinds.charsmap("nmt_nfkc")
        for name in args.names or names:
            path, encode = tokenizer(name, work, large)
            got, said = ours(args.program, path, texts, work)
            expected = encode(texts)
            differ = [i for i, text in enumerate(texts) if got[i] != expected[i]]
            print(f"{name:14} {len(texts)} texts, {sum(map(len, got))} ids, {len(differ)} texts differ; {said}", flush=True)
            if differ:
                first = min(differ, key=lambda i: len(texts[i]))
                print(f"  {texts[first]!a}\n  expected {expected[first]}\n  got      {got[first]}")
            bad += len(differ)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
