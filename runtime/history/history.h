/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - reads back what a run has written about itself
 *
 * The files of logging.dir: metrics.jsonl, events.jsonl, ranks.jsonl, run.json.
 * Each may be missing: a run of an older version has only the first. They may
 * be of a run that still writes, or that died while it wrote. Each is read in
 * one pass with bounded memory; nothing in them is trusted.
 */
#ifndef DT_HISTORY_HISTORY_H
#define DT_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "history/facts.h"
#include "report/record.h"

struct dt_history;

/* Opens what the directory `path` of a run, its logging.dir or a metrics.jsonl
 * names. Destroy it with dt_history_destroy. NULL and err: EX_NOINPUT, neither
 * metrics nor run.json are there; EX_IOERR, EX_OSERR.
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
 * and wall is NaN where the line has none. Lines that are no record are counted
 * (dt_history_damaged) and skipped, as is a last line that is not yet whole.
 */
int dt_history_next(struct dt_history *history, struct dt_report_record *record,
                    struct dt_error *err);

/* Of the record read last: seconds since its process began; NaN: unknown. */
double dt_history_seconds(const struct dt_history *history);

/* The same for events. Their texts live until the next call. */
int dt_history_next_event(struct dt_history *history,
                          struct dt_report_event *event, struct dt_error *err);

/* The same for ranks. The arrays live until the next call. */
int dt_history_next_ranks(struct dt_history *history,
                          struct dt_report_ranks *ranks, struct dt_error *err);

enum dt_history_file {
    DT_HISTORY_METRICS,
    DT_HISTORY_EVENTS,
    DT_HISTORY_RANKS,
    DT_HISTORY_FILES
};

/* How many lines of a file, of those read so far, were damaged. */
long dt_history_damaged(const struct dt_history *history,
                        enum dt_history_file file);

#endif /* DT_HISTORY_HISTORY_H */
