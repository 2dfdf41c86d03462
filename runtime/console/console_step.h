/* SPDX-License-Identifier: Apache-2.0 */
/* console_step.h - reads what the plugin tells the console about its step */
#ifndef DT_CONSOLE_CONSOLE_STEP_H
#define DT_CONSOLE_CONSOLE_STEP_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "console/outcome.h"
#include "console/parse.h"

/* Whether srun begins lines with their rank, and whether the user wants to see
 * it.
 */
enum dt_console_labels {
    DT_LABELS_NONE,
    DT_LABELS_STRIP,
    DT_LABELS_KEEP,
    DT_LABELS_APART, /* the tasks' output does not pass through srun */
};

struct dt_console_step {
    enum dt_console_labels labels;
    uint32_t tasks;
    struct dt_outcome *outcome;
    struct dt_step_identity identity;
};

/* Fills `step`, which the caller has zeroed, from the description (see
 * contract/contract.h). The step began at now_ms. The caller destroys
 * step->outcome, also after a failure. -1: EX_PROTOCOL, EX_OSERR.
 */
int dt_console_step_read(struct dt_console_step *step, FILE *in, int64_t now_ms,
                         struct dt_error *err);

/* At the end: adds to the outcome how srun ends, if the plugin says it. */
void dt_console_step_read_end(struct dt_console_step *step, FILE *in);

#endif /* DT_CONSOLE_CONSOLE_STEP_H */
