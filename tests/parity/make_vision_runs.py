#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_vision_runs.py - twenty steps of TRL's SFTTrainer on text and images
#
# Writes vision_runs.json beside this script:
#   models  config.json and processor_config.json of tiny models, and of each
#           16 rows: messages, the numbers and sizes (rows and columns of
#           pixels) of their pictures, and what TRL's collator makes of them:
#           ids ([id, n]: n times), positions [first, last) of the assistant's
#   runs    for all models and both optimizers, and for three ways to choose
#           targets: all tokens, as TRL does with images; all but placeholders;
#           the assistant's. Of each step: the loss, which is the mean over all
#           targets of its rows, the norm of gradients before they are clipped,
#           and the learning rate
# A step takes B x A rows in order, A micro-batches of B; the rows start again
# when there are no more. A is 1 of all but llava: the Trainer would make its loss
# the mean of the means of micro-batches (accepts_loss_kwargs is False there).
# Weights are hashes as in vision.json. Byte (y, x, c) of picture i is element
# (y x width + x) x 3 + c of the hashes of "picture i", plus 1, times 128,
# rounded down. Pictures have sizes that the processors keep, so nothing is resized.
# Everything is trained; AdamW does not decay weights. A loop without TRL,
# batches and padding gives the same losses and norms, which is checked. Made
# with TRL 1.16, transformers 5.24, torch 2.15, torchvision 0.29.2.
import copy
import json
import logging
import pathlib
import tempfile
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from datasets import Dataset
from PIL import Image
from torch.utils.data import SequentialSampler
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

from make_family_reference import hashes, short
from vision_models import (
    CLIP, FULL, GEMMA, GEMMA_TOKENS, QWEN25, QWEN3, SLIDING, create, gemma,
    llava, processor, qwen, text)

HERE = pathlib.Path(__file__).resolve().parent
STEPS, ROWS, WARMUP, MAX_NORM = 20, 4, 3, 1.0
ACCUMULATED = {"llava": 2}  # others 1
BETAS, EPS = (0.9, 0.99), 1e-8
OPTIMIZERS = {"sgd": 0.1, "adamw": 2e-3}
TARGETS = ["all", "no placeholders", "assistant"]
SIDES = [(16, 24), (8, 8), (20, 12), (12, 28), (4, 16)]  # where any is taken
SYMBOLS = "red green blue grey round square small large two three".split()


def tokenizer(kind):
    more = {"extra_special_tokens": GEMMA_TOKENS} if kind == "gemma3" else {}
    folder = HERE / "vision_tokenizer"
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **json.loads((folder / "tokenizer_config.json").read_text()), **more)


def models(words):
    id = words.convert_tokens_to_ids
    given = {"vocab_size": 368, "bos_token_id": id("<s>"),
             "eos_token_id": id("</s>"), "pad_token_id": id("<pad>"),
             "max_position_embeddings": 512}
    kind, config = llava(CLIP, text("llama", **given), -2)
    config["image_token_index"] = id("<image>")
    yield "llava", "llava", (kind, config)
    for template, (kind, config) in (
            ("qwen2_vl", qwen("qwen2_5_vl", QWEN25, [2, 1, 1],
                              num_hidden_layers=2, **given)),
            ("qwen3_vl", qwen("qwen3_vl", QWEN3, [3, 2, 1], 5e6, head_dim=12,
                              num_hidden_layers=2, **given))):
        for key, token in (("image_token_id", "<|image_pad|>"),
                           ("video_token_id", "<|video_pad|>"),
                           ("vision_start_token_id", "<|vision_start|>"),
                           ("vision_end_token_id", "<|vision_end|>")):
            config[key] = id(token)
        yield kind, template, (kind, config)
    kind, config = gemma(GEMMA, 16, num_hidden_layers=2, sliding_window=5,
                         layer_types=[SLIDING, FULL],
                         query_pre_attn_scalar=12, **given)
    config["image_token_index"] = id("<image_soft_token>")
    yield kind, kind, (kind, config)


def picture(number, size):
    x = hashes(f"picture {number}", size[0] * size[1] * 3).double().numpy()
    x = np.floor((x + 1) * 128).astype(np.uint8)
    return Image.fromarray(x.reshape(*size, 3))


def make_rows(sides):
    """Most with a picture, some with two, and three without, of which two are
    one micro-batch."""
    rows, number = [], 0
    for i in range(16):
        count = 0 if i in (3, 6, 7) else 2 if i % 5 == 0 else 1
        word, other = SYMBOLS[i * 7 % 10], SYMBOLS[(i * 3 + 1) % 10]
        parts = [{"type": "image"} for _ in range(count)]
        parts.insert(i % 2, {"type": "text", "text": f"Is it {word}?"})
        messages = [{"role": "user", "content": parts},
                    {"role": "assistant", "content": [
                        {"type": "text", "text": f"It is {other}."}]}]
        if i % 4 == 2:
            messages += [
                {"role": "user", "content": [
                    {"type": "text", "text": "Sure?"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "Yes."}]}]
        pictures = [[number + k, *sides[(number + k) % len(sides)]]
                    for k in range(count)]
        number += count
        rows.append({"messages": messages, "pictures": pictures})
    return rows


class Run:
    def __init__(self, name, template, made):
        self.words = tokenizer(name)
        self.model, self.config = create(*made)
        source = HERE / "vision_templates" / f"{template}.jinja"
        self.processor = processor(self.model.config, self.words,
                                   chat_template=source.read_text())
        self.image = self.model.config.image_token_id
        size = getattr(self.model.config.vision_config, "image_size", None)
        self.rows = make_rows([(size, size)] if size else SIDES)
        self.images = [[picture(n, (h, w)) for n, h, w in row["pictures"]]
                       for row in self.rows]
        self.stored = [self.describe(i) for i in range(len(self.rows))]

    def collated(self, targets):
        collate = DataCollatorForVisionLanguageModeling(
            self.processor, assistant_only_loss=targets == "assistant")

        def collator(rows):
            out = collate(rows)
            if targets == "no placeholders":
                out["labels"][out["input_ids"] == self.image] = -100
            return out
        return collator

    def one(self, i, targets):
        return self.collated(targets)([{
            "messages": copy.deepcopy(self.rows[i]["messages"]),
            "images": self.images[i]}])

    def describe(self, i):
        out = self.one(i, "assistant")
        ids, said = [], (out["labels"][0] != -100).tolist()
        for id in out["input_ids"][0].tolist():
            if id == self.image and ids and isinstance(ids[-1], list):
                ids[-1][1] += 1
            else:
                ids.append([id, 1] if id == self.image else id)
        edges = [False, *said, False]
        ends = [k for k in range(len(said) + 1) if edges[k] != edges[k + 1]]
        return {**self.rows[i], "ids": ids,
                "assistant": [list(p) for p in zip(ends[::2], ends[1::2])]}

    def dataset(self):
        return Dataset.from_list([
            {"messages": row["messages"], "images": images}
            for row, images in zip(self.rows, self.images)])


class Watched(SFTTrainer):
    """The trainer, in the order of data, with the loss of every micro-batch."""

    def _get_train_sampler(self, *args):
        return SequentialSampler(self.train_dataset)

    def compute_loss(self, *args, **kwargs):
        loss = super().compute_loss(*args, **kwargs)
        self.losses.append(loss.item())
        return loss


class Rates(TrainerCallback):
    def __init__(self):
        self.rates = []

    def on_pre_optimizer_step(self, *args, optimizer=None, **kwargs):
        self.rates.append(optimizer.param_groups[0]["lr"])


def train(run, optimizer, targets):
    A = ACCUMULATED.get(run.model.config.model_type, 1)
    with tempfile.TemporaryDirectory() as out:
        args = SFTConfig(
            output_dir=out, per_device_train_batch_size=ROWS // A,
            gradient_accumulation_steps=A, max_steps=STEPS,
            learning_rate=OPTIMIZERS[optimizer],
            optim={"sgd": "sgd", "adamw": "adamw_torch"}[optimizer],
            adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_epsilon=EPS,
            weight_decay=0.0, lr_scheduler_type="linear", warmup_steps=WARMUP,
            max_grad_norm=MAX_NORM, max_length=None, logging_steps=1,
            report_to=[], save_strategy="no", use_cpu=True, bf16=False,
            gradient_checkpointing=False, dataloader_pin_memory=False,
            assistant_only_loss=targets == "assistant")
        rates = Rates()
        trainer = Watched(
            model=copy.deepcopy(run.model), args=args,
            train_dataset=run.dataset(), processing_class=run.processor,
            data_collator=run.collated(targets), callbacks=[rates])
        trainer.losses = []
        trainer.train()
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    return {"loss": [short(sum(trainer.losses[k * A:k * A + A]))
                     for k in range(STEPS)],
            "norm": [short(float(log["grad_norm"])) for log in logs],
            "lr": [short(rate) for rate in rates.rates]}


def train_plainly(run, optimizer, targets, rates):
    """Row by row: no batch, no padding, no trainer."""
    model = copy.deepcopy(run.model).train()
    params = list(model.parameters())
    optimizer = (torch.optim.SGD(params) if optimizer == "sgd" else
                 torch.optim.AdamW(params, betas=BETAS, eps=EPS,
                                   weight_decay=0.0))
    losses, norms = [], []
    for k in range(STEPS):
        total = count = 0
        for j in range(ROWS):
            given = run.one((k * ROWS + j) % len(run.rows), targets)
            labels = given.pop("labels")[0, 1:]
            logits = model(**given, use_cache=False).logits[0, :-1]
            total = total + F.cross_entropy(logits, labels, reduction="sum")
            count += (labels != -100).sum()
        optimizer.zero_grad()
        (total / count).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params, MAX_NORM).item())
        for group in optimizer.param_groups:
            group["lr"] = rates[k]
        optimizer.step()
        losses.append((total / count).item())
    return losses, norms


def off(a, b):
    return max(abs(x / y - 1) for x, y in zip(a, b))


def main():
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    stored, runs = {}, []
    for name, template, made in models(tokenizer(None)):
        run = Run(name, template, made)
        with tempfile.TemporaryDirectory() as top:
            run.processor.save_pretrained(top)
            path = pathlib.Path(top) / "processor_config.json"
            settings = json.loads(path.read_text())
        A = ACCUMULATED.get(name, 1)
        stored[name] = {"B": ROWS // A, "A": A, "template": template,
                        "config": run.config, "processor": settings,
                        "rows": run.stored}
        for optimizer in OPTIMIZERS:
            for targets in TARGETS:
                result = train(run, optimizer, targets)
                losses, norms = train_plainly(run, optimizer, targets,
                                              result["lr"])
                wrong = off(losses, result["loss"]), off(norms, result["norm"])
                assert max(wrong) < 1e-4, wrong
                runs.append({"model": name, "optimizer": optimizer,
                             "targets": targets, **result})
                print(f"{name}, {optimizer}, {targets}: loss "
                      f"{result['loss'][0]:.4g} to {result['loss'][-1]:.4g}, "
                      f"plainly {wrong[0]:.1e} {wrong[1]:.1e}", flush=True)
    out = {"betas": BETAS, "eps": EPS, "max_norm": MAX_NORM,
           "models": stored, "runs": runs}
    lines = json.dumps(out, separators=(",", ":"))
    for end in ('},{"', '},"', '],"'):
        lines = lines.replace(end, end.replace(",", ",\n"))
    (HERE / "vision_runs.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
