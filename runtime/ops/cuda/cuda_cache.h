/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_cache.h - files of earlier runs in the home of the user (private to
 * ops/cuda)
 *
 * $XDG_CACHE_HOME/disttrain/KIND-HASH, by default in ~/.cache, of the hash of a
 * first line that names all on which the file depends. A process that has
 * another user's home, as below sudo, leaves no file there, and reads none.
 */
#ifndef DT_OPS_CUDA_CUDA_CACHE_H
#define DT_OPS_CUDA_CUDA_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_cuda_cache {
    char dir[PATH_MAX - 64], path[PATH_MAX]; /* "": there can be no file */
};

#define DT_HASH_EMPTY 14695981039346656037u

/* FNV-1a of `bytes` bytes, which goes on from `hash`: from DT_HASH_EMPTY. */
uint64_t dt_cuda_cache_hash(uint64_t hash, const void *data, size_t bytes);

/* Writes "NAME, sm_90, 132 multiprocessors" of the GPU in use (cuda_table.c).
 * False: it cannot tell.
 */
bool dt_cuda_cache_gpu(char *text, size_t bytes);

/* Writes "driver 580.65.06 for CUDA 13000" of the release of the kernel module
 * and the version that libcuda has (cudaDriverGetVersion); the first is "?"
 * where no /proc tells it. `root` ("") is prepended to /proc.
 */
void dt_cuda_cache_driver(const char *root, int version, char *text,
                          size_t bytes);

/* Finds the place of the file whose first line is `head`. */
void dt_cuda_cache_find(struct dt_cuda_cache *cache, const char *kind,
                        const char *head);

/* The whole file, which the caller frees; NULL: there is none of this user's,
 * with *damaged set if it is there and is no text of up to `most` bytes.
 */
char *dt_cuda_cache_read(const struct dt_cuda_cache *cache, size_t most,
                         bool *damaged);

/* Puts the text into a temporary file, which then takes the place of the other.
 * A disk that is full, or read-only, costs the next run its time and this one
 * nothing: then `path` becomes "", and nothing else is tried.
 */
void dt_cuda_cache_write(struct dt_cuda_cache *cache, const char *text,
                         size_t bytes);

#endif /* DT_OPS_CUDA_CUDA_CACHE_H */
