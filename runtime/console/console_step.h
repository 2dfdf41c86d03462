/* SPDX-License-Identifier: Apache-2.0 */
/* console_step.h - what the plugin tells the console of its step */
#ifndef DT_CMD_CONSOLE_STEP_H
#define DT_CMD_CONSOLE_STEP_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "report/notice.h"
#include "report/outcome.h"

/* Does srun begin lines with their rank, and does the user want to see it? */
enum dt_console_labels {
    DT_LABELS_NONE,
    DT_LABELS_STRIP,
    DT_LABELS_KEEP,
    DT_LABELS_APART, /* what tasks print does not come through srun */
};

struct dt_console_step {
    enum dt_console_labels labels;
    uint32_t tasks;
    struct dt_outcome *outcome;
    struct dt_notice_step notice;
};

/* Fills `step`, zeroed before, from the description in launch/contract.h. The
 * step began at now_ms. The caller destroys step->outcome, in any case. -1:
 * EX_PROTOCOL, EX_OSERR.
 */
int dt_console_step_read(struct dt_console_step *step, FILE *in, int64_t now_ms,
                         struct dt_error *err);

#endif /* DT_CMD_CONSOLE_STEP_H */
