/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c - attention of one new position to the cached keys and values */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

#define INLINE static inline __attribute__((always_inline))

/* Query heads that a thread computes together, and keys that are loaded at a
 * time.
 */
enum { QUERIES = 16, KEYS = DT_KV_BLOCK };

_Static_assert(KEYS % LANES == 0, "scores are made by vectors of keys");

static size_t row_width(const struct dt_kv *kv)
{
    return (kv->NH + 2 * kv->NKV) * kv->HS;
}

void DT_CPU(kv_store)(struct dt_stream *stream, const struct dt_kv *kv,
                      struct dt_view qkv, struct dt_view places, size_t N)
{
    const int32_t *place = dt_view_i32(places);
    const size_t width = kv->NKV * kv->HS;
    const size_t size = dt_dtype_bytes(qkv.dtype);
    char *k = dt_view_data(kv->k), *v = dt_view_data(kv->v);
    (void)stream;
    assert(qkv.count == N * row_width(kv) && places.count == N);
    assert(kv->k.dtype == qkv.dtype && kv->v.dtype == qkv.dtype);

#pragma omp parallel for schedule(static) if (qkv.count > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        const char *from = (const char *)dt_view_data(qkv) +
                           (n * row_width(kv) + kv->NH * kv->HS) * size;
        size_t row = (size_t)place[n] % DT_KV_BLOCK;
        size_t block = (size_t)place[n] / DT_KV_BLOCK;
        size_t at = (block * kv->stride + row * width) * size;
        if (place[n] < 0)
            continue;
        memcpy(k + at, from, width * size);
        memcpy(v + at, from + width * size, width * size);
    }
}

/* Some heads of one sequence, which attend to its positions [from, end): the
 * heads of a position are stored side by side, so they are read in the order of
 * memory. `each` query heads share a head of keys and values.
 */
struct slice {
    const struct dt_kv *kv;
    const int32_t *table;      /* the sequence's */
    size_t row, from, end;     /* row: of the queries */
    size_t kv_first, kv_heads; /* of keys and values */
    size_t first, each;        /* of queries */
};

/* A slice, and the sums that a thread makes of it. */
struct group {
    struct slice at;
    size_t stride;                         /* HS in whole vectors, then 0 */
    float q[QUERIES * DT_MAX_HEAD_SIZE];   /* scaled */
    float sum[QUERIES * DT_MAX_HEAD_SIZE]; /* of exp(score - max) v */
    float rows[KEYS * DT_MAX_HEAD_SIZE];   /* copies of keys or values */
    float max[QUERIES], weight[QUERIES];   /* largest score, sum of exp */
    float rescale[QUERIES];                /* sums of earlier pieces, by this */
    float score[QUERIES * KEYS];
};

/* Positions that are in one block: those of the first head begin at element
 * `at` of k and of v.
 */
struct piece {
    size_t at, keys;
};

/* From position `first` to the end, or to that of the block. */
static struct piece piece_of(const struct slice *s, size_t first)
{
    const struct dt_kv *kv = s->kv;
    const size_t row = first % KEYS, left = KEYS - row;

    if (first >= s->end)
        return (struct piece){0, 0};
    return (struct piece){(size_t)s->table[first / KEYS] * kv->stride +
                              (row * kv->NKV + s->kv_first) * kv->HS,
                          s->end - first < left ? s->end - first : left};
}

/* Prefetches head h of a piece into the L2 cache: rows of a head are far apart,
 * so the processor does not foresee them.
 */
static void fetch_rows(const struct dt_kv *kv, struct dt_view cache,
                       struct piece piece, size_t h)
{
    enum { LINE = 64 };
    const size_t size = dt_dtype_bytes(cache.dtype);
    const char *row =
        dt_cpu_at(dt_view_data(cache), cache.dtype, piece.at + h * kv->HS);

    for (size_t j = 0; j < piece.keys; j++, row += kv->NKV * kv->HS * size) {
        for (size_t i = 0; i < kv->HS * size; i += LINE)
            __builtin_prefetch(row + i, 0, 2);
    }
}

/* Keys or values of a head: `count` rows of `type`, `step` bytes apart. */
struct kv_rows {
    const char *row;
    size_t step, count;
    enum dt_dtype type;
};

/* Head h of a piece of the cache: as it is stored, or, if rows are not whole
 * vectors, copies in fp32 that are 0 from HS on.
 */
static struct kv_rows load_rows(struct group *g, struct dt_view cache,
                                struct piece piece, size_t h)
{
    const struct dt_kv *kv = g->at.kv;
    const size_t step = kv->NKV * kv->HS * dt_dtype_bytes(cache.dtype);
    const char *row =
        dt_cpu_at(dt_view_data(cache), cache.dtype, piece.at + h * kv->HS);

    if (kv->HS == g->stride)
        return (struct kv_rows){row, step, piece.keys, cache.dtype};
    for (size_t j = 0; j < piece.keys; j++)
        dt_cpu_widen(g->rows + j * g->stride, row + j * step, cache.dtype,
                     kv->HS);
    return (struct kv_rows){(const char *)g->rows, g->stride * sizeof(float),
                            piece.keys, DT_F32};
}

/* score(KEYS) of query q. The dot products of LANES keys stay vectors until
 * they are transposed, which makes one vector of scores without horizontal
 * sums. Lanes without a key compute the last one again.
 */
INLINE void score_keys(float *score, const float *q, const struct kv_rows *keys,
                       enum dt_dtype type, size_t width)
{
    const size_t size = dt_dtype_bytes(type);

    for (size_t first = 0; first < keys->count; first += LANES) {
        dt_vec part[LANES], sum = {0.0f};
        for (size_t j = 0; j < LANES; j++) {
            size_t row = first + j < keys->count ? first + j : keys->count - 1;
            const char *k = keys->row + row * keys->step;
            dt_vec dot = *(const dt_vec *)q * dt_load_lanes(k, type);
            for (size_t d = LANES; d < width; d += LANES)
                dot += *(const dt_vec *)(q + d) *
                       dt_load_lanes(k + d * size, type);
            part[j] = dot;
        }
        dt_transpose(part);
        for (size_t i = 0; i < LANES; i++)
            sum += part[i];
        *(dt_vec *)(score + first) = sum;
    }
}

/* score(KEYS) of scaled scores, by the softcap. */
static void cap_scores(float *score, float softcap)
{
#pragma omp simd
    for (size_t j = 0; j < KEYS; j++)
        score[j] = softcap * dt_tanhf(score[j] / softcap);
}

/* Scores of query i become exp(score - max), 0 from `keys` on. */
static void online_softmax(struct group *g, size_t i, size_t keys)
{
    float *score = g->score + i * KEYS;
    float max = dt_max(score, keys, g->max[i]), sum = 0.0f;

    g->rescale[i] = dt_expf(g->max[i] - max);
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < KEYS; j++) {
        score[j] = j < keys ? dt_expf(score[j] - max) : 0.0f;
        sum += score[j];
    }
    g->max[i] = max;
    g->weight[i] = g->weight[i] * g->rescale[i] + sum;
}

/* sum(vecs * LANES) = rescale sum + score values, from byte `at` of rows on;
 * vecs is a constant at each call. Two sums each, so that an addition need not
 * wait for the one before it.
 */
INLINE void add_values(size_t vecs, float *sum, const float *score,
                       float rescale, const struct kv_rows *values,
                       enum dt_dtype type, size_t at)
{
    enum { MOST = 4 };
    const size_t size = dt_dtype_bytes(type), count = values->count;
    dt_vec even[MOST], odd[MOST];

#pragma GCC unroll 4
    for (size_t i = 0; i < vecs; i++) {
        even[i] = ((const dt_vec *)sum)[i] * rescale;
        odd[i] = (dt_vec){0.0f};
    }
    for (size_t j = 0; j + 1 < count; j += 2) {
        const char *v = values->row + j * values->step + at;
#pragma GCC unroll 4
        for (size_t i = 0; i < vecs; i++) {
            even[i] += score[j] * dt_load_lanes(v + i * LANES * size, type);
            odd[i] += score[j + 1] *
                      dt_load_lanes(v + values->step + i * LANES * size, type);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < vecs; i++) {
        const char *v =
            values->row + (count - 1) * values->step + at + i * LANES * size;
        if (count % 2 == 1)
            even[i] += score[count - 1] * dt_load_lanes(v, type);
        ((dt_vec *)sum)[i] = even[i] + odd[i];
    }
}

/* Queries of head h meet its keys, then its values; type is a constant at each
 * call.
 */
INLINE void meet_keys(struct group *g, const struct kv_rows *keys,
                      enum dt_dtype type, size_t h)
{
    for (size_t i = h * g->at.each; i < (h + 1) * g->at.each; i++) {
        score_keys(g->score + i * KEYS, g->q + i * g->stride, keys, type,
                   g->stride);
        if (g->at.kv->softcap > 0.0f)
            cap_scores(g->score + i * KEYS, g->at.kv->softcap);
        online_softmax(g, i, keys->count);
    }
}

INLINE void meet_values(struct group *g, const struct kv_rows *values,
                        enum dt_dtype type, size_t h)
{
    enum { WIDE = 4 * LANES };

    for (size_t i = h * g->at.each; i < (h + 1) * g->at.each; i++) {
        float *sum = g->sum + i * g->stride;
        const float *score = g->score + i * KEYS;
        size_t d = 0;
        for (; d + WIDE <= g->stride; d += WIDE)
            add_values(4, sum + d, score, g->rescale[i], values, type,
                       d * dt_dtype_bytes(type));
        for (; d < g->stride; d += LANES)
            add_values(1, sum + d, score, g->rescale[i], values, type,
                       d * dt_dtype_bytes(type));
    }
}

/* Attends to a piece. Memory that is read next is fetched meanwhile: values,
 * and the keys of the next piece, which may be that of other heads or
 * sequences.
 */
static void attend_piece(struct group *g, struct piece piece, struct piece next)
{
    const struct dt_kv *kv = g->at.kv;
    struct kv_rows rows;

    for (size_t h = 0; h < g->at.kv_heads; h++) {
        fetch_rows(kv, kv->v, piece, h);
        rows = load_rows(g, kv->k, piece, h);
        if (rows.type == DT_F32)
            meet_keys(g, &rows, DT_F32, h);
        else if (rows.type == DT_BF16)
            meet_keys(g, &rows, DT_BF16, h);
        else
            meet_keys(g, &rows, DT_F16, h);
    }
    for (size_t h = 0; h < g->at.kv_heads; h++) {
        fetch_rows(kv, kv->k, next, h);
        rows = load_rows(g, kv->v, piece, h);
        if (rows.type == DT_F32)
            meet_values(g, &rows, DT_F32, h);
        else if (rows.type == DT_BF16)
            meet_values(g, &rows, DT_BF16, h);
        else
            meet_values(g, &rows, DT_F16, h);
    }
}

/* q, scaled, and empty sums */
static void begin_group(struct group *g, struct dt_view qkv)
{
    const size_t HS = g->at.kv->HS, count = g->at.kv_heads * g->at.each;
    const size_t from = g->at.row * row_width(g->at.kv) + g->at.first * HS;
    const float scale = g->at.kv->scale;

    g->stride = (HS + LANES - 1) / LANES * LANES;
    memset(g->sum, 0, count * g->stride * sizeof(*g->sum));
    memset(g->q, 0, HS < g->stride ? sizeof(g->q) : 0);
    memset(g->rows, 0, HS < g->stride ? sizeof(g->rows) : 0);
    for (size_t i = 0; i < count; i++) {
        float *q = g->q + i * g->stride;
        dt_cpu_widen(q, dt_cpu_at(dt_view_data(qkv), qkv.dtype, from + i * HS),
                     qkv.dtype, HS);
#pragma omp simd
        for (size_t d = 0; d < HS; d++)
            q[d] *= scale;
        g->max[i] = -INFINITY;
        g->weight[i] = 0.0f;
    }
}

static void end_group(const struct group *g, struct dt_view out)
{
    const size_t HS = g->at.kv->HS;
    float row[DT_MAX_HEAD_SIZE];

    for (size_t i = 0; i < g->at.kv_heads * g->at.each; i++) {
        const float *sum = g->sum + i * g->stride;
        const float by = g->at.end > 0 ? 1.0f / g->weight[i] : 0.0f;
        size_t to = (g->at.row * g->at.kv->NH + g->at.first + i) * HS;
#pragma omp simd
        for (size_t d = 0; d < HS; d++)
            row[d] = sum[d] * by;
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(out), out.dtype, to), row,
                      out.dtype, HS);
    }
}

/* Attends with the heads of g->at, before those of `other`. */
static void attend_group(struct group *g, struct dt_view out,
                         struct dt_view qkv, const struct slice *other)
{
    const struct piece after = piece_of(other, other->from);
    struct piece piece = piece_of(&g->at, g->at.from), next;

    begin_group(g, qkv);
    for (size_t first = g->at.from; first < g->at.end; piece = next) {
        first += piece.keys;
        next = piece_of(&g->at, first);
        attend_piece(g, piece, next.keys > 0 ? next : after);
    }
    end_group(g, out);
}

/* How a step is cut: each sequence into `slices`, each with `heads` heads of
 * keys and values; the queries of a head are divided over `cuts` of them.
 */
struct cut {
    size_t heads, cuts, slices;
};

/* As many heads as there are queries for, but several slices for each thread.
 * No bit depends on it.
 */
static struct cut cut_of(const struct dt_kv *kv)
{
    const size_t shared = kv->NH / kv->NKV;
    const size_t most = shared < QUERIES ? QUERIES / shared : 1;
    const size_t some =
        divide_up(kv->B * kv->NKV, 4 * (size_t)omp_get_max_threads());
    struct cut cut = {min_size(some, most), divide_up(shared, QUERIES), 0};

    cut.slices = divide_up(kv->NKV, cut.heads) * cut.cuts;
    return cut;
}

/* Slice i of the step; an empty one after the last. */
static struct slice slice_of(const struct dt_kv *kv, const struct cut *cut,
                             const int32_t *positions, size_t i)
{
    const size_t shared = kv->NH / kv->NKV, row = i / cut->slices;
    const size_t part = i % cut->cuts * QUERIES;
    const size_t kv_first = i % cut->slices / cut->cuts * cut->heads;
    struct slice s = {.kv = kv};

    if (row == kv->B)
        return s;
    s.table = dt_view_i32(kv->table) + row * kv->blocks;
    s.row = row;
    s.end = (size_t)(positions[row] + 1);
    s.from = kv->window && s.end > kv->window ? s.end - kv->window : 0;
    s.kv_first = kv_first;
    s.kv_heads = min_size(cut->heads, kv->NKV - kv_first);
    s.first = kv_first * shared + part;
    s.each = min_size(QUERIES, shared - part);
    return s;
}

void DT_CPU(kv_attention)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view qkv, struct dt_view positions,
                          const struct dt_kv *kv)
{
    const int32_t *position = dt_view_i32(positions);
    const struct cut cut = cut_of(kv);
    const size_t slices = kv->B * cut.slices;
    (void)stream;
    assert(out.count == kv->B * kv->NH * kv->HS && positions.count == kv->B);
    assert(kv->table.count == kv->B * kv->blocks);
    assert(qkv.count == kv->B * row_width(kv) && kv->HS <= DT_MAX_HEAD_SIZE);
    assert(kv->scale > 0.0f);

#pragma omp parallel
    {
        const size_t threads = (size_t)omp_get_num_threads();
        struct group g;
        for (size_t i = (size_t)omp_get_thread_num(); i < slices;
             i += threads) {
            struct slice other =
                slice_of(kv, &cut, position, min_size(i + threads, slices));
            g.at = slice_of(kv, &cut, position, i);
            attend_group(&g, out, qkv, &other);
        }
    }
}
