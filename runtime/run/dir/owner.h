/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - one run at a time in a directory
 *
 * A file `.owner` in the directory says which run writes there. It is created
 * with O_EXCL, which works on NFS too, and touched every beat while the run is
 * alive. A run that finds the file of another one replaces it if that run has
 * ended: its process is gone, or its job was requeued since, or the file was
 * not touched for three beats while this run watched. One and a half since the
 * last touch are enough if both are steps of one `disttrain steps`, which has
 * ended the other one (DT_ENV_LAUNCH). And a step that has lost nodes takes the
 * directory at once from those of its ranks that it has gone on without
 * (base/epoch.h), which write nothing any more. So a run that is stopped for
 * longer (SIGSTOP) may find its directory taken when it continues.
 */
#ifndef DT_RUN_DIR_OWNER_H
#define DT_RUN_DIR_OWNER_H

#include <stdbool.h>

#include "base/error.h"

enum { DT_OWNER_BEAT_MS = 5000 };

struct dt_owner;

/* Makes this process the owner of `dir`, and creates it if needed. Waits as
 * long as that, unless `stop`, which may be NULL, is true. NULL and err:
 * EX_CANTCREAT; another run is named by job, host and process. EX_TEMPFAIL: it
 * was told to stop.
 */
struct dt_owner *dt_owner_take(const char *dir, int beat_ms, bool (*stop)(void),
                               struct dt_error *err);

/* Whether no other run can have the directory, as far as is known without
 * looking at the file: this process is one of the present epoch, and neither
 * this process nor its disk has stalled since the last beat but one. Call it
 * before anything is written; if false, call dt_owner_check.
 */
bool dt_owner_holds(struct dt_owner *owner);

/* Looks at the file. 0: no other run owns the directory; 1: the file had been
 * removed, and was created again. -1: EX_CANTCREAT, another run owns the
 * directory, or may have owned it while this process was stopped; every later
 * call fails, too.
 */
int dt_owner_check(struct dt_owner *owner, struct dt_error *err);

/* Gives up the directory. NULL is fine. Where the disk does not answer within
 * 10 s, a thread still waits to do so, and the owner is not freed.
 */
void dt_owner_release(struct dt_owner *owner);

#endif /* DT_RUN_DIR_OWNER_H */
