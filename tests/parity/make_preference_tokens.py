#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_preference_tokens.py - what DPOTrainer makes of lines of pairs
#
# Writes beside this script preference_tokens.json: lines as files have them,
# each with the ids of the prompt and of both sides that TRL's trainer gives to
# its model, with chat_tokenizer/ and a ChatML template. Made with TRL 1.16.0
# and transformers 5.23.
import json
import pathlib
from types import SimpleNamespace

from accelerate import PartialState
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import DPOTrainer

HERE = pathlib.Path(__file__).resolve().parent
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
          "<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def turns(*texts):
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[t[0]], "content": t[2:]} for t in texts]


LINES = [
    {"prompt": "Is it so?", "chosen": " Yes.", "rejected": " No, not at all."},
    {"prompt": "Hello ", "chosen": "world", "rejected": "there"},
    {"prompt": "Hello", "chosen": "\n\nworld", "rejected": " world"},
    {"prompt": "1+1=", "chosen": "2<|im_end|>", "rejected": "3"},
    {"prompt": "", "chosen": "one", "rejected": "two"},
    {"prompt": "caf\u00e9 \u00a0", "chosen": "\u0301\u3000", "rejected": "e"},
    {"chosen": "The sky is blue", "rejected": "The sky is green"},
    {"chosen": "What is it? It is this.", "rejected": "What is it? That is."},
    {"chosen": "one", "rejected": "two"},
    {"prompt": turns("u Hello."), "chosen": turns("a Hi!"),
     "rejected": turns("a Go away.")},
    {"prompt": turns("s Be brief.", "u Why?", "a Because.", "u And?"),
     "chosen": turns("a No."), "rejected": turns("a  So\nbe it ")},
    {"prompt": turns("u Count."), "chosen": turns("a 1", "u more", "a 2"),
     "rejected": turns("a 1")},
    {"chosen": turns("s Be kind.", "u Hi", "a Hello."),
     "rejected": turns("s Be kind.", "u Hi", "a What?")},
    {"prompt": "Hi", "chosen": turns("u Hi", "a Hello."),
     "rejected": turns("u Hi", "a What?")},
]


def tokenize(line, tokenizer):
    """A data set of one line: its first line tells TRL what all are."""
    dataset = Dataset.from_list([line])
    if isinstance(line.get("prompt"), str) and isinstance(line["chosen"], list):
        dataset = dataset.remove_columns("prompt")  # as its documentation says
    trainer = SimpleNamespace(_tokenizer=tokenizer)
    args = SimpleNamespace(dataset_num_proc=None, max_length=None,
                           truncation_mode="keep_start")
    out = DPOTrainer._prepare_dataset(trainer, dataset, tokenizer, args, "a")
    return {key: out[0][key]
            for key in ("prompt_ids", "chosen_ids", "rejected_ids")}


def main():
    PartialState()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(HERE / "chat_tokenizer" / "tokenizer.json"),
        eos_token="<|im_end|>")
    tokenizer.chat_template = CHATML
    rows = [dict(tokenize(line, tokenizer), line=json.dumps(line))
            for line in LINES]
    text = ",\n".join(json.dumps(row) for row in rows)
    (HERE / "preference_tokens.json").write_text(f"[\n{text}\n]\n")


main()
