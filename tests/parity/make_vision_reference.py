#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# make_vision_reference.py - what transformers computes of pictures and text
#
# Writes vision.json beside this script: for each of vision_models.py's VARIANTS
#   config, processor   as transformers writes config.json and
#             processor_config.json
#   images    sizes in patches, (height, width), by number
#   documents pieces: lists of ids, and numbers of images
#   positions of documents of M-RoPE, (3, tokens), and deltas: what is added to
#             the index of a token that follows
#   features  of each row that is put into the text the dot product with hashes
#   logits    of each token the dot product with a vector of hashes
#   bf16      how far bf16 moves features and logits, relative root of the mean
#             square
#   grads     of each parameter its shape, norm, and the dot product with
#             hashes; the shape alone where it has no gradient
#   loss, loss_all   the mean over tokens but the first ones and placeholders,
#             and with placeholders as targets
#   parts     the norm of gradients of vision, projector and language. What is
#             trained does not change the others': they are compared here
#   losses, norms    of five steps of AdamW on all documents, everything trained
#   decays    parameters for which transformers' Trainer does not do as the rule
#             of this AdamW, which is to decay what has more than one axis
#   greedy    what follows the first document, token by token, and logarithms
#             of the probabilities
# and, once for all,
#   off       sides in patches, of 2 to 128, for which some rows of a full tile
#             of smolvlm and idefics3 do not have their own number as position,
#             for their quotient is rounded down
# Byte c of patch r of picture i is element r x width + c of the hashes of
# "image i", plus 1, times 128, rounded down; patches are numbered from left to
# right and top to bottom, bytes of a patch as the weight's without frames, which
# are equal: channels, rows, columns. What a byte becomes is the processor's mean
# and deviation. Weights are hashes of the parameters' names as
# the hub's files have them. vision_formulas.py computes all of it again, but
# the logits of gemma2 and granite, and gradients by differences. Made with
# transformers 5.24, torch 2.15, torchvision 0.29.2 and num2words 0.5.
import copy
import json
import math
import pathlib
import sys
import tempfile
import types

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from tokenizers import Tokenizer, models
from transformers.models.smolvlm.modeling_smolvlm import (
    SmolVLMVisionEmbeddings)

import vision_formulas
from make_family_reference import (
    BETAS, EPS, LR, MAX_NORM, STEPS, WEIGHT_DECAY, hashes, project, short, train)
from vision_models import (
    IMAGE, PAD, TEXT_IDS, V, VARIANTS, VIDEO, as_picture, create, documents,
    image_bytes, image_processor, is_qwen, is_tiled, keywords, merged_order,
    named, normalised, part_of, patch_shape, processor, sizes_of)

HERE = pathlib.Path(__file__).resolve().parent
NEW = 20


def logits_of(model, doc, salt=0):
    return model(doc.ids[None], use_cache=False,
                 **keywords(model.config, doc, salt)).logits[0]


def all_logits(model, docs, salt=0):
    """Each document by itself."""
    return [logits_of(model, d, salt) for d in docs]


def mean_loss(model, docs, skipped=IMAGE):
    total = count = 0
    for doc in docs:
        targets = doc.ids[1:].clone()
        targets[targets == skipped] = -100
        count += (targets != -100).sum()
        total = total + F.cross_entropy(
            logits_of(model, doc)[:-1].float(), targets, reduction="sum")
    return total / count


def features_of(model, doc):
    """Rows of the text."""
    given = keywords(model.config, doc)
    given.pop("mm_token_type_ids", None)
    given.pop("token_type_ids", None)
    if not given:
        return []
    rows = model.get_image_features(**given).pooler_output
    rows = torch.cat(list(rows)) if isinstance(rows, (list, tuple)) else rows
    return list(rows.reshape(-1, rows.shape[-1]).float())


def positions_of(model, docs):
    """M-RoPE's, and deltas."""
    all, deltas = [], []
    for doc in docs:
        given = keywords(model.config, doc)
        where, delta = model.model.get_rope_index(
            doc.ids[None], given["mm_token_type_ids"],
            image_grid_thw=given.get("image_grid_thw"))
        all.append(where[:, 0].tolist())
        deltas.append(delta.item())
    return all, deltas


# --- is it right? ---


def equal(a, b, limit, what):
    a, b = np.asarray(a, float), np.asarray(b, float)
    off = np.abs(a - b).max() / np.abs(b).max()
    if not (a.shape == b.shape and off < limit):
        raise AssertionError(f"{what}: off by {off}")
    return off


class Formulas:
    """The variant in double precision."""

    def __init__(self, model, docs):
        self.config, self.docs = model.config, docs
        self.weights = {n: p.detach().double().numpy()
                        for n, p in named(model).items()}
        self.uneven, self.table = [], None
        m = getattr(self.config.vision_config, "spatial_merge_size", 1)
        sizes = sizes_of(self.config)
        shape = patch_shape(self.config)
        self.rows = [normalised(self.config, image_bytes(i, s, shape)).astype(
            float) for i, s in enumerate(sizes)]
        self.sizes = sizes
        self.where = []
        for doc in docs:
            pieces = [sizes[p] if isinstance(p, int) else len(p)
                      for p in doc.pieces]
            if not is_qwen(self.config):
                pieces = [len(doc.ids)]
            self.where.append(vision_formulas.positions(pieces, m))

    def features(self, doc):
        """Those in the place of tokens, then those of each block."""
        all = []
        for i in doc.images:
            rows, uneven = vision_formulas.features(
                self.weights, self.config, self.rows[i], self.sizes[i])
            all.append(rows)
            self.uneven += uneven
        return np.concatenate(all, 1) if all else []

    def logits(self):
        result = []
        for doc, (where, _) in zip(self.docs, self.where):
            x, uneven = vision_formulas.logits(
                self.weights, self.config, doc.ids.tolist(),
                self.features(doc), where, self.table)
            result.append(x)
            self.uneven += uneven
        return result

    def loss(self):
        ids = [d.ids.tolist() for d in self.docs]
        total = sum(vision_formulas.loss_sum(x, i, IMAGE)
                    for x, i in zip(self.logits(), ids))
        return total / sum(sum(id != IMAGE for id in i[1:]) for i in ids)

    def slope(self, name, h=1e-4):
        """The derivative of the loss along the hashes of a name, but of the
        input of padding, which has none."""
        w = self.weights[name]
        along = hashes(name, w.size).double().numpy().reshape(w.shape)
        inputs, losses = along.copy(), []
        embedding = name.endswith("embed_tokens.weight")
        if embedding:
            inputs[PAD] = 0
        for step in (h, -h):
            self.weights[name] = w + step * along
            self.table = w + step * inputs if embedding else None
            losses.append(self.loss())
        self.weights[name], self.table = w, None
        return (losses[0] - losses[1]) / (2 * h)


def check(model, docs, result):
    """Against the formulas: returns how far features, logits and slopes are
    off, relative to the largest (of slopes to the gradient's norm)."""
    formulas = Formulas(model, docs)
    with torch.no_grad():
        features = [torch.stack(features_of(model, d)) for d in docs
                    if d.images]
        logits = all_logits(model, docs)
    off = [equal(x, formulas.features(d)[0], 5e-6, "features") for x, d in zip(
        features, [d for d in docs if d.images])]
    if is_qwen(model.config):
        for k, (where, delta) in enumerate(formulas.where):
            assert where.tolist() == result["positions"][k]
            assert delta == result["deltas"][k]
    if model.config.text_config.model_type in ("gemma2", "granite"):
        return [max(off)]
    far = [equal(x, y, 5e-6, "logits")
           for x, y in zip(logits, formulas.logits())]
    assert min(formulas.uneven) > 1.2, formulas.uneven
    equal([result["loss"]], [formulas.loss()], 1e-6, "loss")
    worst = 0
    for name, stored in result["grads"].items():
        slope = formulas.slope(name)
        if len(stored) == 1:
            assert slope == 0, name
            continue
        wrong = abs(slope - stored[2]) / (stored[1] + 1e-4)
        assert wrong < 1e-4, (name, slope, stored)
        worst = max(worst, wrong)
    return [max(off), max(far), worst]


def check_processor(model):
    """Bytes become what the processor makes of a picture of them, in order."""
    config, shape = model.config, patch_shape(model.config)
    still = (shape[0], 1, *shape[2:])
    for i, size in enumerate(sizes_of(config)[:2]):
        raw = image_bytes(i, size, still)
        picture = as_picture(raw, size, still).transpose(1, 2, 0)
        more = {} if not is_tiled(config) else {
            "do_image_splitting": False, "do_resize": False}
        got = image_processor(config)(
            images=[Image.fromarray(picture)], return_tensors="pt",
            **more)["pixel_values"]
        want = normalised(config, raw)
        if is_qwen(config):
            want = want[merged_order(size, 2)].reshape(
                -1, 3, 1, *shape[2:]).repeat(2, 2).reshape(len(raw), -1)
        else:
            want = as_picture(want, size, still)
        assert np.array_equal(got.squeeze().numpy(), want), i


def check_parts(model, docs):
    """What is trained does not change the other gradients."""
    all = {n: p.grad.clone() for n, p in named(model).items()
           if p.grad is not None}
    for parts in (("projector", "language"), ("projector",), ("language",),
                  ("vision", "projector")):
        for n, p in named(model).items():
            p.requires_grad_(part_of(n) in parts)
            p.grad = None
        mean_loss(model, docs).backward()
        for n, p in named(model).items():
            expected = n in all and part_of(n) in parts
            assert (p.grad is not None) == expected, n
            assert not expected or torch.equal(p.grad, all[n]), n
    for p in model.parameters():
        p.requires_grad_(True)
        p.grad = None


# --- what is stored ---


def greedy(model, doc):
    """Without a cache; the difference of the two best must not be luck, and the
    best no placeholder, so that it makes no difference if those are masked."""
    out, lp, doc = [], [], copy.copy(doc)
    with torch.no_grad():
        for _ in range(NEW):
            all = logits_of(model, doc)[-1].log_softmax(-1)
            best = all.topk(2)
            assert best.values[0] - best.values[1] > 2e-5
            assert best.indices[0] not in (IMAGE, VIDEO)
            out.append(best.indices[0].item())
            lp.append(short(best.values[0].item()))
            doc.ids = torch.cat([doc.ids, best.indices[:1]])
    return [out, lp]


def decay_exceptions(model):
    decays = set(transformers.Trainer.get_decay_parameter_names(None, model))
    return [hub for hub, (n, p) in zip(named(model), model.named_parameters())
            if (n in decays) != (p.ndim > 1)]


def processor_text(config):
    words = [f"w{i}" for i in range(TEXT_IDS)] + [
        "<image>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(
            {w: i for i, w in enumerate(words)}, unk_token="w0")),
        extra_special_tokens={"image_token": "<image>", "boi_token": "w1",
                              "eoi_token": "w2"})
    with tempfile.TemporaryDirectory() as top:
        processor(config, tokenizer).save_pretrained(top)
        path = pathlib.Path(top) / "processor_config.json"
        return json.loads(path.read_text())


def sides_off():
    result = []
    for n in range(2, 129):
        embeddings = SmolVLMVisionEmbeddings(types.SimpleNamespace(
            hidden_size=1, image_size=n, patch_size=1, num_channels=1))
        numbers = torch.arange(n * n, dtype=torch.float32)
        with torch.no_grad():
            embeddings.patch_embedding.weight.zero_()
            embeddings.patch_embedding.bias.zero_()
            embeddings.position_embedding.weight.copy_(numbers[:, None])
            got = embeddings(torch.zeros(1, 1, n, n),
                             torch.ones(1, n, n, dtype=torch.bool))
        if not torch.equal(got[0, :, 0], numbers):
            result.append(n)
    return result


def relative(low, high):
    low, high = torch.cat(low).float(), torch.cat(high)
    return short(((low - high).norm() / high.norm()).item())


def part_norm(model, part):
    return short(math.sqrt(sum(
        p.grad.norm().item()**2 for n, p in named(model).items()
        if part_of(n) == part and p.grad is not None)))


def make(name, kind, changes):
    model, text = create(kind, changes)
    config, docs = model.config, documents(model.config)
    result = {
        "config": text, "processor": processor_text(config),
        "images": sizes_of(config),
        "documents": [d.pieces for d in docs],
    }
    if is_qwen(config):
        result["positions"], result["deltas"] = positions_of(model, docs)
    low = copy.deepcopy(model).bfloat16()
    with torch.no_grad():
        rows = [x for d in docs for x in features_of(model, d)]
        low_rows = [x for d in docs for x in features_of(low, d)]
        logits, low_logits = all_logits(model, docs), all_logits(low, docs)
        other = all_logits(model, docs, salt=9)
        result["loss_all"] = short(mean_loss(model, docs, None).item())
    assert all(relative([a], [b]) > 0.3
               for a, b, d in zip(other, logits, docs) if d.images)
    result["features"] = [short(project(x, "features")) for x in rows]
    result["logits"] = [short(project(x, "logits")) for x in torch.cat(logits)]
    result["bf16"] = [relative(low_rows, rows), relative(low_logits, logits)]
    loss = mean_loss(model, docs)
    loss.backward()
    result["loss"] = short(loss.item())
    result["grads"] = {
        n: [list(p.shape)] + ([] if p.grad is None else [
            short(p.grad.norm().item()), short(project(p.grad, n))])
        for n, p in named(model).items()}
    result["parts"] = {part: part_norm(model, part) for part in (
        "vision", "projector", "language")}
    check_parts(model, docs)
    check_processor(model)
    off = check(model, docs, result)
    result["greedy"] = greedy(model, docs[0])
    result["decays"] = decay_exceptions(model)
    result["losses"], result["norms"] = train(model, docs, mean_loss)
    print(f"{name}: loss {result['loss']:.4g} to {result['losses'][-1]:.4g}, "
          f"bf16 {result['bf16'][0]:.2g} {result['bf16'][1]:.2g}, formulas "
          f"{' '.join(f'{x:.1e}' for x in off)}", flush=True)
    return result


def main():
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    names = sys.argv[1:] or VARIANTS
    out = {"transformers": transformers.__version__, "torch": torch.__version__,
           "lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": WEIGHT_DECAY,
           "max_norm": MAX_NORM, "off": sides_off(),
           "variants": {n: make(n, *VARIANTS[n]) for n in names}}
    lines = json.dumps(out, separators=(",", ":"))
    lines = lines.replace('},"', '},\n"').replace('],"', '],\n"')
    (HERE / "vision.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
