#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_nesting_reference.py - what jinja2 renders of statements in each other

usage: make_nesting_reference.py FOLDER [show]

FOLDER is that of this script; "show" prints the lines, too. Writes FOLDER/nesting.json: the statements, the
leaves, and for each pair of statements the XXH3 of what is rendered with every
statement and every leaf in them, a line each: "refused", or the text and then
the bytes that transformers' mask for the assistant covers. transformers cannot
say where generation is that stands in what is put together elsewhere, and it is
refused here. Written with transformers 5.24 and jinja2 3.1.6.
"""

import itertools
import json
import pathlib
import sys

import xxhash
from transformers.utils import chat_template_utils

# @ is where another statement stands
STATEMENTS = {
    "for": "{% for i in [1, 2] %}f{{ i }}@F{{ z }}{% else %}e{% endfor %}",
    "else": "{% for i in [] %}{% else %}o{{ i }}@O{{ z }}{% endfor %}",
    "chosen": "{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}@{% endfor %}",
    "if": "{% if n %}i@I{{ z }}{% endif %}",
    "set": "{% set x %}s{{ x }}@S{{ z }}{% endset %}[{{ x }}]",
    "through": "{% set y | upper %}t@T{{ z }}{% endset %}[{{ y }}]",
    "filter": "{% filter lower %}L@L{{ z }}{% endfilter %}",
    "macro": "{% macro m(a) %}m{{ a }}@M{{ z }}{% endmacro %}{{ m(z) ~ m(2) }}",
    "call": "{% macro w() %}w{{ caller(3) }}W{% endmacro %}"
    "{% call(a) w() %}c{{ a }}@C{{ z }}{% endcall %}",
    "with": "{% with z = n %}w{{ z }}@W{{ z }}{% endwith %}",
    "generation": "{% generation %}g@G{{ z }}{% endgeneration %}",
}
LEAVES = [
    "{{ x }}{{ y }}{{ z }}",
    "{% set z = 4 %}{{ z }}",
    "{% if i == 1 %}{% continue %}{% endif %}",
    "{% if i != 0 %}{% break %}{% endif %}",
]
ELSEWHERE = {"set", "through", "filter", "macro", "call"}


def render(source):
    spans = []
    texts, all_spans = chat_template_utils.render_jinja_template(
        conversations=[[]],
        chat_template=source,
        return_assistant_tokens_mask=True,
        n=5,
        z=0,
    )
    text, out = texts[0], texts[0]
    assert text.isascii()
    mask = [False] * len(text)
    for begin, end in all_spans[0]:
        mask[begin:end] = [True] * (end - begin)
    at = 0
    for marked, group in itertools.groupby(mask):
        n = len(list(group))
        out += f" +{at}-{at + n}" if marked else ""
        at += n
    return out


def result(names, leaf):
    inner = False
    for name in names:
        if name == "generation" and inner:
            return "refused"
        inner = inner or name in ELSEWHERE
    source = "<@>{{ x }}{{ z }}"
    for name in names:
        source = source.replace("@", STATEMENTS[name])
    source = source.replace("@", leaf)
    try:
        return render(source)
    except Exception:
        return "refused"


def main():
    folder = pathlib.Path(sys.argv[1])
    pairs = {}
    for a, b in itertools.product(STATEMENTS, repeat=2):
        lines = [
            result((a, b, c), leaf) for c in STATEMENTS for leaf in LEAVES
        ]
        if len(sys.argv) > 2:
            print(f"{a} {b}", *lines, sep="\n")
        text = "".join(f"{line}\n" for line in lines)
        pairs[f"{a} {b}"] = xxhash.xxh3_64_hexdigest(text.encode())
    rows = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in pairs.items())
    forms = ",\n".join(
        f'"{k}": {json.dumps(v)}' for k, v in STATEMENTS.items()
    )
    leaves = ",\n".join(json.dumps(leaf) for leaf in LEAVES)
    (folder / "nesting.json").write_text(
        f'{{"statements": {{\n{forms}\n}},\n"leaves": [\n{leaves}\n],\n'
        f'"results": {{\n{rows}\n}}}}\n'
    )


main()
