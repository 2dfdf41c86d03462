/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_update.c - an update of the weights: AdamW, and the norm's squares
 *
 * The bits of neither depend on the number of threads.
 */
#include "config.h"

#include <string.h>

#include "ops/adamw.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dither_block.h"

enum {
    LINE = 16,           /* elements of a cache line */
    UPDATE_AHEAD = 1024, /* elements to prefetch */
    SQUARES_AHEAD = 512,
    PARTS = 1024, /* partial sums of squares, added in order at the end */
};

enum { STATE = DT_DITHER_STATE };

/* The tensors of a step. */
struct tensors {
    char *state[STATE];           /* by enum dt_dither_kind */
    enum dt_dtype type;           /* of these */
    struct dt_view grad, rounded; /* count 0: no copy */
    const struct dt_dither *dither;
    struct dt_adamw_constants constants;
};

static char *state_at(const struct tensors *t, int kind, size_t i)
{
    return t->state[kind] + i * dt_dtype_bytes(t->type);
}

static void round_copy(const struct tensors *t, const float *weight,
                       size_t first, size_t count)
{
    if (t->rounded.count > 0)
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(t->rounded),
                                        t->rounded.dtype, first),
                      weight, t->rounded.dtype, count);
}

/* Elements [begin, end) of a run, in fp32. */
static void update_run(const struct tensors *t, struct dt_adamw_factors f,
                       size_t begin, size_t end)
{
    const struct dt_adamw_constants c = t->constants;
    float *restrict weight = (float *)t->state[DT_DITHER_WEIGHT];
    float *restrict m = (float *)t->state[DT_DITHER_M];
    float *restrict v = (float *)t->state[DT_DITHER_V];

    for (size_t first = begin, last; first < end; first = last) {
        float wide[LINE];
        size_t next_line = (first / LINE + 1) * LINE;
        last = next_line < end ? next_line : end;
        const float *grad = dt_cpu_read(wide, t->grad, first, last - first);
        __builtin_prefetch(weight + first + UPDATE_AHEAD, 1);
        __builtin_prefetch(dt_cpu_at(dt_view_data(t->grad), t->grad.dtype,
                                     first + UPDATE_AHEAD));
        __builtin_prefetch(m + first + UPDATE_AHEAD, 1);
        __builtin_prefetch(v + first + UPDATE_AHEAD, 1);
#pragma omp simd
        for (size_t i = first; i < last; i++)
            dt_adamw_update(&f, &c, grad[i - first], &weight[i], &m[i], &v[i]);
        round_copy(t, weight + first, first, last - first);
    }
}

/* The same in bf16. */
static void update_dithered(const struct tensors *t, struct dt_adamw_factors f,
                            size_t begin, size_t end)
{
    const struct dt_adamw_constants c = t->constants;
    float state[STATE][DT_DITHERED], wide[DT_DITHERED];
    uint16_t random[DT_DITHERED];
    struct dt_dither_span span;

    for (size_t first = begin; first < end; first += span.count) {
        span = dt_dither_span_of(t->dither, first, end);
        const float *grad = dt_cpu_read(wide, t->grad, first, span.count);
        for (int kind = 0; kind < STATE; kind++)
            dt_cpu_widen(state[kind], state_at(t, kind, first), DT_BF16,
                         span.count);
#pragma omp simd
        for (size_t i = 0; i < span.count; i++)
            dt_adamw_update(&f, &c, grad[i], &state[DT_DITHER_WEIGHT][i],
                            &state[DT_DITHER_M][i], &state[DT_DITHER_V][i]);
        for (int kind = 0; kind < STATE; kind++) {
            uint16_t *to = (uint16_t *)state_at(t, kind, first);
            dt_dither_words(random, t->dither, (enum dt_dither_kind)kind,
                            first);
            dt_dither_narrow(to, state[kind], random + span.before, span.count);
        }
        dt_cpu_widen(wide, state_at(t, DT_DITHER_WEIGHT, first), DT_BF16,
                     span.count);
        round_copy(t, wide, first, span.count);
    }
}

/* Where run i begins in the flat buffer. */
static size_t bound(const struct dt_adamw *args, size_t i)
{
    return (size_t)dt_view_i64(args->bounds)[i];
}

/* Elements [first, end) of all runs. *run is one that begins no later than
 * they do, and becomes the last of theirs.
 */
static void update_runs(const struct tensors *tensors,
                        const struct dt_adamw_factors *factors, size_t first,
                        size_t end, const struct dt_adamw *args, size_t *run)
{
    const size_t from = args->first + first, to = args->first + end;
    void (*update)(const struct tensors *, struct dt_adamw_factors, size_t,
                   size_t) =
        tensors->type == DT_F32 ? update_run : update_dithered;

    for (size_t i = *run; bound(args, i) < to; i++) {
        const size_t begins = bound(args, i), ends = bound(args, i + 1);
        *run = i;
        if (ends > from)
            update(tensors, dt_adamw_factors_in(*factors, i % 2),
                   begins > from ? begins - args->first : first,
                   min_size(ends, to) - args->first);
    }
}

/* --- updates that can be ended by another process --- */

/* A process that is killed stops between two of its instructions, and memory
 * has all stores of those before. So all that is needed is their order.
 */
static void in_order(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Takes back the pieces of a range that a killed process was at. */
static void take_back(const struct tensors *t, const struct dt_undo *undo,
                      size_t count)
{
    for (size_t i = 0; i < DT_UNDO_SLOTS; i++) {
        const struct dt_undo_slot *slot = &undo->slots[i];
        const size_t at = (slot->piece - undo->first) * DT_UNDO_PIECE;
        if (slot->step != undo->step || slot->piece < undo->first ||
            at >= count || undo->stamps[slot->piece] == undo->step)
            continue;
        const size_t n = min_size(DT_UNDO_PIECE, count - at);
        for (int kind = 0; kind < STATE; kind++)
            memcpy(state_at(t, kind, at), slot->old[kind],
                   n * dt_dtype_bytes(t->type));
    }
}

static void keep_piece(struct dt_undo_slot *slot, const struct tensors *t,
                       uint64_t step, size_t piece, size_t at, size_t n)
{
    slot->step = 0;
    in_order();
    for (int kind = 0; kind < STATE; kind++)
        memcpy(slot->old[kind], state_at(t, kind, at),
               n * dt_dtype_bytes(t->type));
    slot->piece = piece;
    in_order();
    slot->step = step;
    in_order();
}

/* The pieces of elements [first, end) that are not done. */
static void update_pieces(const struct tensors *tensors,
                          const struct dt_adamw_factors *factors, size_t first,
                          size_t end, const struct dt_adamw *args)
{
    const struct dt_undo *undo = args->undo;
    struct dt_undo_slot *slot = &undo->slots[omp_get_thread_num()];
    size_t run = 0;

    for (size_t at = first; at < end; at += DT_UNDO_PIECE) {
        const size_t piece = undo->first + at / DT_UNDO_PIECE;
        const size_t n = min_size(DT_UNDO_PIECE, end - at);
        if (undo->stamps[piece] == undo->step)
            continue;
        keep_piece(slot, tensors, undo->step, piece, at, n);
        update_runs(tensors, factors, at, at + n, args, &run);
        in_order();
        undo->stamps[piece] = undo->step;
        in_order();
    }
}

static void update_with_undo(const struct tensors *tensors,
                             const struct dt_adamw_factors *factors,
                             size_t count, const struct dt_adamw *args)
{
    const int threads = omp_get_max_threads();

    take_back(tensors, args->undo, count);
#pragma omp parallel if (count > DT_CPU_SMALL)                                 \
    num_threads(threads < DT_UNDO_SLOTS ? threads : DT_UNDO_SLOTS)
    {
        size_t first, end;
        dt_cpu_share_by(DT_UNDO_PIECE, count, &first, &end);
        update_pieces(tensors, factors, first, end, args);
    }
}

void DT_CPU(adamw)(struct dt_stream *stream, struct dt_view step,
                   struct dt_view p, struct dt_view w, struct dt_view g,
                   struct dt_view m, struct dt_view v,
                   const struct dt_adamw *args)
{
    const double *s = dt_view_f64(step);
    const struct tensors tensors = {
        .state = {dt_view_data(p), dt_view_data(m), dt_view_data(v)},
        .type = p.dtype,
        .grad = g,
        .rounded = w,
        .dither = &args->dither,
        .constants = dt_adamw_constants_of(args),
    };
    const struct dt_adamw_factors factors =
        dt_adamw_factors_of(s, &tensors.constants);
    (void)stream;
    assert(step.count == DT_STEP_COUNT && args->bounds.count > 0);
    assert(p.dtype == DT_F32 || p.dtype == DT_BF16);
    assert(m.count == p.count && m.dtype == p.dtype);
    assert(v.count == p.count && v.dtype == p.dtype);
    assert(g.count == p.count && (w.count == 0 || w.count == p.count));
    assert(args->dither.first % DT_DITHER_BLOCK == 0);
    assert(dt_view_i64(args->bounds)[0] == 0 && args->first % LINE == 0);
    assert(dt_view_i64(args->bounds)[args->bounds.count - 1] >=
           (int64_t)(args->first + p.count));

    if (s[DT_STEP_OUTCOME] != DT_STEP_TAKEN)
        return;
    if (args->undo) {
        update_with_undo(&tensors, &factors, p.count, args);
        return;
    }
#pragma omp parallel if (p.count > DT_CPU_SMALL)
    {
        size_t first, end, run = 0;
        dt_cpu_share(p.count, &first, &end);
        update_runs(&tensors, &factors, first, end, args, &run);
    }
}

/* Adds the squares of x(count), a multiple of LINE, to a lane each. */
static void add_lanes(double lane[LINE], const float *x, size_t count)
{
    for (size_t i = 0; i < count; i += LINE) {
        __builtin_prefetch(x + i + SQUARES_AHEAD);
#pragma omp simd
        for (size_t j = 0; j < LINE; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    }
}

/* Sum of squares of elements [first, end) of x, where first is a multiple of
 * LINE.
 */
static double part_sum(struct dt_view x, size_t first, size_t end)
{
    float wide[DT_CPU_BLOCK];
    double sum = 0.0, lane[LINE] = {0.0};

    for (size_t count; first < end; first += count) {
        count = min_size(DT_CPU_BLOCK, end - first);
        const float *from = dt_cpu_read(wide, x, first, count);
        const size_t whole = count - count % LINE;
        add_lanes(lane, from, whole);
        for (size_t i = whole; i < count; i++)
            sum += (double)from[i] * (double)from[i];
    }
    for (size_t j = 0; j < LINE; j++)
        sum += lane[j];
    return sum;
}

void DT_CPU(sum_of_squares)(struct dt_stream *stream, struct dt_view step,
                            struct dt_view x)
{
    size_t size = (x.count / PARTS / LINE + 1) * LINE;
    double part[PARTS], total = 0.0;
    (void)stream;
    assert(step.count == DT_STEP_COUNT);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < PARTS; i++) {
        size_t first = i * size < x.count ? i * size : x.count;
        size_t end = x.count - first < size ? x.count : first + size;
        part[i] = part_sum(x, first, end);
    }
    for (size_t i = 0; i < PARTS; i++)
        total += part[i];
    dt_view_f64(step)[DT_STEP_SQUARES] += total;
}
