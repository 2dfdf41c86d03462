/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_skip.c - kernels of attention on GPUs skip tiles that nobody sees
 *
 * Those in fp32, and in 16 bits with a softcap, which no library has.
 */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "harness.h"

enum { TILE = 64, HEADS = 1, SIZE = 64, WIDTH = (HEADS + 2) * SIZE };

/* By kernels in plain fp32, and on tensor cores. */
static const enum dt_dtype KINDS[] = {DT_F32, DT_BF16};

/* A pass over T positions. */
struct passes {
    struct dt_attention a;
    struct dt_view qkv, dout, out, lse, dqkv;
};

/* Documents have `length` positions, the first of them `length / 2`. */
static struct passes passes_of(enum dt_dtype type, size_t T, size_t length,
                               size_t window)
{
    struct passes p = {.a = {.B = 1,
                             .T = T,
                             .NH = HEADS,
                             .NKV = 1,
                             .HS = SIZE,
                             .window = window,
                             .scale = 0.125f,
                             .softcap = 5.0f,
                             .first = tensor_ids(T, 1)},
                       .qkv = tensor_of(type, T * WIDTH),
                       .dout = tensor_of(type, T * HEADS * SIZE),
                       .out = tensor_of(type, T * HEADS * SIZE),
                       .lse = tensor(T * HEADS),
                       .dqkv = tensor_of(type, T * WIDTH)};

    for (size_t t = 0; t < T; t++) {
        const size_t past = (t + length / 2) / length * length;
        dt_view_i32(p.a.first)[t] = past > 0 ? (int32_t)(past - length / 2) : 0;
    }
    return p;
}

static void run(const struct passes *p)
{
    struct dt_view space =
        workspace(ops->attention_workspace(p->qkv.dtype, &p->a));

    ops->attention_forward(NULL, p->out, p->lse, p->qkv, &p->a);
    ops->attention_backward(NULL, p->dqkv, p->dout, p->out, p->lse, p->qkv,
                            space, &p->a);
}

static void copy(struct dt_view to, struct dt_view from)
{
    memcpy(dt_view_data(to), dt_view_data(from),
           from.count * dt_dtype_bytes(from.dtype));
}

static void check_same(struct dt_view x, struct dt_view y, size_t first,
                       size_t count)
{
    const size_t bytes = dt_dtype_bytes(x.dtype);

    assert_memory_equal((char *)dt_view_data(x) + first * bytes,
                        (char *)dt_view_data(y) + first * bytes, count * bytes);
}

static bool is_witness(size_t t)
{
    return t % TILE == TILE - 1;
}

/* In the second of two passes the last query of each tile sees all before it,
 * so that no tile is skipped. Its gradient is 0: all others have the same bits.
 */
static void skip_case(enum dt_dtype type, size_t T, size_t length)
{
    struct passes p = passes_of(type, T, length, 0);
    struct passes all = passes_of(type, T, length, 0);

    for (size_t t = TILE - 1; t < T; t += TILE) {
        dt_view_i32(all.a.first)[t] = 0;
        for (size_t i = 0; i < HEADS * SIZE; i++)
            set_element(p.dout, t * HEADS * SIZE + i, 0.0);
    }
    copy(all.qkv, p.qkv);
    copy(all.dout, p.dout);
    run(&p);
    run(&all);
    for (size_t t = 0; t < T; t++) {
        check_same(p.dqkv, all.dqkv, t * WIDTH + HEADS * SIZE, 2 * SIZE);
        if (is_witness(t))
            continue;
        check_same(p.out, all.out, t * HEADS * SIZE, HEADS * SIZE);
        check_same(p.dqkv, all.dqkv, t * WIDTH, HEADS * SIZE);
        for (size_t h = 0; h < HEADS; h++)
            check_same(p.lse, all.lse, h * T + t, 1);
    }
}

/* On CPUs all that sees a key must be neighbors. */
void test_attention_skip(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 && ops->key_tile == 0; i++)
        skip_case(KINDS[i], 2 * TILE + 1, 50);
}

/* Pairs of a tile of queries and one of keys of which a query sees a key. */
static size_t seen_pairs(const struct dt_attention *a)
{
    size_t pairs = 0;

    for (size_t q = 0; q < a->T; q += TILE) {
        size_t first = q;
        for (size_t t = q; t < q + TILE && t < a->T; t++) {
            size_t start = (size_t)dt_view_i32(a->first)[t];
            if (a->window > 0 && t >= a->window && t - a->window + 1 > start)
                start = t - a->window + 1;
            first = start < first ? start : first;
        }
        pairs += q / TILE - first / TILE + 1;
    }
    return pairs;
}

static size_t barriers_of(unsigned long long (*count)(void), enum dt_dtype type,
                          size_t T, size_t length, size_t window, size_t *pairs)
{
    struct passes p = passes_of(type, T, length, window);
    const unsigned long long before = count();

    run(&p);
    *pairs = seen_pairs(&p.a);
    return (size_t)(count() - before);
}

/* Both passes have a number of barriers for each pair of tiles. A GPU, and what
 * runs its PTX, count none.
 */
void test_attention_tiles(void **state)
{
    const size_t CASES[][3] = {{2 * TILE, 2 * TILE, 0},
                               {3 * TILE + 1, 40, 0},
                               {3 * TILE, 3 * TILE, 65}};
    void *library = dlopen("libsimt.so", RTLD_NOW | RTLD_NOLOAD);
    unsigned long long (*count)(void) = NULL;
    size_t pairs;
    (void)state;

    if (library)
        *(void **)&count = dlsym(library, "simt_barriers");
    if (!count)
        nothing_here();
    for (size_t i = 0; i < 2; i++) {
        const size_t each = barriers_of(count, KINDS[i], TILE, TILE, 0, &pairs);
        if (each == 0)
            nothing_here();
        assert_int_equal(pairs, 1);
        for (size_t j = 0; j < sizeof(CASES) / sizeof(CASES[0]); j++) {
            const size_t *c = CASES[j];
            const size_t did =
                barriers_of(count, KINDS[i], c[0], c[1], c[2], &pairs);
            assert_int_equal(did, pairs * each);
        }
    }
}
