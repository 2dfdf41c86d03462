/* SPDX-License-Identifier: Apache-2.0 */
/* report_to.h - the records of a run in the form of other programs */
#ifndef DT_CMD_REPORT_TO_H
#define DT_CMD_REPORT_TO_H

#include <stdbool.h>

#include "base/error.h"
#include "history/history.h"

/* The forms, as words for people. */
#define DT_REPORT_FORMS "tensorboard or wandb"

/* Whether there is such a form. */
bool dt_report_form_known(const char *form);

/* Writes the records of `run`, as dt_history_open takes it, in this form, and
 * prints where: event files in tb of the directory `output`, or an offline run
 * in its wandb. NULL: the run's own directory. What earlier calls have written
 * there is superseded. -1 and err: as dt_history_open, EX_CANTCREAT, EX_IOERR,
 * EX_OSERR.
 */
int dt_report_to(const char *form, const char *run, const char *output,
                 struct dt_error *err);

#endif /* DT_CMD_REPORT_TO_H */
