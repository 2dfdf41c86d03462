/* SPDX-License-Identifier: Apache-2.0 */
/* report_to.h - the records of a run in the form of another program */
#ifndef DT_CMD_REPORT_TO_H
#define DT_CMD_REPORT_TO_H

#include "base/error.h"

/* Writes the records of `run`, as dt_history_open takes it, as event files of
 * TensorBoard in tb of the directory `output`, and prints where. NULL: the
 * run's own directory. Event files of earlier calls there are superseded. -1
 * and err: as dt_history_open, EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_report_to_tensorboard(const char *run, const char *output,
                             struct dt_error *err);

#endif /* DT_CMD_REPORT_TO_H */
