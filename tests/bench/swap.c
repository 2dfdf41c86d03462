/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap.c - how fast tiles go to a drive and come back
 *
 * Usage: swap DIRECTORY [TILES [MIB [BUFFERS [DEPTH]]]]
 *
 * By default 8 tiles of 256 MiB, 3 buffers, 32 requests at a time. Writes all
 * tiles, which is not counted: blocks that were only reserved are slower. Then
 * prints lines "NAME RATE", in GB/s of what was read and written: `write` of
 * all tiles, `read`, and `update`, which reads each and writes it back, as a
 * step of the optimizer does.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "parallel/swap.h"
#include "tests/bench/drive.h"

/* Moves each tile once in every direction that is asked for; the seconds. The
 * swap itself keeps a write behind the read of its buffer, and a read behind
 * the write.
 */
static double pass(struct dt_swap *swap, const struct dt_swap_options *o,
                   bool reads, bool writes)
{
    double start = dt_clock_now();
    dt_swap_ticket_t last = 0;
    struct dt_error err;

    for (size_t i = 0; i < o->tile_count; i++) {
        size_t buffer = i % o->buffer_count;
        if (reads)
            drive_must(dt_swap_start_read(swap, i, buffer, &last, &err) == 0,
                       &err);
        if (writes)
            drive_must(dt_swap_start_write(swap, i, buffer, &last, &err) == 0,
                       &err);
    }
    for (dt_swap_ticket_t ticket = 1; ticket <= last; ticket++)
        drive_must(dt_swap_wait(swap, ticket, &err) == 0, &err);
    return dt_clock_now() - start;
}

int main(int argc, char **argv)
{
    struct dt_error err;

    if (argc < 2 || argc > 6) {
        fputs("usage: swap DIRECTORY [TILES [MIB [BUFFERS [DEPTH]]]]\n",
              stderr);
        return EX_USAGE;
    }
    const struct dt_swap_options options = {
        .tile_count = drive_number(argc, argv, 2, 8),
        .tile_bytes = drive_number(argc, argv, 3, 256) << 20,
        .buffer_count = drive_number(argc, argv, 4, 3),
        .queue_depth = (unsigned)drive_number(argc, argv, 5, 32),
    };
    const double gb =
        (double)options.tile_count * (double)options.tile_bytes / 1e9;
    struct dt_swap *swap = dt_swap_create(argv[1], &options, &err);
    drive_must(swap, &err);
    for (size_t b = 0; b < options.buffer_count; b++) {
        uint32_t *data = dt_swap_buffer(swap, b), x = 1;
        for (size_t i = 0; i < options.tile_bytes / sizeof(x); i++)
            data[i] = x = x * 1664525u + 1013904223u;
    }
    pass(swap, &options, false, true);
    printf("write %.3f\n", gb / pass(swap, &options, false, true));
    printf("read %.3f\n", gb / pass(swap, &options, true, false));
    printf("update %.3f\n", 2 * gb / pass(swap, &options, true, true));
    dt_swap_destroy(swap);
    return 0;
}
