/* SPDX-License-Identifier: Apache-2.0 */
/* roof.h - what hardware can do at best, measured by nothing but doing it */
#ifndef TESTS_BENCH_ROOF_H
#define TESTS_BENCH_ROOF_H

#include "ops/ops.h"

/* What the hardware does at best, per second. */
struct roof {
    double flops, bytes;
};

/* Prints the share of `s` seconds that so many flops and bytes need at least,
 * and which of them is the limit.
 */
void roof_print_share(const struct roof *roof, double flops, double bytes,
                      double s);

/* A buffer of `bytes` (a multiple of 4) of random numbers in [-1, 1), as bf16
 * and as fp32; zeros would draw less power, and so be multiplied faster. Exits
 * if there is no memory.
 */
struct dt_buffer *roof_buffer(const struct dt_exec *exec, size_t bytes);

/* Multiplications and additions per second of products of square matrices of
 * `type` with `size` rows, by the operations of exec: the best of several runs.
 */
double roof_product(const struct dt_exec *exec, enum dt_dtype type,
                    size_t size);

/* Bytes per second, read and written, of a copy of `bytes` (a multiple of 4)
 * within the device's memory.
 */
double roof_copy(const struct dt_exec *exec, size_t bytes);

/* Bytes per second that all threads read of host memory, of `bytes` at `data`:
 * the best of several runs.
 */
double roof_read(const void *data, size_t bytes);

#endif /* TESTS_BENCH_ROOF_H */
