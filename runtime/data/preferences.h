/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preferences.h - reads lines of JSON as preference pairs
 *
 * A line has two completions of one prompt, of which the first is preferred:
 *   {"prompt": .., "chosen": .., "rejected": ..}      TRL, OpenRLHF
 *   {"chosen": .., "rejected": ..}                    with an implicit prompt
 *   {"conversations": [..], "chosen": {..}, "rejected": {..}}       ShareGPT
 *   {"instruction": .., "input": .., "chosen": .., "rejected": ..}    Alpaca
 *   {"prompt_ids": [..], "chosen_ids": [..], "rejected_ids": [..]}       TRL
 * with strings or arrays of messages, and perhaps "margin": 0.5; conversations
 * perhaps with "system": .., which stands before their messages. An implicit
 * prompt is what both sides begin with: the same text, without a space at its
 * end, the same messages, or the same ids. A prompt that is a string beside
 * conversations is ignored, since they have it, too, as in TRL.
 */
#ifndef DT_DATA_PREFERENCES_H
#define DT_DATA_PREFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/example.h"
#include "data/turns.h"

/* The content of a line in one of three forms. */
struct dt_preference {
    bool implicit; /* the prompt is what the sides have in common */
    float margin;  /* 0 if the line has none */

    /* text: `prompt_bytes` of prompt, and what follows it; not terminated */
    const char *prompt; /* NULL: another form */
    size_t prompt_bytes;
    const char *completion[DT_SIDES];

    /* conversations: all messages of each side */
    struct dt_turns turns[DT_SIDES];
    size_t prompt_turns; /* how many of them are the prompt's */

    /* all ids of each side */
    int32_t *ids[DT_SIDES]; /* NULL: another form */
    size_t id_count[DT_SIDES];
    size_t prompt_ids; /* how many of them are the prompt's */

    void *json; /* owns the strings */
};
void dt_preference_fini(struct dt_preference *p); /* a zeroed one is fine */

/* Reads a line; ids must be < vocab_size. *p is to be released in any case. -1:
 * EX_DATAERR with what is wrong, without the file's name; EX_OSERR.
 */
int dt_preference_read(const char *line, size_t length,
                       const struct dt_example_options *options,
                       size_t vocab_size, struct dt_preference *p,
                       struct dt_error *err);

#endif /* DT_DATA_PREFERENCES_H */
