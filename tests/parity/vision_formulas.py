# SPDX-License-Identifier: Apache-2.0
# vision_formulas.py - vision-language models in a page of NumPy
#
# A second opinion on what transformers computes, in double precision: features
# of pictures, rope positions, logits and the loss of tiny models whose weights
# are a dictionary by the hub's names. Nothing is permuted here: rows of patches
# stand from left to right and top to bottom, and who attends to whom is a mask,
# so orders that transformers and disttrain put patches into are checked, too.
import math

import numpy as np

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_pytorch_tanh": lambda x: x * (1 + np.tanh(
        math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
}


class Weights:
    """Names below a prefix, and what layers do with them."""

    def __init__(self, all, prefix=""):
        self.all, self.prefix = all, prefix

    def at(self, prefix):
        return Weights(self.all, self.prefix + prefix)

    def __getitem__(self, name):
        return self.all[self.prefix + name]

    def get(self, name):
        return self.all.get(self.prefix + name)

    def linear(self, x, name):
        w, b = self[name + ".weight"], self.get(name + ".bias")
        y = x @ w.reshape(len(w), -1).T
        return y if b is None else y + b

    def norm(self, x, name, eps, one=0):
        """LayerNorm if there is a bias, else RMSNorm; `one` is added to each
        weight."""
        b = self.get(name + ".bias")
        if b is not None:
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return x * (self[name + ".weight"] + one) + (0 if b is None else b)


def attend(q, k, v, heads, seen):
    """Of (rows, heads x width); seen[i, j]: i attends to j. Also says how
    unequal weights are: the mean of rows x their sum of squares, 1 if equal."""
    n, d = len(q), q.shape[1] // heads
    q = q.reshape(n, heads, d)
    k, v = (np.repeat(x.reshape(n, -1, d), heads * d // x.shape[1], 1)
            for x in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(d)
    p = np.where(seen, np.exp(scores - np.where(seen, scores, -np.inf).max(
        -1, keepdims=True)), 0)
    p /= p.sum(-1, keepdims=True)
    uneven = ((p * p).sum(-1) * seen.sum(-1)).mean()
    return np.einsum("hij,jhd->ihd", p, v).reshape(n, -1), uneven


def rotate(x, heads, angles):
    """Pairs (j, j + half) of each head, by angles (rows, half)."""
    n, half = angles.shape
    a, b = np.split(x.reshape(n, heads, 2 * half), 2, -1)
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).reshape(n, -1)


# --- towers ---


def encoder_block(w, x, config, seen):
    """CLIP's, SigLIP's and Idefics'."""
    eps = config.layer_norm_eps
    n = w.norm(x, "layer_norm1", eps)
    q, k, v = (w.linear(n, f"self_attn.{name}_proj") for name in "qkv")
    a, uneven = attend(q, k, v, config.num_attention_heads, seen)
    x = x + w.linear(a, "self_attn.out_proj")
    h = w.linear(w.norm(x, "layer_norm2", eps), "mlp.fc1")
    return x + w.linear(ACTIVATIONS[config.hidden_act](h), "mlp.fc2"), uneven


def encoder(w, config, rows):
    """Inputs of the first block, then outputs of all, of one picture."""
    x = w.linear(rows, "embeddings.patch_embedding")
    named = w.get("embeddings.class_embedding")
    if named is not None:
        x = np.concatenate([named[None], x])
    x = x + w["embeddings.position_embedding.weight"]
    if named is not None:
        x = w.norm(x, "pre_layrnorm", config.layer_norm_eps)
    states, uneven = [x], []
    for i in range(config.num_hidden_layers):
        x, u = encoder_block(w.at(f"encoder.layers.{i}."), x, config,
                             np.ones((len(x), len(x)), bool))
        states.append(x)
        uneven.append(u)
    return states, uneven


def llava_features(w, config, rows, size):
    vision = config.vision_config
    states, uneven = encoder(w.at("vision_tower.vision_model."), vision, rows)
    layers = config.vision_feature_layer
    x = np.concatenate([states[i] for i in (
        [layers] if isinstance(layers, int) else layers)], -1)
    if config.vision_feature_select_strategy == "default":
        x = x[1:]
    p = w.at("multi_modal_projector.")
    act = ACTIVATIONS[config.projector_hidden_act]
    return [p.linear(act(p.linear(x, "linear_1")), "linear_2")], uneven


def gemma_features(w, config, rows, size):
    vision, tower = config.vision_config, w.at("vision_tower.vision_model.")
    states, uneven = encoder(tower, vision, rows)
    x = tower.norm(states[-1], "post_layernorm", vision.layer_norm_eps)
    m = size[0] // int(config.mm_tokens_per_image**0.5)
    x = merged(x, size, m).reshape(-1, m * m, x.shape[1]).mean(1)
    p = w.at("multi_modal_projector.")
    x = p.norm(x, "mm_soft_emb_norm", vision.layer_norm_eps, 1)
    return [x @ p["mm_input_projection_weight"]], uneven


def merged(x, size, m):
    """Rows of m x m patches each, (Y, X) and in it (y, x)."""
    h, w = size
    x = x.reshape(h // m, m, w // m, m, -1).transpose(0, 2, 1, 3, 4)
    return x.reshape(h * w // m**2, -1)


def idefics_features(w, config, rows, size):
    vision, tower = config.vision_config, w.at("model.vision_model.")
    states, uneven = encoder(tower, vision, rows)
    x = tower.norm(states[-1], "post_layernorm", vision.layer_norm_eps)
    x = merged(x, size, config.scale_factor)
    return [w.linear(x, "model.connector.modality_projection.proj")], uneven


def stretched(table, size):
    """Rows for size of a square of them, whose corners are the same."""
    side = math.isqrt(len(table))
    parts = []
    for n in size:
        at = np.arange(n) * (side - 1) / max(n - 1, 1)
        parts.append(np.clip(1 - abs(at[:, None] - np.arange(side)), 0, 1))
    x = table.reshape(side, side, -1)
    return np.einsum("yi,xj,ijc->yxc", *parts, x).reshape(
        size[0] * size[1], -1)


def qwen_merger(p, x, size, m, names, deep=False):
    norm, first, second = names
    h = p.norm(merged(x, size, m), norm, 1e-6) if deep else merged(
        p.norm(x, norm, 1e-6), size, m)
    return p.linear(ACTIVATIONS["gelu"](p.linear(h, first)), second)


def qwen_features(w, config, rows, size):
    third = config.model_type == "qwen3_vl"
    vision = config.vision_config
    tower = w.at("model.visual." if third else "visual.")
    names = (("norm", "linear_fc1", "linear_fc2") if third else
             ("ln_q", "mlp.0", "mlp.2"))
    fc = ("mlp.linear_fc1", "mlp.linear_fc2") if third else (
        "mlp.fc1", "mlp.fc2")
    deep = vision.deepstack_visual_indexes if third else []
    m, heads = vision.spatial_merge_size, vision.num_heads
    y, x = (a.reshape(-1) for a in np.indices(size))
    s = tower.linear(rows, "patch_embed.proj")
    if third:
        s = s + stretched(tower["pos_embed.weight"], size)
    quarter = s.shape[1] // heads // 4
    f = 10000.0 ** (-np.arange(quarter) / quarter)
    angles = np.concatenate([y[:, None] * f, x[:, None] * f], -1)
    everywhere = np.ones((len(s), len(s)), bool)
    near, gated = everywhere, config.model_type == "qwen2_5_vl"
    if gated:
        window = vision.window_size // vision.patch_size  # patches, not rows
        window -= window % m
        same = lambda a: (a // window)[:, None] == a // window
        near = same(y) & same(x)
    uneven, below = [], []
    for i in range(vision.depth):
        b = tower.at(f"blocks.{i}.")
        n = b.norm(s, "norm1", 1e-6)
        q, k, v = np.split(b.linear(n, "attn.qkv"), 3, -1)
        full = not gated or i in vision.fullatt_block_indexes
        a, u = attend(rotate(q, heads, angles), rotate(k, heads, angles), v,
                      heads, everywhere if full else near)
        uneven.append(u)
        s = s + b.linear(a, "attn.proj")
        n = b.norm(s, "norm2", 1e-6)
        act = ACTIVATIONS[vision.hidden_act]
        if gated:
            h = act(b.linear(n, "mlp.gate_proj")) * b.linear(n, "mlp.up_proj")
            s = s + b.linear(h, "mlp.down_proj")
        else:
            s = s + b.linear(act(b.linear(n, fc[0])), fc[1])
        if i in deep:
            p = tower.at(f"deepstack_merger_list.{deep.index(i)}.")
            below.append(qwen_merger(p, s, size, m, names, True))
    return [qwen_merger(tower.at("merger."), s, size, m, names),
            *below], uneven


def features(w, config, rows, size):
    """Of a picture: (1, rows of the text, its width), with those that are
    added behind blocks (more of them); how uneven attention is."""
    kinds = {"llava": llava_features, "gemma3": gemma_features,
             "qwen2_vl": qwen_features, "qwen2_5_vl": qwen_features,
             "qwen3_vl": qwen_features}
    return kinds.get(config.model_type, idefics_features)(
        Weights(w), config, rows, size)


# --- the text ---


def positions(pieces, merge):
    """(3, tokens) of pieces of text, by their length, and of pictures, by
    their size; and what to add to an index behind them."""
    all, at = [], 0
    for piece in pieces:
        if isinstance(piece, int):
            all += [(at + i,) * 3 for i in range(piece)]
            at += piece
        else:
            h, w = piece[0] // merge, piece[1] // merge
            all += [(at, at + y, at + x) for y in range(h) for x in range(w)]
            at += max(h, w)
    return np.array(all).T, at - len(all)


def prefixes(kind):
    """Of the text's parameters, and the name of its head."""
    if kind in ("llava", "gemma3"):
        return "language_model.model.", "language_model.lm_head.weight"
    if kind == "qwen3_vl":
        return "model.language_model.", "lm_head.weight"
    if kind.startswith("qwen"):
        return "model.", "lm_head.weight"
    return "model.text_model.", "lm_head.weight"


def text_angles(text, where, layer):
    d = getattr(text, "head_dim", None) or (
        text.hidden_size // text.num_attention_heads)
    rope = text.rope_parameters
    if "full_attention" in rope:
        rope = rope[text.layer_types[layer]]
    f = rope["rope_theta"] ** (-2 * np.arange(d // 2) / d)
    f = f / rope.get("factor", 1)
    sections = rope.get("mrope_section", [d // 2])
    axis = np.repeat(np.arange(len(sections)), sections)
    if text.model_type == "qwen3_vl_text":  # in turn, as long as there are any
        j = np.arange(d // 2)
        axis = np.where(j < 3 * np.take(sections, j % 3), j % 3, 0)
    return where[axis].T * f


def text_layer(w, x, text, angles, seen):
    heads, groups = text.num_attention_heads, text.num_key_value_heads
    n = w.norm(x, "input_layernorm", text.rms_norm_eps)
    q, k, v = (w.linear(n, f"self_attn.{name}_proj") for name in "qkv")
    if w.get("self_attn.q_norm.weight") is not None:
        q, k = (w.norm(y.reshape(len(x), h, -1), f"self_attn.{name}_norm",
                       text.rms_norm_eps).reshape(len(x), -1)
                for y, h, name in ((q, heads, "q"), (k, groups, "k")))
    q, k = rotate(q, heads, angles), rotate(k, groups, angles)
    a, uneven = attend(q, k, v, heads, seen)
    x = x + w.linear(a, "self_attn.o_proj")
    n = w.norm(x, "post_attention_layernorm", text.rms_norm_eps)
    h = ACTIVATIONS[text.hidden_act](w.linear(n, "mlp.gate_proj"))
    return x + w.linear(h * w.linear(n, "mlp.up_proj"),
                        "mlp.down_proj"), uneven


def gemma_layer(w, x, text, angles, seen):
    heads, groups = text.num_attention_heads, text.num_key_value_heads
    eps = text.rms_norm_eps
    n = w.norm(x, "input_layernorm", eps, 1)
    q, k, v = (w.linear(n, f"self_attn.{name}_proj") for name in "qkv")
    q, k = (w.norm(y.reshape(len(x), h, -1), f"self_attn.{name}_norm", eps,
                   1).reshape(len(x), -1)
            for y, h, name in ((q, heads, "q"), (k, groups, "k")))
    q = q * math.sqrt(text.head_dim / text.query_pre_attn_scalar)
    a, uneven = attend(rotate(q, heads, angles), rotate(k, groups, angles), v,
                       heads, seen)
    x = x + w.norm(w.linear(a, "self_attn.o_proj"),
                   "post_attention_layernorm", eps, 1)
    n = w.norm(x, "pre_feedforward_layernorm", eps, 1)
    h = ACTIVATIONS[text.hidden_activation](w.linear(n, "mlp.gate_proj"))
    h = w.linear(h * w.linear(n, "mlp.up_proj"), "mlp.down_proj")
    return x + w.norm(h, "post_feedforward_layernorm", eps, 1), uneven


def window_of(text, layer):
    """How far back a layer of the text sees."""
    kinds = getattr(text, "layer_types", None)
    sliding = kinds[layer] != "full_attention" if kinds else True
    return (getattr(text, "sliding_window", None) or 10**6 if sliding
            else 10**6)


def logits(w, config, ids, rows, where, table=None):
    """Of ids, with rows in the places of placeholders; where(3 or 1, tokens).
    Of the text like llama's, with biases, norms of heads and windows, or like
    gemma's. Inputs are rows of the table, if there is one, and else of the
    weights."""
    text, gemma = config.text_config, config.model_type == "gemma3"
    prefix, head = prefixes(config.model_type)
    all = Weights(w)
    x = (all[prefix + "embed_tokens.weight"] if table is None else table)[ids]
    x = x * (math.sqrt(text.hidden_size) if gemma else 1)
    seen_image = np.asarray(ids) == config.image_token_id
    if len(rows):
        x[seen_image] = rows[0]
    t = np.arange(len(ids))
    ago = t[:, None] - t
    first = np.diff(seen_image, prepend=False)
    picture = np.where(seen_image, np.cumsum(first), -t)
    together = (picture[:, None] == picture) & gemma
    uneven, layer = [], gemma_layer if gemma else text_layer
    for i in range(text.num_hidden_layers):
        seen = ((ago >= 0) | together) & (ago < window_of(text, i))
        x, u = layer(all.at(f"{prefix}layers.{i}."), x, text,
                     text_angles(text, where, i), seen)
        if i + 1 < len(rows):
            x[seen_image] += rows[i + 1]
        uneven.append(u)
    x = all.norm(x, prefix + "norm", text.rms_norm_eps, int(gemma))
    tied = all.get(head) is None
    return x @ all[prefix + "embed_tokens.weight" if tied else head].T, uneven


def loss_sum(x, ids, skipped):
    """Minus the logarithms of the probabilities of ids but the first and
    those that are skipped."""
    x = x[:-1] - x[:-1].max(-1, keepdims=True)
    lp = x - np.log(np.exp(x).sum(-1, keepdims=True))
    ids = np.asarray(ids)[1:]
    return -sum(lp[i, id] for i, id in enumerate(ids) if id != skipped)
