#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_vision_pairs.py - twenty steps on preference pairs with images
#
# Writes vision_pairs.json beside this script, of the models, rows and pictures
# of vision_runs.json:
#   pairs  of both models the rows' messages as a prompt, a chosen and a rejected
#          answer, and the numbers of their pictures
#   runs   "dpo" is TRL's DPOTrainer, which trains everything; "dpo frozen" the
#          same with a frozen tower; "rm" a loop over pairs with transformers'
#          base model and a head without bias, as TRL's trainer has no images.
#          Of each step: the loss, the norm of gradients before they are
#          clipped, the learning rate, and the mean margin of rewards; the
#          classifier of a family that has one
#   scores of the sides of the pairs, by the reward model before it is trained,
#          and after
# Weights are hashes as in vision.json, those of the head of "score.weight". A
# step takes ROWS pairs in order; the pairs start again when there are no more.
# Made with TRL 1.16, transformers 5.24, torch 2.15, torchvision 0.29.2.
import copy
import json
import logging
import pathlib
import tempfile
import warnings

import torch
import torch.nn.functional as F
import transformers
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import (Gemma3ForSequenceClassification,
                          get_linear_schedule_with_warmup)
from trl import DPOConfig, DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForVisionPreference

from make_family_reference import hashes, short
from make_vision_runs import (BETAS, EPS, MAX_NORM, ROWS, STEPS, WARMUP, Rates,
                              Run, models, tokenizer)

HERE = pathlib.Path(__file__).resolve().parent
RATE, BETA = 2e-3, 0.1
WORDS = "round square small large two".split()


def make_pairs(run):
    pairs = []
    for i, row in enumerate(run.rows):
        prompt, answer = row["messages"][:-1], row["messages"][-1]
        other = [{"type": "text", "text": f"It may be {WORDS[i % 5]}."}]
        pairs.append({"prompt": prompt, "chosen": [answer],
                      "rejected": [{"role": "assistant", "content": other}],
                      "pictures": [p[0] for p in row["pictures"]]})
    return pairs


def dataset(run, pairs):
    rows = [{k: v for k, v in pair.items() if k != "pictures"}
            for pair in pairs]
    return Dataset.from_list([{**row, "images": images}
                              for row, images in zip(rows, run.images)])


class Watched(DPOTrainer):
    def _get_train_sampler(self, *args):
        return SequentialSampler(self.train_dataset)

    def compute_loss(self, *args, **kwargs):
        result = super().compute_loss(*args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        self.losses.append(loss.item())
        return result


def freeze(model):
    for name, p in model.named_parameters():
        if "vision_tower." in name or ".visual." in name:
            p.requires_grad_("merger" in name)


def train_dpo(run, pairs, frozen):
    model = copy.deepcopy(run.model)
    if frozen:
        freeze(model)
    with tempfile.TemporaryDirectory() as out:
        args = DPOConfig(
            output_dir=out, per_device_train_batch_size=ROWS, beta=BETA,
            max_steps=STEPS, learning_rate=RATE, optim="adamw_torch",
            adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_epsilon=EPS,
            weight_decay=0.0, lr_scheduler_type="linear", warmup_steps=WARMUP,
            max_grad_norm=MAX_NORM, max_length=None, logging_steps=1,
            report_to=[], save_strategy="no", use_cpu=True, bf16=False,
            gradient_checkpointing=False, disable_dropout=True,
            dataloader_pin_memory=False)
        rates = Rates()
        trainer = Watched(
            model=model, ref_model=copy.deepcopy(run.model), args=args,
            train_dataset=dataset(run, pairs), processing_class=run.processor,
            callbacks=[rates])
        trainer.losses = []
        trainer.train()
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    return {"loss": [short(loss) for loss in trainer.losses],
            "norm": [short(float(log["grad_norm"])) for log in logs],
            "lr": [short(rate) for rate in rates.rates],
            "margin": [log["rewards/margins"] for log in logs]}


class Scorer(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.base = copy.deepcopy(model.model)
        width = model.config.text_config.hidden_size
        self.score = torch.nn.Linear(width, 1, bias=False)
        with torch.no_grad():
            self.score.weight.copy_(
                (hashes("score.weight", width) * 0.375).view(1, width))
        self.classifier = None
        if model.config.model_type == "gemma3":
            config = copy.deepcopy(model.config)
            config.num_labels = 1
            self.classifier = Gemma3ForSequenceClassification(config)
            self.classifier.model, self.classifier.score = self.base, self.score

    def forward(self, **given):
        if self.classifier:
            return self.classifier(**given, use_cache=False).logits[:, 0]
        hidden = self.base(**given, use_cache=False).last_hidden_state
        return self.score(hidden[:, -1])[:, 0]


def sides(run, pair, images):
    """The inputs of both sides, each by itself."""
    out = DataCollatorForVisionPreference(run.processor)(
        [{**copy.deepcopy({k: pair[k] for k in
                           ("prompt", "chosen", "rejected")}),
          "images": images}])
    out.pop("completion_mask")
    given = []
    for side in range(2):
        count = int(out["attention_mask"][side].sum())
        one = {}
        for key, value in out.items():
            if key in ("pixel_values", "image_grid_thw"):
                half = len(value) // 2
                one[key] = value[side * half:(side + 1) * half]
            else:
                one[key] = value[side:side + 1, :count]
        given.append(one)
    return given


def train_rm(run, pairs):
    model = Scorer(run.model).train()
    params = [p for p in model.parameters()]
    optimizer = torch.optim.AdamW(params, lr=RATE, betas=BETAS, eps=EPS,
                                  weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    given = [sides(run, pair, images)
             for pair, images in zip(pairs, run.images)]

    def scores():
        with torch.no_grad():
            return [[model(**side).item() for side in pair] for pair in given]

    before = scores()
    out = {"loss": [], "norm": [], "lr": [], "margin": []}
    for k in range(STEPS):
        total = margin = 0
        for j in range(ROWS):
            chosen, rejected = (model(**side) for side in
                                given[(k * ROWS + j) % len(given)])
            total = total - F.logsigmoid(chosen - rejected).sum() / ROWS
            margin += (chosen - rejected).item() / ROWS
        optimizer.zero_grad()
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
        out["lr"].append(short(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
        out["loss"].append(short(total.item()))
        out["norm"].append(short(norm.item()))
        out["margin"].append(short(margin))
    return out, [[[short(x) for x in pair] for pair in kind]
                 for kind in (before, scores())]


def main():
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    stored, runs = {}, []
    for name, template, made in models(tokenizer(None)):
        run = Run(name, template, made)
        pairs = make_pairs(run)
        result, (before, after) = train_rm(run, pairs)
        runs.append({"model": name, "run": "rm", **result})
        stored[name] = {"pairs": pairs, "before": before, "after": after}
        for kind in ("dpo", "dpo frozen"):
            runs.append({"model": name, "run": kind,
                         **train_dpo(run, pairs, kind != "dpo")})
        for result in runs[-3:]:
            print(f"{name}, {result['run']}: loss {result['loss'][0]:.4g} to "
                  f"{result['loss'][-1]:.4g}, norm {result['norm'][0]:.4g}",
                  flush=True)
    lines = json.dumps({"beta": BETA, "models": stored, "runs": runs},
                       separators=(",", ":"))
    for end in ('},{"', '},"', '],"'):
        lines = lines.replace(end, end.replace(",", ",\n"))
    (HERE / "vision_pairs.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
