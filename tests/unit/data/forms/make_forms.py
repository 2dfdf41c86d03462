#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the same rows in every form that data files have.

Run in this folder; needs pandas, Pillow, pyarrow, datasets 5 and zstandard. The tests
read what it wrote and compare the tokens with those of the .jsonl files.
"""

import base64
import gzip
import io
import json
import shutil
import tempfile

import datasets
import pandas
import PIL.Image
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import zstandard

ALPACA = [
    {"instruction": "Add the numbers.", "input": "1, 2", "output": "3"},
    {"instruction": "Say \"hi\".", "input": None, "output": "\"hi\""},
    {"instruction": "Two\nlines", "input": "a\tb\\n", "output": "x\n\ny\n"},
    {"instruction": "Ärger, 漢字 🙂", "input": "null", "output": " spaced "},
    {"instruction": "NA", "input": "007", "output": "1e3"},
]
PAIRS = [
    {"prompt": "Q: a,b?\n", "chosen": "yes", "rejected": "no", "margin": 0.5},
    {"prompt": "Q: \"c\"?", "chosen": " d", "rejected": " e", "margin": -2.25},
    {"prompt": "Q?", "chosen": " ü", "rejected": " ö", "margin": 1e-3},
]
CHATS = [
    {"id": 1, "source": "a", "score": 0.5, "good": True,
     "conversations": [{"from": "human", "value": "Hello"},
                       {"from": "gpt", "value": "Hi, \"you\"\n"}]},
    {"id": 2, "source": None, "score": None, "good": False,
     "conversations": [{"from": "system", "value": "Be brief."},
                       {"from": "human", "value": "漢字?"},
                       {"from": "gpt", "value": "no"},
                       {"from": "human", "value": "why"},
                       {"from": "gpt", "value": "🙂"}]},
    {"id": -3, "source": "a", "score": -1.25, "good": None,
     "conversations": [{"from": "human", "value": ""},
                       {"from": "gpt", "value": "."}]},
] + [{"id": 10 + i, "source": "b" * i, "score": i / 3, "good": i % 2 == 0,
      "conversations": [{"from": "human", "value": f"{i} " * i + "?"},
                        {"from": "gpt", "value": f"n{i % 3}"}]}
     for i in range(20)]
IDS = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]},
       {"input_ids": [200, 0], "labels": [200, 0]},
       {"input_ids": [7] * 40, "labels": [-100] * 39 + [7]}]


def lines(rows):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def write(name, data):
    with open(name, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def packed(text):
    """gzip without a time, of two members; zstd without a size, two frames."""
    half = len(text) // 2
    gz, zst = b"", b""
    for part in (text[:half], text[half:]):
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as f:
            f.write(part)
        gz += out.getvalue()
        zst += zstandard.ZstdCompressor(
            write_content_size=False).compress(part)
    return gz, zst


def write_texts(name, rows):
    text = lines(rows).encode()
    gz, zst = packed(text)
    write(name + ".jsonl", text)
    write(name + ".jsonl.gz", gz)
    write(name + ".jsonl.zst", zst)
    write(name + ".json", json.dumps(rows, indent=2))
    write(name + ".line.json",
          "\ufeff" + json.dumps(rows, ensure_ascii=False))


def write_tables(name, rows):
    frame = pandas.DataFrame(rows)
    frame.to_csv(name + ".csv", index=False)
    frame.to_csv(name + ".index.csv", lineterminator="\r\n", quoting=1)
    frame.to_csv(name + ".tsv", sep="\t", index=False, encoding="utf-8-sig")
    write(name + ".csv.gz", packed(open(name + ".csv", "rb").read())[0])


def write_parquet(name, rows):
    table = pyarrow.Table.from_pylist(rows)
    put = pyarrow.parquet.write_table
    put(table, name + ".snappy.parquet")
    put(table, name + ".gzip.parquet", compression="gzip", row_group_size=2)
    put(table, name + ".zstd.parquet", compression="zstd",
        use_dictionary=False, data_page_version="2.0")
    put(table, name + ".v2.parquet", data_page_version="2.0",
        version="2.6", data_page_size=64, write_batch_size=3)
    put(table, name + ".plain.parquet", compression="none",
        use_dictionary=False, data_page_size=64, write_batch_size=2)


def write_arrow(name, rows):
    table = pyarrow.Table.from_pylist(rows)
    datasets.disable_progress_bars()
    datasets.Dataset.from_list(rows).save_to_disk(name + ".saved", num_shards=2)
    pyarrow.feather.write_feather(table, name + ".arrow",
                                  compression="uncompressed", chunksize=2)


def write_types():
    """Every type that is read, and some that are not, with their JSON."""
    table = pyarrow.table({
        "i8": pyarrow.array([-1, None, 127], pyarrow.int8()),
        "u32": pyarrow.array([4294967295, 0, None], pyarrow.uint32()),
        "u64": pyarrow.array([18446744073709551615, 1, 2], pyarrow.uint64()),
        "i64": pyarrow.array([-9223372036854775808, 1, None]),
        "f32": pyarrow.array([0.1, None, -1.5e30], pyarrow.float32()),
        "f64": pyarrow.array([0.1, 1.0, float("nan")]),
        "bool": pyarrow.array([True, None, False]),
        "text": pyarrow.array(["", None, "a\x01b"]),
        "large": pyarrow.array(["x", "", None], pyarrow.large_string()),
        "lists": pyarrow.array([[[1], [], None], None, []],
                               pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
        "three": pyarrow.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]],
                               pyarrow.list_(pyarrow.int16(), 3)),
        "map": pyarrow.array([[("k", 1)], None, []],
                             pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "deep": pyarrow.array([{"a": {"b": [{"c": "d"}]}}, None,
                               {"a": None}]),
        "bytes": pyarrow.array([b"\xff", None, b""]),
        "when": pyarrow.array([0, None, 1], pyarrow.timestamp("us")),
        "none": pyarrow.nulls(3),
        "half": pyarrow.array([1, None, 1], pyarrow.int8()).cast(
            pyarrow.float16()),
        "money": pyarrow.array([1, None, 2]).cast(pyarrow.decimal128(25, 2)),
    })
    pyarrow.parquet.write_table(table, "types.parquet", row_group_size=2)
    pyarrow.feather.write_feather(table, "types.arrow", compression="zstd")
    other = {"not read": "a column of dates, bytes or decimals"}

    def plain(value):
        if isinstance(value, list):
            return [plain({"key": v[0], "value": v[1]}
                          if isinstance(v, tuple) else v) for v in value]
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, float) and value != value:
            return None
        return value if isinstance(value, (int, float, str, type(None))) \
            else other
    rows = [plain(r) for r in table.to_pylist()]
    for row in rows:
        row["half"] = row["half"] and other
    write("types.jsonl", lines(rows))


def json_type(texts):
    return pyarrow.ExtensionArray.from_storage(
        pyarrow.json_(texts.type), texts)


def write_json():
    """Columns of JSON: texts that are values, alone, in lists, in structures,
    and in tool conversations as datasets writes them by itself."""
    texts = ["1e2", '"a\\n"', " null", None, '{"a": [1,\n {}]}', "{", "",
             '1}, "b": {', "[1] 2"]
    column = json_type(pyarrow.array(texts))
    table = pyarrow.table({
        "one": column,
        "large": json_type(pyarrow.array(texts, pyarrow.large_string())),
        "list": pyarrow.ListArray.from_arrays(
            pyarrow.array(range(len(texts) + 1), pyarrow.int32()), column),
        "deep": pyarrow.StructArray.from_arrays([column], ["x"]),
        "text": pyarrow.array(texts),
    })
    pyarrow.parquet.write_table(table, "json.parquet")
    with pyarrow.ipc.new_stream("json.arrow", table.schema) as out:
        out.write_table(table)
    bad = {"not read": "a text in a column of JSON that is no JSON"}
    values = [100.0, "a\n", None, None, {"a": [1, {}]}] + [bad] * 4
    write("json.jsonl", lines(
        {"one": v, "large": v, "list": [v], "deep": {"x": v}, "text": t}
        for v, t in zip(values, texts)))


def call(name, arguments):
    return {"type": "function",
            "function": {"name": name, "arguments": arguments}}


def write_tools():
    rows = [{"messages": [
        {"role": "user", "content": "rain?"},
        {"role": "assistant", "content": None,
         "tool_calls": [call("sky", {"city": "Rome"})]},
        {"role": "tool", "content": "wet"},
        {"role": "assistant", "content": "Wet."}]},
        {"messages": [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": None,
             "tool_calls": [call("sum", {"a": 1, "b": [2.5, "x\ny"]})]},
            {"role": "tool", "content": "1"},
            {"role": "assistant", "content": "1"}]}]
    full = [{"messages": [{"role": m["role"], "content": m["content"] or "",
                           "tool_calls": m.get("tool_calls")}
                          for m in row["messages"]]} for row in rows]
    for name, kept in ("tools", rows), ("calls", full):
        write(name + ".jsonl", lines(kept))
        with tempfile.TemporaryDirectory() as cache:
            data = datasets.load_dataset("json", data_files=name + ".jsonl",
                                         split="train", cache_dir=cache)
            data.to_parquet(name + ".parquet")
            data.save_to_disk(cache + "/saved")
            shutil.copy(cache + "/saved/data-00000-of-00001.arrow",
                        name + ".arrow")


def png(width, height, color):
    out = io.BytesIO()
    PIL.Image.new("RGB", (width, height), color).save(out, "png")
    return out.getvalue()


def write_images():
    """The feature Image, and parts, which tables fill with null; as lines of
    JSON the same images are data: URIs."""
    red, blue = png(3, 2, "red"), png(2, 4, "blue")

    def row(images, *parts):
        content = [{"type": "text", "text": p} if p else
                   {"type": "image", "text": None} for p in parts]
        return {"images": images, "messages": [
            {"role": "user", "content": content},
            {"role": "assistant",
             "content": [{"type": "text", "text": "ok"}]}]}

    rows = [row([red], None, "a"), row([red, blue], "b", None, None),
            row([], "c"), row([blue], None)]
    features = datasets.Features({
        "images": datasets.List(datasets.Image()),
        "messages": datasets.List({
            "role": datasets.Value("string"),
            "content": datasets.List({"type": datasets.Value("string"),
                                      "text": datasets.Value("string")})})})
    data = datasets.Dataset.from_list(
        [{**r, "images": [{"bytes": b, "path": None} for b in r["images"]]}
         for r in rows], features=features)
    data.to_parquet("images.parquet")
    with tempfile.TemporaryDirectory() as cache:
        data.save_to_disk(cache)
        shutil.copy(cache + "/data-00000-of-00001.arrow", "images.arrow")
    write("images.jsonl", lines(
        {**r, "images": ["data:image/png;base64," + base64.b64encode(b).decode()
                         for b in r["images"]]} for r in rows))
    pyarrow.parquet.write_table(pyarrow.table({
        "image": [red, b"no image", None], "prompt": ["<image>a", "b", "c"],
        "completion": ["x", "y", "z"]}), "image.parquet")


def write_refused():
    table = pyarrow.table({"text": ["a", "b"]})
    put = pyarrow.parquet.write_table
    put(table, "delta.parquet", use_dictionary=False,
        column_encoding="DELTA_BYTE_ARRAY")
    put(table, "brotli.parquet", compression="brotli")
    pyarrow.feather.write_feather(
        pyarrow.table({"text": ["a" * 999, "b"]}), "lz4.arrow",
        compression="lz4")
    pyarrow.feather.write_feather(
        pyarrow.table({"text": table["text"].dictionary_encode()}),
        "dictionary.arrow", compression="uncompressed")


write_texts("alpaca", ALPACA)
write_tables("alpaca", ALPACA)
write_texts("pairs", PAIRS)
write_tables("pairs", PAIRS)
write_texts("chats", CHATS)
write_texts("ids", IDS)
for name, rows in ("alpaca", ALPACA), ("chats", CHATS), ("ids", IDS):
    write_parquet(name, rows)
    write_arrow(name, rows)
write_types()
write_json()
write_tools()
write_images()
write_refused()
