#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_chat_reference.py - what transformers renders by published templates

usage: make_chat_reference.py TEMPLATES OUT

Writes OUT/chat_reference.json, OUT/pair_reference.json and OUT/chat_tokenizer/,
a byte-level BPE with a few merges, which the tokens of the former two are of.

TEMPLATES holds chat templates as models carry them, one NAME.jinja each (NAME
in the table below), for which there are templates of ours, and for some the form
NAME_training.jinja that TRL trains with, which marks the assistant's words.
They are others' work and not kept here: only what they make of a few
conversations is. Written with transformers
5.23 and tokenizers 0.23.
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
from tokenizers import pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template
from trl.data_utils import common_prefix_length

# NAME: our name, BOS, EOS, is there a place for tools' answers?
IM = "<|im_end|>"
LLAMA3 = "<|begin_of_text|>", "<|eot_id|>"
TEMPLATES = {
    "chatml": ("chatml", "", IM, False),
    "qwen2_5": ("qwen2.5", "", IM, True),
    "qwen3": ("qwen3", "", IM, True),
    "llama2": ("llama2", "<s>", "</s>", False),
    "llama3": ("llama3", *LLAMA3, False),
    "llama3_1": ("llama3.1", *LLAMA3, True),
    "llama3_2": ("llama3.1", *LLAMA3, True),
}


def turns(*texts):
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return [{"role": roles[t[0]], "content": t[2:]} for t in texts]


CONVERSATIONS = [
    turns("u Hello.", "a Hi!"),
    turns("s Be brief.", "u  Two\nlines ", "a \n one \n", "u And\t?", "a No."),
    turns("u \u00a0caf\u00e9\u3000", "a \u2003\U0001f600 \u4f60\u597d\u0085"),
    turns("s  x ", "u <b>&amp;</b>", "a "),
    turns(
        "u Why?",
        "a <think>\nfirst\n</think>\n\nBecause.",
        "u Sure?",
        "a \n<think>\n\nsecond\n</think>\nYes.\n",
    ),
    turns("u 1+1", "a 2", "u 2+2", "a </think>\n4"),
]
# not among the texts that the tokenizer learns from
TWICE = [turns("s Count.", "u Again.", "a 1", "u Again.", "a 2")]
WITH_TOOLS = [
    turns("u Add.", "a I ask.", 't {"sum": "4\\\\"}', "a It is 4."),
    turns("u Add.", "a I ask.", "t 1", "t 2", "a <think>h</think>3", "u ok"),
]


CONTROL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<think>",
    "</think>",
]
WORDS = (  # of Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def make_tokenizer(folder):
    """Learns merges of the conversations, new lines above all."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    texts = [m["content"] for turns in CONVERSATIONS for m in turns]
    texts += ["system\nuser\nassistant\n\n", "a\n\nb\n\n\nc.\n"] * 9
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False) for text in CONTROL]
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}
    text = json.dumps(special, indent=1)
    (folder / "tokenizer_config.json").write_text(text + "\n")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def render(template, messages, prompt, bos, eos, spans=False):
    texts, indices = render_jinja_template(
        conversations=[messages],
        chat_template=template,
        add_generation_prompt=prompt,
        return_assistant_tokens_mask=spans,
        bos_token=bos,
        eos_token=eos,
        date_string="26 Jul 2024",
    )
    return texts[0], indices[0] if spans else []


def cases_of(folder, name, tokenizer):
    ours, bos, eos, tools = TEMPLATES[name]
    plain = (folder / f"{name}.jinja").read_text()
    training = folder / f"{name}_training.jinja"
    for messages in CONVERSATIONS + TWICE + (WITH_TOOLS if tools else []):
        case = {"name": ours, "bos": bos, "eos": eos}
        case["messages"] = messages
        case["text"], _ = render(plain, messages, False, bos, eos)
        asked = [m for m in messages]
        while asked[-1]["role"] == "assistant":
            asked.pop()
        case["prompt_turns"] = len(asked)
        case["prompt"], _ = render(plain, asked, True, bos, eos)
        if training.exists():
            text, spans = render(
                training.read_text(), messages, False, bos, eos, True
            )
            case["training"] = text
            case["trained"] = [text[begin:end] for begin, end in spans]
            out = tokenizer.apply_chat_template(
                messages,
                chat_template=training.read_text(),
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
            case["ids"] = out["input_ids"]
            case["mask"] = out["assistant_masks"]
        yield case


PAIRS = [
    ("Hello ", "world.\n"),
    ("Hello", "\n\nworld"),
    ("a\n", "\nb"),
    ("", "x"),
    ("q?", " yes"),
    ("1+1=", "2<|im_end|>"),
    ("<|im_start|>user\nWhy?<|im_end|>\n", "Because."),
    (" \u00a0caf\u00e9", "\u0301\u3000"),
    ("a\n", "\n"),
]


def pair_of(tokenizer, prompt, completion):
    """As TRL: the completion begins where both part from the prompt alone."""
    if not completion.endswith(tokenizer.eos_token):
        text = prompt + completion + tokenizer.eos_token
    else:
        text = prompt + completion
    alone, both = tokenizer(prompt).input_ids, tokenizer(text).input_ids
    return {
        "prompt": prompt,
        "completion": completion,
        "ids": both,
        "prompt_count": common_prefix_length(alone, both),
        "seam": both[: len(alone)] != alone,
    }


def save(path, rows):
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f"[\n{lines}\n]\n")


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tokenizer = make_tokenizer(out / "chat_tokenizer")
    cases = [
        case for name in TEMPLATES for case in cases_of(folder, name, tokenizer)
    ]
    save(out / "chat_reference.json", cases)
    pairs = [pair_of(tokenizer, *pair) for pair in PAIRS]
    save(out / "pair_reference.json", pairs)


main()
