/* SPDX-License-Identifier: Apache-2.0 */
/* test_large.c - worlds in which ranks are connected to few others */
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

#include "scene.h"
#include "tensor/half.h"

static _Thread_local struct dt_error err; /* of this rank's last call */

#define TRY(x)                                                                 \
    do {                                                                       \
        if (!(x)) {                                                            \
            fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__, #x,       \
                    err.text);                                                 \
            return -1;                                                         \
        }                                                                      \
    } while (0)

/* Of the last count, the parts are reduced in several segments. */
static const int sizes[] = {17, 24, 32};
static const size_t counts[] = {1, 5, 40, 1000, 70001, 2100001};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* The last count takes long, so the smallest world does it for all. */
static size_t count_of_counts(int size)
{
    return sizeof(counts) / sizeof(*counts) - (size > sizes[0]);
}

static struct dt_comm *join(const struct dt_comm_world *world)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = PATIENCE_MS};
    return dt_comm_create("gloo", world, &options, &err);
}

/* --- results --- */

enum { PERIOD = 251 };

/* Small whole numbers, which bf16 has, too; their sums are exact. They come
 * again after PERIOD elements.
 */
static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 31) % PERIOD) - 100;
}

static void expect(float expected[PERIOD], int size, enum dt_reduce reduce,
                   bool half)
{
    for (size_t i = 0; i < PERIOD; i++) {
        float acc = value(0, i);
        for (int r = 1; r < size; r++)
            acc =
                reduce == DT_SUM ? acc + value(r, i) : fmaxf(acc, value(r, i));
        expected[i] = half ? dt_bf16_to_f32(dt_f32_to_bf16(acc)) : acc;
    }
}

static void set(struct dt_view v, size_t i, float x)
{
    if (v.dtype == DT_F32)
        dt_view_f32(v)[i] = x;
    else
        ((uint16_t *)dt_view_data(v))[i] = dt_f32_to_bf16(x);
}

static float get(struct dt_view v, size_t i)
{
    if (v.dtype == DT_F32)
        return dt_view_f32(v)[i];
    return dt_bf16_to_f32(((uint16_t *)dt_view_data(v))[i]);
}

/* A reduction of elements of `dtype`, of which each rank checks what it gets.
 */
struct reduction {
    enum dt_dtype dtype, wire;
    enum dt_reduce reduce;
};

static int check_all_reduce(struct dt_comm *comm, struct dt_view v,
                            struct reduction x)
{
    float expected[PERIOD];
    dt_ticket_t ticket;
    expect(expected, dt_comm_size(comm), x.reduce, x.wire == DT_BF16);
    for (size_t i = 0; i < v.count; i++)
        set(v, i, value(dt_comm_rank(comm), i));
    TRY(dt_comm_all_reduce(comm, v, x.reduce, x.wire, &ticket, &err) == 0);
    TRY(dt_comm_wait(comm, ticket, &err) == 0);
    for (size_t i = 0; i < v.count; i++)
        TRY(get(v, i) == expected[i % PERIOD]);
    return 0;
}

static int check_reduce_scatter(struct dt_comm *comm, struct dt_view v,
                                struct reduction x)
{
    size_t part = v.count / (size_t)dt_comm_size(comm);
    size_t first = part * (size_t)dt_comm_rank(comm);
    float expected[PERIOD];
    dt_ticket_t ticket;
    expect(expected, dt_comm_size(comm), x.reduce, x.wire == DT_BF16);
    v.count = part * (size_t)dt_comm_size(comm);
    for (size_t i = 0; i < v.count; i++)
        set(v, i, value(dt_comm_rank(comm), i));
    TRY(dt_comm_reduce_scatter(comm, v, x.reduce, x.wire, &ticket, &err) == 0);
    TRY(dt_comm_wait(comm, ticket, &err) == 0);
    for (size_t i = first; i < first + part; i++)
        TRY(get(v, i) == expected[i % PERIOD]);
    return 0;
}

static int reduce_rank(const struct dt_comm_world *world, void *arg)
{
    static const struct reduction reductions[] = {
        {DT_F32, DT_F32, DT_SUM},
        {DT_F32, DT_BF16, DT_SUM},
        {DT_BF16, DT_BF16, DT_SUM},
        {DT_F32, DT_F32, DT_MAX},
    };
    struct dt_comm *comm = join(world);
    (void)arg;
    TRY(comm);
    for (size_t n = 0; n < count_of_counts(world->size); n++)
        for (size_t i = 0; i < 4; i++) {
            struct reduction x = reductions[i];
            struct dt_buffer *buf =
                dt_buffer_create(&dt_cpu, counts[n] * 4, "a test", &err);
            struct dt_view v =
                dt_view_slice(dt_view_of(buf, x.dtype), 0, counts[n]);
            TRY(check_all_reduce(comm, v, x) == 0);
            TRY(check_reduce_scatter(comm, v, x) == 0);
            dt_buffer_destroy(buf);
        }
    dt_comm_destroy(comm);
    return 0;
}

static void reductions_give_the_sum_over_all_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        world_threads(sizes[i], reduce_rank, NULL);
}

static int copy_rank(const struct dt_comm_world *world, void *arg)
{
    struct dt_comm *comm = join(world);
    dt_ticket_t ticket;
    (void)arg;
    TRY(comm);
    for (size_t n = 0; n < count_of_counts(world->size); n++) {
        struct dt_buffer *buf =
            dt_buffer_create(&dt_cpu, counts[n] * 4, "a test", &err);
        struct dt_view v = dt_view_of(buf, DT_F32);
        int size = world->size, root = (int)n * 5 % size;
        size_t part = counts[n] / (size_t)size;
        for (size_t i = 0; i < v.count; i++)
            set(v, i, value(world->rank, i));
        TRY(dt_comm_broadcast(comm, v, root, &ticket, &err) == 0);
        TRY(dt_comm_wait(comm, ticket, &err) == 0);
        for (size_t i = 0; i < v.count; i++)
            TRY(get(v, i) == value(root, i));
        v.count = part * (size_t)size;
        for (size_t i = 0; i < part; i++)
            set(v, part * (size_t)world->rank + i, value(world->rank, i));
        TRY(dt_comm_all_gather(comm, v, &ticket, &err) == 0);
        TRY(dt_comm_wait(comm, ticket, &err) == 0);
        for (size_t i = 0; i < v.count; i++)
            TRY(get(v, i) == value((int)(i / part), i % part));
        dt_buffer_destroy(buf);
    }
    dt_comm_destroy(comm);
    return 0;
}

static void copies_come_from_the_root_or_from_all_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        world_threads(sizes[i], copy_rank, NULL);
}

/* Scalars are added in the order of ranks, as in small worlds. */
static int scalars_rank(const struct dt_comm_world *world, void *arg)
{
    struct dt_comm *comm = join(world);
    double sum[3], max = -world->rank;
    (void)arg;
    TRY(comm);
    for (int i = 0; i < 3; i++)
        sum[i] = i + 1 / (world->rank + 3.0);
    TRY(dt_comm_reduce_scalars(comm, sum, 3, DT_SUM, &err) == 0);
    TRY(dt_comm_reduce_scalars(comm, &max, 1, DT_MAX, &err) == 0);
    TRY(dt_comm_barrier(comm, &err) == 0);
    for (int i = 0; i < 3; i++) {
        double acc = i + 1 / 3.0;
        for (int r = 1; r < world->size; r++)
            acc += i + 1 / (r + 3.0);
        TRY(sum[i] == acc);
    }
    TRY(max == 0);
    dt_comm_destroy(comm);
    return 0;
}

static void scalars_are_added_in_the_order_of_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        world_threads(sizes[i], scalars_rank, NULL);
}

/* --- groups --- */

enum { GROUP_COUNT = 40 * 77 }; /* divides by the size of each group */

/* Ranks first, first + stride ... of a world, `count` of them. */
static struct dt_comm *strided(struct dt_comm *world, int count, int stride)
{
    int ranks[WORLD_MAX], r = dt_comm_rank(world);
    int first = r / (count * stride) * (count * stride) + r % stride;
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * stride;
    struct dt_comm *group = dt_comm_group(world, ranks, count, &err);
    if (!group)
        fprintf(stderr, "# %s\n", err.text);
    return group;
}

/* Values are those of places in the group, so expect() holds. */
static int check_group(struct dt_comm *group)
{
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, GROUP_COUNT * 4, "a test", &err);
    struct dt_view v = dt_view_of(buf, DT_F32);
    double sum = dt_comm_rank(group), size = dt_comm_size(group);
    TRY(check_all_reduce(group, v,
                         (struct reduction){DT_F32, DT_F32, DT_SUM}) == 0);
    TRY(check_reduce_scatter(group, v,
                             (struct reduction){DT_F32, DT_BF16, DT_SUM}) == 0);
    TRY(dt_comm_reduce_scalars(group, &sum, 1, DT_SUM, &err) == 0);
    TRY(sum == size * (size - 1) / 2);
    dt_buffer_destroy(buf);
    return 0;
}

/* Whole numbers, which bf16 has. */
static int check_gather_bf16(struct dt_comm *comm)
{
    size_t part = 8 * 11, count = part * (size_t)dt_comm_size(comm);
    dt_ticket_t ticket;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * 4, "a test", &err);
    struct dt_view v = dt_view_of(buf, DT_F32);
    for (size_t i = 0; i < part; i++)
        set(v, part * (size_t)dt_comm_rank(comm) + i,
            value(dt_comm_rank(comm), i));
    TRY(dt_comm_all_gather_bf16(comm, v, &ticket, &err) == 0);
    TRY(dt_comm_wait(comm, ticket, &err) == 0);
    for (size_t i = 0; i < count; i++)
        TRY(get(v, i) == value((int)(i / part), i % part));
    dt_buffer_destroy(buf);
    return 0;
}

/* In each block of 8 bits the largest number is 127, so that whole numbers are
 * exact.
 */
static float small_value(int rank, size_t i)
{
    return i % 128 == 0 ? 127 : value(rank, i) - 25;
}

static int check_int8(struct dt_comm *comm)
{
    size_t part = 3 * 128, count = part * (size_t)dt_comm_size(comm);
    const struct dt_noise noise = {.seed = 1};
    dt_ticket_t ticket;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * 4, "a test", &err);
    struct dt_view v = dt_view_of(buf, DT_F32);
    for (size_t i = 0; i < count; i++)
        set(v, i, small_value(dt_comm_rank(comm), i));
    TRY(dt_comm_reduce_scatter_int8(comm, v, &noise, &ticket, &err) == 0);
    TRY(dt_comm_wait(comm, ticket, &err) == 0);
    size_t first = part * (size_t)dt_comm_rank(comm);
    for (size_t i = first; i < first + part; i++) {
        float sum = 0;
        for (int r = 0; r < dt_comm_size(comm); r++)
            sum += small_value(r, i);
        TRY(get(v, i) == sum);
    }
    dt_buffer_destroy(buf);
    return 0;
}

/* Groups of ranks that the world has not connected. */
static int group_rank(const struct dt_comm_world *world, void *arg)
{
    struct dt_comm *comm = join(world);
    (void)arg;
    TRY(comm);
    struct dt_comm *few = strided(comm, 2, 20), *many = strided(comm, 20, 1);
    struct dt_comm *five = strided(comm, 5, 8);
    TRY(few && many && five);
    TRY(check_group(few) == 0 && check_group(many) == 0);
    TRY(check_group(five) == 0 && check_group(comm) == 0);
    TRY(check_gather_bf16(many) == 0 && check_gather_bf16(comm) == 0);
    TRY(check_int8(few) == 0 && check_int8(many) == 0);
    TRY(check_int8(many) == 0 && check_int8(comm) == 0);
    dt_comm_destroy(comm);
    return 0;
}

static void groups_connect_whom_they_need(void **state)
{
    (void)state;
    world_threads(40, group_rank, NULL);
}

/* --- bits --- */

enum { INEXACT = 5000 };

/* Sums whose bits depend on the order, of each rank. */
static int inexact_rank(const struct dt_comm_world *world, void *arg)
{
    float *sums = (float *)arg + (size_t)world->rank * INEXACT;
    struct dt_comm *comm = join(world);
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, INEXACT * 4, "a test", &err);
    struct dt_view v = dt_view_of(buf, DT_F32);
    dt_ticket_t ticket;
    TRY(comm && buf);
    for (size_t i = 0; i < INEXACT; i++)
        dt_view_f32(v)[i] = sinf((float)(i + 1) * (float)(world->rank + 1));
    TRY(dt_comm_all_reduce(comm, v, DT_SUM, DT_F32, &ticket, &err) == 0);
    TRY(dt_comm_wait(comm, ticket, &err) == 0);
    memcpy(sums, dt_view_f32(v), INEXACT * sizeof(float));
    dt_comm_destroy(comm);
    dt_buffer_destroy(buf);
    return 0;
}

static void sums_have_the_same_bits_on_all_ranks_and_in_all_runs(void **state)
{
    size_t row = INEXACT * sizeof(float);
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        float *first = calloc((size_t)sizes[i], row);
        float *again = calloc((size_t)sizes[i], row);
        assert_true(first && again);
        world_threads(sizes[i], inexact_rank, first);
        world_threads(sizes[i], inexact_rank, again);
        for (int r = 0; r < sizes[i]; r++)
            assert_memory_equal(first, first + (size_t)r * INEXACT, row);
        assert_memory_equal(first, again, (size_t)sizes[i] * row);
        free(first);
        free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_give_the_sum_over_all_ranks),
        cmocka_unit_test(copies_come_from_the_root_or_from_all_ranks),
        cmocka_unit_test(scalars_are_added_in_the_order_of_ranks),
        cmocka_unit_test(groups_connect_whom_they_need),
        cmocka_unit_test(sums_have_the_same_bits_on_all_ranks_and_in_all_runs),
    };
    return cmocka_run_group_tests_name("large worlds", tests, NULL, NULL);
}
