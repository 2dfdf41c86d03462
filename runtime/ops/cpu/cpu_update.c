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

enum {
    LINE = 16,           /* elements of a cache line */
    UPDATE_AHEAD = 1024, /* elements to prefetch */
    SQUARES_AHEAD = 512,
    PARTS = 1024, /* partial sums of squares, added in order at the end */
};

/* The tensors of a step. */
struct tensors {
    float *restrict weight, *restrict moment_1, *restrict moment_2;
    const float *restrict grad;
    char *rounded; /* NULL: no copy */
    enum dt_dtype type;
    struct dt_adamw_constants constants;
};

/* Elements [begin, end) of a run. */
static void update_run(const struct tensors *tensors, struct dt_adamw_factors f,
                       size_t begin, size_t end)
{
    const struct tensors t = *tensors;
    const struct dt_adamw_constants c = t.constants;

    for (size_t first = begin, last; first < end; first = last) {
        size_t next_line = (first / LINE + 1) * LINE;
        last = next_line < end ? next_line : end;
        __builtin_prefetch(t.weight + first + UPDATE_AHEAD, 1);
        __builtin_prefetch(t.grad + first + UPDATE_AHEAD);
        __builtin_prefetch(t.moment_1 + first + UPDATE_AHEAD, 1);
        __builtin_prefetch(t.moment_2 + first + UPDATE_AHEAD, 1);
#pragma omp simd
        for (size_t i = first; i < last; i++)
            dt_adamw_update(&f, &c, t.grad[i], &t.weight[i], &t.moment_1[i],
                            &t.moment_2[i]);
        if (t.rounded)
            dt_cpu_narrow(t.rounded + first * dt_dtype_bytes(t.type),
                          t.weight + first, t.type, last - first);
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

    for (size_t i = *run; bound(args, i) < to; i++) {
        const size_t begins = bound(args, i), ends = bound(args, i + 1);
        *run = i;
        if (ends > from)
            update_run(tensors, dt_adamw_factors_in(*factors, i % 2),
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

static void copy_piece(float *to, const float *from, size_t count)
{
    memcpy(to, from, count * sizeof(float));
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
        copy_piece(t->weight + at, slot->old[0], n);
        copy_piece(t->moment_1 + at, slot->old[1], n);
        copy_piece(t->moment_2 + at, slot->old[2], n);
    }
}

static void keep_piece(struct dt_undo_slot *slot, const struct tensors *t,
                       uint64_t step, size_t piece, size_t at, size_t n)
{
    slot->step = 0;
    in_order();
    copy_piece(slot->old[0], t->weight + at, n);
    copy_piece(slot->old[1], t->moment_1 + at, n);
    copy_piece(slot->old[2], t->moment_2 + at, n);
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
        .weight = dt_view_f32(p),
        .grad = dt_cpu_f32(g, p.count),
        .moment_1 = dt_cpu_f32(m, p.count),
        .moment_2 = dt_cpu_f32(v, p.count),
        .rounded = w.count > 0 ? dt_view_data(w) : NULL,
        .type = w.dtype,
        .constants = dt_adamw_constants_of(args),
    };
    const struct dt_adamw_factors factors =
        dt_adamw_factors_of(s, &tensors.constants);
    (void)stream;
    assert(step.count == DT_STEP_COUNT && args->bounds.count > 0);
    assert(w.count == 0 || w.count == p.count);
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

/* Sum of squares of x(count), which begins at a multiple of LINE. */
static double part_sum(const float *x, size_t count)
{
    const size_t whole = count - count % LINE;
    double sum = 0.0, lane[LINE] = {0.0};

    for (size_t i = 0; i < whole; i += LINE) {
        __builtin_prefetch(x + i + SQUARES_AHEAD);
#pragma omp simd
        for (size_t j = 0; j < LINE; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    }
    for (size_t i = whole; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < LINE; j++)
        sum += lane[j];
    return sum;
}

void DT_CPU(sum_of_squares)(struct dt_stream *stream, struct dt_view step,
                            struct dt_view x)
{
    const float *from = dt_view_f32(x);
    size_t size = (x.count / PARTS / LINE + 1) * LINE;
    double part[PARTS], total = 0.0;
    (void)stream;
    assert(step.count == DT_STEP_COUNT);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < PARTS; i++) {
        size_t first = i * size < x.count ? i * size : x.count;
        size_t end = x.count - first < size ? x.count : first + size;
        part[i] = part_sum(from + first, end - first);
    }
    for (size_t i = 0; i < PARTS; i++)
        total += part[i];
    dt_view_f64(step)[DT_STEP_SQUARES] += total;
}
