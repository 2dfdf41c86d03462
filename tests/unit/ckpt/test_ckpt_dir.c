/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt_dir.c - model directories: shards, copies, what is in the way */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "tests/unit/tensor_read.h"
#include "tests/unit/scratch.h"

enum { TENSORS = 5 };

static float values[64];
static struct dt_buffer buf = {values, sizeof(values), &dt_cpu};

/* Tensors a .. e of 8, 24, 4, 16 and 0 floats, stored as `stored`. */
static void make_tensors(struct dt_ckpt_tensor tensors[TENSORS],
                         enum dt_dtype stored)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static const size_t counts[] = {8, 24, 4, 16, 0};
    size_t at = 0;
    for (size_t i = 0; i < 64; i++)
        values[i] = (float)i;
    for (size_t i = 0; i < TENSORS; at += counts[i++])
        tensors[i] = (struct dt_ckpt_tensor){
            .name = names[i],
            .ndim = 1,
            .shape = {counts[i]},
            .view = dt_view_slice(dt_view_of(&buf, DT_F32), at, counts[i]),
            .stored = stored};
}

static void must(int rc, const struct dt_error *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static bool exists(const char *name)
{
    return access(scratch_path(name), F_OK) == 0;
}

static void expect_text(const char *name, const char *expected)
{
    struct dt_error err;
    char *text = dt_file_read(scratch_path(name), 1 << 16, &err);
    if (!text)
        fail_msg("%s", err.text);
    assert_string_equal(text, expected);
    free(text);
}

/* Writes the tensors in files of max_bytes into `dir`, replacing it. */
static void write_model(const char *dir, enum dt_dtype stored, size_t max_bytes)
{
    struct dt_ckpt_tensor tensors[TENSORS];
    struct dt_error err = {0};
    make_tensors(tensors, stored);
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin_dir(scratch_path(dir), true, &err);
    must(writer ? 0 : -1, &err);
    must(dt_ckpt_add_model(writer, 1, tensors, TENSORS, max_bytes, NULL, &err),
         &err);
    must(dt_ckpt_commit(writer, &err), &err);
}

static void expect_values(const char *dir)
{
    struct dt_ckpt_tensor tensors[TENSORS];
    struct dt_error err = {0};
    float out[24];
    struct dt_buffer out_buf = {out, sizeof(out), &dt_cpu};
    struct dt_safetensors *st =
        dt_safetensors_open_model(scratch_path(dir), &err);
    must(st ? 0 : -1, &err);
    make_tensors(tensors, DT_F32);
    assert_int_equal(dt_safetensors_count(st), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        struct dt_view view =
            dt_view_slice(dt_view_of(&out_buf, DT_F32), 0, tensors[i].shape[0]);
        must(tensor_read(st, tensors[i].name, 1, tensors[i].shape, view, &err),
             &err);
        assert_memory_equal(out, dt_view_data(tensors[i].view), 4 * view.count);
    }
    dt_safetensors_close(st);
}

static void a_model_is_split_only_beyond_the_limit(void **state)
{
    (void)state;
    write_model("m", DT_F32, 208); /* all of it, to the byte */
    assert_true(exists("m/model.safetensors"));
    assert_false(exists("m/model.safetensors.index.json"));
    expect_values("m");
    write_model("m", DT_F32, 207);
    assert_false(exists("m/model.safetensors"));
    assert_true(exists("m/model-00001-of-00002.safetensors"));
    expect_values("m");
    write_model("m", DT_F32, 80); /* b is larger */
    expect_text("m/model.safetensors.index.json",
                "{\n"
                "  \"metadata\": {\n"
                "    \"total_size\": 208\n"
                "  },\n"
                "  \"weight_map\": {\n"
                "    \"a\": \"model-00001-of-00003.safetensors\",\n"
                "    \"b\": \"model-00002-of-00003.safetensors\",\n"
                "    \"c\": \"model-00003-of-00003.safetensors\",\n"
                "    \"d\": \"model-00003-of-00003.safetensors\",\n"
                "    \"e\": \"model-00003-of-00003.safetensors\"\n"
                "  }\n"
                "}");
    expect_values("m");
    write_model("m", DT_BF16, 80); /* half of that, and exact below 256 */
    assert_true(exists("m/model-00002-of-00002.safetensors"));
    expect_values("m");
    write_model("m", DT_F16, 1);
    assert_true(exists("m/model-00005-of-00005.safetensors"));
    expect_values("m");
}

/* Begins `path` with one text in it, and commits. */
static int write_dir(const char *path, bool replace, struct dt_error *err)
{
    struct dt_ckpt_writer *writer = dt_ckpt_begin_dir(path, replace, err);
    if (!writer || dt_ckpt_add_text(writer, "t", path, err) < 0) {
        dt_ckpt_abandon(writer);
        return -1;
    }
    return dt_ckpt_commit(writer, err);
}

static void a_full_directory_is_replaced_only_on_request(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must(write_dir(scratch_path("p/q/d//"), false, &err), &err);
    assert_true(exists("p/q/d/t"));
    assert_false(exists("p/q/d/checksums.txt"));
    assert_false(exists("p/q/latest"));
    scratch_write("p/q/d/old", "", 0);
    assert_int_equal(write_dir(scratch_path("p/q/d"), false, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, "/p/q/d: Directory not empty"));
    assert_true(exists("p/q/d/old"));
    assert_false(exists("p/q/.tmp-d"));
    assert_int_equal(mkdir(scratch_path("p/q/.tmp-d"), 0777), 0);
    scratch_write("p/q/.tmp-d/left", "", 0);
    scratch_write("p/q/.tmp-other", "not ours", 8);
    must(write_dir(scratch_path("p/q/d"), true, &err), &err);
    assert_false(exists("p/q/d/old"));
    assert_false(exists("p/q/d/left"));
    assert_false(exists("p/q/.tmp-d"));
    assert_true(exists("p/q/.tmp-other"));
    assert_int_equal(mkdir(scratch_path("empty"), 0777), 0);
    must(write_dir(scratch_path("empty"), false, &err), &err);
    assert_true(exists("empty/t"));
    assert_int_equal(write_dir("/dev/null/d", false, &err), -1);
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "/dev/null: not a directory"));
}

static void a_directory_is_written_by_relative_path(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(chdir(scratch_path("")), 0);
    must(write_dir("here", false, &err), &err);
    assert_true(exists("here/t"));
    assert_int_equal(chdir("/"), 0);
}

static void only_regular_files_within_the_limit_are_copied(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(mkdir(scratch_path("from"), 0777), 0);
    scratch_write("from/a.json", "a\0b", 3);
    assert_int_equal(mkfifo(scratch_path("from/fifo"), 0600), 0);
    char from[600];
    snprintf(from, sizeof(from), "%s", scratch_path("from"));
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin_dir(scratch_path("to"), false, &err);
    assert_non_null(writer);
    must(dt_ckpt_add_copy(writer, "a.json", from, 3, &err), &err);
    must(dt_ckpt_add_copy(writer, "b.json", from, 3, &err), &err);
    assert_int_equal(dt_ckpt_add_copy(writer, "a.json", from, 2, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(
        strstr(err.text, "from/a.json: larger than 2 bytes, not copied"));
    assert_int_equal(dt_ckpt_add_copy(writer, "fifo", from, 2, &err), -1);
    assert_non_null(strstr(err.text, "from/fifo: not a regular file"));
    assert_int_equal(dt_ckpt_add_copy(writer, "x", "/dev/null", 2, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_string_equal(err.text, "/dev/null/x: cannot open: Not a directory");
    must(dt_ckpt_add_copy(writer, "a.json", from, 3, &err), &err);
    must(dt_ckpt_commit(writer, &err), &err);
    struct stat st;
    assert_int_equal(stat(scratch_path("to/a.json"), &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_false(exists("to/b.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_split_only_beyond_the_limit),
        cmocka_unit_test(a_full_directory_is_replaced_only_on_request),
        cmocka_unit_test(a_directory_is_written_by_relative_path),
        cmocka_unit_test(only_regular_files_within_the_limit_are_copied),
    };
    return cmocka_run_group_tests_name("ckpt_dir", tests, NULL, NULL);
}
