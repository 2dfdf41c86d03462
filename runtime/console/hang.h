/* SPDX-License-Identifier: Apache-2.0 */
/* hang.h - reports ranks that hang, and may end the step */
#ifndef DT_CONSOLE_HANG_H
#define DT_CONSOLE_HANG_H

#include <stdint.h>

#include "console/outcome.h"

struct dt_hang;

/* `setting` is the value of DT_ENV_HANG, or NULL for DT_HANG_DEFAULT; `step` is
 * "ID.STEP". Returns NULL if memory is short; destroy it with dt_hang_destroy.
 */
struct dt_hang *dt_hang_create(const char *setting, const char *step);
void dt_hang_destroy(struct dt_hang *hang); /* NULL is fine */

/* Call it when a rank has printed something or started. */
void dt_hang_break(struct dt_hang *hang);

/* The descriptor to poll for input, or -1; and the most seconds to wait for it.
 */
int dt_hang_fd(const struct dt_hang *hang);
double dt_hang_left(const struct dt_hang *hang);

/* Call it when either is due. Returns a message for the user, which the caller
 * frees; NULL: nothing yet. If the hang is to end the step, also tells outcome
 * (at ms since 1970) and srun.
 */
char *dt_hang_watch(struct dt_hang *hang, struct dt_outcome *outcome,
                    int64_t now_ms);

#endif /* DT_CONSOLE_HANG_H */
