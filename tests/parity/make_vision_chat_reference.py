#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_vision_chat_reference.py - conversations with images, as text and ids

usage: make_vision_chat_reference.py

Writes vision_chat.json and vision_tokenizer/ beside this script. The file holds
conversations with the sizes of their images (rows and columns of pixels), and
for each of vision_templates/ what TRL's collator makes of them: its
prepare_multimodal_messages puts images into the parts, apply_chat_template of a
processor renders and expands. Of each conversation, or "refused":
  text  the rendering, in which an image is one placeholder
  ids   [id, n] is n times the id
  mask  positions [first, last) of what the template marks as the assistant's
processors says what an image of a size becomes: tokens, or the rows and columns
of tiles, 0 of an image that is not cut. vision_tokenizer/ is chat_tokenizer/
with more special tokens, and adds none by itself.

The templates are written for this test. Where TRL has one of that name this
script compares: texts, ids and masks are those of TRL's, and what is refused is
refused there; llava is that of the models of 1.5. Written with transformers
5.24, trl 1.16, jinja2 3.1.6 and num2words 0.5.
"""

import json
import pathlib

import transformers
import trl
from PIL import Image
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast
from trl.data_utils import prepare_multimodal_messages

from vision_models import GEMMA_TOKENS

HERE = pathlib.Path(__file__).resolve().parent
THEIRS = pathlib.Path(trl.__file__).parent / "chat_templates"
SPECIAL = [
    "<s>", "</s>", "<pad>", "<image>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>", "<fake_token_around_image>",
    "<global-img>", "<end_of_utterance>",
    *(f"<row_{y}_col_{x}>" for y in range(1, 4) for x in range(1, 4)),
    "<start_of_image>", "<image_soft_token>", "<end_of_image>",
    "<start_of_turn>", "<end_of_turn>",
]
TILE, SEQ = 12, 9  # pixels of a tile, and tokens
# Rows and columns of the images, of which each conversation takes the first.
SIZES = [(20, 12), (8, 8), (41, 17), (9, 60), (36, 36), (13, 30)]
ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
TOOLS = [
    {"type": "function", "function": {
        "name": "zoom", "description": "Look closer at <part>.",
        "parameters": {"type": "object", "properties": {
            "box": {"type": "array", "items": {"type": "integer"}}},
            "required": ["box"]}}},
    {"type": "function", "function": {
        "name": "count", "description": "Counts.",
        "parameters": {"type": "object", "properties": {}}}},
]


def turns(*lines):
    """A letter for the role, and text, or parts between bars: # is an image.
    The user's are all of one kind, as in a column of a table; else TRL puts
    images before the first text that is no list, and counts too many."""
    result = []
    listed = any(line.startswith("u|") for line in lines)
    for line in lines:
        role, text = ROLES[line[0]], line[2:]
        if line[1] == "|" or (listed and role == "user"):
            text = [{"type": "image"} if p == "#" else
                    {"type": "text", "text": p} for p in text.split("|")]
        result.append({"role": role, "content": text})
    return result


def call(content, *calls):
    calls = [{"type": "function", "function": {"name": n, "arguments": a}}
             for n, a in calls]
    return [{"role": "assistant", "content": content, "tool_calls": calls}]


ZOOM = ("zoom", {"box": [0, 0, 5, 5]})
ASKED = turns("u|#|What is small?")
# messages, is there an answer to come, tools, variables, and images where no
# part says how many
CONVERSATIONS = [
    (turns("u|#|What?", "a A cat."),),
    (turns("u|What?|#", "a A cat."),),
    (turns("u|#|What is this?", "a|A cat."),),
    (turns("u|#"), True),
    (turns("u|#", "a A cat."),),
    (turns("u|A|#|B|#|C", "a One, two."),),
    (turns("u|#|#|Same?", "a No."),),
    (turns("u|#|#|#", "a Three."),),
    (turns("u|#|First.|#|Second.|#|Third.", "a Yes."),),
    (turns("u Hello.", "a Hi."),),
    (turns("u Hello."), True),
    (turns("s Be brief.", "u Hello.", "a Hi."),),
    (turns("s Be brief.", "u|#|What?", "a A cat."),),
    (turns("s|Be brief.", "u|#|What?"), True),
    (turns("s|Be |brief.", "u|What?|#|", "a It.", "u Sure?", "a Yes."),),
    (turns("u What is this?", "a A cat."), False, None, {}, 1),
    (turns("u Which?", "a One.", "u Why?", "a So."), False, None, {}, 2),
    (turns("s Look.", "u Which?", "a The left one."), False, None, {}, 3),
    (turns("u What is this?", "a A cat."), False, None, {}, 2),
    (turns("u|#|What?", "a A cat.", "u|#|And this?", "a A dog."),),
    (turns("u|#|What?", "a A cat.", "u And how old?", "a Two."),),
    (turns("u Hello.", "a Hi.", "u|#|What?", "a A cat."),),
    (turns("u Hello.", "a Hi.", "u|Look: |#|", "a A cat.", "u|#"), True),
    (turns("u|#|a", "a b", "u|#|c", "a d", "u|#|e", "a f"),),
    (turns("u|#|What?", "a A cat.", "u|#|And this?"), True),
    (turns("u|Draw it.", "a|#|Here."),),
    (turns("u|#|Draw it.", "a|Here: |#"),),
    (turns("u|#|\n\nTwo lines\n", "a\u0020\n\nEven more.\n"),),
    (turns("u|\n|#|\n", "a \n"),),
    (turns("u|text\n|#|\n\ntext", "a x\n\n"),),
    (turns("u|  |#|  what  ", "a   a cat  "),),
    (turns("u|#|\u00a0caf\u00e9 \U0001f600", "a \u4f60\u597d\u0085"),),
    (turns("u|#|<b>&amp;</b> \"q\" {{ x }}", "a {% y %} \\n"),),
    (turns("u|#|", "a "),),
    (turns("u|", "a x"),),
    (turns("u|#|one |two| three", "a|four |five"),),
    (turns("u|one|two|#|#|three|#|four", "a ok"),),
    (turns("u|#|What?", "u And?", "a A cat."),),
    (turns("a Hello.", "u|#|What?", "a A cat."),),
    (turns("u|#|What?", "a A cat.", "a And a dog."),),
    (turns("u|#|#|Compare.", "a Alike."), False, None,
     {"add_vision_id": True}),
    (turns("u|#|What?", "a A cat.", "u|#|This?"), True, None,
     {"add_vision_id": True}),
    (turns("u|#|What is the time?", "t It is late.", "a Late."),),
    (turns("u|#|What?"), True, TOOLS),
    (turns("s Use tools.", "u|#|What?", "a A cat."), False, TOOLS[1:]),
    (ASKED + call("", ZOOM) + turns("t 5 x 5", "a A mouse."), False, TOOLS),
    (ASKED + call("I look.", ZOOM, ("count", {})) + turns(
        "t 5 x 5", "t 1", "a A mouse."), False, TOOLS),
    (ASKED + call(None, ("zoom", '{"box": []}')) + turns("t ok"), True, TOOLS),
    (turns("u|#|1+1", "a 2", "u 2+2", "a 4", "u|3+3|#|?", "a 6"),),
    (turns("s <|im_start|>", "u|#|<think>", "a </think>x"),),
]


def make_tokenizer():
    tokenizer = Tokenizer.from_file(
        str(HERE / "chat_tokenizer" / "tokenizer.json"))
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False) for t in SPECIAL])
    folder = HERE / "vision_tokenizer"
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps(special, indent=1) + "\n")
    return (PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special),
            PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special,
                                    extra_special_tokens=GEMMA_TOKENS))


def processors(tokenizer, named):
    """`named` knows which of its tokens are around images."""
    square = {"height": 8, "width": 8}
    llava = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 8},
                                        crop_size=square),
        tokenizer, patch_size=2, vision_feature_select_strategy="default",
        num_additional_image_tokens=1)
    qwen = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(
            patch_size=2, merge_size=2, min_pixels=64, max_pixels=600),
        tokenizer, transformers.Qwen2VLVideoProcessor())
    tiles = {"size": {"longest_edge": 3 * TILE},
             "max_image_size": {"longest_edge": TILE}}
    smolvlm = transformers.SmolVLMProcessor(
        transformers.SmolVLMImageProcessor(**tiles), tokenizer,
        transformers.SmolVLMVideoProcessor(), image_seq_len=SEQ)
    whole = {**tiles, "size": {"longest_edge": TILE}}  # never cut
    idefics3 = transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(**whole), tokenizer,
        image_seq_len=SEQ)
    gemma = transformers.Gemma3Processor(
        transformers.Gemma3ImageProcessor(size=square), named,
        image_seq_length=16)
    return {"llava": llava, "llava_next": llava, "qwen2_vl": qwen,
            "qwen3_vl": qwen, "smolvlm": smolvlm, "idefics3": idefics3,
            "gemma3": gemma}


def picture(size):
    return Image.effect_noise((size[1], size[0]), 80).convert("RGB")


def becomes(processor, size):
    """Tokens, or rows and columns, of an image."""
    images = processor.image_processor
    out = images(images=[[picture(size)]], return_tensors="pt",
                 **({"return_row_col_info": True}
                    if hasattr(processor, "image_seq_len") else {}))
    if "rows" in out:
        return [out["rows"][0][0], out["cols"][0][0]]
    if "image_grid_thw" in out:
        return int(out["image_grid_thw"].prod()) // 4
    return 16


def spans(mask):
    edges = [0, *mask, 0]
    ends = [i for i in range(len(mask) + 1) if edges[i] != edges[i + 1]]
    return [list(pair) for pair in zip(ends[::2], ends[1::2])]


def packed(ids, placeholder):
    result = []
    for id in ids:
        if id == placeholder and result and isinstance(result[-1], list):
            result[-1][1] += 1
        else:
            result.append([id, 1] if id == placeholder else id)
    return result


def run(processor, source, messages, sizes, prompt=False, tools=None,
        variables={}, count=0):
    """As TRL's collator."""
    messages = prepare_multimodal_messages(
        messages, [picture(size) for size in sizes])
    options = {"chat_template": source, "add_generation_prompt": prompt,
               "tools": tools, **variables}
    text = processor.apply_chat_template(messages, tokenize=False, **options)
    out = processor.apply_chat_template(
        messages, tokenize=True, return_dict=True,
        return_assistant_tokens_mask=True,
        processor_kwargs={"add_special_tokens": False}, **options)
    placeholder = (processor.image_token_ids[0]
                   if hasattr(processor.tokenizer, "image_token_id")
                   else processor.image_token_id)
    return {"text": text,
            "ids": packed(out["input_ids"][0], placeholder),
            "mask": spans(out["assistant_masks"][0])}


def result_of(processor, source, conversation, sizes):
    try:
        return run(processor, source, conversation[0], sizes,
                   *conversation[1:])
    except Exception:
        return "refused"


def compare(name, processor, result, conversation, sizes):
    """With TRL's templates, those that mark and those that do not."""
    name = {"qwen2_vl": "qwen2_5_vl"}.get(name, name)
    plain = THEIRS / f"{name}.jinja"
    if not plain.exists():
        return 0
    theirs = result_of(processor, plain.read_text(), conversation, sizes)
    training = (THEIRS / f"{name}_training.jinja").read_text()
    marks = result_of(processor, training, conversation, sizes)
    assert marks == result, (name, marks, result)
    if result != "refused":
        theirs["mask"] = result["mask"]
    assert theirs == result, (name, theirs, result)
    return 1


def sizes_of(conversation):
    parts = [p for m in conversation[0] if isinstance(m["content"], list)
             for p in m["content"] if p["type"] == "image"
             and m["role"] != "tool"]
    count = conversation[4] if len(conversation) > 4 else len(parts)
    return SIZES[len(conversation[0]) % 3:][:count]


def main():
    transformers.logging.set_verbosity_error()
    tokenizers = make_tokenizer()
    rows, results, compared = [], {}, 0
    names = ("messages", "prompt", "tools", "variables")
    for conversation in CONVERSATIONS:
        row = dict(zip(names, conversation))
        row["images"] = sizes_of(conversation)
        rows.append({k: v for k, v in row.items() if v})
    every = processors(*tokenizers)
    for name, processor in every.items():
        source = (HERE / "vision_templates" / f"{name}.jinja").read_text()
        results[name] = []
        for conversation in CONVERSATIONS:
            sizes = sizes_of(conversation)
            result = result_of(processor, source, conversation, sizes)
            compared += compare(name, processor, result, conversation, sizes)
            results[name].append(result)
    become = {name: [[list(size), becomes(every[name], size)]
                     for size in SIZES] for name in every}

    def dump(x):
        return json.dumps(x, separators=(",", ":"), ensure_ascii=False)
    text = '{"processors":' + dump(become) + ',\n"conversations":[\n'
    text += ",\n".join(map(dump, rows)) + '\n],\n"results":{\n'
    text += ",\n".join(f'"{k}":[\n' + ",\n".join(map(dump, v)) + "\n]"
                       for k, v in results.items()) + "\n}}\n"
    (HERE / "vision_chat.json").write_text(text)
    refused = {k: sum(r == "refused" for r in v) for k, v in results.items()}
    print(f"{len(rows)} conversations, {compared} compared, refused {refused}")


main()
