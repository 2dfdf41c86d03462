/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_model.c - the files of a model, and an index that lies */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ckpt/safetensors.h"
#include "tests/unit/tensor_read.h"
#include "tests/unit/scratch.h"

#define INDEX "model.safetensors.index.json"

/* Writes `file` with the tensors of `names`, each one value: its number. */
static void write_file(const char *file, const char *const *names)
{
    struct dt_ckpt_tensor tensors[8] = {0};
    float values[8];
    struct dt_buffer buf = {values, sizeof(values), &dt_cpu};
    struct dt_error err;
    size_t count = 0;
    for (; names[count]; count++) {
        values[count] = (float)(names[count][0] - 'a');
        tensors[count] = (struct dt_ckpt_tensor){
            .name = names[count],
            .view = dt_view_slice(dt_view_of(&buf, DT_F32), count, 1),
        };
    }
    if (dt_safetensors_write(scratch_path(file), tensors, count, NULL,
                             &(uint64_t){0}, &err) < 0)
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    (void)state;
    write_file("m-1.safetensors", (const char *const[]){"a", "c", NULL});
    write_file("m-2.safetensors", (const char *const[]){"b", NULL});
    unlink(scratch_path("model.safetensors"));
    unlink(scratch_path(INDEX));
    return 0;
}

static struct dt_safetensors *open_index(const char *text, struct dt_error *err)
{
    scratch_write(INDEX, text, strlen(text));
    return dt_safetensors_open_model(scratch_root, err);
}

#define MAP(entries)                                                           \
    "{\"metadata\": {\"total_size\": 99999999999999999999}, "                  \
    "\"weight_map\": {" entries "}}"
#define A1 "\"a\": \"m-1.safetensors\""
#define B2 "\"b\": \"m-2.safetensors\""
#define C1 "\"c\": \"m-1.safetensors\""

static float read_one(const struct dt_safetensors *st, const char *name)
{
    float value = -1;
    struct dt_buffer buf = {&value, sizeof(value), &dt_cpu};
    struct dt_error err;
    if (tensor_read(st, name, 0, NULL, dt_view_of(&buf, DT_F32), &err) < 0)
        fail_msg("%s", err.text);
    return value;
}

static void an_index_joins_its_files_into_one_model(void **state)
{
    struct dt_error err = {0};
    (void)state;
    struct dt_safetensors *st = open_index(MAP(C1 "," B2 "," A1), &err);
    if (!st)
        fail_msg("%s", err.text);
    assert_int_equal(dt_safetensors_count(st), 3);
    for (size_t i = 0; i < 3; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        assert_string_equal(dt_safetensors_name(st, i), name);
        assert_true(read_one(st, name) == (float)i);
    }
    dt_safetensors_close(st);
}

static void shards_may_be_in_a_folder_below_the_index(void **state)
{
    struct dt_error err = {0};
    (void)state;
    mkdir(scratch_path("shards"), 0700);
    write_file("shards/m-1.safetensors", (const char *const[]){"a", "c", NULL});
    write_file("shards/m-2.safetensors", (const char *const[]){"b", NULL});
    struct dt_safetensors *st =
        open_index(MAP("\"a\": \"shards/m-1.safetensors\", \"c\": "
                       "\"shards/m-1.safetensors\", \"b\": "
                       "\"shards/m-2.safetensors\""),
                   &err);
    if (!st)
        fail_msg("%s", err.text);
    assert_true(read_one(st, "b") == 1 && read_one(st, "c") == 2);
    dt_safetensors_close(st);
    /* one of the same name is another file */
    assert_null(
        open_index(MAP("\"a\": \"shards/m-1.safetensors\", " B2 "," C1), &err));
    assert_non_null(strstr(err.text, "/m-1.safetensors: tensor \"a\" is in "));
}

/* As the reference: the single file wins over an index left beside it. */
static void a_single_file_wins_over_an_index(void **state)
{
    struct dt_error err;
    (void)state;
    write_file("model.safetensors", (const char *const[]){"d", NULL});
    struct dt_safetensors *st = open_index("no JSON", &err);
    assert_non_null(st);
    assert_int_equal(dt_safetensors_count(st), 1);
    assert_true(read_one(st, "d") == 3);
    dt_safetensors_close(st);
}

static void doubles_are_rounded_to_floats_and_must_fit(void **state)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}}";
    const uint64_t length = sizeof(header) - 1;
    double from[] = {0.1, 0x1.ffffffp-1, -0x1p-149};
    float out[3];
    struct dt_buffer buf = {out, sizeof(out), &dt_cpu};
    const struct dt_ckpt_tensor w = {.name = "w",
                                     .ndim = 1,
                                     .shape = {3},
                                     .view = dt_view_of(&buf, DT_F32),
                                     .finite = true};
    char file[8 + sizeof(header) + sizeof(from)];
    struct dt_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        memcpy(file, &length, 8);
        memcpy(file + 8, header, length);
        memcpy(file + 8 + length, from, sizeof(from));
        scratch_write("model.safetensors", file, 8 + length + sizeof(from));
        struct dt_safetensors *st =
            dt_safetensors_open_model(scratch_root, &err);
        assert_non_null(st);
        assert_int_equal(dt_safetensors_read_all(st, &w, 1, &err), -i);
        dt_safetensors_close(st);
        if (i == 0)
            assert_true(out[0] == 0.1f && out[1] == 1 && out[2] == -0x1p-149f);
        from[1] = 0x1p128;
    }
    assert_non_null(strstr(err.text, "tensor \"w\" has values that are NaN or "
                                     "infinite, or too large for fp32"));
}

/* Which transformers leaves there when it saves safetensors beside them. */
static void pickled_weights_beside_safetensors_are_not_looked_at(void **state)
{
    struct dt_error err;
    (void)state;
    scratch_write("pytorch_model.bin", "", 0);
    struct dt_safetensors *st = open_index(MAP(C1 "," B2 "," A1), &err);
    assert_non_null(st);
    assert_int_equal(dt_safetensors_count(st), 3);
    dt_safetensors_close(st);
    unlink(scratch_path("pytorch_model.bin"));
}

static const struct {
    const char *index, *text; /* after the path of the index */
    int status;
} bad[] = {
    {"", ":1:0: '[' or '{' expected near end of file", EX_DATAERR},
    {"{]", ":1:2: string or '}' expected near ']'", EX_DATAERR},
    {"[]", ": no weight_map", EX_DATAERR},
    {"{}", ": no weight_map", EX_DATAERR},
    {"{\"weight_map\": []}", ": no weight_map", EX_DATAERR},
    {MAP(""), ": no weight_map", EX_DATAERR},
    {MAP("\"a\": 1"), ": tensor \"a\": expected the name of a file",
     EX_DATAERR},
    {MAP("\"a\\n\": \"\""),
     ": tensor \"a?\": \"\" is not the name of a file beside or below the "
     "index",
     EX_DATAERR},
    {MAP("\"a\": \"/etc/passwd\""),
     ": tensor \"a\": \"/etc/passwd\" is not the name of a file beside or "
     "below the index",
     EX_DATAERR},
    {MAP("\"a\": \"../m-1.safetensors\""),
     ": tensor \"a\": \"../m-1.safetensors\" is not the name of a file beside "
     "or below the index",
     EX_DATAERR},
    {MAP("\"a\": \"a\\nb\""),
     ": tensor \"a\": \"a?b\" is not the name of a file beside or below the "
     "index",
     EX_DATAERR},
    {MAP("\"a\": \"..\""),
     ": tensor \"a\": \"..\" is not the name of a file beside or below the "
     "index",
     EX_DATAERR},
    {MAP("\"a\": \"sub/../../a\""),
     ": tensor \"a\": \"sub/../../a\" is not the name of a file beside or "
     "below the index",
     EX_DATAERR},
    {MAP("\"a\": \"sub/m-1.safetensors\""),
     "/sub/m-1.safetensors: cannot open: No such file or directory",
     EX_NOINPUT},
    {MAP("\"a\": \".\""), "/.: not a regular file", EX_NOINPUT},
    {MAP(A1 ", \"b\": \"m-3.safetensors\""),
     "/m-3.safetensors: cannot open: No such file or directory", EX_NOINPUT},
    {MAP(A1 "," A1), ":1:92: duplicate object key", EX_DATAERR},
    {MAP(A1 "," B2), ": tensor \"c\" of m-1.safetensors is not listed",
     EX_DATAERR},
    {MAP(A1 "," B2 "," C1 ", \"d\": \"m-2.safetensors\""),
     ": tensor \"d\" is not in m-2.safetensors, nor in any other file",
     EX_DATAERR},
    {MAP(A1 "," C1 ", \"b\": \"m-1.safetensors\""),
     ": tensor \"b\" is not in m-1.safetensors, nor in any other file",
     EX_DATAERR},
    {MAP(A1 "," B2 ", \"c\": \"m-2.safetensors\""),
     ": tensor \"c\" is in m-1.safetensors, not in m-2.safetensors",
     EX_DATAERR},
};

static void a_wrong_index_is_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_error err = {0};
        struct dt_safetensors *st = open_index(bad[i].index, &err);
        const char *index = scratch_path(INDEX);
        if (st || strncmp(err.text, index, strlen(index)) != 0 ||
            !strstr(err.text, bad[i].text) || err.status != bad[i].status)
            fail_msg("expected \"%s\", got \"%s\"", bad[i].text, err.text);
    }
}

static void a_tensor_in_two_files_is_refused(void **state)
{
    struct dt_error err = {0};
    (void)state;
    write_file("m-2.safetensors", (const char *const[]){"b", "a", NULL});
    assert_null(open_index(MAP(A1 "," B2 "," C1), &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "m-2.safetensors: tensor \"a\" is in "));
    assert_non_null(strstr(err.text, "m-1.safetensors, too"));
}

static void a_directory_without_a_model_is_refused(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_null(dt_safetensors_open_model(scratch_root, &err));
    assert_int_equal(err.status, EX_NOINPUT);
    assert_non_null(strstr(err.text, ": no weights here: expected "
                                     "model.safetensors, or "
                                     "model.safetensors.index.json and its "
                                     "shards"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        TEST(an_index_joins_its_files_into_one_model),
        TEST(shards_may_be_in_a_folder_below_the_index),
        TEST(a_single_file_wins_over_an_index),
        TEST(doubles_are_rounded_to_floats_and_must_fit),
        TEST(pickled_weights_beside_safetensors_are_not_looked_at),
        TEST(a_wrong_index_is_refused_with_the_reason),
        TEST(a_tensor_in_two_files_is_refused),
        TEST(a_directory_without_a_model_is_refused),
    };
    return cmocka_run_group_tests_name("safetensors_model", tests, NULL, NULL);
}
