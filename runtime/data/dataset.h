/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset.h - text and token files as one stream of tokens
 */
#ifndef DT_DATA_DATASET_H
#define DT_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "base/error.h"

struct dt_dataset;

/* Opens one or more files as one stream (documents in text are whole files,
 * each followed by the EOT token). Token files are nanoGPT (raw uint16) or
 * llm.c (magic 20240520 v1 uint16, 20240801 v7 uint32) shards. Text is checked
 * in full, token ids in samples all over the stream (in full up to 1M tokens):
 * dt_dataset_read checks the rest. NULL and err: EX_NOINPUT, or EX_DATAERR with
 * the file and the byte offset: text that is not UTF-8, a bad header, a token
 * id >= vocab_size, text and tokens mixed, lines of JSON, and as dt_kind_find.
 */
struct dt_dataset *dt_dataset_open(const char *const *paths, size_t path_count,
                                   enum dt_format format, size_t vocab_size,
                                   struct dt_error *err);
void dt_dataset_close(struct dt_dataset *dataset); /* NULL is fine */

/* The number of tokens, and a fingerprint that a resumed run compares: the XXH3
 * of that number and of samples spread over the stream. It does not depend on
 * how the stream is split into files.
 */
size_t dt_dataset_tokens(const struct dt_dataset *dataset);
uint64_t dt_dataset_hash(const struct dt_dataset *dataset);

/* Copies tokens [first, first + count) to out. -1: EX_DATAERR with file and
 * byte offset if one of them is >= vocab_size; EX_IOERR if the file was
 * truncated after it was opened.
 */
int dt_dataset_read(const struct dt_dataset *dataset, size_t first,
                    size_t count, int32_t *out, struct dt_error *err);

#endif /* DT_DATA_DATASET_H */
