/* SPDX-License-Identifier: Apache-2.0 */
/* chat_style.h - describes how the supported chat templates differ */
#ifndef DT_TOKENIZER_CHAT_STYLE_H
#define DT_TOKENIZER_CHAT_STYLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum dt_chat_family {
    DT_CHATML,  /* <|im_start|>role, newline, content<|im_end|>, newline */
    DT_LLAMA2,  /* BOS[INST] question [/INST] answer EOS */
    DT_LLAMA3,  /* <|start_header_id|>role<|end_header_id|>.. content<|eot_id|>
                 */
    DT_MISTRAL, /* BOS, then [INST] question[/INST] answerEOS for each turn */
};

struct dt_chat_style {
    const char *name; /* one of DT_CHAT_NAMES */
    enum dt_chat_family family;
    const char *control[4]; /* texts that must be single tokens */

    /* ChatML */
    const char *system;  /* default system message, or NULL */
    bool wraps_tools;    /* a tool's answer is a user's <tool_response> */
    bool reasons;        /* answers of the last turn start with <think> */
    bool trains_newline; /* the newline after "assistant" is trained on, too */

    /* Llama 3. dated: there is always a system message, with dates. today: the
     * template writes the current date; we write a fixed one.
     */
    bool dated, today;

    /* Mistral: releases differ in blanks, and in the question to which the
     * system message is added. LAST: the last question, and all with the same
     * text. END: the last question, unless an answer follows it.
     */
    const char *before, *after; /* [INST] and [/INST] */
    const char *answer, *end;   /* before an answer, after its EOS */
    bool trims_answer;
    enum { DT_SYSTEM_LAST, DT_SYSTEM_FIRST, DT_SYSTEM_END } system_at;
};

enum {
    DT_CHAT_SPECIAL_BYTES = 64, /* room for the text of BOS or EOS */
};

struct dt_chat {
    struct dt_chat_style style;
    char bos[DT_CHAT_SPECIAL_BYTES], eos[DT_CHAT_SPECIAL_BYTES];
    struct dt_error warning; /* empty text: none */
};

/* The styles. Those from QWEN2 on share the name of another style, so they are
 * chosen only by the text of their template.
 */
enum dt_chat_style_id {
    DT_STYLE_CHATML,
    DT_STYLE_QWEN25,
    DT_STYLE_QWEN3,
    DT_STYLE_LLAMA2,
    DT_STYLE_LLAMA3,
    DT_STYLE_LLAMA31,
    DT_STYLE_MISTRAL,
    DT_STYLE_QWEN2,
    DT_STYLE_QWEN3_2507,
    DT_STYLE_LLAMA32,
    DT_STYLE_MISTRAL_V01,
    DT_STYLE_MISTRAL_V02,
    DT_STYLE_MISTRAL_V1,
    DT_STYLE_MISTRAL_V3,
    DT_STYLE_MISTRAL_V3_END,
    DT_STYLE_MISTRAL_NEMO,
    DT_STYLE_MISTRAL_NEMO_END,
};
extern const struct dt_chat_style dt_chat_styles[];

/* The style with this name, or NULL. */
const struct dt_chat_style *dt_chat_style_named(const char *name);

/* The style of the published template whose text has this XXH3, or NULL. */
const struct dt_chat_style *dt_chat_style_published(uint64_t hash);

/* The style of a Jinja template, if it has the text of a published one; only
 * line ends may differ. NULL and err: EX_CONFIG with the most similar published
 * template and the first difference.
 */
const struct dt_chat_style *dt_chat_style_of(const char *jinja,
                                             struct dt_error *err);

#endif /* DT_TOKENIZER_CHAT_STYLE_H */
