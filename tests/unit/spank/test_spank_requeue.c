/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_requeue.c - which exit status requeues which job */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <slurm/slurm.h>

#include "spank/srun/srun_impl.h"
#include "tests/unit/spank/spank_stub.h"

/* Slurm, as the module finds it: what is to come of the next requeue. */
static int refusal;      /* errno of the call */
static uint32_t refused; /* in the answer */
static int out;          /* where the child tells what it has seen */

int slurm_requeue2(char *job, uint32_t flags, job_array_resp_msg_t **answer)
{
    static job_array_resp_msg_t one = {.job_array_count = 1};
    one.error_code = &refused;
    *answer = &one;
    dprintf(out, "requeue %s %u\n", job, (unsigned)flags);
    errno = refusal;
    return refusal ? -1 : 0;
}

static uint32_t job_state; /* of job 12 */

#undef slurm_load_job
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
int slurm_load_job(job_info_msg_t **found, slurm_step_id_t id, uint16_t flags)
{
    uint32_t job = id.job_id;
#else
int slurm_load_job(job_info_msg_t **found, uint32_t job, uint16_t flags)
{
#endif
    static slurm_job_info_t one;
    static job_info_msg_t all = {.record_count = 1, .job_array = &one};
    one.job_state = job_state;
    *found = &all;
    return job == 12 && flags == SHOW_ALL ? 0 : -1;
}

void slurm_free_job_info_msg(job_info_msg_t *found)
{
    found->job_array[0].job_state = 0;
}

char *slurm_strerror(int number)
{
    return strerror(number);
}

/* In place of deadline.c's. */
static bool passed;

bool dtspank_deadline_passed(void)
{
    return passed;
}

/* In place of srun_console.c's: how a console has seen the run end, and what it
 * says of srun's status; it must know that one.
 */
static int run_status, srun_status, verdict;

int dtspank_console_finish(int *status)
{
    assert_int_equal(*status, srun_status & 0xff);
    if (verdict >= 0)
        *status = verdict;
    return run_status;
}

static void tell(int status, void *unused)
{
    (void)unused;
    (void)status;
    dprintf(out, "%s", stub.said);
}

/* Plays an srun that ends with this status; returns all that it said. */
static const char *play(int status, bool in_job)
{
    static char said[1024];
    int fd[2];
    size_t used = 0;
    assert_int_equal(pipe(fd), 0);
    fflush(NULL);
    srun_status = status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        out = fd[1];
        stub_reset();
        on_exit(tell, NULL);
        if (dtspank_requeue_arm(in_job, NULL) != 0)
            _exit(1);
        if (fork() == 0) /* children of srun have no say */
            exit(75);
        wait(NULL);
        exit(status);
    }
    close(fd[1]);
    for (ssize_t n; used < sizeof(said) - 1; used += (size_t)n)
        if ((n = read(fd[0], said + used, sizeof(said) - 1 - used)) <= 0)
            break;
    said[used] = '\0';
    close(fd[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return said;
}

static int setup(void **state)
{
    (void)state;
    setenv("SLURM_JOB_ID", "12", 1);
    unsetenv("SLURM_ARRAY_JOB_ID");
    unsetenv("SLURM_ARRAY_TASK_ID");
    unsetenv("SLURM_RESTART_COUNT");
    refusal = 0;
    refused = 0;
    job_state = JOB_RUNNING;
    passed = false;
    run_status = 0;
    verdict = -1;
    setenv(DT_ENV_REQUEUE, "0", 1);
    return 0;
}

static void status_75_and_failures_past_the_deadline_requeue(void **state)
{
    static const struct {
        int status;
        bool passed;
        bool requeued;
    } cases[] = {
        {0, false, false},   {1, false, false},  {75, false, true},
        {143, false, false}, {0, true, false},   {1, true, true},
        {143, true, true},   {256, true, false}, {75, true, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        passed = cases[i].passed;
        assert_string_equal(play(cases[i].status, true),
                            cases[i].requeued
                                ? "requeue 12 0\ndisttrain: job 12 goes back "
                                  "into the queue (restart 1)\n"
                                : "");
    }
}

/* srun ends with what it has done to the other ranks. */
static void a_job_is_requeued_if_one_rank_asks(void **state)
{
    (void)state;
    run_status = 75;
    assert_string_equal(play(143, true),
                        "requeue 12 0\ndisttrain: job 12 goes back into the "
                        "queue (restart 1)\n");
}

#define BACK                                                                   \
    "requeue 12 0\ndisttrain: job 12 goes back into the queue (restart 1)\n"

/* It knows of a failure more than srun's status says. */
static void a_crash_that_the_console_has_seen_requeues_the_job(void **state)
{
    (void)state;
    run_status = 137;
    assert_string_equal(play(1, true), "");
    setenv(DT_ENV_REQUEUE, "1", 1);
    assert_string_equal(play(1, true), BACK);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    assert_string_equal(play(1, true),
                        "disttrain: launch.max_requeues: after 1 restarts the "
                        "job is not requeued again\n");
    unsetenv(DT_ENV_REQUEUE);
    assert_string_equal(play(75, true), "");
}

/* srun would say 137 for nodes that are lost. */
static void the_status_of_keepers_is_that_of_srun(void **state)
{
    (void)state;
    passed = true;
    verdict = 0;
    assert_string_equal(play(137, true), "");
    verdict = 1;
    assert_string_equal(play(137, true), BACK);
}

static void an_array_task_is_requeued_by_its_id(void **state)
{
    (void)state;
    setenv("SLURM_JOB_ID", "11", 1); /* the last one of the array */
    setenv("SLURM_ARRAY_JOB_ID", "11", 1);
    setenv("SLURM_ARRAY_TASK_ID", "4", 1);
    setenv("SLURM_RESTART_COUNT", "2", 1);
    assert_string_equal(play(75, true),
                        "requeue 11_4 0\ndisttrain: job 11_4 goes back into "
                        "the queue (restart 3)\n");
}

/* Its ranks may have failed of that, or asked for the queue as at a limit. */
static void a_cancelled_job_is_not_requeued(void **state)
{
    (void)state;
    job_state = JOB_CANCELLED | JOB_COMPLETING;
    run_status = 75;
    assert_string_equal(play(75, true), "disttrain: job 12 has been cancelled: "
                                        "it is not requeued\n");
    job_state = JOB_TIMEOUT | JOB_COMPLETING;
    assert_string_equal(play(75, true),
                        "requeue 12 0\ndisttrain: job 12 goes back into the "
                        "queue (restart 1)\n");
}

static void a_fourth_quick_requeue_is_refused(void **state)
{
    long seconds;
    int used = 0;
    (void)state;
    setenv("SLURM_RESTART_COUNT", "3", 1);
    const char *said = play(75, true);
    assert_int_equal(
        sscanf(said,
               "disttrain: launch.requeue: job 12 is not requeued: it has been "
               "restarted 3 times, and this step ended after %ld s%n",
               &seconds, &used),
        1);
    assert_string_equal(said + used, "\n");
    assert_in_range(seconds, 0, 59); /* as long as the machine takes */
}

static void a_refused_requeue_says_why(void **state)
{
    (void)state;
    refusal = EPERM;
    assert_string_equal(play(75, true),
                        "requeue 12 0\ndisttrain: launch.requeue: cannot "
                        "requeue job 12: Operation not permitted\n");
    refusal = 0;
    refused = EBUSY;
    assert_string_equal(play(75, true),
                        "requeue 12 0\ndisttrain: launch.requeue: cannot "
                        "requeue job 12: Device or resource busy\n");
    assert_string_equal(play(75, false),
                        "disttrain: launch.requeue: srun's own allocation "
                        "cannot be requeued: use sbatch\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(status_75_and_failures_past_the_deadline_requeue,
                               setup),
        cmocka_unit_test_setup(a_job_is_requeued_if_one_rank_asks, setup),
        cmocka_unit_test_setup(
            a_crash_that_the_console_has_seen_requeues_the_job, setup),
        cmocka_unit_test_setup(the_status_of_keepers_is_that_of_srun, setup),
        cmocka_unit_test_setup(an_array_task_is_requeued_by_its_id, setup),
        cmocka_unit_test_setup(a_cancelled_job_is_not_requeued, setup),
        cmocka_unit_test_setup(a_fourth_quick_requeue_is_refused, setup),
        cmocka_unit_test_setup(a_refused_requeue_says_why, setup),
    };
    return cmocka_run_group_tests_name("spank_requeue", tests, NULL, NULL);
}
