/* SPDX-License-Identifier: Apache-2.0 */
/*
 * account.h - where the time of a run went, over all its starts
 *
 * Events of all starts, in the order of events.jsonl, make the account. Each
 * second from the first start to the end is in one part. While a process runs,
 * the time is what it has counted itself on a clock that does not jump; clocks
 * of calendars tell the time between two processes only. Steps belong to the
 * final weights, or are lost: a start at an earlier step takes back those that
 * were done after it.
 */
#ifndef DT_REPORT_ACCOUNT_H
#define DT_REPORT_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/record.h"

enum {
    DT_ACCOUNT_MARKS = 64,
    DT_ACCOUNT_TEXT = 256,
};

struct dt_account_sums {
    bool known; /* each start has told what it spent */
    double seconds[DT_ACCOUNT_PARTS];
    long starts;
    long redone; /* steps that were done more than once */
};

/* Begin with {0}. Everything is up to the last event. */
struct dt_account {
    struct dt_account_sums sums;
    bool runs;                        /* a process has started and not ended */
    double spent[DT_ACCOUNT_COUNTED]; /* by that process */
    double wall;
    long reached; /* the furthest step since the last start */
    char allocation[64];
    /* The time in steps when a step was done; steps ascend. Between two marks
     * it is interpolated, so that they can be few.
     */
    struct {
        long step;
        double seconds;
    } mark[DT_ACCOUNT_MARKS];
    size_t marks;
};

/* Adds an event. Those of no running process, as of a later evaluation, do not
 * count.
 */
void dt_account_event(struct dt_account *account,
                      const struct dt_report_event *event);

/* Fills in what the running process had spent when it was killed at `wall`, if
 * `last` are the sums that it has told last: whatever they do not say was
 * steps. All 0, which is unknown, if it has told none, or an event after that
 * time.
 */
void dt_account_guess(const struct dt_account *account,
                      const struct dt_account_sums *last, double wall,
                      double spent[DT_ACCOUNT_COUNTED]);

/* The sums now that the running process has spent so much. */
void dt_account_now(const struct dt_account *account,
                    const double spent[DT_ACCOUNT_COUNTED],
                    struct dt_account_sums *sums);

/* All seconds but idle ones, and the share of them in steps that the weights
 * have; NaN: unknown.
 */
double dt_account_total(const struct dt_account_sums *sums);
double dt_account_goodput(const struct dt_account_sums *sums);

/* Writes "goodput 98.7 %: steps 12:34, recovery 00:05 (2 restarts)" and returns
 * it.
 */
char *dt_account_format(const struct dt_account_sums *sums,
                        char text[DT_ACCOUNT_TEXT]);

/* The sums as an object of JSON, and back: what is missing is 0, and the sums
 * of NULL are not known.
 */
json_t *dt_account_json(const struct dt_account_sums *sums);
void dt_account_read(const json_t *object, struct dt_account_sums *sums);

#endif /* DT_REPORT_ACCOUNT_H */
