/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - records of a run: numbers of a step, events, numbers of ranks
 *
 * Each is a line of a file in logging.dir: metrics.jsonl, events.jsonl and
 * ranks.jsonl. Those files are the truth about a run. All other forms are made
 * of these structs, live or read back from the files.
 *
 * A sink makes another form, such as files of TensorBoard, from records as they
 * come. No error of a sink costs the run: report.c prints one warning, closes
 * the sink, and the run goes on.
 */
#ifndef DT_REPORT_RECORD_H
#define DT_REPORT_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* A number with a name. NaN: unknown, null in the file. */
struct dt_report_value {
    const char *name;
    double value;
    bool shown; /* on the console, too */
};

enum {
    DT_REPORT_VALUES_MAX = 128,                      /* of an algorithm */
    DT_RECORD_VALUES_MAX = 2 * DT_REPORT_VALUES_MAX, /* of a line */
};

enum dt_split { DT_SPLIT_TRAIN, DT_SPLIT_EVAL };

/* A line of metrics.jsonl. */
struct dt_report_record {
    enum dt_split split;
    long step;
    double wall; /* seconds since 1970 */
    size_t count;
    struct dt_report_value value[DT_RECORD_VALUES_MAX];
};

/* Parts of a run's time. A process counts the first ones itself; the others are
 * known afterwards (account.h).
 */
enum dt_account_part {
    DT_ACCOUNT_STARTUP,    /* until the first step of the run */
    DT_ACCOUNT_STEPS,      /* sampling is a part of steps */
    DT_ACCOUNT_DATA,       /* steps waited for data */
    DT_ACCOUNT_SAVING,     /* steps waited for it */
    DT_ACCOUNT_EVALUATION, /* the same */
    DT_ACCOUNT_COUNTED,
    DT_ACCOUNT_RECOVERY = DT_ACCOUNT_COUNTED, /* until steps continued */
    DT_ACCOUNT_LOST, /* steps that were done again, the first time */
    DT_ACCOUNT_IDLE, /* between two allocations */
    DT_ACCOUNT_PARTS
};

/* The name of each part in the files of a run: "startup". */
extern const char *const dt_account_names[DT_ACCOUNT_PARTS];

/* A line of events.jsonl. */
struct dt_report_event {
    const char *kind; /* start resume restart save save_failed early_stop eval
                         epoch skip warning fault straggler stop end failed */
    long step;
    double wall;            /* seconds since 1970 */
    double seconds;         /* how long it took; NaN: nothing to say */
    double bytes;           /* how much was written; NaN: nothing to say */
    int rank;               /* -1: all, or none in particular */
    const char *host;       /* may be NULL */
    const char *text;       /* a sentence for people, may be NULL */
    long redone;            /* steps that are done again after it */
    const char *allocation; /* in which the run starts; NULL: without Slurm */
    double spent[DT_ACCOUNT_COUNTED]; /* by this process so far, in seconds;
                                         all 0: unknown */
};

/* A line of ranks.jsonl: numbers of each rank, (count) long; means over the
 * steps since the line before. NaN: unknown; NULL: unknown of all.
 */
struct dt_report_ranks {
    long step;
    double wall; /* seconds since 1970 */
    size_t count;
    const double *compute_s, *comm_s, *data_wait_s, *mem, *power_w;
};

/* Adds a value to a record; one beyond DT_RECORD_VALUES_MAX is left out. */
void dt_record_add(struct dt_report_record *record, const char *name,
                   double value);

/* Each prints a line of JSON, with its newline. `time` is that of the process
 * in seconds.
 */
void dt_record_print(const struct dt_report_record *record, double time,
                     FILE *out);
void dt_event_print(const struct dt_report_event *event, FILE *out);
void dt_ranks_print(const struct dt_report_ranks *ranks, FILE *out);

/* --- sinks --- */

struct dt_sink;

struct dt_sink_options {
    const char *dir;   /* directory of its files: logging.dir, if live */
    const json_t *run; /* the object of run.json */
    long first_step;   /* steps done before this start of the run */
    void *context;     /* for this kind of sink; may be NULL */
};

/* A kind of sink. After a function has returned -1 (EX_CANTCREAT, EX_IOERR),
 * only `close` is called.
 */
struct dt_sink_type {
    const char *name; /* "tensorboard" */
    struct dt_sink *(*open)(const struct dt_sink_options *options,
                            struct dt_error *err);
    int (*record)(struct dt_sink *sink, const struct dt_report_record *record,
                  struct dt_error *err);
    int (*event)(struct dt_sink *sink, const struct dt_report_event *event,
                 struct dt_error *err); /* may be NULL */
    int (*ranks)(struct dt_sink *sink, const struct dt_report_ranks *ranks,
                 struct dt_error *err); /* may be NULL */
    void (*close)(struct dt_sink *sink);
};

extern const struct dt_sink_type dt_sink_tensorboard;

#endif /* DT_REPORT_RECORD_H */
