# SPDX-License-Identifier: Apache-2.0
# tokenizer_kinds.py - small tokenizers of the kinds that are not byte-level BPE
#
# Each function trains one on a corpus and returns it; those of SentencePiece
# write a .model file and return its path. Needs tokenizers (0.23) and
# sentencepiece (0.2.3).
import os
import tempfile

import sentencepiece
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

MARK = "\u2581"

# What a small table of SentencePiece changes: from, to, in hexadecimal.
RULES = [
    ("9", "20"), ("A", "20"), ("D", "20"), ("A0", "20"), ("3000", "20"), ("200B", "20"), ("AD", ""),
    ("FB01", "66 69"), ("C5 30A", "C5"), ("65 301", "E9"), ("E9 323", "1EB9 301"), ("FF21", "41"), ("1E9B", "1E61"),
    ("2126", "3A9"), ("AC00", "1100 1161"), ("928 93C", "929"), ("1F600", "3A 29"), ("2026", "2E 2E 2E"), ("B2", "32"),
    ("FFFD", "20"), ("7", ""), ("41 42 43", "61 62 63"), ("958", "915 93C"), ("FDFA", "635 644 649 20 627 644 644 647"),
]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The fields of a protobuf message: number and value."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def train_sentencepiece(corpus, path, size, rules=None, **options):
    """Writes path.model."""
    with tempfile.TemporaryDirectory() as work:
        text = os.path.join(work, "corpus")
        with open(text, "w", encoding="utf-8") as f:
            f.writelines(line.replace("\n", " ") + "\n" for line in corpus for _ in range(4))
        if rules:
            options["normalization_rule_tsv"] = os.path.join(work, "rules.tsv")
            with open(options["normalization_rule_tsv"], "w", encoding="utf-8") as f:
                f.writelines(f"{a}\t{b}\n" for a, b in rules)
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=path, vocab_size=size, hard_vocab_limit=False, minloglevel=2,
            num_threads=1, **options)
    os.remove(path + ".vocab")
    return path + ".model"


def charsmap(name=None):
    """The table of one of SentencePiece's rules, or of RULES."""
    with tempfile.TemporaryDirectory() as work:
        options = {"normalization_rule_name": name} if name else {"rules": RULES}
        model = train_sentencepiece(["a text of words"], os.path.join(work, "m"), 30, **options)
        with open(model, "rb") as f:
            normalizer = dict(fields(f.read()))[3]
        return dict(fields(normalizer))[2]


def unigram(corpus, size, special, fallback=False, **parts):
    made = Tokenizer(models.Unigram())
    for name, value in parts.items():
        setattr(made, name, value)
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(corpus, trainer)
    if fallback:
        import json

        data = json.loads(made.to_str())
        data["model"]["byte_fallback"] = True
        data["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
        made = Tokenizer.from_str(json.dumps(data))
    return made


def ends_with(made, token):
    return processors.TemplateProcessing(
        single=f"$A {token}", pair=f"$A {token} $B {token}", special_tokens=[(token, made.token_to_id(token))])


def t5(corpus, size, table):
    made = unigram(
        corpus, size, ["<pad>", "</s>", "<unk>"],
        normalizer=normalizers.Sequence([
            normalizers.Precompiled(table), normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), MARK)]),
        pre_tokenizer=pre_tokenizers.Metaspace(MARK, "always", True), decoder=decoders.Metaspace(MARK, "always", True))
    made.post_processor = ends_with(made, "</s>")
    made.add_special_tokens(["<extra_id_0>"])
    return made


def xlmr(corpus, size, table):
    made = unigram(
        corpus, size, ["<s>", "<pad>", "</s>", "<unk>"], normalizer=normalizers.Precompiled(table),
        pre_tokenizer=pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(MARK, "always", True)]),
        decoder=decoders.Metaspace(MARK, "always", True))
    made.post_processor = processors.RobertaProcessing(
        ("</s>", made.token_to_id("</s>")), ("<s>", made.token_to_id("<s>")))
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return made


def albert(corpus, size, table):
    made = unigram(
        corpus, size, ["<pad>", "<unk>", "[CLS]", "[SEP]"],
        normalizer=normalizers.Sequence([
            normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
            normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(table),
            normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizer=pre_tokenizers.Metaspace(MARK, "always", True), decoder=decoders.Metaspace(MARK, "always", True))
    made.post_processor = processors.BertProcessing(
        ("[SEP]", made.token_to_id("[SEP]")), ("[CLS]", made.token_to_id("[CLS]")))
    return made


def unigram_bytes(corpus, size):
    """Without a normalizer, in one piece, with bytes."""
    made = unigram(
        corpus, size, ["<unk>", "<s>"], True, pre_tokenizer=pre_tokenizers.Metaspace(MARK, "first", False))
    made.decoder = decoders.Sequence([
        decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return made


def flagged():
    return [
        AddedToken("WORD", single_word=True, normalized=False), AddedToken("[L]", lstrip=True, normalized=False),
        AddedToken("[R]", rstrip=True, normalized=False), AddedToken("Caf\u00e9", normalized=True),
        AddedToken("[LR]", lstrip=True, rstrip=True, single_word=True, normalized=True),
        AddedToken("[S]", special=True, normalized=True, lstrip=True), AddedToken("[[", normalized=False),
        AddedToken("[[[R]", normalized=False), AddedToken("\u4f60\u597d", normalized=True, single_word=True),
        AddedToken("  ", normalized=False), AddedToken("e\u0301e", normalized=False, rstrip=True),
    ]


def words(corpus, size):
    """BPE on words, marks and digits without bytes."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    made.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>"], show_progress=False))
    return made


def plain(corpus, size):
    """BPE on words without bytes."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFD(), normalizers.Strip(), normalizers.Prepend("x")])
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.CharDelimiterSplit("e")])
    made.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>"], show_progress=False))
    made.add_tokens(flagged())
    return made


TABLED = (t5, xlmr, albert)
PLAIN = (unigram_bytes, words, plain)

# SentencePiece's own files: its options; those of small files have RULES.
RULED = ("sp_unigram", "sp_bytes", "sp_bpe", "sp_suffix", "sp_bare")
MODELS = {
    "sp_unigram": {"model_type": "unigram"},
    "sp_bytes": {
        "model_type": "unigram", "byte_fallback": True, "character_coverage": 0.98, "split_digits": True,
        "user_defined_symbols": ["<sep>", "Fuchs", "\u2581a\u2581b"], "control_symbols": ["<ctl>"]},
    "sp_llama": {
        "model_type": "bpe", "byte_fallback": True, "character_coverage": 0.98, "split_digits": True,
        "remove_extra_whitespaces": False, "normalization_rule_name": "identity",
        "allow_whitespace_only_pieces": True},
    "sp_bpe": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "Fuchs", "xx"], "pad_id": 3},
    "sp_suffix": {
        "model_type": "unigram", "treat_whitespace_as_suffix": True, "split_by_whitespace": False},
    "sp_bare": {
        "model_type": "bpe", "add_dummy_prefix": False, "remove_extra_whitespaces": False,
        "user_defined_symbols": ["  ", "\u2581\u2581\u2581"]},
}
