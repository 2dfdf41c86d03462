/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - one table of the messages about a step that the console knows
 *
 * A row of messages.c says who writes a message, how it reads, what the outcome
 * notes of it and what the user is told at once. A new record, or a new wording
 * of Slurm, is a new row.
 */
#ifndef DT_CONSOLE_MESSAGES_H
#define DT_CONSOLE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "console/event.h"
#include "console/outcome.h"

/* Who writes a message, and on whose stderr it can appear. */
enum dt_message_origin_b {
    DT_FROM_TASK = 1,        /* record: on the stderr of its rank */
    DT_FROM_NODE = 2,        /* record: on that of the first rank of its node */
    DT_FROM_ANY = 4,         /* record: on any */
    DT_FROM_RUNTIME = 8,     /* record of progress: on any */
    DT_FROM_SRUN = 16,       /* on srun's own; without "srun: " */
    DT_FROM_SLURMSTEPD = 32, /* on that of the first rank of a node */

    DT_FROM_TOKEN = DT_FROM_TASK | DT_FROM_NODE | DT_FROM_ANY,
    DT_FROM_RECORD = DT_FROM_TOKEN | DT_FROM_RUNTIME,
};

/* Notes an event that came at now_ms with the label of a rank, or DT_NO_RANK.
 */
typedef void(dt_message_note_f)(struct dt_outcome *outcome,
                                const struct dt_console_event *event,
                                uint32_t label, int64_t now_ms);

struct dt_message {
    enum dt_message_origin_b origin;
    const char *pattern; /* the whole text: pattern.h */
    enum dt_console_event_kind kind;
    dt_message_note_f *note; /* NULL: the outcome does not depend on it */
    const char *sentence;    /* shown when it comes: pattern.h; NULL: nothing */
};

/* The table; the last row has no pattern. */
extern const struct dt_message dt_messages[];

/* Fills the event from the first row of these origins whose pattern matches the
 * text. False, and the event as it was: none does.
 */
bool dt_message_parse(const char *text, unsigned origins,
                      struct dt_console_event *event);

/* Whether the event is a whole record. */
bool dt_message_is_record(const struct dt_console_event *event);

/* Notes an event that came at now_ms with the label of a rank, or DT_NO_RANK,
 * in the outcome. Ignores one that cannot come with that label.
 */
void dt_message_note(struct dt_outcome *outcome,
                     const struct dt_console_event *event, uint32_t label,
                     int64_t now_ms);

/* Writes the sentence of the event's message as a line of disttrain; nothing
 * if it has none. The outcome knows the ranks of hosts.
 */
void dt_message_tell(const struct dt_console_event *event,
                     const struct dt_outcome *outcome, FILE *out);

#endif /* DT_CONSOLE_MESSAGES_H */
