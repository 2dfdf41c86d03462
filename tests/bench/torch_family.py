#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_family.py - an optimizer step of a model of transformers, timed.

The model of a config.json with random weights, as transformers computes it: with
fused attention where the family has it there. See torch_step.py.
"""
import json
import sys

import torch_step
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM


class Family(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config))

    def forward(self, ids, targets):
        logits = self.model(ids, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


if __name__ == "__main__":
    with open(sys.argv.pop(1), encoding="utf-8") as file:
        config = json.load(file)
    torch_step.run(lambda args: Family(config), torch_step.parse(__doc__))
