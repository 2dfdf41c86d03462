/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles.h - arrays that the device has no room for, in tiles
 *
 * Arrays of equal length (master, m and v of a rank's parts; or its weights)
 * are kept in host memory or in a file, and cut into tiles of equal length;
 * the last may be shorter. A tile has that range of all arrays. It is brought
 * to where it is computed with, and taken back:
 *
 *   kept in        computed with on    a tile passes through
 *   host memory    the host            nothing: it stays where it is
 *   host memory    the device          device memory
 *   a file         the host            a few buffers in host memory
 *   a file         the device          both
 *
 * All arrays are zero at first. Only one thread may use tiles, that of the
 * exec's stream; work of the device is queued there. Tiles of a file are read
 * ahead in their order, and written while others are computed with; -1 is then
 * the failure of the drive (dt_swap_wait), and else of the device.
 */
#ifndef DT_PARALLEL_TILES_H
#define DT_PARALLEL_TILES_H

#include <stdbool.h>
#include <stddef.h>

#include "ops/ops.h"

enum { DT_TILES_ARRAYS = 3 };

/* Where arrays are kept. */
enum dt_tier {
    DT_TIER_DEVICE, /* not in tiles */
    DT_TIER_HOST,
    DT_TIER_FILE,
};

struct dt_tiles_options {
    enum dt_tier tier; /* HOST or FILE */
    bool on_device;    /* computed with there; of a device that is the host:
                          false */
    size_t arrays;     /* up to DT_TILES_ARRAYS */
    enum dt_dtype type;
    size_t count; /* elements of an array, at least 1 */
    size_t tile;  /* elements, up to count */
    /* of a file: */
    size_t buffers;     /* tiles in host memory; from 3 on, reading, computing
                           and writing overlap */
    const char *path;   /* of a directory */
    size_t block_bytes; /* as struct dt_swap_options */
    unsigned queue_depth;
};

struct dt_tiles_bytes {
    size_t device, host, file;
};

/* The bytes that dt_tiles_create takes (dt_swap_plan). */
struct dt_tiles_bytes dt_tiles_plan(const struct dt_tiles_options *options);

struct dt_tiles;

/* Borrows path, and device, ops and stream of exec. NULL and err: EX_OSERR, or
 * those of dt_swap_create.
 */
struct dt_tiles *dt_tiles_create(const struct dt_tiles_options *options,
                                 const struct dt_exec *exec,
                                 struct dt_error *err);
void dt_tiles_destroy(struct dt_tiles *tiles); /* NULL is fine */

/* --- a tile at a time, to compute with --- */

/* Brings tile i: views(arrays) are of it until it is closed, on the device or
 * the host. With `overwrite` its content is undefined, as all of it will be
 * written. Only one is open. -1: above.
 */
int dt_tiles_open(struct dt_tiles *tiles, size_t i, bool overwrite,
                  struct dt_view *views, struct dt_error *err);

/* The work on the open tile is queued: takes it back. -1: above. */
int dt_tiles_close(struct dt_tiles *tiles, struct dt_error *err);

/* --- any range of an array --- */

/* Queues a copy of elements [first, first + count) of an array to or from the
 * host or the device. Host memory that is not staging memory may be used again
 * on return. -1: above.
 */
int dt_tiles_get(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, void *to, struct dt_error *err);
int dt_tiles_put(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, const void *from, struct dt_error *err);

/* The next elements of an array from `first` on, up to `count`, that are in one
 * tile: a view of them in host memory, for reading, until the next call. -1:
 * above.
 */
int dt_tiles_see(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, struct dt_view *view, struct dt_error *err);

/* Starts to read a range of all arrays, as far as it fits into half of the
 * buffers. -1: above.
 */
int dt_tiles_expect(struct dt_tiles *tiles, size_t first, size_t count,
                    struct dt_error *err);

#endif /* DT_PARALLEL_TILES_H */
