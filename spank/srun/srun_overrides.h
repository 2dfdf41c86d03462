/* SPDX-License-Identifier: Apache-2.0 */
/* srun_overrides.h - what --disttrain-set says of the config: KEY=VALUE each */
#ifndef DTSPANK_SRUN_OVERRIDES_H
#define DTSPANK_SRUN_OVERRIDES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* In the order in which they apply; owned. All zero is empty. */
struct dtspank_overrides {
    char **text;
    size_t count;
};

/* Refuses what is no KEY=VALUE, such as the word after a forgotten value. */
int dtspank_overrides_check(const char *text, struct dt_error *err);

/* Appends a copy. An equal one before it is removed: srun, sbatch and salloc
 * read their options several times. -1: out of memory.
 */
int dtspank_overrides_add(struct dtspank_overrides *overrides,
                          const char *text);

/* Appends those of a list as in DT_ENV_OVERRIDES. -1: out of memory. */
int dtspank_overrides_decode(struct dtspank_overrides *overrides,
                             const char *list);

/* Returns such a list, to be freed. NULL: out of memory. */
char *dtspank_overrides_encode(const struct dtspank_overrides *overrides);

/* Whether both have the same in the same order. */
bool dtspank_overrides_equal(const struct dtspank_overrides *left,
                             const struct dtspank_overrides *right);

/* Frees the texts and empties the list. */
void dtspank_overrides_fini(struct dtspank_overrides *overrides);

#endif /* DTSPANK_SRUN_OVERRIDES_H */
