/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - memory of a worker that outlives it
 *
 * It is a file in memory, which the worker has from its keeper (inherited.h).
 * The worker allocates buffers by name, one after another. The keeper maps
 * none, so they do not count as its memory. When a worker is started again, it
 * makes the same allocations and finds the content of the earlier ones. That
 * content has to be of use after an end at any instruction. Nothing in the file
 * is trusted.
 */
#ifndef DT_SEGMENT_SEGMENT_H
#define DT_SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

struct dt_segment;

/* Maps the segment in the file `fd`, which the caller keeps open. The file is
 * emptied unless it is one with the same `hash`, of all on which its content
 * depends. NULL: EX_OSERR.
 */
struct dt_segment *dt_segment_open(int fd, uint64_t hash, struct dt_error *err);

/* NULL is fine. Buffers stay. */
void dt_segment_close(struct dt_segment *segment);

/* Allocates the next buffer, in host memory. It is zero, unless this one and
 * all before it have the names and sizes of an earlier worker's. The caller
 * destroys it, and the content stays. NULL and err: EX_OSERR.
 */
struct dt_buffer *dt_segment_buffer(struct dt_segment *segment,
                                    const char *name, size_t bytes,
                                    struct dt_error *err);

/* The same, but pages take memory only once they are written to. */
struct dt_buffer *dt_segment_room(struct dt_segment *segment, const char *name,
                                  size_t bytes, struct dt_error *err);

/* Whether all buffers so far were there. */
bool dt_segment_found(const struct dt_segment *segment);

/* Drops the content of an earlier worker: all bytes of all buffers are zero
 * then. None of them was destroyed. -1: EX_OSERR.
 */
int dt_segment_clear(struct dt_segment *segment, struct dt_error *err);

/* Bytes of memory that the file `fd` takes. */
size_t dt_segment_held(int fd);

#endif /* DT_SEGMENT_SEGMENT_H */
