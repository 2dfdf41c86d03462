/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_named.c - chat templates of our own, for models without one
 *
 * They render what the published templates of these families render of
 * conversations without tools, and mark what the assistant writes. With
 * "training" qwen3 keeps the reasoning of every answer, as TRL trains it.
 */
#include "config.h"

#include <string.h>

#include <xxhash.h>

#include "tokenizer/chat_impl.h"

/* An answer, marked, or the text of another message. */
#define MARKED(text) "{%- generation -%}{{- " text " -}}{%- endgeneration -%}\n"

#define IM_PROMPT                                                              \
    "{%- if add_generation_prompt -%}\n"                                       \
    "{{- '<|im_start|>assistant\\n' -}}\n"                                     \
    "{%- endif -%}\n"

static const char chatml[] =
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' + message.role + '\\n' -}}\n"
    "{%- if message.role == 'assistant' -%}\n" MARKED(
        "message.content + '<|im_end|>\\n'") "{%- else -%}\n"
                                             "{{- message.content + "
                                             "'<|im_end|>\\n' -}}\n"
                                             "{%- endif -%}\n"
                                             "{%- endfor -%}\n" IM_PROMPT;

/* Answers of tools, consecutive ones in one turn of the user. */
#define IM_TOOL                                                                \
    "{%- if message.role == 'tool' -%}\n"                                      \
    "{%- if loop.first or loop.previtem.role != 'tool' -%}\n"                  \
    "{{- '<|im_start|>user' -}}\n"                                             \
    "{%- endif -%}\n"                                                          \
    "{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' "   \
    "-}}\n"                                                                    \
    "{%- if loop.last or loop.nextitem.role != 'tool' -%}\n"                   \
    "{{- '<|im_end|>\\n' -}}\n"                                                \
    "{%- endif -%}\n"                                                          \
    "{%- continue -%}\n"                                                       \
    "{%- endif -%}\n"

static const char qwen25[] =
    "{%- if messages[0].role != 'system' -%}\n"
    "{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are "
    "a helpful assistant.<|im_end|>\\n' -}}\n"
    "{%- endif -%}\n"
    "{%- for message in messages -%}\n" IM_TOOL
    "{{- '<|im_start|>' + message.role -}}\n"
    "{%- if message.role == 'assistant' -%}\n" MARKED(
        "'\\n' + message.content + '<|im_end|>\\n'") "{%- else -%}\n"
                                                     "{{- '\\n' + "
                                                     "message.content + "
                                                     "'<|im_end|>\\n' -}}\n"
                                                     "{%- endif -%}\n"
                                                     "{%- endfor "
                                                     "-%}\n" IM_PROMPT;

/* `question` is the user's last message that is no answer of a tool. */
static const char qwen3[] =
    "{%- set last = namespace(question=messages|length - 1, found=false) -%}\n"
    "{%- for message in messages[::-1] -%}\n"
    "{%- if not last.found and message.role == 'user' and not "
    "(message.content.startswith('<tool_response>') and "
    "message.content.endswith('</tool_response>')) -%}\n"
    "{%- set last.question = messages|length - 1 - loop.index0 -%}\n"
    "{%- set last.found = true -%}\n"
    "{%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- for message in messages -%}\n" IM_TOOL
    "{{- '<|im_start|>' + message.role + '\\n' -}}\n"
    "{%- if message.role != 'assistant' -%}\n"
    "{{- message.content + '<|im_end|>\\n' -}}\n"
    "{%- continue -%}\n"
    "{%- endif -%}\n"
    "{%- set content = message.content -%}\n"
    "{%- set reasoning = '' -%}\n"
    "{%- if message.reasoning_content is string -%}\n"
    "{%- set reasoning = message.reasoning_content -%}\n"
    "{%- elif '</think>' in content -%}\n"
    "{%- set reasoning = content.split('</think>')[0].rstrip('\\n')"
    ".split('<think>')[-1].lstrip('\\n') -%}\n"
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}\n"
    "{%- endif -%}\n"
    "{%- if training or (loop.index0 > last.question and (loop.last or "
    "reasoning)) -%}\n"
    "{%- set content = '<think>\\n' + reasoning.strip('\\n') + "
    "'\\n</think>\\n\\n' + content.lstrip('\\n') -%}\n"
    "{%- endif -%}\n" MARKED(
        "content + '<|im_end|>\\n'") "{%- endfor -%}\n" IM_PROMPT
                                     "{%- if add_generation_prompt and "
                                     "enable_thinking is false -%}\n"
                                     "{{- '<think>\\n\\n</think>\\n\\n' -}}\n"
                                     "{%- endif -%}\n";

#define LLAMA3_HEADER(role)                                                    \
    "{{- '<|start_header_id|>' + " role " + '<|end_header_id|>\\n\\n' -}}\n"

#define LLAMA3_PROMPT                                                          \
    "{%- if add_generation_prompt -%}\n" LLAMA3_HEADER(                        \
        "'assistant'") "{%- endif -%}\n"

static const char llama3[] =
    "{{- bos_token -}}\n"
    "{%- for message in messages -%}\n" LLAMA3_HEADER(
        "message.role") "{%- if message.role == 'assistant' "
                        "-%}\n" MARKED("message.content|trim + "
                                       "'<|eot_id|>'") "{%- else -%}\n"
                                                       "{{- "
                                                       "message."
                                                       "content|trim + "
                                                       "'<|eot_id|>' "
                                                       "-}}\n"
                                                       "{%- endif -%}\n"
                                                       "{%- endfor "
                                                       "-%}"
                                                       "\n" LLAMA3_PROMPT;

static const char llama31[] = "{{- bos_token -}}\n" LLAMA3_HEADER(
    "'system'") "{{- 'Cutting Knowledge Date: December 2023\\nToday "
                "Date: ' + "
                "date_string|default('26 Jul 2024') + '\\n\\n' -}}\n"
                "{%- set system = messages[0].role == 'system' -%}\n"
                "{{- (messages[0].content|trim if system else '') + "
                "'<|eot_id|>' -}}\n"
                "{%- for message in (messages[1:] if system else "
                "messages) -%}\n"
                "{%- if message.role == 'tool' -%}\n" LLAMA3_HEADER(
                    "'ipython'") "{{- message.content|tojson + "
                                 "'<|eot_id|>' -}}\n"
                                 "{%- continue -%}\n"
                                 "{%- endif -%}\n" LLAMA3_HEADER(
                                     "messa"
                                     "ge."
                                     "role") "{%- if message.role == "
                                             "'assistant' -%}\n" MARKED("messag"
                                                                        "e."
                                                                        "conten"
                                                                        "t|"
                                                                        "trim "
                                                                        "+ "
                                                                        "'<|"
                                                                        "eot_"
                                                                        "id|>'") "{%- else -%}\n"
                                                                                 "{{- "
                                                                                 "message.content|"
                                                                                 "trim + "
                                                                                 "'<|eot_id|>' "
                                                                                 "-}}\n"
                                                                                 "{%- endif -%}\n"
                                                                                 "{%- endfor "
                                                                                 "-%}"
                                                                                 "\n" LLAMA3_PROMPT;

/* Splits off the system message and checks the order of the others. */
#define IN_TURNS                                                               \
    "{%- set system = messages[0].content if messages[0].role == 'system' "    \
    "-%}\n"                                                                    \
    "{%- set turns = messages[1:] if system is defined else messages -%}\n"    \
    "{%- for message in turns -%}\n"                                           \
    "{%- if message.role != ('assistant' if loop.index0 % 2 else 'user') "     \
    "-%}\n"                                                                    \
    "{{- raise_exception('a message is of role ' + message.role + ': user "    \
    "and assistant write in turns, after at most one system message') -}}\n"   \
    "{%- endif -%}\n"                                                          \
    "{%- endfor -%}\n"

static const char llama2[] = IN_TURNS
    "{%- for message in turns -%}\n"
    "{%- if message.role == 'assistant' -%}\n"
    "{{- ' ' -}}\n" MARKED(
        "message.content|trim + ' ' + eos_token") "{%- else -%}\n"
                                                  "{%- set question = "
                                                  "message.content -%}\n"
                                                  "{%- if loop.first and "
                                                  "system is defined -%}\n"
                                                  "{%- set question = "
                                                  "'<<SYS>>\\n' + system + "
                                                  "'\\n<</SYS>>\\n\\n' + "
                                                  "question "
                                                  "-%}\n"
                                                  "{%- endif -%}\n"
                                                  "{{- bos_token ~ '[INST] ' + "
                                                  "question|trim + ' [/INST]' "
                                                  "-}}\n"
                                                  "{%- endif -%}\n"
                                                  "{%- endfor -%}\n";

static const char mistral[] = IN_TURNS
    "{{- bos_token -}}\n"
    "{%- for message in turns -%}\n"
    "{%- if message.role == 'assistant' -%}\n"
    "{{- ' ' -}}\n" MARKED(
        "message.content + eos_token") "{%- else -%}\n"
                                       "{{- '[INST] ' -}}\n"
                                       "{%- if system is defined and "
                                       "loop.revindex <= 2 and (loop.last or "
                                       "loop.nextitem.role == 'assistant') "
                                       "-%}\n"
                                       "{{- system + '\\n\\n' -}}\n"
                                       "{%- endif -%}\n"
                                       "{{- message.content + '[/INST]' -}}\n"
                                       "{%- endif -%}\n"
                                       "{%- endfor -%}\n";

#define IM_CONTROL "<|im_start|>", "<|im_end|>"
#define LLAMA3_CONTROL "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"

static const struct dt_chat_named all[] = {
    {"chatml", chatml, {IM_CONTROL}, false},
    {"qwen2.5", qwen25, {IM_CONTROL}, false},
    {"qwen3", qwen3, {IM_CONTROL, "<think>", "</think>"}, false},
    {"llama2", llama2, {NULL}, true},
    {"llama3", llama3, {LLAMA3_CONTROL}, false},
    {"llama3.1", llama31, {LLAMA3_CONTROL}, false},
    {"mistral", mistral, {NULL}, true},
};

const struct dt_chat_named *dt_chat_named(const char *name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    return NULL;
}

/* XXH3 of published templates that TRL replaces for training by forms like
 * ours. A newline behind their last block is no part of them.
 */
static const struct {
    uint64_t hash;
    const char *name;
} published[] = {
    {UINT64_C(0x2469c9508f79506e), "qwen2.5"}, /* Qwen 2.5 */
    {UINT64_C(0xc9e0155c80737cf2), "qwen3"},   /* Qwen 3 */
};

const struct dt_chat_named *dt_chat_training_form(const char *source)
{
    size_t n = strlen(source);
    n -= n >= 3 && memcmp(source + n - 3, "%}\n", 3) == 0;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (XXH3_64bits(source, n) == published[i].hash)
            return dt_chat_named(published[i].name);
    return NULL;
}
