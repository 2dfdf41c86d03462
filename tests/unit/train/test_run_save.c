/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_save.c - a save that fails, and what the run then resumes from */
#include "config.h"

#include <errno.h>

#include "run/dir/dir.h"
#include "train/resume/resume.h"
#include "tests/unit/disk.h"
#include "tests/unit/small_run.h"

/* Step 2 is saved, and only latest cannot be replaced. Then the run diverges,
 * behind a good step if `arg` is not NULL.
 */
static int save_without_latest(struct dt_run *run, void *arg)
{
    const char *const latest = "out/checkpoints/latest";
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    TRY(unlink(latest) == 0 && mkdir(latest, 0777) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(run->saves.failures == 1);
    TRY(access("out/checkpoints/checkpoint-2", F_OK) == 0);
    TRY(rmdir(latest) == 0 && symlink("checkpoint-1", latest) == 0);
    TRY(!arg || small_step(run, &line, &err) == 0);
    dt_error_set(&err, EX_DATAERR, "diverged");
    TRY(dt_run_give_up(run, &err) == -1);
    TRY(strstr(err.text, arg ? "/checkpoint-2: " : "/checkpoint-1: "));
    return 0;
}

static void a_checkpoint_of_a_failed_save_needs_proof_too(void **state)
{
    static const char *const cases[] = {NULL, "proven"};
    for (int i = 0; i < 2; i++) {
        small_clean(state);
        small_runs(1, "training: {train_batch_size: 4, max_steps: 9}\n",
                   save_without_latest, (void *)cases[i]);
    }
}

/* Which of the checkpoints 1 to 4 are there. */
static int kept(void)
{
    char path[64];
    int bits = 0;
    for (int step = 1; step <= 4; step++) {
        snprintf(path, sizeof(path), "out/checkpoints/checkpoint-%d", step);
        bits = 10 * bits + (access(path, F_OK) == 0);
    }
    return bits;
}

/* Of a limit of 3, two stay when the disk is too full for another one. */
static int save_on_a_full_disk(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    for (int step = 1; step <= 3; step++) {
        TRY(small_step(run, &line, &err) == 0);
        TRY(dt_run_save_or_retry(run, false, &err) == 0);
    }
    TRY(small_step(run, &line, &err) == 0);
    TRY(kept() == 1110);
    disk_leave(1.1 * (double)dt_run_checkpoint_bytes(run));
    disk_refuse("write", "model.safetensors", ENOSPC);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(kept() == 110 && run->saves.told_short);
    disk_refuse(NULL, NULL, 0);
    disk_leave(-1);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(kept() == 111 && !run->saves.told_short);
    return 0;
}

static void older_checkpoints_make_room_on_a_full_disk(void **state)
{
    (void)state;
    small_runs(1,
               "training: {train_batch_size: 4, max_steps: 9}\n"
               "checkpoint.total_limit: 3\n",
               save_on_a_full_disk, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_of_a_failed_save_needs_proof_too),
        cmocka_unit_test(older_checkpoints_make_room_on_a_full_disk),
    };
    return cmocka_run_group_tests_name("run_save", tests, small_enter,
                                       small_leave);
}
