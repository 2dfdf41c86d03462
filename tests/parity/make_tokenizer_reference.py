#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_tokenizer_reference.py - what tokenizers makes of difficult texts
#
# Trains a small tokenizer of each family, with the family's own normalizer,
# pre-tokenizer, post-processor and decoder, and writes tokenizers/FAMILY.json
# and tokenizers/reference.json (texts, their ids, and the ids' text) beside
# this script. Needs the libraries tokenizers and sentencepiece (0.23.3 and
# 0.2.3 made the files).
import json
import os

import tokenizer_kinds as kinds
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MARK = "\u2581"

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog isn't amused.",
    "It's what they've said: we'll see, I'm sure you'd rather they're there.",
    "Training a model on four nodes takes 12 hours and 3456 steps in 2026.",
    "for (size_t i = 0; i < count; i++) {\n\tsum += values[i];\n}\n",
    "def forward(self, x):\n    return self.out(self.norm(x) + x)\n",
    "Der schnelle braune Fuchs springt über den faulen Hund, gemütlich.",
    "Un élève très doué a déjà préféré le café à la crème brûlée.",
    "Быстрая лисица прыгает через ленивую собаку и бежит дальше.",
    "速い茶色の狐はのろまな犬を飛び越えた。敏捷的狐狸跳过了懒狗。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. שועל חום מהיר קופץ.",
    "चतुर लोमड़ी आलसी कुत्ते के ऊपर कूदती है। الثعلب البني السريع.",
    "A smile \U0001f600, a family \U0001f468\u200d\U0001f469\u200d"
    "\U0001f467, a thumb \U0001f44d\U0001f3fd, a flag "
    "\U0001f3f3\ufe0f\u200d\U0001f308.",
]

TEXTS = CORPUS + [
    "",
    " ",
    "  ",
    "\n",
    " leading and trailing ",
    "Hello  world!\n\n  I'M here, 12345 \u5143\u65e6 it's  \n x",
    "tabs\t\tand \t mixed \r\n\r\n lines\n\n\n  end   ",
    "\u00a0no\u00a0break\u3000wide\u2003em\u2028line\u2029par\u0085next\u180emvs",
    "zero\u200bwidth \ufeffmark \u00adhyphen",
    "it'S '\u017f ''s 'LL 'vE don'T 's't x'd",
    "1 12 123 1234 1234567890 \u0663\u0664\u0665 \u2167 \u00bd x\u00b2 \u2460",
    "caf\u00e9 cafe\u0301 \u1100\u1161\u11a8 \uac01 \u212b A\u030a e\u0323\u0301"
    " \u0958 \ufb01",
    "\u0301 starts with a mark, a\u0301\u0301\u0323 ends\u0301",
    "<|endoftext|>text<|im_start|>user\nhi<|im_end|>\n<|eot_id|></s><s><unk>",
    "<|endoftext<|endoftext|>|> <|im_start|><|im_start|>",
    "[LS] a  [LS]  b[LS]c  [LS]  [LS]",
    "WORD xWORD WORD. swords WORDs -WORD- \u00e9WORD",
    "<think>one</think> <think >",
    f"{MARK}marks{MARK}{MARK}in {MARK} text {MARK}",
    "bytes \u0000 \u0001 \u007f \u0080 \u07ff \u0800 \uffff \U00010000 \U0010ffff",
    "<0x41><0x0A> <0xE2>",
    "\U0001d518\U0001d52b\U0001d526 \ud7a3 \u4e2d" * 3,
    "=" * 70 + "-" * 33 + " " * 41 + "a" * 90,
    "https://example.org/a_b?c=d&e=%20#f  /* x->y::z */ {}[]();\\n\\t",
    "a Caf\u00e9 [LR] x[LR] [S]  two [R]  spaces[L]  [[[R] \u4f60\u597d x\u4f60\u597d e\u0301e  z",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u10d2\u10d0 \u0531\u0532 \u1201\u1202",
]


def byte_level(corpus, size, special, split=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if split:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(split), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(special)
    return tokenizer


def starts_with(tokenizer, token):
    return processors.TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token}:1 $B:1",
        special_tokens=[(token, tokenizer.token_to_id(token))],
    )


def gpt2(corpus, size):
    return byte_level(corpus, size, ["<|endoftext|>"])


def llama3(corpus, size):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    made = byte_level(corpus, size, special, LLAMA3, ignore_merges=True)
    made.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), starts_with(made, special[0])]
    )
    return made


def qwen(corpus, size):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made = byte_level([normalizers.NFC().normalize_str(t) for t in corpus], size,
                      special, QWEN)
    made.normalizer = normalizers.NFC()
    made.add_tokens(
        [
            AddedToken("<think>", normalized=False),
            AddedToken("</think>", normalized=False),
            AddedToken("WORD", single_word=True, normalized=False),
            AddedToken("[LS]", lstrip=True, rstrip=True, normalized=False),
            AddedToken("caf\u00e9", normalized=True),
        ]
    )
    return made


def cased(corpus, size):
    """A pattern that is not one of the three that are matched by hand."""
    return byte_level(corpus, size, ["<|endoftext|>"], CASED)


def sentencepiece(corpus, size, **parts):
    """Trained on words, as SentencePiece does, then given byte tokens."""
    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Metaspace(MARK, "always", True)
    trainer = trainers.BpeTrainer(
        vocab_size=size, limit_alphabet=size // 4, show_progress=False
    )
    words.train_from_iterator(corpus, trainer)
    model = json.loads(words.to_str())["model"]
    texts = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    texts += [t for t in model["vocab"] if t not in texts]
    merges = [tuple(m) for m in model["merges"]]
    for half in (MARK, 2 * MARK, 4 * MARK, 8 * MARK):
        if 2 * half not in texts:
            texts.append(2 * half)
            merges.append((half, half))
    made = Tokenizer(
        models.BPE(
            vocab={text: i for i, text in enumerate(texts)},
            merges=merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    made.add_special_tokens(
        [AddedToken(t, normalized=False, special=True) for t in texts[:3]]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace(MARK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.post_processor = starts_with(made, "<s>")
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def llama2(corpus, size):
    steps = [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]
    return sentencepiece(corpus, size, normalizer=normalizers.Sequence(steps))


def mistral(corpus, size):
    return sentencepiece(
        corpus, size, pre_tokenizer=pre_tokenizers.Metaspace(MARK, "first", False)
    )


def gemma(corpus, size):
    return sentencepiece(
        corpus,
        size,
        normalizer=normalizers.Replace(" ", MARK),
        pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
        decoder=decoders.Sequence(
            [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
        ),
    )


FAMILIES = (gpt2, llama3, qwen, cased, llama2, mistral, gemma)


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
    os.makedirs(here, exist_ok=True)
    reference = {"texts": TEXTS}
    table = kinds.charsmap()
    for family in FAMILIES + kinds.TABLED + kinds.PLAIN:
        path = os.path.join(here, f"{family.__name__}.json")
        if not os.path.exists(path):  # training is not the same each time
            made = family(CORPUS, 420, *([table] if family in kinds.TABLED else []))
            made.save(path, pretty=False)
        made = Tokenizer.from_file(path)
        ids = [made.encode(t).ids for t in TEXTS]
        reference[family.__name__] = {
            "ids": ids,
            "kept": [made.decode(i, skip_special_tokens=False) for i in ids],
            "skipped": [made.decode(i, skip_special_tokens=True) for i in ids],
        }
    for name, options in kinds.MODELS.items():
        path = os.path.join(here, name)
        if not os.path.exists(path + ".model"):
            kinds.train_sentencepiece(CORPUS * 3, path, 700, kinds.RULES if name in kinds.RULED else None, **options)
        made = kinds.sentencepiece.SentencePieceProcessor(model_file=path + ".model")
        ids = made.encode(TEXTS)
        # SentencePiece writes unknown tokens as U+2047
        texts = [None if made.unk_id() in i else made.decode(i) for i in ids]
        reference[name] = {"plain": True, "ids": ids, "kept": texts, "skipped": texts}
    with open(os.path.join(here, "reference.json"), "w", encoding="utf-8") as f:
        json.dump(reference, f, separators=(",", ":"), ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
