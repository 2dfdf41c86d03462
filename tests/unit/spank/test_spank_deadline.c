/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_deadline.c - launch.signal is sent when, how and where it should
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <slurm/slurm.h>

#include "spank/srun/srun_impl.h"
#include "tests/unit/spank/spank_stub.h"

enum {
    JOB = 12,
    STEP = 3,
    DEADLINE_MS = 20000,
};

/* Slurm, as the module finds it. */
static struct {
    time_t end[2]; /* of the job, as answered first and after that; 0: no job */
    int asked;
    volatile int sent; /* by the controller */
} slurm;

static int answer_end(uint32_t job, time_t *end)
{
    *end = slurm.end[slurm.asked++ > 0];
    return job == JOB && *end > 0 ? 0 : -1;
}

static int answer_kill(uint32_t job, uint32_t step, uint16_t number)
{
    slurm.sent = number;
    return job == JOB && step == STEP ? 0 : -1;
}

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
int(slurm_get_end_time)(slurm_step_id_t id, time_t *end)
{
    return answer_end(id.job_id, end);
}
#else
int slurm_get_end_time(uint32_t job, time_t *end)
{
    return answer_end(job, end);
}
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
int slurm_kill_job_step(slurm_step_id_t *id, uint16_t number, uint16_t flags)
{
    (void)flags;
    return answer_kill(id->job_id, id->step_id, number);
}
#elif SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
int slurm_kill_job_step(uint32_t job, uint32_t step, uint16_t number,
                        uint16_t flags)
{
    (void)flags;
    return answer_kill(job, step, number);
}
#else
int slurm_kill_job_step(uint32_t job, uint32_t step, uint16_t number)
{
    return answer_kill(job, step, number);
}
#endif

static volatile sig_atomic_t received;

static void on_signal(int number)
{
    received = number;
}

/* Waits until *flag or a message, for a while. */
static void wait_for(const volatile int *flag)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int ms = 0; ms < DEADLINE_MS && !*flag && !stub.said[0]; ms++)
        nanosleep(&nap, NULL);
}

/* The module serves one step: one process for each case. */
static void run_case(int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stub_reset();
        signal(SIGUSR1, on_signal);
        int line = body();
        if (line != 0)
            fprintf(stderr, "%s:%d, said: %s\n", __FILE__, line, stub.said);
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition))                                                      \
            return __LINE__;                                                   \
    } while (0)

static int term_body(void)
{
    time_t start = time(NULL);
    slurm.end[0] = slurm.end[1] = start + 102;
    EXPECT(dtspank_deadline_set("15@100", 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, NULL, NULL) == 0);
    EXPECT(!dtspank_deadline_passed());
    wait_for(&slurm.sent);
    EXPECT(slurm.sent == SIGTERM);
    EXPECT(time(NULL) >= start + 2);
    EXPECT(dtspank_deadline_passed());
    return 0;
}

/* srun itself gets it, and forwards it to every component. */
static int usr1_body(void)
{
    slurm.end[0] = slurm.end[1] = time(NULL) + 99;
    EXPECT(dtspank_deadline_set("10@100", 2, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, NULL, NULL) == 0);
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int ms = 0; ms < DEADLINE_MS && !received; ms++)
        nanosleep(&nap, NULL);
    EXPECT(received == SIGUSR1);
    EXPECT(slurm.sent == 0);
    return 0;
}

static int changed_limit_body(void)
{
    time_t start = time(NULL);
    slurm.end[0] = start + 101;
    slurm.end[1] = start + 103;
    EXPECT(dtspank_deadline_set("15@100", 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, NULL, NULL) == 0);
    wait_for(&slurm.sent);
    EXPECT(slurm.sent == SIGTERM);
    EXPECT(time(NULL) >= start + 3);
    return 0;
}

/* Later Slurm answers no more. */
static int silent_body(void)
{
    const time_t start = time(NULL);
    slurm.end[0] = start + 102;
    EXPECT(dtspank_deadline_set("15@100", 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, NULL, NULL) == 0);
    wait_for(&slurm.sent);
    EXPECT(slurm.sent == SIGTERM);
    EXPECT(time(NULL) >= start + 2);
    return 0;
}

static char run_dir[] = "/tmp/disttrain-deadline-XXXXXX";

/* Writes what a trainer says that a stop takes; starts the thread, which is to
 * signal `after` seconds later at the earliest, long before `end`.
 */
static int told_body(const char *status, const char *when, long end, long after)
{
    const time_t start = time(NULL);
    EXPECT(chdir(run_dir) == 0);
    FILE *file = fopen("status.json", "w");
    EXPECT(file && fputs(status, file) > 0 && fclose(file) == 0);
    slurm.end[0] = slurm.end[1] = start + end;
    EXPECT(dtspank_deadline_set(when, 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, ".", NULL) == 0);
    wait_for(&slurm.sent);
    EXPECT(slurm.sent == SIGTERM);
    EXPECT(time(NULL) >= start + after);
    EXPECT(time(NULL) < start + DEADLINE_MS / 1000);
    return 0;
}

#define TOLD(step, stop)                                                       \
    "{\"version\":1,\"name\":\"x\",\"job\":\"" step "\",\"step_s\":1.5,"       \
    "\"stop_s\":" stop ",\"events\":[]}"

static int longer_body(void)
{
    return told_body(TOLD("12.3", "100.25"), "15@5", 103, 2);
}

static int shorter_body(void)
{
    return told_body(TOLD("12.3", "10"), "15@100 measured", 13, 2);
}

static int not_shorter_body(void)
{
    return told_body(TOLD("12.3", "10"), "15@100", 99, 0);
}

static int unknown_body(void)
{
    return told_body(TOLD("12.3", "null"), "15@100 measured", 99, 0);
}

static int of_another_step_body(void)
{
    return told_body(TOLD("12.30", "10"), "15@100 measured", 99, 0);
}

static int unbelievable_body(void)
{
    return told_body(TOLD("12.3", "1e9"), "15@100", 99, 0);
}

static int no_end_body(void)
{
    const int never = 0;
    EXPECT(dtspank_deadline_set("15@100", 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP, NULL, NULL) == 0);
    wait_for(&never);
    EXPECT(strcmp(stub.said,
                  "disttrain: launch.signal: Slurm does not say when job 12 "
                  "ends: no signal will be sent\n") == 0);
    EXPECT(!dtspank_deadline_passed());
    return 0;
}

static int no_controller_body(void)
{
    const int never = 0;
    slurm.end[0] = slurm.end[1] = time(NULL) + 99;
    EXPECT(dtspank_deadline_set("15@100", 1, NULL) == 0);
    EXPECT(dtspank_deadline_start(JOB, STEP + 1, NULL, NULL) == 0);
    wait_for(&never);
    EXPECT(strcmp(stub.said,
                  "disttrain: launch.signal: cannot send SIGTERM\n") == 0);
    return 0;
}

static void the_signal_is_sent_at_its_deadline(void **state)
{
    (void)state;
    run_case(term_body);
    run_case(usr1_body);
    run_case(changed_limit_body);
    run_case(silent_body);
}

static void a_run_that_measures_its_saves_is_told_in_time(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(run_dir));
    run_case(longer_body);
    run_case(shorter_body);
    run_case(not_shorter_body);
    run_case(unknown_body);
    run_case(of_another_step_body);
    run_case(unbelievable_body);
    assert_int_equal(chdir(run_dir), 0);
    assert_int_equal(unlink("status.json"), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(run_dir), 0);
}

static void a_signal_that_cannot_be_sent_is_told(void **state)
{
    (void)state;
    run_case(no_end_body);
    run_case(no_controller_body);
}

static void a_wrong_signal_setting_is_refused(void **state)
{
    static const char *const texts[] = {
        "", "10", "10@", "@10", "x@10", "10@1x", "999@1", "USR1@10", "10@1 x"};
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char want[128];
        snprintf(want, sizeof(want),
                 "launch.signal: expected NUMBER@SECONDS, got \"%s\"",
                 texts[i]);
        assert_int_equal(dtspank_deadline_set(texts[i], 1, &err), -1);
        assert_string_equal(err.text, want);
    }
    assert_int_equal(dtspank_deadline_set("15@9", 2, &err), -1);
    assert_string_equal(err.text,
                        "launch.signal: in a heterogeneous job only USR1 and "
                        "USR2 reach every rank, not SIGTERM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signal_is_sent_at_its_deadline),
        cmocka_unit_test(a_run_that_measures_its_saves_is_told_in_time),
        cmocka_unit_test(a_signal_that_cannot_be_sent_is_told),
        cmocka_unit_test(a_wrong_signal_setting_is_refused),
    };
    return cmocka_run_group_tests_name("spank_deadline", tests, NULL, NULL);
}
