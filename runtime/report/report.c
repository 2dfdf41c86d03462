/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - prints console lines and the summary, and records all numbers */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/said.h"
#include "base/secret.h"
#include "base/terminal.h"
#include "report/outlet.h"
#include "report/report.h"

enum {
    SMOOTH_LINES = 10,
};

struct dt_report {
    struct dt_report_options options;
    struct dt_outlet *outlet;
    double start;
    double smooth, lowest; /* loss over about ten lines; its minimum */
    long lines, lowest_step;
};

struct dt_report *dt_report_create(const struct dt_report_options *options,
                                   struct dt_error *err)
{
    struct dt_report *report = calloc(1, sizeof(*report));
    if (!report) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    report->options = *options;
    report->start = dt_clock_now();
    report->outlet = dt_outlet_create(options->dir, options->first_step,
                                      options->resumes, err);
    if (report->outlet)
        return report;
    free(report);
    return NULL;
}

void dt_report_destroy(struct dt_report *report)
{
    if (!report)
        return;
    dt_outlet_destroy(report->outlet);
    free(report);
}

/* --- records --- */

void dt_report_add_sink(struct dt_report *report,
                        const struct dt_sink_type *type,
                        const struct dt_sink_options *options)
{
    dt_outlet_add_sink(report->outlet, type, options);
}

static void give_record(struct dt_report *report,
                        const struct dt_report_record *record)
{
    dt_outlet_record(report->outlet, record, dt_clock_now() - report->start);
}

void dt_report_event(struct dt_report *report,
                     const struct dt_report_event *event)
{
    struct dt_report_event e = *event;
    char *text = e.text ? dt_secret_remove(e.text) : NULL;
    if (e.wall == 0) {
        e.wall = dt_clock_wall();
        if (report->options.spent)
            report->options.spent(report->options.ctx, e.spent);
    }
    e.text = text;
    dt_outlet_event(report->outlet, &e);
    free(text);
}

void dt_report_ranks(struct dt_report *report,
                     const struct dt_report_ranks *ranks)
{
    struct dt_report_ranks r = *ranks;
    r.wall = dt_clock_wall();
    dt_outlet_ranks(report->outlet, &r);
}

int dt_report_sync(struct dt_report *report, struct dt_error *err)
{
    return dt_outlet_sync(report->outlet, err);
}

/* --- lines of the console --- */

/* Prints a line, above the progress bar if there is one. */
static void print_line(const struct dt_report *report, const char *text)
{
    if (!report->options.console)
        return;
    dt_footer_lift();
    puts(text);
    fflush(stdout);
    dt_footer_drop(false);
}

/* A line of the console. The first part that does not fit is left out, and all
 * after it.
 */
struct line {
    char text[512];
    size_t used, most;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line,
                                                           const char *format,
                                                           ...)
{
    char part[128];
    va_list ap;
    va_start(ap, format);
    vsnprintf(part, sizeof(part), format, ap);
    va_end(ap);
    line->full = line->full || line->used + strlen(part) > line->most;
    if (!line->full)
        line->used +=
            (size_t)snprintf(line->text + line->used,
                             sizeof(line->text) - line->used, "%s", part);
}

/* NaN is the mean of nothing, as when all completions are masked. */
static void line_add_values(struct line *line,
                            const struct dt_report_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        if (values->value[i].shown && !isnan(values->value[i].value))
            line_add(line, "  %s %.4g", values->value[i].name,
                     values->value[i].value);
}

/* Values of the algorithm come before those that every run has. */
static void line_fill(struct line *line, const struct dt_report_step *step,
                      double rate, const char *left)
{
    line_add(line, "step %ld/%ld  loss %.4f", step->step, step->total_steps,
             step->loss);
    line_add_values(line, &step->values);
    line_add(line, "  lr %.3g", step->lr);
    line_add(line, "  grad norm %.3g", fabs(step->grad_norm));
    line_add(line, "  %.0f tokens/s", rate);
    line_add(line, "  left %s", left);
}

static void add_values(struct dt_report_record *record,
                       const struct dt_report_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        dt_record_add(record, values->value[i].name, values->value[i].value);
}

/* Updates the smoothed loss and its minimum. Ignores a loss that is not finite,
 * which the trainer reports.
 */
static void follow_loss(struct dt_report *report,
                        const struct dt_report_step *step)
{
    if (!isfinite(step->loss))
        return;
    long lines = ++report->lines < SMOOTH_LINES ? report->lines : SMOOTH_LINES;
    report->smooth += (step->loss - report->smooth) / (double)lines;
    /* Too few lines for a minimum: the first batches may be easy by chance. */
    if (report->lines > SMOOTH_LINES / 2 && report->smooth >= report->lowest)
        return;
    report->lowest = report->smooth;
    report->lowest_step = step->step;
}

void dt_report_step(struct dt_report *report, const struct dt_report_step *step)
{
    char left[32];
    const int columns = report->options.columns;
    struct line line = {.most = sizeof(line.text) - 1};
    double rate = step->seconds > 0 ? step->tokens / step->seconds : 0.0;
    double each = (dt_clock_now() - report->start) /
                  (double)(step->step - report->options.first_step);

    each *= (double)(step->total_steps - step->step);
    dt_clock_format(isfinite(each) && each > 0 ? each : 0, left, sizeof(left));
    if (columns > 0 && (size_t)columns < line.most)
        line.most = (size_t)columns;
    line_fill(&line, step, rate, left);
    print_line(report, line.text);
    follow_loss(report, step);
    struct dt_report_record record = {
        .split = DT_SPLIT_TRAIN, .step = step->step, .wall = dt_clock_wall()};
    dt_record_add(&record, "epoch", step->epoch);
    dt_record_add(&record, "loss", step->loss);
    dt_record_add(&record, "lr", step->lr);
    dt_record_add(&record, "grad_norm", step->grad_norm);
    dt_record_add(&record, "tokens_per_s", rate);
    add_values(&record, &step->values);
    add_values(&record, &step->costs);
    give_record(report, &record);
}

void dt_report_eval(struct dt_report *report, const struct dt_report_eval *eval)
{
    static const char *const units[] = {
        [DT_REPORT_TOKENS] = "tokens",
        [DT_REPORT_PAIRS] = "pairs",
        [DT_REPORT_COMPLETIONS] = "completions",
    };
    const char *unit = units[eval->of];
    struct line line = {.most = sizeof(line.text) - 1};
    line_add(&line, "step %ld  held-out", eval->step);
    if (eval->of == DT_REPORT_COMPLETIONS)
        line_add(&line, ":");
    else
        line_add(&line, " loss %.4f", eval->loss);
    if (eval->of == DT_REPORT_TOKENS)
        line_add(&line, "  perplexity %.2f", exp(eval->loss));
    line_add_values(&line, &eval->values);
    line_add(&line, "  (%.0f %s)", eval->count, unit);
    print_line(report, line.text);
    struct dt_report_record record = {
        .split = DT_SPLIT_EVAL, .step = eval->step, .wall = dt_clock_wall()};
    if (eval->of != DT_REPORT_COMPLETIONS)
        dt_record_add(&record, "loss", eval->loss);
    if (eval->of == DT_REPORT_TOKENS)
        dt_record_add(&record, "perplexity", exp(eval->loss));
    dt_record_add(&record, unit, eval->count);
    add_values(&record, &eval->values);
    give_record(report, &record);
}

void dt_report_note(struct dt_report *report, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!dt_said_before(text))
        print_line(report, text);
}

/* The first lines set the minimum, whatever they are. So a run that explodes
 * within them is compared with its first loss, which is of one batch: that may
 * be easy by chance, and gets a margin.
 */
void dt_report_explosion(struct dt_report *report,
                         const struct dt_report_summary *summary)
{
    double lowest = report->lowest, limit = 2 * lowest + 1;
    long step = report->lowest_step;
    if (report->lines == 0 || strcmp(summary->measure, "loss") != 0)
        return;
    if (2 * (summary->first + 1) + 1 < limit) { /* not if it is NAN */
        lowest = summary->first;
        limit = 2 * (lowest + 1) + 1;
        step = 1;
    }
    if (report->smooth > limit)
        dt_report_note(report,
                       "the loss exploded: it was %.4f about step %ld and is "
                       "%.4f now; the model is not usable; lower "
                       "optimizer.lr, or look at the data after that step",
                       lowest, step, report->smooth);
}

void dt_report_summary(struct dt_report *report,
                       const struct dt_report_summary *summary)
{
    char took[32], rate[64] = "", kl[64] = "", good[DT_ACCOUNT_TEXT];
    dt_clock_format(summary->seconds, took, sizeof(took));
    if (summary->steps > 0 && summary->seconds > 0)
        snprintf(rate, sizeof(rate), "%.0f tokens/s, ",
                 summary->tokens / summary->seconds);
    dt_report_note(
        report, "done: %ld steps in %s, %speak memory of rank 0 %.2f GiB",
        summary->steps, took, rate, (double)summary->peak_bytes / 0x1p30);
    if (summary->kl.name && isfinite(summary->kl.value))
        snprintf(kl, sizeof(kl), ", %s %.4g", summary->kl.name,
                 summary->kl.value);
    if (isfinite(summary->first))
        dt_report_note(report, "%s %.4f -> %.4f%s", summary->measure,
                       summary->first, summary->last, kl);
    dt_report_explosion(report, summary);
    if (isfinite(summary->eval_loss))
        dt_report_note(report, "held-out loss %.4f", summary->eval_loss);
    if (summary->account.known)
        dt_report_note(report, "%s",
                       dt_account_format(&summary->account, good));
    if (summary->output)
        dt_report_note(report, "model: %s", summary->output);
}

void dt_report_failure(int rank, int size, const char *host,
                       const struct dt_error *err)
{
    char text[DT_ERROR_TEXT_BYTES + 512];
    int n;
    if (size > 1)
        n = snprintf(text, sizeof(text),
                     "disttrain: rank %d of %d on %s%s: "
                     "%s\n",
                     rank, size, host, err->lost_rank < 0 ? " failed" : "",
                     err->text);
    else
        n = snprintf(text, sizeof(text), "disttrain: %s\n", err->text);
    size_t bytes = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    if (write(STDERR_FILENO, text, bytes) < 0)
        return; /* stderr is closed; there is nowhere to report that */
}
