/* SPDX-License-Identifier: Apache-2.0 */
/* plot_words.c - a plot in words, and as a table */
#include "config.h"

#include <math.h>

#include "page/page_impl.h"

enum { ROWS_MAX = 50 };

/* Compares the last tenth of a curve with the tenth before it, relative to the
 * noise of its points. NULL: too few points.
 */
static const char *trend_of(const struct dt_curve *curve)
{
    const struct dt_curve_tail tail = dt_curve_tail(curve, 0.1);
    const struct dt_curve_tail both = dt_curve_tail(curve, 0.2);
    if (tail.count < 3 || both.count < tail.count + 3)
        return NULL;
    const double before =
        (both.mean * (double)both.count - tail.mean * (double)tail.count) /
        (double)(both.count - tail.count);
    const double change = tail.mean - before;
    const double noise = tail.deviation * 2 / sqrt((double)tail.count);
    if (fabs(change) <= noise || fabs(change) < 1e-3 * fabs(before))
        return "level at the end";
    return change < 0 ? "still falling at the end" : "rising at the end";
}

static void describe_line(FILE *out, const struct dt_plot *plot,
                          const struct dt_plot_line *line)
{
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES];
    const struct dt_curve *curve = line->curve;
    const char *trend = trend_of(curve);
    dt_page_text(out, line->name, 40);
    if (curve->count == 0) {
        fprintf(out, ": no finite value. ");
    } else {
        fprintf(out, ": %s at %s %s", plot->format(a, curve->first),
                plot->x_name, plot->x_format(b, curve->first_x));
        fprintf(out, ", least %s at %s", plot->format(a, curve->min),
                plot->x_format(b, curve->at_min));
        fprintf(out, ", greatest %s at %s", plot->format(a, curve->max),
                plot->x_format(b, curve->at_max));
        fprintf(out, ", last %s at %s%s%s. ", plot->format(a, curve->last),
                plot->x_format(b, curve->last_x), trend ? "; " : "",
                trend ? trend : "");
    }
    if (curve->bad > 0)
        fprintf(out, "%zu values are not finite. ", curve->bad);
}

void dt_plot_describe(FILE *out, const struct dt_plot *plot)
{
    char text[DT_PAGE_NUMBER_BYTES];
    for (size_t i = 0; i < plot->count; i++)
        describe_line(out, plot, &plot->line[i]);
    if (isfinite(plot->limit) && plot->limit_name) {
        dt_page_text(out, plot->limit_name, 40);
        fprintf(out, ": %s. ", plot->format(text, plot->limit));
    }
    if (plot->log)
        fputs("The vertical axis is logarithmic.", out);
}

static double range_of(const struct dt_curve *curve)
{
    return (double)curve->used * curve->width;
}

/* The curve with the widest range, which determines the rows. */
static const struct dt_curve *rows_of(const struct dt_plot *plot)
{
    const struct dt_curve *longest = plot->line[0].curve;
    for (size_t i = 1; i < plot->count; i++)
        if (range_of(plot->line[i].curve) > range_of(longest))
            longest = plot->line[i].curve;
    return longest;
}

/* The mean of the points of a curve with `from` <= x < `to`. */
static double mean_between(const struct dt_curve *curve, double from, double to)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < curve->used; i++) {
        const double x = dt_curve_bin_x(&curve->bin[i]);
        if (curve->bin[i].count == 0 || x < from || x >= to)
            continue;
        sum += curve->bin[i].sum;
        count += curve->bin[i].count;
    }
    return count > 0 ? sum / (double)count : NAN;
}

static void put_rows(FILE *out, const struct dt_plot *plot)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_curve *curve = rows_of(plot);
    const size_t each = (curve->used + ROWS_MAX - 1) / ROWS_MAX;
    for (size_t i = 0; i < curve->used; i += each) {
        const double from = curve->from + (double)i * curve->width;
        const double to = from + (double)each * curve->width;
        double value[DT_PLOT_LINES], x = NAN;
        bool any = false;
        for (size_t k = i; k < i + each && k < curve->used; k++)
            if (curve->bin[k].count > 0)
                x = dt_curve_bin_x(&curve->bin[k]);
        for (size_t k = 0; k < plot->count; k++) {
            value[k] = mean_between(plot->line[k].curve, from, to);
            any = any || isfinite(value[k]);
        }
        if (!any)
            continue;
        fprintf(out, "<tr><th scope=\"row\">%s</th>",
                plot->x_format(text, isfinite(x) ? x : from));
        for (size_t k = 0; k < plot->count; k++)
            fprintf(out, "<td>%s</td>", plot->format(text, value[k]));
        fputs("</tr>\n", out);
    }
}

void dt_plot_table(FILE *out, const struct dt_plot *plot)
{
    dt_page_put(out, "<details><summary>Numbers<span class=\"sr\"> of ",
                plot->title, 0,
                "</span></summary><div " DT_PAGE_SCROLL
                "><table class=\"numbers\"><thead><tr>");
    fprintf(out, "<th scope=\"col\">%s</th>", plot->x_name);
    for (size_t i = 0; i < plot->count; i++)
        dt_page_put(out, "<th scope=\"col\">", plot->line[i].name, 40, "</th>");
    fputs("</tr></thead>\n<tbody>", out);
    put_rows(out, plot);
    fputs("</tbody></table></div></details>\n", out);
}
