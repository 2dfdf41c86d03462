/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - one run at a time in a directory
 *
 * A file `.owner` in the directory says who writes there. It is created with
 * O_EXCL, which holds on NFS too, and touched every beat while its run lives. A
 * run that finds one takes its place if the other has ended: its process is
 * gone, or its job was requeued since, or it has not been touched for three
 * beats while this one looked.
 */
#ifndef DT_ALGO_OWNER_H
#define DT_ALGO_OWNER_H

#include "base/error.h"

enum { DT_OWNER_BEAT_MS = 5000 };

struct dt_owner;

/* Makes this process the owner of `dir`, which is created. Waits for three
 * beats at most, in the rare case above. NULL and err: EX_CANTCREAT; if another
 * run is there its job, host and process are named.
 */
struct dt_owner *dt_owner_take(const char *dir, int beat_ms,
                               struct dt_error *err);

/* To be asked before something is written: 0, no other run has the directory,
 * as far as can be seen; 1, somebody had removed it, and it was made anew. -1:
 * EX_CANTCREAT, another run has it.
 */
int dt_owner_check(struct dt_owner *owner, struct dt_error *err);

/* Gives the directory up. NULL is fine. */
void dt_owner_release(struct dt_owner *owner);

#endif /* DT_ALGO_OWNER_H */
