/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - run.output_dir, which belongs to one run at a time (rank 0) */
#ifndef DT_RUN_DIR_OUTPUT_H
#define DT_RUN_DIR_OUTPUT_H

#include <stdbool.h>

#include "base/error.h"

struct dt_run;

/* Rank 0 takes run.output_dir for this run, and prepares it for writing. -1:
 * EX_CANTCREAT, EX_IOERR; EX_TEMPFAIL if it was told to stop while it checked
 * whether the previous run has ended.
 */
int dt_run_take_output(struct dt_run *run, struct dt_error *err);

/* Checks that run.output_dir still exists and still belongs to this run. If it
 * or its checkpoints were removed, they are made again with a warning. -1:
 * EX_CANTCREAT, another run has it; run->report is destroyed, and nothing more
 * may be written.
 */
int dt_run_check_output(struct dt_run *run, struct dt_error *err);

/* The same check before anything is written, after a wait of any length. It
 * looks only if this process was stopped, or its heartbeat has seen another
 * run: no step costs a system call.
 */
int dt_run_keep_output(struct dt_run *run, struct dt_error *err);

/* dt_owner_holds, for threads that write outside of steps. */
bool dt_run_holds_output(void *run);

#endif /* DT_RUN_DIR_OUTPUT_H */
