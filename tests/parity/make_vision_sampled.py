#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_vision_sampled.py - what TRL's GRPOTrainer makes of completions of prompts
# with images
#
# Writes vision_sampled.json beside this script, of variants of vision_models.py:
#   prompts      numbers of documents, one for each completion; a document that
#                ends with a picture gets the token NEXT
#   completions  ids
#   advantages   of each
#   old, ref     log-probabilities of their tokens, given to the loss: those of
#                the model and hashes
#   logps        those of the model
#   loss, grads  of one micro-batch of all of them; of each parameter the norm
#                and the dot product with hashes, of those that have a gradient
#   value_loss   of PPO: the same numbers of a critic, which is the model with a
#   value_grads  head whose weights are hashes, too: half the mean square of its
#                values before each token to `returns`
# Prompts with two pictures, one and none are in one batch, and completions of a
# prompt are not neighbors. The log-probabilities, the loss and its gradient are
# of the trainer itself; the critic is plain torch, as TRL 1.16 has no PPO.
# Made with TRL 1.16, transformers 5.24 and torch 2.15.
import json
import logging
import pathlib
import tempfile
import warnings

import torch
import transformers
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from make_family_reference import hashes, project, short
from vision_models import (
    IMAGE, PAD, VARIANTS, create, documents, is_qwen, keywords, named,
    processor)

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["llava", "llava with its class", "qwen2_vl", "qwen2_5_vl"]
PROMPTS = [0, 2, 1, 0, 1, 2, 0]
LENGTHS = [5, 3, 1, 6, 4, 2, 7]
ADVANTAGES = [0.9, -0.4, 1.2, -1.1, -0.7, 0.6, 0.3]
BETA, NEXT = 0.1, 7


def words():
    folder = HERE / "vision_tokenizer"
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **json.loads((folder / "tokenizer_config.json").read_text()))


def completions():
    return [[(31 * r + 17 * t + 5) % 60 + 3 for t in range(n)]
            for r, n in enumerate(LENGTHS)]


def trainer_of(model, out):
    args = GRPOConfig(
        output_dir=out, per_device_train_batch_size=len(PROMPTS),
        num_generations=len(PROMPTS), max_steps=1, beta=0.0,
        loss_type="grpo", report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False)
    tokenizer = processor(model.config, words(), chat_template="")
    data = Dataset.from_list([{"prompt": "a"}] * len(PROMPTS))
    trainer = GRPOTrainer(model=model, reward_funcs=lambda **_: None,
                          args=args, train_dataset=data,
                          processing_class=tokenizer)
    trainer.beta = BETA  # without a model of a reference
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def prompt_of(doc):
    ids = doc.ids.tolist()
    return ids + [NEXT] if ids[-1] == IMAGE else ids


def inputs_of(config, docs):
    """As the trainer pads them: prompts at their begin."""
    prompts = [prompt_of(docs[p]) for p in PROMPTS]
    most, length = max(map(len, prompts)), max(LENGTHS)
    given = [keywords(config, docs[p]) for p in PROMPTS]

    def left(rows, filler):
        return torch.tensor([[filler] * (most - len(r)) + r for r in rows])

    def right(rows, filler):
        return torch.tensor([r + [filler] * (length - len(r)) for r in rows])
    out = {
        "prompt_ids": left(prompts, PAD),
        "prompt_mask": left([[1] * len(p) for p in prompts], 0),
        "completion_ids": right(completions(), PAD),
        "completion_mask": right([[1] * n for n in LENGTHS], 0),
        "advantages": torch.tensor(ADVANTAGES),
        "num_images": [len(docs[p].images) for p in PROMPTS],
        "pixel_values": torch.cat([g["pixel_values"] for g in given
                                   if "pixel_values" in g])}
    if is_qwen(config):
        out["image_grid_thw"] = torch.cat(
            [g["image_grid_thw"] for g in given if "image_grid_thw" in g])
        kinds = left([[int(id == IMAGE) for id in p] for p in prompts], 0)
        out["mm_token_type_ids"] = torch.cat(
            [kinds, torch.zeros_like(out["completion_ids"])], dim=1)
    return out


def rows_of(values):
    return [[short(x.item()) for x in row[:n]]
            for row, n in zip(values, LENGTHS)]


def offsets(name, scale):
    return torch.stack([torch.nn.functional.pad(
        scale * hashes(f"{name} {r}", n).float(), (0, max(LENGTHS) - n))
        for r, n in enumerate(LENGTHS)])


def grads_of(model):
    return {n: [short(p.grad.norm().item()), short(project(p.grad, n))]
            for n, p in named(model).items() if p.grad is not None}


def policy(model, docs, result):
    with tempfile.TemporaryDirectory() as out:
        trainer = trainer_of(model, out)
        inputs = inputs_of(model.config, docs)
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        more = {k: inputs.get(k) for k in (
            "pixel_values", "image_grid_thw", "num_images",
            "mm_token_type_ids")}
        with torch.no_grad():
            logps = trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, mask, max(LENGTHS), **more)[0]
        result["logps"] = rows_of(logps)
        for key, scale in (("old", 0.3), ("ref", 0.5)):
            inputs[f"{key}_per_token_logps"] = logps + offsets(key, scale)
            result[key] = rows_of(inputs[f"{key}_per_token_logps"])
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        result["loss"] = short(loss.item())
        result["grads"] = grads_of(trainer.model)


def critic(model, docs, result):
    """Each completion by itself."""
    width = model.config.text_config.hidden_size
    head = (0.375 * hashes("score.weight", width).float()).requires_grad_()
    returns = [hashes(f"return {r}", n).float()
               for r, n in enumerate(LENGTHS)]
    total, seen = 0, []
    model.zero_grad()
    for p, ids, want in zip(PROMPTS, completions(), returns):
        prompt = prompt_of(docs[p])
        given = keywords(model.config, docs[p])
        row = torch.tensor([prompt + ids[:-1]])
        if is_qwen(model.config):
            given["mm_token_type_ids"] = (row == IMAGE).int()
        hidden = model.model(row, use_cache=False, **given).last_hidden_state
        values = hidden[0, len(prompt) - 1:] @ head
        seen.append([short(v.item()) for v in values])
        total = total + ((values - want)**2).sum() / 2
    loss = total / sum(LENGTHS)
    loss.backward()
    result["returns"] = [[short(x.item()) for x in r] for r in returns]
    result["values"] = seen
    result["value_loss"] = short(loss.item())
    result["value_grads"] = {
        **grads_of(model), "score.weight": [
            short(head.grad.norm().item()),
            short(project(head.grad, "score.weight"))]}


def main():
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    variants = {}
    for name in NAMES:
        model, _ = create(*VARIANTS[name])
        docs = documents(model.config)
        variants[name] = {}
        critic(model, docs, variants[name])
        policy(model, docs, variants[name])
        print(f"{name}: loss {variants[name]['loss']:.6g}, of values "
              f"{variants[name]['value_loss']:.6g}", flush=True)
    out = {"prompts": PROMPTS, "completions": completions(),
           "advantages": ADVANTAGES, "beta": BETA, "next": NEXT,
           "variants": variants}
    lines = json.dumps(out, separators=(",", ":"))
    for end in ('},"', '],"'):
        lines = lines.replace(end, end.replace(",", ",\n"))
    (HERE / "vision_sampled.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
