/* SPDX-License-Identifier: Apache-2.0 */
/* live_impl.h - the table of a state; its forms: a progress bar, a file for
 * Prometheus
 */
#ifndef DT_LIVE_LIVE_IMPL_H
#define DT_LIVE_LIVE_IMPL_H

#include <stdbool.h>
#include <stdio.h>

#include "contract/contract.h"
#include "live/state.h"
#include "report/record.h"

/* --- the table of ranks --- */

/* Fills the rows of `state` from the numbers of all ranks and their `hosts`, or
 * NULL. Ranks of one host are one row in a world of more than DT_LIVE_RANKS:
 * means of times and power, the largest memory. Without memory the table stays
 * as it was.
 */
void dt_table_make(struct dt_live_state *state,
                   const struct dt_report_ranks *ranks, char *const *hosts);

/* Notes that a rank was called slow. */
void dt_table_note_slow(struct dt_live_state *state, int rank, double wall);

/* Marks the rows of ranks that were called slow in the last ten minutes, and
 * forgets other ranks. A rank that stays slow is called slow again within that
 * time.
 */
void dt_table_mark_slow(struct dt_live_state *state);

/* --- the progress bar, on this terminal or on that of srun --- */

/* The destination of the bar. */
enum dt_progress_way {
    DT_PROGRESS_NONE,
    DT_PROGRESS_TERMINAL, /* stderr of this process */
    DT_PROGRESS_RECORDS,  /* the console of srun, through records on stderr */
};

struct dt_progress_bar {
    enum dt_progress_way way;
    char token[DT_TOKEN_BYTES]; /* of its records */
    char host[256];
    char sent[512]; /* the last record, without its times */
    double sent_at;
};

/* Finds the destination. */
void dt_progress_init(struct dt_progress_bar *bar);

/* See dt_live_columns. */
int dt_progress_columns(const struct dt_progress_bar *bar);

/* Shows the state. Records that differ only in their times are sent once a
 * second.
 */
void dt_progress_show(struct dt_progress_bar *bar,
                      const struct dt_live_state *state);

/* Ends the bar; it stays on the screen, above later output. */
void dt_progress_end(struct dt_progress_bar *bar,
                     const struct dt_live_state *state);

/* --- the file for Prometheus --- */

/* Prints the state in the text format of Prometheus. */
void dt_prometheus_print(const struct dt_live_state *state, FILE *out);

/* Writes the state as disttrain_JOB_STEP.prom in `dir`, which readers see whole
 * or not at all. -1: EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_prometheus_write(const struct dt_live_state *state, const char *dir,
                        struct dt_error *err);

/* Removes the files of runs that were killed on this node from `dir`, as far as
 * the directory allows it.
 */
void dt_prometheus_clean(const char *dir);

/* Removes the file at the end of the run. */
void dt_prometheus_remove(const struct dt_live_state *state, const char *dir);

#endif /* DT_LIVE_LIVE_IMPL_H */
