/* SPDX-License-Identifier: Apache-2.0 */
/* test_owner.c - one run in a directory, whoever came before and how it ended
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "run/dir/owner.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "contract/contract.h"
#include "tests/unit/scratch.h"

enum {
    SHORT = 20,      /* ms: a beat that soon says that another has ended */
    LONG = 10000000, /* a beat that no test could wait for */
};

static char dir[300], path[320];
static struct dt_error err;

static int fresh(void **state)
{
    static int number;
    (void)state;
    snprintf(dir, sizeof(dir), "%s-%d", scratch_path("out"), number++);
    snprintf(path, sizeof(path), "%s/.owner", dir);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
    unsetenv("SLURM_RESTART_COUNT");
    unsetenv("SLURM_CLUSTER_NAME");
    unsetenv(DT_ENV_LAUNCH);
    unsetenv(DT_EPOCH_ENV);
    return 0;
}

static bool exists(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static struct dt_owner *must_take(int beat_ms)
{
    struct dt_owner *owner = dt_owner_take(dir, beat_ms, NULL, &err);
    if (!owner)
        fail_msg("%s", err.text);
    return owner;
}

/* The file of a run that has the directory, with one line replaced. */
static char *record_with(const char *key, const char *value)
{
    static char record[2048];
    struct dt_owner *owner = must_take(LONG);
    char *text = dt_file_read(path, sizeof(record), &err);
    assert_non_null(text);
    dt_owner_release(owner);
    char line[32];
    snprintf(line, sizeof(line), "\n%s ", key);
    char *at = strstr(text, line);
    assert_non_null(at);
    snprintf(record, sizeof(record), "%.*s%s%s%s", (int)(at - text), text, line,
             value, strchr(at + 1, '\n'));
    free(text);
    return record;
}

static const char *ended_pid(void)
{
    static char text[16];
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    snprintf(text, sizeof(text), "%d", (int)pid);
    return text;
}

static void a_directory_of_another_run_is_refused(void **state)
{
    (void)state;
    char text[700], host[256];
    struct dt_owner *first = must_take(LONG);
    assert_true(exists(path));
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    gethostname(host, sizeof(host));
    snprintf(text, sizeof(text),
             "%s: another run writes to this directory: process %d on %s, "
             "since 20",
             dir, (int)getpid(), host);
    assert_memory_equal(err.text, text, strlen(text));
    assert_non_null(strstr(err.text, "; wait until it ends, or name another "
                                     "run.output_dir"));
    assert_true(dt_owner_holds(first));
    assert_int_equal(dt_owner_check(first, &err), 0);
    dt_owner_release(first);
    assert_false(exists(path));
    dt_owner_release(must_take(LONG));
    dt_owner_release(NULL);
}

/* Its launcher may be gone, so that nobody waits for it. */
static void a_process_that_is_about_to_end_is_replaced(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        must_take(LONG);
        dt_clock_sleep(0.2);
        kill(getpid(), SIGKILL);
    }
    while (!exists(path))
        dt_clock_sleep(0.01);
    dt_owner_release(must_take(LONG));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void the_refusal_names_the_job_to_cancel(void **state)
{
    (void)state;
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_STEP_ID", "3", 1);
    setenv("SLURM_CLUSTER_NAME", "big", 1);
    struct dt_owner *first = must_take(LONG);
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    assert_non_null(strstr(err.text, "directory: job 12, step 3, process "));
    assert_non_null(strstr(err.text, "; wait until it ends or cancel it "
                                     "(scancel 12), or name another"));
    dt_owner_release(first);
    setenv("SLURM_ARRAY_JOB_ID", "12", 1); /* of which it is the last job */
    setenv("SLURM_ARRAY_TASK_ID", "7", 1);
    first = must_take(LONG);
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    assert_non_null(strstr(err.text, "(scancel 12_7), or name another"));
    dt_owner_release(first);
    unsetenv("SLURM_ARRAY_JOB_ID");
}

/* --- one that has ended --- */

static void the_directory_of_an_ended_process_is_free(void **state)
{
    (void)state;
    put(path, record_with("pid", ended_pid()));
    dt_owner_release(must_take(LONG));
    /* another process has its number now */
    put(path, record_with("start", "1"));
    dt_owner_release(must_take(LONG));
    assert_false(exists(path));
}

static void a_requeued_job_takes_its_directory_back(void **state)
{
    (void)state;
    char *record;
    setenv("SLURM_JOB_ID", "12", 1);
    record = record_with("boot", "another");
    put(path, record);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    dt_owner_release(must_take(LONG));
}

static void a_silent_owner_is_replaced(void **state)
{
    (void)state;
    put(path, record_with("boot", "another"));
    dt_owner_release(must_take(SHORT));
    put(path, record_with("space", "another"));
    dt_owner_release(must_take(SHORT));
    put(path, ""); /* ended before it could write */
    dt_owner_release(must_take(SHORT));
    put(path, "what is this\n");
    dt_owner_release(must_take(SHORT));
}

static bool told(void)
{
    return true;
}

static void a_signal_ends_the_wait_for_another_run(void **state)
{
    (void)state;
    put(path, record_with("boot", "another"));
    assert_null(dt_owner_take(dir, LONG, told, &err));
    assert_int_equal(err.status, EX_TEMPFAIL);
    assert_string_equal(err.text, "stopped by a signal before the first step");
    put(path, "what is this\n");
    assert_null(dt_owner_take(dir, LONG, told, &err));
    assert_int_equal(err.status, EX_TEMPFAIL);
}

/* --- what cannot be read --- */

static void must_refuse(const char *why)
{
    char text[700];
    snprintf(text, sizeof(text),
             "%s: cannot tell whether another run writes to this directory: "
             "%s; if none does, remove it",
             path, why);
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_string_equal(err.text, text);
}

static void what_is_no_regular_file_is_refused_at_once(void **state)
{
    (void)state;
    assert_int_equal(dt_file_mkdirs(path, &err), 0);
    must_refuse("expected a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    must_refuse("expected a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    must_refuse("expected a regular file");
}

/* It says nothing about the run that wrote it, which may be alive. */
static void an_unreadable_file_is_refused_at_once(void **state)
{
    (void)state;
    const bool root = geteuid() == 0;
    put(path, record_with("boot", "another"));
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(scratch_path("."), 0755), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    must_refuse("Permission denied");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_true(exists(path));
}

static void other_users_can_read_who_owns_a_directory(void **state)
{
    (void)state;
    struct stat st;
    mode_t before = umask(077);
    struct dt_owner *owner = must_take(LONG);
    umask(before);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    dt_owner_release(owner);
}

static atomic_bool done;

static void *touch(void *arg)
{
    (void)arg;
    while (!done) {
        utimensat(AT_FDCWD, path, NULL, 0);
        dt_clock_sleep(0.01);
    }
    return NULL;
}

static void an_owner_alive_on_another_node_is_respected(void **state)
{
    (void)state;
    pthread_t thread;
    setenv("SLURM_JOB_ID", "12", 1);
    put(path, record_with("boot", "another"));
    setenv("SLURM_JOB_ID", "13", 1);
    done = false;
    assert_int_equal(pthread_create(&thread, NULL, touch, NULL), 0);
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    done = true;
    pthread_join(thread, NULL);
    assert_non_null(
        strstr(err.text, "this directory: job 12, step -, process"));
}

/* --- steps of one loop --- */

/* Leaves the file of a step of job 12 on another node, touched so many beats
 * ago, and becomes the next step.
 */
static void between_steps(const char *before, const char *next, double beats)
{
    struct timespec times[2] = {{.tv_sec = time(NULL)}, {.tv_sec = time(NULL)}};
    times[1].tv_sec -= (time_t)(beats * LONG / 1e3);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv(DT_ENV_LAUNCH, before, 1);
    put(path, record_with("boot", "another"));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    setenv(DT_ENV_LAUNCH, next, 1);
}

static void the_next_step_of_a_loop_takes_over_at_once(void **state)
{
    (void)state;
    between_steps("4f.9", "4f.10", 1.51);
    dt_owner_release(must_take(LONG));
}

static void what_may_be_another_step_is_watched(void **state)
{
    static const struct {
        const char *before, *next;
        double beats;
    } cases[] = {
        {"4f.0", "4f.1", 1.49}, /* touched too lately */
        {"4f.1", "4f.1", 9},    /* two steps at a time */
        {"4f.2", "4f.1", 9},    /* an older one that has been slow */
        {"4f.0", "4e.1", 9},    /* another loop in the same job */
        {"4f.0", "-", 9},       /* without a loop */
        {"-", "4f.1", 9},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        between_steps(cases[i].before, cases[i].next, cases[i].beats);
        assert_null(dt_owner_take(dir, LONG, told, &err));
        assert_int_equal(err.status, EX_TEMPFAIL);
        unlink(path);
    }
    between_steps("4f.0", "4f.1", 9);
    setenv("SLURM_JOB_ID", "13", 1);
    assert_null(dt_owner_take(dir, LONG, told, &err));
    assert_int_equal(err.status, EX_TEMPFAIL);
}

/* Without a look at how long ago it was touched. */
static void the_next_epoch_of_a_step_takes_over_at_once(void **state)
{
    char made[512];
    (void)state;
    setenv("SLURM_JOB_ID", "12", 1);
    setenv(DT_EPOCH_ENV, "00000000000000ab 9", 1);
    put(path, record_with("boot", "another"));
    setenv(DT_EPOCH_ENV, "00000000000000ab 10", 1);
    struct dt_owner *owner = must_take(LONG);
    assert_true(dt_owner_holds(owner));
    assert_int_equal(dt_owner_check(owner, &err), 0);
    /* which writes nothing when it is over itself */
    snprintf(made, sizeof(made), "%s/" DT_EPOCH_DIR, dir);
    assert_int_equal(mkdir(made, 0755), 0);
    snprintf(made, sizeof(made), "%s/" DT_EPOCH_DIR "/00000000000000ab-11",
             dir);
    put(made, "");
    assert_false(dt_owner_holds(owner));
    assert_int_equal(dt_owner_check(owner, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    assert_non_null(strstr(err.text, ": other nodes of this step have decided "
                                     "without this one"));
    dt_owner_release(owner);
    /* those of an epoch that is over, and of other steps, have to wait */
    put(path, record_with("boot", "another"));
    setenv(DT_EPOCH_ENV, "00000000000000ab 9", 1);
    assert_null(dt_owner_take(dir, LONG, told, &err));
    setenv(DT_EPOCH_ENV, "00000000000000ac 11", 1);
    assert_null(dt_owner_take(dir, LONG, told, &err));
    assert_int_equal(err.status, EX_TEMPFAIL);
}

/* As where the lost node is only cut off from us, and not from the disk. */
static void a_step_that_is_not_over_keeps_its_directory(void **state)
{
    (void)state;
    pthread_t thread;
    between_steps("4f.0", "4f.1", 1);
    done = false;
    assert_int_equal(pthread_create(&thread, NULL, touch, NULL), 0);
    assert_null(dt_owner_take(dir, LONG, NULL, &err));
    done = true;
    pthread_join(thread, NULL);
    assert_int_equal(err.status, EX_CANTCREAT);
}

static void an_owner_keeps_its_file_fresh(void **state)
{
    (void)state;
    struct stat first, now;
    struct dt_owner *owner = must_take(SHORT);
    assert_int_equal(stat(path, &first), 0);
    double end = dt_clock_now() + 30;
    do {
        dt_clock_sleep(0.01);
        assert_int_equal(stat(path, &now), 0);
    } while (memcmp(&now.st_mtim, &first.st_mtim, sizeof(now.st_mtim)) == 0 &&
             dt_clock_now() < end);
    assert_true(dt_clock_now() < end);
    dt_owner_release(owner);
}

/* One that wanted to take the place of an ended one, and ended, too. */
static void an_unfinished_claim_does_not_block_the_next(void **state)
{
    (void)state;
    char claim[400], nonce[17];
    const char *record = record_with("pid", ended_pid());
    assert_int_equal(sscanf(strstr(record, "nonce "), "nonce %16s", nonce), 1);
    snprintf(claim, sizeof(claim), "%s-after-%s", path, nonce);
    put(claim, record);
    put(path, record);
    dt_owner_release(must_take(LONG));
    assert_false(exists(claim));
}

static void a_removed_directory_is_claimed_again(void **state)
{
    (void)state;
    struct dt_owner *owner = must_take(LONG);
    assert_int_equal(dt_file_remove_tree(dir, &err), 0);
    assert_int_equal(dt_owner_check(owner, &err), 1);
    assert_true(exists(path));
    assert_int_equal(dt_owner_check(owner, &err), 0);
    /* and another run began there */
    assert_int_equal(dt_file_remove_tree(dir, &err), 0);
    struct dt_owner *other = must_take(LONG);
    assert_int_equal(dt_owner_check(owner, &err), -1);
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, ": another run writes to this directory"));
    dt_owner_release(owner);
    assert_true(exists(path)); /* it is the other's */
    dt_owner_release(other);
    assert_false(exists(path));
}

/* --- one that is stopped for a while --- */

/* A run that is stopped, and then sees the effect of `meanwhile`. Returns the
 * result of dt_owner_check, with its error in err. Its heartbeat may have
 * looked first: dt_owner_holds says either, but the result is the same.
 */
static int stop_during(void (*meanwhile)(void))
{
    int ends[2], status, result = 2;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct dt_owner *owner = dt_owner_take(dir, SHORT, NULL, &err);
        raise(SIGSTOP);
        if (owner)
            result = dt_owner_check(owner, &err);
        _exit(write(ends[1], &result, sizeof(result)) < 0 ||
              write(ends[1], &err, sizeof(err)) < 0);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    dt_clock_sleep(5 * SHORT / 1e3);
    meanwhile();
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(read(ends[0], &result, sizeof(result)), sizeof(result));
    assert_int_equal(read(ends[0], &err, sizeof(err)), sizeof(err));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    close(ends[1]);
    return result;
}

static void do_nothing(void)
{
}

static char other_record[2048];

static void take_over(void)
{
    put(path, other_record);
}

static void take_and_give_up(void)
{
    assert_int_equal(unlink(path), 0);
}

static void remove_all(void)
{
    assert_int_equal(dt_file_remove_tree(dir, &err), 0);
}

static void a_stopped_run_looks_whether_it_lost_its_directory(void **state)
{
    (void)state;
    char text[400];
    snprintf(other_record, sizeof(other_record), "%s",
             record_with("host", "elsewhere"));
    assert_int_equal(stop_during(do_nothing), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stop_during(remove_all), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stop_during(take_over), -1);
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, ": another run writes to this directory"));
    assert_non_null(strstr(err.text, " on elsewhere, since 2"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stop_during(take_and_give_up), -1);
    assert_int_equal(err.status, EX_CANTCREAT);
    snprintf(text, sizeof(text),
             "%s: while this run was stopped, another one may have written",
             dir);
    assert_memory_equal(err.text, text, strlen(text));
    assert_false(exists(path));
}

/* Whatever has become of it then. */
static void a_run_that_lost_its_directory_does_not_get_it_back(void **state)
{
    (void)state;
    snprintf(other_record, sizeof(other_record), "%s",
             record_with("host", "elsewhere"));
    struct dt_owner *owner = must_take(SHORT);
    put(path, other_record);
    while (dt_owner_holds(owner) || dt_owner_check(owner, &err) == 0)
        dt_clock_sleep(0.01);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dt_owner_check(owner, &err), -1);
    assert_non_null(strstr(err.text, " on elsewhere, since 2"));
    dt_owner_release(owner);
    assert_false(exists(path));
}

/* --- a disk that does not answer --- */

static atomic_bool silent, waits;
static double left_s; /* until the deadline of the last join */

int __wrap_utimensat(int at, const char *name, const struct timespec times[2],
                     int flags);
int __real_utimensat(int at, const char *name, const struct timespec times[2],
                     int flags);
int __wrap_pthread_clockjoin_np(pthread_t thread, void **result,
                                clockid_t clock, const struct timespec *end);
int __real_pthread_clockjoin_np(pthread_t thread, void **result,
                                clockid_t clock, const struct timespec *end);

int __wrap_utimensat(int at, const char *name, const struct timespec times[2],
                     int flags)
{
    while (silent) {
        waits = true;
        dt_clock_sleep(0.001);
    }
    return __real_utimensat(at, name, times, flags);
}

/* Waits no time for a thread that waits. */
int __wrap_pthread_clockjoin_np(pthread_t thread, void **result,
                                clockid_t clock, const struct timespec *end)
{
    struct timespec now;
    clock_gettime(clock, &now);
    left_s = (double)(end->tv_sec - now.tv_sec);
    return __real_pthread_clockjoin_np(thread, result, clock,
                                       silent ? &now : end);
}

static void a_disk_that_does_not_answer_holds_no_run_up(void **state)
{
    (void)state;
    struct dt_owner *owner = must_take(SHORT);
    silent = true;
    waits = false;
    while (!waits)
        dt_clock_sleep(0.001);
    dt_owner_release(owner);
    assert_true(left_s >= 9 && left_s <= 11);
    assert_true(exists(path));
    silent = false;
    for (int i = 0; i < 30000 && exists(path); i++)
        dt_clock_sleep(0.001);
    assert_false(exists(path));
}

static void a_path_under_a_file_is_refused(void **state)
{
    (void)state;
    char under[400];
    put(dir, "a file");
    snprintf(under, sizeof(under), "%s/out", dir);
    assert_null(dt_owner_take(under, LONG, NULL, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "ot a directory"));
}

/* --- many at once --- */

enum { RUNS = 16, TIMES = 20 };

static pthread_barrier_t barrier;
static struct dt_owner *owners[RUNS];

static void *race(void *arg)
{
    struct dt_error mine;
    pthread_barrier_wait(&barrier);
    owners[(intptr_t)arg] = dt_owner_take(dir, LONG, NULL, &mine);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void only_one_of_many_runs_gets_the_directory(void **state)
{
    (void)state;
    char record[2048];
    snprintf(record, sizeof(record), "%s", record_with("pid", ended_pid()));
    pthread_barrier_init(&barrier, NULL, RUNS);
    for (int time = 0; time < TIMES; time++) {
        pthread_t threads[RUNS];
        int winners = 0;
        if (time % 2)
            put(path, record);
        for (intptr_t i = 0; i < RUNS; i++)
            pthread_create(&threads[i], NULL, race, (void *)i);
        for (int i = 0; i < RUNS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < RUNS; i++) {
            winners += owners[i] != NULL;
            assert_true(!owners[i] || dt_owner_check(owners[i], &err) == 0);
        }
        for (int i = 0; i < RUNS; i++)
            dt_owner_release(owners[i]);
        assert_int_equal(winners, 1);
        assert_false(exists(path));
    }
    pthread_barrier_destroy(&barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_directory_of_another_run_is_refused, fresh),
        cmocka_unit_test_setup(a_process_that_is_about_to_end_is_replaced,
                               fresh),
        cmocka_unit_test_setup(the_refusal_names_the_job_to_cancel, fresh),
        cmocka_unit_test_setup(the_directory_of_an_ended_process_is_free,
                               fresh),
        cmocka_unit_test_setup(a_requeued_job_takes_its_directory_back, fresh),
        cmocka_unit_test_setup(a_silent_owner_is_replaced, fresh),
        cmocka_unit_test_setup(an_owner_alive_on_another_node_is_respected,
                               fresh),
        cmocka_unit_test_setup(a_signal_ends_the_wait_for_another_run, fresh),
        cmocka_unit_test_setup(what_is_no_regular_file_is_refused_at_once,
                               fresh),
        cmocka_unit_test_setup(an_unreadable_file_is_refused_at_once, fresh),
        cmocka_unit_test_setup(other_users_can_read_who_owns_a_directory,
                               fresh),
        cmocka_unit_test_setup(the_next_step_of_a_loop_takes_over_at_once,
                               fresh),
        cmocka_unit_test_setup(the_next_epoch_of_a_step_takes_over_at_once,
                               fresh),
        cmocka_unit_test_setup(what_may_be_another_step_is_watched, fresh),
        cmocka_unit_test_setup(a_step_that_is_not_over_keeps_its_directory,
                               fresh),
        cmocka_unit_test_setup(an_owner_keeps_its_file_fresh, fresh),
        cmocka_unit_test_setup(an_unfinished_claim_does_not_block_the_next,
                               fresh),
        cmocka_unit_test_setup(a_removed_directory_is_claimed_again, fresh),
        cmocka_unit_test_setup(
            a_stopped_run_looks_whether_it_lost_its_directory, fresh),
        cmocka_unit_test_setup(
            a_run_that_lost_its_directory_does_not_get_it_back, fresh),
        cmocka_unit_test_setup(a_disk_that_does_not_answer_holds_no_run_up,
                               fresh),
        cmocka_unit_test_setup(a_path_under_a_file_is_refused, fresh),
        cmocka_unit_test_setup(only_one_of_many_runs_gets_the_directory, fresh),
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
