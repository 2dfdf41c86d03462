#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small models' configurations and tokenizers, and what the writer of
llama.cpp's package gguf makes of them: the head of each file, and a hash of all
of it. Weights are a function of the name and the index, so none are stored.

Run in this folder; needs gguf, tokenizers, numpy and xxhash.
"""

import json
import math
import os

import gguf
import numpy
import xxhash
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, \
    processors, trainers

V, P, C, I, L, NH, NKV, HS = 292, 64, 32, 48, 2, 4, 2, 8
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?"
         r"[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXT = "the cat sat on the mat, the dog that the cat saw sat there too " * 9

ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
COMMON = {"vocab_size": V, "hidden_size": C, "intermediate_size": I,
          "num_hidden_layers": L, "num_attention_heads": NH,
          "num_key_value_heads": NKV, "max_position_embeddings": P,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
          "bos_token_id": 288, "eos_token_id": 289}
CONFIGS = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
              "tie_word_embeddings": False, "rope_scaling": ROPE, **COMMON},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
              "tie_word_embeddings": True, **COMMON},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
              "tie_word_embeddings": True, "head_dim": 16, **COMMON},
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
             "vocab_size": V, "n_positions": P, "n_embd": C, "n_layer": L,
             "n_head": NH, "n_inner": I, "layer_norm_epsilon": 1e-5,
             "bos_token_id": 288, "eos_token_id": 289},
}
TYPES = {"f32": (gguf.GGMLQuantizationType.F32, 0),
         "f16": (gguf.GGMLQuantizationType.F16, 1),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, 7),
         "bf16": (gguf.GGMLQuantizationType.BF16, 32)}


def tokenizer(family):
    t = Tokenizer(models.BPE())
    if family == "gpt2":
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        pattern = SPLIT % ("{1,3}" if family == "llama" else "")
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=280, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    while t.get_vocab_size() < 287:
        t.add_tokens([f"<user{t.get_vocab_size()}>"])
    t.add_tokens(["<user>"])
    t.add_special_tokens(["<s>", "</s>"])
    if family == "llama":
        t.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    return t


def value(name, count):
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    bits = (seed + numpy.arange(count, dtype=numpy.uint64) * 2654435761)
    bits = (bits % 2**32) >> 16
    return ((bits.astype(numpy.float64) - 32768) / 131072).astype(
        numpy.float32)


def permute(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]) \
        .swapaxes(1, 2).reshape(w.shape)


def tensors(family):
    """(name here, name there, shape here, what becomes of it)"""
    if family == "gpt2":
        yield "transformer.wte.weight", "token_embd.weight", (V, C), None
        yield "transformer.wpe.weight", "position_embd.weight", (P, C), "f32"
        for i in range(L):
            for own, their, rows, columns in (
                    ("ln_1", "attn_norm", 0, C),
                    ("attn.c_attn", "attn_qkv", C, 3 * C),
                    ("attn.c_proj", "attn_output", C, C),
                    ("ln_2", "ffn_norm", 0, C), ("mlp.c_fc", "ffn_up", C, I),
                    ("mlp.c_proj", "ffn_down", I, C)):
                own, their = f"transformer.h.{i}.{own}", f"blk.{i}.{their}"
                yield (own + ".weight", their + ".weight",
                       (rows, columns) if rows else (C,), "t")
                yield own + ".bias", their + ".bias", (columns,), None
        yield "transformer.ln_f.weight", "output_norm.weight", (C,), None
        yield "transformer.ln_f.bias", "output_norm.bias", (C,), None
        return
    hs = 16 if family == "qwen3" else HS
    yield "model.embed_tokens.weight", "token_embd.weight", (V, C), None
    for i in range(L):
        p, q = f"model.layers.{i}.", f"blk.{i}."
        yield p + "input_layernorm.weight", q + "attn_norm.weight", (C,), None
        for x, n in ("q", NH), ("k", NKV), ("v", NKV):
            yield (f"{p}self_attn.{x}_proj.weight", f"{q}attn_{x}.weight",
                   (n * hs, C), x)
        for x, n in ("q", NH), ("k", NKV), ("v", NKV):
            if family == "qwen2":
                yield (f"{p}self_attn.{x}_proj.bias", f"{q}attn_{x}.bias",
                       (n * hs,), x)
        for x in "qk" if family == "qwen3" else "":
            yield (f"{p}self_attn.{x}_norm.weight", f"{q}attn_{x}_norm.weight",
                   (hs,), None)
        for own, their, shape in (
                ("self_attn.o_proj", "attn_output", (C, NH * hs)),
                ("post_attention_layernorm", "ffn_norm", (C,)),
                ("mlp.gate_proj", "ffn_gate", (I, C)),
                ("mlp.up_proj", "ffn_up", (I, C)),
                ("mlp.down_proj", "ffn_down", (C, I))):
            yield f"{p}{own}.weight", f"{q}{their}.weight", shape, None
    yield "model.norm.weight", "output_norm.weight", (C,), None
    if family == "llama":
        yield "lm_head.weight", "output.weight", (V, C), None


def rope_factors():
    for i in range(HS // 2):
        wave = 2 * math.pi * math.pow(10000.0, 2 * i / HS)
        periods = ROPE["original_max_position_embeddings"] / wave
        low, high = ROPE["low_freq_factor"], ROPE["high_freq_factor"]
        smooth = (periods - low) / (high - low)
        yield 1.0 if periods > high else ROPE["factor"] if periods < low \
            else 1.0 / ((1.0 - smooth) / ROPE["factor"] + smooth)


def put_values(w, family, config, file_type):
    gpt2 = family == "gpt2"
    w.add_type("model")
    w.add_file_type(file_type)
    w.add_quantization_version(2)
    w.add_vocab_size(V)
    w.add_context_length(P)
    w.add_embedding_length(C)
    w.add_block_count(L)
    w.add_feed_forward_length(I)
    w.add_head_count(NH)
    w.add_head_count_kv(NH if gpt2 else NKV)
    if gpt2:
        w.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    hs = config.get("head_dim", HS)
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_key_length(hs)
    w.add_value_length(hs)
    w.add_rope_freq_base(config["rope_theta"])
    w.add_rope_dimension_count(hs)


def put_tokens(w, family, t, chat):
    added = t.get_added_tokens_decoder()
    texts, types = [], []
    for i in range(V):
        text = t.id_to_token(i)
        texts.append(text or f"[PAD{i}]")
        types.append(5 if text is None else 1 if i not in added
                     else 3 if added[i].special else 4)
    model = json.loads(t.to_str())["model"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre({"gpt2": "gpt-2", "llama": "llama-bpe"}
                        .get(family, "qwen2"))
    w.add_token_list(texts)
    w.add_token_types(types)
    w.add_token_merges([m if isinstance(m, str) else " ".join(m)
                        for m in model["merges"]])
    w.add_bos_token_id(t.token_to_id("<s>"))
    w.add_eos_token_id(t.token_to_id("</s>"))
    w.add_chat_template(chat)
    w.add_add_bos_token(family == "llama")


def make(family, name):
    chat = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    folder = "gguf/" + family
    os.makedirs(folder, exist_ok=True)
    config, t = CONFIGS[family], tokenizer(family)
    with open(folder + "/config.json", "w") as f:
        json.dump(config, f, indent=1)
    t.save(folder + "/tokenizer.json", pretty=False)
    with open(folder + "/tokenizer_config.json", "w") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>",
                   "chat_template": chat}, f)
    wanted, file_type = TYPES[name]
    arch = family
    w = gguf.GGUFWriter("made.gguf", arch)
    put_values(w, family, config, file_type)
    put_tokens(w, family, t, chat)
    for own, their, shape, change in tensors(family):
        data = value(own, math.prod(shape)).reshape(shape)
        if change == "t":
            data = data.T if data.ndim == 2 else data
        if change in ("q", "k") and family == "llama":
            data = permute(data, NH if change == "q" else NKV)
        dtype = wanted
        if data.ndim < 2 or change == "f32":
            dtype = gguf.GGMLQuantizationType.F32
        elif name == "q8_0" and data.shape[-1] % 32:
            dtype = gguf.GGMLQuantizationType.F16
        data = numpy.ascontiguousarray(data)
        w.add_tensor(their, gguf.quants.quantize(data, dtype),
                     raw_dtype=dtype)
    if family == "llama":
        w.add_tensor("rope_freqs.weight", numpy.array(
            list(rope_factors()), dtype=numpy.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    made = open("made.gguf", "rb").read()
    start = gguf.GGUFReader("made.gguf").data_offset
    with open(f"gguf/{family}.{name}.head", "wb") as f:
        f.write(made[:start])
    os.remove("made.gguf")
    return f"{family}.{name} {start} {xxhash.xxh3_64_hexdigest(made)}\n"


with open("gguf/files.txt", "w") as f:
    for family, name in (("llama", "f32"), ("llama", "q8_0"), ("qwen2", "bf16"),
                         ("qwen3", "f16"), ("gpt2", "q8_0"), ("gpt2", "f32")):
        f.write(make(family, name))
