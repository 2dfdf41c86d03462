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

#include "tests/parity/logits.h"
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
            assert_int_equal(position_logits(s.model, places[i][0],
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

static void logits_are_those_of_the_reference(void **state)
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

static void bf16_moves_logits_at_most_twice_as_far(void **state)
{
    check_half(state, DT_BF16, "bf16");
}

static void fp16_moves_logits_at_most_twice_as_far(void **state)
{
    check_half(state, DT_F16, "fp16");
}

/* What a config says, without what follows from it or has no effect. */
static void describe(const struct dt_model_config *c, char *text, size_t bytes)
{
    bool scaled = c->rope_scaling != DT_ROPE_DEFAULT;
    bool llama3 = c->rope_scaling == DT_ROPE_LLAMA3;
    snprintf(text, bytes,
             "family %s V %zu P %zu C %zu layers %zu heads %zu/%zu of %zu I "
             "%zu eps %g init %g tied %d bias %d%d%d theta %g scaling %d: %g "
             "%g %g %zu window %zu full %#jx drop %g %g %g bos %d pad %d eos "
             "%zu: %d",
             dt_model_type(c), c->vocab_size, c->n_positions, c->n_embd,
             c->n_layer, c->n_head, c->n_kv_head, c->head_size, c->n_inner,
             c->norm_epsilon, c->initializer_range, c->tie_word_embeddings,
             c->qkv_bias, c->out_bias, c->mlp_bias, c->rope_theta,
             (int)c->rope_scaling, scaled ? c->rope_factor : 0,
             llama3 ? c->rope_low : 0, llama3 ? c->rope_high : 0,
             llama3 ? c->rope_original : 0, c->window,
             (uintmax_t)c->full.bits[0], c->embd_dropout, c->attn_dropout,
             c->resid_dropout, c->bos, c->pad, c->eos_count, c->eos[0]);
}

/* Both spellings of config.json are the same model. */
static void both_spellings_of_config_json_are_one_model(void **state)
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
        REFERENCE_TESTS(logits_are_those_of_the_reference),
        REFERENCE_TESTS(bf16_moves_logits_at_most_twice_as_far),
        REFERENCE_TESTS(fp16_moves_logits_at_most_twice_as_far),
        REFERENCE_TESTS(both_spellings_of_config_json_are_one_model),
    };
    return cmocka_run_group_tests_name("model_logits", tests, NULL, NULL);
}
