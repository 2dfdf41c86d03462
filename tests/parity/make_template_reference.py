#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_template_reference.py - what transformers makes of many conversations

usage: make_template_reference.py FOLDER

FOLDER is that of this script. Writes FOLDER/template_reference.json: what each
line of FOLDER/template_snippets.txt renders with a few variables (null: it is
refused), the conversations, and for each file of FOLDER/templates what apply_chat_template
renders of them: the XXH3 of the text, "+" and the bytes that the template marks
if it does, or "refused". The templates are written for this test in the ways
that those of published models are; strftime_now tells the 26th of July 2024
there as here. Written with transformers 5.24 and jinja2 3.1.6.
"""

import datetime
import json
import pathlib
import sys

import xxhash
from transformers.utils import chat_template_utils


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Day

SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Tells the "weather" of a city, in \u00b0C <now>.\nFast.',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
                    "days": {"type": ["integer", "null"], "default": None},
                    "where": {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}},
                        "required": ["lat"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
            "return": {"type": "string", "description": "a text"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


def turns(*texts):
    roles = {
        "s": "system",
        "d": "developer",
        "u": "user",
        "a": "assistant",
        "t": "tool",
    }
    return [{"role": roles[t[0]], "content": t[2:]} for t in texts]


def call(name="get_weather", arguments=None, **more):
    arguments = {"city": "Paris"} if arguments is None else arguments
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "function": function, **more}


def calls(*all, **more):
    return {"role": "assistant", "tool_calls": list(all), **more}


def parts(role, *texts):
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": role, "content": content}


def thinks(reasoning, text, key="reasoning_content"):
    return {"role": "assistant", "content": text, key: reasoning}


HELLO = turns("u Hello, world!")
CHAT = turns("s Be brief.", "u Who are you?", "a A model.", "u Sure?", "a Yes.")
ASKED = turns("u What is the weather?")
THOUGHT = "a <think>\nI think.\n</think>\n\nSo it is."
# messages, whether the assistant is to answer, tools, variables
CONVERSATIONS = [
    (HELLO, True, None, {}),
    (HELLO, False, None, {}),
    (HELLO + turns("a Hi."), False, None, {}),
    (CHAT, False, None, {}),
    (CHAT[:4], True, None, {}),
    (CHAT[1:], False, None, {}),
    (turns("s  x ", "u  two\nlines \n", "a \n one \n"), False, None, {}),
    (turns("u \u00a0caf\u00e9\u3000", "a \u2003\U0001f600 \u4f60\u597d\u0085"), False, None, {}),
    (turns("u <b>&amp;</b> \"q\" 'r' \\n", "a {{ x }} {% y %} {# z #}"), False, None, {}),
    (turns("u \t\r\n x \x07\x7f\u2028", "a tab\there"), False, None, {}),
    (turns("u e\u0301 \u00df\u00c4 \u0394\u03b4", "a Na\u00efve."), True, None, {}),
    (turns("u ", "a "), False, None, {}),
    (turns("u x", "a "), True, None, {}),
    (turns("u Why?", THOUGHT), False, None, {}),
    (turns("u Why?", THOUGHT, "u Sure?", THOUGHT), False, None, {}),
    (turns("u 1+1", "a 2", "u 2+2", "a </think>\n4"), False, None, {}),
    (turns("u Why?") + [thinks("\nhm\n", "So.")], False, None, {}),
    (turns("u Why?") + [thinks("hm", "So.", "thinking")], True, None, {}),
    (turns("u a", "a b", "u c") + [thinks("r", "d")], False, None, {"enable_thinking": True}),
    (HELLO, True, None, {"enable_thinking": False}),
    (CHAT, False, None, {"enable_thinking": False}),
    (HELLO, True, None, {"reasoning_effort": "high", "thinking_budget": 64}),
    (HELLO, True, None, {"date_string": "1 Jan 2000", "thinking": True}),
    (HELLO, True, TOOLS, {}),
    (CHAT[:4], True, TOOLS, {}),
    (CHAT, False, TOOLS[1:], {"tools_in_user_message": False}),
    (ASKED + [calls(call())] + turns("t 20 C", "a It is 20."), False, TOOLS, {}),
    (ASKED + [calls(call(), content="")] + turns("t 20 C"), True, TOOLS, {}),
    (ASKED + [calls(call(), call("now", {}), content="Two.")] + turns("t 1", "t 2", "a ok"), False, TOOLS, {}),
    (ASKED + [calls(call(arguments={"city": "\u00c5rhus", "days": 3, "where": {"lat": 1.5}}, id="abcdefghi"))], False, TOOLS, {}),
    (ASKED + [calls(call(arguments='{"city": "Rome"}', id="abcdefghi"))] + turns("t x", "a y"), False, None, {}),
    (ASKED + [calls(call(), content=None)] + [{"role": "tool", "content": "7", "name": "get_weather", "tool_call_id": "abcdefghi"}], True, TOOLS, {}),
    ([parts("user", "one ", "two")] + turns("a ok"), False, None, {}),
    ([parts("system", "s")] + [parts("user", "u")] + [parts("assistant", "a")], False, None, {}),
    (turns("d Only facts.", "u Hello", "a Hi"), False, None, {}),
    (turns("u one", "u two", "a three"), False, None, {}),
    (turns("s x", "s y", "u z"), True, None, {}),
    (turns("a first", "u then"), True, None, {}),
    (turns("s Use /no_think.", "u hi /nothink", "a ok"), True, None, {}),
    (turns("u a", "a b", "u c", "a d", "u e", "a f", "u g", "a h", "u i", "a j"), False, None, {}),
]


def render(source, messages, prompt, tools, variables):
    """As apply_chat_template, which drops keys that are None; with marks."""
    messages = [
        {k: v for k, v in message.items() if v is not None}
        for message in messages
    ]
    texts, spans = chat_template_utils.render_jinja_template(
        conversations=[messages],
        tools=tools,
        chat_template=source,
        add_generation_prompt=prompt,
        return_assistant_tokens_mask="{% generation" in source
        or "{%- generation" in source,
        **{**SPECIALS, **variables},
    )
    text = texts[0]
    result = xxhash.xxh3_64_hexdigest(text.encode())
    for begin, end in spans[0] if spans else []:
        first, last = len(text[:begin].encode()), len(text[:end].encode())
        result += f" +{first}-{last}"
    return result


# of the snippets
VARIABLES = {
    "messages": turns("s  Be brief. ", "u H\u00e9llo \U0001f600\n<b>", "a x"),
    "tools": TOOLS,
    "n": 5,
    "f": 1.5,
    "s": "abc def  ghi",
    "e": "",
    "l": [3, 1, 2],
    "d": {"b": 1, "a": [1, 2], "items": "I"},
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "u": "\u00c4\u00d6 stra\u00dfe",
}


def snippet(source):
    template = chat_template_utils._compile_jinja_template
    try:
        return template(source).render(**json.loads(json.dumps(VARIABLES)))
    except Exception:
        return None


def result_of(source, conversation):
    try:
        return render(source, *conversation)
    except Exception:
        return "refused"


def main():
    folder = pathlib.Path(sys.argv[1])
    names = ("messages", "prompt", "tools", "variables")
    rows = [dict(zip(names, c)) for c in CONVERSATIONS]
    out = {
        path.stem: [result_of(path.read_text(), c) for c in CONVERSATIONS]
        for path in sorted(folder.glob("templates/*.jinja"))
    }
    sources = (folder / "template_snippets.txt").read_text().split("\n")[:-1]
    snippets = ",\n".join(json.dumps([s, snippet(s)]) for s in sources)
    lines = ",\n".join(json.dumps(row) for row in rows)
    results = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in out.items())
    text = f'{{"variables": {json.dumps(VARIABLES)},\n"snippets": [\n'
    text += f'{snippets}\n],\n'
    text += f'"conversations": [\n{lines}\n],\n"results": {{\n{results}\n}}}}\n'
    (folder / "template_reference.json").write_text(text)
    refused = sum(r == "refused" for v in out.values() for r in v)
    print(f"{len(out)} templates x {len(rows)}, {refused} refused")


main()
