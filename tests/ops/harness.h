/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - tensors with guards, and comparison with double precision
 *
 * A case calls an operation of `ops`, computes the same in double precision
 * the obvious way, and compares. A backward operation is compared with central
 * differences of the obvious forward. To add a case: a function in the file of
 * its family, a line in the list of test_ops.c.
 */
#ifndef TESTS_OPS_HARNESS_H
#define TESTS_OPS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tensor/view.h"

/* The table under test. */
extern const struct dt_ops *ops;

/* Memory of these lives until the end of the case, which checks the guards on
 * both sides of every tensor.
 */
struct dt_view tensor(size_t count);               /* random in [-1, 1) */
struct dt_view tensor_ids(size_t count, size_t V); /* random in 0..V-1 */
double *doubles(struct dt_view v);                 /* a copy of v */
double *zeros(size_t count);

/* cmocka's hooks around a case. */
int case_setup(void **state);
int case_teardown(void **state);

/* Fails unless |v - want| <= tolerance * the largest |want| everywhere. */
void check_close(const char *what, struct dt_view v, const double *want,
                 double tolerance);

/* grad must be d loss(context) / d x + before (NULL: 0), by central
 * differences at up to 100 elements; loss reads x.
 */
void check_gradient(const char *what, struct dt_view grad, double *x,
                    double (*loss)(void *context), void *context,
                    const double *before);

/* sum of a[i] * b[i] */
double dot(const double *a, const double *b, size_t count);

/* The cases, one file a family. */
void test_embedding(void **state);
void test_linear(void **state);
void test_layernorm(void **state);
void test_gelu(void **state);
void test_attention(void **state);
void test_cross_entropy(void **state);
void test_elementwise(void **state);
void test_sum_of_squares(void **state);
void test_adamw(void **state);
void test_threads(void **state);

#endif /* TESTS_OPS_HARNESS_H */
