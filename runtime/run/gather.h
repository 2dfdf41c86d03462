/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - a few numbers or a short text of each rank, or of one, to all */
#ifndef DT_RUN_GATHER_H
#define DT_RUN_GATHER_H

#include <stddef.h>

#include "comm/comm.h"

/* Fills all[world * count] with mine[count] of each rank, in the order of
 * ranks. All ranks call it. -1: a peer failed.
 */
int dt_gather(struct dt_comm *comm, const double *mine, size_t count,
              double *all, struct dt_error *err);

/* Fills texts, (world) of bytes + 1 each, with the first `bytes` of `mine` of
 * each rank. `bytes` is a multiple of 6. -1: a peer failed, EX_OSERR.
 */
int dt_gather_texts(struct dt_comm *comm, const char *mine, size_t bytes,
                    char *texts, struct dt_error *err);

/* Copies the `bytes` bytes of `data` of rank `root` to all ranks, which call it
 * with the same `root` and `bytes`. -1: a peer failed, EX_OSERR.
 */
int dt_gather_bytes_of(struct dt_comm *comm, int root, void *data, size_t bytes,
                       struct dt_error *err);

/* Copies the text of rank `root` into the `bytes` bytes of `text` on all ranks,
 * which call it with the same `root` and `bytes`. -1: a peer failed, EX_OSERR.
 */
int dt_gather_text_of(struct dt_comm *comm, int root, char *text, size_t bytes,
                      struct dt_error *err);

#endif /* DT_RUN_GATHER_H */
