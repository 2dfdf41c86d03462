/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt_disk.c - what a save asks of the disk, and what if it refuses */
#include "config.h"

#include <errno.h>
#include <sys/stat.h>

#include "tests/unit/ckpt/ckpt_root.h"

/* Each call of the first save, and of one that replaces it. */
static void files_are_synced_before_they_take_their_place(void **state)
{
    char expected[1024];
    const char *name = strrchr(root, '/') + 1;
    (void)state;
    disk_record();
    must_save(7, 1, 0);
    snprintf(expected, sizeof(expected),
             "fsync model.safetensors\n"
             "fsync state.json\n"
             "fsync checksums.txt\n"
             "symlink checkpoint-7 .tmp-latest\n"
             "fsync .tmp-checkpoint-7\n"
             "rename .tmp-checkpoint-7 checkpoint-7\n"
             "fsync %s\n"
             "rename .tmp-latest latest\n"
             "fsync %s\n",
             name, name);
    assert_string_equal(disk_recorded(), expected);
    disk_record();
    must_save(7, 2, 0);
    snprintf(expected, sizeof(expected),
             "fsync model.safetensors\n"
             "fsync state.json\n"
             "fsync checksums.txt\n"
             "fsync .tmp-checkpoint-7\n"
             "rename .tmp-checkpoint-7 checkpoint-7\n"
             "renameat2 .tmp-checkpoint-7 checkpoint-7\n"
             "fsync %s\n"
             "symlink checkpoint-7 .tmp-latest\n"
             "rename .tmp-latest latest\n"
             "fsync %s\n",
             name, name);
    assert_string_equal(disk_recorded(), expected);
}

static void a_failed_save_leaves_only_what_was_there(void **state)
{
    static const struct {
        const char *call, *name;
        int error;
    } cases[] = {
        {"open", "model.safetensors", EDQUOT},
        {"write", "model.safetensors", ENOSPC},
        {"write", "state.json", EDQUOT},
        {"fsync", "model.safetensors", EIO},
        {"fsync", "checksums.txt", ENOSPC},
        {"fsync", ".tmp-checkpoint-2", ESTALE},
        {"close", "model.safetensors", EDQUOT},
        {"close", "state.json", EIO},
        {"rename", "checkpoint-2", EIO},
        {"symlink", ".tmp-latest", EDQUOT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_error err = {0};
        setup(state);
        must_save(1, 1, 0);
        int before = disk_open_count();
        disk_refuse(cases[i].call, cases[i].name, cases[i].error);
        int rc = save(root, 2, 2, 1, &err);
        disk_refuse(NULL, NULL, 0);
        if (rc != -1 || !strstr(err.text, strerror(cases[i].error)))
            fail_msg("%s %s: %d %s", cases[i].call, cases[i].name, rc,
                     err.text);
        assert_int_equal(disk_open_count(), before);
        assert_int_equal(temp_count(), 0);
        assert_true(found_value() >= 1);
        assert_string_equal(notes, "");
        assert_true(exists("checkpoint-1"));
        assert_latest("checkpoint-1");
        must_save(2, 2, 0);
        assert_true(found_value() == 2);
    }
}

static int count_fetch(void *ctx, const struct dt_ckpt_tensor *tensor,
                       struct dt_view *view, struct dt_error *err)
{
    int *fetched = ctx;
    (void)err;
    *view = tensor->view;
    ++*fetched;
    return 0;
}

/* The other ranks, whose disks are not full, gather the same tensors. */
static void what_cannot_be_written_is_fetched_all_the_same(void **state)
{
    enum { COUNT = 3 };
    static const char *const calls[] = {"open", "write"};
    static const char *const names[COUNT] = {"a", "b", "c"};
    static float data[1 << 20]; /* more than is written at a time */
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    struct dt_ckpt_tensor tensors[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        tensors[i] = (struct dt_ckpt_tensor){
            names[i], 1, {1 << 20}, dt_view_of(&buf, DT_F32), DT_F32, false, 0};
    for (size_t i = 0; i < 2; i++) {
        struct dt_error err = {0};
        int fetched = 0;
        const struct dt_ckpt_source source = {.fetch = count_fetch,
                                              .ctx = &fetched};
        struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 1, &err);
        assert_non_null(writer);
        disk_refuse(calls[i], "model.safetensors", ENOSPC);
        assert_int_equal(dt_ckpt_add_tensors(writer, "model.safetensors",
                                             tensors, COUNT, &source, &err),
                         -1);
        disk_refuse(NULL, NULL, 0);
        assert_non_null(strstr(err.text, "No space left on device"));
        assert_int_equal(fetched, COUNT);
        dt_ckpt_abandon(writer);
    }
}

/* The new checkpoint is in its place, and the next save brings latest there. */
static void a_save_that_cannot_replace_latest_is_found(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    disk_refuse("rename", "latest", ESTALE);
    for (int step = 2; step <= 3; step++) {
        assert_int_equal(save(root, step, (float)step, 1, &err), -1);
        assert_non_null(strstr(err.text, "/latest: Stale file handle"));
        assert_int_equal(temp_count(), 1);
        assert_true(found_value() == (float)step);
        assert_latest("checkpoint-1");
    }
    disk_refuse(NULL, NULL, 0);
    dt_ckpt_abandon(dt_ckpt_begin(root, 4, &err));
    assert_latest("checkpoint-3");
    assert_int_equal(temp_count(), 0);
}

static void a_save_counts_although_the_old_one_stays(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    disk_refuse("rename", ".tmp-checkpoint-1", EACCES);
    assert_int_equal(save(root, 2, 2, 1, &err), 1);
    disk_refuse(NULL, NULL, 0);
    assert_non_null(strstr(err.text, "checkpoint-1: cannot rename to"));
    assert_true(exists("checkpoint-1"));
    assert_true(found_value() == 2);
    assert_latest("checkpoint-2");
}

static void some_steps_are_kept_beyond_the_limit(void **state)
{
    struct dt_error err = {0};
    const struct dt_ckpt_keep keep = {.limit = 2, .every = 3, .step = 8};
    (void)state;
    for (int step = 1; step <= 8; step++)
        must_save(step, (float)step, 0);
    assert_int_equal(dt_ckpt_prune(root, &keep, &err), 0);
    for (int step = 1; step <= 8; step++) {
        char name[32];
        snprintf(name, sizeof(name), "checkpoint-%d", step);
        assert_int_equal(exists(name), step % 3 == 0 || step >= 7);
    }
}

static void what_cannot_be_removed_stops_no_save(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    /* as NFS does while somebody has a file of it open */
    disk_refuse("rmdir", ".tmp-checkpoint-1", ENOTEMPTY);
    assert_int_equal(save(root, 2, 2, 1, &err), 1);
    assert_non_null(strstr(err.text, ".tmp-checkpoint-1: cannot remove: Dir"));
    assert_int_equal(save(root, 3, 3, 1, &err), 0);
    assert_int_equal(temp_count(), 1);
    assert_true(found_value() == 3);
    notes[0] = '\0';
    dt_ckpt_tidy(root, note);
    assert_note("/.tmp-checkpoint-1: cannot remove: Directory not empty; left "
                "by an earlier save; remove it by hand, or leave it: each");
    /* also where the place of that very directory is needed */
    assert_int_equal(save(root, 1, 11, 0, &err), 0);
    assert_true(found_value() == 11);
    disk_refuse(NULL, NULL, 0);
    must_save(4, 4, 0);
    assert_int_equal(temp_count(), 0);
}

static void one_that_cannot_be_removed_keeps_no_other(void **state)
{
    struct dt_error err = {0};
    (void)state;
    for (int step = 1; step <= 3; step++)
        must_save(step, (float)step, 0);
    disk_refuse("rename", ".tmp-checkpoint-1", EPERM);
    assert_int_equal(save(root, 4, 4, 1, &err), 1);
    disk_refuse(NULL, NULL, 0);
    assert_true(exists("checkpoint-1"));
    assert_false(exists("checkpoint-2"));
    assert_false(exists("checkpoint-3"));
    assert_non_null(strstr(err.text, "checkpoint-1: cannot rename to"));
}

/* NFS refuses RENAME_EXCHANGE. */
static void a_checkpoint_is_replaced_without_exchange(void **state)
{
    static const int errors[] = {EINVAL, ENOSYS, EOPNOTSUPP};
    (void)state;
    for (int i = 0; i < 3; i++) {
        disk_refuse("renameat2", "checkpoint-4", errors[i]);
        must_save(4, (float)(4 + 2 * i), 0);
        must_save(4, (float)(5 + 2 * i), 0);
        assert_true(found_value() == (float)(5 + 2 * i));
        assert_int_equal(temp_count(), 0);
        assert_false(exists(".old-checkpoint-4"));
    }
    disk_refuse(NULL, NULL, 0);
    /* killed while neither was in its place */
    must_save(2, 2, 0);
    must_save(4, 44, 0);
    assert_int_equal(
        rename(in_root("checkpoint-4"), in_root(".old-checkpoint-4")), 0);
    assert_true(found_value() == 44);
    struct dt_error err;
    dt_ckpt_abandon(dt_ckpt_begin(root, 5, &err));
    assert_true(exists("checkpoint-4"));
    assert_true(exists("latest"));
    /* also where a higher one belongs to a run that was given up */
    must_save(9, 9, 0);
    must_save(4, 44, 0);
    assert_int_equal(
        rename(in_root("checkpoint-4"), in_root(".old-checkpoint-4")), 0);
    assert_true(found_value() == 44);
    unlink(in_root("latest"));
    must_save(4, 45, 0);
    unlink(in_root("latest"));
    assert_true(found_value() == 9);
    /* and after one was */
    unlink(in_root("checkpoint-9/checksums.txt"));
    assert_int_equal(mkdir(in_root(".old-checkpoint-4"), 0777), 0);
    assert_true(found_value() == 45);
    dt_ckpt_abandon(dt_ckpt_begin(root, 5, &err));
    assert_false(exists(".old-checkpoint-4"));
    assert_true(found_value() == 45);
    assert_int_equal(rename(in_root("checkpoint-4"), in_root("away")), 0);
    must_save(4, 46, 0);
    assert_int_equal(rename(in_root("away"), in_root(".old-checkpoint-4")), 0);
    assert_true(found_value() == 46);
    unlink(in_root("latest"));
    put("checkpoint-9/state.json", "");
    assert_true(found_value() == 46);
}

/* What cannot be looked at may be the only one. */
static void only_what_is_known_to_be_replaced_is_removed(void **state)
{
    (void)state;
    must_save(1, 1, 0);
    must_save(4, 4, 0);
    assert_int_equal(
        rename(in_root("checkpoint-4"), in_root(".old-checkpoint-4")), 0);
    disk_refuse("access", "checkpoint-4", EIO);
    dt_ckpt_tidy(root, note);
    disk_refuse(NULL, NULL, 0);
    assert_note("/checkpoint-4: cannot tell whether it is there: Input/output");
    assert_true(found_value() == 4);
    dt_ckpt_tidy(root, NULL);
    assert_true(exists("checkpoint-4"));
    unlink(in_root("latest"));
    assert_int_equal(symlink("checkpoint-1", in_root("latest")), 0);
    assert_int_equal(symlink("checkpoint-4", in_root(".tmp-latest")), 0);
    disk_refuse("access", ".tmp-latest", ESTALE);
    dt_ckpt_tidy(root, note);
    disk_refuse(NULL, NULL, 0);
    assert_note("/.tmp-latest: cannot tell whether it is there: Stale file");
    assert_true(found_value() == 4);
}

static void expect_obstacle(const char *expected)
{
    struct dt_error err = {0};
    if (dt_ckpt_probe(root, 1, &err) != -1 || !strstr(err.text, expected))
        fail_msg("expected \"%s\", got \"%s\"", expected, err.text);
    assert_int_equal(temp_count(), 0);
}

static void the_probe_finds_what_would_stop_a_save(void **state)
{
    static const struct {
        const char *call, *name;
    } cases[] = {
        {"open", "probe"},           {"write", "probe"},
        {"fsync", "probe"},          {"rename", ".tmp-probe"},
        {"renameat2", ".tmp-probe"}, {"symlink", ".tmp-link"},
        {"rename", "latest"},
    };
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_ckpt_probe(root, 1, &err), 0);
    must_save(1, 1, 0);
    assert_int_equal(dt_ckpt_probe(root, 1, &err), 0);
    assert_int_equal(dt_ckpt_probe(root, (size_t)1 << 62, &err), 1);
    assert_non_null(strstr(err.text, " MB free, and a checkpoint takes "
                                     "4611686018427.4 MB"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        disk_refuse(cases[i].call, cases[i].name, EROFS);
        expect_obstacle("Read-only file system");
        disk_refuse(NULL, NULL, 0);
    }
    assert_latest("checkpoint-1");
    disk_refuse("rename", "latest", EPERM);
    expect_obstacle("/latest: cannot be replaced, as each save does: Operation "
                    "not permitted; remove it, or have its owner do it");
    disk_refuse("renameat2", ".tmp-probe", EINVAL); /* as on NFS */
    assert_int_equal(dt_ckpt_probe(root, 1, &err), 0);
    disk_refuse(NULL, NULL, 0);
    /* what an interrupted save left is for the next save */
    assert_int_equal(symlink("checkpoint-1", in_root(".tmp-latest")), 0);
    assert_int_equal(dt_ckpt_probe(root, 1, &err), 0);
    assert_int_equal(temp_count(), 1);
    unlink(in_root(".tmp-latest"));
    unlink(in_root("latest"));
    put("latest", "of the user's");
    expect_obstacle("/latest: expected a symbolic link, or nothing; move it");
    unlink(in_root("latest"));
    assert_int_equal(mkdir(in_root("latest"), 0777), 0);
    expect_obstacle("/latest: expected a symbolic link, or nothing; move it");
    assert_true(found_value() == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_are_synced_before_they_take_their_place,
                               setup),
        cmocka_unit_test_setup(a_failed_save_leaves_only_what_was_there, setup),
        cmocka_unit_test_setup(what_cannot_be_written_is_fetched_all_the_same,
                               setup),
        cmocka_unit_test_setup(a_save_that_cannot_replace_latest_is_found,
                               setup),
        cmocka_unit_test_setup(a_save_counts_although_the_old_one_stays, setup),
        cmocka_unit_test_setup(some_steps_are_kept_beyond_the_limit, setup),
        cmocka_unit_test_setup(what_cannot_be_removed_stops_no_save, setup),
        cmocka_unit_test_setup(one_that_cannot_be_removed_keeps_no_other,
                               setup),
        cmocka_unit_test_setup(a_checkpoint_is_replaced_without_exchange,
                               setup),
        cmocka_unit_test_setup(only_what_is_known_to_be_replaced_is_removed,
                               setup),
        cmocka_unit_test_setup(the_probe_finds_what_would_stop_a_save, setup),
    };
    return cmocka_run_group_tests_name("ckpt_disk", tests, NULL, NULL);
}
