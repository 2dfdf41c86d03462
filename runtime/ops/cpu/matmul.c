/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - large matrix multiplications: oneDNN if it is faster, or blocks */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/matmul.h"

/* A thread packs a block of a, MC x KC (256 KiB), for the L2 cache, and KC x NR
 * of b for the L1. If results are not fp32, it keeps MC x NC sums.
 */
enum {
    NR = PACKED_VECS * LANES,
    MC = 256,
    KC = 256,
    NC = 384 / NR * NR,
    LINE = 64, /* bytes of a line of the cache */
};

const char *DT_CPU(library)(void)
{
#ifdef HAVE_ONEDNN
    return dt_onednn_version();
#else
    return "built-in loops";
#endif
}

const char *DT_CPU(emulation)(enum dt_dtype type)
{
    if (type == DT_F32)
        return NULL;
    if (type == DT_F16)
        return "fp16 is stored, but computed in fp32";
#ifdef HAVE_ONEDNN
    if (dt_onednn_fastest(type))
        return NULL;
    return "bf16 is stored, but computed in fp32: the fastest on this CPU";
#else
    return "bf16 is stored, but computed in fp32: built without oneDNN";
#endif
}

static const char *element_at(const struct dt_cpu_matrix *m, enum dt_dtype type,
                              size_t i, size_t j)
{
    return dt_cpu_at(m->data, type,
                     m->transposed ? j * m->stride + i : i * m->stride + j);
}

/* to(depth, LANES) = LANES rows that are `step` bytes apart, transposed */
static inline void pack_rows(float *to, const char *from, size_t step,
                             enum dt_dtype type, size_t depth)
{
    const size_t size = dt_dtype_bytes(type);
    dt_vec square[LANES];

    for (size_t d = 0; d < depth; d += LANES) {
#pragma GCC unroll 16
        for (size_t r = 0; r < LANES; r++)
            square[r] = dt_load_lanes(from + d * size + r * step, type);
        dt_transpose(square);
#pragma GCC unroll 16
        for (size_t r = 0; r < LANES; r++)
            ((dt_vec *)to)[d + r] = square[r];
    }
}

/* A strip of a block that is stored by rows; 0 after `rows` */
static void pack_stored(float *to, const char *from, size_t step,
                        enum dt_dtype type, size_t rows, size_t depth)
{
    const size_t whole = rows == LANES ? depth - depth % LANES : 0;
    dt_vec square[LANES];

    if (type == DT_F32)
        pack_rows(to, from, step, DT_F32, whole);
    else
        pack_rows(to, from, step, type, whole);
    for (size_t d = whole; d < depth; d += LANES) {
        const char *row = from + d * dt_dtype_bytes(type);
        size_t columns = min_size(LANES, depth - d);
        for (size_t r = 0; r < LANES; r++)
            square[r] =
                dt_load_some(row + r * step, type, r < rows ? columns : 0);
        dt_transpose(square);
        memcpy(to + d * LANES, square, columns * sizeof(*square));
    }
}

/* `strips` whole strips of a block that is stored by columns, side by side: the
 * lines of a column are read once. strips is a constant at each call.
 */
static inline void pack_columns(float *to, const char *from, size_t step,
                                enum dt_dtype type, size_t strips, size_t depth)
{
    const size_t size = LANES * dt_dtype_bytes(type);

    for (size_t d = 0; d < depth; d++, from += step) {
#pragma GCC unroll 4
        for (size_t s = 0; s < strips; s++)
            ((dt_vec *)to)[s * KC + d] = dt_load_lanes(from + s * size, type);
    }
}

/* A block that is stored by columns; the last strip has 0 after `rows` */
static inline void pack_transposed(float *to, const char *from, size_t step,
                                   enum dt_dtype type, size_t rows,
                                   size_t depth)
{
    const size_t size = dt_dtype_bytes(type);
    size_t r = 0;

    for (; r + 3 * LANES <= rows; r += 3 * LANES)
        pack_columns(to + r * KC, from + r * size, step, type, 3, depth);
    for (; r + LANES <= rows; r += LANES)
        pack_columns(to + r * KC, from + r * size, step, type, 1, depth);
    for (size_t d = 0; d < depth && r < rows; d++)
        ((dt_vec *)(to + r * KC))[d] =
            dt_load_some(from + d * step + r * size, type, rows - r);
}

/* to(rows / LANES, KC, LANES) = rows i... and columns k... of m, transposed, in
 * strips of LANES rows
 */
static void pack_block(float *to, struct dt_cpu_matrix m, enum dt_dtype type,
                       size_t i, size_t k, size_t rows, size_t depth)
{
    const size_t step = m.stride * dt_dtype_bytes(type);
    const char *from = element_at(&m, type, i, k);

    if (m.transposed && type == DT_F32)
        pack_transposed(to, from, step, DT_F32, rows, depth);
    else if (m.transposed)
        pack_transposed(to, from, step, type, rows, depth);
    for (size_t r = 0; r < rows && !m.transposed; r += LANES)
        pack_stored(to + r * KC, from + r * step, step, type,
                    min_size(LANES, rows - r), depth);
}

/* The rest of the block of b that will be packed next: its lines are fetched
 * into the L2 cache while this block is multiplied.
 */
struct ahead {
    const char *from;
    size_t step, bytes; /* of a stored row */
    size_t rows, offset;
    size_t lines; /* to fetch with a tile */
};

/* The block of b that begins at (k, j), for `tiles` tiles to fetch */
static struct ahead ahead_of(const struct dt_cpu_matmul *p, size_t k, size_t j,
                             size_t tiles)
{
    const size_t size = dt_dtype_bytes(p->type);
    const size_t columns = min_size(NR, p->N - j),
                 depth = min_size(KC, p->K - k);
    struct ahead next = {
        .from = element_at(&p->b, p->type, k, j),
        .step = p->b.stride * size,
        .bytes = (p->b.transposed ? depth : columns) * size,
        .rows = p->b.transposed ? columns : depth,
    };

    next.lines = next.rows * (next.bytes / LINE + 1) / tiles + 1;
    return next;
}

static inline void fetch_lines(struct ahead *next)
{
    for (size_t i = 0; i < next->lines && next->rows > 0; i++) {
        __builtin_prefetch(next->from + next->offset, 0, 2);
        next->offset += LINE;
        if (next->offset >= next->bytes) {
            next->offset = 0;
            next->from += next->step;
            next->rows--;
        }
    }
}

/* c(rows, columns), part of a block, = or += a b of packed operands */
static void multiply_packed(float *c, size_t stride, const float *a,
                            const float *b, size_t columns, size_t depth,
                            size_t rows, bool add)
{
    const size_t vecs = (columns + LANES - 1) / LANES;
    float edge[PACKED_ROWS * NR];

    if (rows == PACKED_ROWS && columns % LANES == 0) {
        DT_CPU(tile_packed)(c, stride, a, b, KC, vecs, depth, add);
        return;
    }
    DT_CPU(tile_packed)(edge, NR, a, b, KC, vecs, depth, false);
    for (size_t r = 0; r < rows; r++) {
        for (size_t n = 0; n < columns; n++)
            c[r * stride + n] =
                edge[r * NR + n] + (add ? c[r * stride + n] : 0.0f);
    }
}

/* Columns l... of c(m, n), a block of the result, = or += rows i... of a b */
static void multiply_columns(float *c, size_t stride, const float *left,
                             const float *right, size_t columns, size_t depth,
                             size_t m, bool add, struct ahead *next)
{
    for (size_t r = 0; r < m; r += PACKED_ROWS) {
        fetch_lines(next);
        multiply_packed(c + r * stride, stride,
                        left + r / LANES * LANES * KC + r % LANES, right,
                        columns, depth, min_size(PACKED_ROWS, m - r), add);
    }
}

/* c(m, n), fp32, is the block of the result that begins at (i, j). */
static void multiply_block(const struct dt_cpu_matmul *p, float *c,
                           size_t stride, size_t i, size_t j, size_t m,
                           size_t n)
{
    _Alignas(64) float left[MC * KC], right[KC * NR];
    const size_t tiles = (m + PACKED_ROWS - 1) / PACKED_ROWS;
    struct dt_cpu_matrix transposed = p->b;

    transposed.transposed = !transposed.transposed;
    for (size_t k = 0; k < p->K; k += KC) {
        size_t depth = min_size(KC, p->K - k);
        bool add = p->accumulate || p->bias || k > 0;
        pack_block(left, p->a, p->type, i, k, m, depth);
        for (size_t l = 0; l < n; l += NR) {
            size_t columns = min_size(NR, n - l);
            struct ahead next = {.rows = 0};
            if (l + NR < n)
                next = ahead_of(p, k, j + l + NR, tiles);
            else if (k + KC < p->K)
                next = ahead_of(p, k + KC, j, tiles);
            for (size_t r = 0; r < m && k == 0 && p->bias; r++)
                dt_cpu_widen(c + r * stride + l,
                             dt_cpu_at(p->bias, p->type, j + l), p->type,
                             columns);
            pack_block(right, transposed, p->type, j + l, k, columns, depth);
            multiply_columns(c + l, stride, left, right, columns, depth, m, add,
                             &next);
        }
    }
}

/* The same for a result that is not fp32 */
static void narrow_block(const struct dt_cpu_matmul *p, size_t i, size_t j,
                         size_t m, size_t n)
{
    _Alignas(64) float sum[MC * NC];
    char *c = p->c;

    multiply_block(p, sum, NC, i, j, m, n);
    for (size_t r = 0; r < m; r++)
        dt_cpu_narrow(c + ((i + r) * p->N + j) * dt_dtype_bytes(p->c_type),
                      sum + r * NC, p->c_type, n);
}

/* Into how many parts rows are split, and columns into threads / parts, so that
 * a thread has the least work: packing an element counts as much as 16
 * multiply-adds.
 */
static size_t row_parts(size_t M, size_t N, size_t threads)
{
    size_t best = 1, least = SIZE_MAX;

    for (size_t parts = 1; parts <= threads; parts++) {
        size_t m = (M / LANES / parts + 1) * LANES;
        size_t n = (N / LANES / (threads / parts) + 1) * LANES;
        size_t work = m * n + 16 * (m + n);
        if (threads % parts == 0 && work < least) {
            least = work;
            best = parts;
        }
    }
    return best;
}

/* Part i of `parts` of 0..count, in whole vectors */
static void split_range(size_t count, size_t i, size_t parts, size_t *first,
                        size_t *end)
{
    size_t strips = (count + LANES - 1) / LANES;

    *first = min_size(strips * i / parts * LANES, count);
    *end = min_size(strips * (i + 1) / parts * LANES, count);
}

/* The calling thread's part of the result */
static void multiply_share(const struct dt_cpu_matmul *p)
{
    size_t threads = (size_t)omp_get_num_threads();
    size_t thread = (size_t)omp_get_thread_num();
    size_t down = row_parts(p->M, p->N, threads), across = threads / down;
    size_t top, bottom, left, right;

    split_range(p->M, thread / across, down, &top, &bottom);
    split_range(p->N, thread % across, across, &left, &right);
    for (size_t i = top; i < bottom; i += MC) {
        size_t m = min_size(MC, bottom - i);
        if (p->c_type == DT_F32)
            multiply_block(p, (float *)p->c + i * p->N + left, p->N, i, left, m,
                           right - left);
        for (size_t j = left; j < right && p->c_type != DT_F32; j += NC)
            narrow_block(p, i, j, m, min_size(NC, right - j));
    }
}

/* Whether oneDNN multiplies such operands faster than blocks do. In fp32 it
 * does not where vectors of 256 bits are multiplied at a time, as with AVX2 and
 * on Zen 4: there oneDNN 2.6 has 45 to 95 % of the units' rate, least with rows
 * a power of two apart, and blocks have 85 to 93 %.
 */
static bool is_faster_by_library(const struct dt_cpu_matmul *p)
{
#ifdef HAVE_ONEDNN
    return dt_onednn_fastest(p->type) && (p->type != DT_F32 || LANES != 8);
#else
    (void)p;
    return false;
#endif
}

/* A loop of our own is about as fast as a library or faster, except where that
 * multiplies bf16 natively and this does not. In fp32 oneDNN may give a row
 * other bits among other rows: with few rows it splits sums over threads.
 */
static bool has_some_rows(const struct dt_cpu_matmul *p)
{
    if (p->M > DT_CPU_SOME_ROWS || p->a.transposed || p->accumulate)
        return false;
    if (p->type == DT_BF16 && is_faster_by_library(p))
        return LANES == 16 && dt_cpu_has_pairs(p);
    return true;
}

/* Products of no terms: gradients of a layer that has no rows. */
static void multiply_nothing(const struct dt_cpu_matmul *p)
{
    assert(!p->bias);
    if (!p->accumulate)
        memset(p->c, 0, p->M * p->N * dt_dtype_bytes(p->c_type));
}

void DT_CPU(matmul)(const struct dt_cpu_matmul *p)
{
    if (p->M == 0 || p->N == 0)
        return;
    if (p->K == 0) {
        multiply_nothing(p);
        return;
    }
    if (p->M < DT_CPU_FEW_ROWS && !p->a.transposed && !p->accumulate) {
        DT_CPU(matmul_few)(p);
        return;
    }
    if (has_some_rows(p)) {
        DT_CPU(matmul_rows)(p);
        return;
    }
#ifdef HAVE_ONEDNN
    if (is_faster_by_library(p) && dt_onednn_matmul(p))
        return;
#endif
#pragma omp parallel if (p->M * p->N * p->K > DT_CPU_SMALL_MATMUL)
    multiply_share(p);
}
