/* SPDX-License-Identifier: Apache-2.0 */
/*
 * documents.h - the documents of a batch, a few of similar lengths at a time
 *
 * Some implementations of attention compute several documents at once, as if
 * each were as long as the longest one could be. So documents are in classes:
 * those of class c have up to DT_DOCUMENT_LEAST * 4^c positions, and more than
 * a quarter of that; the last class ends with the longest document that there
 * can be. A run takes as many documents of one class as the batch would have if
 * all were that long. How many documents there are, and where, is data; only
 * the number of runs is not. A document of one position, as padding is, has
 * only itself to attend to, and is in no run.
 *
 * The last run of a class may have places for more documents than there are.
 * Behind its last document all places are empty, and before it none is: cuDNN
 * is known to skip empty rows at the end of a ragged batch, but anywhere else
 * only from 9.25 on.
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
 * the place is empty.
 */
struct dt_document {
    int32_t first, count;
};

struct dt_documents {
    size_t tokens;  /* the most that a batch has, and ... */
    size_t longest; /* ... that a document of it has: places depend on them */
    struct dt_view spans; /* I32, struct dt_document for each one of each run,
                             classes one after the other; count 0: nothing is
                             known of documents */
    uint8_t runs[DT_DOCUMENT_CLASSES]; /* of each class */
};

/* How many classes there are. */
static inline size_t dt_document_classes(const struct dt_documents *d)
{
    size_t c = 1;

    while (c < DT_DOCUMENT_CLASSES &&
           ((size_t)DT_DOCUMENT_LEAST << (2 * (c - 1))) < d->longest)
        c++;
    return c;
}

/* Of a run of one of these classes: positions that a document has at most, and
 * places. Their product is at most `tokens`, so memory for each position is at
 * most that of the batch. Memory that also grows with the length of rows, as
 * that of sums in one order, is that of rows up to four times as long as the
 * documents.
 */
static inline size_t dt_document_length(const struct dt_documents *d, size_t c)
{
    const size_t length = (size_t)DT_DOCUMENT_LEAST << (2 * c);
    const size_t most = c > 0 ? d->longest : d->tokens;

    return length < most ? length : most;
}

static inline size_t dt_document_count(const struct dt_documents *d, size_t c)
{
    return d->tokens > 0 ? d->tokens / dt_document_length(d, c) : 0;
}

/* The most spans that a batch of `tokens` tokens has: one for each document,
 * and the empty ones of the last run of each class, fewer than tokens / 64 (1 +
 * 1/4 + ...), of which the last class has at most as many as the one before it.
 */
static inline size_t dt_document_places(size_t tokens)
{
    return tokens / 2 + tokens / 32 + DT_DOCUMENT_CLASSES;
}

/* Counts the runs of a batch with doc_start(B, T), and writes its spans, unless
 * they are NULL. documents->tokens is set, at least B T, and longest, at least
 * that of the batch; view `spans` is left.
 */
void dt_documents_find(struct dt_documents *documents,
                       struct dt_document *spans, const int32_t *doc_start,
                       size_t B, size_t T);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_DOCUMENTS_H */
