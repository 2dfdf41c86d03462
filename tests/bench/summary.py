#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summary.py FILE - a table of results, one JSON object a line, as ratios.

All runs of a name with one micro-batch are one sample. The ratio is that of the
medians: how many times as fast disttrain, at its best, is as that peer. With
--config also the part that was used of the card.
"""
import argparse
import json
import statistics

PEAKS = ("first_s", "peak_mb", "reserved_mb", "card_mb")


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("file")
    p.add_argument("--best", metavar="PEER",
                   help="print only the best micro-batch of disttrain or torch")
    p.add_argument("--config", help="config.json of the model")
    p.add_argument("--tokens", type=int, help="in a row")
    p.add_argument("--ceiling", type=float, help="measured, in TFLOP/s")
    p.add_argument("--peak", type=float, default=989.0,
                   help="what the vendor states, in TFLOP/s, for MFU")
    return p.parse_args()


def flops_per_token(path, tokens):
    """6 N + 12 L H Q T (Chowdhery et al., "PaLM", app. B); N without tables
    that are only looked up in."""
    with open(path, encoding="utf-8") as f:
        c = json.load(f)
    if c["model_type"] == "gpt2":
        width, layers, heads = c["n_embd"], c["n_layer"], c["n_head"]
        inner = c.get("n_inner") or 4 * width
        size = width // heads
        block = (4 * width * (width + 1) + 2 * width * inner + inner + width
                 + 4 * width)
        rest = 2 * width
    else:
        width, layers = c["hidden_size"], c["num_hidden_layers"]
        heads, inner = c["num_attention_heads"], c["intermediate_size"]
        size = c.get("head_dim") or width // heads
        kv = 2 * c["num_key_value_heads"] * size
        bias = heads * size + kv if c["model_type"] == "qwen2" else 0
        block = (width * (2 * heads * size + kv) + bias + 3 * width * inner
                 + 2 * width)
        rest = width
    params = layers * block + rest + c["vocab_size"] * width
    return 6 * params + 12 * layers * heads * size * tokens


def read(path):
    """Samples by (name, micro-batch), in the order of the file."""
    samples = {}
    with open(path, encoding="utf-8") as f:
        for result in map(json.loads, f):
            key = (result["name"], result.get("batch"))
            sample = samples.setdefault(key, {
                "runs": 0, "seconds": [], "tokens": result["tokens"]})
            sample["runs"] += 1
            sample["seconds"] += result["seconds"]
            for name in PEAKS:
                if result.get(name) is not None:
                    sample.setdefault(name, []).append(result[name])
    for sample in samples.values():
        sample["rate"] = sample["tokens"] / statistics.median(
            sample["seconds"])
    return samples


def best(samples, peer):
    """The fastest sample of disttrain or torch, with its key; or None."""
    start = "disttrain" if peer == "disttrain" else "PyTorch"
    return max((x for x in samples.items() if x[0][0].startswith(start)),
               key=lambda x: x[1]["rate"], default=None)


def memory(sample):
    """Allocated, and on a GPU what the allocator and the process hold."""
    return " / ".join(str(max(sample[name])) for name in PEAKS[1:]
                      if name in sample)


def columns(args):
    """What stands behind the first columns: (heading, text of a sample)."""
    yield "peak MiB", memory
    if not args.config:
        return
    flops = flops_per_token(args.config, args.tokens) * 1e-12
    yield "MFU", lambda s: f"{s['rate'] * flops / args.peak:.1%}"
    yield "of the ceiling", lambda s: f"{s['rate'] * flops / args.ceiling:.1%}"
    yield "first step s", lambda s: " ".join(
        f"{x:.1f}" for x in s.get("first_s", []))


def quartiles(seconds):
    """All three are the same of a single step, of which Python has none."""
    return statistics.quantiles(seconds, n=4) if len(seconds) > 1 else \
        seconds * 3


def main():
    args = parse()
    samples = read(args.file)
    if args.best:
        found = best(samples, args.best)
        print(found[0][1] if found else "")
        return
    ours = best(samples, "disttrain")
    more = list(columns(args))
    headings = ["peer", "runs", "steps", "median s", "quartiles s", "best s",
                "tokens/s", "ratio", *(x[0] for x in more)]
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    for (name, batch), s in samples.items():
        low, mid, high = quartiles(s["seconds"])
        ratio = ours[1]["rate"] / s["rate"] if ours else 0
        row = [f"{name}, {batch} rows" if args.config else name, s["runs"],
               len(s["seconds"]), f"{mid:.3f}", f"{low:.3f} - {high:.3f}",
               f"{min(s['seconds']):.3f}", f"{s['rate']:.0f}", f"{ratio:.2f}",
               *(x[1](s) for x in more)]
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
