/* SPDX-License-Identifier: Apache-2.0 */
/* chat_style.h - what the chat templates that we render differ in */
#ifndef DT_DATA_CHAT_STYLE_H
#define DT_DATA_CHAT_STYLE_H

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
    const char *name; /* of DT_CHAT_NAMES */
    enum dt_chat_family family;
    const char *control[4]; /* what each answer has to be single tokens */

    /* ChatML */
    const char *system;  /* said where the conversation has no system message */
    bool wraps_tools;    /* a tool's answer is a user's <tool_response> */
    bool reasons;        /* answers of the last turn begin with <think> */
    bool trains_newline; /* that behind "assistant", too */

    /* Llama 3: a system message with dates, always. `today`: the template
     * itself writes the day on which it is rendered, and we do not.
     */
    bool dated, today;

    /* Mistral: how releases differ in blanks, and in the question that the
     * system's words go into. LAST: and all that say the same. END: the last
     * one, if no answer follows it.
     */
    const char *before, *after; /* [INST] and [/INST] */
    const char *answer, *end;   /* before an answer, after its EOS */
    bool trims_answer;
    enum { DT_SYSTEM_LAST, DT_SYSTEM_FIRST, DT_SYSTEM_END } system_at;
};

enum {
    DT_CHAT_SPECIAL_BYTES = 64, /* of the text of BOS or EOS */
};

struct dt_chat {
    struct dt_chat_style style;
    char bos[DT_CHAT_SPECIAL_BYTES], eos[DT_CHAT_SPECIAL_BYTES];
    struct dt_error warning; /* no text: none */
};

/* The styles. Those from QWEN2 on have the name of another one, so only their
 * templates choose them.
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

/* The style of a name, or NULL. */
const struct dt_chat_style *dt_chat_style_named(const char *name);

/* The style of the published template whose text has this XXH3, or NULL. */
const struct dt_chat_style *dt_chat_style_published(uint64_t hash);

/* The style of a Jinja template, if its text is that of a published one; only
 * the ends of lines may differ. NULL and err: EX_CONFIG with the nearest
 * published one, and where the two first differ.
 */
const struct dt_chat_style *dt_chat_style_of(const char *jinja,
                                             struct dt_error *err);

#endif /* DT_DATA_CHAT_STYLE_H */
