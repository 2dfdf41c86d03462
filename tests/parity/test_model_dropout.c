/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_dropout.c - what is dropped, how often, and what decides it */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/parity/reference.h"
#include "tests/families.h"

static const struct dt_model_options options = {
    .B = ROWS_MAX, .T = ROWS_WIDTH, .train = true, .dropout = true, .seed = 11};

static void set_rates(struct dt_model_config *config, double embd, double attn,
                      double resid)
{
    config->embd_dropout = embd;
    config->attn_dropout = attn;
    config->resid_dropout = resid;
}

/* The model with all the dropout that its family has. */
static void open_dropping(struct reference *r, const char *name)
{
    reference_open(r, name);
    double others = r->config.family == &dt_family_gpt2 ? 0.1 : 0;
    set_rates(&r->config, others, 0.2, others);
}

static double loss_of(const struct reference *r, const struct dt_batch *batch,
                      uint64_t seed)
{
    struct dt_model_options other = options;
    struct subject s;
    other.seed = seed;
    subject_init(&s, &r->config, &other);
    reference_load(r, &s);
    double loss = subject_train(&s, batch, 1.0f, false);
    subject_fini(&s);
    return loss;
}

/* The seed and the numbers of the rows decide, and nothing else. */
static void the_seed_and_the_row_decide_what_is_dropped(void **state)
{
    struct reference r;
    struct rows rows;
    open_dropping(&r, *state);
    reference_rows(&r, 0, true, false, &rows, NULL);
    double loss = loss_of(&r, &rows.batch, 1);
    assert_true(loss == loss_of(&r, &rows.batch, 1));
    assert_false(loss == loss_of(&r, &rows.batch, 2));
    assert_false(loss == loss_of(&r, &rows.batch, UINT64_C(1) << 32 | 1));
    rows.numbers[1] += INT64_C(1) << 32;
    assert_false(loss == loss_of(&r, &rows.batch, 1));
    reference_close(&r);
}

/* A row drops the same in any micro-batch, at any place of it. */
static void a_row_drops_the_same_in_any_micro_batch(void **state)
{
    struct reference r;
    struct rows rows, part;
    struct subject whole, parts;
    open_dropping(&r, *state);
    subject_init(&whole, &r.config, &options);
    subject_init(&parts, &r.config, &options);
    reference_load(&r, &whole);
    reference_load(&r, &parts);
    reference_rows(&r, 0, false, false, &rows, NULL);
    double loss = subject_train(&whole, &rows.batch, 1.0f, false), sum = 0;
    for (size_t b = 6; b-- > 0;) {
        size_t count = b == 1 ? 2 : 1;
        b -= count - 1;
        rows_take(&part, &rows, b, 1, count);
        sum += subject_train(&parts, &part.batch, 1.0f, b < 5);
    }
    assert_true(fabs(sum / loss - 1) < 1e-6);
    const float *x = whole.grads_here, *y = parts.grads_here;
    for (size_t i = 0; i < whole.layout->count; i++)
        if (fabsf(x[i] - y[i]) > 1e-5f * (1 + fabsf(x[i])))
            fail_msg("element %zu: %g and %g", i, (double)x[i], (double)y[i]);
    subject_fini(&whole);
    subject_fini(&parts);
    reference_close(&r);
}

/* Evaluation drops nothing. */
static void evaluation_drops_nothing(void **state)
{
    struct reference plain, dropping;
    struct rows rows;
    struct subject a, b;
    reference_open(&plain, *state);
    open_dropping(&dropping, *state);
    reference_rows(&plain, 0, true, false, &rows, NULL);
    subject_init(&a, &plain.config, &options);
    subject_init(&b, &dropping.config, &options);
    reference_load(&plain, &a);
    reference_load(&plain, &b);
    double loss = subject_evaluate(&a, &rows.batch);
    assert_true(subject_train(&b, &rows.batch, 1.0f, false) != loss);
    assert_true(subject_evaluate(&b, &rows.batch) == loss);
    subject_fini(&a);
    subject_fini(&b);
    reference_close(&plain);
    reference_close(&dropping);
}

/* --- rates, of a GPT-2 with one position --- */

enum {
    C = 64,
    HEADS = 8,
    LAYERS = 2,
    ROUNDS = 512,
};

static struct dt_model_config small(double embd, double attn, double resid)
{
    struct dt_model_config config = {
        .family = &dt_family_gpt2,
        .padding_row = -1,
        .vocab_size = 16,
        .n_positions = 1,
        .n_embd = C,
        .n_layer = LAYERS,
        .n_head = HEADS,
        .n_kv_head = HEADS,
        .head_size = C / HEADS,
        .n_inner = C,
        .norm_epsilon = 1e-5,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
    };
    set_rates(&config, embd, attn, resid);
    return config;
}

static float *grads_of(const struct subject *s, const char *format, int layer)
{
    char name[64];
    snprintf(name, sizeof(name), format, layer);
    int i = dt_layout_find(s->layout, name);
    assert_true(i >= 0);
    return subject_grads(s, (size_t)i);
}

/* The norms of the blocks have weight 0: what a block adds does not depend on
 * what comes in, so that the gradient of the residual stream is one vector:
 * that of wpe, unless it drops, and of the biases of the projections, likewise.
 */
static void small_init(struct subject *s, const struct dt_model_config *config)
{
    subject_init(s, config, &options);
    subject_randomize(s, 0.3);
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        if (strstr(param->name, "ln_1.weight") ||
            strstr(param->name, "ln_2.weight"))
            memset(subject_weights(s, i), 0, param->count * sizeof(float));
    }
    subject_publish(s);
}

static void small_train(struct subject *s, int64_t row)
{
    const struct document document = {
        .count = 2, .ids = {3, 5}, .target = {false, true}};
    struct rows rows;
    rows_init(&rows, 1, 2);
    rows_add(&rows, 0, &document);
    rows.batch.T = 1;
    rows.numbers[0] = row;
    subject_train(s, &rows.batch, 1.0f, false);
}

/* Notes whether an element was dropped: `got` is 0, or `all` / (1 - rate). */
static bool dropped(double got, double all, double rate)
{
    if (got == 0)
        return true;
    double off = got * (1 - rate) / all - 1;
    if (fabs(off) > 1e-4)
        fail_msg("an element became %g of itself, rate %g", got / all, rate);
    return false;
}

/* Of n trials with probability p, k happened: within four standard
 * deviations.
 */
static void check_share(const char *what, size_t k, size_t n, double p)
{
    double share = (double)k / (double)n;
    print_message("%s: %.4f of %zu, expected %.4f\n", what, share, n, p);
    assert_true(fabs(share - p) < 4 * sqrt(p * (1 - p) / (double)n));
}

static void embeddings_are_dropped_at_the_given_rate(void **state)
{
    struct dt_model_config config = small(0.1, 0, 0);
    struct subject s;
    size_t count = 0;
    (void)state;
    small_init(&s, &config);
    for (int64_t n = 0; n < ROUNDS; n++) {
        small_train(&s, n);
        const float *got = grads_of(&s, "transformer.wpe.weight", 0);
        const float *all =
            grads_of(&s, "transformer.h.%d.mlp.c_proj.bias", LAYERS - 1);
        for (size_t c = 0; c < C; c++)
            count += dropped(got[c], all[c], config.embd_dropout);
    }
    check_share("embedding", count, ROUNDS * C, config.embd_dropout);
    subject_fini(&s);
}

/* Both residual additions of both layers, which drop independently. */
static void residual_additions_are_dropped_independently(void **state)
{
    enum { PLACES = 2 * LAYERS };
    struct dt_model_config config = small(0, 0, 0.3);
    double rate = config.resid_dropout;
    struct subject s;
    size_t counts[PLACES][PLACES] = {0};
    (void)state;
    small_init(&s, &config);
    for (int64_t n = 0; n < ROUNDS; n++) {
        small_train(&s, n);
        const float *all = grads_of(&s, "transformer.wpe.weight", 0);
        for (size_t c = 0; c < C; c++) {
            bool drops[PLACES];
            for (int i = 0; i < PLACES; i++)
                drops[i] = dropped(
                    grads_of(&s,
                             i % 2 ? "transformer.h.%d.mlp.c_proj.bias"
                                   : "transformer.h.%d.attn.c_proj.bias",
                             i / 2)[c],
                    all[c], rate);
            for (int i = 0; i < PLACES; i++)
                for (int j = 0; j <= i; j++)
                    counts[i][j] += drops[i] && drops[j];
        }
    }
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j <= i; j++)
            check_share(i == j ? "residual" : "two of them", counts[i][j],
                        ROUNDS * C, i == j ? rate : rate * rate);
    subject_fini(&s);
}

/* Each head has one probability, which is 1. The gradient of c_proj at (in,
 * out) is what attention gives at `in`, times the gradient at `out`.
 */
static void attention_is_dropped_at_the_given_rate(void **state)
{
    struct dt_model_config plain = small(0, 0, 0), config = small(0, 0.2, 0);
    struct subject p, s;
    size_t count = 0;
    (void)state;
    small_init(&p, &plain);
    small_init(&s, &config);
    small_train(&p, 0);
    for (int64_t n = 0; n < ROUNDS; n++) {
        small_train(&s, n);
        for (int i = 0; i < LAYERS * HEADS; i++) {
            double out[2];
            for (int dropping = 0; dropping < 2; dropping++) {
                const struct subject *of = dropping ? &s : &p;
                const float *w = grads_of(
                    of, "transformer.h.%d.attn.c_proj.weight", i / HEADS);
                const float *b = grads_of(
                    of, "transformer.h.%d.attn.c_proj.bias", i / HEADS);
                size_t in = (size_t)(i % HEADS) * (C / HEADS);
                out[dropping] = (double)w[in * C] / b[0];
            }
            count += dropped(out[1], out[0], config.attn_dropout);
        }
    }
    check_share("attention", count, ROUNDS * LAYERS * HEADS,
                config.attn_dropout);
    subject_fini(&p);
    subject_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(the_seed_and_the_row_decide_what_is_dropped),
        REFERENCE_TESTS(a_row_drops_the_same_in_any_micro_batch),
        REFERENCE_TESTS(evaluation_drops_nothing),
        cmocka_unit_test(embeddings_are_dropped_at_the_given_rate),
        cmocka_unit_test(residual_additions_are_dropped_independently),
        cmocka_unit_test(attention_is_dropped_at_the_given_rate),
    };
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return cmocka_run_group_tests_name("model_dropout", tests, NULL, NULL);
}
