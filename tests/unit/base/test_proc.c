/* SPDX-License-Identifier: Apache-2.0 */
/* test_proc.c - processes below /proc, real ones and made up ones */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"

static char dir[] = "/tmp/dt-test-XXXXXX";

static int make_dir(void **state)
{
    char path[64];
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/proc", dir);
    return mkdir(path, 0777);
}

static int remove_dir(void **state)
{
    (void)state;
    return dt_file_remove_tree(dir, NULL);
}

static void put_process(const char *pid, const char *stat)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/proc/%s", dir, pid);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/proc/%s/stat", dir, pid);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(stat, file);
    assert_int_equal(fclose(file), 0);
}

static void a_process_is_read_whatever_its_name(void **state)
{
    struct dt_proc_stat stat;
    (void)state;
    put_process("41", "41 (a (b) c\nd) R) D 7 41 41 34816 41 4194304 1 2 3 4 "
                      "60 9 5 6 20 0 3 0 123456789012 1 2\n");
    assert_true(dt_proc_stat(&stat, dir, 41));
    assert_string_equal(stat.name, "a (b) c\nd) R");
    assert_int_equal(stat.state, 'D');
    assert_int_equal(stat.parent, 7);
    assert_int_equal(stat.terminal, 34816);
    assert_int_equal(stat.cpu_ticks, 69);
    assert_int_equal(stat.start_ticks, 123456789012);
    assert_int_equal(stat.threads, 3);

    assert_true(dt_proc_stat(&stat, "", getpid()));
    assert_int_equal(stat.parent, getppid());
    assert_true(stat.start_ticks > 0);
}

static void a_process_that_has_gone_has_no_stat(void **state)
{
    static const char *const broken[] = {"", "42 (a", "42 (a) S 7 42 42 0"};
    struct dt_proc_stat stat;
    (void)state;
    for (int i = 0; i < 3; i++) {
        char pid[8];
        snprintf(pid, sizeof(pid), "%d", 42 + i);
        put_process(pid, broken[i]);
        assert_false(dt_proc_stat(&stat, dir, 42 + i));
        assert_string_equal(stat.name, "");
        assert_int_equal(stat.state + stat.parent + stat.terminal, 0);
    }
    assert_false(dt_proc_stat(&stat, dir, 49));
}

/* A child that looks when it is no longer new. */
static void a_process_knows_when_it_began(void **state)
{
    const double before = dt_clock_now();
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    int status;
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        dt_clock_sleep(10 * tick);
        const double began = dt_proc_began();
        _exit(began > before - 2 * tick && began < dt_clock_now() - 8 * tick
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void processes_are_found_by_their_owner(void **state)
{
    int sum = 0;
    char path[64];
    (void)state;
    snprintf(path, sizeof(path), "%s/proc", dir);
    put_process("51", "");
    put_process("52", "");
    put_process("sys", "");
    put_process("5x", "");
    for (int mine = 0; mine < 2; mine++) {
        DIR *proc = opendir(path);
        assert_non_null(proc);
        for (int pid; (pid = dt_proc_next(proc, getuid() + !mine)) != 0;)
            sum += pid > 50 ? pid : 0;
        assert_int_equal(sum, mine ? 51 + 52 : 0);
        closedir(proc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_read_whatever_its_name),
        cmocka_unit_test(a_process_that_has_gone_has_no_stat),
        cmocka_unit_test(a_process_knows_when_it_began),
        cmocka_unit_test(processes_are_found_by_their_owner),
    };
    return cmocka_run_group_tests_name("proc", tests, make_dir, remove_dir);
}
