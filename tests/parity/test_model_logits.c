/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_logits.c - small models give the logits of transformers */
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

/* Differences of logits from the stored ones. */
struct difference {
    double largest;
    double squares, total; /* sums of squares: of differences, of logits */
};

static void compare(struct difference *d, const float *got, const float *want,
                    size_t V)
{
    for (size_t v = 0; v < V; v++) {
        double off = (double)got[v] - want[v];
        d->largest = fmax(d->largest, fabs(off));
        d->squares += off * off;
        d->total += (double)want[v] * want[v];
    }
}

/* The stored logits, (tokens of the first documents, V); free() them. */
static float *stored_logits(const struct reference *r)
{
    size_t shape[2] = {0, r->config.vocab_size};
    for (size_t i = 0; i < REFERENCE_DOCUMENTS; i++) {
        struct document document;
        reference_document(r, 0, i, false, &document);
        shape[0] += document.count;
    }
    return reference_tensor(r, "logits", 2, shape);
}

static struct difference check_rows(const struct reference *r, bool packed,
                                    enum dt_dtype compute)
{
    const struct dt_model_options options = {
        .B = ROWS_MAX, .T = ROWS_WIDTH, .compute = compute};
    size_t places[REFERENCE_DOCUMENTS][2], V = r->config.vocab_size, n = 0;
    float *want = stored_logits(r), *got = calloc(V, sizeof(*got));
    struct difference d = {0};
    struct subject s;
    struct rows rows;
    subject_init(&s, &r->config, &options);
    reference_load(r, &s);
    reference_rows(r, 0, packed, false, &rows, places);
    subject_forward(&s, &rows.batch, false);
    for (size_t i = 0; i < REFERENCE_DOCUMENTS; i++) {
        struct document document;
        reference_document(r, 0, i, false, &document);
        for (size_t t = 0; t < document.count; t++, n++) {
            assert_int_equal(dt_model_logits(s.model, places[i][0],
                                             places[i][1] + t, got, NULL),
                             0);
            compare(&d, got, want + n * V, V);
        }
    }
    subject_fini(&s);
    free(want);
    free(got);
    return d;
}

static void logits(void **state)
{
    struct reference r;
    reference_open(&r, *state);
    double padded = check_rows(&r, false, DT_F32).largest;
    double packed = check_rows(&r, true, DT_F32).largest;
    print_message("largest difference: padded %.2g, packed %.2g\n", padded,
                  packed);
    assert_true(padded < 1e-4);
    assert_true(packed < 1e-4);
    reference_close(&r);
}

/* Rounding to 16 bits moves our logits no more than twice as far as those of
 * the reference (root of the mean square, relative).
 */
static void check_half(void **state, enum dt_dtype compute, const char *run)
{
    struct reference r;
    reference_open(&r, *state);
    struct difference d = check_rows(&r, true, compute);
    double theirs = reference_error(&r, run, "logits_error");
    double ours = sqrt(d.squares / d.total);
    print_message("relative difference: %.2g, the reference's: %.2g\n", ours,
                  theirs);
    assert_true(ours > 0 && ours < 2 * theirs);
    reference_close(&r);
}

static void logits_bf16(void **state)
{
    check_half(state, DT_BF16, "bf16");
}

static void logits_fp16(void **state)
{
    check_half(state, DT_F16, "fp16");
}

/* Documents continued token by token, beginning at different lengths: each step
 * gives the stored logits, and rows that have ended do not disturb.
 */
static void decoding(void **state)
{
    struct reference r;
    struct rows rows;
    struct document documents[REFERENCE_DOCUMENTS];
    size_t counts[REFERENCE_DOCUMENTS], at[REFERENCE_DOCUMENTS], base = 0;
    int32_t next[REFERENCE_DOCUMENTS];
    const struct dt_model_options options = {.B = 1, .T = 1};
    struct difference d = {0};
    struct subject s;
    reference_open(&r, *state);
    size_t V = r.config.vocab_size;
    float *want = stored_logits(&r);
    float *got = calloc(REFERENCE_DOCUMENTS * V, sizeof(*got));
    subject_init(&s, &r.config, &options);
    reference_load(&r, &s);
    reference_rows(&r, 0, false, false, &rows, NULL);
    for (size_t i = 0; i < REFERENCE_DOCUMENTS; i++) {
        reference_document(&r, 0, i, false, &documents[i]);
        counts[i] = (i * 3) % documents[i].count + 1;
        at[i] = base + counts[i] - 1;
        base += documents[i].count;
    }
    struct dt_decoder *decoder =
        dt_decoder_create(&r.config, s.layout, s.exec, dt_places_flat(s.master),
                          REFERENCE_DOCUMENTS, ROWS_WIDTH, NULL);
    assert_non_null(decoder);
    assert_int_equal(
        dt_decoder_begin(decoder, rows.inputs, counts, ROWS_WIDTH, got, NULL),
        0);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < REFERENCE_DOCUMENTS; i++) {
            if (counts[i] <= documents[i].count)
                compare(&d, got + i * V, want + at[i]++ * V, V);
            bool goes_on = counts[i] < documents[i].count;
            next[i] = goes_on ? documents[i].ids[counts[i]] : -1;
            counts[i]++;
            more |= goes_on;
        }
        assert_int_equal(dt_decoder_next(decoder, next, got, NULL), 0);
    }
    print_message("largest difference: %.2g\n", d.largest);
    assert_true(d.largest < 1e-4);
    dt_decoder_destroy(decoder);
    subject_fini(&s);
    free(want);
    free(got);
    reference_close(&r);
}

/* In a window of one token a token sees itself alone, so what is next depends
 * on it and not on what or how much was before. That is what transformers
 * computes without its cache: with it, the last sliding_window - 1 keys are
 * kept as a slice [-0:], which is all of them, and later tokens see those.
 */
static void a_window_of_one_sees_only_its_own_token(void **state)
{
    const struct dt_model_options options = {.B = 1, .T = 1};
    struct reference r;
    struct subject s;
    reference_open(&r, "mistral");
    r.config.window = 1;
    r.config.window_from = 0;
    size_t V = r.config.vocab_size, counts[] = {3, 1};
    int32_t prompts[] = {5, 9, 7, /* and */ 7, 0, 0}, next[] = {11, 11};
    float *got = calloc(2 * V, sizeof(*got));
    (void)state;
    subject_init(&s, &r.config, &options);
    reference_load(&r, &s);
    struct dt_decoder *decoder =
        dt_decoder_create(&r.config, s.layout, s.exec, dt_places_flat(s.master),
                          2, ROWS_WIDTH, NULL);
    assert_non_null(decoder);
    assert_int_equal(dt_decoder_begin(decoder, prompts, counts, 3, got, NULL),
                     0);
    for (int step = 0; step < 3; step++) {
        for (size_t v = 0; v < V; v++)
            assert_true(fabsf(got[v] - got[V + v]) < 1e-5f);
        assert_int_equal(dt_decoder_next(decoder, next, got, NULL), 0);
    }
    dt_decoder_destroy(decoder);
    subject_fini(&s);
    free(got);
    reference_close(&r);
}

/* Rows that are too many for one batch of prompts: some of them give what a
 * decoder of them alone gives, at the prompt's end and one token later.
 */
static void check_many(const char *model, size_t rows, size_t length, size_t T)
{
    const struct dt_model_options options = {.B = 1, .T = 1};
    const size_t chosen[] = {0, rows / 2, rows - 1};
    struct reference r;
    struct subject s;
    struct difference d = {0};
    reference_open(&r, model);
    subject_init(&s, &r.config, &options);
    reference_load(&r, &s);
    size_t V = r.config.vocab_size, *counts = calloc(rows, sizeof(*counts));
    int32_t *ids = calloc(rows * T, sizeof(*ids));
    int32_t *next = calloc(rows, sizeof(*next));
    float *all = calloc(rows * V, sizeof(*all)), *one = calloc(V, sizeof(*one));
    for (size_t b = 0; b < rows; b++) {
        counts[b] = 1 + (b * 5 + T - 1) % T;
        next[b] = (int32_t)((b * 11 + 3) % V);
        for (size_t t = 0; t < T; t++)
            ids[b * T + t] = (int32_t)((b * 7 + t * t + 1) % V);
    }
    for (int later = 0; later < 2; later++) {
        struct dt_decoder *many =
            dt_decoder_create(&r.config, s.layout, s.exec,
                              dt_places_flat(s.master), rows, length, NULL);
        assert_non_null(many);
        assert_int_equal(dt_decoder_begin(many, ids, counts, T, all, NULL), 0);
        if (later)
            assert_int_equal(dt_decoder_next(many, next, all, NULL), 0);
        for (size_t i = 0; i < 3; i++) {
            size_t b = chosen[i];
            struct dt_decoder *alone =
                dt_decoder_create(&r.config, s.layout, s.exec,
                                  dt_places_flat(s.master), 1, length, NULL);
            assert_int_equal(
                dt_decoder_begin(alone, ids + b * T, counts + b, T, one, NULL),
                0);
            if (later)
                assert_int_equal(dt_decoder_next(alone, next + b, one, NULL),
                                 0);
            compare(&d, all + b * V, one, V);
            dt_decoder_destroy(alone);
        }
        dt_decoder_destroy(many);
    }
    assert_true(d.largest < 1e-4);
    free(counts);
    free(ids);
    free(next);
    free(all);
    free(one);
    subject_fini(&s);
    reference_close(&r);
}

/* 2048 tokens of prompts are computed at a time, or one of each row. */
static void many_rows(void **state)
{
    size_t length = ROWS_WIDTH;
    check_many(*state, 2048 / length + 5, length, length - 1);
    check_many(*state, 2101, 2, 1);
}

/* What a config says, without what follows from it or has no effect. */
static void describe(const struct dt_model_config *c, char *text, size_t bytes)
{
    bool scaled = c->rope_scaling != DT_ROPE_DEFAULT;
    bool llama3 = c->rope_scaling == DT_ROPE_LLAMA3;
    snprintf(
        text, bytes,
        "family %d V %zu P %zu C %zu layers %zu heads %zu/%zu of %zu I "
        "%zu eps %g init %g tied %d bias %d%d%d theta %g scaling %d: %g "
        "%g %g %zu window %zu from %zu drop %g %g %g bos %d pad %d eos %zu: %d",
        (int)c->family, c->vocab_size, c->n_positions, c->n_embd, c->n_layer,
        c->n_head, c->n_kv_head, c->head_size, c->n_inner, c->norm_epsilon,
        c->initializer_range, c->tie_word_embeddings, c->qkv_bias, c->out_bias,
        c->mlp_bias, c->rope_theta, (int)c->rope_scaling,
        scaled ? c->rope_factor : 0, llama3 ? c->rope_low : 0,
        llama3 ? c->rope_high : 0, llama3 ? c->rope_original : 0, c->window,
        c->window ? c->window_from : 0, c->embd_dropout, c->attn_dropout,
        c->resid_dropout, c->bos, c->pad, c->eos_count, c->eos[0]);
}

/* Both spellings of config.json are the same model. */
static void spellings(void **state)
{
    struct reference r;
    struct dt_model_config v4;
    struct dt_error err = {0};
    char a[512], b[512];
    reference_open(&r, *state);
    if (dt_model_config_load(&v4, reference_path(*state, "config_v4.json"),
                             &err) < 0)
        fail_msg("%s", err.text);
    describe(&r.config, a, sizeof(a));
    describe(&v4, b, sizeof(b));
    assert_string_equal(a, b);
    dt_model_config_fini(&v4);
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(logits),
        REFERENCE_TESTS(logits_bf16),
        REFERENCE_TESTS(logits_fp16),
        REFERENCE_TESTS(decoding),
        REFERENCE_TESTS(spellings),
        REFERENCE_TESTS(many_rows),
        cmocka_unit_test(a_window_of_one_sees_only_its_own_token),
    };
    return cmocka_run_group_tests_name("model_logits", tests, NULL, NULL);
}
