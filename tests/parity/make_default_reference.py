#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_default_reference.py - what TRL takes where a file leaves a key out
#
# Writes defaults.json beside this script: for each algorithm, the fields of
# TRL's configuration with their defaults, and of ModelConfig those that are
# about the adapter. Fields whose default is made by a function of others are
# null. TRL 1.16 has no PPO. Needs TRL, and trains nothing.
import dataclasses
import json
import os
import warnings

warnings.simplefilter("ignore")

from trl import DPOConfig, GRPOConfig, ModelConfig, RewardConfig, SFTConfig

CLASSES = {
    "sft": SFTConfig,
    "rm": RewardConfig,
    "dpo": DPOConfig,
    "grpo": GRPOConfig,
}


def default_of(field):
    """The default as a file would have it; None: null, or none that can be
    written."""
    value = field.default
    if value is dataclasses.MISSING:
        made = field.default_factory
        value = None if made is dataclasses.MISSING else made()
    value = getattr(value, "value", value)
    return value if isinstance(value, (bool, int, float, str, list)) else None


def fields(of, keep=lambda name: True):
    return {f.name: default_of(f) for f in dataclasses.fields(of) if keep(f.name)}


def main():
    out = {name: fields(of) for name, of in CLASSES.items()}
    out["adapter"] = fields(ModelConfig, lambda n: "lora" in n)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "defaults.json")
    with open(path, "w") as f:
        json.dump(out, f, indent=0, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
