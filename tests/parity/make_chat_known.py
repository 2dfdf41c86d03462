#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_chat_known.py - rows of chat_known.c from published templates

usage: make_chat_known.py TEMPLATES

TEMPLATES holds one NAME.jinja for each name below, perhaps with _b, _c and so
on behind it where a model was published with several texts. They are others'
work: only hashes of them, and of their pieces, are kept.
"""

import pathlib
import re
import sys

import xxhash

STYLES = {
    "chatml": ("CHATML", "ChatML"),
    "qwen2": ("QWEN2", "Qwen 2"),
    "qwen2_5": ("QWEN25", "Qwen 2.5"),
    "qwen3": ("QWEN3", "Qwen 3"),
    "qwen3_instruct_2507": ("QWEN3_2507", "Qwen 3 2507"),
    "llama2": ("LLAMA2", "Llama 2"),
    "llama3": ("LLAMA3", "Llama 3"),
    "llama3_1": ("LLAMA31", "Llama 3.1"),
    "llama3_2": ("LLAMA32", "Llama 3.2"),
    "mistral_v0_1": ("MISTRAL_V01", "Mistral 7B v0.1"),
    "mistral_v0_2": ("MISTRAL_V02", "Mistral 7B v0.2"),
    "mistral_v0_2_system": ("MISTRAL_V1", "Mistral 7B v0.2 of 2024"),
    "mistral_v0_3": ("MISTRAL_V3_END", "Mistral 7B v0.3"),
    "mistral_v0_3_b": ("MISTRAL_V3", "Mistral 7B v0.3"),
    "mistral_nemo": ("MISTRAL_NEMO_END", "Mistral Nemo"),
    "mistral_nemo_b": ("MISTRAL_NEMO", "Mistral Nemo"),
}


def normal(text):
    """As Jinja sees it: any end of a line is a newline, the last is none, nor
    is one behind a block."""
    text = re.sub("\r\n?", "\n", text)
    text = text.removesuffix("\n")
    return text.removesuffix("\n") if text.endswith("%}\n") else text


def pieces(text):
    return re.findall(r".*?(?:[%}]}\n?|\n)|.+", text, re.S)


def name_of(path):
    stem = path.stem
    return stem if stem in STYLES else re.sub("_[b-z]$", "", stem)


def row(path):
    style, label = STYLES[name_of(path)]
    text = normal(path.read_text())
    hexes = "".join(
        f"{xxhash.xxh3_64_intdigest(piece.encode()) & 0xffff:04x}"
        for piece in pieces(text)
    )
    whole = xxhash.xxh3_64_hexdigest(text.encode())
    lines = [hexes[i : i + 68] for i in range(0, len(hexes), 68)]
    body = "\n".join(f'     "{line}"' for line in lines)
    return f'    {{UINT64_C(0x{whole}), DT_STYLE_{style}, "{label}",\n{body}}},'


def main():
    folder = pathlib.Path(sys.argv[1])
    order = {name: i for i, name in enumerate(STYLES)}
    paths = sorted(
        folder.glob("*.jinja"),
        key=lambda path: (order[name_of(path)], path.stem),
    )
    for path in paths:
        print(row(path))


if __name__ == "__main__":
    main()
