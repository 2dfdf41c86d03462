/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles.c - how fast AdamW is on state that is on a drive
 *
 * Usage: tiles DIRECTORY [TILES [MIB [BUFFERS [DEPTH]]]]
 *
 * As swap.c, but of steps of the optimizer: master, m and v come in tiles of
 * MIB MiB, are updated on the CPU, and go back. Prints "optimizer RATE", in
 * GB/s of what was read and written, of the second step; the first begins with
 * zeros, which are not on the drive.
 */
#include "config.h"

#include <stdio.h>

#include "base/clock.h"
#include "parallel/tiles.h"
#include "tests/bench/drive.h"

static struct dt_buffer *allocate(size_t bytes)
{
    struct dt_error err;
    struct dt_buffer *buf = dt_buffer_create(&dt_cpu, bytes, "a bench", &err);
    drive_must(buf, &err);
    return buf;
}

/* One step over all tiles; the seconds. The writes of the last tiles go on
 * during the next step, as they do in a run: the second step pays those of the
 * first, instead of its own.
 */
static double step(struct dt_tiles *tiles, const struct dt_tiles_options *o,
                   struct dt_view grads, struct dt_view scalars,
                   struct dt_view bounds)
{
    const struct dt_adamw args = {.beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .weight_decay = 0.1,
                                  .rate = 1.0,
                                  .bounds = bounds};
    const struct dt_view none = {0};
    double start = dt_clock_now();
    struct dt_view s[DT_TILES_ARRAYS];
    struct dt_error err;

    for (size_t i = 0; i < o->count / o->tile; i++) {
        drive_must(dt_tiles_open(tiles, i, false, s, &err) == 0, &err);
        dt_ops_cpu()->adamw(NULL, scalars, s[0], none, grads, s[1], s[2],
                            &args);
        drive_must(dt_tiles_close(tiles, &err) == 0, &err);
    }
    return dt_clock_now() - start;
}

int main(int argc, char **argv)
{
    struct dt_error err;

    if (argc < 2 || argc > 6) {
        fputs("usage: tiles DIRECTORY [TILES [MIB [BUFFERS [DEPTH]]]]\n",
              stderr);
        return EX_USAGE;
    }
    const size_t tile =
        (drive_number(argc, argv, 3, 256) << 20) / 12 / 1024 * 1024;
    const struct dt_tiles_options options = {
        .tier = DT_TIER_FILE,
        .arrays = DT_TILES_ARRAYS,
        .type = DT_F32,
        .count = tile * drive_number(argc, argv, 2, 8),
        .tile = tile,
        .buffers = drive_number(argc, argv, 4, 3),
        .path = argv[1],
        .queue_depth = (unsigned)drive_number(argc, argv, 5, 32),
    };
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_view grads = dt_view_of(allocate(tile * sizeof(float)), DT_F32);
    struct dt_view scalars =
        dt_view_of(allocate(DT_STEP_COUNT * sizeof(double)), DT_F64);
    struct dt_view bounds = dt_view_of(allocate(3 * sizeof(int64_t)), DT_I64);
    struct dt_tiles *tiles = dt_tiles_create(&options, &exec, &err);
    drive_must(tiles, &err);
    for (size_t i = 0; i < tile; i++)
        dt_view_f32(grads)[i] = (float)(i % 1000) * 1e-3f;
    dt_view_i64(bounds)[1] = dt_view_i64(bounds)[2] = (int64_t)tile;
    dt_view_f64(scalars)[DT_STEP_GRAD_SCALE] = 1;
    dt_view_f64(scalars)[DT_STEP_BIAS1] = 1;
    dt_view_f64(scalars)[DT_STEP_BIAS2] = 1;
    dt_view_f64(scalars)[DT_STEP_LR] = 1e-3;
    step(tiles, &options, grads, scalars, bounds);
    printf("optimizer %.3f\n",
           24e-9 * (double)options.count /
               step(tiles, &options, grads, scalars, bounds));
    dt_tiles_destroy(tiles);
    return 0;
}
