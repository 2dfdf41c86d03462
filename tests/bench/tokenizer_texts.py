#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# tokenizer_texts.py - texts of many kinds, the same at each call
#
# usage: tokenizer_texts.py FILE MADE_BYTES FOUND_BYTES
# Writes records of a u32 length and that many bytes: made of many scripts,
# emoji, white space, code and malformed UTF-8; then files of this machine.
import glob
import gzip
import os
import random
import struct
import sys
import unicodedata

SCRIPTS = [
    (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2AF), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF),
    (0xE00, 0xE7F), (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1FFF),
    (0x2000, 0x206F), (0x2070, 0x20CF), (0x20D0, 0x20FF), (0x2100, 0x218F),
    (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2600, 0x27BF), (0x3000, 0x30FF),
    (0x3130, 0x318F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE00, 0xFFEF), (0x10000, 0x1007F),
    (0x10330, 0x1034F), (0x11000, 0x1107F), (0x1D100, 0x1D1FF),
    (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF),
    (0xE0000, 0xE007F),
]
SPACES = (
    " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"
    "\u180e\u200b\ufeff"
)
PIECES = [
    "'s", "'S", "'\u017f", "'Ll", "'re", "'VE", "'d", "don't", "I'M",
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>",
    "<|eot_id|>", "<s>", "</s>", "<unk>", "<think>", "WORD", " WORD ", "xWORD",
    "  [LS]  ", "[LS]", "caf\u00e9", "cafe\u0301", "<0x0A>", "\u2581",
    "\u2581\u2581", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f44d\U0001f3fd",
    "e\u0301\u0323", "\u1112\u1161\u11ab", "\u1100\u1161\u11a8", "\u0958",
    "\u212b", "A\u030a", "\ufb01", "\0", "\x7f", "12345678",
    "\u0969\u096a\u0968", "\u2460\u2461", "x\u00b2", "\r\n\r\n", "\n\n  \n",
    "    ", "\t\t", "::", "...", "!!!", "//", "/*", "*/", "->", "{}", "();",
    "#include <stdio.h>\n", "return x[i] + y;\n", "\tif (!p)\n",
]
FOUND = (
    "/usr/share/doc/**/*", "/usr/include/**/*", "/usr/share/i18n/locales/*",
    "/usr/share/perl/**/*.p[lm]", "/usr/lib/python3/**/*.py",
    "/usr/share/man/**/*", "/usr/share/locale/**/*.mo",
)
BAD_BYTES = (0x80, 0xC0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF)


def is_new_mark(char):
    """The reference's normal form C knows no combining marks of our time."""
    return unicodedata.combining(char) and (
        unicodedata.ucd_3_2_0.category(char) == "Cn"
    )


def make_part(rng):
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(PIECES)
    if kind < 0.5:
        letters = "etaoinshrdlu"
        return " " + "".join(rng.choices(letters, k=rng.randint(1, 9)))
    if kind < 0.65:
        return "".join(rng.choices(SPACES, k=rng.randint(1, 6)))
    if kind < 0.67:
        return rng.choice(SPACES + "aa1.\u4e2d\u00e9\u2581") * rng.randint(10, 400)
    if kind < 0.7:
        return str(rng.randint(0, 10 ** rng.randint(1, 20)))
    first, last = rng.choice(SCRIPTS)
    chars = (chr(rng.randint(first, last)) for _ in range(rng.randint(1, 20)))
    return "".join(c for c in chars if not is_new_mark(c))


def make_text(rng):
    text = "".join(make_part(rng) for _ in range(rng.randint(1, 60)))
    made = bytearray(text, "utf-8")
    if rng.random() < 0.1:
        for _ in range(3):
            made[rng.randrange(len(made))] = rng.choice(BAD_BYTES)
    return made


def found_files(rng):
    paths = {p for g in FOUND for p in glob.glob(g, recursive=True)}
    paths = sorted(p for p in paths if os.path.isfile(p))
    rng.shuffle(paths)
    for path in paths:
        try:
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
                yield f.read(200000)
        except OSError:
            continue


def main():
    path, made_bytes, found_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(1)
    found = found_files(rng)
    with open(path, "wb") as f:
        while f.tell() < made_bytes:
            text = make_text(rng)
            f.write(struct.pack("<I", len(text)) + text)
        while f.tell() < made_bytes + found_bytes:
            text = next(found, None)
            if text is None:
                break
            f.write(struct.pack("<I", len(text)) + text)


main()
