/* SPDX-License-Identifier: Apache-2.0 */
/*
 * documents.h - the documents of a batch, a few of similar lengths at a time
 *
 * Some implementations of attention compute several documents at once, as if
 * each were as long as the longest one could be. So documents are in classes:
 * those of class c have up to DT_DOCUMENT_LEAST * 4^c positions, and more than
 * a quarter of that. A run takes as many documents of one class as the batch
 * would have if all were that long. How many documents there are, and where, is
 * data; only the number of runs is not. A document of one position, as padding
 * is, has only itself to attend to, and is in no run.
 */
#ifndef DT_OPS_DOCUMENTS_H
#define DT_OPS_DOCUMENTS_H

#include <stdint.h>

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DT_DOCUMENT_LEAST = 64,
    DT_DOCUMENT_CLASSES = 14, /* the last one: of any length */
};

/* The first token n of a document in the batch (B, T), and how many it has; 0:
 * there is none.
 */
struct dt_document {
    int32_t first, count;
};

struct dt_documents {
    size_t tokens; /* the most that a batch has, on which places depend */
    struct dt_view spans; /* I32, struct dt_document for each one of each run,
                             classes one after the other; count 0: nothing is
                             known of documents */
    uint8_t runs[DT_DOCUMENT_CLASSES]; /* of each class */
};

/* Of a run of class c: positions that a document has at most, and documents.
 * Their product is at most `tokens`, so memory for each position is at most
 * that of the batch. Memory that also grows with the length of rows, as that of
 * sums in one order, is that of rows up to four times as long as the documents.
 */
static inline size_t dt_document_length(size_t tokens, size_t c)
{
    const size_t length = (size_t)DT_DOCUMENT_LEAST << (2 * c);

    return length < tokens ? length : tokens;
}

static inline size_t dt_document_count(size_t tokens, size_t c)
{
    return tokens > 0 ? tokens / dt_document_length(tokens, c) : 0;
}

/* The most spans that a batch of `tokens` tokens has: one for each document,
 * and those of the last run of each class that are not there, fewer than tokens
 * / 64 (1 + 1/4 + ...).
 */
static inline size_t dt_document_places(size_t tokens)
{
    return tokens / 2 + tokens / 32 + DT_DOCUMENT_CLASSES;
}

/* Counts the runs of a batch with doc_start(B, T), and writes its spans, unless
 * they are NULL. documents->tokens is set, at least B T; view `spans` is left.
 */
void dt_documents_find(struct dt_documents *documents,
                       struct dt_document *spans, const int32_t *doc_start,
                       size_t B, size_t T);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_DOCUMENTS_H */
