/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - operations in words */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm_impl.h"

static const char *const op_names[] = {
    [DT_OP_ALL_REDUCE] = "all_reduce",
    [DT_OP_REDUCE_SCATTER] = "reduce_scatter",
    [DT_OP_REDUCE_SCATTER_INT8] = "reduce_scatter_int8",
    [DT_OP_ALL_GATHER] = "all_gather",
    [DT_OP_BROADCAST] = "broadcast",
    [DT_OP_SCALARS] = "reduce_scalars",
    [DT_OP_BARRIER] = "barrier",
    [DT_OP_MEET] = "connecting",
};

const char *dt_op_name(enum dt_op_kind kind)
{
    return op_names[kind];
}

static const char *const dtype_names[] = {
    [DT_F32] = "f32", [DT_BF16] = "bf16", [DT_F16] = "fp16", [DT_I32] = "i32",
    [DT_I64] = "i64", [DT_F64] = "f64",   [DT_U8] = "u8",
};

static void describe(const struct dt_op *op, char *text, size_t bytes)
{
    if (op->kind == DT_OP_BARRIER || op->kind == DT_OP_MEET)
        snprintf(text, bytes, "%s", op_names[op->kind]);
    else if (op->kind == DT_OP_SCALARS)
        snprintf(text, bytes, "reduce_scalars(%zu x f64)", op->scalar_count);
    else
        snprintf(text, bytes, "%s(%zu x %s)", op_names[op->kind],
                 op->view.count, dtype_names[op->view.dtype]);
}

void dt_op_describe(const struct dt_op *op, char *text, size_t bytes)
{
    describe(op, text, bytes);
    size_t used = strlen(text);
    if (op->on->world)
        snprintf(text + used, bytes - used, " in a group of %d", op->on->size);
}
