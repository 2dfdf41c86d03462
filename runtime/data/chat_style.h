/* SPDX-License-Identifier: Apache-2.0 */
/* chat_style.h - what the chat templates that we render differ in */
#ifndef DT_DATA_CHAT_STYLE_H
#define DT_DATA_CHAT_STYLE_H

#include <stdbool.h>

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

    /* ChatML */
    const char *system;  /* said where the conversation has no system message */
    bool wraps_tools;    /* a tool's answer is a user's <tool_response> */
    bool reasons;        /* answers of the last turn begin with <think> */
    bool trains_newline; /* that behind "assistant", too */

    bool dated; /* Llama 3: a system message with dates, always */

    /* Mistral: how releases differ in blanks, and in where the system's words
     * go: into the first or the last question.
     */
    const char *before, *after; /* [INST] and [/INST] */
    const char *answer, *end;   /* before an answer, after its EOS */
    bool trims_answer;
    bool system_first;
};

enum {
    DT_CHAT_SPECIAL_BYTES = 64, /* of the text of BOS or EOS */
};

struct dt_chat {
    struct dt_chat_style style;
    char bos[DT_CHAT_SPECIAL_BYTES], eos[DT_CHAT_SPECIAL_BYTES];
};

/* The style of a name, or NULL. */
const struct dt_chat_style *dt_chat_style_named(const char *name);

/* The style of a Jinja template. False: unknown. */
bool dt_chat_style_of(const char *jinja, struct dt_chat_style *style);

#endif /* DT_DATA_CHAT_STYLE_H */
