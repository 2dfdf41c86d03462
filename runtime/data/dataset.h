/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset.h - text and token files as one stream of tokens
 */
#ifndef DT_DATA_DATASET_H
#define DT_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Byte tokenizer: ids 0..255 are bytes, DT_BYTE_EOT ends a document. */
enum {
    DT_BYTE_EOT = 256,
    DT_BYTE_VOCAB = 257,
};

struct dt_dataset;

enum dt_data_format {
    DT_DATA_AUTO, /* as dt_kind_find */
    DT_DATA_TEXT,
    DT_DATA_TOKENS_BIN,
};

/* Opens one or more files as one stream (documents in text are whole files,
 * each followed by the EOT token). Token files are nanoGPT (raw uint16) or
 * llm.c (magic 20240520 v1 uint16, 20240801 v7 uint32) shards. Text is checked
 * in full, token ids in samples all over the stream (in full up to 1M tokens):
 * dt_dataset_read checks the rest. NULL and err: EX_NOINPUT, or EX_DATAERR with
 * the file and the byte offset: text that is not UTF-8, a bad header, a token
 * id >= vocab_size, text and tokens mixed, lines of JSON, and as dt_kind_find.
 */
struct dt_dataset *dt_dataset_open(const char *const *paths, size_t path_count,
                                   enum dt_data_format format,
                                   size_t vocab_size, struct dt_error *err);
void dt_dataset_close(struct dt_dataset *dataset); /* NULL is fine */

/* Tokens in all, and a fingerprint (XXH3 of their number and of samples all
 * over the stream, however it is cut into files) that a resumed run compares.
 */
size_t dt_dataset_tokens(const struct dt_dataset *dataset);
uint64_t dt_dataset_hash(const struct dt_dataset *dataset);

/* Copies tokens [first, first + count) to out. -1: EX_DATAERR with file and
 * byte offset if one of them is >= vocab_size; EX_IOERR if the file was cut
 * short since it was opened.
 */
int dt_dataset_read(const struct dt_dataset *dataset, size_t first,
                    size_t count, int32_t *out, struct dt_error *err);

#endif /* DT_DATA_DATASET_H */
