/* SPDX-License-Identifier: Apache-2.0 */
/* test_rollout.c - completions depend on model, prompt and seed alone */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/decode.h"
#include "tests/parity/completions.h"
#include "tests/parity/reference.h"

/* A model of the family, with random weights and room for several blocks. */
static void begin(struct reference *r, struct subject *s, const char *name,
                  enum dt_dtype compute)
{
    const struct dt_model_options options = {
        .B = 1, .T = LONGEST + TOKENS, .compute = compute, .values = true};
    reference_open(r, name);
    r->config.n_positions = POSITIONS;
    subject_init(s, &r->config, &options);
    subject_randomize(s, 0.15);
}

static void end(struct reference *r, struct subject *s)
{
    subject_fini(s);
    reference_close(r);
}

/* --- against the forward pass of training --- */

/* Differences of the log-probabilities of a completion. */
struct difference {
    double largest, sum, count;
};

static void compare_forward(struct subject *s, const struct completed *c,
                            struct difference *d)
{
    size_t T = c->prompt + c->count;
    int32_t targets[LONGEST + TOKENS], picked[TOKENS];
    float values[TOKENS];
    for (size_t t = 0; t < T; t++)
        targets[t] = t + 1 < T ? c->ids[t + 1] : DT_IGNORE;
    for (size_t i = 0; i < c->count; i++)
        picked[i] = (int32_t)(c->prompt - 1 + i);
    const struct dt_batch batch = {.B = 1,
                                   .T = T,
                                   .inputs = c->ids,
                                   .targets = targets,
                                   .picked = picked,
                                   .picked_count = c->count};
    struct dt_error err;
    subject_forward(s, &batch, false);
    dt_model_values_forward(s->model);
    if (s->exec->device->copy(s->exec->stream, values,
                              dt_view_data(dt_model_values(s->model).value),
                              c->count * sizeof(*values), &err) < 0 ||
        s->exec->device->stream_wait(s->exec->stream, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < c->count; i++) {
        double off = fabs((double)values[i] - c->logps[i]);
        assert_true(c->logps[i] <= 0);
        d->largest = fmax(d->largest, off);
        d->sum += off;
    }
    d->count += (double)c->count;
}

static struct difference decode_and_compare(const char *name,
                                            enum dt_dtype compute)
{
    struct difference d = {0};
    struct reference r;
    struct subject s;
    begin(&r, &s, name, compute);
    struct task task = {.options = completions_options(&s, 5), .step = 1};
    struct completions *all = calloc(1, sizeof(*all));
    completions_run(&s, &task, all);
    for (size_t n = 0; n < PROMPTS; n++)
        for (size_t g = 0; g < COPIES; g++)
            compare_forward(&s, &all->of[n][g], &d);
    print_message("%s: largest %.2g, mean %.2g of %.0f tokens\n", name,
                  d.largest, d.sum / d.count, d.count);
    free(all);
    end(&r, &s);
    return d;
}

static void decoding_is_the_forward_of_training(void **state)
{
    assert_true(decode_and_compare(*state, DT_F32).largest < 1e-5);
}

static void decoding_is_close_to_it_in_bf16(void **state)
{
    struct difference d = decode_and_compare(*state, DT_BF16);
    assert_true(d.sum / d.count < 0.01);
}

/* --- the same bits --- */

static void expect_same(const struct completions *a,
                        const struct completions *b)
{
    for (size_t n = 0; n < PROMPTS; n++) {
        for (size_t g = 0; g < COPIES; g++) {
            const struct completed *x = &a->of[n][g], *y = &b->of[n][g];
            assert_int_equal(x->times, 1);
            assert_int_equal(y->times, 1);
            assert_int_equal(x->count, y->count);
            assert_int_equal(x->end, y->end);
            assert_memory_equal(x->ids, y->ids,
                                (x->prompt + x->count) * sizeof(*x->ids));
            assert_memory_equal(x->logps, y->logps,
                                x->count * sizeof(*x->logps));
        }
    }
}

/* Copies of one prompt differ, and not all ends are the same. */
static void expect_variety(const struct completions *all)
{
    size_t stopped = 0;
    for (size_t n = 0; n < PROMPTS; n++) {
        const struct completed *c = all->of[n];
        assert_true(c[0].count != c[1].count ||
                    memcmp(c[0].ids, c[1].ids,
                           (c[0].prompt + c[0].count) * sizeof(*c[0].ids)));
        for (size_t g = 0; g < COPIES; g++) {
            stopped += c[g].end == DT_END_EOS;
            assert_true((c[g].end == DT_END_EOS) ==
                        (c[g].ids[c[g].prompt + c[g].count - 1] == 5 ||
                         c[g].ids[c[g].prompt + c[g].count - 1] == 9));
        }
    }
    assert_in_range(stopped, 1, PROMPTS * COPIES - 1);
}

/* Runs tasks that together complete all prompts, and compares with `want`. */
static void check_tasks(const struct subject *s, const struct task *tasks,
                        size_t count, const struct completions *want,
                        struct dt_rollout_counts *counts)
{
    struct completions *got = calloc(1, sizeof(*got));
    for (size_t i = 0; i < count; i++)
        completions_run(s, &tasks[i], got);
    expect_same(want, got);
    *counts = got->counts;
    free(got);
}

static struct dt_rollout_options with_slots(const struct subject *s,
                                            size_t slots, bool exact)
{
    struct dt_rollout_options options = completions_options(s, slots);
    options.exact = exact;
    return options;
}

/* Slots `few` and `many`, which promise the same completions. */
static void check_slots(const struct subject *s, struct dt_rollout_options few,
                        struct dt_rollout_options many)
{
    struct completions *want = calloc(1, sizeof(*want));
    struct dt_rollout_counts counts;
    struct task one = {.options = many, .step = 1};
    completions_run(s, &one, want);
    expect_variety(want);
    /* the prompt of one token is computed with its copies */
    assert_int_equal(want->counts.prompts, PROMPTS - 1);
    assert_int_equal(want->counts.preempted, 0);

    /* fewer slots, another order, two ranks */
    check_tasks(s, &(struct task){.options = few, .step = 1}, 1, want, &counts);
    check_tasks(s, &(struct task){.options = few, .step = 1, .reverse = true},
                1, want, &counts);
    check_tasks(s,
                (struct task[]){{.options = few, .first = 0, .step = 2},
                                {.options = few, .first = 1, .step = 2}},
                2, want, &counts);

    /* few blocks: sequences are dropped, and prompts computed again */
    one.options.blocks = 5; /* as many as one sequence needs */
    check_tasks(s, &one, 1, want, &counts);
    assert_true(counts.preempted > 0);
    assert_true(counts.prompts >= PROMPTS);
    free(want);
}

static void check_bits(const char *name, enum dt_dtype compute)
{
    struct reference r;
    struct subject s;
    begin(&r, &s, name, compute);
#ifndef SANITIZER /* the other two have all that is computed in another way */
    check_slots(&s, with_slots(&s, 4, true), with_slots(&s, 16, true));
    check_slots(&s, with_slots(&s, 16, true), with_slots(&s, 20, false));
#endif
    check_slots(&s, with_slots(&s, 16, true), with_slots(&s, 70, true));
    check_slots(&s, with_slots(&s, 1, false), with_slots(&s, 15, false));
    end(&r, &s);
}

/* One slot needs the logits of one row, unless steps are all of a size; but for
 * the alignment of parts of memory.
 */
static void one_slot_has_one_row(void **state)
{
    struct reference r;
    struct subject s;
    begin(&r, &s, *state, DT_F32);
    const struct dt_rollout_options one = with_slots(&s, 1, false);
    const struct dt_rollout_options exact = with_slots(&s, 1, true);
    size_t logits = s.config->vocab_size * sizeof(float);
    assert_in_range(dt_rollout_bytes(s.config, s.exec->ops, &one), 1,
                    dt_rollout_bytes(s.config, s.exec->ops, &exact) -
                        14 * logits);
    end(&r, &s);
}

/* Prompts do not go beyond a tile of attention, or begin with one. */
static void short_prompts_share_a_tile(void **state)
{
    struct reference r;
    struct subject s;
    begin(&r, &s, *state, DT_F32);
    const struct dt_ops *ops = s.exec->ops;
    const size_t tile = ops->key_tile;
    size_t used = 0;
    assert_true(tile > 0);
    for (size_t n = 0; n < 9; n++) {
        size_t first = dt_decoder_place(s.config, ops, 100, used, tile / 4 - 1);
        assert_int_equal(first, n / 4 * tile + n % 4 * (tile / 4 - 1));
        used = first + tile / 4 - 1;
    }
    used = dt_decoder_place(s.config, ops, 100, used, tile + 1);
    assert_int_equal(used, 3 * tile);
    assert_int_equal(dt_decoder_place(s.config, ops, 100, used, tile + 1),
                     used);
    end(&r, &s);
}

/* The most rows of a product since it was set to 0. */
static size_t most_rows;

static void record_rows(struct dt_stream *stream, struct dt_view out,
                        struct dt_view x, struct dt_view w, struct dt_view b,
                        enum dt_weight_order order, size_t N, size_t C,
                        size_t OC)
{
    if (N > most_rows)
        most_rows = N;
    subject_exec()->ops->linear_forward(stream, out, x, w, b, order, N, C, OC);
}

/* More rows may have other bits, on other processors than this one, too. */
static void products_of_fp32_have_few_rows(void **state)
{
    struct reference r;
    struct subject s;
    if (subject_exec()->ops->some_rows == 0)
        skip();
    begin(&r, &s, *state, DT_F32);
    const struct dt_exec *exec = s.exec;
    struct dt_ops ops = *exec->ops;
    const struct dt_exec recording = {exec->device, &ops, exec->stream};
    struct task task = {.options = with_slots(&s, 70, true), .step = 1};
    struct completions *all = calloc(1, sizeof(*all));
    ops.linear_forward = record_rows;
    s.exec = &recording;
    most_rows = 0;
    completions_run(&s, &task, all);
    assert_in_range(most_rows, ops.few_rows, ops.some_rows);
    s.exec = exec;
    free(all);
    end(&r, &s);
}

static void slots_order_blocks_and_ranks_change_nothing(void **state)
{
    check_bits(*state, DT_F32);
}

static void nor_in_bf16(void **state)
{
    check_bits(*state, DT_BF16);
}

/* --- waits --- */

/* Memory that copies use without waiting: what was allocated on the device or
 * for staging.
 */
static struct {
    const struct dt_device *real;
    struct {
        const char *data;
        size_t bytes;
    } known[32];
    size_t count, waits;
} watched;

static void know(const void *data, size_t bytes)
{
    assert_true(watched.count < sizeof(watched.known) / sizeof(*watched.known));
    watched.known[watched.count].data = data;
    watched.known[watched.count++].bytes = bytes;
}

static bool is_known(const void *data)
{
    for (size_t i = 0; i < watched.count; i++)
        if ((const char *)data >= watched.known[i].data &&
            (const char *)data < watched.known[i].data + watched.known[i].bytes)
            return true;
    return false;
}

static int watch_allocate(size_t bytes, void **data, struct dt_error *err)
{
    int rc = watched.real->allocate(bytes, data, err);
    know(*data, bytes);
    return rc;
}

static int watch_allocate_staging(size_t bytes, void **data,
                                  struct dt_error *err)
{
    int rc = watched.real->allocate_staging(bytes, data, err);
    know(*data, bytes);
    return rc;
}

static int watch_copy(struct dt_stream *stream, void *to, const void *from,
                      size_t bytes, struct dt_error *err)
{
    watched.waits += !is_known(to) || !is_known(from);
    return watched.real->copy(stream, to, from, bytes, err);
}

static int watch_wait(struct dt_stream *stream, struct dt_error *err)
{
    watched.waits++;
    return watched.real->stream_wait(stream, err);
}

static void a_token_of_all_sequences_waits_once(void **state)
{
    struct reference r;
    struct subject s;
    begin(&r, &s, *state, DT_F32);
    const struct dt_exec *exec = s.exec;
    struct dt_device device = *exec->device;
    const struct dt_exec watching = {&device, exec->ops, exec->stream};
    struct task task = {.options = completions_options(&s, 5), .step = 1};
    struct completions *all = calloc(1, sizeof(*all));
    task.options.sampling.repetition_penalty = 1.1;
    watched.real = exec->device;
    device.allocate = watch_allocate;
    device.allocate_staging = watch_allocate_staging;
    device.copy = watch_copy;
    device.stream_wait = watch_wait;
    s.exec = &watching;
    completions_run(&s, &task, all);
    s.exec = exec;
    assert_true(all->counts.steps > TOKENS);
    assert_int_equal(watched.waits, all->counts.steps);
    free(all);
    end(&r, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a_token_of_all_sequences_waits_once: gpt2",
         a_token_of_all_sequences_waits_once, NULL, NULL, "gpt2"},
        REFERENCE_LONG_TESTS(decoding_is_the_forward_of_training),
        REFERENCE_LONG_TESTS(decoding_is_close_to_it_in_bf16),
        REFERENCE_LONG_TESTS(slots_order_blocks_and_ranks_change_nothing),
        REFERENCE_LONG_TESTS(nor_in_bf16),
        REFERENCE_LONG_TESTS(products_of_fp32_have_few_rows),
        REFERENCE_LONG_TESTS(one_slot_has_one_row),
        REFERENCE_LONG_TESTS(short_prompts_share_a_tile),
    };
    return cmocka_run_group_tests_name("rollout", tests, NULL, NULL);
}
