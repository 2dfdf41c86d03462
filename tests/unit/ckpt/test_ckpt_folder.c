/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt_folder.c - files in a folder belong to the checkpoint like others
 */
#include "config.h"

#include <sys/stat.h>

#include "tests/unit/ckpt/ckpt_root.h"

/* Saves checkpoint-1 with a folder of two files. */
static void save_with_folder(void)
{
    float data[] = {1, 2};
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    struct dt_ckpt_tensor tensor = {
        "w", 1, {2}, dt_view_of(&buf, DT_F32), DT_F32, false, 0};
    struct dt_error err = {0};
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 1, &err);
    if (!writer ||
        dt_ckpt_add_tensors(writer, "model.safetensors", &tensor, 1, NULL,
                            &err) < 0 ||
        dt_ckpt_enter(writer, "critic", &err) < 0 ||
        dt_ckpt_add_tensors(writer, "model.safetensors", &tensor, 1, NULL,
                            &err) < 0 ||
        dt_ckpt_add_text(writer, "config.json", "{}\n", &err) < 0 ||
        dt_ckpt_enter(writer, "critic/templates", &err) < 0 ||
        dt_ckpt_add_text(writer, "x.jinja", "x", &err) < 0 ||
        dt_ckpt_enter(writer, "critic", &err) < 0 ||
        dt_ckpt_enter(writer, "", &err) < 0 ||
        dt_ckpt_add_text(writer, "state.json", "{}\n", &err) < 0 ||
        dt_ckpt_commit(writer, &err) < 0)
        fail_msg("%s", err.text);
}

static int verify(struct dt_error *err)
{
    return dt_ckpt_verify(in_root("checkpoint-1"), NULL, err);
}

static void a_folder_is_listed_with_its_files(void **state)
{
    struct dt_error err = {0};
    (void)state;
    save_with_folder();
    char *sums = dt_file_read(in_root("checkpoint-1/checksums.txt"), 999, &err);
    assert_non_null(sums);
    assert_non_null(strstr(sums, "\nXXH3 (critic/model.safetensors) = "));
    assert_non_null(
        strstr(sums, "\nXXH3 (critic/config.json) = daa13e4f205dc5ba\n"));
    assert_non_null(strstr(sums, "\nXXH3 (state.json) = daa13e4f205dc5ba\n"));
    free(sums);
    assert_true(exists("checkpoint-1/critic/model.safetensors"));
    assert_true(exists("checkpoint-1/critic/templates/x.jinja"));
    assert_true(exists("checkpoint-1/state.json"));
    assert_int_equal(verify(&err), 0);
}

static void a_folder_is_synced_before_the_checkpoint_is_there(void **state)
{
    (void)state;
    disk_record();
    save_with_folder();
    const char *folder = strstr(disk_recorded(), "fsync critic\n");
    const char *rename = strstr(disk_recorded(), "rename ");
    assert_true(folder && rename && folder < rename);
}

static void damage_in_a_folder_is_found(void **state)
{
    struct dt_error err = {0};
    (void)state;
    save_with_folder();
    put("checkpoint-1/critic/config.json", "[]\n");
    assert_int_equal(verify(&err), -1);
    assert_non_null(strstr(err.text, "critic/config.json: checksum "));
    save_with_folder();
    put("checkpoint-1/critic/model-2.safetensors", "");
    assert_int_equal(verify(&err), -1);
    assert_non_null(
        strstr(err.text, "critic/model-2.safetensors: not listed in"));
    save_with_folder();
    assert_int_equal(unlink(in_root("checkpoint-1/critic/config.json")), 0);
    assert_int_equal(verify(&err), -1);
    assert_non_null(strstr(err.text, "critic/config.json"));
}

/* A list of files is not trusted. */
static void nothing_outside_of_the_checkpoint_is_listed(void **state)
{
    static const char *const names[] = {"/etc/passwd", "../state.json",
                                        "critic/../x", "a//c",
                                        "a/b/../c",    "critic/"};
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[256];
        save_with_folder();
        unlink(in_root("checkpoint-1/state.json"));
        unlink(in_root("checkpoint-1/critic/config.json"));
        snprintf(text, sizeof(text),
                 "XXH3 (model.safetensors) = daa13e4f205dc5ba\n"
                 "XXH3 (critic/model.safetensors) = daa13e4f205dc5ba\n"
                 "XXH3 (%s) = daa13e4f205dc5ba\n",
                 names[i]);
        put("checkpoint-1/model.safetensors", "{}\n");
        put("checkpoint-1/critic/model.safetensors", "{}\n");
        put("checkpoint-1/checksums.txt", text);
        assert_int_equal(verify(&err), -1);
        assert_non_null(strstr(err.text, "checksums.txt:3: expected \"XXH3"));
    }
}

/* Sums come by message, so rank 0 looks whether the files have come, too. */
static void files_of_ranks_are_merged_if_rank_0_sees_them(void **state)
{
    struct dt_error err = {0};
    (void)state;
    struct dt_ckpt_writer *first = dt_ckpt_begin(root, 1, &err);
    struct dt_ckpt_writer *other =
        dt_ckpt_join(root, 1, 1, dt_ckpt_nonce(first), &err);
    assert_non_null(other);
    assert_int_equal(dt_ckpt_add_text(first, "model.safetensors", "m", &err),
                     0);
    assert_int_equal(dt_ckpt_enter(other, "critic", &err), 0);
    assert_int_equal(dt_ckpt_add_text(other, "a.safetensors", "a", &err), 0);
    assert_int_equal(dt_ckpt_enter(other, "", &err), 0);
    assert_int_equal(
        dt_ckpt_merge(first, "XXH3 (b) = 0123456789abcdef\n", &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_non_null(strstr(err.text, "/b: cannot open: No such file"));
    assert_int_equal(dt_ckpt_merge(first, "b\n", &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_int_equal(dt_ckpt_merge(first, dt_ckpt_sums(other), &err), 0);
    dt_ckpt_abandon(other);
    assert_int_equal(dt_ckpt_commit(first, &err), 0);
    put("checkpoint-1/critic/a.safetensors", "b");
    assert_int_equal(dt_ckpt_verify(in_root("checkpoint-1"), NULL, &err), -1);
    assert_non_null(strstr(err.text, "critic/a.safetensors: checksum "));
}

/* Two saves of one step never meet in one directory. */
static void each_save_has_a_directory_of_its_own(void **state)
{
    struct dt_error err = {0};
    (void)state;
    struct dt_ckpt_writer *a = dt_ckpt_begin(root, 1, &err);
    assert_null(dt_ckpt_join(root, 1, 1, dt_ckpt_nonce(a) + 1, &err));
    assert_non_null(strstr(err.text, "this host cannot write to it"));
    dt_ckpt_abandon(a);
    assert_int_equal(temp_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_folder_is_listed_with_its_files, setup),
        cmocka_unit_test_setup(
            a_folder_is_synced_before_the_checkpoint_is_there, setup),
        cmocka_unit_test_setup(damage_in_a_folder_is_found, setup),
        cmocka_unit_test_setup(nothing_outside_of_the_checkpoint_is_listed,
                               setup),
        cmocka_unit_test_setup(files_of_ranks_are_merged_if_rank_0_sees_them,
                               setup),
        cmocka_unit_test_setup(each_save_has_a_directory_of_its_own, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
