/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - large matrix multiplications: oneDNN if it is faster, or blocks */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/lanes.h"
#include "ops/cpu/matmul.h"

/* A thread packs a block of a, MC x KC (256 KiB), for the L2 cache, and KC x NR
 * of b for the L1. If results are not fp32, it keeps MC x NC sums.
 */
enum {
    NR = PACKED_VECS * LANES,
    MC = 256,
    KC = 256,
    NC = 384 / NR * NR,
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

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* to(depth, LANES) = rows i.. and columns k.. of m, transposed; 0 after `rows`
 */
static void pack_lanes(float *to, struct dt_cpu_matrix m, enum dt_dtype type,
                       size_t i, size_t k, size_t rows, size_t depth)
{
    const size_t first = m.transposed ? k * m.stride + i : i * m.stride + k;
    const size_t step = m.stride * dt_dtype_bytes(type);
    const char *from = dt_cpu_at(m.data, type, first);
    dt_vec square[LANES];

    for (size_t d = 0; d < depth && m.transposed; d++, from += step)
        ((dt_vec *)to)[d] = rows == LANES ? dt_load_lanes(from, type)
                                          : dt_load_some(from, type, rows);
    if (m.transposed)
        return;
    for (size_t d = 0; d < depth; d += LANES) {
        const char *row = from + d * dt_dtype_bytes(type);
        size_t columns = min_size(LANES, depth - d);
        if (rows == LANES && columns == LANES) {
#pragma GCC unroll 16
            for (size_t r = 0; r < LANES; r++)
                square[r] = dt_load_lanes(row + r * step, type);
        } else {
            for (size_t r = 0; r < LANES; r++)
                square[r] =
                    dt_load_some(row + r * step, type, r < rows ? columns : 0);
        }
        dt_transpose(square);
        memcpy(to + d * LANES, square, columns * sizeof(*square));
    }
}

/* to(rows / LANES, KC, LANES): a block of m in strips of LANES rows */
static void pack_block(float *to, struct dt_cpu_matrix m, enum dt_dtype type,
                       size_t i, size_t k, size_t rows, size_t depth)
{
    for (size_t r = 0; r < rows; r += LANES)
        pack_lanes(to + r * KC, m, type, i + r, k, min_size(LANES, rows - r),
                   depth);
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

/* c(m, n), fp32, is the block of the result that begins at (i, j). */
static void multiply_block(const struct dt_cpu_matmul *p, float *c,
                           size_t stride, size_t i, size_t j, size_t m,
                           size_t n)
{
    _Alignas(64) float left[MC * KC], right[KC * NR];
    struct dt_cpu_matrix transposed = p->b;

    transposed.transposed = !transposed.transposed;
    for (size_t k = 0; k < p->K; k += KC) {
        size_t depth = min_size(KC, p->K - k);
        bool add = p->accumulate || p->bias || k > 0;
        pack_block(left, p->a, p->type, i, k, m, depth);
        for (size_t l = 0; l < n; l += NR) {
            size_t columns = min_size(NR, n - l);
            for (size_t r = 0; r < m && k == 0 && p->bias; r++)
                dt_cpu_widen(c + r * stride + l,
                             dt_cpu_at(p->bias, p->type, j + l), p->type,
                             columns);
            pack_block(right, transposed, p->type, j + l, k, columns, depth);
            for (size_t r = 0; r < m; r += PACKED_ROWS)
                multiply_packed(c + r * stride + l, stride,
                                left + r / LANES * LANES * KC + r % LANES,
                                right, columns, depth,
                                min_size(PACKED_ROWS, m - r), add);
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

/* A loop of our own is about as fast as a library or faster, except where that
 * multiplies bf16 natively and this does not. In fp32 oneDNN may give a row
 * other bits beside other rows: its kernels for AVX2 sum the last rows in
 * another order, and with few rows it splits sums over threads.
 */
static bool has_some_rows(const struct dt_cpu_matmul *p)
{
    if (p->M > DT_CPU_SOME_ROWS || p->a.transposed || p->accumulate)
        return false;
#ifdef HAVE_ONEDNN
    if (p->type == DT_BF16 && dt_onednn_fastest(p->type))
        return LANES == 16 && dt_cpu_has_pairs(p);
#endif
    return true;
}

void DT_CPU(matmul)(const struct dt_cpu_matmul *p)
{
    if (p->M < DT_CPU_FEW_ROWS && !p->a.transposed && !p->accumulate) {
        DT_CPU(matmul_few)(p);
        return;
    }
    if (has_some_rows(p)) {
        DT_CPU(matmul_rows)(p);
        return;
    }
#ifdef HAVE_ONEDNN
    if (dt_onednn_fastest(p->type) && dt_onednn_matmul(p))
        return;
#endif
#pragma omp parallel if (p->M * p->N * p->K > DT_CPU_SMALL_MATMUL)
    multiply_share(p);
}
