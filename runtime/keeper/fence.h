/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - the workers wait for each other, and exchange data */
#ifndef DT_KEEPER_FENCE_H
#define DT_KEEPER_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_fence {
    int size;
    struct dt_fence_blob {
        uint8_t *data; /* NULL: this rank has not come */
        uint64_t bytes;
    } * all; /* [size] */
};

/* -1: no memory. */
int dt_fence_init(struct dt_fence *fence, int size);
void dt_fence_fini(struct dt_fence *fence);

/* The next one begins, to which nobody has come. */
void dt_fence_clear(struct dt_fence *fence);

/* A rank has come with this data. -1: no memory. */
int dt_fence_add(struct dt_fence *fence, int rank, const void *data,
                 size_t bytes);

/* Whether a rank has come, and all. */
bool dt_fence_has(const struct dt_fence *fence, int rank);
bool dt_fence_complete(const struct dt_fence *fence);

/* The body of DT_WIRE_BLOBS for a complete one, to be freed; NULL: no memory.
 */
uint8_t *dt_fence_join(const struct dt_fence *fence, size_t *bytes);

#endif /* DT_KEEPER_FENCE_H */
