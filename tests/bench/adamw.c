/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adamw.c - how near AdamW on the CPU is to the speed of memory
 *
 * Usage: adamw [MILLIONS [ROUNDS]]
 *
 * By default 64 million elements, 9 rounds, all threads of OpenMP. Each round
 * runs the triad of STREAM (McCalpin), a[i] = b[i] + s * c[i] in fp32, counted
 * as STREAM does: 12 bytes an element, although the processor also reads what
 * it overwrites. Then AdamW with 28 bytes an element (p, m, v both ways, g),
 * with a copy in bf16, 30, and in memory that outlives its process, where an
 * update can be ended by another one. Prints medians, the median of the rounds'
 * ratios to the triad, and CPU nanoseconds an element.
 */
#include "config.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "ops/ops.h"
#include "segment/segment.h"

enum { TRIAD, ADAMW, COPIES, OUTLIVES, RUNS, MAX_ROUNDS = 99 };
static const char *const names[RUNS] = {"triad", "adamw", "adamw, bf16 copy",
                                        "adamw, outlives"};
static const double bytes[RUNS] = {12, 28, 30, 28};

struct state {
    size_t count;
    struct dt_view p, m, v, g, w, step, bounds;
    struct dt_undo *undo; /* NULL: in memory of this process */
};

static void check(const void *made, const struct dt_error *err)
{
    if (made)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

/* In the segment, or in memory of this process. */
static struct dt_view vector(struct dt_segment *segment, size_t count,
                             enum dt_dtype type)
{
    const size_t size = count * dt_dtype_bytes(type);
    struct dt_error err;
    struct dt_buffer *buf =
        segment ? dt_segment_buffer(segment, "a vector", size, &err)
                : dt_buffer_create(&dt_cpu, size, "a vector", &err);

    check(buf, &err);
    return dt_view_of(buf, type);
}

/* Written by the threads that will update them: their memory is near. */
static void fill(struct dt_view x, float value)
{
    float *data = dt_view_f32(x);

#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < x.count; i++)
        data[i] = value + (float)(i % 1024) * 0x1p-20f;
}

static void init(struct state *s, struct dt_segment *segment, size_t count)
{
    s->count = count;
    s->p = vector(segment, count, DT_F32);
    s->m = vector(segment, count, DT_F32);
    s->v = vector(segment, count, DT_F32);
    s->g = vector(segment, count, DT_F32);
    s->w = vector(NULL, count, DT_BF16);
    s->step = vector(NULL, DT_STEP_COUNT, DT_F64);
    s->bounds = vector(NULL, 2, DT_I64);
    fill(s->p, 0.02f);
    fill(s->m, 0.001f);
    fill(s->v, 0.0001f);
    fill(s->g, 0.01f);
    dt_view_i64(s->bounds)[1] = (int64_t)count;
    double *step = dt_view_f64(s->step);
    step[DT_STEP_LR] = 1e-5;
    step[DT_STEP_BIAS1] = 0.1;
    step[DT_STEP_BIAS2] = 0.05;
    step[DT_STEP_GRAD_SCALE] = 1.0;
}

/* The same in a segment. */
static void init_outliving(struct state *s, size_t count)
{
    static struct dt_undo undo;
    struct dt_error err;
    struct dt_segment *segment =
        dt_segment_open(memfd_create("bench", MFD_CLOEXEC), 1, &err);

    check(segment, &err);
    init(s, segment, count);
    undo.stamps = dt_view_data(vector(segment, dt_undo_pieces(count), DT_I64));
    undo.slots =
        dt_view_data(vector(segment, DT_UNDO_BYTES / sizeof(int64_t), DT_I64));
    s->undo = &undo;
}

static void triad(const struct state *s)
{
    float *restrict a = dt_view_f32(s->p);
    const float *restrict b = dt_view_f32(s->m), *restrict c =
                                                     dt_view_f32(s->g);

#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < s->count; i++)
        a[i] = b[i] + 3e-3f * c[i];
}

static double seconds_of(int run, const struct state *s)
{
    const struct dt_adamw args = {.beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .weight_decay = 0.1,
                                  .rate = 1.0,
                                  .bounds = s->bounds,
                                  .undo = s->undo};
    const struct dt_view none = {0};
    double start = dt_clock_now();

    if (s->undo)
        s->undo->step++;
    if (run == TRIAD)
        triad(s);
    else
        dt_ops_cpu()->adamw(NULL, s->step, s->p, run == COPIES ? s->w : none,
                            s->g, s->m, s->v, &args);
    return dt_clock_now() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_size);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    const size_t millions = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    const size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;
    static double rate[RUNS][MAX_ROUNDS], ratio[RUNS][MAX_ROUNDS],
        cpu[RUNS][MAX_ROUNDS];
    struct state here = {0}, outlives = {0};

    if (argc > 3 || millions == 0 || rounds == 0 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: adamw [MILLIONS [ROUNDS]]\n");
        return EX_USAGE;
    }
    const size_t count = millions * 1000000;
    init(&here, NULL, count);
    init_outliving(&outlives, count);
    for (size_t i = 0; i <= rounds; i++) /* the first one does not count */
        for (int run = 0; run < RUNS; run++) {
            const size_t at = i > 0 ? i - 1 : 0;
            const int64_t begin = dt_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
            rate[run][at] =
                bytes[run] * (double)count / 1e9 /
                seconds_of(run, run == OUTLIVES ? &outlives : &here);
            ratio[run][at] = rate[run][at] / rate[0][at];
            cpu[run][at] =
                (double)(dt_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin) /
                (double)count;
        }
    printf("%s, %d threads, %zu million elements, %zu rounds\n",
           dt_ops_cpu()->name, omp_get_max_threads(), millions, rounds);
    for (int run = 0; run < RUNS; run++)
        printf("%-18s %6.2f GB/s  %.2f  %.2f ns\n", names[run],
               median(rate[run], rounds), median(ratio[run], rounds),
               median(cpu[run], rounds));
    return 0;
}
