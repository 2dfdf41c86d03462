/* SPDX-License-Identifier: Apache-2.0 */
/* history_impl.h - lines and facts of a run, read from untrusted text */
#ifndef DT_HISTORY_HISTORY_IMPL_H
#define DT_HISTORY_HISTORY_IMPL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "history/history.h"
#include "report/record.h"

/* --- lines --- */

/* The names in the lines so far: at most 1022, each at most 127 bytes. Values
 * of other names are left out.
 */
struct dt_metric_names;

/* NULL: out of memory. */
struct dt_metric_names *dt_metric_names_create(void);
void dt_metric_names_destroy(struct dt_metric_names *names); /* NULL is fine */

/* Reads a NUL-terminated line into *record, whose names live as long as
 * `names`, and the value "time" into *seconds (NaN: none). Numbers out of
 * order, nested values and texts are dropped. False: the line is no object, or
 * its step or split is missing or malformed.
 */
bool dt_metric_line_read(struct dt_metric_names *names, const char *line,
                         size_t bytes, struct dt_report_record *record,
                         double *seconds);

/* As dt_metric_line_read, for lines whose names are all known and whose values
 * are numbers or null, and several times as fast. False: use the other.
 */
bool dt_metric_line_quick(struct dt_metric_names *names, const char *line,
                          size_t bytes, struct dt_report_record *record,
                          double *seconds);

/* Reads an event; its texts belong to `object`. False: it has no kind. */
bool dt_history_read_event(const json_t *object, struct dt_report_event *event);

/* Numbers of all ranks, one array after another. */
struct dt_rank_numbers {
    double *values;
    size_t size; /* of the array */
};
void dt_rank_numbers_fini(struct dt_rank_numbers *numbers); /* zeroed: fine */

/* Reads numbers of ranks. Arrays that differ in length from the first one count
 * as missing; null becomes NaN. 1; 0: `object` has no numbers of ranks; -1: out
 * of memory.
 */
int dt_history_read_ranks(const json_t *object, struct dt_rank_numbers *numbers,
                          struct dt_report_ranks *ranks);

/* --- run.json --- */

/* The facts and the owners of their texts. */
struct dt_run_facts {
    struct dt_history_facts facts;
    json_t *json;
    char **texts; /* values of settings that are not strings in run.json */
    char *name, *train_data;
    char problem[DT_ERROR_TEXT_BYTES];
};

/* Reads the text of run.json. Values that are missing or of the wrong type stay
 * unknown; facts.problem says why, if the text is no JSON object. -1: EX_OSERR.
 */
int dt_run_facts_read(struct dt_run_facts *facts, const char *path,
                      const char *text, struct dt_error *err);

/* Fills in the only fact that is known without run.json, the name: the last
 * component of `dir` that is not "logs". -1: EX_OSERR.
 */
int dt_run_facts_name(struct dt_run_facts *facts, const char *dir,
                      struct dt_error *err);

void dt_run_facts_fini(struct dt_run_facts *facts); /* a zeroed one is fine */

#endif /* DT_HISTORY_HISTORY_IMPL_H */
