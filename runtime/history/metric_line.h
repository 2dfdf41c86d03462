/* SPDX-License-Identifier: Apache-2.0 */
/* metric_line.h - a line of metrics.jsonl as a record */
#ifndef DT_HISTORY_METRIC_LINE_H
#define DT_HISTORY_METRIC_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "report/record.h"

/* The names that lines have had so far: at most 1022, each at most 127 bytes.
 * Values of further names are left out.
 */
struct dt_metric_names;

/* NULL: out of memory. */
struct dt_metric_names *dt_metric_names_create(void);
void dt_metric_names_destroy(struct dt_metric_names *names); /* NULL is fine */

/* Reads a NUL-terminated line into *record, whose names live as long as
 * `names`, and the value "time" into *seconds (NaN: none). Of numbers out of
 * order, nested values and texts nothing is kept. False: it is no object, or
 * its step or split is missing or malformed.
 */
bool dt_metric_line_read(struct dt_metric_names *names, const char *line,
                         size_t bytes, struct dt_report_record *record,
                         double *seconds);

/* The same for lines whose names are all known and whose values are numbers or
 * null: several times as fast. False says nothing about the line.
 */
bool dt_metric_line_quick(struct dt_metric_names *names, const char *line,
                          size_t bytes, struct dt_report_record *record,
                          double *seconds);

#endif /* DT_HISTORY_METRIC_LINE_H */
