/* SPDX-License-Identifier: Apache-2.0 */
/* gloo_ring.h - gloo's own all-reduce, to compare ours with */
#ifndef DT_BENCH_GLOO_RING_H
#define DT_BENCH_GLOO_RING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors are exceptions that end the program. */
struct gloo_ring;
struct gloo_ring *gloo_ring_create(int rank, int size, const char *address);
const void *gloo_ring_doors(struct gloo_ring *ring, size_t *bytes);
void gloo_ring_connect(struct gloo_ring *ring, int peer, const void *doors,
                       size_t bytes);
void gloo_ring_all_reduce(struct gloo_ring *ring, float *data, size_t count);
void gloo_ring_destroy(struct gloo_ring *ring);

#ifdef __cplusplus
}
#endif

#endif /* DT_BENCH_GLOO_RING_H */
