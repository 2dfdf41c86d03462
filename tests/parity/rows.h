/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - batches of documents: one a row, or packed */
#ifndef TESTS_PARITY_ROWS_H
#define TESTS_PARITY_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/tensor.h"

enum {
    ROWS_MAX = 8,    /* rows of a batch */
    ROWS_WIDTH = 32, /* positions of a row */
};

struct document {
    size_t count;
    int32_t ids[ROWS_WIDTH];
    bool target[ROWS_WIDTH]; /* a token that the model is to predict; the first
                                never is */
};

/* Do not copy: batch points into it. */
struct rows {
    struct dt_batch batch;
    int32_t inputs[ROWS_MAX * ROWS_WIDTH], targets[ROWS_MAX * ROWS_WIDTH],
        doc_start[ROWS_MAX * ROWS_WIDTH];
    int64_t numbers[ROWS_MAX];
    size_t used[ROWS_MAX]; /* positions */
};

/* B empty rows of T positions; the number of row b is b. */
void rows_init(struct rows *rows, size_t B, size_t T);

/* Puts a document behind those that are in row b: the position of its first
 * token.
 */
size_t rows_add(struct rows *rows, size_t b, const struct document *document);

/* Rows first, first + step, ... of `from`, at most `count`. */
void rows_take(struct rows *rows, const struct rows *from, size_t first,
               size_t step, size_t count);

#endif /* TESTS_PARITY_ROWS_H */
