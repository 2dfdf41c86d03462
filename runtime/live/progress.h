/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - the progress bar of a run, on this terminal or on that of srun
 */
#ifndef DT_LIVE_PROGRESS_H
#define DT_LIVE_PROGRESS_H

#include <stdbool.h>

#include "contract/contract.h"
#include "live/bar.h"
#include "live/state.h"

/* Where the bar goes. */
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

/* Finds the way. */
void dt_progress_init(struct dt_progress_bar *bar);

/* See dt_live_columns. */
int dt_progress_columns(const struct dt_progress_bar *bar);

/* Shows the state; a record that would only tell other times is sent once a
 * second.
 */
void dt_progress_show(struct dt_progress_bar *bar,
                      const struct dt_live_state *state);

/* Ends the bar, which stays on the screen above later output. */
void dt_progress_end(struct dt_progress_bar *bar,
                     const struct dt_live_state *state);

/* The bar that shows a state. */
void dt_progress_bar(const struct dt_live_state *state, struct dt_bar *bar);

#endif /* DT_LIVE_PROGRESS_H */
