/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - the batch that this rank gets, resumable at any step
 *
 * A dataset is a memory-mapped stream of tokens. A range of it is cut into
 * samples: sample i is tokens [i*T, i*T + T] of the range (T inputs, the
 * targets one further), and what is left at the end is never a sample.
 *
 * The order is one endless stream of global sample numbers p: epoch p / n, and
 * there place p % n of a permutation of the n samples that depends on (seed,
 * epoch, p % n) only. Micro-batch k of rank r holds p = (k*world + r)*B .. + B.
 * An epoch that is no multiple of world*B just continues into the next one: no
 * sample is dropped or seen twice. So every (B, world, accumulation) with an
 * equal product sees the same samples in the same order in each optimizer
 * step, and any p can be resumed at in O(1).
 */
#ifndef DT_DATA_DATA_H
#define DT_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/batch.h"

/* Byte tokenizer: ids 0..255 are bytes, DT_BYTE_EOT ends a document. */
enum {
    DT_BYTE_EOT = 256,
    DT_BYTE_VOCAB = 257,
};

struct dt_dataset;

enum dt_data_format {
    DT_DATA_AUTO, /* by content: llm.c magic, else .bin by name, else text */
    DT_DATA_TEXT,
    DT_DATA_TOKENS_BIN,
};

/* Opens one or more files as one stream (documents in text are whole files,
 * each followed by the EOT token). Token files are nanoGPT (raw uint16) or
 * llm.c (magic 20240520 v1 uint16, 20240801 v7 uint32) shards. Text is checked
 * in full, token ids in samples all over the stream (in full up to 1M tokens):
 * dt_dataset_read checks the rest. NULL and err: EX_NOINPUT, or EX_DATAERR with
 * the file and the byte offset: text that is not UTF-8, a bad header, a token
 * id >= vocab_size, text and tokens mixed.
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
 * byte offset if one of them is >= vocab_size.
 */
int dt_dataset_read(const struct dt_dataset *dataset, size_t first,
                    size_t count, int32_t *out, struct dt_error *err);

/* A range of tokens of a dataset. */
struct dt_data_range {
    size_t first, count;
};

struct dt_loader_options {
    size_t B, T;
    int rank, world;
    uint64_t seed;
    bool shuffle;      /* false: samples in file order */
    bool repeat;       /* training: epochs without end. false (evaluation):
                          one pass, last batches padded with DT_IGNORE so that
                          all ranks see equally many batches */
    size_t prefetch;   /* batches made ahead by the loader thread, >= 1 */
    int timeout_ms;    /* of waiting for one batch */
};

struct dt_loader;

/* Starts the loader thread at global sample `position`. NULL and err
 * (EX_DATAERR if the range holds no sample of T+1 tokens).
 */
struct dt_loader *dt_loader_create(const struct dt_dataset *dataset,
                                   struct dt_data_range range,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err);
void dt_loader_destroy(struct dt_loader *loader); /* joins; NULL is fine */

/* Samples of one epoch. */
uint64_t dt_loader_epoch_samples(const struct dt_loader *loader);

/* The next micro-batch of this rank: rows are global samples position +
 * rank*B + i of the order, and position advances by world*B. *batch is valid
 * until the next call. 1 = a batch, 0 = end of the pass, -1 = EX_DATAERR as
 * dt_dataset_read, EX_IOERR if none came within timeout_ms.
 */
int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err);

/* Global sample number that the next batch starts at (of the caller's side,
 * not of the prefetch): what a checkpoint stores.
 */
uint64_t dt_loader_position(const struct dt_loader *loader);

#endif /* DT_DATA_DATA_H */
