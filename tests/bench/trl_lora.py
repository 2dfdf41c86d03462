#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trl_lora.py - the same steps as disttrain_lora.py with TRL and PEFT, timed.

As their users would tune them: no gradient checkpointing, which is TRL's default
and costs a forward pass, fused attention and fused AdamW. A step is from
on_step_begin to on_step_end. With --make it writes the model and the rows that
both read.
"""
import argparse
import json
import random
import resource
import sys
import tempfile
import time

import peft
import torch
import transformers
import trl
from datasets import load_dataset
from torch.utils.data import SequentialSampler

from disttrain_dpo import TOKENIZER
from disttrain_step import GPT2
from trl_dpo import Timer, tokenizer

ROWS = 4  # a step


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--make", action="store_true", help="write what is read")
    p.add_argument("--work", required=True, help="directory of the files")
    p.add_argument("--tokens", type=int, default=256, help="of a row")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


class OfIds(trl.SFTTrainer):
    """Its data are ids, in their order."""

    def _get_train_sampler(self, *_args):
        return SequentialSampler(self.train_dataset)


def make(args):
    torch.manual_seed(1)
    random.seed(1)
    config = transformers.GPT2Config(**GPT2)
    transformers.GPT2LMHeadModel(config).save_pretrained(args.work + "/model")
    with open(args.work + "/model/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(TOKENIZER, f)
    with open(args.work + "/rows.jsonl", "w", encoding="utf-8") as f:
        for _ in range(ROWS * (args.warmup + args.steps)):
            ids = [random.randrange(50256) for _ in range(args.tokens)]
            f.write(json.dumps({"input_ids": ids}) + "\n")


def make_args(args, work):
    return trl.SFTConfig(
        output_dir=work, per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=1, max_steps=args.warmup + args.steps,
        learning_rate=1e-4, lr_scheduler_type="constant", packing=False,
        max_length=args.tokens, logging_steps=1, report_to=[],
        save_strategy="no", use_cpu=True, bf16=args.precision == "bf16",
        gradient_checkpointing=False, dataloader_pin_memory=False,
        max_grad_norm=1.0, optim="adamw_torch_fused", disable_tqdm=True,
        dataset_kwargs={"skip_prepare_dataset": True})


def main():
    args = parse()
    if args.make:
        make(args)
        return
    timer = Timer()
    torch.set_num_threads(2)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.work + "/model", attn_implementation="sdpa",
        dtype=torch.bfloat16 if args.precision == "bf16" else torch.float32)
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear",
                           fan_in_fan_out=True, task_type="CAUSAL_LM")
    with tempfile.TemporaryDirectory() as work:
        trainer = OfIds(
            model=model, args=make_args(args, work), peft_config=lora,
            train_dataset=load_dataset(
                "json", data_files=args.work + "/rows.jsonl", split="train",
                cache_dir=work),
            processing_class=tokenizer(), callbacks=[timer])
        # It would print the metrics where the results go.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(json.dumps({
        "name": f"TRL {trl.__version__}, PEFT {peft.__version__}, PyTorch "
                f"{torch.__version__}",
        "tokens": ROWS * args.tokens, "batch": ROWS,
        "seconds": [round(t, 6) for t in timer.seconds[args.warmup:]],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "loss": trainer.state.log_history[0]["loss"]}))


if __name__ == "__main__":
    sys.exit(main())
