#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_decay_reference.py - which parameters decay in transformers' Trainer
#
# Writes decay.json beside this script: for the model of each directory of
# models/ the names of its parameters, and whether weight decay applies to them.
# Needs transformers 5 and PyTorch.
import json
import pathlib

from transformers import AutoConfig, AutoModelForCausalLM, Trainer

HERE = pathlib.Path(__file__).resolve().parent


def decays(directory):
    config = AutoConfig.from_pretrained(directory)
    model = AutoModelForCausalLM.from_config(config)
    chosen = set(Trainer.get_decay_parameter_names(None, model))
    return {name: name in chosen for name, _ in model.named_parameters()}


def main():
    dirs = sorted(d for d in (HERE / "models").iterdir() if d.is_dir())
    lines = [f'"{d.name}": {json.dumps(decays(d))}' for d in dirs]
    (HERE / "decay.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
