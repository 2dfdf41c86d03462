/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_update.c - an update of the weights: AdamW, and the norm's squares
 *
 * The bits of neither depend on the number of threads.
 */
#include "config.h"

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

/* A thread's part of each run. */
static void update_share(const struct tensors *tensors,
                         const struct dt_adamw_factors *factors, size_t first,
                         size_t end, const struct dt_adamw *args)
{
    const int64_t *bounds = dt_view_i64(args->bounds);

    for (size_t i = 0; i + 1 < args->bounds.count; i++) {
        size_t from = (size_t)bounds[i], to = (size_t)bounds[i + 1];
        if (to <= args->first + first || from >= args->first + end)
            continue;
        from = from > args->first ? from - args->first : 0;
        to -= args->first;
        update_run(tensors, dt_adamw_factors_in(*factors, i % 2),
                   from > first ? from : first, to < end ? to : end);
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
#pragma omp parallel if (p.count > DT_CPU_SMALL)
    {
        size_t first, end;
        dt_cpu_share(p.count, &first, &end);
        update_share(&tensors, &factors, first, end, args);
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
