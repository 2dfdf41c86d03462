/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - tokens on disk: the cache of a file, and each part of one in making
 *
 * A header with sums; an offset for each example and one for the end, in
 * tokens; the tokens; notes, NUL-terminated. Numbers are of this machine's byte
 * order: elsewhere the file is not known.
 */
#ifndef DT_DATA_CACHE_H
#define DT_DATA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

/* What was counted while tokens were made. */
struct dt_cache_counts {
    uint64_t lines;   /* that are not blank */
    uint64_t bad;     /* of them, left out */
    uint64_t pairs;   /* prompts with a completion, */
    uint64_t seams;   /* and of these, those whose tokens do not join */
    uint64_t renamed; /* roles human and gpt */
    uint64_t targets; /* tokens with DT_TARGET_BIT */
};

/* Examples and what is known of them: in memory, or mapped. */
struct dt_cache {
    struct dt_map map; /* data NULL: in memory */
    struct dt_cache_counts counts;
    uint64_t count, token_count, notes_bytes;
    const uint64_t *offsets; /* [count + 1], from 0 to token_count */
    const uint32_t *tokens;
    const char *notes; /* strings one behind the other */
};

/* Maps a file and checks it: all of the header, the offsets and the notes, and
 * 1M tokens, all over it, by a sum, so that a file of any size opens in a
 * moment. Whoever reads tokens checks that ids are in range, and reads in
 * dt_guard_run. -1: EX_NOINPUT, EX_IOERR, EX_DATAERR (it is no cache, damaged,
 * or not of `key`). Release with dt_cache_close.
 */
int dt_cache_open(struct dt_cache *cache, const char *path, uint64_t key,
                  struct dt_error *err);
void dt_cache_close(struct dt_cache *cache); /* a zeroed one is fine */

/* The key of the cache at `path`, if it was written with this stamp, not 0. */
bool dt_cache_key(const char *path, uint64_t stamp, uint64_t *key);

/* Writes `parts`, joined, as `path`: to `temporary` (of the same file system),
 * fsync, rename. one_example: they are pieces of one. At most notes_limit notes
 * are kept. -1: EX_CANTCREAT, EX_IOERR, and `path` is as it was.
 */
int dt_cache_write(const char *path, const char *temporary, uint64_t key,
                   uint64_t stamp, const struct dt_cache *parts,
                   size_t part_count, bool one_example, size_t notes_limit,
                   struct dt_error *err);

#endif /* DT_DATA_CACHE_H */
