/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - what a loader would do, in the plainest way */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "tests/parity/rows.h"

/* The rest of a row is a document of padding: id 0, which is a token too. */
static void pad(struct rows *rows, size_t b)
{
    size_t T = rows->batch.T;
    for (size_t t = rows->used[b]; t < T; t++) {
        rows->inputs[b * T + t] = 0;
        rows->targets[b * T + t] = DT_IGNORE;
        rows->doc_start[b * T + t] = (int32_t)rows->used[b];
    }
}

void rows_init(struct rows *rows, size_t B, size_t T)
{
    assert(B <= ROWS_MAX && T <= ROWS_WIDTH);
    *rows = (struct rows){.batch = {.B = B,
                                    .T = T,
                                    .inputs = rows->inputs,
                                    .targets = rows->targets,
                                    .doc_start = rows->doc_start,
                                    .rows = rows->numbers}};
    for (size_t b = 0; b < B; b++) {
        rows->numbers[b] = (int64_t)b;
        pad(rows, b);
    }
}

size_t rows_add(struct rows *rows, size_t b, const struct document *document)
{
    size_t at = rows->used[b], base = b * rows->batch.T + at;
    assert(at + document->count <= rows->batch.T);
    for (size_t t = 0; t < document->count; t++) {
        bool target = t + 1 < document->count && document->target[t + 1];
        rows->inputs[base + t] = document->ids[t];
        rows->targets[base + t] = target ? document->ids[t + 1] : DT_IGNORE;
        rows->doc_start[base + t] = (int32_t)at;
        rows->batch.target_count += target;
    }
    rows->used[b] += document->count;
    pad(rows, b);
    return at;
}

void rows_take(struct rows *rows, const struct rows *from, size_t first,
               size_t step, size_t count)
{
    size_t T = from->batch.T, B = 0;
    rows_init(rows, 0, T);
    for (size_t b = first; b < from->batch.B && B < count; b += step, B++) {
        size_t bytes = T * sizeof(int32_t);
        memcpy(rows->inputs + B * T, from->inputs + b * T, bytes);
        memcpy(rows->targets + B * T, from->targets + b * T, bytes);
        memcpy(rows->doc_start + B * T, from->doc_start + b * T, bytes);
        rows->numbers[B] = from->numbers[b];
        rows->used[B] = from->used[b];
        for (size_t t = 0; t < T; t++)
            rows->batch.target_count += from->targets[b * T + t] != DT_IGNORE;
    }
    rows->batch.B = B;
}
