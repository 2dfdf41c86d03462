/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - who uses which block of keys and values (private to rollout/) */
#ifndef DT_ROLLOUT_BLOCKS_H
#define DT_ROLLOUT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dt_blocks {
    size_t count, unused;
    int32_t *stack;  /* (count) those that are not used come first */
    uint32_t *users; /* (count) of each */
};

/* `count` blocks that nobody uses. -1: EX_OSERR; dt_blocks_fini in any case. */
int dt_blocks_init(struct dt_blocks *blocks, size_t count,
                   struct dt_error *err);
void dt_blocks_fini(struct dt_blocks *blocks);

/* A block with one user; -1 if all are used. */
int32_t dt_blocks_take(struct dt_blocks *blocks);

/* One user more, one less. */
void dt_blocks_share(struct dt_blocks *blocks, int32_t block);
void dt_blocks_drop(struct dt_blocks *blocks, int32_t block);

#endif /* DT_ROLLOUT_BLOCKS_H */
