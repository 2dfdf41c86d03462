/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preferences.h - reads lines of JSON as preference pairs
 *
 * A line has two completions of one prompt, the preferred one first:
 *   {"prompt": .., "chosen": .., "rejected": ..}      TRL, OpenRLHF
 *   {"chosen": .., "rejected": ..}                    with an implicit prompt
 *   {"conversations": [..], "chosen": {..}, "rejected": {..}}       ShareGPT
 *   {"instruction": .., "input": .., "chosen": .., "rejected": ..}    Alpaca
 *   {"prompt_ids": [..], "chosen_ids": [..], "rejected_ids": [..]}       TRL
 * with strings or arrays of messages, and perhaps "margin": 0.5; conversations
 * perhaps with "system": .., which comes before their messages. An implicit
 * prompt is the start that both sides share: the same text, without a space at
 * its end, the same messages, or the same ids. A prompt that is a string is
 * ignored if the sides are conversations, since they repeat it, as in TRL.
 * Images are those of the prompt, as in any other line.
 */
#ifndef DT_DATA_PREFERENCES_H
#define DT_DATA_PREFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/example.h"
#include "data/turns.h"

/* The content of a line, in one of three forms. */
struct dt_preference {
    bool implicit; /* the prompt is the start that the sides share */
    float margin;  /* 0 if the line has none */

    /* text: `prompt_bytes` of prompt, and the completions; not terminated */
    const char *prompt; /* NULL: another form */
    size_t prompt_bytes;
    const char *completion[DT_SIDES];

    /* conversations: all messages of each side */
    struct dt_turns turns[DT_SIDES];
    size_t prompt_turns; /* number of messages that are the prompt */

    /* all ids of each side */
    int32_t *ids[DT_SIDES]; /* NULL: another form */
    size_t id_count[DT_SIDES];
    size_t prompt_ids; /* number of ids that are the prompt */

    json_t *images; /* of the prompt, an array: values in the order of their
                       places; NULL: the options have no images */
    void *json;     /* owns the strings */
};
void dt_preference_fini(struct dt_preference *p); /* a zeroed one is fine */

/* Reads a line; ids must be < vocab_size. The caller releases *p in any case.
 * -1: EX_DATAERR with the cause, without the file's name; EX_OSERR.
 */
int dt_preference_read(const char *line, size_t length,
                       const struct dt_example_options *options,
                       size_t vocab_size, struct dt_preference *p,
                       struct dt_error *err);

#endif /* DT_DATA_PREFERENCES_H */
