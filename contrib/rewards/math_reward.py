#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reward function in Python: is the answer of a completion the right number?

    reward:
      functions:
        - type: command
          name: math
          command: [python3, math_reward.py]
          config: {answer_key: answer}

Copy it and change score(); disttrain.yaml(5) describes the protocol. The
answer is what \\boxed{} has, else what follows ####, else the last number. It
is compared as a fraction, so that 1/2, 0.5 and 50% are equal.
"""

import json
import re
import sys
from fractions import Fraction

NUMBER = re.compile(r"(?<![\w.])-?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?|(?<![\w.])-?\.\d+%?")


def to_number(text):
    """The number in a text such as $1,234.50, 3/4 or 75%, or None."""
    text = text.strip().rstrip(".").replace("$", "").replace(",", "")
    percent = text.endswith("%")
    try:
        number = Fraction(text.rstrip("%").strip())
    except (ValueError, ZeroDivisionError):
        return None
    return number / 100 if percent else number


def boxed(text):
    """What the last \\boxed{...} holds, with braces in it, or None."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 1, start + len("\\boxed{")
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return None


def answer_of(text):
    """The number that a text gives as its answer, or None."""
    inside = boxed(text)
    if inside is not None:
        fraction = re.fullmatch(r"\s*(-?)\\d?frac\{(\d+)\}\{(\d+)\}\s*", inside)
        if fraction:
            inside = "{}{}/{}".format(*fraction.groups())
        return to_number(inside)
    numbers = NUMBER.findall(text.rpartition("####")[2])
    return to_number(numbers[-1]) if numbers else None


def score(sample, config):
    """1 or 0; None where the prompt has no answer to compare with."""
    wanted = sample["columns"].get(config.get("answer_key", "answer"))
    if wanted is None:
        return None
    wanted = answer_of(str(wanted))
    if wanted is None:
        raise ValueError("prompt {}: the answer has no number".format(sample["index"]))
    return float(answer_of(sample["completion"]) == wanted)


def main():
    config = json.loads(sys.stdin.readline()).get("config", {})
    print(json.dumps({"ready": True, "abi": 1}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            rewards = [score(sample, config) for sample in request["samples"]]
            reply = {"id": request["id"], "rewards": rewards}
        except Exception as error:
            reply = {"error": "{}: {}".format(type(error).__name__, error)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
