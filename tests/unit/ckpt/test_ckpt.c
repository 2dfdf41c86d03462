/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt.c - a checkpoint is whole or absent, whatever fails and when */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/ckpt/ckpt_root.h"

static void the_checkpoint_saved_last_is_found(void **state)
{
    struct dt_error err;
    char *path;
    (void)state;
    assert_true(found_value() == -1);
    must_save(3, 3, 0);
    assert_true(found_value() == 3);
    assert_string_equal(notes, "");
    assert_latest("checkpoint-3");
    assert_int_equal(temp_count(), 0);
    assert_int_equal(dt_ckpt_verify(in_root("checkpoint-3"), NULL, &err), 0);
    char *sums = dt_file_read(in_root("checkpoint-3/checksums.txt"), 999, &err);
    assert_non_null(sums);
    assert_non_null(strstr(sums, "\nXXH3 (state.json) = daa13e4f205dc5ba\n"));
    free(sums);
    must_save(10, 10, 0);
    must_save(9, 9, 0);
    /* a run that went on from 3 wrote 9 last: 10 is of another story */
    assert_latest("checkpoint-9");
    assert_true(found_value() == 9);
    assert_int_equal(unlink(in_root("latest")), 0);
    assert_int_equal(dt_ckpt_find(root, NULL, &path, &err), 0);
    assert_string_equal(path, in_root("checkpoint-10"));
    free(path);
}

static void leftovers_of_an_interrupted_save_are_removed(void **state)
{
    (void)state;
    must_save(1, 1, 0);
    assert_int_equal(mkdir(in_root(".tmp-checkpoint-2"), 0777), 0);
    put(".tmp-checkpoint-2/model.safetensors", "half");
    assert_int_equal(symlink("checkpoint-2", in_root(".tmp-latest")), 0);
    assert_int_equal(mkdir(in_root(".old-.tmp-probe"), 0777), 0);
    assert_true(found_value() == 1);
    assert_note(".tmp-checkpoint-2: left by an interrupted save");
    must_save(2, 2, 0);
    assert_int_equal(temp_count(), 0);
    assert_false(exists(".old-.tmp-probe"));
    assert_true(found_value() == 2);
    assert_string_equal(notes, "");
}

static void old_checkpoints_beyond_the_limit_are_removed(void **state)
{
    (void)state;
    for (int step = 8; step <= 12; step++)
        must_save(step, (float)step, 2);
    assert_false(exists("checkpoint-9"));
    assert_false(exists("checkpoint-10"));
    assert_true(exists("checkpoint-11"));
    assert_true(exists("checkpoint-12"));
    must_save(3, 3, 2); /* the new one stays, though it is the lowest */
    assert_true(exists("checkpoint-3"));
    assert_true(exists("checkpoint-12"));
    assert_false(exists("checkpoint-11"));
    must_save(13, 13, 1);
    assert_false(exists("checkpoint-3"));
    assert_false(exists("checkpoint-12"));
    assert_int_equal(temp_count(), 0);
}

static void a_save_of_the_same_step_replaces_it(void **state)
{
    (void)state;
    must_save(4, 4, 0);
    must_save(4, 44, 0);
    assert_true(found_value() == 44);
    assert_int_equal(temp_count(), 0);
}

static void an_abandoned_save_leaves_nothing_behind(void **state)
{
    struct dt_error err;
    (void)state;
    must_save(1, 1, 0);
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 2, &err);
    assert_non_null(writer);
    assert_int_equal(dt_ckpt_add_text(writer, "a", "b", &err), 0);
    dt_ckpt_abandon(writer);
    dt_ckpt_abandon(NULL);
    assert_int_equal(temp_count(), 0);
    assert_true(found_value() == 1);
}

static void errors_name_the_path_and_the_cause(void **state)
{
    struct dt_error err;
    char *path;
    (void)state;
    assert_null(dt_ckpt_begin("/dev/null/a", 1, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "/dev/null: not a directory"));
    assert_int_equal(dt_ckpt_find("/dev/null", NULL, &path, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_string_equal(err.text, "/dev/null: cannot list: Not a directory");
    assert_int_equal(dt_ckpt_verify("/nowhere", NULL, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_non_null(strstr(err.text, "/nowhere/checksums.txt: cannot open"));
}

#ifdef ENABLE_FAULT_INJECTION
static bool no_exchange; /* the file system refuses it */

/* Saves in a process of its own with DISTTRAIN_FAULT set. Its wait status. */
static int save_with_fault(const char *point, int nth, const char *action,
                           long step)
{
    char fault[64], number[24];
    int status;
    snprintf(fault, sizeof(fault), "%s:nth=%d:%s", point, nth, action);
    snprintf(number, sizeof(number), "%ld", step);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DISTTRAIN_FAULT", fault, 1);
        execl("/proc/self/exe", "test_ckpt", root, number,
              no_exchange ? "no exchange" : NULL, NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* `save` of value 2 at `step` on top of checkpoint 1 with value 1, failing at
 * the n-th passage of point for every n: then 1 or 2 is there, whole, and the
 * next save works. Gives the number of passages.
 */
static int fail_every_passage(const char *point, const char *action, long step)
{
    void *state = NULL;
    for (int n = 1;; n++) {
        struct dt_error err;
        char resolved[600];
        setup(&state);
        must_save(1, 1, 0);
        int status = save_with_fault(point, n, action, step);
        float value = found_value();
        snprintf(resolved, sizeof(resolved), "%s", in_root("latest"));
        if (!no_exchange && dt_ckpt_verify(resolved, NULL, &err) < 0)
            fail_msg("%s %d %s: latest: %s", point, n, action, err.text);
        if (status == 0) {
            assert_true(value == 2);
            assert_int_equal(temp_count(), 0);
            return n - 1;
        }
        if (strcmp(action, "kill") == 0)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EX_IOERR &&
                        exists("checkpoint-1"));
        if (value != 1 && value != 2)
            fail_msg("%s %d %s: found %g", point, n, action, value);
        must_save(3, 3, 0);
        assert_true(found_value() == 3);
        assert_int_equal(temp_count(), 0);
    }
}

static void a_whole_checkpoint_stays_whatever_fails(void **state)
{
    (void)state;
    for (long step = 1; step <= 2; step++) {
        static const char *actions[] = {"error", "kill"};
        for (int i = 0; i < 2; i++) {
            /* length, header, tensor, text, checksums */
            assert_int_equal(fail_every_passage("ckpt.write", actions[i], step),
                             5);
            /* three files, the directory, root twice */
            assert_int_equal(fail_every_passage("ckpt.fsync", actions[i], step),
                             6);
            /* the directory, latest, and the old one out of the way, which is
             * no failure if it does not work
             */
            assert_int_equal(
                fail_every_passage("ckpt.rename", actions[i], step),
                step == 1 || i == 0 ? 2 : 3);
        }
    }
}

static void a_whole_checkpoint_stays_even_without_exchange(void **state)
{
    (void)state;
    no_exchange = true;
    /* the directory, then in two steps, latest */
    assert_int_equal(fail_every_passage("ckpt.rename", "error", 1), 4);
    assert_int_equal(fail_every_passage("ckpt.rename", "kill", 1), 4);
    no_exchange = false;
}

static void a_save_without_latest_is_still_found(void **state)
{
    /* the rename of latest, and the sync before it */
    static const struct {
        const char *point, *action;
        int nth;
    } faults[] = {
        {"ckpt.rename", "kill", 2},
        {"ckpt.rename", "error", 2},
        {"ckpt.fsync", "error", 5},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        setup(state);
        must_save(9, 9, 0); /* of a run that was given up */
        must_save(1, 1, 0);
        assert_int_not_equal(save_with_fault(faults[i].point, faults[i].nth,
                                             faults[i].action, 2),
                             0);
        assert_latest("checkpoint-1");
        assert_true(found_value() == 2);
        must_save(3, 3, 0);
        assert_latest("checkpoint-3");
        assert_int_equal(temp_count(), 0);
        assert_true(exists("checkpoint-2"));
    }
}
#else
static void a_whole_checkpoint_stays_whatever_fails(void **state)
{
    (void)state;
    print_message("# needs --enable-fault-injection\n");
    skip();
}
#define a_whole_checkpoint_stays_even_without_exchange                         \
    a_whole_checkpoint_stays_whatever_fails
#define a_save_without_latest_is_still_found                                   \
    a_whole_checkpoint_stays_whatever_fails
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_checkpoint_saved_last_is_found, setup),
        cmocka_unit_test_setup(leftovers_of_an_interrupted_save_are_removed,
                               setup),
        cmocka_unit_test_setup(old_checkpoints_beyond_the_limit_are_removed,
                               setup),
        cmocka_unit_test_setup(a_save_of_the_same_step_replaces_it, setup),
        cmocka_unit_test_setup(an_abandoned_save_leaves_nothing_behind, setup),
        cmocka_unit_test_setup(errors_name_the_path_and_the_cause, setup),
        cmocka_unit_test(a_whole_checkpoint_stays_whatever_fails),
        cmocka_unit_test(a_whole_checkpoint_stays_even_without_exchange),
        cmocka_unit_test_setup(a_save_without_latest_is_still_found, setup),
    };
    struct dt_error err;
    if (argc == 4)
        disk_refuse("renameat2", "checkpoint-1", EINVAL);
    if (argc >= 3) /* the child of save_with_fault */
        return save(argv[1], atol(argv[2]), 2, 1, &err) < 0 ? err.status : 0;
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
