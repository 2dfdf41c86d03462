/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - compares several runs */
#include "config.h"

#include <math.h>
#include <string.h>

#include "page/page_impl.h"

enum { NAME_BYTES = 256 };

struct comparison {
    struct dt_page_run *const *runs;
    size_t count;
    char name[DT_PAGE_RUNS_MAX][NAME_BYTES]; /* "1 helper" */
};

/* --- differences that make losses incomparable --- */

static bool same_text(const char *a, const char *b)
{
    return !a || !b || !strcmp(a, b);
}

static bool same_number(double a, double b)
{
    return isnan(a) || isnan(b) || a == b;
}

/* Losses are comparable only over the same data and the same tokens. */
static void put_banner(FILE *out, const struct comparison *c)
{
    const struct dt_history_facts *base = c->runs[0]->facts;
    for (size_t i = 1; i < c->count; i++) {
        const struct dt_history_facts *facts = c->runs[i]->facts;
        const bool data = same_text(base->data_hash, facts->data_hash) &&
                          same_text(base->train_data, facts->train_data);
        const bool model = same_text(base->family, facts->family) &&
                           same_number(base->parameters, facts->parameters);
        const bool algorithm = same_text(base->algorithm, facts->algorithm);
        if (data && model && algorithm)
            continue;
        dt_page_put(out, "<p class=\"banner\"><bdi>", c->name[i], 80, "</bdi>");
        fprintf(out,
                " has %s%s%s%s%s than the first run: their losses say "
                "little about each other.</p>\n",
                algorithm ? "" : "another algorithm",
                algorithm || data ? "" : " and ", data ? "" : "other data",
                (algorithm && data) || model ? "" : " and ",
                model ? "" : "another model");
    }
}

/* --- the table --- */

static void put_swatch(FILE *out, size_t number)
{
    fprintf(out,
            "<svg class=\"plot\" aria-hidden=\"true\" viewBox=\"0 0 26 12\">"
            "<path class=\"bold l%zu\" d=\"M0 6h26\"/></svg>",
            number + 1);
}

static double best_of(const struct dt_page_run *run)
{
    const struct dt_curve *eval = dt_page_find(run, DT_SPLIT_EVAL, "loss");
    return eval && eval->count > 0 ? eval->min : NAN;
}

static struct dt_curve_tail loss_of(const struct dt_page_run *run)
{
    const struct dt_curve *loss = dt_page_find(run, DT_SPLIT_TRAIN, "loss");
    return loss ? dt_curve_tail(loss, 0.1)
                : (struct dt_curve_tail){0, NAN, NAN};
}

static void put_number_cell(FILE *out, double value)
{
    char text[DT_PAGE_NUMBER_BYTES];
    fprintf(out, "<td class=\"n\">%s</td>", dt_page_number(text, value));
}

/* Writes the change against the base, and whether it is within the noise of the
 * loss.
 */
static void put_delta(FILE *out, const struct comparison *c, size_t i)
{
    const struct dt_curve_tail base = loss_of(c->runs[0]);
    const struct dt_curve_tail tail = loss_of(c->runs[i]);
    const double delta = tail.mean - base.mean;
    const double noise = fmax(base.deviation, tail.deviation);
    if (i == 0 || !isfinite(delta)) {
        fprintf(out, "<td class=\"n\">%s</td>", i == 0 ? "base" : "\u2013");
        return;
    }
    fprintf(out, "<td class=\"n\">%+.4g%s</td>", delta,
            fabs(delta) <= noise ? " <span class=\"unit\">within noise</span>"
                                 : "");
}

static void put_row(FILE *out, const struct comparison *c, size_t i, double now)
{
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES];
    const struct dt_page_run *run = c->runs[i];
    const struct dt_page_verdict verdict = dt_page_judge(run, now);
    const struct dt_curve_tail tail = loss_of(run);
    fputs("<tr><th scope=\"row\"><span class=\"run\">", out);
    put_swatch(out, i);
    dt_page_put(out, "<bdi>", c->name[i], 60, "</bdi></span></th>");
    fprintf(out,
            "<td><span class=\"badge %s\">%s</span></td><td "
            "class=\"n\">%s</td><td class=\"n\">%s",
            verdict.class, verdict.word,
            run->last_step < 0 ? "\u2013"
                               : dt_page_count(a, (double)run->last_step),
            dt_page_number(b, tail.mean));
    if (isfinite(tail.deviation))
        fprintf(out, " \u00b1 %.2g", tail.deviation);
    fputs("</td>", out);
    put_delta(out, c, i);
    put_number_cell(out, best_of(run));
    put_number_cell(out, dt_page_mean(run, "tokens_per_s"));
    put_number_cell(out, run->tokens);
    fprintf(out, "<td class=\"n\">%s</td>", dt_page_duration(a, run->seconds));
    put_number_cell(out, run->joules / run->tokens);
    fputs("</tr>\n", out);
}

static void put_summary(FILE *out, const struct comparison *c, double now)
{
    dt_page_table(out, "run|end|#steps|#loss|#against the first|#best held-out|"
                       "#tokens/s|#tokens|#time|#J a token");
    for (size_t i = 0; i < c->count; i++)
        put_row(out, c, i, now);
    fputs(DT_PAGE_TABLE_END
          "<p class=\"about\">The loss is the mean of "
          "the last tenth of a run, \u00b1 how much it scatters there; a "
          "difference no greater than that is within noise.</p>\n",
          out);
}

/* --- the plots --- */

enum axis { BY_STEP, BY_TOKENS, BY_TIME };

static const struct comparison_plot {
    const char *id, *title;
    enum axis axis;
    enum dt_split split;
    const char *value;
    enum dt_plot_style style;
    dt_plot_format *format;
    bool from_zero;
} plots[] = {
    {"loss-by-step", "Loss by step", BY_STEP, DT_SPLIT_TRAIN, "loss",
     DT_PLOT_AVERAGE, dt_page_number, false},
    {"loss-by-tokens", "Loss by tokens", BY_TOKENS, DT_SPLIT_TRAIN, "loss",
     DT_PLOT_AVERAGE, dt_page_number, false},
    {"loss-by-time", "Loss by time", BY_TIME, DT_SPLIT_TRAIN, "loss",
     DT_PLOT_AVERAGE, dt_page_number, false},
    {"held-out-loss", "Held-out loss", BY_STEP, DT_SPLIT_EVAL, "loss",
     DT_PLOT_PLAIN, dt_page_number, false},
    {"grad-norm", "Gradient norm", BY_STEP, DT_SPLIT_TRAIN, "grad_norm",
     DT_PLOT_AVERAGE, dt_page_number, true},
    {"lr", "Learning rate", BY_STEP, DT_SPLIT_TRAIN, "lr", DT_PLOT_PLAIN,
     dt_page_number, true},
    {"tokens-per-s", "Tokens per second", BY_STEP, DT_SPLIT_TRAIN,
     "tokens_per_s", DT_PLOT_AVERAGE, dt_page_number, true},
    {"memory", "Peak memory", BY_STEP, DT_SPLIT_TRAIN, "mem_peak",
     DT_PLOT_PLAIN, dt_page_bytes, true},
};

static const struct dt_curve *curve_of(const struct dt_page_run *run,
                                       const struct comparison_plot *of)
{
    const struct dt_curve *curve =
        of->axis == BY_TOKENS ? &run->loss_by_tokens
        : of->axis == BY_TIME ? &run->loss_by_time
                              : dt_page_find(run, of->split, of->value);
    return curve && curve->count + curve->bad > 0 ? curve : NULL;
}

static void draw(struct dt_page_canvas *canvas, const struct comparison *c,
                 const struct comparison_plot *of)
{
    static const char *const x_names[] = {"step", "tokens", "time"};
    struct dt_plot plot = {.id = of->id,
                           .title = of->title,
                           .format = of->format,
                           .from_zero = of->from_zero,
                           .wide = of == plots,
                           .x_name = x_names[of->axis],
                           .x_format = of->axis == BY_TIME ? dt_page_duration
                                       : of->axis == BY_TOKENS ? dt_page_number
                                                               : dt_page_count,
                           .limit = NAN};
    for (size_t i = 0; i < c->count; i++) {
        const struct dt_curve *curve = curve_of(c->runs[i], of);
        if (curve)
            plot.line[plot.count++] = (struct dt_plot_line){
                .name = c->name[i],
                .curve = curve,
                .style = curve->count < 20 ? DT_PLOT_PLAIN : of->style,
                .color = (unsigned)i + 1};
    }
    if (plot.count > 0)
        dt_page_draw(canvas, &plot);
}

/* --- the configuration --- */

static const char *setting_of(const struct dt_page_run *run, const char *key)
{
    const char *value = dt_page_setting(run, key);
    return value ? value : "";
}

static bool differs(const struct comparison *c, const char *key)
{
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(setting_of(c->runs[0], key), setting_of(c->runs[i], key)))
            return true;
    return false;
}

static void put_difference(FILE *out, const struct comparison *c,
                           const char *key)
{
    dt_page_put(out, "<tr><th scope=\"row\"><code>", key, 80, "</code></th>");
    for (size_t i = 0; i < c->count; i++)
        dt_page_put(out, "<td>", setting_of(c->runs[i], key), 200, "</td>");
    fputs("</tr>\n", out);
}

/* Writes the keys that differ, each at the first run that has it. Returns their
 * number.
 */
static size_t put_differences(FILE *out, const struct comparison *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i]->facts->setting_count; k++) {
            const char *key = c->runs[i]->facts->settings[k].key;
            bool earlier = false;
            for (size_t j = 0; j < i; j++)
                earlier = earlier || dt_page_setting(c->runs[j], key);
            if (earlier || !differs(c, key))
                continue;
            put_difference(out, c, key);
            count++;
        }
    return count;
}

static void put_configurations(FILE *out, const struct comparison *c)
{
    fputs("<h2>Differences of the configurations</h2>\n", out);
    for (size_t i = 0; i < c->count; i++)
        if (c->runs[i]->facts->setting_count == 0) {
            fputs("<p>Not every run has recorded its configuration.</p>\n",
                  out);
            return;
        }
    fputs("<div " DT_PAGE_SCROLL
          "><table><thead><tr><th scope=\"col\">key</th>",
          out);
    for (size_t i = 0; i < c->count; i++)
        dt_page_put(out, "<th scope=\"col\"><bdi>", c->name[i], 40,
                    "</bdi></th>");
    fputs("</tr></thead>\n<tbody>", out);
    if (put_differences(out, c) == 0)
        fprintf(out, "<tr><td colspan=\"%zu\">none</td></tr>", c->count + 1);
    fputs(DT_PAGE_TABLE_END, out);
}

void dt_page_compare(struct dt_page_canvas *canvas,
                     struct dt_page_run *const *runs, size_t count, double now)
{
    FILE *out = canvas->html;
    struct comparison c = {.runs = runs, .count = count};
    for (size_t i = 0; i < count; i++)
        snprintf(c.name[i], NAME_BYTES, "%zu %s", i + 1, runs[i]->facts->name);
    if (out) {
        fprintf(out,
                "<header class=\"busy\">\n<p class=\"kicker\">disttrain "
                "report</p>\n<h1>Comparison of %zu runs</h1>\n</header>\n",
                count);
        put_banner(out, &c);
        put_summary(out, &c, now);
        fputs("<h2>Curves</h2>\n<div class=\"plots\">\n", out);
    }
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++)
        draw(canvas, &c, &plots[i]);
    if (!out)
        return;
    fputs("</div>\n", out);
    put_configurations(out, &c);
    fputs("<h2>Files</h2>\n<ul>\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<li>%zu: ", i + 1);
        dt_page_put(out, "<code>", dt_history_dir(runs[i]->history), 1000,
                    "</code></li>\n");
    }
    fputs("</ul>\n", out);
}
