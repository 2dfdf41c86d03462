/* SPDX-License-Identifier: Apache-2.0 */
/* plan_out.h - the output of `disttrain plan` */
#ifndef DT_CMD_PLAN_OUT_H
#define DT_CMD_PLAN_OUT_H

#include <stdio.h>

#include "plan/candidates.h"

/* The table, and the lines below it. `file` as the user named it. */
void dt_plan_out_table(const struct dt_candidates *candidates, const char *file,
                       FILE *out);

/* The same with all numbers, as one JSON object. -1: EX_OSERR. */
int dt_plan_out_json(const struct dt_candidates *candidates, const char *file,
                     FILE *out, struct dt_error *err);

/* "1.23 GB" in text[24]. Returns text. */
const char *dt_plan_out_bytes(double bytes, char *text);

#endif /* DT_CMD_PLAN_OUT_H */
