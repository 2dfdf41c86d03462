/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - reports the progress of a run to the user, on rank 0 only
 *
 * Prints a line for each report to stdout, above the progress bar if there is
 * one, and a summary at the end. Makes a record of each line, and gives that to
 * metrics.jsonl and to sinks (record.h).
 */
#ifndef DT_REPORT_REPORT_H
#define DT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "report/account.h"
#include "report/record.h"

struct dt_report;

struct dt_report_options {
    const char *dir; /* for the files of the run; NULL: none are written */
    long first_step; /* steps done before this run; later lines of an existing
                        metrics.jsonl are removed */
    bool resumes;    /* those of events.jsonl and ranks.jsonl stay */
    bool console;
    int columns; /* of the line of a step there, where a bar below it has the
                    rest; 0: as many as it takes */
    /* Tells dt_report_event how this process has spent its time; NULL: unknown.
     */
    void (*spent)(void *ctx, double spent[DT_ACCOUNT_COUNTED]);
    void *ctx;
};

/* Opens metrics.jsonl, events.jsonl and ranks.jsonl to append; a failure with
 * one of the last two is only a warning. Release with dt_report_destroy. NULL
 * and err: EX_CANTCREAT, EX_IOERR.
 */
struct dt_report *dt_report_create(const struct dt_report_options *options,
                                   struct dt_error *err);
void dt_report_destroy(struct dt_report *report); /* NULL is fine */

/* Adds a sink, which gets all later records and is closed at the end. If it
 * cannot be opened, that is a warning.
 */
void dt_report_add_sink(struct dt_report *report,
                        const struct dt_sink_type *type,
                        const struct dt_sink_options *options);

/* Numbers that are added to a line. */
struct dt_report_values {
    size_t count;
    struct dt_report_value value[DT_REPORT_VALUES_MAX];
};

struct dt_report_step {
    long step;        /* optimizer steps done */
    long total_steps; /* of the run, which may turn out to be shorter */
    double epoch;
    double loss; /* mean over the tokens or pairs since the last report */
    double lr, grad_norm;
    double tokens;                  /* of all ranks, in those seconds */
    double seconds;                 /* wall time, since the last report */
    struct dt_report_values values; /* of the algorithm */
    struct dt_report_values costs;  /* of time and memory */
};

/* Writes one training line to the console and to metrics.jsonl, and flushes it.
 * If it cannot be written to the file, it is lost with a warning; the file
 * keeps its whole lines.
 */
void dt_report_step(struct dt_report *report,
                    const struct dt_report_step *step);

enum dt_report_unit {
    DT_REPORT_TOKENS,
    DT_REPORT_PAIRS,
    DT_REPORT_COMPLETIONS
};

struct dt_report_eval {
    long step;
    double loss;  /* mean over `count`; completions have none */
    double count; /* of `of` */
    enum dt_report_unit of;
    struct dt_report_values values;
};

/* Writes one line about held-out data in the same way. */
void dt_report_eval(struct dt_report *report,
                    const struct dt_report_eval *eval);

/* Writes an event to events.jsonl and to the sinks. `wall` and `spent` are
 * filled here, unless it is an event of an earlier process, whose `wall` is
 * given.
 */
void dt_report_event(struct dt_report *report,
                     const struct dt_report_event *event);

/* Writes numbers of ranks to ranks.jsonl and to the sinks. `wall` is filled
 * here.
 */
void dt_report_ranks(struct dt_report *report,
                     const struct dt_report_ranks *ranks);

/* Prints a line of text. */
void dt_report_note(struct dt_report *report, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Syncs metrics.jsonl to disk, before a checkpoint commits. -1: EX_IOERR. */
int dt_report_sync(struct dt_report *report, struct dt_error *err);

struct dt_report_summary {
    long steps;
    double seconds, tokens;
    const char *measure;       /* the measure of learning: loss, reward */
    double first, last;        /* its values; NAN: none */
    struct dt_report_value kl; /* the last divergence from the reference; no
                                  name, or NAN: none */
    double eval_loss;          /* NAN: none */
    size_t peak_bytes;
    struct dt_account_sums account; /* of all starts of the run */
    const char *output;             /* directory of the model; may be NULL */
};

/* Says that the loss has exploded, if `measure` is the loss and, smoothed over
 * about ten lines of dt_report_step, it is above twice its minimum plus 1, or
 * above twice summary->first plus 3.
 */
void dt_report_explosion(struct dt_report *report,
                         const struct dt_report_summary *summary);

/* Prints the closing lines, among them that of dt_report_explosion. */
void dt_report_summary(struct dt_report *report,
                       const struct dt_report_summary *summary);

/* Prints the failure of this process to stderr: the rank, the host, the cause
 * and the remedy. It is one write, so that the lines of several ranks do not
 * mix.
 */
void dt_report_failure(int rank, int size, const char *host,
                       const struct dt_error *err);

#endif /* DT_REPORT_REPORT_H */
