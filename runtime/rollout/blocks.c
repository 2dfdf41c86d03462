/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - blocks with a count of their users */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "rollout/blocks.h"

int dt_blocks_init(struct dt_blocks *blocks, size_t count, struct dt_error *err)
{
    *blocks = (struct dt_blocks){
        .count = count,
        .unused = count,
        .stack = calloc(count, sizeof(*blocks->stack)),
        .users = calloc(count, sizeof(*blocks->users)),
    };
    if (!blocks->stack || !blocks->users)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count; i++)
        blocks->stack[i] = (int32_t)(count - 1 - i);
    return 0;
}

void dt_blocks_fini(struct dt_blocks *blocks)
{
    free(blocks->stack);
    free(blocks->users);
}

int32_t dt_blocks_take(struct dt_blocks *blocks)
{
    if (blocks->unused == 0)
        return -1;
    int32_t block = blocks->stack[--blocks->unused];
    blocks->users[block] = 1;
    return block;
}

void dt_blocks_share(struct dt_blocks *blocks, int32_t block)
{
    assert(blocks->users[block] > 0);
    blocks->users[block]++;
}

void dt_blocks_drop(struct dt_blocks *blocks, int32_t block)
{
    assert(blocks->users[block] > 0);
    if (--blocks->users[block] == 0)
        blocks->stack[blocks->unused++] = block;
}
