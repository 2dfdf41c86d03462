#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_vision_names.py - how transformers has spelled names of parameters
#
# Adds to vision_names.json beside this script, below its own version, for a
# model of each family with one block in each part:
#   config    config.json as that version writes it
#   saved     names in model.safetensors, sorted; the version before it that
#             wrote the same, if one did
#   memory    names of parameters in the program, which are what other libraries
#             write, where these are others
# Run it with 4.51.3, 4.57.6 and 5.24.0, in this order: releases from 4.52 on
# write names of the hub, as 4.51 does, but call them otherwise in memory. A
# release writes the families that it knows. The last one checks that it reads
# all spellings.
import json
import pathlib
import re
import tempfile

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import (
    CONFIG_MAPPING, AutoConfig, AutoModelForImageTextToText)

FILE = pathlib.Path(__file__).resolve().parent / "vision_names.json"
NEW = transformers.__version__.startswith("5")

TEXT = {"hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 79,
        "max_position_embeddings": 256}
TOWER = {"hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 1,
         "num_attention_heads": 2, "image_size": 8, "patch_size": 2}
ROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]},
        "rope_theta": 1e6}
IDS = {"image_token_id": 77, "video_token_id": 78, "vision_start_token_id": 75,
       "vision_end_token_id": 76}
QWEN2 = {"depth": 1, "embed_dim": 24, "hidden_size": 24, "num_heads": 2,
         "mlp_ratio": 2, "patch_size": 2}
QWEN25 = {"depth": 1, "hidden_size": 24, "intermediate_size": 20,
          "out_hidden_size": 24, "num_heads": 2, "patch_size": 2,
          "window_size": 16, "fullatt_block_indexes": [0]}
QWEN3 = {"depth": 1, "hidden_size": 24, "intermediate_size": 20,
         "out_hidden_size": 24, "num_heads": 2, "patch_size": 2,
         "num_position_embeddings": 9, "deepstack_visual_indexes": [0]}


def llava(tower, text):
    return {"model_type": "llava", "image_token_index": 77,
            "vision_config": {"model_type": tower, **TOWER},
            "text_config": {"model_type": text, **TEXT}}


def qwen(kind, tower):
    text = {**TEXT, **ROPE}
    if kind == "qwen3_vl":
        text["rope_scaling"] = {"rope_type": "default",
                                "mrope_interleaved": True,
                                "mrope_section": [1, 1, 1]}
        text["head_dim"] = 6
    if NEW or kind == "qwen3_vl":
        return {"model_type": kind, "vision_config": tower, **IDS,
                "text_config": text}
    return {"model_type": kind, "vision_config": tower, **IDS, **text}


FAMILIES = {
    "llava": llava("clip_vision_model", "llama"),
    "llava siglip": llava("siglip_vision_model", "qwen2"),
    "smolvlm": {"model_type": "smolvlm", "image_token_id": 77,
                "scale_factor": 2, "vision_config": TOWER,
                "text_config": {"model_type": "llama", **TEXT}},
    "qwen2_vl": qwen("qwen2_vl", QWEN2),
    "qwen2_5_vl": qwen("qwen2_5_vl", QWEN25),
    "gemma3": {"model_type": "gemma3", "image_token_index": 77,
               "mm_tokens_per_image": 4,
               "vision_config": {"model_type": "siglip_vision_model",
                                 **TOWER, "vision_use_head": False},
               "text_config": {"model_type": "gemma3_text", "head_dim": 6,
                               **TEXT}},
    "qwen3_vl": qwen("qwen3_vl", QWEN3),
}
FAMILIES = {name: config for name, config in FAMILIES.items()
            if config["model_type"] in CONFIG_MAPPING}


def of(family):
    with tempfile.TemporaryDirectory() as top:
        path = pathlib.Path(top)
        (path / "config.json").write_text(json.dumps(FAMILIES[family]))
        model = AutoModelForImageTextToText.from_config(
            AutoConfig.from_pretrained(path))
        model.save_pretrained(path)
        with safe_open(path / "model.safetensors", "pt") as f:
            saved = sorted(f.keys())
        text = json.loads((path / "config.json").read_text())
    memory = sorted(n for n, _ in model.named_parameters())
    result = {"config": text, "saved": saved}
    if memory != saved:
        result["memory"] = memory
    return result


def reads(family, names, config):
    """The model has values of all names of the file, and no others."""
    model = AutoModelForImageTextToText.from_config(
        AutoConfig.for_model(**config))
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}
    given = {}
    for name in names:
        tail = [n for n in shapes if ends_alike(n, name)]
        assert len(tail) == 1, (name, tail)
        given[name] = torch.randn(shapes[tail[0]])
    with tempfile.TemporaryDirectory() as top:
        path = pathlib.Path(top)
        (path / "config.json").write_text(json.dumps(config))
        save_file(given, path / "model.safetensors", {"format": "pt"})
        model, info = AutoModelForImageTextToText.from_pretrained(
            path, output_loading_info=True)
    assert not any(info[k] for k in (
        "missing_keys", "unexpected_keys", "mismatched_keys")), (family, info)
    for name, value in given.items():
        tail = [p for n, p in model.named_parameters() if ends_alike(n, name)]
        assert torch.equal(tail[0], value), name


def bare(name):
    """Without the parts that spellings differ by."""
    return re.sub(r"(?<![^.])(model|language_model|text_model|vision_model|"
                  r"vision_tower|visual)\.", "", name)


def ends_alike(a, b):
    """The same parameter in two spellings."""
    seen = [("vision" in x or "visual" in x) for x in (a, b)]
    return bare(a) == bare(b) and seen[0] == seen[1]


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    all = json.loads(FILE.read_text()) if FILE.exists() else {}
    mine = {f: of(f) for f in FAMILIES}
    all[transformers.__version__] = mine
    if NEW:
        for version in all.values():
            for family, stored in version.items():
                for kind in ("saved", "memory"):
                    if isinstance(stored.get(kind), list):
                        reads(family, stored[kind], stored["config"])
    for family, stored in mine.items():
        same = [v for v in all
                if all[v].get(family, {}).get("saved") == stored["saved"]]
        if same[0] != transformers.__version__:
            stored["saved"] = same[0]
    text = json.dumps(all, separators=(",", ":"))
    FILE.write_text(text.replace('},"', '},\n"').replace('],"', '],\n"') + "\n")


main()
