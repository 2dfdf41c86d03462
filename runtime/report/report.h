/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what the user sees of a run, from rank 0 only
 *
 * A progress line that rewrites itself on a terminal, plain lines otherwise,
 * on stdout; metrics.jsonl for machines; a summary at the end.
 */
#ifndef DT_REPORT_REPORT_H
#define DT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dt_report;

struct dt_report_options {
    const char *metrics_path; /* NULL: no metrics.jsonl */
    long first_step;          /* steps done before: lines of an existing
                                 metrics file beyond it are cut away */
    long total_steps;
    bool console;
};

/* Opens the metrics file to append. NULL and err: EX_CANTCREAT, EX_IOERR. */
struct dt_report *dt_report_create(const struct dt_report_options *options,
                                   struct dt_error *err);
void dt_report_destroy(struct dt_report *report); /* NULL is fine */

struct dt_report_step {
    long step; /* optimizer steps done */
    double epoch;
    double loss; /* mean over tokens since the last report */
    double lr, grad_norm;
    double tokens;  /* of all ranks, since the last report */
    double seconds; /* wall time, since the last report */
};

/* One training line (console and metrics.jsonl, flushed). A line that cannot
 * be written to the file is lost, with a warning, and the file stays whole.
 */
void dt_report_step(struct dt_report *report,
                    const struct dt_report_step *step);

/* One evaluation line, likewise: mean token loss on held-out data. */
void dt_report_eval(struct dt_report *report, long step, double loss,
                    double tokens);

/* A line of text that does not tear the progress line. */
void dt_report_note(struct dt_report *report, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* fsync of metrics.jsonl, before a checkpoint commits. */
int dt_report_sync(struct dt_report *report, struct dt_error *err);

struct dt_report_summary {
    long steps;
    double seconds, tokens, first_loss, last_loss, eval_loss; /* NAN: none */
    size_t peak_bytes;
    const char *output; /* where the model is, may be NULL */
};

/* The closing lines. One of them says so if the loss, over about ten lines of
 * dt_report_step, is above twice its least value plus 1: it has exploded.
 */
void dt_report_summary(struct dt_report *report,
                       const struct dt_report_summary *summary);

/* The failure of this process on stderr, in one write so that lines of several
 * ranks do not mix: which rank, on which host, what and what to do next.
 */
void dt_report_failure(int rank, int size, const char *host,
                       const struct dt_error *err);

#endif /* DT_REPORT_REPORT_H */
