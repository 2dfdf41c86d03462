/* SPDX-License-Identifier: Apache-2.0 */
/* chat_style.c - which chat template is this? */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <xxhash.h>

#include "data/chat_style.h"

enum {
    CHATML,
    QWEN2,
    QWEN25,
    QWEN3,
    QWEN3_2507,
    LLAMA2,
    LLAMA3,
    LLAMA31,
    MISTRAL,
    STYLES,
};

static const struct dt_chat_style styles[STYLES] = {
    [CHATML] = {.name = "chatml", .family = DT_CHATML},
    [QWEN25] = {.name = "qwen2.5",
                .family = DT_CHATML,
                .wraps_tools = true,
                .trains_newline = true,
                .system = "You are Qwen, created by Alibaba Cloud. You are a "
                          "helpful assistant."},
    [QWEN3] = {.name = "qwen3",
               .family = DT_CHATML,
               .wraps_tools = true,
               .reasons = true},
    [LLAMA2] = {.name = "llama2", .family = DT_LLAMA2},
    [LLAMA3] = {.name = "llama3", .family = DT_LLAMA3},
    [LLAMA31] = {.name = "llama3.1", .family = DT_LLAMA3, .dated = true},
    [MISTRAL] = {.name = "mistral",
                 .family = DT_MISTRAL,
                 .before = "[INST] ",
                 .after = "[/INST]",
                 .answer = " ",
                 .end = ""},
    /* Below a name that is taken: only recognised. */
    [QWEN2] = {.name = "chatml",
               .family = DT_CHATML,
               .system = "You are a helpful assistant."},
    [QWEN3_2507] = {.name = "chatml", .family = DT_CHATML, .wraps_tools = true},
};

const struct dt_chat_style *dt_chat_style_named(const char *name)
{
    static const int named[] = {CHATML, QWEN25,  QWEN3,  LLAMA2,
                                LLAMA3, LLAMA31, MISTRAL};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        if (strcmp(styles[named[i]].name, name) == 0)
            return &styles[named[i]];
    return NULL;
}

/* XXH3 of published templates, without white space at the end. */
static const struct {
    uint64_t hash;
    int style;
} published[] = {
    {UINT64_C(0x4c6e807ee5fe9f4a), CHATML},
    {UINT64_C(0x846f9032c2079ea2), CHATML}, /* with a default of its own */
    {UINT64_C(0xc79034a9d5f0ae58), QWEN2},
    {UINT64_C(0x2469c9508f79506e), QWEN25},
    {UINT64_C(0xc9e0155c80737cf2), QWEN3},
    {UINT64_C(0x8fb5d937b1e8f5d0), QWEN3_2507},
    {UINT64_C(0x24f6d97f87d647f5), LLAMA2},
    {UINT64_C(0x9799ad6e2dea0594), LLAMA3},
    {UINT64_C(0x6ca7779b7730196a), LLAMA31},
    {UINT64_C(0xc3d57e38f5ff0756), LLAMA31}, /* Llama 3.2 */
};

/* Strings that a template must have, all of them, and must not have. */
static const struct {
    int style;
    const char *has[5], *lacks[6];
} marks[] = {
    {LLAMA31,
     {"<|start_header_id|>", "<|eot_id|>", "Cutting Knowledge Date: December",
      "Today Date: ", "26 Jul 2024"},
     {"</think>", "<|image|>"}},
    {LLAMA3,
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "trim"},
     {"Cutting Knowledge", "tool", "system", "</think>"}},
    {QWEN3,
     {"<|im_start|>", "<tool_response>", "reasoning_content",
      "last_query_index", "enable_thinking is false"},
     {"vision", "helpful assistant", "<function=", "endgeneration"}},
    {QWEN25,
     {"<|im_start|>", "<tool_response>",
      "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
     {"vision", "</think>"}},
    {QWEN3_2507,
     {"<|im_start|>", "<tool_response>", "tool_call.arguments"},
     {"vision", "</think>", "helpful assistant",
      "<function=", "reasoning_content", "enable_thinking"}},
    {QWEN2,
     {"<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n",
      "loop.first"},
     {"vision", "tool", "</think>"}},
    {CHATML,
     {"<|im_start|>", "<|im_end|>", "message"},
     {"system", "tool", "</think>", "vision", "You are"}},
    {LLAMA2,
     {"bos_token + '[INST] ' + content.strip() + ' [/INST]'", "<<SYS>>\\n",
      "' '  + content.strip() + ' ' + eos_token"},
     {"You are", "tool"}},
};

static bool has_all(const char *jinja, const char *const *strings, size_t n)
{
    for (size_t i = 0; i < n && strings[i]; i++)
        if (!strstr(jinja, strings[i]))
            return false;
    return true;
}

static bool has_any(const char *jinja, const char *const *strings, size_t n)
{
    for (size_t i = 0; i < n && strings[i]; i++)
        if (strstr(jinja, strings[i]))
            return true;
    return false;
}

/* Is `text` a literal of the template, in either kind of quotes, perhaps after
 * a blank in it?
 */
static bool has_literal(const char *jinja, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = jinja; (p = strstr(p, text)) != NULL; p++)
        if (p > jinja && (p[-1] == '"' || p[-1] == '\'') && p[n] == p[-1])
            return true;
    return false;
}

/* One of `literals` that the template has, or NULL. */
static const char *find_literal(const char *jinja, const char *const *literals,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (has_literal(jinja, literals[i]))
            return literals[i];
    return NULL;
}

/* The Mistral family by what its template puts around the words. */
static bool mistral_style(const char *jinja, struct dt_chat_style *style)
{
    static const char *const before[] = {"[INST]", "[INST] ", " [INST] "};
    static const char *const after[] = {"[/INST]", " [/INST]"};
    static const char *const blank[] = {"\" \" + message[\"content\"]",
                                        "' ' + message['content']"};
    static const char *const trimmed[] = {"message[\"content\"]|trim + eos",
                                          "message['content']|trim + eos"};
    static const char *const gap[] = {"eos_token + ' '", "eos_token + \" \""};
    static const char *const refused[] = {"<<SYS>>", "<|", "[SYSTEM_PROMPT]",
                                          "</think>"};
    if (!strstr(jinja, "bos_token") || !strstr(jinja, "eos_token") ||
        has_any(jinja, refused, 4))
        return false;
    *style = styles[MISTRAL];
    style->before = find_literal(jinja, before, 3);
    style->after = find_literal(jinja, after, 2);
    style->answer = has_any(jinja, blank, 2) ? " " : "";
    style->end = has_any(jinja, gap, 2) ? " " : "";
    style->trims_answer = has_any(jinja, trimmed, 2);
    style->system_first = strstr(jinja, "loop.first and system") != NULL;
    return style->before && style->after;
}

bool dt_chat_style_of(const char *jinja, struct dt_chat_style *style)
{
    size_t bytes = strlen(jinja);
    while (bytes > 0 && strchr(" \r\n\t", jinja[bytes - 1]))
        bytes--;
    uint64_t hash = XXH3_64bits(jinja, bytes);
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (published[i].hash == hash) {
            *style = styles[published[i].style];
            return true;
        }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (has_all(jinja, marks[i].has, 5) &&
            !has_any(jinja, marks[i].lacks, 6)) {
            *style = styles[marks[i].style];
            return true;
        }
    return mistral_style(jinja, style);
}
