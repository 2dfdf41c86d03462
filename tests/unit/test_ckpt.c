/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt.c - a checkpoint is whole or absent, whatever fails and when */
#include "config.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "scratch.h"

enum {
    WEIGHTS = 1000,
};

static char root[300];
static char notes[8192];

/* A fresh root for every test. */
static int setup(void **state)
{
    static int number;
    char name[16];
    (void)state;
    snprintf(name, sizeof(name), "root-%d", number++);
    snprintf(root, sizeof(root), "%s", scratch_path(name));
    notes[0] = '\0';
    return 0;
}

static const char *in_root(const char *name)
{
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

/* Saves WEIGHTS weights that all equal `value`. */
static int save(const char *dir, long step, float value, int total_limit,
                struct dt_error *err)
{
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    struct dt_ckpt_tensor tensor = {
        "w", 1, {WEIGHTS}, dt_view_of(&buf, DT_F32), DT_F32};
    for (int i = 0; i < WEIGHTS; i++)
        data[i] = value;
    struct dt_ckpt_writer *writer = dt_ckpt_begin(dir, step, err);
    if (!writer)
        return -1;
    if (dt_ckpt_add_tensors(writer, "model.safetensors", &tensor, 1, err) < 0 ||
        dt_ckpt_add_text(writer, "state.json", "{}\n", err) < 0) {
        dt_ckpt_abandon(writer);
        return -1;
    }
    return dt_ckpt_commit(writer, total_limit, err);
}

static void must_save(long step, float value, int total_limit)
{
    struct dt_error err = {0};
    if (save(root, step, value, total_limit, &err) < 0)
        fail_msg("%s", err.text);
}

static void note(void *ctx, const char *text)
{
    size_t n = strlen(notes);
    (void)ctx;
    snprintf(notes + n, sizeof(notes) - n, "%s\n", text);
}

/* The value of the newest whole checkpoint, or -1 if there is none. */
static float found_value(void)
{
    struct dt_error err = {0};
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    const size_t shape[] = {WEIGHTS};
    char *path, model[700];
    notes[0] = '\0';
    if (dt_ckpt_find(root, &path, note, NULL, &err) < 0)
        fail_msg("%s", err.text);
    if (!path)
        return -1;
    snprintf(model, sizeof(model), "%s/model.safetensors", path);
    free(path);
    struct dt_safetensors *file = dt_safetensors_open(model, &err);
    if (!file || dt_safetensors_read(file, "w", 1, shape,
                                     dt_view_of(&buf, DT_F32), &err) < 0)
        fail_msg("%s", err.text);
    dt_safetensors_close(file);
    for (int i = 1; i < WEIGHTS; i++)
        assert_true(data[i] == data[0]);
    return data[0];
}

static void assert_note(const char *text)
{
    if (!strstr(notes, text))
        fail_msg("expected a note \"%s\", got \"%s\"", text, notes);
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_root(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static bool exists(const char *name)
{
    return access(in_root(name), F_OK) == 0;
}

static int temp_count(void)
{
    int count = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += strncmp(e->d_name, ".tmp-", 5) == 0;
    closedir(dir);
    return count;
}

static void assert_latest(const char *expected)
{
    char target[256];
    ssize_t n = readlink(in_root("latest"), target, sizeof(target) - 1);
    assert_true(n > 0);
    target[n] = '\0';
    assert_string_equal(target, expected);
}

static void test_save_and_find(void **state)
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
    assert_int_equal(dt_ckpt_verify(in_root("checkpoint-3"), &err), 0);
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
    assert_int_equal(dt_ckpt_find(root, &path, NULL, NULL, &err), 0);
    assert_string_equal(path, in_root("checkpoint-10"));
    free(path);
}

static void test_foreign_names(void **state)
{
    (void)state;
    must_save(5, 5, 0);
    put("checkpoint-99", "a file, not a directory");
    static const char *names[] = {"checkpoint-007", "checkpoint-",
                                  "checkpoint-8x", "checkpoint--6",
                                  "checkpoint-99999999999999999999"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(mkdir(in_root(names[i]), 0777), 0);
    assert_int_equal(unlink(in_root("latest")), 0);
    assert_true(found_value() == 5);
    assert_note("checkpoint-99/checksums.txt: cannot open: Not a directory");
    assert_ptr_equal(strchr(notes, '\n') + 1, notes + strlen(notes));
}

static void test_damaged(void **state)
{
    static const struct {
        const char *text, *note;
    } sums[] = {
        {"", "checkpoint-2/checksums.txt: empty"},
        {"XXH3 (state.json) = daa13e4f205dc5b", "checksums.txt:1: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5ba", "checksums.txt:1: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5ba\n\n",
         "checksums.txt:2: expected \"XXH3 (file) = 16 hex digits\""},
        {"XXH3 (../x) = daa13e4f205dc5ba\n", "checksums.txt:1: expected"},
        {"XXH3 () = daa13e4f205dc5ba\n", "checksums.txt:1: expected"},
        {"XXH3 (a) = daa13e4f205dc5bg\n", "checksums.txt:1: expected"},
        {"XXH3 (state.json) = 0000000000000000\n",
         "checkpoint-2/state.json: damaged: checksum daa13e4f205dc5ba, "
         "expected 0000000000000000"},
        {"XXH3 (.) = daa13e4f205dc5ba\n", "cannot read: Is a directory"},
        {"XXH3 (b) = daa13e4f205dc5ba\n", "checkpoint-2/b: cannot open: No"},
    };
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    put("checkpoint-2/state.json", "{ }");
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/state.json: damaged: checksum ");
    put("checkpoint-2/state.json", "{}\n");
    assert_true(found_value() == 2);
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        put("checkpoint-2/checksums.txt", sums[i].text);
        assert_true(found_value() == 1);
        assert_note(sums[i].note);
    }
    assert_int_equal(unlink(in_root("checkpoint-2/checksums.txt")), 0);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: cannot open: No such file");
    must_save(2, 22, 0); /* a damaged one of the same step gives way */
    assert_true(found_value() == 22);
}

static void test_leftovers(void **state)
{
    (void)state;
    must_save(1, 1, 0);
    assert_int_equal(mkdir(in_root(".tmp-checkpoint-2"), 0777), 0);
    put(".tmp-checkpoint-2/model.safetensors", "half");
    assert_int_equal(symlink("checkpoint-2", in_root(".tmp-latest")), 0);
    assert_true(found_value() == 1);
    assert_note(".tmp-checkpoint-2: left by an interrupted save");
    must_save(2, 2, 0);
    assert_int_equal(temp_count(), 0);
    assert_true(found_value() == 2);
    assert_string_equal(notes, "");
}

static void test_total_limit(void **state)
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

static void test_same_step(void **state)
{
    (void)state;
    must_save(4, 4, 0);
    must_save(4, 44, 0);
    assert_true(found_value() == 44);
    assert_int_equal(temp_count(), 0);
}

static void test_abandon(void **state)
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

static void test_errors(void **state)
{
    struct dt_error err;
    char *path;
    (void)state;
    assert_null(dt_ckpt_begin("/dev/null/a", 1, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "/dev/null: not a directory"));
    assert_int_equal(dt_ckpt_find("/dev/null", &path, NULL, NULL, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_string_equal(err.text, "/dev/null: cannot list: Not a directory");
    assert_int_equal(dt_ckpt_verify("/nowhere", &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_non_null(strstr(err.text, "/nowhere/checksums.txt: cannot open"));
}

#ifdef ENABLE_FAULT_INJECTION
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
        execl("/proc/self/exe", "test_ckpt", root, number, NULL);
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
        if (dt_ckpt_verify(resolved, &err) < 0)
            fail_msg("%s %d %s: latest: %s", point, n, action, err.text);
        if (status == 0) {
            assert_true(value == 2);
            assert_int_equal(temp_count(), 0);
            return n - 1;
        }
        if (strcmp(action, "kill") == 0)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EX_IOERR);
        if (value != 1 && value != 2)
            fail_msg("%s %d %s: found %g", point, n, action, value);
        must_save(3, 3, 0);
        assert_true(found_value() == 3);
        assert_int_equal(temp_count(), 0);
    }
}

static void test_faults(void **state)
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
            /* the directory, latest, and the old one out of the way */
            assert_int_equal(
                fail_every_passage("ckpt.rename", actions[i], step),
                step == 1 ? 2 : 3);
        }
    }
}
#else
static void test_faults(void **state)
{
    (void)state;
    print_message("# needs --enable-fault-injection\n");
    skip();
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_save_and_find, setup),
        cmocka_unit_test_setup(test_foreign_names, setup),
        cmocka_unit_test_setup(test_damaged, setup),
        cmocka_unit_test_setup(test_leftovers, setup),
        cmocka_unit_test_setup(test_total_limit, setup),
        cmocka_unit_test_setup(test_same_step, setup),
        cmocka_unit_test_setup(test_abandon, setup),
        cmocka_unit_test_setup(test_errors, setup),
        cmocka_unit_test(test_faults),
    };
    struct dt_error err;
    if (argc == 3) /* the child of save_with_fault */
        return save(argv[1], atol(argv[2]), 2, 1, &err) < 0 ? err.status : 0;
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}
