/* SPDX-License-Identifier: Apache-2.0 */
/* test_await.c - how long the console waits for keepers to go on, and srun for
 * the console
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/net.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/contract.h"

/* By so much the clocks of this process and its children are ahead. */
static _Atomic time_t *turned_s;

/* In place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec += turned_s ? *turned_s : 0;
    return rc;
}

/* A console below a process that takes the place of srun. */
static struct {
    pid_t srun;
    int err, facts; /* what srun prints; and what the console knows of it */
    int shown;      /* what the user sees */
    char said[4096];
} console;

static void run_console(int facts, int out, int err, int shown)
{
    int from[2] = {fcntl(out, F_DUPFD, 20), fcntl(err, F_DUPFD, 20)};
    if (dup2(facts, STDIN_FILENO) < 0 || dup2(shown, STDERR_FILENO) < 0 ||
        dup2(from[0], DT_CONSOLE_OUT_FD) < 0 ||
        dup2(from[1], DT_CONSOLE_ERR_FD) < 0)
        _exit(1);
    close_range(5, UINT_MAX, 0);
    _exit(dt_console_run(stdin));
}

static void start_console(void)
{
    static const char facts[] =
        DT_CONSOLE_VERSION_LINE "\n" DT_CONSOLE_LABELS "none\n" DT_CONSOLE_STEP
                                "42.7\n" DT_CONSOLE_TASKS "1\n" DT_CONSOLE_TOKEN
                                "0af9\n" DT_CONSOLE_KEEPERS "c3d4\n";
    int out[2], err[2], shown[2];
    *turned_s = 0;
    console.said[0] = '\0';
    console.facts = memfd_create("facts", 0);
    assert_int_equal(pipe(out) | pipe(err) | pipe(shown), 0);
    assert_int_equal(write(console.facts, facts, sizeof(facts) - 1),
                     sizeof(facts) - 1);
    assert_int_equal(lseek(console.facts, 0, SEEK_SET), 0);
    fflush(NULL);
    console.srun = fork();
    if (console.srun == 0) {
        setpgid(0, 0);
        signal(SIGTERM, SIG_DFL);
        if (fork() == 0)
            run_console(console.facts, out[0], err[0], shown[1]);
        close_range(STDERR_FILENO + 1, UINT_MAX, 0);
        for (;;)
            pause();
    }
    setpgid(console.srun, console.srun);
    console.err = err[1];
    console.shown = shown[0];
    close(out[0]);
    close(out[1]);
    close(err[0]);
    close(shown[1]);
}

static void end_console(void)
{
    kill(-console.srun, SIGKILL);
    waitpid(console.srun, NULL, 0);
    close(console.err);
    close(console.shown);
    close(console.facts);
}

static void print(const char *line)
{
    assert_int_equal(write(console.err, line, strlen(line)), strlen(line));
}

static void await(const char *text)
{
    for (size_t used = strlen(console.said); !strstr(console.said, text);) {
        const ssize_t n = read(console.shown, console.said + used,
                               sizeof(console.said) - 1 - used);
        assert_true(n > 0);
        used += (size_t)n;
        console.said[used] = '\0';
    }
}

/* The console has read this line, and done what was due then. */
static void pass(const char *line)
{
    static int count;
    char text[32];
    print(line);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "line %d\n", ++count);
        print(text);
        await(text);
    }
}

static bool has_given_up(void)
{
    pass("");
    return strstr(console.said, "all keepers that could be heard have left");
}

#define LEAVES DT_RECORD "c3d4 leaves 1 60\n"

static void each_keeper_that_leaves_begins_the_wait_anew(void **state)
{
    int status;
    char facts[512] = "";
    (void)state;
    start_console();
    pass(LEAVES);
    *turned_s = 59;
    assert_false(has_given_up());
    pass(LEAVES);
    *turned_s = 59 + 59;
    assert_false(has_given_up());
    *turned_s = 59 + 61;
    print("last\n");
    await("disttrain: all keepers that could be heard have left the step, and "
          "for 60 s no others have gone on: it ends\n");
    assert_int_equal(waitpid(console.srun, &status, 0), console.srun);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_true(pread(console.facts, facts, sizeof(facts) - 1, 0) > 0);
    assert_non_null(strstr(facts, DT_CONSOLE_VERDICT "69\n"));
    end_console();
}

/* Slurm has found the lost nodes down, and so srun ends with a status of its
 * own.
 */
static void a_step_that_all_have_left_has_the_status_of_lost_nodes(void **state)
{
    char facts[512] = "";
    ssize_t n;
    (void)state;
    start_console();
    pass(LEAVES);
    close(console.err); /* srun's end */
    do
        n = read(console.shown, console.said, sizeof(console.said) - 1);
    while (n > 0);
    console.err = dup(console.shown);
    assert_true(pread(console.facts, facts, sizeof(facts) - 1, 0) > 0);
    assert_non_null(strstr(facts, DT_CONSOLE_VERDICT "69\n"));
    end_console();
}

/* They have twelve outages of the network, which may be longer. */
static void keepers_say_how_long_others_may_take(void **state)
{
    (void)state;
    start_console();
    pass(DT_RECORD "c3d4 leaves 1 720\n");
    *turned_s = 719;
    assert_false(has_given_up());
    *turned_s = 721;
    print("last\n");
    await("and for 720 s no others have gone on: it ends\n");
    end_console();
}

static void nobody_waits_once_others_have_gone_on(void **state)
{
    static const char *const after[] = {DT_RECORD "c3d4 epoch 2\n",
                                        DT_RECORD "c3d4 verdict 0 1\n",
                                        DT_RECORD "c3d4 verdict 69 0\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(after) / sizeof(*after); i++) {
        start_console();
        pass(DT_RECORD "c3d4 epoch 1\n");
        pass(LEAVES);
        *turned_s = 30;
        pass(after[i]);
        *turned_s = 1000;
        assert_false(has_given_up());
        end_console();
    }
}

/* Its tasks end by themselves. */
static void srun_is_told_the_verdict_and_not_ended_where_no_node_is_lost(
    void **state)
{
    char facts[512] = "";
    (void)state;
    start_console();
    pass(DT_RECORD "c3d4 epoch 1\n");
    pass(DT_RECORD "c3d4 verdict 3 0\n");
    pass(DT_RECORD "c3d4 verdict 4 0\n"); /* the first one stays */
    *turned_s = 1000;
    pass("");
    assert_int_equal(waitpid(console.srun, NULL, WNOHANG), 0);
    assert_true(pread(console.facts, facts, sizeof(facts) - 1, 0) > 0);
    assert_non_null(strstr(facts, DT_CONSOLE_VERDICT "3\n"));
    assert_null(strstr(facts, DT_CONSOLE_VERDICT "4"));
    end_console();
}

/* It may be all that srun waits for. */
static void the_keeper_that_waits_is_answered_before_srun_is_ended(void **state)
{
    char line[64];
    unsigned port = 0;
    (void)state;
    int listener = dt_net_listen(NULL, &port, NULL);
    assert_true(listener >= 0);
    struct pollfd connection = {listener, POLLIN, 0};
    start_console();
    pass(DT_RECORD "c3d4 epoch 1\n");
    snprintf(line, sizeof(line), DT_RECORD "c3d4 waits 127.0.0.1 %u\n", port);
    pass(line);
    pass(DT_RECORD "c3d4 verdict 0 1\n");
    assert_int_equal(poll(&connection, 1, 0), 0);
    *turned_s = 1.1; /* what is on its way has come */
    pass("");
    assert_int_equal(poll(&connection, 1, 30000), 1);
    assert_int_equal(waitpid(console.srun, NULL, WNOHANG), 0);
    *turned_s = 2.2;
    pass("");
    assert_int_equal(waitpid(console.srun, NULL, 0), console.srun);
    close(listener);
    end_console();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_keeper_that_leaves_begins_the_wait_anew),
        cmocka_unit_test(
            a_step_that_all_have_left_has_the_status_of_lost_nodes),
        cmocka_unit_test(keepers_say_how_long_others_may_take),
        cmocka_unit_test(nobody_waits_once_others_have_gone_on),
        cmocka_unit_test(
            srun_is_told_the_verdict_and_not_ended_where_no_node_is_lost),
        cmocka_unit_test(
            the_keeper_that_waits_is_answered_before_srun_is_ended),
    };
    turned_s = mmap(NULL, sizeof(*turned_s), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return turned_s == MAP_FAILED
               ? 1
               : cmocka_run_group_tests_name("await", tests, NULL, NULL);
}
