# SPDX-License-Identifier: Apache-2.0
# vision_models.py - tiny vision-language models, their pictures and documents
#
# What make_vision_*.py share. A weight is a hash of the name that it has in
# files of the hub ("language_model.model...", "visual..."), and a byte of a
# picture one of its number, so neither is stored: see fill() and image_bytes().
# Needs transformers 5.24.
import json
import pathlib
import re
import tempfile

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForImageTextToText

from make_family_reference import hashes

V, PAD, IMAGE, VIDEO = 79, 64, 77, 78
TEXT_IDS = 75  # those of text are below; 75 and 76 are around images
FULL, SLIDING = "full_attention", "sliding_attention"

TEXT = {"vocab_size": V, "hidden_size": 24, "intermediate_size": 20,
        "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": PAD}
CLIP = {"model_type": "clip_vision_model", "hidden_size": 20,
        "intermediate_size": 28, "num_hidden_layers": 3,
        "num_attention_heads": 2, "image_size": 8, "patch_size": 2}
SIGLIP = {**CLIP, "model_type": "siglip_vision_model", "hidden_size": 36,
          "num_hidden_layers": 2}
IDEFICS = {"hidden_size": 24, "intermediate_size": 28,
           "num_hidden_layers": 2, "num_attention_heads": 4,
           "image_size": 12, "patch_size": 2}
QWEN2 = {"depth": 2, "embed_dim": 40, "hidden_size": 32, "num_heads": 2,
         "mlp_ratio": 2, "patch_size": 2}
QWEN25 = {"depth": 2, "hidden_size": 32, "intermediate_size": 28,
          "out_hidden_size": 32, "num_heads": 2, "patch_size": 2,
          "window_size": 16, "fullatt_block_indexes": [1]}


QWEN3 = {"depth": 3, "hidden_size": 24, "intermediate_size": 28,
         "out_hidden_size": 32, "num_heads": 2, "patch_size": 2,
         "num_position_embeddings": 25, "deepstack_visual_indexes": [0]}
GEMMA = {**SIGLIP, "hidden_size": 24, "num_attention_heads": 3,
         "image_size": 16, "vision_use_head": False}
# What its processor asks of a tokenizer.
GEMMA_TOKENS = {"boi_token": "<start_of_image>",
                "image_token": "<image_soft_token>",
                "eoi_token": "<end_of_image>"}


def text(family, **more):
    return {"text_config": {**TEXT, "model_type": family, **more}}


def llava(tower, language, layer, strategy="default", **more):
    return "llava", {"vision_config": tower, "image_token_index": IMAGE,
                     "vision_feature_layer": layer, **language,
                     "vision_feature_select_strategy": strategy, **more}


def idefics(kind, language, tower=IDEFICS, **more):
    return kind, {"vision_config": tower, "image_token_id": IMAGE, **language,
                  "pad_token_id": PAD, **more}


def qwen(kind, tower, section, theta=1e6, tied=False, **more):
    rope = {"rope_type": "default", "rope_theta": theta,
            "mrope_section": section}
    return kind, {"vision_config": tower, "image_token_id": IMAGE,
                  "video_token_id": VIDEO, "vision_start_token_id": 75,
                  "vision_end_token_id": 76, "tie_word_embeddings": tied,
                  **text(kind + "_text", hidden_size=32, rope_parameters=rope,
                         **more)}


def gemma(tower, tokens, **more):
    return "gemma3", {
        "vision_config": tower, "image_token_index": IMAGE,
        "boi_token_index": 75, "eoi_token_index": 76,
        "mm_tokens_per_image": tokens,
        **text("gemma3_text", head_dim=8, **more)}


TIED = {"tie_word_embeddings": True}
VARIANTS = {
    "llava": llava(CLIP, text("llama"), -2),
    "llava of two layers": llava(
        {**CLIP, "num_hidden_layers": 2, "image_size": 12, "patch_size": 3},
        text("mistral", num_hidden_layers=2, sliding_window=7), [1, -1],
        multimodal_projector_bias=False),
    "llava with its class": llava(
        {**CLIP, "num_hidden_layers": 1, "hidden_act": "gelu"},
        text("qwen3", head_dim=8), -1, "full", **TIED),
    "llava siglip": llava(
        {**SIGLIP, "vision_use_head": False}, text("qwen2"), -1, "full",
        **TIED),
    "llava siglip gemma2": llava(
        {**SIGLIP, "hidden_size": 24, "num_attention_heads": 3},
        text("gemma2", num_hidden_layers=2, head_dim=8, sliding_window=5,
             query_pre_attn_scalar=12), -2, "full", **TIED),
    "llava siglip granite": llava(
        {**SIGLIP, "hidden_size": 24, "num_attention_heads": 3},
        text("granite", embedding_multiplier=3.0, residual_multiplier=0.5,
             attention_multiplier=0.3, logits_scaling=2.0), [0, -1],
        "default"),
    "smolvlm": idefics("smolvlm", text("llama"), scale_factor=2, **TIED),
    "smolvlm by three": idefics(
        "smolvlm", text("llama"),
        {**IDEFICS, "num_hidden_layers": 1, "num_attention_heads": 2},
        scale_factor=3, tie_word_embeddings=False),
    "idefics3": idefics(
        "idefics3", text("llama", num_key_value_heads=1),
        {**IDEFICS, "image_size": 8}, scale_factor=2,
        tie_word_embeddings=False),
    "qwen2_vl": qwen("qwen2_vl", QWEN2, [1, 1, 2]),
    "qwen2_vl tied": qwen(
        "qwen2_vl", {**QWEN2, "depth": 1, "embed_dim": 24, "patch_size": 4},
        [2, 3, 3], 1e4, True, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, use_sliding_window=True, sliding_window=9,
        max_window_layers=1, layer_types=[FULL, SLIDING]),
    "qwen2_5_vl": qwen("qwen2_5_vl", QWEN25, [2, 1, 1]),
    "qwen2_5_vl tied": qwen(
        "qwen2_5_vl", {**QWEN25, "depth": 3, "window_size": 8,
                       "fullatt_block_indexes": [0, 2]},
        [2, 3, 3], 1e5, True, num_attention_heads=2),
    # windows are shorter than the tokens of a picture, and longer
    "gemma3": gemma(GEMMA, 16, num_hidden_layers=2, sliding_window=5,
                    layer_types=[SLIDING, FULL], query_pre_attn_scalar=12),
    "gemma3 by three": gemma(
        {**GEMMA, "image_size": 36, "patch_size": 6, "hidden_size": 16,
         "num_attention_heads": 2}, 4,
        num_hidden_layers=2, sliding_window=9, layer_types=[FULL, SLIDING],
        query_pre_attn_scalar=6, rope_parameters={
            FULL: {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
            SLIDING: {"rope_type": "default", "rope_theta": 1e4}}),
    "qwen3_vl": qwen("qwen3_vl", QWEN3, [3, 2, 1], 5e6, head_dim=12,
                     num_hidden_layers=2),
    "qwen3_vl tied": qwen(
        "qwen3_vl", {**QWEN3, "depth": 4, "num_position_embeddings": 9,
                     "deepstack_visual_indexes": [1, 2]},
        [4, 2, 2], 1e5, True, head_dim=16, num_hidden_layers=2,
        num_attention_heads=2),
}
# Patches of the pictures of those that take any size: 60, 32, 6 and 6 rows.
SIZES = [(20, 12), (8, 16), (6, 4), (4, 6)]
# Text by its length, and pictures by their number. Where a picture is cut into
# tiles the first is three of them, with text between.
DOCUMENTS = [[7, "0", 5, "1", 6], [13], ["2", 6], [5, "3"]]
TILES = [[5, "0", 2, "1", 2, "2", 4, "3", 6], [13], ["4", 6], [5, "5"]]


class Inputs:
    """A document: ids, and its pictures as the model takes them."""

    def __init__(self, ids, images, pieces):
        self.ids, self.images, self.pieces = torch.tensor(ids), images, pieces


def side(config):
    return config.vision_config.image_size // config.vision_config.patch_size


def patch_shape(config):
    """Channels, frames, rows and columns, in the order of the weight."""
    vision = config.vision_config
    frames = getattr(vision, "temporal_patch_size", 1)
    return 3, frames, vision.patch_size, vision.patch_size


def is_qwen(config):
    return config.model_type.startswith("qwen")


def is_tiled(config):
    return config.model_type in ("smolvlm", "idefics3")


def tokens_of(config, size):
    rows = size[0] * size[1]
    if is_qwen(config):
        return rows // config.vision_config.spatial_merge_size**2
    if is_tiled(config):
        return rows // config.scale_factor**2
    if config.model_type == "gemma3":
        return config.mm_tokens_per_image
    named = config.vision_config.model_type == "clip_vision_model"
    return rows + named - (config.vision_feature_select_strategy == "default")


def sizes_of(config):
    if is_qwen(config):
        return SIZES
    return [(side(config),) * 2] * (6 if is_tiled(config) else 4)


def documents(config):
    sizes, result = sizes_of(config), []
    for i, pieces in enumerate(TILES if is_tiled(config) else DOCUMENTS):
        ids, images, stored = [], [], []
        for k, piece in enumerate(pieces):
            if isinstance(piece, str):
                image = int(piece)
                ids += [IMAGE] * tokens_of(config, sizes[image])
                images.append(image)
                stored.append(image)
                continue
            words = hashes(f"text {i} {k}", piece).double()
            words = ((words + 1) * (TEXT_IDS / 2)).long().tolist()
            if (i, k) == (1, 0):  # the id of padding is a word, too
                words[3] = PAD
            ids += words
            stored.append(words)
        result.append(Inputs(ids, images, stored))
    return result


def image_bytes(number, size, shape):
    """Bytes of a row for each patch, from left to right and top to bottom. All
    frames of an image are the same."""
    count, (channels, frames, high, wide) = size[0] * size[1], shape
    x = hashes(f"image {number}", count * channels * high * wide)
    still = np.floor((x.double().numpy() + 1) * 128).astype(np.uint8)
    return still.reshape(count, channels, 1, high, wide).repeat(
        frames, 2).reshape(count, -1)


# --- bytes to what models take ---


CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]


def normalisation(config):
    vision = config.vision_config.model_type
    if vision in ("clip_vision_model", "qwen2_vl_vision",
                  "qwen2_5_vl_vision"):
        return CLIP_MEAN, CLIP_STD
    return [0.5] * 3, [0.5] * 3


def table(mean, std):
    """What each byte becomes in each channel, in the operations of
    transformers' processors with torchvision."""
    factor = 1.0 / (1 / 255)
    mean, std = torch.tensor(mean) * factor, torch.tensor(std) * factor
    return (torch.arange(256, dtype=torch.float32)[:, None] - mean) / std


def normalised(config, raw):
    channels = np.repeat(np.arange(3), raw.shape[1] // 3)
    return table(*normalisation(config)).numpy()[raw, channels]


def merged_order(size, m):
    """Numbers of patches, those of a merged one behind one another."""
    h, w = size
    order = np.arange(h * w).reshape(h // m, m, w // m, m)
    return order.transpose(0, 2, 1, 3).reshape(-1)


def as_picture(rows, size, shape):
    """(channels, height, width) of rows of a single frame."""
    channels, _, high, wide = shape
    x = rows.reshape(size[0], size[1], channels, high, wide)
    return x.transpose(2, 0, 3, 1, 4).reshape(
        channels, size[0] * high, size[1] * wide)


def keywords(config, doc, salt=0):
    """Arguments of the model beside the ids."""
    sizes, shape = sizes_of(config), patch_shape(config)
    kinds = (doc.ids == IMAGE).int()[None]
    rows = [normalised(config, image_bytes(i + salt, sizes[i], shape))
            for i in doc.images]
    if is_qwen(config):
        if not rows:
            return {"mm_token_type_ids": kinds}
        m = config.vision_config.spatial_merge_size
        rows = [r[merged_order(sizes[i], m)]
                for r, i in zip(rows, doc.images)]
        return {"pixel_values": torch.from_numpy(np.concatenate(rows)),
                "image_grid_thw": torch.tensor(
                    [(1, *sizes[i]) for i in doc.images]),
                "mm_token_type_ids": kinds}
    if not rows:
        return {}
    pixels = torch.from_numpy(np.stack(
        [as_picture(r, sizes[i], shape) for r, i in zip(rows, doc.images)]))
    if config.model_type == "gemma3":
        return {"pixel_values": pixels, "token_type_ids": kinds}
    return {"pixel_values": pixels[None] if is_tiled(config) else pixels}


# --- models ---


def hub_name(kind, name):
    """The name that a parameter has in files of the hub."""
    llava = [
        (r"^model\.language_model\.", "language_model.model."),
        (r"^lm_head\.", "language_model.lm_head."),
        (r"^model\.vision_tower\.", "vision_tower.vision_model."),
        (r"^model\.multi_modal_projector\.", "multi_modal_projector.")]
    rules = {"llava": llava, "gemma3": llava, "qwen": [
        (r"^model\.language_model\.", "model."),
        (r"^model\.visual\.", "visual.")]}
    for pattern, to in rules.get(kind.split("2")[0], []):
        name = re.sub(pattern, to, name)
    return name


def part_of(name):
    """vision, projector or language, of a name of the hub."""
    if re.match(r"multi_modal_projector|(model\.)?visual\.(merger|deepstack_)|"
                r"model\.connector", name):
        return "projector"
    vision = re.match(r"vision_tower|(model\.)?visual|model\.vision_model",
                      name)
    return "vision" if vision else "language"


def named(model):
    kind = model.config.model_type
    return {hub_name(kind, n): p for n, p in model.named_parameters()}


def fill(model):
    shifted = model.config.text_config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, p in named(model).items():
            scale, one = (0.25, 1.0) if p.ndim == 1 else (0.375, 0.0)
            if name.endswith("bias") or (
                    shifted and part_of(name) == "language"):
                one = 0.0
            p.copy_((hashes(name, p.numel()) * scale + one).view(p.shape))


def create(kind, changes):
    """A filled model, and its config.json."""
    with tempfile.TemporaryDirectory() as top:
        path = pathlib.Path(top)
        (path / "config.json").write_text(json.dumps(
            {"model_type": kind, **changes}))
        config = AutoConfig.from_pretrained(path)
        model = AutoModelForImageTextToText.from_config(
            config, attn_implementation="eager", dtype=torch.float32).eval()
        fill(model)
        model.save_pretrained(path)
        written = json.loads((path / "config.json").read_text())
    return model, written


def image_processor(config):
    vision = config.vision_config
    if is_qwen(config):
        return transformers.Qwen2VLImageProcessor(
            patch_size=vision.patch_size,
            merge_size=vision.spatial_merge_size,
            image_mean=normalisation(config)[0],
            image_std=normalisation(config)[1],
            min_pixels=(2 * vision.patch_size)**2,
            max_pixels=(32 * vision.patch_size)**2)
    size = vision.image_size
    if is_tiled(config):
        kind = {"smolvlm": transformers.SmolVLMImageProcessor,
                "idefics3": transformers.Idefics3ImageProcessor}
        return kind[config.model_type](size={"longest_edge": 2 * size},
                                       max_image_size={"longest_edge": size})
    square = {"height": size, "width": size}
    if vision.model_type == "clip_vision_model":
        return transformers.CLIPImageProcessor(
            size={"shortest_edge": size}, crop_size=square)
    if config.model_type == "gemma3":
        return transformers.Gemma3ImageProcessor(size=square)
    return transformers.SiglipImageProcessor(size=square)


def processor(config, tokenizer, **more):
    images = image_processor(config)
    if is_qwen(config):
        kinds = {"qwen2_vl": transformers.Qwen2VLProcessor,
                 "qwen2_5_vl": transformers.Qwen2_5_VLProcessor,
                 "qwen3_vl": transformers.Qwen3VLProcessor}
        videos = (transformers.Qwen3VLVideoProcessor()
                  if config.model_type == "qwen3_vl" else
                  transformers.Qwen2VLVideoProcessor())
        return kinds[config.model_type](images, tokenizer, videos, **more)
    tokens = tokens_of(config, (side(config),) * 2)
    if config.model_type == "smolvlm":
        return transformers.SmolVLMProcessor(
            images, tokenizer, transformers.SmolVLMVideoProcessor(),
            image_seq_len=tokens, **more)
    if config.model_type == "idefics3":
        return transformers.Idefics3Processor(
            images, tokenizer, image_seq_len=tokens, **more)
    if config.model_type == "gemma3":
        return transformers.Gemma3Processor(
            images, tokenizer, image_seq_length=tokens, **more)
    named = config.vision_config.model_type == "clip_vision_model"
    return transformers.LlavaProcessor(
        images, tokenizer, patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
        num_additional_image_tokens=int(named), **more)
