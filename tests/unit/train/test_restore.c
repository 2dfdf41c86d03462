/* SPDX-License-Identifier: Apache-2.0 */
/* test_restore.c - a checkpoint is the same for every world, strategy, tier */
#include "config.h"

#include "train/resume/resume.h"
#include "tests/unit/drive.h"
#include "tests/unit/small_run.h"
#include "weights/parts.h"

enum { STEPS = 3 };

/* Whether this rank owns what the checkpoint has: master, m and v, bit by bit.
 */
static int compare_parts(struct dt_run *run, const struct dt_parts *parts,
                         enum dt_owned kind)
{
    struct dt_error err = {0};
    size_t count = run->spec.learner.layout->count;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * sizeof(float), "a test", &err);
    TRY(buf);
    struct dt_view stored = dt_view_of(buf, DT_F32);
    TRY(dt_parts_read(parts, kind, (struct dt_range){0, count}, stored, &err) ==
        0);
    float *own = malloc(count * sizeof(*own));
    TRY(own);
    for (size_t u = 0; u < run->spec.learner.layout->unit_count; u++) {
        struct dt_range part = dt_layout_part(
            run->spec.learner.layout, u,
            dt_parallel_index(run->learner.parallel), run->spec.world);
        TRY(dt_parallel_get(run->learner.parallel,
                            dt_parallel_part(run->learner.parallel, kind, u),
                            own, &err) == 0);
        TRY(memcmp(own, dt_view_f32(stored) + part.first,
                   part.count * sizeof(float)) == 0);
    }
    free(own);
    dt_buffer_destroy(buf);
    return 0;
}

static int compare_checkpoint(struct dt_run *run)
{
    struct dt_error err = {0};
    struct dt_parts *parts;
    char dir[64];
    snprintf(dir, sizeof(dir), "out/checkpoints/checkpoint-%d", STEPS);
    TRY(dt_parts_open(dir, run->spec.learner.layout, &parts, &err) == 0 &&
        parts);
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++) {
        TRY(dt_parts_have(parts, kind, &err) == 1);
        TRY(compare_parts(run, parts, kind) == 0);
    }
    dt_parts_close(parts);
    return dt_comm_barrier(run->comm, &err);
}

static int train_and_save(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    (void)arg;
    for (int i = 0; i < STEPS; i++)
        TRY(small_step(run, &line, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(dt_comm_barrier(run->comm, &err) == 0); /* rank 0 publishes it last */
    return compare_checkpoint(run);
}

static int find_the_same(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(run->progress.step == STEPS);
    return compare_checkpoint(run);
}

static const struct {
    int ranks;
    bool two_nodes; /* hybrid by default */
    const char *strategy, *offload;
} worlds[] = {
    {4, false, "zero3", ""},
    {3, false, "zero1", ""},
    {1, false, "ddp", ""},
    {2, false, "zero2", ""},
    {4, true, "zero3", ""},
    {4, true, "zero2", "optimizer"},
    {1, false, "zero1", "optimizer"},
    {3, false, "zero3", "optimizer and param"},
};

/* Like small_runs in world i; resumes in the directory as it is. */
static void run_in(int i, const char *lines, small_rank_f f, bool resumes)
{
    struct small_world small = {
        .conf = small_conf(lines), .f = f, .two_nodes = worlds[i].two_nodes};
    if (!resumes)
        small_clean(NULL);
    world_threads(worlds[i].ranks, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

enum { COUNT = sizeof(worlds) / sizeof(worlds[0]) };

/* fp32 weights are in the optimizer's files, as the model is stored in bf16. */
static void lines_of(char *lines, size_t room, int i, const char *resume)
{
    int n = snprintf(lines, room,
                     "training: {train_batch_size: 12, max_steps: 9, resume: "
                     "%s}\n"
                     "precision.compute: bf16\n"
                     "distributed.strategy: %s\n",
                     resume, worlds[i].strategy);
    if (*worlds[i].offload)
        n += snprintf(lines + n, room - (size_t)n,
                      "offload_optimizer: {device: nvme, path: %s}\n", drive());
    if (strstr(worlds[i].offload, "param"))
        snprintf(lines + n, room - (size_t)n,
                 "offload_param: {device: nvme, path: %s}\n", drive());
}

static bool can_run(int i)
{
    return !*worlds[i].offload || has_uring();
}

static void every_world_strategy_and_tier_reads_every_checkpoint(void **state)
{
    char lines[1024];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        if (!can_run(i))
            continue;
        lines_of(lines, sizeof(lines), i, "none");
        run_in(i, lines, train_and_save, false);
        for (int j = 0; j < COUNT; j++) {
            if (!can_run(j))
                continue;
            lines_of(lines, sizeof(lines), j, "auto");
            run_in(j, lines, find_the_same, true);
        }
    }
}

static int list_files(struct dt_run *run, void *arg)
{
    char path[128];
    struct dt_error err = {0};
    if (train_and_save(run, arg) < 0)
        return -1;
    snprintf(path, sizeof(path),
             "out/checkpoints/checkpoint-%d/"
             "optim-rank-%05d-of-%05d.safetensors",
             STEPS, run->spec.rank, run->spec.world);
    TRY(access(path, R_OK) == 0);
    TRY(access("out/checkpoints/latest/checksums.txt", R_OK) == 0);
    TRY(dt_ckpt_verify("out/checkpoints/latest", NULL, &err) == 0);
    return 0;
}

static void each_rank_writes_a_file_that_the_checksums_list(void **state)
{
    char lines[256];
    (void)state;
    lines_of(lines, sizeof(lines), 0, "none");
    small_runs(worlds[0].ranks, lines, list_files, NULL);
}

/* A rank that cannot write makes the save fail on all, and nothing is left. */
static int fail_to_save(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 1)
        snprintf(run->spec.ckpt_root, sizeof(run->spec.ckpt_root), "elsewhere");
    TRY(dt_run_save(run, &why, &err) == 1);
    TRY(run->spec.rank != 1 ||
        strstr(why.text, "a file system that all nodes"));
    TRY(run->spec.rank != 0 || access("out/checkpoints/latest", F_OK) < 0);
    return dt_comm_barrier(run->comm, &err);
}

static void one_rank_that_cannot_write_fails_the_save(void **state)
{
    char lines[256];
    (void)state;
    lines_of(lines, sizeof(lines), 3, "none");
    small_runs(worlds[3].ranks, lines, fail_to_save, NULL);
}

int main(void)
{
#ifndef HAVE_GLOO
    puts("1..0 # SKIP built without gloo: ranks are not connected");
    return 0;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_strategy_and_tier_reads_every_checkpoint),
        cmocka_unit_test(each_rank_writes_a_file_that_the_checksums_list),
        cmocka_unit_test(one_rank_that_cannot_write_fails_the_save),
    };
    return cmocka_run_group_tests_name("restore", tests, small_enter,
                                       small_leave);
}
