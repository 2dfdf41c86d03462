/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of ranks, or of hosts if there are too many ranks */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live/live_impl.h"

enum { SLOW_S = 600 }; /* how long a rank counts as slow */

static double row_value(const double *values, size_t rank)
{
    return values ? values[rank] : (double)NAN;
}

static void fill_row(struct dt_live_row *row,
                     const struct dt_report_ranks *ranks, size_t rank,
                     char *const *hosts)
{
    *row = (struct dt_live_row){
        .rank = (int)rank,
        .count = 1,
        .compute_s = row_value(ranks->compute_s, rank),
        .comm_s = row_value(ranks->comm_s, rank),
        .data_wait_s = row_value(ranks->data_wait_s, rank),
        .mem = row_value(ranks->mem, rank),
        .power_w = row_value(ranks->power_w, rank),
    };
    snprintf(row->host, sizeof(row->host), "%.*s", DT_LIVE_NAME - 1,
             hosts && hosts[rank] ? hosts[rank] : "");
}

/* Adds the next rank of the same host: sums, which end_row divides. */
static void add_to_row(struct dt_live_row *row, const struct dt_live_row *other)
{
    row->count++;
    row->compute_s += other->compute_s;
    row->comm_s += other->comm_s;
    row->data_wait_s += other->data_wait_s;
    row->power_w += other->power_w;
    row->mem = fmax(row->mem, other->mem);
}

static void end_row(struct dt_live_row *row)
{
    row->compute_s /= row->count;
    row->comm_s /= row->count;
    row->data_wait_s /= row->count;
    row->power_w /= row->count;
}

/* Slowest first; unknown times last, in the order of ranks. */
static int compare_rows(const void *a, const void *b)
{
    const struct dt_live_row *x = a, *y = b;
    double s = isnan(x->compute_s) ? -1 : x->compute_s;
    double t = isnan(y->compute_s) ? -1 : y->compute_s;
    if (s != t)
        return s < t ? 1 : -1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

void dt_table_note_slow(struct dt_live_state *state, int rank, double wall)
{
    size_t i = 0;
    while (i < state->slow_count && state->slow[i].rank != rank)
        i++;
    if (i == DT_LIVE_SLOW)
        return; /* with so many, none stands out */
    if (i == state->slow_count)
        state->slow_count++;
    state->slow[i] = (struct dt_live_slow){rank, wall};
}

/* Ranks of a host follow one another. */
static bool is_in_row(const struct dt_live_row *row, int rank)
{
    return rank >= row->rank && rank - row->rank < row->count;
}

void dt_table_mark_slow(struct dt_live_state *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->slow_count; i++)
        if (state->wall - state->slow[i].wall < SLOW_S)
            state->slow[kept++] = state->slow[i];
    state->slow_count = kept;
    for (size_t r = 0; r < state->row_count; r++) {
        state->rows[r].straggler = false;
        for (size_t i = 0; i < kept; i++)
            if (is_in_row(&state->rows[r], state->slow[i].rank))
                state->rows[r].straggler = true;
    }
}

void dt_table_make(struct dt_live_state *state,
                   const struct dt_report_ranks *ranks, char *const *hosts)
{
    bool by_host = ranks->count > DT_LIVE_RANKS && hosts;
    struct dt_live_row *rows = calloc(ranks->count, sizeof(*rows));
    size_t count = 0;
    if (!rows)
        return;
    for (size_t rank = 0; rank < ranks->count; rank++) {
        struct dt_live_row row;
        fill_row(&row, ranks, rank, hosts);
        if (by_host && count > 0 && strcmp(rows[count - 1].host, row.host) == 0)
            add_to_row(&rows[count - 1], &row);
        else
            rows[count++] = row;
    }
    for (size_t i = 0; i < count; i++)
        end_row(&rows[i]);
    qsort(rows, count, sizeof(*rows), compare_rows);
    state->row_count = count < DT_LIVE_RANKS ? count : DT_LIVE_RANKS;
    state->rows_left_out = count - state->row_count;
    state->rank_step = ranks->step;
    memcpy(state->rows, rows, state->row_count * sizeof(*rows));
    free(rows);
}
