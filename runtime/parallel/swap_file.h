/* SPDX-License-Identifier: Apache-2.0 */
/* swap_file.h - the file of a swap: no name, reserved, direct I/O */
#ifndef DT_PARALLEL_SWAP_FILE_H
#define DT_PARALLEL_SWAP_FILE_H

#include <stddef.h>

#include "base/error.h"

enum { DT_SWAP_PAGE = 4096 }; /* what direct I/O is aligned to, or more */

struct dt_swap_file {
    int fd;
    char *path;   /* the name that it had, for messages; NULL: no file */
    size_t align; /* of memory, offsets and lengths: a power of two,
                     DT_SWAP_PAGE or more */
};

/* Makes the file in `directory` and opens it for direct I/O. -1: as
 * dt_swap_create, EX_CONFIG or EX_CANTCREAT.
 */
int dt_swap_file_init(struct dt_swap_file *file, const char *directory,
                      struct dt_error *err);

/* Reserves `bytes` bytes. -1: EX_CANTCREAT, EX_CONFIG as dt_swap_create. */
int dt_swap_file_reserve(const struct dt_swap_file *file, size_t bytes,
                         struct dt_error *err);

/* Gives its space back. */
void dt_swap_file_fini(struct dt_swap_file *file);

#endif /* DT_PARALLEL_SWAP_FILE_H */
