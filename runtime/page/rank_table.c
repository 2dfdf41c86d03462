/* SPDX-License-Identifier: Apache-2.0 */
/* rank_table.c - the ranks that compute slowest and fastest */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "page/page_impl.h"
#include "page/page_text.h"

enum { ALL_MAX = 16, EACH = 5 };

static double mean_of(double sum, unsigned count)
{
    return count > 0 ? sum / count : NAN;
}

/* The host of a rank, by the lists of run.json; NULL: unknown. */
static const char *host_of(const struct dt_page_run *run, size_t rank)
{
    size_t i, k;
    json_t *node, *item;
    json_array_foreach(json_object_get(run->facts->json, "nodes"), i, node)
        json_array_foreach(json_object_get(node, "ranks"), k, item) if (
            json_is_integer(item) &&
            json_integer_value(item) ==
                (json_int_t)
                    rank) return json_string_value(json_object_get(node,
                                                                   "host"));
    return NULL;
}

static void put_rank(FILE *out, const struct dt_page_run *run, size_t rank)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_rank_sums *sums = &run->ranks.sums[rank];
    const char *host = host_of(run, rank);
    fprintf(out, "<tr><th scope=\"row\">%zu</th><td>", rank);
    dt_page_text(out, host ? host : "", 64);
    fprintf(out, "</td><td class=\"n\">%s</td>",
            dt_page_duration(text, mean_of(sums->compute, sums->compute_n)));
    fprintf(out, "<td class=\"n\">%s</td>",
            dt_page_duration(text, mean_of(sums->comm, sums->comm_n)));
    fprintf(out, "<td class=\"n\">%s</td>",
            dt_page_duration(text, mean_of(sums->data, sums->data_n)));
    fprintf(out, "<td class=\"n\">%s</td></tr>\n",
            dt_page_bytes(text, sums->mem > 0 ? sums->mem : NAN));
}

static int slower_first(const void *a, const void *b, void *ctx)
{
    const struct dt_rank_sums *sums = ctx;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const double x = mean_of(sums[i].compute, sums[i].compute_n);
    const double y = mean_of(sums[k].compute, sums[k].compute_n);
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return x != y ? (x < y) - (x > y) : (i > k) - (i < k);
}

static void put_gap(FILE *out, const char *text)
{
    fprintf(out, "<tr><td colspan=\"6\">%s</td></tr>\n", text);
}

static void put_rows(FILE *out, const struct dt_page_run *run,
                     const size_t *order)
{
    const size_t world = run->ranks.world;
    for (size_t i = 0; i < world; i++) {
        const bool middle = i == world / 2;
        if (world <= ALL_MAX || i < EACH || i >= world - EACH || middle)
            put_rank(out, run, order[i]);
        if (world > ALL_MAX && (i + 1 == EACH || middle))
            put_gap(out, "\u2026");
    }
}

void dt_page_rank_table(FILE *out, const struct dt_page_run *run)
{
    const size_t world = run->ranks.world;
    size_t *order = world > 1 ? calloc(world, sizeof(*order)) : NULL;
    if (!order)
        return;
    for (size_t i = 0; i < world; i++)
        order[i] = i;
    qsort_r(order, world, sizeof(*order), slower_first, run->ranks.sums);
    fprintf(out,
            "<h2>Ranks</h2>\n<p>Means of a step, slowest first%s.</p>\n<div "
            "" DT_PAGE_SCROLL
            "><table><thead><tr><th scope=\"col\">rank</th><th "
            "scope=\"col\">host</th><th scope=\"col\" class=\"n\">compute</th>"
            "<th scope=\"col\" class=\"n\">communication</th><th "
            "scope=\"col\" class=\"n\">data wait</th><th scope=\"col\" "
            "class=\"n\">most memory</th></tr></thead>\n<tbody>",
            world > ALL_MAX ? ", the median, and the fastest" : "");
    put_rows(out, run, order);
    fputs("</tbody></table></div>\n", out);
    free(order);
}
