/* SPDX-License-Identifier: Apache-2.0 */
/* roof.c - what hardware can do at best, measured by nothing but doing it */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/bench/roof.h"

/* Queued together, so that no wait for the device is measured */
enum { ROUNDS = 5, QUEUED = 10 };

static void must(bool done, const struct dt_error *err)
{
    if (done)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

struct dt_buffer *roof_buffer(const struct dt_exec *exec, size_t bytes)
{
    enum { BLOCK = 1 << 18 };
    static uint32_t block[BLOCK];
    struct dt_error err;
    struct dt_buffer *buf =
        dt_buffer_create(exec->device, bytes, "operands", &err);
    uint32_t state = 1;

    must(buf, &err);
    for (size_t i = 0; i < BLOCK; i++) {
        union {
            float f;
            uint32_t bits;
        } x[2];
        for (int half = 0; half < 2; half++) {
            state = state * 1664525u + 1013904223u;
            x[half].f = (float)(state >> 8) * 0x1p-23f - 1.0f;
        }
        block[i] = (x[0].bits & 0xffff0000u) | x[1].bits >> 16;
    }
    for (size_t at = 0; at < bytes; at += sizeof(block)) {
        size_t left = bytes - at;
        must(exec->device->copy(exec->stream, (char *)buf->data + at, block,
                                left < sizeof(block) ? left : sizeof(block),
                                &err) == 0,
             &err);
    }
    return buf;
}

static void wait(const struct dt_exec *exec)
{
    struct dt_error err;

    must(exec->device->stream_wait(exec->stream, &err) == 0, &err);
}

double roof_product(const struct dt_exec *exec, enum dt_dtype type, size_t size)
{
    const size_t bytes = size * size * dt_dtype_bytes(type);
    struct dt_buffer *x = roof_buffer(exec, bytes);
    struct dt_buffer *w = roof_buffer(exec, bytes);
    struct dt_buffer *out = roof_buffer(exec, bytes);
    const struct dt_view none = {0};
    double best = INFINITY;

    for (int round = 0; round <= ROUNDS; round++) {
        double start = dt_clock_now();
        for (int i = 0; i < QUEUED; i++)
            exec->ops->linear_forward(exec->stream, dt_view_of(out, type),
                                      dt_view_of(x, type), dt_view_of(w, type),
                                      none, DT_WEIGHT_OUT_IN, size, size, size);
        wait(exec);
        if (round > 0)
            best = fmin(best, dt_clock_now() - start);
    }
    dt_buffer_destroy(x);
    dt_buffer_destroy(w);
    dt_buffer_destroy(out);
    return 2.0 * pow((double)size, 3) * QUEUED / best;
}

double roof_copy(const struct dt_exec *exec, size_t bytes)
{
    struct dt_buffer *from = roof_buffer(exec, bytes);
    struct dt_buffer *to = roof_buffer(exec, bytes);
    struct dt_error err;
    double best = INFINITY;

    for (int round = 0; round <= ROUNDS; round++) {
        double start = dt_clock_now();
        for (int i = 0; i < QUEUED; i++)
            must(exec->device->copy(exec->stream, to->data, from->data, bytes,
                                    &err) == 0,
                 &err);
        wait(exec);
        if (round > 0)
            best = fmin(best, dt_clock_now() - start);
    }
    dt_buffer_destroy(from);
    dt_buffer_destroy(to);
    return 2.0 * (double)bytes * QUEUED / best;
}

double roof_read(const void *data, size_t bytes)
{
    const uint64_t *word = data;
    const size_t count = bytes / sizeof(*word);
    double best = INFINITY;
    volatile uint64_t seen; /* so that the reads are not left out */

    for (int round = 0; round <= ROUNDS; round++) {
        double start = dt_clock_now();
        uint64_t sum = 0;
#pragma omp parallel for simd schedule(static) reduction(^ : sum)
        for (size_t i = 0; i < count; i++)
            sum ^= word[i];
        seen = sum;
        if (round > 0)
            best = fmin(best, dt_clock_now() - start);
    }
    (void)seen;
    return (double)bytes / best;
}

void roof_print_share(const struct roof *roof, double flops, double bytes,
                      double s)
{
    double computing = flops / roof->flops, moving = bytes / roof->bytes;

    printf(" %5.1f %% %s", 100.0 * fmax(computing, moving) / s,
           computing > moving ? "flops" : "bytes");
}
