/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - the head of a language model, some rows of logits at a time */
#ifndef DT_OPS_CPU_HEAD_H
#define DT_OPS_CPU_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/view.h"

/* logits(V) = x w(V,C)^T of the rows whose target is not negative. */
struct dt_cpu_head {
    size_t N, C, V;
    struct dt_view x, w, targets; /* (N,C) X, (V,C) X, (N) I32 */
    struct dt_view dx, dw;        /* absent: no gradients */
    struct dt_view workspace;     /* F32, for at least one row */
    bool accumulate;              /* dw += */

    /* Called for each row by some thread. With dx, it replaces the logits by
     * their gradient. What it returns is added up in the order of rows.
     */
    double (*row)(const void *ctx, float *logits, size_t n, int32_t target);
    const void *ctx;
};

#ifdef DT_CPU_VARIANT
/* Calls row() for all rows that have a target; then dx(N,C), which is 0 in the
 * other rows, and dw(V,C). Returns the sum.
 */
double DT_CPU(head)(const struct dt_cpu_head *h);

/* Turns x(V) into exp(x - max) and returns their sum. */
double DT_CPU(exp_row)(float *x, float max, size_t V);
#endif

#endif /* DT_OPS_CPU_HEAD_H */
