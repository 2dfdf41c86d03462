/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_collectives.c - every collective of a backend, in worlds of 1 to 4 ranks
 *
 * Nothing waits except at the end of each case: streams alone have to order
 * what is computed, sent and copied back.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/span.h"
#include "tensor.h"

enum { PATIENCE_MS = 30000 };

typedef int (*test_f)(struct ctx *c);

static int join_and_test(struct ctx *c, const struct dt_comm_world *world,
                         test_f test)
{
    TRY(rank_open(&c->rank, world, PATIENCE_MS, &c->err) == 0);
    TRY(dt_comm_rank(c->rank.comm) == world->rank);
    TRY(dt_comm_size(c->rank.comm) == world->size);
    TRY(!strcmp(dt_comm_backend(c->rank.comm),
                world->size > 1 ? hardware()->backend : "self"));
    return test(c);
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    test_f *test = arg;
    struct ctx c = {.rank.rank = world->rank, .rank.size = world->size};
    int rc = join_and_test(&c, world, *test);
    rank_close(&c.rank, rc < 0 ? &c.err : NULL);
    return rc == 0 ? 0 : 1;
}

static void run(test_f test)
{
    for (int size = 1; size <= hardware()->most_ranks; size++)
        ranks_run(size, rank_main, &test, -1);
}

/* --- values --- */

static float narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)(bits >> 16);
}

/* What rank r has at place i. Sums of whole numbers are the same in any order;
 * sums of others depend on it.
 */
static float value(int r, size_t i, bool whole)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)r * 40503u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    if (whole)
        return (float)(h & 0xffff) - 32768.0f;
    return ((float)(h & 0xffff) - 32768.0f) * (h & 0x10000 ? 1e-3f : 7.0f);
}

/* What rank r contributes; `half`: it travels as bf16. */
static float contribution(int r, size_t i, int size, bool half)
{
    half &= size > 1;
    float x = value(r, i, !half && !hardware()->own_sums);
    return half ? narrow(x) : x;
}

static float expected(size_t i, int size, enum dt_reduce op, bool half)
{
    float acc = contribution(0, i, size, half);
    for (int r = 1; r < size; r++) {
        float x = contribution(r, i, size, half);
        if (op == DT_SUM)
            acc += x;
        else
            acc = x > acc ? x : acc;
    }
    return half && size > 1 ? narrow(acc) : acc;
}

static void fill(struct ctx *c, bool half)
{
    bool whole = !hardware()->own_sums && (!half || c->rank.size == 1);
    for (size_t i = 0; i < c->v.count; i++) {
        float x = value(c->rank.rank, i, whole);
        if (c->v.dtype == DT_F32)
            ((float *)before(c))[i] = x;
        else
            ((uint16_t *)before(c))[i] = to_bf16(narrow(x));
    }
}

/* Have the elements from `first` on exactly the expected bits? */
static int matches(struct ctx *c, size_t first, size_t count, enum dt_reduce op,
                   bool half)
{
    for (size_t i = first; i < first + count; i++) {
        float want = expected(i, c->rank.size, op, half);
        const float *got = (const float *)after(c) + i;
        if (c->v.dtype == DT_BF16) {
            TRY(((const uint16_t *)after(c))[i] == to_bf16(narrow(want)));
            continue;
        }
        if (memcmp(got, &want, 4) != 0)
            fprintf(stderr, "# %zu of %zu: %g, not %g\n", i, c->v.count,
                    (double)*got, (double)want);
        TRY(memcmp(got, &want, 4) == 0);
    }
    return 0;
}

/* --- reductions --- */

static const size_t counts[] = {0, 1, 2, 3, 1000, 16384, 16385, 40001, 786433};

enum {
    FEW = 16385, /* elements that all types and addresses are tried with */
};

/* The number of counts that this hardware is tested with. */
static size_t count_of_counts(void)
{
    size_t n = 0;
    while (n < sizeof(counts) / sizeof(*counts) &&
           (hardware()->large || counts[n] <= FEW))
        n++;
    return n;
}

static enum dt_dtype last_dtype(size_t count)
{
    return count <= FEW ? DT_F64 : DT_BF16;
}

static int reduce_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                      enum dt_dtype wire, enum dt_reduce op, size_t guard)
{
    bool half = wire == DT_BF16;
    if (open_case(c, count, dtype, guard) < 0)
        return -1;
    fill(c, half);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_reduce(c->rank.comm, c->v, op, wire, &c->ticket, &c->err) ==
        0);
    if (download(c) < 0 || matches(c, 0, count, op, half) < 0)
        return -1;
    return close_case(c);
}

static int reduce_any(struct ctx *c, size_t count, enum dt_reduce op)
{
    if (reduce_one(c, count, DT_F32, DT_F32, op, GUARD) < 0 ||
        reduce_one(c, count, DT_F32, DT_BF16, op, GUARD) < 0 ||
        reduce_one(c, count, DT_BF16, DT_BF16, op, GUARD) < 0)
        return -1;
    if (count > FEW)
        return 0;
    if (reduce_one(c, count, DT_F32, DT_BF16, op, ODD_GUARD) < 0)
        return -1;
    return reduce_one(c, count, DT_BF16, DT_BF16, op, ODD_GUARD);
}

static int all_reduce(struct ctx *c)
{
    for (size_t i = 0; i < count_of_counts(); i++)
        if (reduce_any(c, counts[i], DT_SUM) < 0 ||
            reduce_any(c, counts[i], DT_MAX) < 0)
            return -1;
    return 0;
}

static void all_reduce_gives_every_rank_the_expected_bits(void **state)
{
    (void)state;
    run(all_reduce);
}

static int scatter_one(struct ctx *c, size_t part, enum dt_dtype dtype,
                       enum dt_dtype wire, enum dt_reduce op)
{
    bool half = wire == DT_BF16;
    if (open_case(c, part * (size_t)c->rank.size, dtype, GUARD) < 0)
        return -1;
    fill(c, half);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_reduce_scatter(c->rank.comm, c->v, op, wire, &c->ticket,
                               &c->err) == 0);
    if (download(c) < 0 ||
        matches(c, part * (size_t)c->rank.rank, part, op, half) < 0)
        return -1;
    return close_case(c);
}

static int reduce_scatter(struct ctx *c)
{
    for (size_t i = 0; i < count_of_counts(); i++)
        if (scatter_one(c, counts[i], DT_F32, DT_F32, DT_SUM) < 0 ||
            scatter_one(c, counts[i], DT_F32, DT_BF16, DT_SUM) < 0 ||
            scatter_one(c, counts[i], DT_BF16, DT_BF16, DT_SUM) < 0)
            return -1;
    if (scatter_one(c, 1000, DT_F32, DT_F32, DT_MAX) < 0 ||
        scatter_one(c, 1000, DT_F32, DT_BF16, DT_MAX) < 0)
        return -1;
    return 0;
}

static void reduce_scatter_gives_each_rank_its_part(void **state)
{
    (void)state;
    run(reduce_scatter);
}

static int reduce_much(struct ctx *c)
{
    if (c->rank.size != 2)
        return 0;
    if (reduce_one(c, 17 << 20, DT_F32, DT_BF16, DT_SUM, GUARD) < 0)
        return -1;
    return scatter_one(c, (9 << 20) + 5, DT_F32, DT_BF16, DT_SUM);
}

static void tensors_may_be_larger_than_the_staging_memory(void **state)
{
    (void)state;
    if (!hardware()->stages)
        skip();
    run(reduce_much);
}

/* What is not a number on any rank is not one in the largest of all. */
static int max_of_nan(struct ctx *c, enum dt_dtype wire)
{
    int size = c->rank.size, rank = c->rank.rank;
    if (open_case(c, (size_t)size + 1, DT_F32, GUARD) < 0)
        return -1;
    for (int r = 0; r <= size; r++)
        ((float *)before(c))[r] = r == rank ? NAN : (float)rank;
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_reduce(c->rank.comm, c->v, DT_MAX, wire, &c->ticket,
                           &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (int r = 0; r < size; r++)
        TRY(isnan(((float *)after(c))[r]));
    TRY(((float *)after(c))[size] == (float)(size - 1));
    return close_case(c);
}

static int not_numbers(struct ctx *c)
{
    double values[WORLD_MAX + 1];
    int size = c->rank.size;
    if (max_of_nan(c, DT_BF16) < 0)
        return -1;
    if (hardware()->own_sums && max_of_nan(c, DT_F32) < 0)
        return -1;
    for (int r = 0; r <= size; r++)
        values[r] = r == c->rank.rank ? (double)NAN : c->rank.rank;
    TRY(dt_comm_reduce_scalars(c->rank.comm, values, (size_t)size + 1, DT_MAX,
                               &c->err) == 0);
    for (int r = 0; r < size; r++)
        TRY(isnan(values[r]));
    TRY(values[size] == size - 1);
    return 0;
}

static void a_maximum_keeps_what_is_not_a_number(void **state)
{
    (void)state;
    run(not_numbers);
}

/* --- copies --- */

/* A byte that depends on its place and on whose it is. */
static unsigned char byte_at(size_t i, int owner)
{
    return (unsigned char)(i * 31 + (size_t)owner * 7 + (i >> 8));
}

static int gather_one(struct ctx *c, size_t part, enum dt_dtype dtype)
{
    size_t bytes = part * dt_dtype_bytes(dtype), n = (size_t)c->rank.size;
    if (open_case(c, part * n, dtype, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)before(c))[bytes * (size_t)c->rank.rank + i] =
            byte_at(i, c->rank.rank);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_gather(c->rank.comm, c->v, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < bytes * n; i++)
        TRY(((unsigned char *)after(c))[i] ==
            byte_at(i % bytes, (int)(i / bytes)));
    return close_case(c);
}

static int all_gather(struct ctx *c)
{
    for (size_t i = 0; i < count_of_counts(); i++)
        for (enum dt_dtype dtype = DT_F32; dtype <= last_dtype(counts[i]);
             dtype++)
            if (gather_one(c, counts[i], dtype) < 0)
                return -1;
    return 0;
}

static void all_gather_collects_the_parts_of_all_ranks(void **state)
{
    (void)state;
    run(all_gather);
}

static int broadcast_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                         int root)
{
    size_t bytes = count * dt_dtype_bytes(dtype);
    if (open_case(c, count, dtype, GUARD) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)before(c))[i] = byte_at(i, c->rank.rank);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_broadcast(c->rank.comm, c->v, root, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        TRY(((unsigned char *)after(c))[i] == byte_at(i, root));
    return close_case(c);
}

static int broadcast(struct ctx *c)
{
    for (size_t i = 0; i < count_of_counts(); i++)
        for (int root = 0; root < c->rank.size; root++)
            for (enum dt_dtype dtype = DT_F32; dtype <= last_dtype(counts[i]);
                 dtype++)
                if (broadcast_one(c, counts[i], dtype, root) < 0)
                    return -1;
    return 0;
}

static void broadcast_copies_the_data_of_the_root(void **state)
{
    (void)state;
    run(broadcast);
}

/* --- scalars --- */

/* Doubles of the device, as the norm of gradients is; they travel as they are.
 */
static int doubles(struct ctx *c)
{
    int size = c->rank.size;
    double sum = size * (size - 1) / 2.0;
    for (enum dt_reduce op = DT_SUM; op <= DT_MAX; op++) {
        enum dt_dtype wire = op == DT_SUM ? DT_F32 : DT_BF16;
        double got[2];
        if (open_case(c, 2, DT_F64, GUARD) < 0)
            return -1;
        ((double *)before(c))[0] = c->rank.rank;
        ((double *)before(c))[1] = 1e300 * (c->rank.rank & 1);
        if (upload(c) < 0)
            return -1;
        TRY(dt_comm_all_reduce(c->rank.comm, c->v, op, wire, &c->ticket,
                               &c->err) == 0);
        if (download(c) < 0)
            return -1;
        memcpy(got, after(c), sizeof(got));
        TRY(got[0] == (op == DT_SUM ? sum : size - 1));
        TRY(got[1] == 1e300 * (op == DT_SUM ? size / 2 : size > 1));
        if (close_case(c) < 0)
            return -1;
    }
    return 0;
}

static void doubles_of_the_device_are_reduced_unrounded(void **state)
{
    (void)state;
    run(doubles);
}

/* Sums that are exact in any order, and not in single precision. */
static int scalars(struct ctx *c)
{
    const double small = 0x1p-30;
    double values[1000], max[2] = {-c->rank.rank, 1e300 * (c->rank.rank & 1)};
    struct dt_span_totals before, after;
    dt_span_totals(&before);
    for (int i = 0; i < 1000; i++)
        values[i] = i + c->rank.rank + small;
    TRY(dt_comm_reduce_scalars(c->rank.comm, values, 1000, DT_SUM, &c->err) ==
        0);
    for (int i = 0; i < 1000; i++) {
        double sum = i + small;
        for (int r = 1; r < c->rank.size; r++)
            sum += i + r + small;
        TRY(values[i] == sum);
    }
    TRY(dt_comm_reduce_scalars(c->rank.comm, max, 2, DT_MAX, &c->err) == 0);
    TRY(max[0] == 0 && max[1] == 1e300 * (c->rank.size > 1));
    TRY(dt_comm_barrier(c->rank.comm, &c->err) == 0);
    dt_span_totals(&after); /* traces compare clocks by these, over NCCL, too */
    TRY(c->rank.size == 1 || after.count[DT_SPAN_COLLECTIVE] >=
                                 before.count[DT_SPAN_COLLECTIVE] + 3);
    return 0;
}

static void scalars_are_reduced_in_double_precision(void **state)
{
    (void)state;
    run(scalars);
}

/* --- many operations --- */

/* More under way than there are slots for, of all sizes. */
static int queue(struct ctx *c)
{
    enum { OPS = 300, SMALL = 100, LARGE = 50000, LARGE_EACH = 20 };
    size_t sizes[OPS], count = 0, first = 0;
    for (size_t i = 0; i < OPS; i++) {
        sizes[i] = i % LARGE_EACH == 0 ? LARGE : i % SMALL;
        count += sizes[i];
    }
    if (open_case(c, count, DT_F32, GUARD) < 0)
        return -1;
    fill(c, false);
    if (upload(c) < 0)
        return -1;
    for (size_t i = 0; i < OPS; first += sizes[i++])
        TRY(dt_comm_all_reduce(c->rank.comm,
                               dt_view_slice(c->v, first, sizes[i]), DT_SUM,
                               DT_F32, &c->ticket, &c->err) == 0);
    if (download(c) < 0 || matches(c, 0, count, DT_SUM, false) < 0)
        return -1;
    return close_case(c);
}

static void waiting_for_the_last_operation_finishes_all(void **state)
{
    (void)state;
    run(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_gives_every_rank_the_expected_bits),
        cmocka_unit_test(reduce_scatter_gives_each_rank_its_part),
        cmocka_unit_test(tensors_may_be_larger_than_the_staging_memory),
        cmocka_unit_test(a_maximum_keeps_what_is_not_a_number),
        cmocka_unit_test(all_gather_collects_the_parts_of_all_ranks),
        cmocka_unit_test(broadcast_copies_the_data_of_the_root),
        cmocka_unit_test(doubles_of_the_device_are_reduced_unrounded),
        cmocka_unit_test(scalars_are_reduced_in_double_precision),
        cmocka_unit_test(waiting_for_the_last_operation_finishes_all),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
