#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grpo_vlm.py - optimizer steps of GRPO on prompts with an image, timed.

In TRL, as the Python that runs it has it, or with --disttrain PROGRAM in
disttrain: the model of trl_vlm.py, of the shape of SmolVLM-256M, with fewer
layers if --layers says so; the same photographs, prompts, numbers of completions
and lengths, sampling with a cache, everything trained. TRL gets fused AdamW and
no checkpointing of activations. --make writes the model and the prompts, which
needs the Python of TRL. Prints one line of JSON, as torch_step.py does, with
the seconds of CPU of a step, which others on the machine disturb less; those of
disttrain are the mean over the run, with its start.
"""
import argparse
import contextlib
import json
import os
import resource
import sys
import tempfile
import time

from disttrain_run import peak_mb, train

COMPLETION = 32

CONFIG = """\
algorithm: grpo
run: {{output_dir: "{dir}/out", seed: 1, device: cpu}}
model: {{path: "{work}/model", train_vision: true, disable_dropout: true}}
precision: {{compute: fp32}}
data: {{train: "{work}/prompts.jsonl", image_root: "{work}", shuffle: false,
       max_length: {most}, max_prompt_length: {prompt}, cache_dir: "{dir}"}}
rollout: {{max_completion_length: {completion}, log_every: 0}}
grpo: {{num_generations: {copies}}}
reward: {{functions: [{{type: length, shape: target, tokens: {half}}}]}}
training: {{per_device_batch_size: {batch}, max_steps: {total},
           max_grad_norm: 1.0}}
optimizer: {{lr: 1.0e-6, weight_decay: 0.0}}
scheduler: {{name: constant}}
checkpoint: {{strategy: "no", only_model: true}}
logging: {{steps: 1, report_to: [stdout, jsonl], dir: "{dir}"}}
"""


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--make", action="store_true", help="write what is read")
    p.add_argument("--disttrain", help="the program; else TRL")
    p.add_argument("--work", required=True, help="directory of the files")
    p.add_argument("--layers", type=int, help="of the tower and of the text")
    p.add_argument("--prompts", type=int, default=2)
    p.add_argument("--copies", type=int, default=8)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--warmup", type=int, default=1)
    return p.parse_args()


def make(args):
    import random

    import torch
    import transformers

    import image_peer
    import trl_vlm
    torch.manual_seed(1)
    random.seed(1)
    words = trl_vlm.tokenizer()
    config = trl_vlm.configuration(words)
    if args.layers:
        config.vision_config.num_hidden_layers = args.layers
        config.text_config.num_hidden_layers = args.layers
    transformers.SmolVLMForConditionalGeneration(config).save_pretrained(
        args.work + "/model")
    made = trl_vlm.processor(words, trl_vlm.SIDE)
    made.save_pretrained(args.work + "/model")
    sizes = [(480, 640), (768, 1024), (640, 427), (960, 1280)]
    for n, (height, width) in enumerate(sizes):
        image_peer.make(f"{args.work}/{n}.jpg", height, width)
    with open(args.work + "/prompts.jsonl", "w", encoding="utf-8") as f:
        for i in range(args.prompts * (args.warmup + args.steps)):
            prompt = [{"role": "user", "content": [
                {"type": "image"}, *trl_vlm.said(8)]}]
            f.write(json.dumps({"prompt": prompt, "images": [
                f"{i % len(sizes)}.jpg"]}) + "\n")
    size = argparse.Namespace(work=args.work)
    count = len(trl_vlm.length(size, made, prompt)[0])
    with open(args.work + "/length", "w", encoding="utf-8") as f:
        f.write(str(count + 8))  # and the start of an answer


def disttrain(args, batch, prompt):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as work:
        output, lines = train(args, work, CONFIG, prompt=prompt, batch=batch,
                              most=prompt + COMPLETION, half=COMPLETION // 2,
                              completion=COMPLETION)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"name": "disttrain", "peak_mb": peak_mb(output),
            "mean_length": lines[-1]["completions/mean_length"],
            "step_cpu_s": [round((after.ru_utime + after.ru_stime -
                                  before.ru_utime - before.ru_stime) /
                                 len(lines), 2)],
            }, [x["time"] for x in lines]


def trl(args, batch):
    import torch
    import transformers
    import trl as library
    from datasets import Dataset
    from PIL import Image

    times, cpu = [], []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            times.append(time.perf_counter())
            cpu.append(time.process_time())

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.manual_seed(1)
    with open(args.work + "/prompts.jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    data = Dataset.from_list([
        {"prompt": row["prompt"],
         "images": [Image.open(f"{args.work}/{name}").copy()
                    for name in row["images"]]} for row in rows])
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        args.work + "/model", attn_implementation="sdpa", dtype=torch.float32)
    half = COMPLETION // 2
    with tempfile.TemporaryDirectory() as out:
        trainer = library.GRPOTrainer(
            model=model,
            processing_class=transformers.AutoProcessor.from_pretrained(
                args.work + "/model"),
            reward_funcs=lambda completion_ids, **_: [
                1 - abs(len(ids) - half) / half for ids in completion_ids],
            train_dataset=data, callbacks=[Clock()],
            args=library.GRPOConfig(
                output_dir=out, use_cpu=True, bf16=False,
                per_device_train_batch_size=batch,
                num_generations=args.copies,
                max_completion_length=COMPLETION,
                max_steps=args.warmup + args.steps, learning_rate=1e-6,
                lr_scheduler_type="constant", gradient_checkpointing=False,
                optim="adamw_torch_fused", save_strategy="no",
                report_to="none", logging_steps=1, disable_tqdm=True,
                dataloader_pin_memory=False, temperature=1.0))
        with contextlib.redirect_stdout(sys.stderr):
            trainer.train()
    lengths = [x["completions/mean_length"] for x in trainer.state.log_history
               if "completions/mean_length" in x]
    return {"name": f"TRL {library.__version__}",
            "peak_mb": resource.getrusage(
                resource.RUSAGE_SELF).ru_maxrss // 1024,
            "mean_length": lengths[-1],
            "step_cpu_s": [round(b - a, 2) for a, b in zip(
                cpu[args.warmup - 1:], cpu[args.warmup:])]}, times


def main():
    args = parse()
    if args.make:
        make(args)
        return
    with open(args.work + "/length", encoding="utf-8") as f:
        prompt = int(f.read())
    batch = args.prompts * args.copies
    result, times = (disttrain(args, batch, prompt) if args.disttrain
                     else trl(args, batch))
    times = times[args.warmup - 1:]
    print(json.dumps(dict(
        result, tokens=batch * (prompt + COMPLETION), batch=batch,
        seconds=[round(b - a, 6) for a, b in zip(times, times[1:])])))


if __name__ == "__main__":
    main()
