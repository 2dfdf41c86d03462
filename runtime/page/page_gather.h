/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_gather.h - what a page shows of a run, gathered in one pass over its
 * files
 *
 * Memory is bounded: curves are in bins, and of many events the first and the
 * last are kept.
 */
#ifndef DT_PAGE_PAGE_GATHER_H
#define DT_PAGE_PAGE_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "history/history.h"
#include "page/curve.h"
#include "page/rank_times.h"

struct dt_page_curve {
    const char *name; /* in metrics.jsonl */
    enum dt_split split;
    struct dt_curve by_step;
};

struct dt_page_event {
    char *kind, *host, *text; /* host and text may be NULL */
    long step;                /* -1: unknown */
    double wall, seconds, bytes;
    int rank;
    unsigned number; /* counted from 1 */
};

enum {
    DT_PAGE_CURVES = 256,
    DT_PAGE_EVENTS = 600, /* that are kept */
};

/* Seconds of the run, by what they were spent on; NaN: not recorded. */
struct dt_page_parts {
    double compute, comm, data, save;
};

struct dt_page_run {
    struct dt_history *history;
    const struct dt_history_facts *facts;
    struct dt_page_curve *curve[DT_PAGE_CURVES];
    size_t curve_count;
    struct dt_curve loss_by_tokens, loss_by_time; /* of training */
    long first_step, last_step; /* of records of training; -1: none */
    double seconds;             /* of all processes that wrote records */
    double tokens, joules;      /* NaN: not recorded */
    double last_wall;
    struct dt_page_parts parts;
    struct dt_page_event *event[DT_PAGE_EVENTS];
    size_t event_count;
    long events_left_out; /* between the first and the second half */
    struct dt_rank_times ranks;
};

/* Reads a run. Release with dt_page_run_destroy. NULL and err: as
 * dt_history_open, EX_OSERR.
 */
struct dt_page_run *dt_page_gather(const char *path, struct dt_error *err);
void dt_page_run_destroy(struct dt_page_run *run); /* NULL is fine */

/* The curve of a value by step; NULL: there is none. */
const struct dt_curve *dt_page_find(const struct dt_page_run *run,
                                    enum dt_split split, const char *name);

/* The value of a key of the configuration; NULL: unknown. */
const char *dt_page_setting(const struct dt_page_run *run, const char *key);

/* The last event of one of the kinds, separated by spaces; NULL: none. */
const struct dt_page_event *dt_page_last_event(const struct dt_page_run *run,
                                               const char *kinds);

#endif /* DT_PAGE_PAGE_GATHER_H */
