/* SPDX-License-Identifier: Apache-2.0 */
/* top_impl.h - draws the state of runs as lines of text, without a terminal */
#ifndef DT_TOP_TOP_IMPL_H
#define DT_TOP_TOP_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "live/state.h"

enum dt_top_sort {
    DT_TOP_SLOWEST,
    DT_TOP_MEMORY,
    DT_TOP_POWER,
    DT_TOP_RANK,
};

/* How to draw. */
struct dt_top_view {
    int columns; /* most of a line */
    int rows;    /* of the screen; 0: as many as there are */
    bool utf8, colors;
    const char *end; /* of each line: "\n", or with escapes before it */
    enum dt_top_sort sort;
    char filter[32]; /* rows whose host or rank has this; "": all */
    bool filters;    /* the user is typing it */
    size_t scroll;   /* rows above those that are shown */
    double now;      /* seconds since 1970 */
    char slurm[128]; /* answer of Slurm about a silent run; "": none */
};

/* Whether a running run has not written for three intervals. */
bool dt_top_is_stale(const struct dt_live_state *state, double now);

/* Draws one run. */
void dt_top_draw(FILE *out, const struct dt_live_state *state,
                 const struct dt_top_view *view);

/* Draws several runs, one line each. The paths of their files tell runs of one
 * name apart. A run that could not be read is NULL, and its problem says why.
 */
void dt_top_draw_list(FILE *out, struct dt_live_state *const *states,
                      char *const *problems, char *const *paths, size_t count,
                      const struct dt_top_view *view);

enum dt_top_style { DT_TOP_PLAIN, DT_TOP_BOLD, DT_TOP_DIM, DT_TOP_RED };

/* Writes one line, cut to the columns. */
void dt_top_line(FILE *out, const struct dt_top_view *view,
                 enum dt_top_style style, const char *text);

/* Asks Slurm once about the state of a job, "123.0". Writes a sentence. */
void dt_top_ask(const char *job, char *text, size_t size);

#endif /* DT_TOP_TOP_IMPL_H */
