/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of ranks: which rows, in which order, and their text */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "top/view.h"

#define SLOW 1.15 /* times the median: more is marked */

struct key {
    double value; /* largest first */
    size_t row;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

static double sort_value(const struct dt_live_row *row, enum dt_top_sort sort)
{
    double value = sort == DT_TOP_SLOWEST  ? row->compute_s
                   : sort == DT_TOP_MEMORY ? row->mem
                   : sort == DT_TOP_POWER  ? row->power_w
                                           : -row->rank;
    return isnan(value) ? -INFINITY : value;
}

static bool is_wanted(const struct dt_live_row *row, const char *filter)
{
    char rank[16];
    snprintf(rank, sizeof(rank), "%d", row->rank);
    return filter[0] == '\0' || strstr(row->host, filter) ||
           strcmp(rank, filter) == 0;
}

/* Which rows of the table to show, in order, by their numbers in state->rows.
 * Returns how many.
 */
static size_t order_rows(const struct dt_live_state *state,
                         const struct dt_top_view *view,
                         size_t order[DT_LIVE_RANKS])
{
    struct key keys[DT_LIVE_RANKS];
    size_t count = 0;
    for (size_t i = 0; i < state->row_count; i++)
        if (is_wanted(&state->rows[i], view->filter))
            keys[count++] =
                (struct key){sort_value(&state->rows[i], view->sort), i};
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < count; i++)
        order[i] = keys[i].row;
    return count;
}

static double median_compute(const struct dt_live_state *state)
{
    double times[DT_LIVE_RANKS];
    size_t n = 0;
    for (size_t i = 0; i < state->row_count; i++)
        if (!isnan(state->rows[i].compute_s))
            times[n++] = state->rows[i].compute_s;
    return n > 0 ? dt_median(times, n) : NAN;
}

/* A time of a step in ms or s, or "-". */
static const char *format_seconds(double seconds, char text[16])
{
    if (!isfinite(seconds))
        strcpy(text, "-");
    else if (seconds < 0.9995e-3)
        snprintf(text, 16, "%.3g us", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(text, 16, "%.3g ms", fmin(seconds * 1e3, 1e6));
    else
        snprintf(text, 16, "%.3g s", fmin(seconds, 1e6));
    return text;
}

static const char *format_with(double value, double unit, const char *name,
                               char text[16])
{
    if (!isfinite(value))
        strcpy(text, "-");
    else
        snprintf(text, 16, "%.3g %s", fmin(value / unit, 1e6), name);
    return text;
}

static void draw_row(FILE *out, const struct dt_live_row *row, double median,
                     const struct dt_top_view *view)
{
    char line[256], name[24], slower[16] = "", a[16], b[16], c[16], d[16],
                              e[16];
    double ratio = row->compute_s / median;
    if (isfinite(ratio))
        snprintf(slower, sizeof(slower), "%+.0f %%",
                 fmin(fmax(ratio - 1, -9), 99) * 100);
    if (row->count > 1)
        snprintf(name, sizeof(name), "%d+%d", row->rank, row->count - 1);
    else
        snprintf(name, sizeof(name), "%d", row->rank);
    snprintf(line, sizeof(line), "%c%6s  %-12.12s %9s %7s %9s %9s %9s %7s",
             row->straggler ? '!' : ' ', name, row->host,
             format_seconds(row->compute_s, a), slower,
             format_seconds(row->comm_s, b),
             format_seconds(row->data_wait_s, c),
             format_with(row->mem, 0x1p30, "GiB", d),
             format_with(row->power_w, 1, "W", e));
    dt_top_line(out, view,
                ratio > SLOW || row->straggler ? DT_TOP_RED : DT_TOP_PLAIN,
                line);
}

static void draw_foot(FILE *out, const struct dt_live_state *state,
                      size_t hidden, const struct dt_top_view *view)
{
    char line[160], more[48] = "";
    bool slow = false;
    for (size_t i = 0; i < state->row_count; i++)
        slow = slow || state->rows[i].straggler;
    if (hidden > 0)
        snprintf(more, sizeof(more), "%zu more rows; ", hidden);
    snprintf(line, sizeof(line),
             "%7s  %smeans of a step at step %ld, told once a minute%s", "",
             more, state->rank_step, slow ? "; ! named as slow" : "");
    dt_top_line(out, view, DT_TOP_DIM, line);
}

void dt_top_draw_ranks(FILE *out, const struct dt_live_state *state,
                       const struct dt_top_view *view, int rows)
{
    size_t order[DT_LIVE_RANKS];
    char line[160];
    size_t count = order_rows(state, view, order);
    double median = median_compute(state);
    if (state->row_count == 0)
        return;
    snprintf(line, sizeof(line), "%7s  %-12s %9s %7s %9s %9s %9s %7s", "RANK",
             "HOST", "COMPUTE", "MEDIAN", "COMM", "DATA", "MEMORY", "POWER");
    dt_top_line(out, view, DT_TOP_BOLD, line);
    size_t room = rows > 2 ? (size_t)rows - 2 : rows > 0 ? 0 : count;
    size_t most = count > room ? count - room : 0;
    size_t first = view->scroll < most ? view->scroll : most;
    size_t last = count - first > room ? first + room : count;
    for (size_t i = first; i < last; i++)
        draw_row(out, &state->rows[order[i]], median, view);
    draw_foot(out, state, count - (last - first) + state->rows_left_out, view);
}
