/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - reads back the files that a run has written about itself
 *
 * The files are metrics.jsonl, events.jsonl, ranks.jsonl and run.json of
 * logging.dir. Each may be missing: a run of an older version has only the
 * first. The run may still be writing them, or may have died while it wrote.
 * Each file is read in one pass with bounded memory; nothing in them is
 * trusted.
 */
#ifndef DT_HISTORY_HISTORY_H
#define DT_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"
#include "report/account.h"
#include "report/record.h"

/* A key of the configuration, as run.json has it. */
struct dt_history_setting {
    const char *key;   /* "optimizer.lr" */
    const char *value; /* JSON, but strings without quotes */
    bool given;        /* in the file of the user */
};

struct dt_history_node {
    const char *host;
    size_t ranks; /* on this host */
};

/* A start of the run, the first one or a resumption. */
struct dt_history_start {
    double wall; /* seconds since 1970 */
    long step;   /* done before */
    const char *job;
};

/* Facts of run.json. Unknown texts are NULL, unknown numbers NaN and unknown
 * lists empty.
 */
struct dt_history_facts {
    const char *name; /* or else the directory's: never NULL */
    const char *run_id, *job, *algorithm, *output_dir, *program;
    const char *config_path, *config_hash;
    const char *status;  /* running, finished, stopped, failed */
    const char *verdict; /* a sentence about the end */
    const char *resume;  /* command that continues the run */
    const char *family, *data_hash, *peak_name;
    const char *train_data; /* the files, with commas between them */
    double parameters, layers, width, rows, total_steps, world, ended;
    double flops_per_token; /* of training, forward and backward */
    double peak_flops;      /* a second, of one rank's device */
    struct dt_history_node *nodes;
    size_t node_count;
    const char **devices; /* one a rank */
    size_t device_count;
    const char **argv;
    size_t argc;
    struct dt_history_start *starts;
    size_t start_count;
    struct dt_history_setting *settings;
    size_t setting_count;
    const json_t *json;  /* all of run.json; NULL: there is none */
    const char *problem; /* why run.json could not be read; NULL: it was read,
                            or is missing */
};

struct dt_history;

/* Opens the files of a run. `path` is its directory, its logging.dir or a
 * metrics.jsonl. Destroy with dt_history_destroy. NULL and err: EX_NOINPUT,
 * neither metrics nor run.json are there; EX_IOERR, EX_OSERR.
 */
struct dt_history *dt_history_open(const char *path, struct dt_error *err);
void dt_history_destroy(struct dt_history *history); /* NULL is fine */

/* The facts; they live as long as the history. */
const struct dt_history_facts *dt_history_facts(
    const struct dt_history *history);

/* The directory of the files. */
const char *dt_history_dir(const struct dt_history *history);

/* Reads the next line of metrics. Returns 1; 0: there are no more; -1:
 * EX_IOERR. Names live as long as the history; the value "time" is left out,
 * and wall is NaN if the line has none. Lines that are no record are counted
 * (dt_history_damaged) and skipped; an incomplete last line is only skipped.
 */
int dt_history_next(struct dt_history *history, struct dt_report_record *record,
                    struct dt_error *err);

/* Seconds since the start of the process, in the record read last; NaN:
 * unknown.
 */
double dt_history_seconds(const struct dt_history *history);

/* As dt_history_next, for events. Their texts live until the next call. */
int dt_history_next_event(struct dt_history *history,
                          struct dt_report_event *event, struct dt_error *err);

/* Reads all events of the run in `path`, as dt_history_open takes it, into
 * their account. -1: as dt_history_open and dt_history_next.
 */
int dt_history_account(const char *path, struct dt_account *account,
                       struct dt_error *err);

/* As dt_history_next, for ranks. The arrays live until the next call. */
int dt_history_next_ranks(struct dt_history *history,
                          struct dt_report_ranks *ranks, struct dt_error *err);

enum dt_history_file {
    DT_HISTORY_METRICS,
    DT_HISTORY_EVENTS,
    DT_HISTORY_RANKS,
    DT_HISTORY_FILES
};

/* The number of damaged lines of a file among those read so far. */
long dt_history_damaged(const struct dt_history *history,
                        enum dt_history_file file);

#endif /* DT_HISTORY_HISTORY_H */
