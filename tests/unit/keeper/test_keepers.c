/* SPDX-License-Identifier: Apache-2.0 */
/* test_keepers.c - keepers of scripts, and scripts and keepers that are lost */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/unit/count.h"
#include "tests/unit/keeper/keeper_scene.h"

enum { EXIT_UNIT = 1 << 8, UNAVAILABLE = EX_UNAVAILABLE << 8 };

static struct scene scene;

static void run(int size, const char *script)
{
    scene_open(&scene, size, script);
    scene_start(&scene);
    scene_end(&scene);
}

static void has(const char *text, size_t count)
{
    if (count_of(scene.text, text) != count)
        fail_msg("not %zu times '%s' in: %s", count, text, scene.text);
}

static void expect_all(int status)
{
    for (int i = 0; i < scene.started; i++)
        scene_expect(&scene, i, status);
}

static void programs_that_end_well_end_the_step(void **state)
{
    (void)state;
    run(4, "echo life $LIFE of $TORCHELASTIC_MAX_RESTARTS, port $MASTER_PORT; "
           "ls -l /proc/self/fd; exit 0");
    expect_all(0);
    has("life 0 of 3, port ", 4);
    has("socket:", 0);
    has("/memfd:", 0);
    has("signalfd", 0);
    run(1, "exit 75");
    expect_all(75 << 8);
}

static void all_start_again_when_one_fails(void **state)
{
    (void)state;
    run(3,
        "echo life $LIFE port $MASTER_PORT. | tee -a $W/all\n"
        "until [ $(grep -c \"life $LIFE\" $W/all) = 3 ]; do sleep 0.02; done\n"
        "case $LIFE$R in\n"
        "01) kill -9 $$ ;;\n"
        "12) exit 3 ;;\n"
        "2*) exit 0 ;;\n"
        "esac\n"
        "sleep 1000");
    expect_all(0);
    has("rank 1 on ", 1);
    has(" was killed by signal 9 (Killed): all ranks start again (restart 1 of "
        "at most 3)\n",
        1);
    has(" has ended with status 3: all ranks start again (restart 2 of at most "
        "3)\n",
        1);
    for (int life = 0; life < 3; life++) {
        char text[32];
        snprintf(text, sizeof(text), "life %d port ", life);
        has(text, 3);
        const char *own = strstr(scene.text, text) + strlen(text);
        snprintf(text, sizeof(text), "life %d port %.*s.\n", life,
                 (int)strcspn(own, "."), own);
        has(text, 3); /* one port for all */
        assert_int_not_equal(atoi(own), atoi(scene.port));
    }
}

/* So a program that loads its checkpoint when the count is not 0 does so in a
 * job that was requeued, and in a step that was restarted.
 */
static void restarts_before_the_step_count_as_well(void **state)
{
    (void)state;
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    run(2, "echo life $LIFE of $TORCHELASTIC_MAX_RESTARTS. | tee -a $W/later\n"
           "until [ $(grep -c \"life $LIFE\" $W/later) = 2 ]\n"
           "do sleep 0.02; done\n"
           "[ $LIFE != 2 ] || exit 3");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    expect_all(0);
    has("life 2 of 5.\n", 2);
    has("life 3 of 5.\n", 2);
    has("(restart 1 of at most 3)\n", 1);
}

static void each_task_ends_as_its_worker_does_when_no_try_is_left(void **state)
{
    (void)state;
    run(3, "[ $R = 1 ] && kill -SEGV $$; sleep 1000");
    scene_expect(&scene, 1, SIGSEGV);
    scene_expect(&scene, 0, UNAVAILABLE);
    scene_expect(&scene, 2, UNAVAILABLE);
    has("start again", 3);
    has("(Segmentation fault): the allowed restarts are used up\n", 1);
    run(3, "[ $R = 2 ] && exit 3; sleep 1000");
    expect_all(3 * EXIT_UNIT);
    run(2, "[ $R = 0 ] && kill -9 $$; sleep 1000");
    scene_expect(&scene, 0, SIGKILL);
    scene_expect(&scene, 1, UNAVAILABLE);
    /* no try changes that there is no program */
    scene_open(&scene, 2, "");
    scene.argv[0] = "/no/such/program";
    scene_start(&scene);
    scene_end(&scene);
    expect_all(127 * EXIT_UNIT);
    has("start again", 0);
    assert_non_null(strstr(scene.text,
                           "disttrain: cannot run /no/such/program: "
                           "No such file or directory\n"));
}

/* Also those that no process of the worker has as its child any more. */
static void processes_of_a_worker_end_with_it(void **state)
{
    (void)state;
    run(2, "if [ $LIFE = 0 ]; then\n"
           "  sleep 1001 & echo $! >>$W/left$R\n"
           "  setsid sh -c 'sleep 1002 & echo $! >>$W/left$R; sleep 9' &\n"
           "  echo $! >>$W/left$R\n"
           "  until [ $(cat $W/left? | wc -l) = 6 ]; do sleep 0.02; done\n"
           "  [ $R = 1 ] && exit 1\n"
           "  sleep 1000\n"
           "fi\n"
           "for p in $(cat $W/left$R); do kill -0 $p && echo $p lives; done\n"
           "sleep 1004 & setsid sleep 1005 &\n"
           "echo checked");
    expect_all(0);
    has(" lives", 0);
    has("checked", 2);
}

static void who_is_told_to_end_is_not_started_again(void **state)
{
    (void)state;
    scene_open(&scene, 2,
               "trap 'echo saved; exit 75' TERM; echo ready\n"
               "while :; do sleep 0.05; done");
    scene_start(&scene);
    scene_await(&scene, "ready", 2);
    scene_signal(&scene, SIGTERM);
    scene_end(&scene);
    has("saved", 2);
    has("start again", 0);
    expect_all(75 * EXIT_UNIT);
    /* a program that knows no better is killed by the signal */
    scene_open(&scene, 2, "echo ready; exec sleep 1000");
    scene_start(&scene);
    scene_await(&scene, "ready", 2);
    scene_signal(&scene, SIGINT);
    scene_end(&scene);
    has("start again", 0);
    assert_true(scene.statuses[0] == SIGINT || scene.statuses[1] == SIGINT);
}

/* A signal that a program takes for something else is no request to end. */
static void who_goes_on_after_a_signal_is_started_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const int signal = (int[]){SIGUSR1, SIGUSR2, SIGHUP}[i];
        scene_open(&scene, 2,
                   "trap 'echo saved' USR1 USR2 HUP; rm -f $W/fails$R\n"
                   "[ $LIFE = 1 ] && exit 0; echo ready\n"
                   "until [ -e $W/fails$R ]; do sleep 0.02; done; exit 1");
        scene_start(&scene);
        scene_await(&scene, "ready", 2);
        scene_signal(&scene, signal);
        scene_await(&scene, "saved", 2);
        scratch_write("fails1", "", 0);
        scene_end(&scene);
        has("start again", 1);
        expect_all(0);
    }
    /* a program that knows no better is killed by it */
    scene_open(&scene, 2, "echo ready; exec sleep 1000");
    scene_start(&scene);
    scene_await(&scene, "ready", 2);
    scene_signal(&scene, SIGUSR1);
    scene_end(&scene);
    has("start again", 0);
}

static void who_is_told_to_end_while_others_are_missing_ends(void **state)
{
    sigset_t set, before;
    (void)state;
    scene_open(&scene, 3, "echo started");
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before); /* it may come early */
    scene_start_rank(&scene, 0);
    scene_start_rank(&scene, 1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    scene_signal(&scene, SIGTERM);
    scene_end(&scene);
    expect_all(EX_TEMPFAIL << 8);
    has("started", 0);
}

static void a_worker_that_ignores_the_end_is_killed(void **state)
{
    (void)state;
    run(2, "trap '' TERM\n"
           "echo $LIFE >>$W/ignores\n"
           "until [ $(wc -l <$W/ignores) -ge 2 ]; do sleep 0.02; done\n"
           "[ $LIFE = 1 ] && exit 0\n"
           "[ $R = 0 ] && exit 1\n"
           "while :; do sleep 0.05; done");
    expect_all(0);
    has("start again", 1);
}

/* They see it by the end of its connection: a beat takes an hour here. */
static void a_lost_keeper_ends_the_others(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        scene_open(&scene, 3, "echo ready; exec sleep 1000");
        scene.options.beat_ms = 3600 * 1000;
        scene.options.outage_s = 15 * 3600;
        scene_start(&scene);
        scene_await(&scene, "ready", 3);
        assert_int_equal(kill(scene.pids[lost], SIGKILL), 0);
        for (int i = 0; i < 3; i++)
            scene_join(&scene, i);
        for (int i = 0; i < 3; i++)
            scene_expect(&scene, i, i == lost ? SIGKILL : UNAVAILABLE);
        scene_read(&scene);
        has("disttrain: lost the keeper of rank 1 on ", lost == 1);
        while (waitpid(-1, NULL, 0) > 0) /* its worker dies with it */
            ;
    }
}

static void a_keeper_that_is_not_heard_is_lost(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        scene_open(&scene, 3, "echo ready; exec sleep 1000");
        scene.options.beat_ms = 50;
        scene.options.outage_s = 0.75;
        scene_start(&scene);
        scene_await(&scene, "ready", 3);
        assert_int_equal(kill(scene.pids[lost], SIGSTOP), 0);
        scene_join(&scene, 2);
        scene_expect(&scene, 2, UNAVAILABLE);
        assert_int_equal(kill(scene.pids[lost], SIGCONT), 0);
        scene.pids[2] = 0;
        scene_end(&scene);
        scene_expect(&scene, lost, UNAVAILABLE);
        has(": it was not heard for 0.75 s; ", lost == 1);
    }
}

static void an_outage_that_the_user_allows_ends_nothing(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        scene_open(&scene, 3,
                   "echo ready\n"
                   "until [ -e $W/heard$LIFE ]; do sleep 0.05; done");
        scene.options.beat_ms = 50;
        scene.options.outage_s = 30;
        scene_start(&scene);
        scene_await(&scene, "ready", 3);
        assert_int_equal(kill(scene.pids[silent], SIGSTOP), 0);
        dt_clock_sleep(2); /* 40 beats */
        assert_int_equal(kill(scene.pids[silent], SIGCONT), 0);
        scratch_write("heard0", "", 0);
        scene_end(&scene);
        assert_int_equal(remove(scratch_path("heard0")), 0);
        expect_all(0);
    }
}

/* As by scontrol suspend: the time in which nobody runs counts for nobody. */
static void a_step_that_was_suspended_goes_on(void **state)
{
    (void)state;
    scene_open(&scene, 3,
               "echo ready\n"
               "until [ -e $W/resumed ]; do sleep 0.05; done");
    scene.options.beat_ms = 50;
    scene.options.outage_s = 0.75;
    scene_start(&scene);
    scene_await(&scene, "ready", 3);
    scene_signal(&scene, SIGSTOP);
    dt_clock_sleep(1); /* longer than an outage */
    scene_signal(&scene, SIGCONT);
    dt_clock_sleep(0.2);
    scratch_write("resumed", "", 0);
    scene_end(&scene);
    expect_all(0);
}

static void keepers_that_do_not_come_are_named(void **state)
{
    (void)state;
    scene_open(&scene, 4, "echo started");
    scene.options.timeout_ms = 300;
    scene_start_rank(&scene, 0);
    scene_start_rank(&scene, 2);
    scene_end(&scene);
    expect_all(UNAVAILABLE);
    has("disttrain: not all keepers arrived within 300 ms; missing: task 1, "
        "task 3\n",
        1);
    has("started", 0);
}

static void a_rank_has_one_keeper(void **state)
{
    (void)state;
    scene_open(&scene, 2,
               "echo ready; until [ -e $W/second ]; do sleep 0.05; "
               "done");
    scene_start(&scene);
    scene_await(&scene, "ready", 2);
    scene_start_rank(&scene, 1);
    scene_join(&scene, 2);
    scene_expect(&scene, 2, UNAVAILABLE);
    scratch_write("second", "", 0);
    scene.started = 2;
    scene_end(&scene);
    expect_all(0);
    has("ready", 2);
    has("lost", 0);
}

/* The leader raises its own limit of open files, and not that of its worker. */
static void a_low_limit_of_open_files_is_enough(void **state)
{
    struct rlimit before, low;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){(rlim_t)scene_count_files() + 16, before.rlim_max};
    scene_open(&scene, 2,
               "grep 'open files' /proc/$PPID/limits\n"
               "echo limit $(ulimit -n).");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    scene_start(&scene);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    scene_end(&scene);
    expect_all(0);
    char text[32];
    snprintf(text, sizeof(text), "limit %llu.",
             (unsigned long long)low.rlim_cur);
    has(text, 2);
    int most = 0, one;
    for (const char *at = scene.text; (at = strstr(at, "Max open")); at++)
        if (sscanf(at, "Max open files %d", &one) == 1 && one > most)
            most = one;
    assert_true(most > 256);
}

static void a_process_outside_of_a_step_cannot_keep(void **state)
{
    static const char *const names[] = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NODEID", "MASTER_PORT"};
    const char *why;
    (void)state;
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        setenv(names[i], "1", 1);
    assert_true(dt_keeper_possible("s", &why));
    assert_false(dt_keeper_possible(NULL, &why));
    assert_string_equal(why, "a step of srun with disttrain's plugin");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        setenv(names[i], "x", 1);
        assert_false(dt_keeper_possible("s", &why));
        assert_string_equal(why, names[i]);
        setenv(names[i], "1", 1);
    }
    unsetenv("MASTER_ADDR");
    assert_false(dt_keeper_possible("s", &why));
    assert_string_equal(why, "MASTER_ADDR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_that_end_well_end_the_step),
        cmocka_unit_test(all_start_again_when_one_fails),
        cmocka_unit_test(restarts_before_the_step_count_as_well),
        cmocka_unit_test(each_task_ends_as_its_worker_does_when_no_try_is_left),
        cmocka_unit_test(processes_of_a_worker_end_with_it),
        cmocka_unit_test(who_is_told_to_end_is_not_started_again),
        cmocka_unit_test(who_goes_on_after_a_signal_is_started_again),
        cmocka_unit_test(who_is_told_to_end_while_others_are_missing_ends),
        cmocka_unit_test(a_worker_that_ignores_the_end_is_killed),
        cmocka_unit_test(a_lost_keeper_ends_the_others),
        cmocka_unit_test(a_keeper_that_is_not_heard_is_lost),
        cmocka_unit_test(an_outage_that_the_user_allows_ends_nothing),
        cmocka_unit_test(a_step_that_was_suspended_goes_on),
        cmocka_unit_test(keepers_that_do_not_come_are_named),
        cmocka_unit_test(a_rank_has_one_keeper),
        cmocka_unit_test(a_low_limit_of_open_files_is_enough),
        cmocka_unit_test(a_process_outside_of_a_step_cannot_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
