/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - tensors with guards, and comparison with double precision
 *
 * A case calls an operation of `ops`, computes the same in double precision
 * the obvious way, and compares. A backward operation is compared with central
 * differences of the obvious forward. Tensors are the host's; where `ops` is
 * not, bridge.h stands between. To add a case: a function in the file of its
 * family, a line in the list of test_ops.c.
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
enum { GUARD = 64 };                 /* elements */
struct dt_view tensor(size_t count); /* F32, random in [-1, 1) */
struct dt_view tensor_of(enum dt_dtype type, size_t count); /* likewise */
struct dt_view tensor_ids(size_t count, size_t V); /* random in 0..V-1 */
struct dt_view tensor_rows(size_t B); /* I64, numbers that need 64 bits */
struct dt_view tensor_bounds(size_t count, const int64_t *bounds); /* I64 */
struct dt_view tensor_step(double loss_scale); /* F64, else 0 */
struct dt_view scratch(size_t count); /* F32, what is in it never matters */
double *doubles(struct dt_view v);    /* a copy of v */
double *zeros(size_t count);

/* The compute types. */
enum { TYPE_COUNT = 3 };
extern const enum dt_dtype TYPES[TYPE_COUNT];

/* Element i of a view of a compute type. */
double element(struct dt_view v, size_t i);
void set_element(struct dt_view v, size_t i, double value);

/* Largest relative error of rounding to `type`; 0 for F32, whose rounding is
 * among the errors of computing.
 */
double rounding(enum dt_dtype type);

/* What may be off by roundings inside an operation, relative to the largest of
 * the result: probabilities, logits and activations between two products may
 * have the compute type on other devices than the CPU. 0 for F32.
 */
double inner(enum dt_dtype type);

/* A tolerance for fp32, four times as large where exp, division and square root
 * are the hardware's, good to two units and not to half of one.
 */
double fp32(double tolerance);

/* cmocka's hooks around a case. */
int case_setup(void **state);
int case_teardown(void **state);

/* Fails unless |v - want| <= fp32(tolerance) * the largest |want| everywhere,
 * plus one rounding of want to v's type.
 */
void check_close(const char *what, struct dt_view v, const double *want,
                 double tolerance);

/* grad must be d loss(context) / d x + before (NULL: 0), by central
 * differences at up to 100 elements, or 20 where the bridge compares all of
 * them with the CPU's; loss reads x. Allowed: 1e-5 of 1 + |grad|, or four
 * roundings of it to grad's type.
 */
void check_gradient(const char *what, struct dt_view grad, double *x,
                    double (*loss)(void *context), void *context,
                    const double *before);

/* Dropout of B rows with numbers of their own, and what it multiplies an
 * element by.
 */
struct dt_dropout dropout_of(double rate, size_t B);
double dropout_factor(const struct dt_dropout *d, size_t b, uint64_t element);

/* `starts` of attention: documents of 1, 2, ... `longest` positions, 1, ...;
 * one row after another. None if longest is 0.
 */
struct dt_view documents(size_t B, size_t T, size_t longest);

/* Runs the case with 1, 2 and 3 threads: every tensor but scratch must have the
 * same bits afterwards.
 */
void check_threads(void (*run)(void **state), void **state);

/* sum of a[i] * b[i] */
double dot(const double *a, const double *b, size_t count);

/* The cases, one file a family. */
void test_embedding(void **state);
void test_dropout(void **state);
void test_linear(void **state);
void test_linear_blocks(void **state);
void test_linear_gelu(void **state);
void test_onednn(void **state);
void test_norm(void **state);
void test_gelu(void **state);
void test_swiglu(void **state);
void test_rotary(void **state);
void test_attention(void **state);
void test_attention_dropout(void **state);
void test_attention_isolation(void **state);
void test_attention_nan(void **state);
void test_kv(void **state);
void test_cross_entropy(void **state);
void test_no_targets(void **state);
void test_zero(void **state);
void test_convert(void **state);
void test_sum_of_squares(void **state);
void test_step_begin(void **state);
void test_step_decide(void **state);
void test_step_overflow(void **state);
void test_step_large(void **state);
void test_adamw(void **state);
void test_adamw_skipped(void **state);
void test_large_linear(void **state);
void test_large_norm(void **state);
void test_large_embedding(void **state);
void test_large_activation(void **state);
void test_large_rotary(void **state);
void test_large_attention(void **state);
void test_large_kv(void **state);
void test_large_loss(void **state);
void test_large_update(void **state);

#endif /* TESTS_OPS_HARNESS_H */
