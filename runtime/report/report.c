/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - writes console lines, metrics.jsonl and the summary */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "report/report.h"

struct dt_report {
    struct dt_report_options options;
    char *metrics_path;
    FILE *metrics;  /* NULL: none */
    off_t whole;    /* length of the whole lines written */
    long lost;      /* lines lost since the last one that was written */
    bool terminal;  /* stdout is a terminal: the progress line is rewritten */
    bool line_open; /* the progress line is on the screen */
    double start;
    double smooth, lowest; /* loss over about ten lines; its minimum */
    long lines, lowest_step;
};

enum { SMOOTH_LINES = 10 };

/* The step in a line of metrics, or -1 if the line is damaged. */
static long step_of(const char *line)
{
    json_t *object = json_loads(line, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    long number = json_is_integer(step) ? (long)json_integer_value(step) : -1;
    json_decref(object);
    return number;
}

/* The length of the metrics file up to the last whole line with step <= last.
 * Lines after it, which a crashed run wrote after its checkpoint, will be
 * written again. Damaged lines between those that are kept stay, with a
 * warning.
 */
static off_t kept_bytes(FILE *file, const char *path, long last)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    off_t kept = 0, here = 0;
    long damaged = 0, told = 0, step = 0, first = 0;
    for (long number = 1; step <= last && (n = getline(&line, &size, file)) > 0;
         number++) {
        step = line[n - 1] == '\n' ? step_of(line) : -1;
        here += n;
        if (step < 0 && damaged++ == 0)
            first = number;
        if (step < 0 || step > last)
            continue;
        kept = here;
        told = damaged;
    }
    free(line);
    if (told > 0)
        dt_log(DT_LOG_WARN, "report",
               "%s:%ld: not a line of metrics, skipped%s", path, first,
               told > 1 ? ", and others after it" : "");
    return kept;
}

/* Truncates the file after its last whole line, where writing continues. */
static int cut_metrics(struct dt_report *report)
{
    __fpurge(report->metrics);
    clearerr(report->metrics);
    return ftruncate(fileno(report->metrics), report->whole) < 0 ||
                   fseeko(report->metrics, report->whole, SEEK_SET) < 0
               ? -1
               : 0;
}

static int open_metrics(struct dt_report *report, struct dt_error *err)
{
    const char *path = report->metrics_path;
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    report->metrics = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!report->metrics) {
        dt_error_set(err, EX_CANTCREAT, "%s: cannot open: %s", path,
                     strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return dt_error_set(err, EX_CANTCREAT, "%s: not a regular file", path);
    report->whole =
        kept_bytes(report->metrics, path, report->options.first_step);
    if (ferror(report->metrics) || cut_metrics(report) < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot continue: %s", path,
                            strerror(errno));
    return 0;
}

void dt_report_destroy(struct dt_report *report)
{
    if (!report)
        return;
    if (report->line_open)
        putchar('\n');
    if (report->metrics)
        fclose(report->metrics);
    free(report->metrics_path);
    free(report);
}

struct dt_report *dt_report_create(const struct dt_report_options *options,
                                   struct dt_error *err)
{
    struct dt_report *report = calloc(1, sizeof(*report));
    if (!report)
        goto no_memory;
    report->options = *options;
    report->terminal = isatty(STDOUT_FILENO);
    report->start = dt_clock_now();
    if (options->metrics_path) {
        if (!(report->metrics_path = strdup(options->metrics_path)))
            goto no_memory;
        if (open_metrics(report, err) < 0)
            goto error;
    }
    return report;
no_memory:
    dt_error_set(err, EX_OSERR, "out of memory");
error:
    dt_report_destroy(report);
    return NULL;
}

/* Formats seconds as "1:02:03" or "02:03". */
static void format_time(double seconds, char *text, size_t size)
{
    long s = isfinite(seconds) && seconds > 0 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%02ld:%02ld", s / 60, s % 60);
}

/* Prints a line. On a terminal the next line replaces a transient one. */
static void print_line(struct dt_report *report, bool transient,
                       const char *text)
{
    if (!report->options.console)
        return;
    if (report->terminal)
        printf("\r\033[K%s%s", text, transient ? "" : "\n");
    else
        printf("%s\n", text);
    report->line_open = report->terminal && transient;
    fflush(stdout);
}

/* Writes a number as JSON, where NaN and infinities become null. */
static void put_number(FILE *out, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, ", \"%s\": %.9g", key, value);
    else
        fprintf(out, ", \"%s\": null", key);
}

/* Appends the values of a line to the text of size bytes on the console. */
static void show_values(const struct dt_report_values *values, char *text,
                        size_t size)
{
    for (size_t i = 0; i < values->count; i++) {
        size_t used = strlen(text);
        if (values->value[i].shown)
            snprintf(text + used, size - used, "  %s %.4g",
                     values->value[i].name, values->value[i].value);
    }
}

static void put_values(FILE *out, const struct dt_report_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        put_number(out, values->value[i].name, values->value[i].value);
}

/* Counts a line that is lost. Only the first of a series is reported. */
static void lose_line(struct dt_report *report, const char *why)
{
    if (report->lost++ == 0)
        dt_log(DT_LOG_WARN, "report",
               "%s; lines are lost until it can be written", why);
}

static int make_parent(const char *path, struct dt_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    int rc = dir ? dt_file_mkdirs(dir, err) : 0;
    free(dir);
    return rc;
}

/* Creates the metrics file again if it was removed; lines written to a removed
 * file would be lost silently. False: it cannot be created, and the line is
 * lost.
 */
static bool find_metrics_again(struct dt_report *report)
{
    struct stat st;
    struct dt_error err;
    FILE *removed = report->metrics;
    if (fstat(fileno(removed), &st) < 0 || st.st_nlink > 0)
        return true;
    if (make_parent(report->metrics_path, &err) < 0 ||
        open_metrics(report, &err) < 0) {
        if (report->metrics && report->metrics != removed)
            fclose(report->metrics);
        report->metrics = removed;
        lose_line(report, err.text);
        return false;
    }
    fclose(removed);
    dt_log(DT_LOG_WARN, "report",
           "%s: was removed during the run; it is created again, without the "
           "lines before this one",
           report->metrics_path);
    return true;
}

/* Ends a line and flushes it. If it cannot be written, it is lost with a
 * warning and the run continues, since a disk that is full for an hour is not
 * worth ending a run.
 */
static void end_metrics_line(struct dt_report *report)
{
    put_number(report->metrics, "time", dt_clock_now() - report->start);
    fputs("}\n", report->metrics);
    if (fflush(report->metrics) == 0 && !ferror(report->metrics)) {
        report->whole = ftello(report->metrics);
        if (report->lost > 0)
            dt_log(DT_LOG_WARN, "report", "%s: written again, %ld lines lost",
                   report->metrics_path, report->lost);
        report->lost = 0;
        return;
    }
    struct dt_error err;
    dt_error_set(&err, EX_IOERR, "%s: cannot write: %s", report->metrics_path,
                 strerror(errno));
    lose_line(report, err.text);
    cut_metrics(report);
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
    char text[512], shown[256] = "", left[32];
    const long total = step->total_steps;
    double rate = step->seconds > 0 ? step->tokens / step->seconds : 0.0;
    double per_step = (dt_clock_now() - report->start) /
                      (double)(step->step - report->options.first_step);

    format_time(per_step * (double)(total - step->step), left, sizeof(left));
    show_values(&step->values, shown, sizeof(shown));
    snprintf(text, sizeof(text),
             "step %ld/%ld  loss %.4f%s  lr %.3g  grad norm %.3g  "
             "%.0f tokens/s  left %s",
             step->step, total, step->loss, shown, step->lr,
             fabs(step->grad_norm), rate, left);
    print_line(report, true, text);
    follow_loss(report, step);
    if (!report->metrics || !find_metrics_again(report))
        return;
    fprintf(report->metrics, "{\"step\": %ld, \"split\": \"train\"",
            step->step);
    put_number(report->metrics, "epoch", step->epoch);
    put_number(report->metrics, "loss", step->loss);
    put_number(report->metrics, "lr", step->lr);
    put_number(report->metrics, "grad_norm", step->grad_norm);
    put_number(report->metrics, "tokens_per_s", rate);
    put_values(report->metrics, &step->values);
    end_metrics_line(report);
}

void dt_report_eval(struct dt_report *report, const struct dt_report_eval *eval)
{
    static const char *const units[] = {
        [DT_REPORT_TOKENS] = "tokens",
        [DT_REPORT_PAIRS] = "pairs",
        [DT_REPORT_COMPLETIONS] = "completions",
    };
    const char *unit = units[eval->of];
    char text[512], shown[256] = "", loss[32] = ":";
    if (eval->of != DT_REPORT_COMPLETIONS)
        snprintf(loss, sizeof(loss), " loss %.4f", eval->loss);
    if (eval->of == DT_REPORT_TOKENS)
        snprintf(shown, sizeof(shown), "  perplexity %.2f", exp(eval->loss));
    show_values(&eval->values, shown, sizeof(shown));
    snprintf(text, sizeof(text), "step %ld  held-out%s%s  (%.0f %s)",
             eval->step, loss, shown, eval->count, unit);
    print_line(report, false, text);
    if (!report->metrics || !find_metrics_again(report))
        return;
    fprintf(report->metrics, "{\"step\": %ld, \"split\": \"eval\"", eval->step);
    if (eval->of != DT_REPORT_COMPLETIONS)
        put_number(report->metrics, "loss", eval->loss);
    if (eval->of == DT_REPORT_TOKENS)
        put_number(report->metrics, "perplexity", exp(eval->loss));
    put_number(report->metrics, unit, eval->count);
    put_values(report->metrics, &eval->values);
    end_metrics_line(report);
}

void dt_report_note(struct dt_report *report, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (report->line_open && report->options.console)
        putchar('\n');
    report->line_open = false;
    print_line(report, false, text);
}

int dt_report_sync(struct dt_report *report, struct dt_error *err)
{
    if (report->metrics && fsync(fileno(report->metrics)) < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot sync: %s",
                            report->metrics_path, strerror(errno));
    return 0;
}

void dt_report_summary(struct dt_report *report,
                       const struct dt_report_summary *summary)
{
    char took[32], rate[64] = "", kl[64] = "";
    format_time(summary->seconds, took, sizeof(took));
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
    if (!strcmp(summary->measure, "loss") &&
        report->smooth > 2 * report->lowest + 1)
        dt_report_note(report,
                       "the loss exploded: it was %.4f about step %ld and is "
                       "%.4f now; the model is not usable; lower "
                       "optimizer.lr, or look at the data after that step",
                       report->lowest, report->lowest_step, report->smooth);
    if (isfinite(summary->eval_loss))
        dt_report_note(report, "held-out loss %.4f", summary->eval_loss);
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
