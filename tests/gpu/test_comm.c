/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_comm.c - every collective between GPUs, ranks as processes
 *
 * Nothing waits but at the end of each case: what is computed, sent and copied
 * back has to be ordered by the streams alone.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "../unit/world.h"

/* A step of a test; a rank must not assert. */
#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: rank %d of %d: %s: %s\n", __FILE__,      \
                    __LINE__, c->rank, c->size, #condition, c->err.text);      \
            return -1;                                                         \
        }                                                                      \
    } while (0)

enum {
    GUARD = 8, /* elements around each view */
    MOST_RANKS = 4,
};

struct ctx {
    const struct dt_device *device;
    struct dt_stream *stream;
    struct dt_comm *comm;
    struct dt_event *event;
    int rank, size;
    struct dt_error err;
    /* of the present case */
    struct dt_buffer *buf;
    struct dt_view v;
    unsigned char *before, *after; /* pinned, with guards */
    dt_ticket_t ticket;
};

struct setup {
    int (*test)(struct ctx *c);
};

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct setup *setup = arg;
    const struct dt_backend_options backend_options = {.local_rank =
                                                           world->rank};
    struct dt_comm_options options = {.interface = "lo", .timeout_ms = 30000};
    struct ctx ctx = {.rank = world->rank, .size = world->size}, *c = &ctx;
    const struct dt_backend *backend;
    char host[16], note[256];
    int rc;
    signal(SIGPIPE, SIG_IGN); /* as disttrain train does */
    /* NCCL takes one card for several if they seem to be on several hosts */
    snprintf(host, sizeof(host), "h%d", world->rank);
    setenv("NCCL_HOSTID", host, 0);
    backend =
        dt_backend_open("cuda", &backend_options, note, sizeof(note), &c->err);
    TRY(backend);
    c->device = backend->device;
    TRY(c->device->stream_create(&c->stream, &c->err) == 0);
    TRY(c->device->event_create(&c->event, &c->err) == 0);
    options.stream = c->stream;
    c->comm = dt_backend_connect(backend, world, &options, &c->err);
    TRY(c->comm);
    TRY(dt_comm_rank(c->comm) == c->rank && dt_comm_size(c->comm) == c->size);
    TRY(!strcmp(dt_comm_backend(c->comm), c->size > 1 ? "nccl" : "self"));
    rc = setup->test(c);
    if (rc == 0)
        dt_comm_destroy(c->comm);
    else
        dt_comm_abandon(c->comm, &c->err);
    c->device->event_destroy(c->event);
    c->device->stream_destroy(c->stream);
    return rc == 0 ? 0 : 1;
}

/* Runs the test with 1 to 4 ranks. */
static void run(int (*test)(struct ctx *c))
{
    struct setup setup = {.test = test};
    for (int size = 1; size <= MOST_RANKS; size++) {
        int statuses[WORLD_MAX];
        world_processes(size, rank_main, &setup, statuses);
        for (int r = 0; r < size; r++)
            assert_int_equal(statuses[r], 0);
    }
}

/* --- one case --- */

static size_t guard_bytes(const struct ctx *c)
{
    return GUARD * dt_dtype_bytes(c->v.dtype);
}

/* The elements before and after the operation, on the host. */
static void *before(const struct ctx *c)
{
    return c->before + guard_bytes(c);
}

static void *after(const struct ctx *c)
{
    return c->after + guard_bytes(c);
}

/* A view in the middle of a buffer whose ends hold a pattern. `shift` lets its
 * address be a bad one.
 */
static int open_case(struct ctx *c, size_t count, enum dt_dtype dtype,
                     size_t shift)
{
    size_t bytes = (count + 2 * GUARD + shift) * dt_dtype_bytes(dtype);
    void *data;
    c->buf = dt_buffer_create(c->device, bytes, "a test", &c->err);
    TRY(c->buf);
    c->v = (struct dt_view){c->buf, GUARD, count, dtype};
    TRY(c->device->allocate_staging(bytes, &data, &c->err) == 0);
    c->before = data;
    TRY(c->device->allocate_staging(bytes, &data, &c->err) == 0);
    c->after = data;
    memset(c->before, 0x5a, bytes);
    c->v.offset += shift;
    c->before += shift * dt_dtype_bytes(dtype);
    c->after += shift * dt_dtype_bytes(dtype);
    return 0;
}

/* Queues the elements to the card. */
static int upload(struct ctx *c)
{
    size_t shift = (c->v.offset - GUARD) * dt_dtype_bytes(c->v.dtype);
    TRY(c->device->copy(c->stream, c->buf->data, c->before - shift,
                        c->buf->bytes, &c->err) == 0);
    return 0;
}

/* Queues them back behind the operation, and waits. */
static int download(struct ctx *c)
{
    size_t shift = (c->v.offset - GUARD) * dt_dtype_bytes(c->v.dtype);
    TRY(dt_comm_wait(c->comm, c->ticket, &c->err) == 0);
    TRY(c->device->copy(c->stream, c->after - shift, c->buf->data,
                        c->buf->bytes, &c->err) == 0);
    TRY(c->device->event_record(c->event, c->stream, &c->err) == 0);
    TRY(dt_comm_wait_event(c->comm, c->device, c->event, &c->err) == 0);
    return 0;
}

/* Are the ends as they were? */
static int close_case(struct ctx *c)
{
    size_t shift = (c->v.offset - GUARD) * dt_dtype_bytes(c->v.dtype);
    size_t end = guard_bytes(c) + c->v.count * dt_dtype_bytes(c->v.dtype);
    for (size_t i = 0; i < guard_bytes(c); i++)
        TRY(c->after[i] == 0x5a && c->after[end + i] == 0x5a);
    c->device->release_staging(c->before - shift, c->buf->bytes);
    c->device->release_staging(c->after - shift, c->buf->bytes);
    dt_buffer_destroy(c->buf);
    return 0;
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

/* What rank r has at place i. Sums of whole ones are the same in any order;
 * others are rounded, in bf16 and in sums of it.
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

static float expected(size_t i, int size, enum dt_reduce op, bool half)
{
    float acc = 0;
    half &= size > 1;
    for (int r = 0; r < size; r++) {
        float x = half ? narrow(value(r, i, false)) : value(r, i, true);
        if (r == 0)
            acc = x;
        else if (op == DT_SUM)
            acc += x;
        else
            acc = x > acc ? x : acc;
    }
    return half ? narrow(acc) : acc;
}

static void fill(struct ctx *c, bool half)
{
    for (size_t i = 0; i < c->v.count; i++) {
        float x = value(c->rank, i, !half || c->size == 1);
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
        float want = expected(i, c->size, op, half), got;
        uint16_t got16;
        memcpy(&got16, (uint16_t *)after(c) + i, 2);
        if (c->v.dtype == DT_BF16) {
            TRY(got16 == to_bf16(narrow(want)));
            continue;
        }
        memcpy(&got, (float *)after(c) + i, 4);
        if (got != want)
            fprintf(stderr, "# %zu of %zu: %g, not %g\n", i, c->v.count,
                    (double)got, (double)want);
        TRY(got == want);
    }
    return 0;
}

/* --- tests --- */

static const size_t counts[] = {0, 1, 3, 1000, 16385};

static int reduce_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                      enum dt_dtype wire, enum dt_reduce op, size_t shift)
{
    bool half = wire == DT_BF16;
    if (open_case(c, count, dtype, shift) < 0)
        return -1;
    fill(c, half);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_reduce(c->comm, c->v, op, wire, &c->ticket, &c->err) == 0);
    if (download(c) < 0 || matches(c, 0, count, op, half) < 0)
        return -1;
    return close_case(c);
}

static int all_reduce(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (enum dt_reduce op = DT_SUM; op <= DT_MAX; op++)
            if (reduce_one(c, counts[i], DT_F32, DT_F32, op, 0) < 0 ||
                reduce_one(c, counts[i], DT_F32, DT_BF16, op, 0) < 0 ||
                reduce_one(c, counts[i], DT_F32, DT_BF16, op, 3) < 0 ||
                reduce_one(c, counts[i], DT_BF16, DT_BF16, op, 0) < 0 ||
                reduce_one(c, counts[i], DT_BF16, DT_BF16, op, 1) < 0)
                return -1;
    return 0;
}

static int scatter_one(struct ctx *c, size_t part, enum dt_dtype dtype,
                       enum dt_dtype wire, enum dt_reduce op)
{
    bool half = wire == DT_BF16;
    if (open_case(c, part * (size_t)c->size, dtype, 0) < 0)
        return -1;
    fill(c, half);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_reduce_scatter(c->comm, c->v, op, wire, &c->ticket, &c->err) ==
        0);
    if (download(c) < 0 ||
        matches(c, part * (size_t)c->rank, part, op, half) < 0)
        return -1;
    return close_case(c);
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

/* What is not a number on a rank is not one in the largest, if we add up. */
static int not_numbers(struct ctx *c)
{
    if (open_case(c, (size_t)c->size, DT_F32, 0) < 0)
        return -1;
    for (int r = 0; r < c->size; r++)
        ((float *)before(c))[r] = r == c->rank ? NAN : 1;
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_reduce(c->comm, c->v, DT_MAX, DT_BF16, &c->ticket,
                           &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (int r = 0; r < c->size; r++)
        TRY(isnan(((float *)after(c))[r]));
    return close_case(c);
}

/* More than the staging memory holds. */
static int staged(struct ctx *c)
{
    if (c->size != 2)
        return 0;
    if (reduce_one(c, 17 << 20, DT_F32, DT_BF16, DT_SUM, 0) < 0)
        return -1;
    return scatter_one(c, (9 << 20) + 5, DT_F32, DT_BF16, DT_SUM);
}

/* A byte that depends on its place and on whose it is. */
static unsigned char byte_at(size_t i, int owner)
{
    return (unsigned char)(i * 31 + (size_t)owner * 7 + (i >> 8));
}

static int gather_one(struct ctx *c, size_t part, enum dt_dtype dtype)
{
    size_t bytes = part * dt_dtype_bytes(dtype), n = (size_t)c->size;
    if (open_case(c, part * n, dtype, 0) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)before(c))[bytes * (size_t)c->rank + i] =
            byte_at(i, c->rank);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_all_gather(c->comm, c->v, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < bytes * n; i++)
        TRY(((unsigned char *)after(c))[i] ==
            byte_at(i % bytes, (int)(i / bytes)));
    return close_case(c);
}

static int all_gather(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (enum dt_dtype dtype = DT_F32; dtype <= DT_F64; dtype++)
            if (gather_one(c, counts[i], dtype) < 0)
                return -1;
    return 0;
}

static int broadcast_one(struct ctx *c, size_t count, enum dt_dtype dtype,
                         int root)
{
    size_t bytes = count * dt_dtype_bytes(dtype);
    if (open_case(c, count, dtype, 0) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)before(c))[i] = byte_at(i, c->rank);
    if (upload(c) < 0)
        return -1;
    TRY(dt_comm_broadcast(c->comm, c->v, root, &c->ticket, &c->err) == 0);
    if (download(c) < 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        TRY(((unsigned char *)after(c))[i] == byte_at(i, root));
    return close_case(c);
}

static int broadcast(struct ctx *c)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (int root = 0; root < c->size; root++)
            for (enum dt_dtype dtype = DT_F32; dtype <= DT_F64; dtype++)
                if (broadcast_one(c, counts[i], dtype, root) < 0)
                    return -1;
    return 0;
}

/* Doubles on the GPU, as the norm of gradients is; they travel as they are. */
static int doubles(struct ctx *c)
{
    double sum = c->size * (c->size - 1) / 2.0;
    for (enum dt_reduce op = DT_SUM; op <= DT_MAX; op++) {
        enum dt_dtype wire = op == DT_SUM ? DT_F32 : DT_BF16;
        double got[2];
        if (open_case(c, 2, DT_F64, 0) < 0)
            return -1;
        ((double *)before(c))[0] = c->rank;
        ((double *)before(c))[1] = 1e300 * (c->rank & 1);
        if (upload(c) < 0)
            return -1;
        TRY(dt_comm_all_reduce(c->comm, c->v, op, wire, &c->ticket, &c->err) ==
            0);
        if (download(c) < 0)
            return -1;
        memcpy(got, after(c), sizeof(got));
        TRY(got[0] == (op == DT_SUM ? sum : c->size - 1));
        TRY(got[1] == 1e300 * (op == DT_SUM ? c->size / 2 : c->size > 1));
        if (close_case(c) < 0)
            return -1;
    }
    return 0;
}

static int scalars(struct ctx *c)
{
    double values[1000], max[2] = {-c->rank, 1e300 * (c->rank & 1)};
    for (int i = 0; i < 1000; i++)
        values[i] = i + c->rank;
    TRY(dt_comm_reduce_scalars(c->comm, values, 1000, DT_SUM, &c->err) == 0);
    for (int i = 0; i < 1000; i++)
        TRY(values[i] == i * c->size + c->size * (c->size - 1) / 2);
    TRY(dt_comm_reduce_scalars(c->comm, max, 2, DT_MAX, &c->err) == 0);
    TRY(max[0] == 0 && max[1] == 1e300 * (c->size > 1));
    TRY(dt_comm_barrier(c->comm, &c->err) == 0);
    return 0;
}

/* More operations under way than there are slots for, one ticket waited for. */
static int queue(struct ctx *c)
{
    enum { OPS = 300, COUNT = 64 };
    if (c->size != 2)
        return 0;
    if (open_case(c, (size_t)OPS * COUNT, DT_F32, 0) < 0)
        return -1;
    fill(c, false);
    if (upload(c) < 0)
        return -1;
    for (size_t i = 0; i < OPS; i++)
        TRY(dt_comm_all_reduce(c->comm, dt_view_slice(c->v, i * COUNT, COUNT),
                               DT_SUM, DT_F32, &c->ticket, &c->err) == 0);
    if (download(c) < 0 || matches(c, 0, c->v.count, DT_SUM, false) < 0)
        return -1;
    return close_case(c);
}

/* clang-format off */
#define TEST(name) \
    static void test_##name(void **state) { (void)state; run(name); }
TEST(all_reduce)
TEST(reduce_scatter)
TEST(not_numbers)
TEST(staged)
TEST(all_gather)
TEST(broadcast)
TEST(doubles)
TEST(scalars)
TEST(queue)
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_staged),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_queue),
    };
    return cmocka_run_group_tests_name("comm on GPUs", tests, NULL, NULL);
}
