#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trl_vlm.py - the same steps as disttrain_vlm.py with TRL, timed.

As its users would tune it: no gradient checkpointing, which is TRL's default
and costs a forward pass, fused attention and fused AdamW, rows of one length,
so that nothing is padded, and a worker that prepares images meanwhile. A step
is from on_step_begin to on_step_end. With --make it writes the model, the
photographs and the rows that both read.
"""
import argparse
import json
import pathlib
import random
import resource
import sys
import tempfile

import datasets
import torch
import transformers
import trl
from PIL import Image
from torch.utils.data import SequentialSampler

import image_peer
from trl_dpo import Timer

ROWS = 2  # a step
PARITY = pathlib.Path(__file__).resolve().parent.parent / "parity"
WORDS = "red green blue grey round square small large two three".split()
SIDE, PATCH, SHUFFLE = 512, 16, 4
FULL = {"longest_edge": SIDE}


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--make", action="store_true", help="write what is read")
    p.add_argument("--work", required=True, help="directory of the files")
    p.add_argument("--algorithm", default="sft", help="sft or dpo")
    p.add_argument("--parts", default="all", help="all or frozen")
    p.add_argument("--edge", type=int, default=512, help="of a photograph")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def tokenizer():
    folder = PARITY / "vision_tokenizer"
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **json.loads((folder / "tokenizer_config.json").read_text()))


def configuration(words):
    """The shape of SmolVLM-256M."""
    id = words.convert_tokens_to_ids
    text = {"model_type": "llama", "vocab_size": 49280, "hidden_size": 576,
            "intermediate_size": 1536, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
            "max_position_embeddings": 8192, "bos_token_id": id("<s>"),
            "eos_token_id": id("</s>"), "pad_token_id": id("<pad>")}
    tower = {"hidden_size": 768, "intermediate_size": 3072,
             "num_hidden_layers": 12, "num_attention_heads": 12,
             "image_size": SIDE, "patch_size": PATCH}
    return transformers.SmolVLMConfig(
        vision_config=tower, text_config=text, scale_factor=SHUFFLE,
        image_token_id=id("<image>"), pad_token_id=id("<pad>"),
        tie_word_embeddings=False)


def processor(words, edge):
    images = transformers.SmolVLMImageProcessor(
        size={"longest_edge": edge}, max_image_size=FULL)
    template = PARITY / "vision_templates" / "smolvlm.jinja"
    return transformers.SmolVLMProcessor(
        images, words, transformers.SmolVLMVideoProcessor(
            size={"longest_edge": edge}, max_image_size=FULL),
        image_seq_len=(SIDE // PATCH // SHUFFLE) ** 2,
        chat_template=template.read_text())


def said(count):
    """Always the same words, so that rows have one length."""
    words = (WORDS * count)[:count]
    rest = words[1:]
    random.shuffle(rest)
    return [{"type": "text", "text": " ".join(words[:1] + rest)}]


def length(args, made, messages):
    """Tokens of a row."""
    text = made.apply_chat_template(messages)
    with Image.open(args.work + "/0.jpg") as image:
        return made(text=text, images=[[image]])["input_ids"]


def make(args):
    torch.manual_seed(1)
    random.seed(1)
    words = tokenizer()
    transformers.SmolVLMForConditionalGeneration(
        configuration(words)).save_pretrained(args.work + "/model")
    made = processor(words, args.edge)
    made.save_pretrained(args.work + "/model")
    sizes = [(480, 640), (768, 1024), (640, 427), (960, 1280)]
    for n, (height, width) in enumerate(sizes):
        image_peer.make(f"{args.work}/{n}.jpg", height, width)
    with open(args.work + "/rows.jsonl", "w", encoding="utf-8") as f:
        for i in range(ROWS * (args.warmup + args.steps)):
            prompt = [{"role": "user", "content": [{"type": "image"},
                                                   *said(8)]}]
            answers = [[{"role": "assistant", "content": said(16)}]
                       for _ in range(2)]
            messages = prompt + answers[0]
            row = ({"messages": messages} if args.algorithm == "sft" else
                   {"prompt": prompt, "chosen": answers[0],
                    "rejected": answers[1]})
            f.write(json.dumps({**row, "images": [
                f"{i % len(sizes)}.jpg"]}) + "\n")
    with open(args.work + "/length", "w", encoding="utf-8") as f:
        f.write(str(len(length(args, made, messages)[0])))


def in_order(trainer):
    class InOrder(trainer):
        def _get_train_sampler(self, *_args):
            return SequentialSampler(self.train_dataset)
    return InOrder


def make_args(args, work):
    kind, more = ((trl.SFTConfig, {"packing": False})
                  if args.algorithm == "sft" else (trl.DPOConfig, {}))
    return kind(
        output_dir=work, per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=1, max_steps=args.warmup + args.steps,
        learning_rate=1e-4, lr_scheduler_type="constant", **more,
        max_length=None, logging_steps=1, report_to=[], save_strategy="no",
        use_cpu=True, bf16=args.precision == "bf16", weight_decay=0.0,
        gradient_checkpointing=False, dataloader_pin_memory=False,
        dataloader_num_workers=1, dataloader_persistent_workers=True,
        torch_compile=args.compile, max_grad_norm=1.0,
        optim="adamw_torch_fused", disable_tqdm=True)


def rows(args, work):
    """Messages as they are, and images that a worker opens."""
    data = datasets.load_dataset(
        "json", data_files=args.work + "/rows.jsonl", split="train",
        cache_dir=work)
    data = data.map(lambda row: {
        "images": [f"{args.work}/{name}" for name in row["images"]]})
    return data.cast_column("images", datasets.List(datasets.Image()))


def main():
    args = parse()
    if args.make:
        make(args)
        return
    timer = Timer()
    torch.set_num_threads(2)
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        args.work + "/model", attn_implementation="sdpa", dtype=torch.float32)
    if args.parts == "frozen":
        model.model.vision_model.requires_grad_(False)
    sft = args.algorithm == "sft"
    more = {} if sft else {
        "ref_model": transformers.AutoModelForImageTextToText.from_pretrained(
            args.work + "/model", attn_implementation="sdpa",
            dtype=torch.float32)}
    with tempfile.TemporaryDirectory() as work:
        trainer = in_order(trl.SFTTrainer if sft else trl.DPOTrainer)(
            **more, model=model, args=make_args(args, work), callbacks=[timer],
            train_dataset=rows(args, work),
            processing_class=transformers.AutoProcessor.from_pretrained(
                args.work + "/model"))
        # It would print the metrics where the results go.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    with open(args.work + "/length", encoding="utf-8") as f:
        tokens = int(f.read()) * ROWS * (1 if sft else 2)
    compiled = ", compiled" if args.compile else ""
    print(json.dumps({
        "name": f"TRL {trl.__version__}, PyTorch {torch.__version__}, malloc "
                f"tuned{compiled}",
        "tokens": tokens, "batch": ROWS,
        "seconds": [round(t, 6) for t in timer.seconds[args.warmup:]],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "loss": trainer.state.log_history[0]["loss"]}))


if __name__ == "__main__":
    sys.exit(main())
