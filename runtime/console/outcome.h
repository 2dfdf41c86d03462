/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcome.h - records how each rank of a step started and ended, and which
 * failed first
 *
 * Each host has its own clock. Synchronized clocks are better than any
 * estimate. For a host whose clock is not, we use the shortest delay that a
 * record from it has had as the difference from our clock.
 */
#ifndef DT_CONSOLE_OUTCOME_H
#define DT_CONSOLE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "console/last_lines.h"
#include "console/event.h"

/* The rank of lines whose rank is not known. */
#define DT_NO_RANK UINT32_MAX

struct dt_outcome;

/* Creates the outcome of a step of `ranks` tasks, launched at ms since 1970;
 * free it with dt_outcome_destroy. NULL: EX_OSERR.
 */
struct dt_outcome *dt_outcome_create(uint32_t ranks, int64_t launch_ms,
                                     struct dt_error *err);
void dt_outcome_destroy(struct dt_outcome *outcome); /* NULL is fine */

/* Adds the next node of the step, `host`, which has these ranks ("0,4-7"). -1:
 * EX_DATAERR, EX_OSERR.
 */
int dt_outcome_add_node(struct dt_outcome *outcome, const char *host,
                        const char *ranks, struct dt_error *err);

/* Adds text that a rank (or DT_NO_RANK) has written to stderr or stdout. */
void dt_outcome_text(struct dt_outcome *outcome, uint32_t rank, bool is_stderr,
                     const char *text, size_t len, int64_t now_ms);

/* Notes the exit status of srun. With the records, it decides which of srun's
 * messages are believed where anybody may have written them.
 */
void dt_outcome_srun_ended(struct dt_outcome *outcome, int status);

/* Notes that the step is ended because of a hang. If no rank failed before, the
 * report has `text`, one line about it.
 */
void dt_outcome_hang(struct dt_outcome *outcome, const char *text,
                     int64_t now_ms);

/* Returns how many ranks have neither started nor written anything. */
uint32_t dt_outcome_missing(const struct dt_outcome *outcome);

/* Writes the missing ranks as "rank 7 on n4; ranks 0-1 on n1", for a few hosts
 * at most.
 */
void dt_outcome_print_missing(const struct dt_outcome *outcome, FILE *out);

/* Writes the first failure, its last output, and how the other ranks ended;
 * nothing if no rank has failed by itself.
 */
void dt_outcome_report(const struct dt_outcome *outcome, FILE *out);

/* How a run has ended, for those who look at its files. */
struct dt_outcome_ending {
    const char *status; /* as run.json has it: "failed" or "stopped" */
    char text[512];     /* why, in a sentence without its end */
    uint32_t rank;      /* that failed first; DT_NO_RANK: none is known */
    char host[256];     /* of it, or the node that was lost; "": unknown */
};

/* Says how a run has ended that rank 0 could not tell of. False: as far as is
 * known, all ranks have exited with status 0.
 */
bool dt_outcome_ending(const struct dt_outcome *outcome,
                       struct dt_outcome_ending *ending);

/* Whether a rank has exited with EX_TEMPFAIL to request a requeue, and no rank
 * has failed by itself. How the other ranks end when Slurm then stops the step
 * does not count.
 */
bool dt_outcome_asks_requeue(const struct dt_outcome *outcome);

/* Whether a rank has failed by itself or the step was ended because of a hang.
 * False for an exit status that shows a user's mistake, which a restart would
 * repeat: wrong usage, data, input, permission or configuration, no such
 * program.
 */
bool dt_outcome_has_crashed(const struct dt_outcome *outcome);

#endif /* DT_CONSOLE_OUTCOME_H */
