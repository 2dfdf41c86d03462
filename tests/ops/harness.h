/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - tensors with guards, and comparison with double precision
 *
 * A case calls an operation of `ops`, computes the same in double precision in
 * the obvious way, and compares. A backward operation is compared with central
 * differences of the obvious forward. Tensors are in host memory; if `ops` is
 * for another device, bridge.h copies them. To add a case, add a function to
 * the file of its family and a line to the list in test_ops.c.
 */
#ifndef TESTS_OPS_HARNESS_H
#define TESTS_OPS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tensor/tensor.h"

/* The table under test. */
extern const struct dt_ops *ops;

/* The memory of these lives until the end of the case, which also checks the
 * guards on both sides of every tensor.
 */
enum { GUARD = 64 };                 /* elements */
struct dt_view tensor(size_t count); /* F32, random in [-1, 1) */
struct dt_view tensor_of(enum dt_dtype type, size_t count); /* likewise */
struct dt_view tensor_ids(size_t count, size_t V); /* random in 0..V-1 */
struct dt_view tensor_pixels(size_t count);        /* U8, random */
struct dt_view tensor_rows(size_t B); /* I64, numbers that need 64 bits */
struct dt_view tensor_bounds(size_t count, const int64_t *bounds); /* I64 */
struct dt_view tensor_draws(size_t B);         /* F64, random in [0, 1) */
struct dt_view tensor_step(double loss_scale); /* F64, else 0 */
struct dt_view workspace(size_t count);        /* F32, contents never matter */
double *doubles(struct dt_view v);             /* a copy of v */
double *zeros(size_t count);

/* The compute types. */
enum { TYPE_COUNT = 3 };
extern const enum dt_dtype TYPES[TYPE_COUNT];

/* Whether case j of type i is left to the other type of 16 bits: their code is
 * the same but for conversions, so each takes every second case where cases are
 * slow, on an emulated GPU or with a sanitizer.
 */
bool is_other_half(size_t i, size_t j);

/* Element i of a view of a compute type. */
double element(struct dt_view v, size_t i);
void set_element(struct dt_view v, size_t i, double value);

/* The largest relative error of rounding to `type`. 0 for F32, since that is
 * part of the error of the computation.
 */
double rounding(enum dt_dtype type);

/* The error allowed for roundings inside an operation, relative to the largest
 * result: probabilities, logits and activations between two matrix
 * multiplications may have the compute type on devices other than the CPU. 0
 * for F32.
 */
double inner(enum dt_dtype type);

/* A tolerance for fp32. It is four times as large if the hardware computes exp,
 * division and square root, with an error of two units in the last place rather
 * than half of one.
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

/* Fails unless grad is d loss(context) / d x + before (NULL: 0), where loss
 * reads x. Uses central differences at up to 100 elements, or 20 if the bridge
 * compares all of them with the CPU. The error may be 1e-5 of 1 + |grad|, or
 * four roundings of it to grad's type.
 */
void check_gradient(const char *what, struct dt_view grad, double *x,
                    double (*loss)(void *context), void *context,
                    const double *before);

/* The same of operations that round in between: the error may also be `slack`
 * of the largest |grad|.
 */
void check_rough_gradient(const char *what, struct dt_view grad, double *x,
                          double (*loss)(void *context), void *context,
                          const double *before, double slack);

/* Dropout of B rows, each with its own number, and the factors (B, count) by
 * which it multiplies the elements of a row.
 */
struct dt_dropout dropout_of(double rate, size_t B);
double *dropout_factors(const struct dt_dropout *d, size_t B, size_t count);

/* `first` of attention: documents of 1, 2, ... `longest` positions, 1, ...;
 * one row after another. None if longest is 0.
 */
struct dt_view documents(size_t B, size_t T, size_t longest);

/* Who attends to later positions. */
enum ahead {
    NOBODY,
    EVERYBODY, /* of a document, to the end of it: images in a tower */
    RUNS,      /* every second document is a run of an image within text */
};

/* `last` for the documents of `first`; with RUNS they see each other, so
 * `first` goes.
 */
void look_ahead(struct dt_attention *a, enum ahead ahead);

/* Leaves the function of a case that has nothing to show here; check_threads
 * goes on with others.
 */
#define nothing_here()                                                         \
    do {                                                                       \
        if (checks_threads())                                                  \
            return;                                                            \
        skip();                                                                \
    } while (0)
bool checks_threads(void);

/* Runs the case with 1, 2 and 3 threads: every tensor except workspace must
 * have the same bits afterwards.
 */
void check_threads(void (*run)(void **state), void **state);

/* act(x) in double precision. */
double reference_activation(enum dt_activation activation, double x);

/* The sum of a[i] * b[i]. */
double dot(const double *a, const double *b, size_t count);

/* The cases, one file for each family. */
void test_embedding(void **state);
void test_dropout(void **state);
void test_linear(void **state);
void test_linear_blocks(void **state);
void test_linear_few_rows(void **state);
void test_linear_some_rows(void **state);
void test_linear_activation(void **state);
void test_low_rank(void **state);
void test_low_rank_few_rows(void **state);
void test_frozen(void **state);
void test_empty(void **state);
void test_onednn(void **state);
void test_onednn_threads(void **state);
void test_norm(void **state);
void test_activation(void **state);
void test_gelu_digits(void **state);
void test_glu(void **state);
void test_rope(void **state);
void test_rope_equal_axes(void **state);
void test_heads_norm(void **state);
void test_attention(void **state);
void test_attention_heads(void **state);
void test_attention_dropout(void **state);
void test_attention_bounds(void **state);
void test_attention_unseen(void **state);
void test_attention_documents(void **state);
void test_attention_isolation(void **state);
void test_attention_room(void **state);
void test_attention_skip(void **state);
void test_attention_tiles(void **state);
void test_attention_nan(void **state);
void test_attention_places(void **state);
void test_tower_attention(void **state);
void test_kv(void **state);
void test_sample(void **state);
void test_cross_entropy(void **state);
void test_planned_rows(void **state);
void test_logit_rules(void **state);
void test_no_targets(void **state);
void test_logprob(void **state);
void test_logprob_planned_rows(void **state);
void test_logprob_bits(void **state);
void test_logprob_of_cross_entropy(void **state);
void test_logprob_extremes(void **state);
void test_logprob_without_targets(void **state);
void test_scatter_rows(void **state);
void test_add_rows(void **state);
void test_patch_rows(void **state);
void test_sparse_matmul(void **state);
void test_score(void **state);
void test_zero(void **state);
void test_convert(void **state);
void test_add(void **state);
void test_combine(void **state);
void test_hash(void **state);
void test_hash_bits(void **state);
void test_sum_of_squares(void **state);
void test_step_begin(void **state);
void test_clip_and_check(void **state);
void test_step_overflow(void **state);
void test_step_large(void **state);
void test_adamw(void **state);
void test_adamw_bits(void **state);
void test_adamw_rate(void **state);
void test_adamw_skipped(void **state);
void test_adamw_parts(void **state);
void test_dither_number(void **state);
void test_dither_generator(void **state);
void test_dither_mean(void **state);
void test_add_dithered(void **state);
void test_add_bf16(void **state);
void test_squares_bf16(void **state);
void test_adamw_dithered(void **state);
void test_adamw_dithered_parts(void **state);
void test_adamw_bf16_gradients(void **state);
void test_large_linear(void **state);
void test_large_norm(void **state);
void test_large_embedding(void **state);
void test_large_activation(void **state);
void test_large_rope(void **state);
void test_large_attention(void **state);
void test_large_kv(void **state);
void test_large_loss(void **state);
void test_large_logprob(void **state);
void test_large_update(void **state);

#endif /* TESTS_OPS_HARNESS_H */
