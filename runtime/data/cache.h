/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - the cache of a file's tokens on disk, and the parts it is made of
 *
 * A cache holds a header with checksums, the offset of each example and of the
 * end (in tokens), a checksum of each block of tokens, the tokens, and notes
 * (NUL-terminated). Numbers are in the byte order of this machine; a machine
 * with the other order rejects the file.
 */
#ifndef DT_DATA_CACHE_H
#define DT_DATA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

/* Counts while a file is tokenized. */
struct dt_cache_counts {
    uint64_t lines;   /* lines that are not blank */
    uint64_t bad;     /* bad lines, which are skipped */
    uint64_t dropped; /* lines left out, as an image of theirs is bad */
    uint64_t pairs;   /* prompts with a completion */
    uint64_t seams;   /* pairs with a token that spans both */
    uint64_t renamed; /* messages with the role human or gpt */
    uint64_t targets; /* tokens with DT_TARGET_BIT */
    uint64_t words;   /* of the tokens: words of examples that are not tokens */
};

/* Reading a row means checking whole blocks, so they are small. */
enum { DT_CACHE_BLOCK_TOKENS = 1 << 18 };

/* Tokenized examples with their counts and notes, in memory or mapped. */
struct dt_cache {
    struct dt_map map; /* data is NULL if the cache is in memory; then, too: */
    char *path;
    const uint64_t *sums;   /* of blocks */
    unsigned char *checked; /* blocks that have been checked */
    struct dt_cache_counts counts;
    uint64_t count, token_count, notes_bytes;
    const uint64_t *offsets; /* [count + 1], from 0 to token_count */
    const uint32_t *tokens;
    const char *notes; /* consecutive strings */
};

/* Maps a file and checks the whole header, offsets, sums and notes. Of the
 * tokens, it checks only up to 1M spread over the file, so that a file of any
 * size opens quickly; the reader must call dt_cache_check, check that ids are
 * in range, and read in dt_guard_run. Release with dt_cache_close. -1:
 * EX_NOINPUT, EX_IOERR, EX_DATAERR (not a cache, damaged, or made with another
 * key), EX_OSERR.
 */
int dt_cache_open(struct dt_cache *cache, const char *path, uint64_t key,
                  struct dt_error *err);
void dt_cache_close(struct dt_cache *cache); /* a zeroed one is fine */

/* Checks the blocks that contain the `count` tokens from number `first` on,
 * unless they have been checked. Any thread may call it, in dt_guard_run. -1:
 * EX_DATAERR, naming the file and the block, with a remedy.
 */
int dt_cache_check(const struct dt_cache *cache, uint64_t first, uint64_t count,
                   struct dt_error *err);

/* Reads the key of the cache at `path` into *key. False unless it was written
 * with this stamp; a stamp of 0 never matches.
 */
bool dt_cache_key(const char *path, uint64_t stamp, uint64_t *key);

/* Joins `parts` and writes them to `temporary`, syncs that and renames it to
 * `path` on the same file system. With one_example, the parts are pieces of a
 * single example. At most notes_limit notes are kept. -1: EX_CANTCREAT,
 * EX_IOERR; `path` is unchanged.
 */
int dt_cache_write(const char *path, const char *temporary, uint64_t key,
                   uint64_t stamp, const struct dt_cache *parts,
                   size_t part_count, bool one_example, size_t notes_limit,
                   struct dt_error *err);

#endif /* DT_DATA_CACHE_H */
