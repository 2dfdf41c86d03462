/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c - what a save that is not waited for costs
 *
 * Usage: save DIRECTORY [MEGABYTES [ROUNDS]]
 *
 * By default 1492 MB, as much as GPT-2 124M with AdamW's state in fp32, and 5
 * rounds. Copies tensors into memory, as a run does before it goes on, and
 * writes them to DIRECTORY, as its thread does meanwhile. Prints medians:
 * seconds of the CPUs and of the clock.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/median.h"
#include "ckpt/ckpt.h"

enum { TENSORS = 128, MAX_ROUNDS = 99 };

static struct {
    double cpu[MAX_ROUNDS], wall[MAX_ROUNDS];
} copied, written;

static void check(int rc, const struct dt_error *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

static double cpu_now(void)
{
    return (double)dt_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

static void save(struct dt_ckpt_stage *stage, const char *root, size_t round,
                 const struct dt_ckpt_tensor *tensors)
{
    struct dt_error err;
    double cpu = cpu_now(), wall = dt_clock_now();
    struct dt_ckpt_writer *writer =
        dt_ckpt_stage_begin(stage, root, (long)round, &err);

    check(writer ? 0 : -1, &err);
    check(dt_ckpt_add_tensors(writer, "state.safetensors", tensors, TENSORS,
                              NULL, &err),
          &err);
    copied.cpu[round] = cpu_now() - cpu;
    copied.wall[round] = dt_clock_now() - wall;
    cpu = cpu_now();
    wall = dt_clock_now();
    check(dt_ckpt_write(writer, &err), &err);
    written.cpu[round] = cpu_now() - cpu;
    written.wall[round] = dt_clock_now() - wall;
    dt_ckpt_abandon(writer); /* which removes the file */
}

int main(int argc, char **argv)
{
    const size_t megabytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 1492;
    const size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;
    const size_t count = megabytes * 1000000 / sizeof(float) / TENSORS;
    struct dt_ckpt_tensor tensors[TENSORS];
    char names[TENSORS][8];
    struct dt_error err;

    if (argc < 2 || argc > 4 || count == 0 || rounds == 0 ||
        rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: save DIRECTORY [MEGABYTES [ROUNDS]]\n");
        return EX_USAGE;
    }
    const size_t bytes = TENSORS * count * sizeof(float);
    struct dt_buffer *state = dt_buffer_create(&dt_cpu, bytes, "state", &err);
    check(state ? 0 : -1, &err);
    struct dt_buffer *memory =
        dt_buffer_create(&dt_cpu, bytes + (1 << 20), "a copy", &err);
    check(memory ? 0 : -1, &err);
    for (size_t i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof(names[i]), "%03zu", i);
        tensors[i] = (struct dt_ckpt_tensor){
            .name = names[i],
            .ndim = 1,
            .shape = {count},
            .view = dt_view_slice(dt_view_of(state, DT_F32), i * count, count),
            .stored = DT_F32};
    }
    for (size_t i = 0; i < TENSORS * count; i++)
        ((float *)state->data)[i] = (float)i;
    struct dt_ckpt_stage *stage =
        dt_ckpt_stage_create(memory->data, memory->bytes, &err);
    check(stage ? 0 : -1, &err);
    for (size_t i = 0; i < rounds; i++)
        save(stage, argv[1], i, tensors);
    printf("%zu MB, %zu rounds\n", bytes / 1000000, rounds);
    printf("copied   %.3f s of CPUs, %.3f s by the clock\n",
           dt_median(copied.cpu, rounds), dt_median(copied.wall, rounds));
    printf("written  %.3f s of CPUs, %.3f s by the clock\n",
           dt_median(written.cpu, rounds), dt_median(written.wall, rounds));
    return 0;
}
