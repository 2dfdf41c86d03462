/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - the workers wait for each other, and each gets the data of all */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "keeper/fence.h"

int dt_fence_init(struct dt_fence *fence, int size)
{
    *fence = (struct dt_fence){.size = size};
    fence->all = calloc((size_t)size, sizeof(*fence->all));
    return fence->all ? 0 : -1;
}

void dt_fence_fini(struct dt_fence *fence)
{
    if (fence->all)
        dt_fence_clear(fence);
    free(fence->all);
}

void dt_fence_clear(struct dt_fence *fence)
{
    for (int r = 0; r < fence->size; r++) {
        free(fence->all[r].data);
        fence->all[r] = (struct dt_fence_blob){0};
    }
}

int dt_fence_add(struct dt_fence *fence, int rank, const void *data,
                 size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    if (!copy)
        return -1;
    memcpy(copy, data, bytes);
    free(fence->all[rank].data);
    fence->all[rank] = (struct dt_fence_blob){copy, bytes};
    return 0;
}

bool dt_fence_has(const struct dt_fence *fence, int rank)
{
    return fence->all[rank].data;
}

bool dt_fence_complete(const struct dt_fence *fence)
{
    for (int r = 0; r < fence->size; r++)
        if (!dt_fence_has(fence, r))
            return false;
    return true;
}

uint8_t *dt_fence_join(const struct dt_fence *fence, size_t *bytes)
{
    *bytes = 0;
    for (int r = 0; r < fence->size; r++)
        *bytes += sizeof(uint64_t) + fence->all[r].bytes;
    uint8_t *joined = malloc(*bytes), *at = joined;
    for (int r = 0; joined && r < fence->size; r++) {
        const struct dt_fence_blob *blob = &fence->all[r];
        memcpy(at, &blob->bytes, sizeof(blob->bytes));
        memcpy(at + sizeof(blob->bytes), blob->data, blob->bytes);
        at += sizeof(blob->bytes) + blob->bytes;
    }
    return joined;
}
