/* SPDX-License-Identifier: Apache-2.0 */
/* rankset.h - a set of ranks, as text: "0,4-7" */
#ifndef DT_BASE_RANKSET_H
#define DT_BASE_RANKSET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct dt_rankset {
    uint32_t size;  /* ranks are 0 .. size-1 */
    uint32_t count; /* of them in the set */
    bool *has;
};

/* An empty set. -1: EX_OSERR. Release with dt_rankset_fini. */
int dt_rankset_init(struct dt_rankset *set, uint32_t size,
                    struct dt_error *err);
void dt_rankset_fini(struct dt_rankset *set);

/* Adds one; beyond the size it is left out. */
void dt_rankset_add(struct dt_rankset *set, uint32_t rank);

/* Adds "0,4-7"; ranks beyond the size are left out. -1: EX_DATAERR if it is
 * something else; the set may then hold some of it.
 */
int dt_rankset_parse(struct dt_rankset *set, const char *text,
                     struct dt_error *err);

/* Writes "rank 3" or "ranks 0, 4-7" of a set that is not empty. */
void dt_rankset_print(const struct dt_rankset *set, FILE *out);

#endif /* DT_BASE_RANKSET_H */
