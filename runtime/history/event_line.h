/* SPDX-License-Identifier: Apache-2.0 */
/* event_line.h - lines of events.jsonl and ranks.jsonl, checked */
#ifndef DT_HISTORY_EVENT_LINE_H
#define DT_HISTORY_EVENT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "report/record.h"

/* Reads an event, whose texts belong to `object`. False: it has no kind. */
bool dt_event_read(const json_t *object, struct dt_report_event *event);

/* Numbers of all ranks, one array after another. */
struct dt_rank_numbers {
    double *values;
    size_t size; /* of the array */
};
void dt_rank_numbers_fini(struct dt_rank_numbers *numbers); /* zeroed: fine */

/* Reads numbers of ranks. Arrays of another length than the first one count as
 * missing, and null in them is NaN. 1; 0: it is no such line; -1: out of
 * memory.
 */
int dt_ranks_read(const json_t *object, struct dt_rank_numbers *numbers,
                  struct dt_report_ranks *ranks);

#endif /* DT_HISTORY_EVENT_LINE_H */
