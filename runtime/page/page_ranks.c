/* SPDX-License-Identifier: Apache-2.0 */
/* page_ranks.c - compares ranks: over time, and in a table */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "page/page_impl.h"

/* --- over time, against the median --- */

enum { CLASSES = 6, LABELS_MAX = 16, ROWS_MAX = 50 };

/* Class 0 is the usual time, class 1 is faster. */
static const struct {
    double from; /* the slowest rank's time over the median */
    const char *name;
} classes[CLASSES] = {
    {0.95, "within 5 %"}, {0, "faster"},      {1.05, "+5 % to +10 %"},
    {1.10, "to +20 %"},   {1.20, "to +50 %"}, {1.50, "more"},
};

static int class_of(const struct dt_rank_cell *cell)
{
    const double ratio = cell->sum / cell->count;
    if (cell->count == 0)
        return -1;
    if (ratio < classes[0].from)
        return 1;
    int class = CLASSES - 1;
    while (class > 1 && ratio < classes[class].from)
        class --;
    return class > 1 ? class : 0;
}

/* The mean of a band over time; NaN: unknown. */
static double band_mean(const struct dt_rank_times *times, size_t band)
{
    double sum = 0;
    unsigned count = 0;
    for (size_t i = 0; i < times->columns; i++) {
        sum += times->cell[band][i].sum;
        count += times->cell[band][i].count;
    }
    return count > 0 ? sum / count : NAN;
}

static size_t slowest_band(const struct dt_rank_times *times)
{
    size_t slowest = 0;
    for (size_t i = 1; i < times->bands; i++)
        if (!(band_mean(times, i) <= band_mean(times, slowest)))
            slowest = i;
    return slowest;
}

/* Writes "rank 3", or "ranks 8 to 15". */
static void put_band(FILE *out, const struct dt_rank_times *times, size_t band)
{
    const size_t first = band * times->per_band;
    size_t last = first + times->per_band - 1;
    last = last < times->world ? last : times->world - 1;
    if (first == last)
        fprintf(out, "rank %zu", first);
    else
        fprintf(out, "ranks %zu to %zu", first, last);
}

struct heat {
    double left, top, cell_width, cell_height, width, height;
};

static void put_cells(FILE *out, const struct dt_rank_times *times,
                      const struct heat *heat)
{
    for (int class = 1; class < CLASSES; class ++) {
        fprintf(out, "<path class=\"h%d\" d=\"", class);
        for (size_t band = 0; band < times->bands; band++)
            for (size_t i = 0; i < times->columns; i++)
                if (class_of(&times->cell[band][i]) == class)
                    fprintf(out, "M%.1f %.1fh%.1fv%.1fh-%.1fz",
                            heat->left + (double)i * heat->cell_width,
                            heat->top + (double)band * heat->cell_height,
                            heat->cell_width, heat->cell_height,
                            heat->cell_width);
        fputs("\"/>\n", out);
    }
}

static void put_labels(FILE *out, const struct dt_rank_times *times,
                       const struct heat *heat)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const size_t each = (times->bands + LABELS_MAX - 1) / LABELS_MAX;
    const double bottom = heat->top + heat->cell_height * (double)times->bands;
    fputs("<g class=\"end\">", out);
    for (size_t band = 0; band < times->bands; band += each)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%zu</text>", heat->left - 6,
                heat->top + ((double)band + 0.5) * heat->cell_height + 4,
                band * times->per_band);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">step %s</text></g>",
            heat->left + heat->cell_width * (double)times->columns, bottom + 16,
            dt_page_count(text, (double)times->last_step));
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">step %s</text>", heat->left,
            bottom + 16, dt_page_count(text, (double)times->first_step));
    double x = heat->left;
    for (int class = 0; class < CLASSES; class ++) {
        const int order = class < 2 ? 1 - class : class;
        fprintf(out,
                "<rect class=\"h%d\" x=\"%.1f\" y=\"%.1f\" width=\"12\" "
                "height=\"12\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                order, x, bottom + 28, x + 17, bottom + 38,
                classes[order].name);
        x += 118;
    }
}

static void put_svg(FILE *out, const struct dt_page_run *run, bool alone)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_rank_times *times = &run->ranks;
    struct heat heat = {.left = 58, .top = alone ? 36 : 6, .width = 960};
    heat.cell_height = fmax(4, fmin(22, 220 / (double)times->bands));
    heat.cell_width = (heat.width - heat.left - 8) / (double)times->columns;
    heat.height = heat.top + heat.cell_height * (double)times->bands + 48;
    const size_t slowest = slowest_band(times);
    fprintf(out,
            "<svg %sclass=\"plot\" role=\"img\" aria-labelledby=\"heat-t "
            "heat-d\" viewBox=\"0 0 %.0f %.1f\">\n<title id=\"heat-t\">Compute "
            "time of ranks</title>\n<desc id=\"heat-d\">How long ranks compute "
            "a step, against the median of all ranks, over time. Slowest: ",
            alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", heat.width,
            heat.height);
    put_band(out, times, slowest);
    fprintf(out, ", %s times the median on average.</desc>\n",
            dt_page_number(text, band_mean(times, slowest)));
    if (alone) {
        fputs("<style>", out);
        dt_style_write_plain(out);
        fprintf(out,
                "</style>\n<rect class=\"paper\" width=\"%.0f\" "
                "height=\"%.1f\"/>\n<text class=\"title\" x=\"12\" y=\"20\">"
                "Compute time of ranks, against the median</text>\n",
                heat.width, heat.height);
    }
    fprintf(out,
            "<rect class=\"h0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
            "height=\"%.1f\"/>\n",
            heat.left, heat.top, heat.cell_width * (double)times->columns,
            heat.cell_height * (double)times->bands);
    put_cells(out, times, &heat);
    put_labels(out, times, &heat);
    fputs("</svg>\n", out);
}

/* Writes the bands, the slowest one first. */
static void put_table(FILE *out, const struct dt_rank_times *times)
{
    char text[DT_PAGE_NUMBER_BYTES];
    bool done[DT_RANK_BANDS] = {false};
    fputs("<details><summary>Numbers<span class=\"sr\"> of compute time of "
          "ranks</span></summary><div " DT_PAGE_SCROLL "><table "
          "class=\"numbers\"><thead><tr>"
          "<th scope=\"col\">ranks</th><th scope=\"col\">times the median"
          "</th></tr></thead>\n<tbody>",
          out);
    for (int row = 0; row < ROWS_MAX; row++) {
        size_t next = DT_RANK_BANDS;
        for (size_t i = 0; i < times->bands; i++)
            if (!done[i] && isfinite(band_mean(times, i)) &&
                (next == DT_RANK_BANDS ||
                 band_mean(times, i) > band_mean(times, next)))
                next = i;
        if (next == DT_RANK_BANDS)
            break;
        done[next] = true;
        fputs("<tr><th scope=\"row\">", out);
        put_band(out, times, next);
        fprintf(out, "</th><td>%s</td></tr>\n",
                dt_page_number(text, band_mean(times, next)));
    }
    fputs("</tbody></table></div></details>\n", out);
}

void dt_page_heat(struct dt_page_canvas *canvas, const struct dt_page_run *run)
{
    if (run->ranks.world < 2 || run->ranks.columns == 0)
        return;
    if (canvas->html) {
        fputs("<figure class=\"wide\"><h3>Compute time of ranks <span "
              "class=\"unit\">against the median of all</span></h3>\n"
              "<div " DT_PAGE_SCROLL ">",
              canvas->html);
        put_svg(canvas->html, run, false);
        fputs("</div>\n", canvas->html);
        put_table(canvas->html, &run->ranks);
        fputs("</figure>\n", canvas->html);
    }
    FILE *out = dt_page_picture_begin(canvas);
    if (!out)
        return;
    put_svg(out, run, true);
    dt_page_picture_end(canvas, out, "rank-times");
}

/* --- the ranks that compute slowest and fastest --- */

enum { ALL_MAX = 16, EACH = 5 };

static double mean_of(double sum, unsigned count)
{
    return count > 0 ? sum / count : NAN;
}

/* The host of a rank, from the lists of run.json; NULL: unknown. */
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

static void put_mean(FILE *out, double sum, unsigned count)
{
    char text[DT_PAGE_NUMBER_BYTES];
    fprintf(out, "<td class=\"n\">%s</td>",
            dt_page_duration(text, mean_of(sum, count)));
}

static void put_rank(FILE *out, const struct dt_page_run *run, size_t rank)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_rank_sums *sums = &run->ranks.sums[rank];
    const char *host = host_of(run, rank);
    fprintf(out, "<tr><th scope=\"row\">%zu</th>", rank);
    dt_page_put(out, "<td>", host ? host : "", 64, "</td>");
    put_mean(out, sums->compute, sums->compute_n);
    put_mean(out, sums->comm, sums->comm_n);
    put_mean(out, sums->data, sums->data_n);
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

static void put_rows(FILE *out, const struct dt_page_run *run,
                     const size_t *order)
{
    const size_t world = run->ranks.world;
    for (size_t i = 0; i < world; i++) {
        const bool middle = i == world / 2;
        if (world <= ALL_MAX || i < EACH || i >= world - EACH || middle)
            put_rank(out, run, order[i]);
        if (world > ALL_MAX && (i + 1 == EACH || middle))
            fputs("<tr><td colspan=\"6\">\u2026</td></tr>\n", out);
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
    fprintf(out, "<h2>Ranks</h2>\n<p>Means of a step, slowest first%s.</p>\n",
            world > ALL_MAX ? ", the median, and the fastest" : "");
    dt_page_table(out,
                  "rank|host|#compute|#communication|#data wait|#most memory");
    put_rows(out, run, order);
    fputs(DT_PAGE_TABLE_END, out);
    free(order);
}
