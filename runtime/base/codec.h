/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - files and blocks that may be compressed with gzip or zstd
 *
 * The one place that includes zlib and libzstd; either may be missing from a
 * build, and a message says so.
 */
#ifndef DT_BASE_CODEC_H
#define DT_BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dt_codec {
    DT_CODEC_NONE,
    DT_CODEC_GZIP,
    DT_CODEC_ZSTD,
};

/* "gzip", "zstd"; "none" of NONE. */
const char *dt_codec_name(enum dt_codec codec);

/* Whether this build can read it. */
bool dt_codec_is_built(enum dt_codec codec);

/* Unpacks a block of `count` bytes that becomes exactly `bytes` bytes. -1:
 * EX_DATAERR if it does not, EX_CONFIG if the build has no such codec; the text
 * names no file.
 */
int dt_codec_unpack(enum dt_codec codec, const void *from, size_t count,
                    void *to, size_t bytes, struct dt_error *err);

/* A regular file that is read from its beginning, unpacked. */
struct dt_input;

/* Opens `path`; close with dt_input_close. NULL and err: as dt_file_open,
 * EX_CONFIG as above, EX_OSERR.
 */
struct dt_input *dt_input_open(const char *path, enum dt_codec codec,
                               struct dt_error *err);
void dt_input_close(struct dt_input *input); /* NULL is fine */

/* Reads the next bytes: `bytes` of them, or all *count < bytes that are left.
 * Compressed members that follow each other are one file, as for gzip and
 * zstd. -1: EX_IOERR; EX_DATAERR, damaged or cut short; both with the path.
 */
int dt_input_read(struct dt_input *input, void *to, size_t bytes, size_t *count,
                  struct dt_error *err);

/* The size of the file itself, and some of its bytes, which must be there. -1:
 * EX_IOERR, EX_DATAERR with the path.
 */
uint64_t dt_input_bytes(const struct dt_input *input);
int dt_input_at(const struct dt_input *input, uint64_t offset, void *to,
                size_t bytes, struct dt_error *err);

#endif /* DT_BASE_CODEC_H */
