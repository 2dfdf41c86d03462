/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt_stage.c - files that are kept in memory, and written later */
#include "config.h"

#include <errno.h>
#include <sys/stat.h>

#include "ckpt/ckpt_impl.h"
#include "tests/unit/ckpt/ckpt_root.h"

enum { ROOM = 3 << 20 };

static char memory[ROOM] __attribute__((aligned(4096)));
static float values[3 * WEIGHTS];

/* The tensors of a checkpoint, fp32 and rounded to bf16. */
static void make_tensors(struct dt_ckpt_tensor tensors[3])
{
    static const char *const names[] = {"a", "b", "c"};
    static struct dt_buffer buf = {values, sizeof(values), &dt_cpu};
    for (size_t i = 0; i < 3; i++)
        tensors[i] = (struct dt_ckpt_tensor){
            names[i],
            1,
            {WEIGHTS},
            dt_view_slice(dt_view_of(&buf, DT_F32), i * WEIGHTS, WEIGHTS),
            i == 1 ? DT_BF16 : DT_F32,
            false,
            0};
}

/* Adds shards, a folder, a text and a copy. Returns whether all could be. */
static bool add_all(struct dt_ckpt_writer *writer, struct dt_error *err)
{
    struct dt_ckpt_tensor tensors[3];
    make_tensors(tensors);
    return dt_ckpt_add_model(writer, 1, tensors, 3, 5000, NULL, err) == 0 &&
           dt_ckpt_add_copy(writer, "copied", scratch_path(""), 100, err) ==
               0 &&
           dt_ckpt_add_copy(writer, "not-there", scratch_path(""), 100, err) ==
               0 &&
           dt_ckpt_enter(writer, "critic", err) == 0 &&
           dt_ckpt_add_tensors(writer, "model.safetensors", tensors, 2, NULL,
                               err) == 0 &&
           dt_ckpt_enter(writer, "", err) == 0 &&
           dt_ckpt_add_text(writer, "state.json", "{}\n", err) == 0;
}

static int fill(void **state)
{
    for (int i = 0; i < 3 * WEIGHTS; i++)
        values[i] = (float)i / 7;
    FILE *file = fopen(scratch_path("copied"), "w");
    fputs("text", file);
    return fclose(file) || setup(state);
}

static char *sums_of(const char *checkpoint)
{
    struct dt_error err = {0};
    char *sums = dt_ckpt_read_sums(checkpoint, &err);
    if (!sums)
        fail_msg("%s", err.text);
    return sums;
}

/* A checkpoint of step 1 by way of `bytes` bytes of memory, and of what is then
 * in `values`, which changes before it is written.
 */
static void save_later(size_t bytes)
{
    struct dt_error err = {0};
    struct dt_ckpt_stage *stage = dt_ckpt_stage_create(memory, bytes, &err);
    struct dt_ckpt_writer *writer = dt_ckpt_stage_begin(stage, root, 1, &err);
    assert_true(add_all(writer, &err));
    memset(values, 0, sizeof(values));
    assert_string_equal(dt_ckpt_sums(writer), "");
    assert_int_equal(dt_ckpt_write(writer, &err), 0);
    assert_int_equal(dt_ckpt_commit(writer, &err), 0);
    dt_ckpt_stage_destroy(stage);
}

static void what_is_written_later_has_the_same_bytes(void **state)
{
    static const size_t sizes[] = {ROOM, 5000, 0};
    struct dt_error err = {0};
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 1, &err);
    assert_true(add_all(writer, &err));
    assert_int_equal(dt_ckpt_commit(writer, &err), 0);
    char *now = sums_of(in_root("checkpoint-1"));
    for (size_t i = 0; i < 3; i++) {
        fill(state);
        save_later(sizes[i]);
        char *later = sums_of(in_root("checkpoint-1"));
        assert_string_equal(later, now);
        assert_int_equal(dt_ckpt_verify(in_root("checkpoint-1"), NULL, &err),
                         0);
        assert_int_equal(temp_count(), 0);
        free(later);
    }
    free(now);
}

/* NFS and FUSE take the flag from some versions on, and may refuse writes. */
static void a_disk_that_refuses_to_be_written_directly_is_written(void **state)
{
    (void)state;
    save_later(ROOM);
    char *direct = sums_of(in_root("checkpoint-1"));
    fill(state);
    disk_refuse_once("write", "model-00001-of-00003.safetensors", EINVAL);
    save_later(ROOM);
    disk_refuse(NULL, NULL, 0);
    char *cached = sums_of(in_root("checkpoint-1"));
    struct dt_error err = {0};
    assert_string_equal(cached, direct);
    assert_int_equal(dt_ckpt_verify(in_root("checkpoint-1"), NULL, &err), 0);
    free(cached);
    free(direct);
}

/* The same memory serves one save after the other. */
static void a_stage_is_used_again(void **state)
{
    struct dt_error err = {0};
    struct dt_ckpt_stage *stage = dt_ckpt_stage_create(memory, 20000, &err);
    (void)state;
    for (int step = 1; step <= 3; step++) {
        struct dt_ckpt_writer *writer =
            dt_ckpt_stage_begin(stage, root, step, &err);
        assert_true(add_all(writer, &err));
        assert_int_equal(dt_ckpt_write(writer, &err), 0);
        assert_int_equal(dt_ckpt_commit(writer, &err), 0);
    }
    char *first = sums_of(in_root("checkpoint-1"));
    char *third = sums_of(in_root("checkpoint-3"));
    assert_string_equal(first, third);
    free(first);
    free(third);
    dt_ckpt_stage_destroy(stage);
}

/* Rank 0 removes what old saves left, and not what the others have begun. */
static void ranks_write_in_any_order(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    assert_int_equal(mkdir(in_root(".tmp-checkpoint-2"), 0777), 0);
    for (int first = 0; first < 2; first++) {
        struct dt_ckpt_stage *stages[2];
        struct dt_ckpt_writer *writers[2];
        for (int r = 0; r < 2; r++)
            stages[r] = dt_ckpt_stage_create(memory, 0, &err);
        writers[0] = dt_ckpt_stage_begin(stages[0], root, 2, &err);
        writers[1] = dt_ckpt_stage_join(stages[1], root, 2, 1,
                                        dt_ckpt_nonce(writers[0]), &err);
        assert_int_equal(
            dt_ckpt_add_text(writers[0], "model.safetensors", "0", &err), 0);
        assert_int_equal(dt_ckpt_add_text(writers[1], "other", "1", &err), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(dt_ckpt_write(writers[first ^ i], &err), 0);
        assert_int_equal(
            dt_ckpt_merge(writers[0], dt_ckpt_sums(writers[1]), &err), 0);
        dt_ckpt_abandon(writers[1]);
        assert_int_equal(dt_ckpt_commit(writers[0], &err), 0);
        assert_true(exists("checkpoint-2/other"));
        assert_int_equal(temp_count(), 0);
        for (int r = 0; r < 2; r++)
            dt_ckpt_stage_destroy(stages[r]);
    }
}

/* Nothing is left of a save that fails at any of its calls, for any reason. */
static void a_write_that_fails_leaves_only_what_was_there(void **state)
{
    static const struct {
        const char *call, *name;
    } calls[] = {
        {"open", "model-00001-of-00003.safetensors"},
        {"write", "model-00001-of-00003.safetensors"},
        {"write", "model-00003-of-00003.safetensors"},
        {"fsync", "model-00002-of-00003.safetensors"},
        {"close", "model-00002-of-00003.safetensors"},
        {"open", "copied"},
        {"read", "copied"},
        {"write", "copied"},
        {"fsync", "critic"},
        {"write", "state.json"},
        {"close", "state.json"},
    };
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    struct dt_ckpt_stage *stage = dt_ckpt_stage_create(memory, ROOM, &err);
    for (size_t i = 0; i < 3 * sizeof(calls) / sizeof(*calls); i++) {
        const int open_before = disk_open_count();
        struct dt_ckpt_writer *writer =
            dt_ckpt_stage_begin(stage, root, 2, &err);
        assert_true(add_all(writer, &err));
        disk_refuse(calls[i / 3].call, calls[i / 3].name, errors[i % 3]);
        int rc = dt_ckpt_write(writer, &err);
        dt_ckpt_abandon(writer);
        disk_refuse(NULL, NULL, 0);
        if (rc != -1 || !strstr(err.text, strerror(errors[i % 3])))
            fail_msg("%s %s: %d %s", calls[i / 3].call, calls[i / 3].name, rc,
                     err.text);
        assert_int_equal(disk_open_count(), open_before);
        assert_int_equal(temp_count(), 0);
        assert_true(found_value() == 1);
    }
    dt_ckpt_stage_destroy(stage);
}

/* The process goes on without the save. */
static void what_was_not_written_touches_nothing(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    assert_int_equal(symlink("checkpoint-1", in_root(".tmp-latest")), 0);
    struct dt_ckpt_stage *stage = dt_ckpt_stage_create(memory, ROOM, &err);
    disk_record();
    struct dt_ckpt_writer *writer = dt_ckpt_stage_begin(stage, root, 2, &err);
    assert_true(add_all(writer, &err));
    dt_ckpt_abandon(writer);
    assert_string_equal(disk_recorded(), "");
    assert_int_equal(temp_count(), 1);
    dt_ckpt_stage_destroy(stage);
}

/* Around the sizes that are copied in one go, from and to any place. */
static void a_copy_of_any_size_has_all_bytes(void **state)
{
    static const size_t sizes[] = {0,     1,     63,    64,      65,
                                   4096,  16383, 16384, 16385,   16447,
                                   49151, 65536, 65600, 1048577, 1100000};
    static unsigned char from[1100000 + 64];
    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t shift = 0; shift < 64; shift += 21) {
            struct dt_error err = {0};
            struct dt_ckpt_stage *stage =
                dt_ckpt_stage_create(memory, ROOM, &err);
            assert_int_equal(dt_ckpt_stage_file(stage, "f", &err), 0);
            assert_int_equal(dt_ckpt_stage_put(stage, from, shift, &err), 0);
            assert_int_equal(
                dt_ckpt_stage_put(stage, from + shift, sizes[i], &err), 0);
            assert_int_equal(dt_ckpt_stage_put(stage, "end", 4, &err), 0);
            const char *at = stage->memory + stage->used - sizes[i] - 4;
            assert_memory_equal(at, from + shift, sizes[i]);
            assert_string_equal(at + sizes[i], "end");
            dt_ckpt_stage_destroy(stage);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_written_later_has_the_same_bytes, fill),
        cmocka_unit_test_setup(
            a_disk_that_refuses_to_be_written_directly_is_written, fill),
        cmocka_unit_test_setup(a_stage_is_used_again, fill),
        cmocka_unit_test_setup(ranks_write_in_any_order, fill),
        cmocka_unit_test_setup(a_write_that_fails_leaves_only_what_was_there,
                               fill),
        cmocka_unit_test_setup(what_was_not_written_touches_nothing, fill),
        cmocka_unit_test(a_copy_of_any_size_has_all_bytes),
    };
    return cmocka_run_group_tests_name("ckpt_stage", tests, NULL, NULL);
}
