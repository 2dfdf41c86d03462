/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - work in a thread, for which a program waits only for a while
 *
 * While the thread keeps up, each piece of work is done when it has been given,
 * as if there were no thread. If a disk does not answer, pieces wait in memory,
 * and the program goes on.
 */
#ifndef DT_BASE_BACKGROUND_H
#define DT_BASE_BACKGROUND_H

#include <stdbool.h>

#include "base/error.h"

struct dt_background;

/* Starts a thread of this name that calls work(ctx, item), which owns the item,
 * for each item in order. NULL and err: EX_OSERR.
 */
struct dt_background *dt_background_create(const char *name,
                                           void (*work)(void *ctx, void *item),
                                           void *ctx, struct dt_error *err);

/* Gives it an item, and waits until it has done with that, but for no longer
 * than `wait_ms`, and not at all while earlier ones are not done. 0: it is
 * done; 1: it is not; -1: too many are not, and the caller keeps this one.
 */
int dt_background_give(struct dt_background *b, void *item, int wait_ms);

/* Waits until all items are done. False: not within so many milliseconds. */
bool dt_background_wait(struct dt_background *b, int wait_ms);

/* Ends the thread when all items are done, and frees it; NULL is fine. False:
 * they are not within so many milliseconds: the thread is left alone, with its
 * ctx, and does no more than the item at hand.
 */
bool dt_background_destroy(struct dt_background *b, int wait_ms);

/* Whether that happened; for `work`, where it uses what others may free. */
bool dt_background_is_left(struct dt_background *b);

#endif /* DT_BASE_BACKGROUND_H */
