/* SPDX-License-Identifier: Apache-2.0 */
/* test_comm.c - every collective of every backend, ranks as threads */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

/* A step of a test; a thread other than cmocka's must not assert. */
#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: rank %d of %d: %s: %s\n", __FILE__,      \
                    __LINE__, c->rank, c->size, #condition, c->err.text);      \
            return -1;                                                         \
        }                                                                      \
    } while (0)

struct ctx {
    struct dt_comm *comm;
    int rank, size;
    struct dt_error err;
};

struct setup {
    const char *backend;
    int (*test)(struct ctx *c);
};

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct setup *setup = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct ctx ctx = {.rank = world->rank, .size = world->size}, *c = &ctx;
    int rc;
    c->comm = dt_comm_create(setup->backend, world, &options, &c->err);
    TRY(c->comm);
    TRY(dt_comm_rank(c->comm) == c->rank);
    TRY(dt_comm_size(c->comm) == c->size);
    rc = setup->test(c);
    dt_comm_destroy(c->comm);
    return rc;
}

/* Runs the test for self, and for gloo with 1 to 4 ranks. */
static void run(int (*test)(struct ctx *c))
{
    struct setup self = {"self", test};
    world_threads(1, rank_main, &self);
#ifdef HAVE_GLOO
    for (int size = 1; size <= 4; size++) {
        struct setup gloo = {"gloo", test};
        world_threads(size, rank_main, &gloo);
    }
#endif
}

enum {
    GUARD = 5,
};

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

/* What rank r has at place i: sums of these depend on their order. */
static float value(int r, size_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)r * 40503u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return ((float)(h & 0xffff) - 32768.0f) * (h & 0x10000 ? 1e-3f : 7.0f);
}

static float expected(size_t i, int size, enum dt_reduce op, bool half)
{
    float acc = 0;
    for (int r = 0; r < size; r++) {
        float x = half && size > 1 ? narrow(value(r, i)) : value(r, i);
        if (r == 0)
            acc = x;
        else if (op == DT_SUM)
            acc += x;
        else
            acc = x > acc ? x : acc;
    }
    return half && size > 1 ? narrow(acc) : acc;
}

/* A view in the middle of a buffer whose ends hold a pattern. */
static struct dt_view guarded(size_t count, enum dt_dtype dtype)
{
    size_t bytes = (count + 2 * GUARD) * dt_dtype_bytes(dtype);
    struct dt_buffer *buf = malloc(sizeof(*buf));
    buf->data = malloc(bytes);
    buf->bytes = bytes;
    memset(buf->data, 0x5a, bytes);
    return (struct dt_view){buf, GUARD, count, dtype};
}

static bool release(struct dt_view v)
{
    const unsigned char *data = v.buf->data;
    size_t end = GUARD * dt_dtype_bytes(v.dtype);
    bool intact = true;
    for (size_t i = 0; i < end; i++)
        intact &= data[i] == 0x5a && data[v.buf->bytes - 1 - i] == 0x5a;
    free(v.buf->data);
    free(v.buf);
    return intact;
}

static void fill(struct dt_view v, int rank)
{
    for (size_t i = 0; i < v.count; i++) {
        if (v.dtype == DT_F32)
            dt_view_f32(v)[i] = value(rank, i);
        else
            ((uint16_t *)dt_view_data(v))[i] = to_bf16(narrow(value(rank, i)));
    }
}

/* Has v, from `first` on for `count` elements, exactly the expected bits? */
static bool matches(struct dt_view v, size_t first, size_t count, int size,
                    enum dt_reduce op, bool half)
{
    for (size_t i = first; i < first + count; i++) {
        float want = expected(i, size, op, half);
        if (v.dtype == DT_F32
                ? memcmp(&dt_view_f32(v)[i], &want, 4) != 0
                : ((uint16_t *)dt_view_data(v))[i] != to_bf16(narrow(want)))
            return false;
    }
    return true;
}

static const size_t counts[] = {0, 1, 2, 3, 1000, 16384, 40001, 786433};

static int reduce_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                      enum dt_dtype wire, enum dt_reduce op)
{
    struct dt_view v = guarded(count, dtype);
    dt_ticket_t ticket;
    fill(v, c->rank);
    TRY(dt_comm_all_reduce(c->comm, v, op, wire, &ticket, &c->err) == 0);
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    TRY(matches(v, 0, count, c->size, op, wire == DT_BF16));
    TRY(release(v));
    return 0;
}

static int all_reduce(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (enum dt_reduce op = DT_SUM; op <= DT_MAX; op++)
            if (reduce_one(c, counts[i], DT_F32, DT_F32, op) < 0 ||
                reduce_one(c, counts[i], DT_F32, DT_BF16, op) < 0 ||
                reduce_one(c, counts[i], DT_BF16, DT_BF16, op) < 0)
                return -1;
    return 0;
}

static int scatter_one(struct ctx *c, size_t part, enum dt_dtype dtype,
                       enum dt_dtype wire, enum dt_reduce op)
{
    struct dt_view v = guarded(part * (size_t)c->size, dtype);
    dt_ticket_t ticket;
    fill(v, c->rank);
    TRY(dt_comm_reduce_scatter(c->comm, v, op, wire, &ticket, &c->err) == 0);
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    TRY(matches(v, part * (size_t)c->rank, part, c->size, op, wire == DT_BF16));
    TRY(release(v));
    return 0;
}

static int reduce_scatter(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        if (scatter_one(c, counts[i], DT_F32, DT_F32, DT_SUM) < 0 ||
            scatter_one(c, counts[i], DT_F32, DT_BF16, DT_SUM) < 0 ||
            scatter_one(c, counts[i], DT_BF16, DT_BF16, DT_SUM) < 0)
            return -1;
    if (scatter_one(c, 1000, DT_F32, DT_F32, DT_MAX) < 0 ||
        scatter_one(c, 1000, DT_F32, DT_BF16, DT_MAX) < 0)
        return -1;
    return 0;
}

/* What is not a number on any rank is not one in the largest of all. */
static int not_numbers(struct ctx *c)
{
    struct dt_view v = guarded((size_t)c->size + 1, DT_F32);
    double values[5] = {0};
    float *x = dt_view_f32(v);
    dt_ticket_t ticket;
    for (int r = 0; r <= c->size; r++)
        values[r] = x[r] = r == c->rank ? NAN : (float)c->rank;
    TRY(dt_comm_all_reduce(c->comm, v, DT_MAX, DT_F32, &ticket, &c->err) == 0);
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    TRY(dt_comm_reduce_scalars(c->comm, values, (size_t)c->size + 1, DT_MAX,
                               &c->err) == 0);
    for (int r = 0; r < c->size; r++)
        TRY(isnan(x[r]) && isnan(values[r]));
    TRY(x[c->size] == (float)(c->size - 1));
    TRY(values[c->size] == c->size - 1);
    TRY(release(v));
    return 0;
}

/* A byte that depends on its place and, for all_gather, on whose it is. */
static unsigned char byte_at(size_t i, int owner)
{
    return (unsigned char)(i * 31 + (size_t)owner * 7 + (i >> 8));
}

static int gather_one(struct ctx *c, size_t part, enum dt_dtype dtype)
{
    struct dt_view v = guarded(part * (size_t)c->size, dtype);
    size_t bytes = part * dt_dtype_bytes(dtype);
    unsigned char *data = dt_view_data(v);
    dt_ticket_t ticket;
    for (size_t i = 0; i < bytes; i++)
        data[bytes * (size_t)c->rank + i] = byte_at(i, c->rank);
    TRY(dt_comm_all_gather(c->comm, v, &ticket, &c->err) == 0);
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bytes; i++)
            TRY(data[bytes * (size_t)r + i] == byte_at(i, r));
    TRY(release(v));
    return 0;
}

static int all_gather(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (enum dt_dtype dtype = DT_F32; dtype <= DT_I64; dtype++)
            if (gather_one(c, counts[i], dtype) < 0)
                return -1;
    return 0;
}

static int broadcast_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                         int root)
{
    struct dt_view v = guarded(count, dtype);
    size_t bytes = count * dt_dtype_bytes(dtype);
    unsigned char *data = dt_view_data(v);
    dt_ticket_t ticket;
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(i, c->rank);
    TRY(dt_comm_broadcast(c->comm, v, root, &ticket, &c->err) == 0);
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    for (size_t i = 0; i < bytes; i++)
        TRY(data[i] == byte_at(i, root));
    TRY(release(v));
    return 0;
}

static int broadcast(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (int root = 0; root < c->size; root++)
            if (broadcast_one(c, counts[i], DT_F32, root) < 0 ||
                broadcast_one(c, counts[i], DT_BF16, root) < 0 ||
                broadcast_one(c, counts[i], DT_I64, root) < 0)
                return -1;
    return 0;
}

static int scalars(struct ctx *c)
{
    double sum = 0, max = 0, last = 0;
    double values[3] = {c->rank + 0.1, -c->rank, 1e300 * (c->rank & 1)};
    for (int r = 0; r < c->size; r++) {
        sum = r ? sum + (r + 0.1) : 0.1;
        max = r ? max + -r : 0;
        last = r ? last + 1e300 * (r & 1) : 0;
    }
    TRY(dt_comm_reduce_scalars(c->comm, values, 3, DT_SUM, &c->err) == 0);
    TRY(values[0] == sum && values[1] == max && values[2] == last);
    values[0] = c->rank;
    TRY(dt_comm_reduce_scalars(c->comm, values, 1, DT_MAX, &c->err) == 0);
    TRY(values[0] == c->size - 1);
    TRY(dt_comm_barrier(c->comm, &c->err) == 0);
    return 0;
}

static int queue(struct ctx *c)
{
    enum { OPS = 40, COUNT = 50000 };
    struct dt_view views[OPS];
    dt_ticket_t ticket;
    for (int i = 0; i < OPS; i++) {
        views[i] = guarded(i % 2 ? COUNT : (size_t)i, DT_F32);
        fill(views[i], c->rank);
        TRY(dt_comm_all_reduce(c->comm, views[i], DT_SUM, DT_F32, &ticket,
                               &c->err) == 0);
    }
    TRY(dt_comm_wait(c->comm, ticket, &c->err) == 0);
    for (int i = 0; i < OPS; i++) {
        TRY(matches(views[i], 0, views[i].count, c->size, DT_SUM, false));
        TRY(release(views[i]));
    }
    return 0;
}

static void all_reduce_combines_in_the_order_of_ranks(void **state)
{
    (void)state;
    run(all_reduce);
}

static void reduce_scatter_gives_each_rank_its_part(void **state)
{
    (void)state;
    run(reduce_scatter);
}

static void a_maximum_keeps_what_is_not_a_number(void **state)
{
    (void)state;
    run(not_numbers);
}

static void all_gather_collects_the_parts_of_all_ranks(void **state)
{
    (void)state;
    run(all_gather);
}

static void broadcast_copies_the_data_of_the_root(void **state)
{
    (void)state;
    run(broadcast);
}

static void scalars_are_reduced_in_double_precision(void **state)
{
    (void)state;
    run(scalars);
}

static void waiting_for_the_last_operation_finishes_all(void **state)
{
    (void)state;
    run(queue);
}

#ifndef HAVE_GLOO
static void several_ranks_are_refused_without_gloo(void **state)
{
    const struct dt_comm_options options = {.timeout_ms = 1000};
    struct dt_error err;
    (void)state;
    world_refuse("gloo", 2, &options, &err);
    assert_string_equal(err.text,
                        "comm: this disttrain was built without gloo, so it "
                        "cannot use 2 ranks: configure it --with-gloo "
                        "(Debian: libgloo-dev)");
    assert_int_equal(err.status, EX_CONFIG);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_combines_in_the_order_of_ranks),
        cmocka_unit_test(reduce_scatter_gives_each_rank_its_part),
        cmocka_unit_test(a_maximum_keeps_what_is_not_a_number),
        cmocka_unit_test(all_gather_collects_the_parts_of_all_ranks),
        cmocka_unit_test(broadcast_copies_the_data_of_the_root),
        cmocka_unit_test(scalars_are_reduced_in_double_precision),
        cmocka_unit_test(waiting_for_the_last_operation_finishes_all),
#ifndef HAVE_GLOO
        cmocka_unit_test(several_ranks_are_refused_without_gloo),
#endif
    };
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
