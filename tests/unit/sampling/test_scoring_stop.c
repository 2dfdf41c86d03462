/* SPDX-License-Identifier: Apache-2.0 */
/* test_scoring_stop.c - a run that is told to stop while rewards are computed
 */
#include "config.h"

#include <unistd.h>

#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/ppo_run.h"

/* A program that gives 0 to everything, but while there is a file `armed` it
 * leaves the first request without an answer.
 */
#define PROGRAM                                                                \
    "read -r _\n"                                                              \
    "echo '{\"ready\": true, \"abi\": 1}'\n"                                   \
    "while read -r line; do\n"                                                 \
    "    if [ -e armed ]; then touch asked; exec sleep 600; fi\n"              \
    "    id=${line#*'\"id\":'}\n"                                              \
    "    id=${id%%,*}\n"                                                       \
    "    echo \"{\\\"id\\\": ${id%%\\}*}, \\\"rewards\\\": [0]}\"\n"           \
    "done\n"

#define LINES                                                                  \
    "training: {train_batch_size: 8, max_steps: 9, resume: auto}\n"            \
    "optimizer.lr: 0.01\n"                                                     \
    "ppo: {epochs: 2}\n"                                                       \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"},\n"          \
    "  {type: command, name: slow, command: [sh, ./slow], batch_size: 1,\n"    \
    "   timeout_s: 100}]}\n"

enum { HALF = 2, LAST = 6 };

static _Thread_local const struct dt_run *this_run;

/* Completions are gathered, and the program has been asked for its reward. */
static bool while_scoring(void)
{
    return this_run->samples.experience.at && access("asked", F_OK) == 0;
}

static int stop_in_scoring(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    struct dt_report_step line;
    bool stopped = false;
    (void)arg;
    TRY(go_to(run, HALF, &err) == 0);
    if (run->spec.rank == 0)
        TRY(fclose(fopen("armed", "w")) == 0);
    TRY(dt_comm_barrier(run->comm, &err) == 0);
    this_run = run;
    run->stop = while_scoring;
    TRY(dt_run_queue_step(run, false, &err) == 1);
    run->stop = NULL;
    TRY(run->queued == HALF && run->samples.use == 0);
    TRY(dt_run_collect(run, &line, &stopped, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    if (run->spec.rank == 0)
        TRY(unlink("armed") == 0 && unlink("asked") == 0);
    return 0;
}

static void a_run_that_was_stopped_in_scoring_resumes_exactly(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++) {
        struct kept kept = {.half = HALF, .last = LAST};
        small_runs(size, LINES, go_through, &kept);
        small_runs(size, LINES, stop_in_scoring, NULL);
        struct small_world small = {
            .conf = small_conf(LINES), .f = go_on, .arg = &kept};
        world_threads(size, small_rank, &small);
        dt_conf_destroy((struct dt_conf *)small.conf);
        free(kept.weights[0]);
        free(kept.weights[1]);
    }
}

static int write_program(void **state)
{
    if (prompts_enter(state) < 0)
        return -1;
    FILE *file = fopen("slow", "w");
    fputs(PROGRAM, file);
    return fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_was_stopped_in_scoring_resumes_exactly),
    };
    return cmocka_run_group_tests(tests, write_program, small_leave);
}
