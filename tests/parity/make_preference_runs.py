#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_preference_runs.py - twenty steps of TRL's RewardTrainer and DPOTrainer
#
# Writes beside this script preference_runs.json: pairs of token ids, and for
# each run what a configuration says of it, with the loss, the gradient norm and
# the metrics of every step; and models/*_rm, tiny reward models, with their
# scores of all sides of the pairs. Made with TRL 1.16.0, transformers 5.23 and
# torch 2.15.
import json
import logging
import pathlib
import random
import shutil
import tempfile

import torch
import transformers
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import (AutoModelForCausalLM,
                          AutoModelForSequenceClassification, PreTrainedTokenizerFast)
from tokenizers import Tokenizer, models
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

HERE = pathlib.Path(__file__).resolve().parent
V, PAIRS, STEPS, EOS, PAD = 79, 24, 20, 2, 3
COMMON = {"vocab_size": V, "bos_token_id": 1, "eos_token_id": EOS,
          "num_labels": 1, "initializer_range": 0.1}
# The padding of the second one ends texts, too.
SCORERS = {
    "gpt2_rm": transformers.GPT2Config(
        **COMMON, pad_token_id=PAD, n_embd=16, n_layer=1, n_head=2,
        n_positions=48, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0),
    "llama_rm": transformers.LlamaConfig(
        **COMMON, pad_token_id=EOS, hidden_size=16, intermediate_size=24,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64),
}
RUNS = [
    {"name": "rm", "model": "gpt2_rm", "lr": 2e-3, "B": 4, "A": 2,
     "trl": {}, "conf": ""},
    {"name": "rm, centered", "model": "llama_rm", "lr": 2e-3, "B": 4, "A": 2,
     "trl": {"center_rewards_coefficient": 0.01},
     "conf": "rm: {center_rewards_coefficient: 0.01}"},
    {"name": "sigmoid", "model": "gpt2", "lr": 1e-3, "B": 4, "A": 2,
     "trl": {"beta": 0.1}, "conf": "dpo: {beta: 0.1}"},
    {"name": "sigmoid", "model": "qwen3", "lr": 1e-3, "B": 4, "A": 2,
     "trl": {"beta": 0.3}, "conf": "dpo: {beta: 0.3}"},
    {"name": "ipo", "model": "llama", "lr": 1e-3, "B": 4, "A": 2,
     "trl": {"loss_type": "ipo"}, "conf": "dpo: {loss: ipo}"},
    {"name": "two losses", "model": "llama", "lr": 1e-3, "B": 8, "A": 1,
     "trl": {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]},
     "conf": "dpo: {loss: [sigmoid, sft], loss_weights: [1, 0.2]}"},
    {"name": "weighted", "model": "gpt2", "lr": 1e-3, "B": 4, "A": 2,
     "trl": {"use_weighting": True, "ld_alpha": 0.5},
     "conf": "dpo: {use_weighting: true, ld_alpha: 0.5}"},
    {"name": "followed", "model": "gpt2", "lr": 1e-3, "B": 8, "A": 1,
     "trl": {"sync_ref_model": True, "ref_model_mixup_alpha": 0.6,
             "ref_model_sync_steps": 3},
     "conf": "dpo: {sync_ref: {enabled: true, alpha: 0.6, steps: 3}}"},
]
# The other losses, of one rank only.
EPS = {"label_smoothing": 0.1}
LOSSES = [
    ("robust", EPS), ("hinge", {}), ("exo_pair", EPS), ("sigmoid_norm", {}),
    ("nca_pair", {}), ("bco_pair", {}), ("sppo_hard", {}), ("apo_zero", {}),
    ("apo_down", {}), ("sigmoid", {"f_divergence_type": "forward_kl"}),
    ("hinge", {"f_divergence_type": "js_divergence"}),
    ("sigmoid", {"f_divergence_type": "alpha_divergence",
                 "f_alpha_divergence_coef": 0.3}),
]


def alone(loss, options):
    keys = {"f_divergence_type": "f_divergence",
            "f_alpha_divergence_coef": "f_alpha"}
    conf = [f"loss: {loss}"] + [f"{keys.get(k, k)}: {v}"
                                for k, v in options.items()]
    return {"name": loss, "model": "llama", "lr": 1e-3, "B": 4, "A": 1,
            "alone": True, "trl": dict(options, loss_type=loss),
            "conf": f"dpo: {{{', '.join(conf)}}}"}


RUNS += [alone(*loss) for loss in LOSSES]


def make_pairs():
    def ids(low, high):
        return [random.randrange(4, V) for _ in range(random.randint(low, high))]
    random.seed(7)
    return [{"prompt_ids": ids(1, 9), "chosen_ids": ids(1, 14) + [EOS],
             "rejected_ids": ids(1, 14) + [EOS],
             "margin": round(random.uniform(0, 1), 2)} for _ in range(PAIRS)]


def tokenizer(pad):
    vocab = {f"t{i}": i for i in range(V)}
    fast = Tokenizer(models.WordLevel(vocab, unk_token="t0"))
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, unk_token="t0", bos_token="t1", eos_token="t2",
        pad_token=f"t{pad}")


def watched(trainer):
    """The trainer with the loss of every micro-batch, in the order of data."""
    class Watched(trainer):
        losses = []

        def _get_train_sampler(self, *args):
            return SequentialSampler(self.train_dataset)

        def _prepare_dataset(self, dataset, *args):
            return dataset  # of ids

        def compute_loss(self, *args, **kwargs):
            result = super().compute_loss(*args, **kwargs)
            loss = result[0] if isinstance(result, tuple) else result
            self.losses.append(loss.item())
            return result
    return Watched


def train(run, pairs):
    rm = run["model"] in SCORERS
    path = HERE / "models" / run["model"]
    pad = SCORERS[run["model"]].pad_token_id if rm else PAD
    auto = AutoModelForSequenceClassification if rm else AutoModelForCausalLM
    model = auto.from_pretrained(path, dtype=torch.float32,
                                 attn_implementation="eager")
    model.config.pad_token_id = pad
    out = tempfile.mkdtemp()
    args = (RewardConfig if rm else DPOConfig)(
        output_dir=out, per_device_train_batch_size=run["B"],
        gradient_accumulation_steps=run["A"], max_steps=STEPS,
        learning_rate=run["lr"], lr_scheduler_type="constant", max_length=48,
        logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
        bf16=False, gradient_checkpointing=False, disable_dropout=True,
        dataloader_pin_memory=False, max_grad_norm=1.0, **run["trl"])
    columns = [{k: v for k, v in pair.items()} for pair in pairs]
    if rm:
        columns = [{"chosen_ids": p["prompt_ids"] + p["chosen_ids"],
                    "rejected_ids": p["prompt_ids"] + p["rejected_ids"],
                    "margin": p["margin"]} for p in pairs]
    trainer = watched(RewardTrainer if rm else DPOTrainer)(
        model=model, args=args, train_dataset=Dataset.from_list(columns),
        processing_class=tokenizer(pad),
        **({} if rm else {"ref_model": auto.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager")}))
    trainer.losses.clear()
    trainer.train()
    shutil.rmtree(out)
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    # Without centering nothing but rounding moves the mean of all scores.
    names = (["accuracy", "margin"] + ["mean_reward"] * bool(run["trl"]) if rm
             else
             ["rewards/chosen", "rewards/rejected", "rewards/accuracies",
              "rewards/margins", "logps/chosen", "logps/rejected"])
    A = run["A"]
    if run.get("alone"):
        names = ["rewards/margins"]
    elif not rm and A == 1:  # else they are means of micro-batches
        names += ["logits/chosen", "logits/rejected", "entropy",
                  "mean_token_accuracy"]
    names += ["num_tokens"]
    return {"name": run["name"], "model": run["model"], "lr": run["lr"],
            "B": run["B"], "A": A, "conf": run["conf"],
            "alone": "alone" in run,
            "loss": [sum(trainer.losses[k * A:k * A + A]) / A
                     for k in range(STEPS)],
            "grad_norm": [float(log["grad_norm"]) for log in logs],
            "metrics": {name: [log[name] for log in logs] for name in names}}


def scores(name, pairs):
    model = AutoModelForSequenceClassification.from_pretrained(
        HERE / "models" / name, dtype=torch.float32)
    sides = [p["prompt_ids"] + p[side] for p in pairs
             for side in ("chosen_ids", "rejected_ids")]
    with torch.no_grad():
        return [model(torch.tensor([ids])).logits.item() for ids in sides]


def main():
    logging.disable(logging.WARNING)
    pairs = make_pairs()
    torch.manual_seed(3)
    for name, config in SCORERS.items():
        shutil.rmtree(HERE / "models" / name, ignore_errors=True)
        AutoModelForSequenceClassification.from_config(config).save_pretrained(
            HERE / "models" / name)
    result = {"pairs": pairs, "scores": {n: scores(n, pairs) for n in SCORERS},
              "runs": [train(run, pairs) for run in RUNS]}
    (HERE / "preference_runs.json").write_text(
        json.dumps(result, indent=None, separators=(",", ":")).replace(
            "},{", "},\n{") + "\n")


main()
