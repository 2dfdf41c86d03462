/* SPDX-License-Identifier: Apache-2.0 */
/* example_options.h - how lines of a file become examples */
#ifndef DT_DATA_EXAMPLE_OPTIONS_H
#define DT_DATA_EXAMPLE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"

struct dt_example_options {
    enum dt_format format; /* of lines; not TOKENS_BIN */
    enum dt_loss_on loss_on;
    size_t vocab_size; /* of the model: ids in lines are smaller; 0: not known,
                          than the tokenizer's */
    /* Names of keys; NULL: text, prompt, completion, messages, and, of
     * preference pairs, chosen, rejected, margin. */
    const char *text_key, *prompt_key, *completion_key, *messages_key;
    const char *chosen_key, *rejected_key, *margin_key;
    const char *chat_template;  /* as in chat.h, or "none" */
    const char *chat_variables; /* JSON, as in chat.h */
    bool parse_special; /* text that spells a control token becomes it */
    double bad_limit;   /* more than this share of bad lines is an error */
    int threads;
    const char *cache_dir; /* NULL: beside the file, in .disttrain-cache */
    bool (*stop)(void);    /* true ends the reading; see stop.h; may be NULL */
    /* Bytes done, from any thread but one at a time; may be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* A bad line, or what was taken for something else; may be NULL. */
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

#endif /* DT_DATA_EXAMPLE_OPTIONS_H */
