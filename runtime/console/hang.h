/* SPDX-License-Identifier: Apache-2.0 */
/* hang.h - the console's watch over ranks that hang, and do not end */
#ifndef DT_CMD_HANG_H
#define DT_CMD_HANG_H

#include <stdint.h>

#include "report/outcome.h"

struct dt_hang;

/* `wish` as in DT_ENV_HANG, NULL: DT_HANG_DEFAULT; `step` "ID.STEP". NULL: no
 * memory.
 */
struct dt_hang *dt_hang_create(const char *wish, const char *step);
void dt_hang_destroy(struct dt_hang *hang); /* NULL is fine */

/* A rank has printed something, or started. */
void dt_hang_break(struct dt_hang *hang);

/* What to poll for input, -1: nothing; and for how many seconds at most. */
int dt_hang_fd(const struct dt_hang *hang);
double dt_hang_left(const struct dt_hang *hang);

/* To be called when either is due. Returns what to say to the user, who frees
 * it; NULL: nothing yet. If the step is to end for it, srun is told so, and
 * outcome, at ms since 1970.
 */
char *dt_hang_watch(struct dt_hang *hang, struct dt_outcome *outcome,
                    int64_t now_ms);

#endif /* DT_CMD_HANG_H */
