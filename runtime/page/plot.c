/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - a plot as SVG: its lines, axes, names of lines, marks */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "page/page_impl.h"

/* --- lines --- */

/* The areas of a plot, in units of its SVG. y.begin is the bottom. */
struct box {
    double width, height, left, right, top, bottom;
    double cut; /* the greatest value, if it is above y.to; otherwise NaN */
    struct dt_axis x, y;
};

struct path {
    long x, y; /* in tenths */
    bool begun;
};

/* Writes tenths with as few characters as SVG needs. */
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

/* Begins a path of relative moves with one decimal; the path is all zeros
 * before.
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

/* Adds a line to the path; the first one only begins it. */
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

/* Whether the axis can show the value: a logarithmic one only above 0. */
static bool is_shown(const struct box *box, double y)
{
    return isfinite(y) && (!box->y.log || y > 0);
}

static void line_to(FILE *out, const struct box *box, struct path *path,
                    double x, double y)
{
    if (is_shown(box, y))
        path_line(out, path, dt_axis_place(&box->x, x),
                  dt_axis_place(&box->y, y));
}

/* Draws the least and the greatest point of each bin, in their order. */
static void put_points(FILE *out, const struct box *box,
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

static void put_average(FILE *out, const struct box *box,
                        const struct dt_curve *curve)
{
    double x[DT_CURVE_BINS], y[DT_CURVE_BINS];
    struct path path = {0};
    const size_t n = dt_curve_smooth(curve, x, y);
    for (size_t i = 0; i < n; i++)
        line_to(out, box, &path, x[i], y[i]);
}

static void put_dots(FILE *out, const struct box *box,
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

/* Draws a cross at the upper border for each bin with points that are not
 * finite.
 */
static void put_crosses(FILE *out, const struct box *box,
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

/* The height of the layers up to `line` at x; layers without a value there
 * count as 0.
 */
static double stack_height(const struct dt_plot *plot, size_t line, double x)
{
    double sum = 0;
    for (size_t i = 0; i <= line; i++) {
        const double y = dt_curve_at(plot->line[i].curve, x);
        sum += isfinite(y) ? y : 0;
    }
    return sum;
}

/* Draws the area of a layer on top of those below it. */
static void put_layer(FILE *out, const struct dt_plot *plot,
                      const struct box *box, size_t line)
{
    const struct dt_curve *curve = plot->line[0].curve;
    struct path path = {0};
    fprintf(out, "<path class=\"s%u\" d=\"", plot->line[line].color);
    for (size_t i = 0; i < curve->used; i++) {
        const double x = dt_curve_bin_x(&curve->bin[i]);
        if (curve->bin[i].count > 0)
            line_to(out, box, &path, x, stack_height(plot, line, x));
    }
    for (size_t i = curve->used; i-- > 0;) {
        const double x = dt_curve_bin_x(&curve->bin[i]);
        if (curve->bin[i].count > 0)
            line_to(out, box, &path, x,
                    line > 0 ? stack_height(plot, line - 1, x) : 0);
    }
    fputs("z\"/>\n", out);
}

/* The last value of a line as drawn; NaN: none. */
static double line_end(const struct dt_plot *plot, size_t line)
{
    double x[DT_CURVE_BINS], y[DT_CURVE_BINS];
    const struct dt_plot_line *l = &plot->line[line];
    if (l->curve->count == 0)
        return NAN;
    if (plot->stacked)
        return stack_height(plot, line, plot->line[0].curve->last_x);
    if (l->style != DT_PLOT_SMOOTH && l->style != DT_PLOT_AVERAGE)
        return l->curve->last;
    return y[dt_curve_smooth(l->curve, x, y) - 1];
}

static void put_line(FILE *out, const struct dt_plot_line *line,
                     const struct box *box, bool only)
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

/* Draws lines, dots and areas of the curves, and crosses for points that are
 * not finite.
 */
static void put_curves(FILE *out, const struct dt_plot *plot,
                       const struct box *box)
{
    for (size_t i = 0; i < plot->count; i++)
        if (plot->stacked)
            put_layer(out, plot, box, i);
        else
            put_line(out, &plot->line[i], box, plot->count == 1);
    for (size_t i = 0; i < plot->count; i++)
        put_crosses(out, box, plot->line[i].curve);
}

/* --- the picture --- */

enum { NAME_CHARACTERS = 15 };

/* The width of a digit, and the height of a line of text. */
static const double digit = 7.1, text_height = 13;

bool dt_plot_has_points(const struct dt_plot *plot)
{
    for (size_t i = 0; i < plot->count; i++)
        if (plot->line[i].curve->count + plot->line[i].curve->bad > 0)
            return true;
    return false;
}

bool dt_plot_spans(const struct dt_curve *curve, double factor)
{
    return curve->count > 1 && curve->min > 0 &&
           curve->max > factor * curve->min;
}

/* --- ranges --- */

static void widen(double *least, double *greatest, double value)
{
    if (!isfinite(value))
        return;
    *least = isnan(*least) || value < *least ? value : *least;
    *greatest = isnan(*greatest) || value > *greatest ? value : *greatest;
}

static void range_of_layers(const struct dt_plot *plot, double *least,
                            double *greatest)
{
    const struct dt_curve *curve = plot->line[0].curve;
    *least = 0;
    for (size_t i = 0; i < curve->used; i++)
        if (curve->bin[i].count > 0)
            widen(least, greatest,
                  stack_height(plot, plot->count - 1,
                               dt_curve_bin_x(&curve->bin[i])));
}

/* Three times the 90th percentile of the bins of the first curve, or of all
 * layers; NaN: there are no bins.
 */
static double usual_top(const struct dt_plot *plot)
{
    double value[DT_CURVE_BINS];
    size_t n = 0;
    const struct dt_curve *curve = plot->line[0].curve;
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        if (bin->count > 0)
            value[n++] = plot->stacked ? stack_height(plot, plot->count - 1,
                                                      dt_curve_bin_x(bin))
                                       : bin->sum / (double)bin->count;
    }
    if (n == 0)
        return NAN;
    qsort(value, n, sizeof(*value), dt_median_compare);
    return 3 * value[(n - 1) * 9 / 10];
}

static void range_of_average(const struct dt_curve *curve, bool log,
                             double *least, double *greatest)
{
    double x[DT_CURVE_BINS], y[DT_CURVE_BINS];
    const size_t n = dt_curve_smooth(curve, x, y);
    for (size_t i = 0; i < n; i++)
        if (!log || y[i] > 0)
            widen(least, greatest, y[i]);
}

/* The least point above 0 of a curve; NaN: none. */
static double least_positive(const struct dt_curve *curve)
{
    double least = NAN;
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        const double y = bin->min > 0 ? bin->min : bin->max;
        if (bin->count > 0 && y > 0 && !(y >= least))
            least = y;
    }
    return least;
}

static void range_of_y(const struct dt_plot *plot, double *least,
                       double *greatest)
{
    *least = *greatest = NAN;
    if (plot->stacked)
        range_of_layers(plot, least, greatest);
    for (size_t i = 0; !plot->stacked && i < plot->count; i++) {
        const struct dt_curve *curve = plot->line[i].curve;
        if (curve->count == 0)
            continue;
        if (plot->line[i].style == DT_PLOT_AVERAGE) {
            range_of_average(curve, plot->log, least, greatest);
            continue;
        }
        widen(least, greatest, plot->log ? least_positive(curve) : curve->min);
        if (!plot->log || curve->max > 0)
            widen(least, greatest, curve->max);
    }
    if (plot->from_zero && !plot->log)
        widen(least, greatest, 0);
    /* A limit far above all values would flatten them. */
    if (isfinite(*greatest) && plot->limit <= 1.3 * *greatest)
        widen(least, greatest, plot->limit);
    if (isnan(*least)) {
        *least = plot->log ? 1 : 0;
        *greatest = plot->log ? 10 : 1;
    }
}

static void range_of_x(const struct dt_plot *plot, double *least,
                       double *greatest)
{
    *least = plot->from_x;
    *greatest = plot->to_x;
    if (*least < *greatest)
        return;
    *least = *greatest = NAN;
    for (size_t i = 0; i < plot->count; i++) {
        const struct dt_curve *curve = plot->line[i].curve;
        if (curve->used == 0)
            continue;
        widen(least, greatest, curve->from);
        widen(least, greatest,
              curve->count > 0
                  ? curve->last_x
                  : curve->from + (double)curve->used * curve->width);
    }
    if (isnan(*least))
        *least = *greatest = 0;
}

/* The width to the right of the picture, for the names of lines or the last
 * value of the only one, and for the name of x.
 */
static double room_for_names(const struct dt_plot *plot)
{
    char text[DT_PAGE_NUMBER_BYTES];
    if (plot->count > 1)
        return 112;
    const double end = plot->count > 0 ? line_end(plot, 0) : NAN;
    return fmax(52, 14 + digit * (double)strlen(plot->format(text, end)));
}

/* Formats the label of a tick of y: with more digits than usual if the ticks
 * are close, and "" if rounding makes it equal to the one before.
 */
static const char *tick_label(const struct dt_plot *plot,
                              const struct dt_axis *y, size_t i,
                              char text[DT_PAGE_NUMBER_BYTES])
{
    enum { USUAL = 4, MOST = 15 };
    char before[DT_PAGE_NUMBER_BYTES];
    const int digits = dt_axis_digits(y);
    plot->format(text, y->tick[i]);
    if (plot->format == dt_page_number && digits > USUAL) {
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%#.*g",
                 digits < MOST ? digits : MOST, y->tick[i]);
        text[strlen(text) - (text[strlen(text) - 1] == '.')] = '\0';
    } else if (i > 0 &&
               strcmp(plot->format(before, y->tick[i - 1]), text) == 0) {
        text[0] = '\0';
    }
    return text;
}

static void box_init(struct box *box, const struct dt_plot *plot)
{
    double least, greatest;
    char text[DT_PAGE_NUMBER_BYTES];
    size_t longest = 3;
    *box = (struct box){.width = plot->wide ? 960 : 470,
                        .height = plot->wide ? 330 : 220,
                        .top = plot->alone ? 48 : 26,
                        .bottom = 34};
    box->height += box->top - 26;
    range_of_y(plot, &least, &greatest);
    const double top = plot->cut ? usual_top(plot) : NAN;
    box->cut = greatest > top ? greatest : NAN;
    greatest = greatest > top ? top : greatest;
    dt_axis_init(&box->y, least, greatest, plot->wide ? 7 : 5,
                 DT_AXIS_LOOSE | (plot->log ? DT_AXIS_LOG : 0));
    if (plot->format == dt_page_bytes)
        dt_axis_binary(&box->y, plot->wide ? 7 : 5);
    for (size_t i = 0; i < box->y.count; i++) {
        size_t n = strlen(tick_label(plot, &box->y, i, text));
        longest = n > longest ? n : longest;
    }
    box->left = 14 + digit * (double)longest;
    box->right = room_for_names(plot);
    range_of_x(plot, &least, &greatest);
    dt_axis_init(&box->x, least, greatest, plot->wide ? 10 : 6,
                 plot->x_format == dt_page_count ? DT_AXIS_WHOLE : 0);
    box->x.begin = box->left;
    box->x.end = box->width - box->right;
    box->y.begin = box->height - box->bottom;
    box->y.end = box->top;
}

/* --- the frame --- */

static void put_axes(FILE *out, const struct dt_plot *plot,
                     const struct box *box)
{
    char text[DT_PAGE_NUMBER_BYTES];
    double name = 0; /* place of the name of x, after the last number */
    fputs("<path class=\"grid\" d=\"", out);
    for (size_t i = 0; i < box->y.count; i++)
        fprintf(out, "M%.1f %.1fH%.1f", box->x.begin,
                dt_axis_place(&box->y, box->y.tick[i]), box->x.end);
    fprintf(out, "\"/>\n<path class=\"axis\" d=\"M%.1f %.1fH%.1f", box->x.begin,
            box->y.begin, box->x.end);
    for (size_t i = 0; i < box->x.count; i++)
        fprintf(out, "M%.1f %.1fv4", dt_axis_place(&box->x, box->x.tick[i]),
                box->y.begin);
    fputs("\"/>\n<g class=\"end\">", out);
    for (size_t i = 0; i < box->y.count; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", box->x.begin - 6,
                dt_axis_place(&box->y, box->y.tick[i]) + 4,
                tick_label(plot, &box->y, i, text));
    fputs("</g>\n<g class=\"mid\">", out);
    for (size_t i = 0; i < box->x.count; i++) {
        const double x = dt_axis_place(&box->x, box->x.tick[i]);
        plot->x_format(text, box->x.tick[i]);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", x,
                box->y.begin + 17, text);
        name = x + digit * (double)strlen(text) / 2 + 8;
    }
    fprintf(out, "</g>\n<text x=\"%.1f\" y=\"%.1f\">",
            fmax(box->x.end + 10, name), box->y.begin + 17);
    dt_page_text(out, plot->x_name, 0);
    fputs("</text>\n", out);
}

static void put_limit(FILE *out, const struct dt_plot *plot,
                      const struct box *box)
{
    char text[DT_PAGE_NUMBER_BYTES];
    if (isfinite(box->cut))
        fprintf(out,
                "<g class=\"end\"><text x=\"%.1f\" y=\"%.1f\">peaks up to %s "
                "are cut</text></g>\n",
                box->x.end - 4, box->y.end + 12, plot->format(text, box->cut));
    if (!(plot->limit >= box->y.from && plot->limit <= box->y.to))
        return;
    const double y = dt_axis_place(&box->y, plot->limit);
    fprintf(out,
            "<path class=\"limit\" d=\"M%.1f %.1fH%.1f\"/>"
            "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">",
            box->x.begin, y, box->x.end, box->x.begin + 4, y - 4);
    dt_page_text(out, plot->limit_name, 40);
    fputs("</text>\n", out);
}

/* --- names at the ends of lines --- */

/* Moves the places apart by at least a line of text, in their order, within the
 * box.
 */
static void spread(double *y, const size_t *order, size_t count,
                   const struct box *box)
{
    for (size_t i = 1; i < count; i++)
        if (y[order[i]] < y[order[i - 1]] + text_height)
            y[order[i]] = y[order[i - 1]] + text_height;
    double below = box->y.begin - 4;
    for (size_t i = count; i-- > 0; below -= text_height) {
        if (y[order[i]] > below)
            y[order[i]] = below;
        else
            below = y[order[i]];
    }
}

/* Places the names; `order` lists them from the top down. Returns their number.
 */
static size_t place_names(const struct dt_plot *plot, const struct box *box,
                          double *y, size_t *order)
{
    size_t count = 0;
    for (size_t i = 0; i < plot->count; i++) {
        double value = line_end(plot, i);
        if (plot->stacked && i > 0)
            value = (value + line_end(plot, i - 1)) / 2;
        else if (plot->stacked)
            value /= 2;
        if (!isfinite(value) || (plot->log && value <= 0))
            continue;
        y[i] = dt_axis_place(&box->y, value);
        size_t at = count++;
        for (; at > 0 && y[order[at - 1]] > y[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    spread(y, order, count, box);
    return count;
}

/* Writes the name of each line next to its end; for a single line, its last
 * value.
 */
static void put_names(FILE *out, const struct dt_plot *plot,
                      const struct box *box)
{
    double y[DT_PLOT_LINES];
    size_t order[DT_PLOT_LINES];
    char text[DT_PAGE_NUMBER_BYTES];
    const size_t count = place_names(plot, box, y, order);
    for (size_t k = 0; k < count; k++) {
        const size_t i = order[k];
        const struct dt_plot_line *line = &plot->line[i];
        double last = line->curve->last_x;
        const double end =
            plot->count > 1 ? box->x.end : dt_axis_place(&box->x, last);
        fprintf(out, "<text class=\"t%u\" x=\"%.1f\" y=\"%.1f\">", line->color,
                end + (plot->count > 1 ? 10 : 6), y[i] + 4);
        if (plot->count > 1)
            dt_page_text(out, line->name, NAME_CHARACTERS);
        else
            fputs(plot->format(text, line_end(plot, i)), out);
        fputs("</text>\n", out);
    }
}

/* --- marks --- */

static void put_mark(FILE *out, const struct box *box,
                     const struct dt_plot_mark *mark, bool numbered)
{
    const double x = dt_axis_place(&box->x, mark->x), y = box->top - 12;
    fprintf(out, "<g class=\"%s\"><title>%u: ", dt_style_marks[mark->class],
            mark->number);
    dt_page_text(out, mark->text, 120);
    fprintf(out, "</title><path d=\"M%.1f %.1fV%.1f\"/>", x,
            numbered ? y + 8 : box->top - 4, box->y.begin);
    if (numbered && mark->class == DT_MARK_DONE)
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"15\" height=\"15\" "
                "rx=\"2\"/>",
                x - 7.5, y - 7.5);
    else if (numbered && mark->class == DT_MARK_BAD)
        fprintf(out,
                "<path class=\"sign\" d=\"M%.1f %.1fl11 11-11 11-11"
                "-11z\"/>",
                x, y - 11);
    else if (numbered)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/>", x, y);
    if (numbered)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%u</text>", x, y + 3.6,
                mark->number);
    fputs("</g>\n", out);
}

/* Draws marks in the order of importance, without numbers that would cover
 * others.
 */
static void put_marks(FILE *out, const struct dt_plot *plot,
                      const struct box *box)
{
    enum { ROOM = 1000 };
    bool taken[ROOM] = {false};
    for (int class = DT_MARK_BAD; class <= DT_MARK_DONE; class ++)
        for (size_t i = 0; i < plot->mark_count; i++) {
            const struct dt_plot_mark *mark = &plot->marks[i];
            if ((int)mark->class != class || mark->x < box->x.from ||
                mark->x > box->x.to)
                continue;
            const int at = (int)dt_axis_place(&box->x, mark->x);
            bool fits = at >= 0 && at < ROOM;
            for (int k = at - 17; fits && k <= at + 17; k++)
                fits = k < 0 || k >= ROOM || !taken[k];
            /* Lines this close would look like an area. */
            if (!fits && class == DT_MARK_DONE && plot->mark_count > 40)
                continue;
            if (fits)
                taken[at] = true;
            put_mark(out, box, mark, fits);
        }
}

/* --- the whole --- */

static void put_title(FILE *out, const struct dt_plot *plot)
{
    dt_page_text(out, plot->title, 0);
    if (plot->unit)
        dt_page_put(out, ", ", plot->unit, 0, "");
}

static void put_svg_begin(FILE *out, const struct dt_plot *plot,
                          const struct box *box)
{
    fprintf(out,
            "<svg %sclass=\"plot\" role=\"img\" aria-labelledby=\"%s-t %s-d\" "
            "viewBox=\"0 0 %.0f %.0f\">\n<title id=\"%s-t\">",
            plot->alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "",
            plot->id, plot->id, box->width, box->height, plot->id);
    put_title(out, plot);
    fprintf(out, "</title>\n<desc id=\"%s-d\">", plot->id);
    dt_plot_describe(out, plot);
    fputs("</desc>\n", out);
    if (!plot->alone)
        return;
    fputs("<style>", out);
    dt_style_write_plain(out);
    fputs("</style>\n", out);
    fprintf(out, "<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n",
            box->width, box->height);
    fputs("<text class=\"title\" x=\"12\" y=\"20\">", out);
    put_title(out, plot);
    fputs("</text>\n", out);
}

static void put_svg(FILE *out, const struct dt_plot *plot)
{
    struct box box;
    box_init(&box, plot);
    put_svg_begin(out, plot, &box);
    put_axes(out, plot, &box);
    put_marks(out, plot, &box);
    put_limit(out, plot, &box);
    put_curves(out, plot, &box);
    put_names(out, plot, &box);
    fputs("</svg>\n", out);
}

void dt_plot_write(FILE *out, const struct dt_plot *plot)
{
    if (plot->alone) {
        put_svg(out, plot);
        return;
    }
    fprintf(out, "<figure%s><h3>", plot->wide ? " class=\"wide\"" : "");
    dt_page_text(out, plot->title, 0);
    if (plot->unit)
        dt_page_put(out, " <span class=\"unit\">", plot->unit, 0, "</span>");
    fputs("</h3>\n<div " DT_PAGE_SCROLL ">", out);
    put_svg(out, plot);
    fputs("</div>\n", out);
    if (!plot->no_table)
        dt_plot_table(out, plot);
    fputs("</figure>\n", out);
}
