/* SPDX-License-Identifier: Apache-2.0 */
/* run_plots.c - which plots one run has */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page/page_impl.h"

enum { OTHERS_MAX = 40, ID_BYTES = 64 };

/* The factor beyond which a plot has a logarithmic twin. */
static const double wide_span = 100;

/* Values that have a plot of their own, or none. */
static const char *const known[] = {"epoch",
                                    "loss",
                                    "lr",
                                    "grad_norm",
                                    "tokens_per_s",
                                    "tokens",
                                    "total_tokens",
                                    "step_s",
                                    "compute_s",
                                    "comm_s",
                                    "comm_exposed_s",
                                    "data_wait_s",
                                    "ckpt_stall_s",
                                    "mem",
                                    "mem_peak",
                                    "energy_j",
                                    "tokens_per_j",
                                    "mfu",
                                    "power_w",
                                    "other_s",
                                    "rank_step_s/min",
                                    "perplexity",
                                    "pairs",
                                    "completions",
                                    "rank_step_s/max",
                                    "rank_step_s/median",
                                    "rank_step_s/argmax"};

/* What a run that samples is about, before its losses. GRPO and PPO call the
 * divergence by their own names.
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

static bool is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(known[i], name))
            return true;
    return false;
}

/* --- marks --- */

enum dt_mark_class dt_page_class_of(const char *kind)
{
    static const struct {
        const char *kind;
        enum dt_mark_class class;
    } classes[] = {
        {"failed", DT_MARK_BAD},       {"fault", DT_MARK_BAD},
        {"save_failed", DT_MARK_WARN}, {"straggler", DT_MARK_WARN},
        {"skip", DT_MARK_WARN},        {"warning", DT_MARK_WARN},
        {"save", DT_MARK_DONE},        {"eval", DT_MARK_DONE},
        {"epoch", DT_MARK_DONE},
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

/* Adds a line, if the run has it. */
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

static void draw_rates(struct dt_page_canvas *canvas,
                       const struct dt_page_run *run, const struct marks *marks)
{
    struct dt_plot plot = plot_of(run, marks, "lr", "Learning rate");
    add_line(&plot, run, DT_SPLIT_TRAIN, "lr", "learning rate", DT_PLOT_PLAIN,
             1);
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);

    const char *clip = dt_page_setting(run, "training.max_grad_norm");
    plot = plot_of(run, marks, "grad-norm", "Gradient norm");
    add_line(&plot, run, DT_SPLIT_TRAIN, "grad_norm", "norm",
             style_of(run, "grad_norm"), 1);
    plot.log = plot.count > 0 && dt_plot_spans(plot.line[0].curve, 1000);
    plot.unit = plot.log ? "logarithmic" : NULL;
    plot.limit = clip && atof(clip) > 0 ? atof(clip) : NAN;
    plot.limit_name = "clipped above";
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);

    plot = plot_of(run, marks, "tokens-per-s", "Tokens per second");
    add_line(&plot, run, DT_SPLIT_TRAIN, "tokens_per_s", "tokens/s",
             style_of(run, "tokens_per_s"), 3);
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);
}

static void draw_times(struct dt_page_canvas *canvas,
                       const struct dt_page_run *run, const struct marks *marks)
{
    struct dt_plot plot = plot_of(run, marks, "step-time", "Time of a step");
    plot.format = dt_page_duration;
    add_line(&plot, run, DT_SPLIT_TRAIN, "compute_s", "compute", DT_PLOT_PLAIN,
             3);
    plot.stacked = plot.count > 0;
    add_line(&plot, run, DT_SPLIT_TRAIN, "comm_exposed_s", "communication",
             DT_PLOT_PLAIN, 1);
    add_line(&plot, run, DT_SPLIT_TRAIN, "data_wait_s", "data wait",
             DT_PLOT_PLAIN, 5);
    add_line(&plot, run, DT_SPLIT_TRAIN, "ckpt_stall_s", "saving",
             DT_PLOT_PLAIN, 4);
    if (plot.stacked)
        add_line(&plot, run, DT_SPLIT_TRAIN, "other_s", "other", DT_PLOT_PLAIN,
                 7);
    else
        add_line(&plot, run, DT_SPLIT_TRAIN, "step_s", "step",
                 style_of(run, "step_s"), 3);
    plot.from_zero = plot.cut = true;
    dt_page_draw(canvas, &plot);

    plot = plot_of(run, marks, "rank-step-time", "Time of a step over ranks");
    plot.format = dt_page_duration;
    add_line(&plot, run, DT_SPLIT_TRAIN, "rank_step_s/max", "slowest",
             DT_PLOT_PLAIN, 2);
    add_line(&plot, run, DT_SPLIT_TRAIN, "rank_step_s/median", "median",
             DT_PLOT_PLAIN, 1);
    add_line(&plot, run, DT_SPLIT_TRAIN, "rank_step_s/min", "fastest",
             DT_PLOT_PLAIN, 3);
    plot.from_zero = plot.cut = true;
    if (!(run->facts->world == 1))
        dt_page_draw(canvas, &plot);
}

static void draw_resources(struct dt_page_canvas *canvas,
                           const struct dt_page_run *run,
                           const struct marks *marks)
{
    struct dt_plot plot =
        plot_of(run, marks, "memory", "Memory of the fullest rank");
    plot.format = dt_page_bytes;
    add_line(&plot, run, DT_SPLIT_TRAIN, "mem_peak", "peak", DT_PLOT_PLAIN, 2);
    add_line(&plot, run, DT_SPLIT_TRAIN, "mem", "in use", DT_PLOT_PLAIN, 1);
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);

    plot = plot_of(run, marks, "mfu", "Model FLOPs utilization");
    plot.format = format_percent;
    add_line(&plot, run, DT_SPLIT_TRAIN, "mfu", "MFU", style_of(run, "mfu"), 3);
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);

    plot = plot_of(run, marks, "power", "Power of all devices");
    plot.format = format_watt;
    add_line(&plot, run, DT_SPLIT_TRAIN, "power_w", "power",
             style_of(run, "power_w"), 5);
    plot.from_zero = true;
    dt_page_draw(canvas, &plot);
}

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

/* The values of the algorithm: those of training, then those that only held-out
 * data has.
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
    draw_rates(canvas, run, marks);
    draw_times(canvas, run, marks);
    draw_resources(canvas, run, marks);
    draw_others(canvas, run, marks);
    free(marks);
    dt_page_heat(canvas, run);
}
