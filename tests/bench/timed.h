/* SPDX-License-Identifier: Apache-2.0 */
/* timed.h - operations that measure each call and pass it on */
#ifndef TESTS_BENCH_TIMED_H
#define TESTS_BENCH_TIMED_H

#include "ops/ops.h"
#include "tests/bench/roof.h"

enum { TIMED_MAX_STEPS = 100 };

/* exec's table, made to measure each operation from its call to its end, less
 * what the smallest operation takes.
 */
struct dt_ops timed_ops(const struct dt_exec *exec);

/* The next step begins. */
void timed_next(void);

/* What each operation took: medians of the steps after the first, and shares of
 * `all` seconds; with the flops and the fewest bytes that it can be done with,
 * and what part that is of the roof, unless that is NULL (Williams, Waterman,
 * Patterson, "Roofline").
 */
void timed_print(double all, const struct roof *roof);

/* The median of s[count], which becomes sorted. */
double timed_median(double *s, int count);

#endif /* TESTS_BENCH_TIMED_H */
