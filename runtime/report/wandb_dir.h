/* SPDX-License-Identifier: Apache-2.0 */
/* wandb_dir.h - the directory of a run of Weights & Biases, and its id */
#ifndef DT_REPORT_WANDB_DIR_H
#define DT_REPORT_WANDB_DIR_H

#include <limits.h>

#include "base/error.h"

enum { DT_WANDB_ID_BYTES = 65 };

struct dt_wandb_dir {
    char id[DT_WANDB_ID_BYTES];
    char file[PATH_MAX]; /* of records, which does not exist */
};

/* Makes a directory below `dir`, wandb/offline-run-DATE_TIME-ID, as `wandb
 * sync` finds it. `wall` is in seconds since 1970.
 *
 * Two files of one id merge badly on the server. So directories of this run
 * that were not uploaded are renamed to superseded-..., because the new file
 * has the whole run; and if one was, which a file NAME.synced says, the id is
 * another one, the same whenever this is asked. -1: EX_CANTCREAT, EX_OSERR.
 */
int dt_wandb_dir_make(struct dt_wandb_dir *made, const char *dir,
                      const char *run_id, double wall, struct dt_error *err);

#endif /* DT_REPORT_WANDB_DIR_H */
