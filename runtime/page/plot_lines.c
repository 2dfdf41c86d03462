/* SPDX-License-Identifier: Apache-2.0 */
/* plot_lines.c - curves of a plot as paths */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "page/plot_impl.h"

struct path {
    long x, y; /* in tenths */
    bool begun;
};

/* Tenths, written with as few characters as SVG needs. */
static void put_tenths(FILE *out, long tenths, bool first)
{
    const char *sign = tenths < 0 ? "-" : first ? "" : " ";
    const long size = labs(tenths);
    if (size % 10 == 0)
        fprintf(out, "%s%ld", sign, size / 10);
    else if (size < 10)
        fprintf(out, "%s.%ld", sign, size);
    else
        fprintf(out, "%s%ld.%ld", sign, size / 10, size % 10);
}

/* Begins a path of relative moves with one decimal; the path is zeros before.
 */
static void path_move(FILE *out, struct path *path, double x, double y)
{
    path->x = lround(10 * x);
    path->y = lround(10 * y);
    path->begun = true;
    fputc('M', out);
    put_tenths(out, path->x, true);
    put_tenths(out, path->y, false);
    fputc('l', out);
}

/* Adds a line to it; the first one only begins it. */
static void path_line(FILE *out, struct path *path, double x, double y)
{
    if (!path->begun) {
        path_move(out, path, x, y);
        fputs("0 0", out);
        return;
    }
    const long to_x = lround(10 * x), to_y = lround(10 * y);
    put_tenths(out, to_x - path->x, false);
    put_tenths(out, to_y - path->y, false);
    path->x = to_x;
    path->y = to_y;
}

/* Whether an axis can show the value: a logarithm needs one above 0. */
static bool is_shown(const struct dt_plot_box *box, double y)
{
    return isfinite(y) && (!box->y.log || y > 0);
}

static void line_to(FILE *out, const struct dt_plot_box *box, struct path *path,
                    double x, double y)
{
    if (is_shown(box, y))
        path_line(out, path, dt_axis_place(&box->x, x),
                  dt_axis_place(&box->y, y));
}

/* Least and greatest point of each bin, in their order. */
static void put_points(FILE *out, const struct dt_plot_box *box,
                       const struct dt_curve *curve)
{
    struct path path = {0};
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        const bool falls = bin->at_max < bin->at_min;
        if (bin->count == 0)
            continue;
        line_to(out, box, &path, falls ? bin->at_max : bin->at_min,
                falls ? bin->max : bin->min);
        if (bin->count > 1)
            line_to(out, box, &path, falls ? bin->at_min : bin->at_max,
                    falls ? bin->min : bin->max);
    }
}

static void put_average(FILE *out, const struct dt_plot_box *box,
                        const struct dt_curve *curve)
{
    double x[DT_CURVE_BINS], y[DT_CURVE_BINS];
    struct path path = {0};
    const size_t n = dt_curve_smooth(curve, x, y);
    for (size_t i = 0; i < n; i++)
        line_to(out, box, &path, x[i], y[i]);
}

static void put_dots(FILE *out, const struct dt_plot_box *box,
                     const struct dt_curve *curve, unsigned color)
{
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        const double y = bin->sum / (double)bin->count;
        if (bin->count > 0 && is_shown(box, y))
            fprintf(out,
                    "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" "
                    "r=\"3.2\"/>\n",
                    color, dt_axis_place(&box->x, dt_curve_bin_x(bin)),
                    dt_axis_place(&box->y, y));
    }
}

/* A cross at the upper border for each bin with points that are not finite. */
static void put_crosses(FILE *out, const struct dt_plot_box *box,
                        const struct dt_curve *curve)
{
    if (curve->bad == 0)
        return;
    fputs("<path class=\"bad\" d=\"", out);
    for (size_t i = 0; i < curve->used; i++)
        if (curve->bin[i].bad > 0)
            fprintf(out, "M%.1f %.1fl6 6m-6 0l6-6",
                    dt_axis_place(&box->x, dt_curve_bin_x(&curve->bin[i])) - 3,
                    box->y.end + 2);
    fputs("\"/>\n", out);
}

double dt_plot_stack(const struct dt_plot *plot, size_t line, double x)
{
    double sum = 0;
    for (size_t i = 0; i <= line; i++) {
        const double y = dt_curve_at(plot->line[i].curve, x);
        sum += isfinite(y) ? y : 0;
    }
    return sum;
}

/* An area from the layers below to its own. */
static void put_layer(FILE *out, const struct dt_plot *plot,
                      const struct dt_plot_box *box, size_t line)
{
    const struct dt_curve *curve = plot->line[0].curve;
    struct path path = {0};
    fprintf(out, "<path class=\"s%u\" d=\"", plot->line[line].color);
    for (size_t i = 0; i < curve->used; i++) {
        const double x = dt_curve_bin_x(&curve->bin[i]);
        if (curve->bin[i].count > 0)
            line_to(out, box, &path, x, dt_plot_stack(plot, line, x));
    }
    for (size_t i = curve->used; i-- > 0;) {
        const double x = dt_curve_bin_x(&curve->bin[i]);
        if (curve->bin[i].count > 0)
            line_to(out, box, &path, x,
                    line > 0 ? dt_plot_stack(plot, line - 1, x) : 0);
    }
    fputs("z\"/>\n", out);
}

double dt_plot_end(const struct dt_plot *plot, size_t line)
{
    double x[DT_CURVE_BINS], y[DT_CURVE_BINS];
    const struct dt_plot_line *l = &plot->line[line];
    if (l->curve->count == 0)
        return NAN;
    if (plot->stacked)
        return dt_plot_stack(plot, line, plot->line[0].curve->last_x);
    if (l->style != DT_PLOT_SMOOTH && l->style != DT_PLOT_AVERAGE)
        return l->curve->last;
    return y[dt_curve_smooth(l->curve, x, y) - 1];
}

static void put_line(FILE *out, const struct dt_plot_line *line,
                     const struct dt_plot_box *box, bool only)
{
    const char *solid = only ? " solid" : "";
    const bool averaged =
        line->style == DT_PLOT_SMOOTH || line->style == DT_PLOT_AVERAGE;
    if (line->style != DT_PLOT_AVERAGE) {
        fprintf(out, "<path class=\"%s l%u%s\" d=\"",
                line->style == DT_PLOT_SMOOTH ? "thin" : "bold", line->color,
                solid);
        put_points(out, box, line->curve);
        fputs("\"/>\n", out);
    }
    if (averaged) {
        fprintf(out, "<path class=\"bold l%u%s\" d=\"", line->color, solid);
        put_average(out, box, line->curve);
        fputs("\"/>\n", out);
    }
    if (line->style == DT_PLOT_POINTS)
        put_dots(out, box, line->curve, line->color);
    if (line->style == DT_PLOT_PLAIN && line->curve->count == 1)
        put_dots(out, box, line->curve, line->color);
}

void dt_plot_curves(FILE *out, const struct dt_plot *plot,
                    const struct dt_plot_box *box)
{
    for (size_t i = 0; i < plot->count; i++)
        if (plot->stacked)
            put_layer(out, plot, box, i);
        else
            put_line(out, &plot->line[i], box, plot->count == 1);
    for (size_t i = 0; i < plot->count; i++)
        put_crosses(out, box, plot->line[i].curve);
}
