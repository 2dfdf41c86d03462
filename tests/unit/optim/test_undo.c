/* SPDX-License-Identifier: Apache-2.0 */
/* test_undo.c - updates that another process ends */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cpu/cpu.h"

enum { MOST = 40 * DT_UNDO_PIECE + 16, RUNS = 5, FIRST = 32, BEFORE = 3 };

/* Weights, moments, gradients, and rounded weights. */
enum { P, M, V, G, W, ARRAYS };

struct scene {
    float array[ARRAYS][MOST];
    uint64_t stamps[BEFORE + MOST / DT_UNDO_PIECE + 1];
    struct dt_undo_slot slots[DT_UNDO_SLOTS];
};

static struct scene old, want, got;
static double scalars[DT_STEP_COUNT] = {
    [DT_STEP_LR] = 0.01,
    [DT_STEP_BIAS1] = 0.5,
    [DT_STEP_BIAS2] = 0.3,
    [DT_STEP_GRAD_SCALE] = 0.7,
};

static struct dt_view view_of(struct dt_buffer *buf, void *data, size_t count,
                              enum dt_dtype type)
{
    *buf = (struct dt_buffer){data, count * dt_dtype_bytes(type), &dt_cpu};
    return dt_view_of(buf, type);
}

/* Updates `count` elements in step 9. */
static void update(const struct dt_ops *ops, struct scene *s, size_t count,
                   bool undo)
{
    int64_t bounds[RUNS + 1] = {0,    FIRST + 16,  FIRST + 1008, FIRST + 2064,
                                4096, MOST + FIRST};
    struct dt_buffer buf[ARRAYS + 2];
    const struct dt_undo keeps = {
        .step = 9, .stamps = s->stamps, .first = BEFORE, .slots = s->slots};
    const struct dt_adamw args = {
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .rate = 1,
        .bounds = view_of(&buf[ARRAYS], bounds, RUNS + 1, DT_I64),
        .first = FIRST,
        .undo = undo ? &keeps : NULL,
    };
    struct dt_view step =
        view_of(&buf[ARRAYS + 1], scalars, DT_STEP_COUNT, DT_F64);
    struct dt_view v[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        v[i] = view_of(&buf[i], s->array[i], count, i == W ? DT_BF16 : DT_F32);
    ops->adamw(NULL, step, v[P], v[W], v[G], v[M], v[V], &args);
}

/* Values before the update, and after it. */
static void begin(const struct dt_ops *ops, size_t count)
{
    memset(&old, 0, sizeof(old));
    for (int i = 0; i < W; i++)
        for (size_t j = 0; j < MOST; j++)
            old.array[i][j] =
                (float)((j * 2654435761u + (size_t)i * 977) >> 8 & 0xffff) /
                65536;
    memcpy(&want, &old, sizeof(old));
    memcpy(&got, &old, sizeof(old));
    update(ops, &want, count, false);
}

static void assert_updated(size_t count)
{
    const size_t end = BEFORE + dt_undo_pieces(count);
    assert_memory_equal(got.array, want.array, sizeof(got.array));
    for (size_t i = 0; i < sizeof(got.stamps) / sizeof(got.stamps[0]); i++)
        assert_int_equal(got.stamps[i], i >= BEFORE && i < end ? 9 : 0);
}

typedef void (*claim_f)(const struct dt_ops *ops, size_t count);

/* At borders of lines, runs, pieces, and of what one thread does alone. */
static void check(claim_f claim)
{
    static const size_t counts[] = {
        16, 1008, DT_UNDO_PIECE, DT_UNDO_PIECE + 16, 4 * DT_UNDO_PIECE, MOST,
    };
    const struct dt_ops *ops;
    for (size_t v = 0; (ops = dt_cpu_variant(v)); v++)
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            begin(ops, counts[i]);
            claim(ops, counts[i]);
            assert_updated(counts[i]);
        }
}

static void whole(const struct dt_ops *ops, size_t count)
{
    update(ops, &got, count, true);
}

static void again(const struct dt_ops *ops, size_t count)
{
    update(ops, &got, count, true);
    update(ops, &got, count, true);
}

static void take(int array, const struct scene *from, size_t at, size_t n)
{
    memcpy(got.array[array] + at, from->array[array] + at, n * sizeof(float));
}

/* Piece i was done, in the middle, or not begun. */
static void leave_piece(size_t i, size_t count, size_t slot)
{
    const size_t at = i * DT_UNDO_PIECE;
    const size_t n = min_size(DT_UNDO_PIECE, count - at);
    if (i % 3 == 0) {
        for (int array = 0; array < G; array++)
            take(array, &want, at, n);
        memcpy((uint16_t *)got.array[W] + at, (uint16_t *)want.array[W] + at,
               n * sizeof(uint16_t));
        got.stamps[BEFORE + i] = 9;
    }
    if (i % 3 > 1)
        return;
    struct dt_undo_slot *kept = &got.slots[slot];
    kept->step = 9;
    kept->piece = BEFORE + i;
    for (int array = 0; array < G; array++)
        memcpy(kept->old[array], old.array[array] + at, n * sizeof(float));
    if (i % 3 == 1)
        for (int array = 0; array < G; array++)
            take(array, &want, at, n / (size_t)(array + 1));
}

static void half_done(const struct dt_ops *ops, size_t count)
{
    for (size_t i = 0; i < dt_undo_pieces(count); i++)
        leave_piece(i, count, (i * 7) % DT_UNDO_SLOTS);
    update(ops, &got, count, true);
}

/* What slots have of other steps and of other ranges counts for nothing. */
static void of_others(const struct dt_ops *ops, size_t count)
{
    for (size_t i = 0; i < DT_UNDO_SLOTS; i++) {
        got.slots[i].step = i % 2 ? 9 : 8;
        got.slots[i].piece = i % 2 ? i % BEFORE : BEFORE;
    }
    got.slots[1].piece = BEFORE + dt_undo_pieces(count);
    update(ops, &got, count, true);
}

static void the_bits_are_those_without(void **state)
{
    (void)state;
    check(whole);
}

static void what_is_done_is_not_done_again(void **state)
{
    (void)state;
    check(again);
}

static void what_is_half_done_is_taken_back_and_done(void **state)
{
    (void)state;
    check(half_done);
}

static void what_belongs_to_others_is_not_taken(void **state)
{
    (void)state;
    check(of_others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_without),
        cmocka_unit_test(what_is_done_is_not_done_again),
        cmocka_unit_test(what_is_half_done_is_taken_back_and_done),
        cmocka_unit_test(what_belongs_to_others_is_not_taken),
    };
    return cmocka_run_group_tests_name("undo", tests, NULL, NULL);
}
