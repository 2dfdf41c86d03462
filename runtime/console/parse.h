/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h - parses what Slurm and the plugin say about a step, line by line
 *
 * Records come from the plugin (contract/contract.h) and are believed only with
 * the step's token. The other lines are Slurm's messages for people, with or
 * without a time before them. messages.c has the wording of both.
 */
#ifndef DT_CONSOLE_PARSE_H
#define DT_CONSOLE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "console/event.h"
#include "console/outcome.h"
#include "contract/contract.h"

/* Who may have written a line of stderr. */
enum dt_console_origin {
    DT_ORIGIN_UNKNOWN, /* srun does not label its output */
    DT_ORIGIN_SRUN,    /* srun labels its output, and the line has no label */
    DT_ORIGIN_TASK,    /* a task, or slurmstepd: the line has a label */
};

/* Distinguishes this step's lines from those of steps that its tasks start, and
 * from anything that tasks make up.
 */
struct dt_step_identity {
    char token[DT_TOKEN_BYTES];    /* of the step's records; "": no record is
                                    * believed
                                    */
    char progress[DT_TOKEN_BYTES]; /* of its records of progress */
    char id[32]; /* "JOB.STEP"; "": accept lines of any step */
};

/* Parses one line of stderr, without its label, with or without its line end.
 */
void dt_console_event_parse(const char *line, size_t len,
                            const struct dt_step_identity *step,
                            enum dt_console_origin origin,
                            struct dt_console_event *event);

/* Whether this may be the beginning of a line that dt_console_event_parse
 * understands: it has no line end yet.
 */
bool dt_console_event_is_piece(const char *line, size_t len);

/* Without labels a line of Slurm may come between the two pieces of another
 * node's line. Returns where in the line it begins, after the first piece; 0:
 * it does not.
 */
size_t dt_console_event_find_inner(const char *line, size_t len,
                                   const struct dt_step_identity *step);

/* Whether the event is a whole record. */
bool dt_console_event_is_record(const struct dt_console_event *event);

/* Writes the sentence of the event's message as a line of disttrain; nothing
 * if it has none. The outcome knows the ranks of hosts.
 */
void dt_console_event_tell(const struct dt_console_event *event,
                           const struct dt_outcome *outcome, FILE *out);

#endif /* DT_CONSOLE_PARSE_H */
