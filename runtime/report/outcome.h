/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcome.h - how each rank of a step has begun and ended, and which failed
 * first
 *
 * Hosts have clocks of their own. Those that are kept in step are better than
 * any guess; of one that is not, the shortest time that a record of that host
 * has taken is counted as the difference to ours.
 */
#ifndef DT_REPORT_OUTCOME_H
#define DT_REPORT_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "report/notice.h"
#include "report/tail.h"

/* Lines that cannot be told apart by rank belong to this one. */
#define DT_NO_RANK UINT32_MAX

struct dt_outcome;

/* Of a step of `ranks` tasks, launched at ms since 1970. NULL: EX_OSERR. */
struct dt_outcome *dt_outcome_create(uint32_t ranks, int64_t launch_ms,
                                     struct dt_error *err);
void dt_outcome_destroy(struct dt_outcome *outcome); /* NULL is fine */

/* The next node of the step is `host`, and has these ranks ("0,4-7"). -1:
 * EX_DATAERR, EX_OSERR.
 */
int dt_outcome_add_node(struct dt_outcome *outcome, const char *host,
                        const char *ranks, struct dt_error *err);

/* A rank (or DT_NO_RANK) has written to stderr or stdout. */
void dt_outcome_text(struct dt_outcome *outcome, uint32_t rank, bool is_stderr,
                     const char *text, size_t len);

/* A notice has come, at ms since 1970, with the label of `rank` or none. */
void dt_outcome_notice(struct dt_outcome *outcome,
                       const struct dt_notice *notice, uint32_t rank,
                       int64_t now_ms);

/* The step is ended because of a hang, which `text` tells in one line, if no
 * rank has failed before.
 */
void dt_outcome_hang(struct dt_outcome *outcome, const char *text,
                     int64_t now_ms);

/* How many ranks have not been heard of. */
uint32_t dt_outcome_missing(const struct dt_outcome *outcome);

/* Writes "rank 7 on n4; ranks 0-1 on n1" of the missing, but no more than a few
 * hosts.
 */
void dt_outcome_print_missing(const struct dt_outcome *outcome, FILE *out);

/* Writes the message that a notice of the kind DT_NOTICE_ABSENT asks for. */
void dt_outcome_print_absent(const struct dt_outcome *outcome,
                             const struct dt_notice *notice, FILE *out);

/* Writes what failed first, the last of what it has written, and how the others
 * ended: nothing, if no rank has failed by itself.
 */
void dt_outcome_report(const struct dt_outcome *outcome, FILE *out);

/* Whether a rank has ended with EX_TEMPFAIL and so asks to be requeued, and no
 * rank has failed by itself. What the others make of the end of the step, which
 * comes with the first status that is not 0, does not count.
 */
bool dt_outcome_asks_requeue(const struct dt_outcome *outcome);

/* Whether a rank has failed by itself, or the step has been ended for a hang,
 * and not with an exit status for a mistake of the user's, which would be met
 * again: wrong usage, data, input, permission or configuration, no such program.
 */
bool dt_outcome_has_crashed(const struct dt_outcome *outcome);

#endif /* DT_REPORT_OUTCOME_H */
