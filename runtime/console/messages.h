/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - one table of the messages about a step that the console knows
 *
 * A row of messages.c says who writes a message, how it reads, what the outcome
 * notes of it and what the user is told at once. A new record, or a new wording
 * of Slurm, is a new row.
 *
 * A pattern is the whole text of a message, with fields in braces that go to
 * struct dt_console_event. {} is any text, up to the text that follows it.
 *
 *     {rank}    -> rank            {node}    a node's position -> node
 *     {host}    -> host            {hosts}   "n1,n2" -> list
 *     {ranks}   "4-5,7" -> list    {time}    "SECONDS.mmm" -> ms
 *     {wait}    a number -> status
 *     {status}  srun's words for a wait status, to the end -> status, oom
 *     {signal}  a signal's name -> status
 *     {bar}, {reason}  the rest -> bar, reason
 *
 * Any other name is that of a number, at most DT_EVENT_NUMBERS in a pattern. A
 * sentence may have {rank}, {host}, {reason}, {hosts}, each with its ranks, and
 * the numbers of the pattern.
 */
#ifndef DT_CONSOLE_MESSAGES_H
#define DT_CONSOLE_MESSAGES_H

#include <stdint.h>

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

struct dt_message {
    enum dt_message_origin_b origin;
    const char *pattern;
    enum dt_console_event_kind kind;
    void (*note)(struct dt_outcome *outcome,
                 const struct dt_console_event *event); /* NULL: nothing */
    const char *sentence; /* shown when the message comes; NULL: nothing */
};

/* The table; the last row has no pattern. */
extern const struct dt_message dt_messages[];

/* Notes an event that came at now_ms with the label of a rank, or DT_NO_RANK,
 * in the outcome. Ignores one that cannot come with that label.
 */
void dt_message_note(struct dt_outcome *outcome, struct dt_console_event *event,
                     uint32_t label, int64_t now_ms);

#endif /* DT_CONSOLE_MESSAGES_H */
