/* SPDX-License-Identifier: Apache-2.0 */
/* workspace.c - the workspaces of operations on GPUs */
#include "config.h"

#include <stdint.h>

#include "ops/workspace.h"

enum {
    PAD = 64,   /* columns; rows then begin at multiples of 128 bytes */
    TILE = 256, /* rows of cuBLASLt's largest tiles */
    MOST_ROWS = 1 << 16,
    ALIGN = 256, /* bytes: parts of attention's workspace */
};

/* A chunk reads and writes dw once, 8 V C bytes, and its matrix multiplications
 * are 6 rows V C operations: at 4.8 TB/s and 700 TFLOP/s the former takes 195 /
 * rows of the time of the latter, 1.2 % with 16384 rows. Their logits are 1.65
 * GB for GPT-2 in bf16, 2 bytes * 50304 * 16384. More gains little, and is
 * taken only of memory that nobody else needs.
 */
static const size_t MOST_BYTES = (size_t)2 << 30;

static size_t round_up(size_t x, size_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Matrix multiplications are fastest if extents are multiples of 16 bytes
 * (cuBLAS's documentation, "Tensor Core Usage"), and GPT-2's 50257 is odd.
 */
size_t dt_workspace_head_columns(size_t V)
{
    return V % DT_HEAD_UNIT == 0 ? V : round_up(V, PAD);
}

/* A call copies 4 V C bytes, half the traffic of one dw. */
size_t dt_workspace_head_copy(enum dt_dtype type, size_t C, size_t V)
{
    return V % DT_HEAD_UNIT == 0
               ? 0
               : dt_workspace_head_columns(V) * C * dt_dtype_bytes(type);
}

/* Rows of logits of `precision` that fit into `bytes`. They are fewer than 2^31
 * elements, from which on products of cuBLASLt have been wrong.
 */
static size_t rows_in(enum dt_dtype precision, size_t V, size_t bytes)
{
    const size_t columns = dt_workspace_head_columns(V);
    const size_t fit = bytes / (columns * dt_dtype_bytes(precision));
    const size_t most =
        INT32_MAX / columns < MOST_ROWS ? INT32_MAX / columns : MOST_ROWS;
    const size_t rows = fit < most ? fit : most;

    return rows < 1 ? 1 : rows;
}

/* One row may have logits of either precision. */
size_t dt_workspace_head(enum dt_dtype type, size_t N, size_t C, size_t V,
                         bool whole)
{
    const size_t copy = dt_workspace_head_copy(type, C, V);
    const size_t most = whole ? SIZE_MAX : MOST_BYTES;
    const size_t rows = rows_in(type, V, copy < most ? most - copy : 0);
    const size_t columns = dt_workspace_head_columns(V);
    const size_t least = columns * sizeof(float);
    const size_t logits =
        (N < rows ? N : rows) * columns * dt_dtype_bytes(type);

    return (copy + (logits > least ? logits : least)) / sizeof(float);
}

/* A call uses no more than it would plan for itself: a run that plans for
 * larger batches, perhaps of evaluations, cuts this one at the same rows, and
 * so adds in the same order. Parts are equal if that divides N, otherwise they
 * are whole tiles where these fit.
 */
size_t dt_workspace_head_rows(enum dt_dtype type, enum dt_dtype precision,
                              size_t N, size_t C, size_t V, size_t count)
{
    const size_t copy = dt_workspace_head_copy(type, C, V);
    const size_t own = dt_workspace_head(type, N, C, V, true);
    const size_t room = count < own ? count : own;
    const size_t most = rows_in(precision, V, room * sizeof(float) - copy);
    const size_t parts = (N + most - 1) / most, rows = (N + parts - 1) / parts;
    const size_t tiles = round_up(rows, TILE);

    return N % parts > 0 && tiles <= most ? tiles : rows;
}

size_t dt_workspace_attention(const struct dt_attention *a)
{
    return a->B * a->NH * a->T;
}

size_t dt_workspace_attention_rows(const struct dt_attention *a)
{
    return round_up(a->B * a->NH * a->T * sizeof(float), ALIGN);
}

size_t dt_workspace_attention_sums(const struct dt_attention *a)
{
    return round_up(a->B * a->NH * a->T * a->HS * sizeof(float), ALIGN);
}

size_t dt_workspace_attention_starts(size_t count)
{
    return round_up((count + 1) * sizeof(int64_t), ALIGN);
}

/* Documents have starts and lengths, at most of the shortest class, and a
 * second number for each row and head.
 */
static size_t planned_documents(const struct dt_attention *a)
{
    return a->documents.spans.count == 0
               ? 0
               : dt_workspace_attention_rows(a) +
                     3 * dt_workspace_attention_starts(
                             dt_document_count(&a->documents, 0));
}

/* cuDNN takes 16-bit types without dropout. */
static size_t planned_attention(enum dt_dtype type,
                                const struct dt_attention *a)
{
    bool fused = type != DT_F32 && a->dropout.rate == 0 && a->HS % 8 == 0;
    size_t bytes = ALIGN + dt_workspace_attention_rows(a) +
                   dt_workspace_attention_sums(a) + planned_documents(a);

    return fused ? bytes / sizeof(float) : dt_workspace_attention(a);
}

const struct dt_ops *dt_ops_planned_gpu(void)
{
    static const struct dt_ops sizes = {
        .norm_sums = true,
        .attention_workspace = planned_attention,
        .loss_workspace = dt_workspace_head,
    };

    return &sizes;
}
