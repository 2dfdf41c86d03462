#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trl_dpo.py - the same steps as disttrain_dpo.py with TRL's DPOTrainer, timed.

As its users would tune it: no gradient checkpointing, which is its default and
costs a forward pass (--reference -default keeps it), fused attention and fused
AdamW. A step is from on_step_begin to on_step_end.
"""
import argparse
import json
import resource
import sys
import tempfile
import time

import torch
import transformers
import trl
from datasets import load_dataset
from tokenizers import Tokenizer, models
from torch.utils.data import SequentialSampler

from disttrain_step import GPT2

PAIRS = 4  # a step


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", required=True)
    p.add_argument("--reference", default="", help="-live, -default or nothing")
    p.add_argument("--tokens", type=int, default=256, help="of a side")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


class Timer(transformers.TrainerCallback):
    def __init__(self):
        self.seconds, self.start = [], 0.0

    def on_step_begin(self, *_args, **_kwargs):
        self.start = time.perf_counter()

    def on_step_end(self, *_args, **_kwargs):
        self.seconds.append(time.perf_counter() - self.start)
        print(f"step {len(self.seconds)}: {self.seconds[-1]:.3f} s",
              file=sys.stderr)


class OfIds(trl.DPOTrainer):
    """Its data are ids, in their order."""

    def _prepare_dataset(self, dataset, *_args):
        return dataset

    def _get_train_sampler(self, *_args):
        return SequentialSampler(self.train_dataset)


def tokenizer():
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(50257)},
                                       unk_token="t0"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="t0", eos_token="t50256",
        pad_token="t50256")


def make_model():
    torch.manual_seed(1)
    config = transformers.GPT2Config(**GPT2, pad_token_id=50256)
    config._attn_implementation = "sdpa"
    return transformers.GPT2LMHeadModel(config)


def make_args(args, work):
    return trl.DPOConfig(
        output_dir=work, per_device_train_batch_size=PAIRS,
        gradient_accumulation_steps=1, max_steps=args.warmup + args.steps,
        learning_rate=1e-6, lr_scheduler_type="constant", beta=0.1,
        max_length=args.tokens, logging_steps=1, report_to=[],
        save_strategy="no", use_cpu=True, bf16=args.precision == "bf16",
        gradient_checkpointing=args.reference == "-default",
        precompute_ref_log_probs=args.reference != "-live",
        disable_dropout=True, dataloader_pin_memory=False, max_grad_norm=1.0,
        optim="adamw_torch_fused", disable_tqdm=True)


def main():
    args = parse()
    timer = Timer()
    torch.set_num_threads(2)
    model, reference = make_model(), make_model()
    with tempfile.TemporaryDirectory() as work:
        trainer = OfIds(
            model=model, ref_model=reference, args=make_args(args, work),
            train_dataset=load_dataset("json", data_files=args.data,
                                       split="train", cache_dir=work),
            processing_class=tokenizer(), callbacks=[timer])
        # It would print the metrics where the results go.
        trainer.remove_callback(transformers.PrinterCallback)
        del reference
        trainer.train()
    print(json.dumps({
        "name": f"TRL {trl.__version__}{args.reference}, PyTorch "
                f"{torch.__version__}",
        "tokens": PAIRS * 2 * args.tokens, "batch": PAIRS,
        "seconds": [round(t, 6) for t in timer.seconds[args.warmup:]],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "loss": trainer.state.log_history[0]["loss"]}))


if __name__ == "__main__":
    main()
