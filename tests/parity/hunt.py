#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# hunt.py - looks for configurations that are read differently from transformers
#
#     hunt.py [--count 200] [--seed 1] [--keep DIR] [--family NAME] BUILDDIR
#
# Draws legal configurations of all families, makes the random model of each
# with transformers, and compares its loss on a few tokens with what
# BUILDDIR/tests/parity/logits_probe finds in the directory: equal within 1e-5
# of itself, or a refusal that names a key of the configuration. Models with a
# tower see text alone: their towers are read, not computed with. Prints how many
# were equal and refused, and every other one; the status says whether there was
# any. Not part of make check: it needs a Python with transformers.
import argparse
import collections
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers
from transformers import (
    AutoModelForCausalLM, AutoModelForImageTextToText, logging)

V, T = 61, 40


def draw_rope(r, family, config, rotary):
    """A scaling that the family allows, in either spelling."""
    length = config["max_position_embeddings"]
    kinds = ["default", "default", "linear", "dynamic", "yarn", "longrope",
             "llama3"]
    if family == "phi3":
        kinds = ["default", "longrope"]
    kind = r.choice(kinds)
    rope = {"rope_type": kind}
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        rope["factor"] = r.choice([1.0, 2.0, 4, 8.5])
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]),
                    original_max_position_embeddings=length // 4)
    if kind == "yarn":
        rope["original_max_position_embeddings"] = length // r.choice([2, 4])
        for key, values in {"beta_fast": [16, 32.0], "beta_slow": [1, 2.0],
                            "attention_factor": [0.8, 1.3], "mscale": [0.7],
                            "mscale_all_dim": [1.1],
                            "truncate": [True, False]}.items():
            if r.random() < 0.4:
                rope[key] = r.choice(values)
    if kind == "longrope":
        pairs = rotary // 2
        rope["short_factor"] = [round(r.uniform(1, 2), 3) for _ in range(pairs)]
        rope["long_factor"] = [round(r.uniform(2, 6), 3) for _ in range(pairs)]
        original = r.choice([T // 2, T, length // 2])
        if family == "phi3":
            config["original_max_position_embeddings"] = original
        else:
            rope["original_max_position_embeddings"] = original
        if r.random() < 0.4:
            rope["factor"] = r.choice([2.0, 4])
        if r.random() < 0.3:
            rope["attention_factor"] = 1.25
    return rope


def draw_sizes(r, family):
    heads = r.choice([2, 4, 6])
    size = r.choice([4, 8, 12, 16])
    layers = r.randint(1, 7)
    config = {
        "model_type": family, "vocab_size": V, "hidden_size": heads * size,
        "intermediate_size": r.choice([8, 24, 50]),
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "max_position_embeddings": r.choice([64, 128, 256]),
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        "initializer_range": 0.3,
    }
    keys = [n for n in (1, 2, 3, heads) if heads % n == 0]
    if family.startswith("gemma") or r.random() < 0.8:
        config["num_key_value_heads"] = r.choice(keys)
    elif family in ("mistral", "qwen2", "qwen3", "smollm3"):
        config["num_key_value_heads"] = r.choice(keys)
    other = r.random() < 0.3
    if family == "qwen3" or family.startswith("gemma") or (
            other and family not in ("qwen2",)):
        size = r.choice([4, 8, 10, 16])
        config["head_dim"] = size
    return config, size


def draw_layers(r, family, config):
    layers = config["num_hidden_layers"]
    types = [r.choice(["full_attention", "sliding_attention"])
             for _ in range(layers)]
    window = r.choice([1, 3, 8, 33, 64])
    if family in ("mistral", "phi3"):
        config["sliding_window"] = r.choice([None, window])
    if family in ("qwen2", "qwen3"):
        config["use_sliding_window"] = r.random() < 0.6
        config["sliding_window"] = window
        config["max_window_layers"] = r.randint(0, layers)
        if config["use_sliding_window"] and r.random() < 0.5:
            config["layer_types"] = types
    if family == "smollm3":
        if r.random() < 0.5:
            config["no_rope_layers"] = [r.randint(0, 1) for _ in range(layers)]
        elif r.random() < 0.5:
            config["no_rope_layer_interval"] = r.randint(1, 5)
        config["use_sliding_window"] = r.random() < 0.5
        if r.random() < 0.7:
            config["sliding_window"] = window
            if r.random() < 0.4:
                config["layer_types"] = types
    if family in ("gemma2", "gemma3_text"):
        config["sliding_window"] = window
        if r.random() < 0.5:
            config["layer_types"] = types
        elif family == "gemma3_text" and r.random() < 0.5:
            config["sliding_window_pattern"] = r.randint(1, 4)


def draw_mathematics(r, family, config):
    def maybe(key, *values, chance=0.5):
        if r.random() < chance:
            config[key] = r.choice(values)

    if family in ("llama", "qwen3", "gemma2", "gemma3_text", "granite",
                  "olmo2", "smollm3"):
        maybe("attention_bias", True, False)
    if family in ("llama", "granite", "smollm3"):
        maybe("mlp_bias", True, False)
    maybe("tie_word_embeddings", True, False)
    maybe("rms_norm_eps", 1e-5, 1e-3)
    act = ("hidden_activation" if family.startswith("gemma") else "hidden_act")
    maybe(act, "silu", "gelu_pytorch_tanh", "gelu_new", "gelu", "relu",
          chance=0.3)
    if family.startswith("gemma"):
        maybe("query_pre_attn_scalar", 4, 16, 224)
        maybe("final_logit_softcapping", None, 5.0, 30.0)
        maybe("attn_logit_softcapping", None, 1.0, 50.0)
        maybe("use_bidirectional_attention", True, False, None, chance=0.1)
    if family == "granite":
        maybe("embedding_multiplier", 0.5, 12.0)
        maybe("residual_multiplier", 0.22, 1)
        maybe("attention_multiplier", 0.0078125, 0.5)
        maybe("logits_scaling", 8, 0.5)
    if family == "phi3":
        maybe("partial_rotary_factor", 0.5, 0.75, 1.0)
        maybe("embd_pdrop", 0.1)
        maybe("resid_pdrop", 0.1)
    elif r.random() < 0.05:
        config["partial_rotary_factor"] = 0.5
    maybe("attention_dropout", 0.1, chance=0.2)


def draw_gpt2(r):
    heads = r.choice([1, 2, 4])
    config = {"model_type": "gpt2", "vocab_size": V, "n_positions": 64,
              "n_embd": heads * r.choice([4, 8, 10]), "n_head": heads,
              "n_layer": r.randint(1, 4), "initializer_range": 0.3}
    for key, values in {
            "n_inner": [None, 20], "layer_norm_epsilon": [1e-3],
            "activation_function": ["gelu_new", "gelu", "gelu_pytorch_tanh"],
            "scale_attn_weights": [True, False],
            "scale_attn_by_inverse_layer_idx": [True, False],
            "reorder_and_upcast_attn": [True, False],
            "tie_word_embeddings": [True, False]}.items():
        if r.random() < 0.3:
            config[key] = r.choice(values)
    return config


FAMILIES = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2",
            "gemma3_text", "granite", "olmo2", "phi3", "smollm3"]


def draw(r, family):
    """A config.json, as files say it: in part left to the defaults."""
    if family == "gpt2":
        return draw_gpt2(r)
    config, size = draw_sizes(r, family)
    draw_layers(r, family, config)
    draw_mathematics(r, family, config)
    rotary = int(size * config.get("partial_rotary_factor", 1.0))
    rope = draw_rope(r, family, config, rotary)
    theta = r.choice([1e3, 1e4, 5e5])
    old = r.random() < 0.5
    if family == "gemma3_text" and not old:
        config["rope_parameters"] = {
            "full_attention": dict(rope, rope_theta=theta),
            "sliding_attention": {"rope_type": "default",
                                  "rope_theta": r.choice([1e2, 1e4])}}
    elif old:
        config["rope_theta"] = theta
        if family == "gemma3_text" and r.random() < 0.5:
            config["rope_local_base_freq"] = 100.0
        if rope["rope_type"] != "default":
            if r.random() < 0.5:
                rope["type"] = rope.pop("rope_type")
            config["rope_scaling"] = rope
    else:
        config["rope_parameters"] = dict(rope, rope_theta=theta)
        if "partial_rotary_factor" in config and r.random() < 0.5:
            config["rope_parameters"]["partial_rotary_factor"] = config.pop(
                "partial_rotary_factor")
    return config


VISION = ["llava", "smolvlm", "idefics3", "qwen2_vl", "qwen2_5_vl"]
ACTIVATIONS = ["quick_gelu", "gelu", "gelu_pytorch_tanh", "silu", "relu"]


def draw_tower(r, family, text):
    """vision_config, and keys that say what is made of its rows."""
    heads, layers = r.choice([1, 2, 3]), r.randint(1, 3)
    width, patch = heads * r.choice([4, 8, 12]), r.choice([2, 3])
    tower = {"patch_size": patch, "initializer_range": 0.3}
    if r.random() < 0.5:
        tower["hidden_act"] = r.choice(ACTIVATIONS)
    if r.random() < 0.1:
        tower["attention_dropout"] = 0.1
    if family.startswith("qwen"):
        tower.update(depth=layers, num_heads=heads)
        if r.random() < 0.5:
            tower["spatial_merge_size"] = r.choice([1, 2, 3])
        if family == "qwen2_vl":
            tower.update(embed_dim=width, hidden_size=text["hidden_size"],
                         mlp_ratio=r.choice([1, 2]))
        else:
            tower.update(hidden_size=width, intermediate_size=r.choice([8, 20]),
                         out_hidden_size=text["hidden_size"],
                         window_size=r.choice([4, 12, 24]),
                         fullatt_block_indexes=[r.randint(0, 3)])
        return tower, {}
    tower.update(hidden_size=width, num_hidden_layers=layers,
                 num_attention_heads=heads, intermediate_size=r.choice([8, 20]),
                 image_size=patch * r.choice([2, 4, 6]) + r.choice([0, 0, 1]))
    if family != "llava":
        return tower, {"scale_factor": r.choice([1, 2])}
    tower["model_type"] = r.choice(["clip_vision_model", "siglip_vision_model"])
    layer = r.choice([-1, -2, 0, layers, [-1, 0], -layers - 2])
    root = {"vision_feature_layer": layer}
    for key, values in {
            "vision_feature_select_strategy": ["full", "default"],
            "projector_hidden_act": ACTIVATIONS,
            "multimodal_projector_bias": [True, False]}.items():
        if r.random() < 0.5:
            root[key] = r.choice(values)
    return tower, root


def draw_with_tower(r, family):
    """A config.json with a tower before a language model."""
    qwen = family.startswith("qwen")
    text = draw(r, "qwen2" if qwen else r.choice(FAMILIES[1:]))
    tower, root = draw_tower(r, family, text)
    token = "image_token_index" if family == "llava" else "image_token_id"
    root.update(model_type=family, vision_config=tower, **{token: V - 1})
    if r.random() < 0.5:
        root["tie_word_embeddings"] = r.choice([True, False])
    if not qwen:
        return {**root, "text_config": text}
    pairs = text["hidden_size"] // text["num_attention_heads"] // 2
    first = r.randint(0, pairs)
    second = r.randint(0, pairs - first)
    section = [first, second, pairs - first - second]
    old = "rope_parameters" not in text
    rope = text.setdefault("rope_scaling" if old else "rope_parameters", {})
    rope["mrope_section"] = section
    if old and "rope_type" not in rope and "type" not in rope:
        rope["type"] = "mrope"
    text.pop("model_type")
    if r.random() < 0.5:  # as released: the text's keys are the file's
        return {**text, **root}
    return {**root, "text_config": text}


def make_model(path, config, seed):
    """The directory; None if transformers refuses the configuration."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config, indent=1))
    torch.manual_seed(seed)
    kind = (AutoModelForImageTextToText if "vision_config" in config
            else AutoModelForCausalLM)
    try:
        model = kind.from_config(
            transformers.AutoConfig.from_pretrained(path),
            attn_implementation="eager", dtype=torch.float32).eval()
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.data.normal_(1.0 if "norm" in name or "ln_" in name else 0.0,
                               0.3)
        model.save_pretrained(path)
        # the drawn text, not the one with all defaults
        (path / "config.json").write_text(json.dumps(config, indent=1))
        return kind.from_pretrained(
            path, attn_implementation="eager").eval()
    except Exception as error:  # whatever it is, nobody trains such a model
        return str(error).splitlines()[-1] if str(error) else repr(error)


def loss_of(logits, ids):
    return F.cross_entropy(logits[:-1].double(), ids[1:]).item()


def keys_of(config):
    for key, value in config.items():
        yield key
        if isinstance(value, dict):
            yield from keys_of(value)


def judge(path, config, model, probe, ids):
    """What came of one: a word, and what there is to say."""
    with torch.no_grad():
        try:
            want = loss_of(model(ids[None], use_cache=False).logits[0], ids)
        except Exception as error:
            return "void", repr(error)
    got = subprocess.run([probe, path, *map(str, ids.tolist())],
                         capture_output=True, text=True)
    if got.returncode != 0:
        named = [k for k in keys_of(config) if k in got.stderr]
        return ("refused" if named else "UNNAMED"), got.stderr.strip()
    logits = torch.tensor([[float(x) for x in line.split()]
                           for line in got.stdout.splitlines()])
    off = abs(loss_of(logits, ids) / want - 1)
    if not (math.isfinite(want) and off <= 1e-5):
        return "DIFFERENT", f"{off:.2g}, loss {want:.6g}"
    return "equal", f"{off:.2g}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--family", action="append", dest="families",
                        choices=FAMILIES + VISION)
    parser.add_argument("builddir", type=pathlib.Path)
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    probe = args.builddir.resolve() / "tests/parity/logits_probe"
    families = args.families or FAMILIES + VISION
    r, counts = random.Random(args.seed), collections.Counter()
    by_family, worst, n = collections.Counter(), 0.0, 0
    with tempfile.TemporaryDirectory() as top:
        while counts["equal"] + counts["refused"] + counts["other"] < args.count:
            family = families[n % len(families)]
            make = draw_with_tower if family in VISION else draw
            config, n = make(r, family), n + 1
            path = pathlib.Path(top) / str(n)
            model = make_model(path, config, n)
            if isinstance(model, str):
                counts["illegal"] += 1
                shutil.rmtree(path)
                continue
            torch.manual_seed(n)
            ids = torch.randint(V - 1, (r.choice([5, T, T]),))
            word, text = judge(path, config, model, probe, ids)
            if word == "void":
                counts["illegal"] += 1
            elif word in ("equal", "refused"):
                counts[word] += 1
                by_family[family, word] += 1
                if word == "equal":
                    worst = max(worst, float(text))
                else:
                    print(f"{n} {family}: refused: {text.split(': ', 1)[1]}")
            else:
                counts["other"] += 1
                print(f"{n} {family}: {word}: {text}\n  {json.dumps(config)}")
                if args.keep:
                    shutil.copytree(path, args.keep / str(n))
            shutil.rmtree(path)
    for family in families:
        print(f"{family}: equal {by_family[family, 'equal']}, "
              f"refused {by_family[family, 'refused']}")
    print(f"equal {counts['equal']}, refused {counts['refused']}, other "
          f"{counts['other']}; transformers itself refused "
          f"{counts['illegal']}; largest relative difference {worst:.2g}")
    sys.exit(counts["other"] > 0)


if __name__ == "__main__":
    main()
