/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_sink.h - writes a file of a checkpoint and checksums it on the way */
#ifndef DT_CKPT_CKPT_SINK_H
#define DT_CKPT_CKPT_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <xxhash.h>

#include "base/error.h"

struct dt_ckpt_sink {
    int fd;
    char *path;
    XXH3_state_t *state;
    off_t written; /* bytes written so far */
    off_t flushed; /* bytes for which write-back has been started */
};

/* Creates or truncates the file `path`. After success the caller calls exactly
 * one of finish and abandon. -1: EX_CANTCREAT, EX_OSERR.
 */
int dt_ckpt_sink_init(struct dt_ckpt_sink *sink, const char *path,
                      struct dt_error *err);

/* Appends `bytes` bytes. -1: EX_IOERR with path and cause. */
int dt_ckpt_sink_write(struct dt_ckpt_sink *sink, const void *data,
                       size_t bytes, struct dt_error *err);

/* Syncs and closes the file and returns the XXH3-64 of its content in *xxh3.
 * -1: EX_IOERR; the file is removed.
 */
int dt_ckpt_sink_finish(struct dt_ckpt_sink *sink, uint64_t *xxh3,
                        struct dt_error *err);

/* Closes and removes the file. */
void dt_ckpt_sink_abandon(struct dt_ckpt_sink *sink);

#endif /* DT_CKPT_CKPT_SINK_H */
