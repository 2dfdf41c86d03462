/* SPDX-License-Identifier: Apache-2.0 */
/* run_plots.c - the plots of one run */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page/page_impl.h"

enum { OTHERS_MAX = 40, ID_BYTES = 64 };

/* A loss that spans a larger factor also has a logarithmic plot. */
static const double wide_span = 100;

/* The important values of a run that samples, which come before its losses.
 * GRPO and PPO have different names for the divergence.
 */
static const struct headline {
    const char *name, *id, *title;
} headlines[] = {
    {"reward", "reward", "Reward"},
    {"kl", "kl", "KL divergence from the reference"},
    {"objective/kl", "objective-kl", "KL divergence from the reference"},
    {"completions/mean_length", "mean-length", "Mean length of completions"},
};

enum { HEADLINES = sizeof(headlines) / sizeof(headlines[0]) };

static bool is_headline(const struct dt_page_run *run, const char *name)
{
    for (size_t i = 0; i < HEADLINES; i++)
        if (!strcmp(headlines[i].name, name))
            return dt_page_samples(run);
    return false;
}

/* --- marks --- */

enum dt_mark_class dt_page_class_of(const char *kind)
{
    static const struct {
        const char *kind;
        enum dt_mark_class class;
    } classes[] = {
        {"failed", DT_MARK_BAD},     {"fault", DT_MARK_BAD},
        {"restart", DT_MARK_BAD},    {"save_failed", DT_MARK_WARN},
        {"straggler", DT_MARK_WARN}, {"skip", DT_MARK_WARN},
        {"warning", DT_MARK_WARN},   {"save", DT_MARK_DONE},
        {"eval", DT_MARK_DONE},      {"epoch", DT_MARK_DONE},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (!strcmp(classes[i].kind, kind))
            return classes[i].class;
    return DT_MARK_TURN;
}

struct marks {
    struct dt_plot_mark mark[DT_PAGE_EVENTS];
    size_t count;
};

static void marks_init(struct marks *marks, const struct dt_page_run *run)
{
    marks->count = 0;
    for (size_t i = 0; i < run->event_count; i++) {
        const struct dt_page_event *event = run->event[i];
        if (event->step < 0)
            continue;
        marks->mark[marks->count++] = (struct dt_plot_mark){
            .x = (double)event->step,
            .number = event->number,
            .class = dt_page_class_of(event->kind),
            .text = event->text ? event->text : event->kind};
    }
}

/* --- plots --- */

static const char *format_watt(char *text, double value)
{
    if (!isfinite(value))
        return dt_page_number(text, value);
    snprintf(text, DT_PAGE_NUMBER_BYTES, "%.4g %s",
             value < 1000 ? value : value / 1000, value < 1000 ? "W" : "kW");
    return text;
}

static const char *format_percent(char *text, double value)
{
    snprintf(text, DT_PAGE_NUMBER_BYTES, "%.3g %%", 100 * value);
    return text;
}

static struct dt_plot plot_of(const struct dt_page_run *run,
                              const struct marks *marks, const char *id,
                              const char *title)
{
    return (struct dt_plot){.id = id,
                            .title = title,
                            .x_name = "step",
                            .format = dt_page_number,
                            .x_format = dt_page_count,
                            .marks = marks->mark,
                            .mark_count = marks->count,
                            .from_x = (double)run->first_step,
                            .to_x = (double)run->last_step,
                            .limit = NAN};
}

/* Adds a line, if the run has the value. */
static void add_line(struct dt_plot *plot, const struct dt_page_run *run,
                     enum dt_split split, const char *value, const char *name,
                     enum dt_plot_style style, unsigned color)
{
    const struct dt_curve *curve = dt_page_find(run, split, value);
    if (curve && plot->count < DT_PLOT_LINES)
        plot->line[plot->count++] =
            (struct dt_plot_line){name, curve, style, color};
}

/* Few points need no average. */
static enum dt_plot_style style_of(const struct dt_page_run *run,
                                   const char *name)
{
    const struct dt_curve *curve = dt_page_find(run, DT_SPLIT_TRAIN, name);
    return curve && curve->count < 20 ? DT_PLOT_PLAIN : DT_PLOT_SMOOTH;
}

static void draw_headlines(struct dt_page_canvas *canvas,
                           const struct dt_page_run *run,
                           const struct marks *marks)
{
    for (size_t i = 0; i < HEADLINES && dt_page_samples(run); i++) {
        const struct headline *h = &headlines[i];
        struct dt_plot plot = plot_of(run, marks, h->id, h->title);
        plot.wide = i == 0;
        add_line(&plot, run, DT_SPLIT_TRAIN, h->name, "training",
                 style_of(run, h->name), 1);
        add_line(&plot, run, DT_SPLIT_EVAL, h->name, "held-out", DT_PLOT_POINTS,
                 2);
        dt_page_draw(canvas, &plot);
    }
}

static void draw_loss(struct dt_page_canvas *canvas,
                      const struct dt_page_run *run, const struct marks *marks)
{
    struct dt_plot plot = plot_of(run, marks, "loss", "Loss");
    plot.wide = true;
    add_line(&plot, run, DT_SPLIT_TRAIN, "loss", "training",
             style_of(run, "loss"), 1);
    add_line(&plot, run, DT_SPLIT_EVAL, "loss", "held-out", DT_PLOT_POINTS, 2);
    dt_page_draw(canvas, &plot);
    if (plot.count == 0 || !dt_plot_spans(plot.line[0].curve, wide_span))
        return;
    plot.id = "loss-log";
    plot.title = "Loss, logarithmic";
    plot.log = plot.no_table = true;
    dt_page_draw(canvas, &plot);
}

/* --- the plots that every run may have --- */

/* All begin at zero. */
static const struct value_plot {
    const char *id, *title;
    dt_plot_format *format;
    bool cut;
} plots[] = {
    {"lr", "Learning rate", dt_page_number, false},
    {"grad-norm", "Gradient norm", dt_page_number, false},
    {"tokens-per-s", "Tokens per second", dt_page_number, false},
    {"step-time", "Time of a step", dt_page_duration, true},
    {"rank-step-time", "Time of a step over ranks", dt_page_duration, true},
    {"memory", "Memory of the fullest rank", dt_page_bytes, false},
    {"mfu", "Model FLOPs utilization", format_percent, false},
    {"power", "Power of all devices", format_watt, false},
};

/* Their lines. The parts of a step are stacked up to "other"; a run that does
 * not record them has a line of the whole step.
 */
static const struct value_line {
    const char *id, *value, *name;
    unsigned color;
    bool smooth; /* with its average */
} lines[] = {
    {"lr", "lr", "learning rate", 1, false},
    {"grad-norm", "grad_norm", "norm", 1, true},
    {"tokens-per-s", "tokens_per_s", "tokens/s", 3, true},
    {"step-time", "compute_s", "compute", 3, false},
    {"step-time", "comm_exposed_s", "communication", 1, false},
    {"step-time", "data_wait_s", "data wait", 5, false},
    {"step-time", "ckpt_stall_s", "saving", 4, false},
    {"step-time", "other_s", "other", 7, false},
    {"step-time", "step_s", "step", 3, true},
    {"rank-step-time", "rank_step_s/max", "slowest", 2, false},
    {"rank-step-time", "rank_step_s/median", "median", 1, false},
    {"rank-step-time", "rank_step_s/min", "fastest", 3, false},
    {"memory", "mem_peak", "peak", 2, false},
    {"memory", "mem", "in use", 1, false},
    {"mfu", "mfu", "MFU", 3, true},
    {"power", "power_w", "power", 5, true},
};

enum { LINES = sizeof(lines) / sizeof(lines[0]) };

/* Values without a plot, and "loss", which has one of its own. */
static const char *const others[] = {"epoch",
                                     "loss",
                                     "tokens",
                                     "total_tokens",
                                     "comm_s",
                                     "energy_j",
                                     "perplexity",
                                     "pairs",
                                     "tokens_per_j",
                                     "completions",
                                     "rank_step_s/argmax"};

static bool is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (!strcmp(others[i], name))
            return true;
    for (size_t i = 0; i < LINES; i++)
        if (!strcmp(lines[i].value, name))
            return true;
    return false;
}

static void add_lines(struct dt_plot *plot, const struct dt_page_run *run)
{
    for (size_t i = 0; i < LINES; i++) {
        const char *value = lines[i].value;
        if (strcmp(lines[i].id, plot->id) != 0 ||
            (plot->stacked && !strcmp(value, "step_s")))
            continue;
        add_line(plot, run, DT_SPLIT_TRAIN, value, lines[i].name,
                 lines[i].smooth ? style_of(run, value) : DT_PLOT_PLAIN,
                 lines[i].color);
        if (!strcmp(value, "compute_s"))
            plot->stacked = plot->count > 0;
    }
}

static void draw_values(struct dt_page_canvas *canvas,
                        const struct dt_page_run *run,
                        const struct marks *marks)
{
    const char *clip = dt_page_setting(run, "training.max_grad_norm");
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++) {
        struct dt_plot plot = plot_of(run, marks, plots[i].id, plots[i].title);
        plot.format = plots[i].format;
        plot.cut = plots[i].cut;
        plot.from_zero = true;
        add_lines(&plot, run);
        if (!strcmp(plot.id, "grad-norm")) {
            plot.log =
                plot.count > 0 && dt_plot_spans(plot.line[0].curve, 1000);
            plot.unit = plot.log ? "logarithmic" : NULL;
            plot.limit = clip && atof(clip) > 0 ? atof(clip) : NAN;
            plot.limit_name = "clipped above";
        }
        if (strcmp(plot.id, "rank-step-time") != 0 || run->facts->world != 1)
            dt_page_draw(canvas, &plot);
    }
}

/* --- values of the algorithm --- */

/* Letters, digits and '-' of a name, with a number that makes it unique. */
static void make_id(char id[ID_BYTES], const char *name, size_t number)
{
    size_t n = (size_t)snprintf(id, ID_BYTES, "value-%zu-", number);
    for (; *name && n < ID_BYTES - 1; name++)
        id[n++] = isalnum((unsigned char)*name)
                      ? (char)tolower((unsigned char)*name)
                      : '-';
    id[n] = '\0';
}

/* Draws the values of the algorithm: those of training, then those of held-out
 * data only.
 */
static void draw_others(struct dt_page_canvas *canvas,
                        const struct dt_page_run *run,
                        const struct marks *marks)
{
    size_t drawn = 0;
    for (size_t i = 0; i < run->curve_count && drawn < OTHERS_MAX; i++) {
        char id[ID_BYTES];
        const struct dt_page_curve *curve = run->curve[i];
        const bool flat = curve->by_step.min == 0 && curve->by_step.max == 0;
        if (is_known(curve->name) || is_headline(run, curve->name) ||
            (flat && !strcmp(curve->name, "skipped")) ||
            (curve->split == DT_SPLIT_EVAL &&
             dt_page_find(run, DT_SPLIT_TRAIN, curve->name)))
            continue;
        make_id(id, curve->name, ++drawn);
        struct dt_plot plot = plot_of(run, marks, id, curve->name);
        add_line(&plot, run, DT_SPLIT_TRAIN, curve->name, "training",
                 style_of(run, curve->name), 1);
        add_line(&plot, run, DT_SPLIT_EVAL, curve->name, "held-out",
                 DT_PLOT_POINTS, 2);
        dt_page_draw(canvas, &plot);
    }
}

void dt_page_plots(struct dt_page_canvas *canvas, const struct dt_page_run *run)
{
    struct marks *marks = malloc(sizeof(*marks));
    if (!marks) {
        dt_error_set(&canvas->err, EX_OSERR, "out of memory");
        return;
    }
    marks_init(marks, run);
    draw_headlines(canvas, run, marks);
    draw_loss(canvas, run, marks);
    draw_values(canvas, run, marks);
    draw_others(canvas, run, marks);
    free(marks);
    dt_page_heat(canvas, run);
}
