/* SPDX-License-Identifier: Apache-2.0 */
/* library.h - a shared object that scores: opened, called, closed */
#ifndef DT_REWARD_LIBRARY_H
#define DT_REWARD_LIBRARY_H

#include "reward/impl.h"

/* Loads the library `path` and opens it with a configuration, JSON or NULL.
 * NULL and err: EX_UNAVAILABLE, it cannot be loaded, lacks a function, has
 * another version, or refuses, with its own words; EX_OSERR.
 */
struct dt_library *dt_library_open(const char *path, const char *config,
                                   struct dt_error *err);
void dt_library_close(struct dt_library *library); /* NULL is fine */

/* Fills values(part->count). -1: EX_UNAVAILABLE, it failed, with its own words;
 * EX_PROTOCOL, an infinity; EX_OSERR.
 */
int dt_library_score(struct dt_library *library,
                     const struct dt_reward_part *part, double *values,
                     struct dt_error *err);

#endif /* DT_REWARD_LIBRARY_H */
