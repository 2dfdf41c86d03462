/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_torch.c - weights of torch.save, and files that only look like them
 *
 * The files are in torch/, and torch/make_torch.py wrote them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ckpt/safetensors.h"
#include "tests/unit/scratch.h"

#define INDEX "pytorch_model.bin.index.json"

static void read_source(const char *name, struct dt_map *map)
{
    char path[600];
    struct dt_error err;
    const char *root = getenv("DT_SRCDIR");
    snprintf(path, sizeof(path), "%s/tests/unit/torch/%s", root ? root : ".",
             name);
    if (dt_map_init(map, path, &err) < 0)
        fail_msg("%s", err.text);
}

/* Puts a file of torch/ into the directory of the model. */
static void put(const char *source, const char *name)
{
    struct dt_map map;
    read_source(source, &map);
    scratch_write(name, map.data, map.bytes);
    dt_map_fini(&map);
}

static struct dt_safetensors *open_file(const char *source,
                                        struct dt_error *err)
{
    put(source, "pytorch_model.bin");
    *err = (struct dt_error){0};
    return dt_safetensors_open_model(scratch_root, err);
}

/* Reads a tensor of any shape, of a float type or, if not, as it is. */
static size_t read_values(const struct dt_safetensors *st, const char *name,
                          size_t rows, size_t columns, double values[8])
{
    static float floats[8];
    static int64_t integers[8];
    struct dt_buffer buf = {floats, sizeof(floats), &dt_cpu};
    struct dt_buffer wide = {integers, sizeof(integers), &dt_cpu};
    const size_t shape[] = {rows, columns}, count = rows * columns;
    enum dt_dtype dtype;
    struct dt_error err;
    assert_int_equal(dt_safetensors_dtype(st, name, &dtype), 0);
    const bool is_integer = dtype == DT_I64;
    struct dt_view view = dt_view_slice(
        dt_view_of(is_integer ? &wide : &buf, is_integer ? DT_I64 : DT_F32), 0,
        count);
    const int ndim = rows == 1 && strcmp(name, "bf16") != 0 ? 1 : 2;
    if (dt_safetensors_read(st, name, ndim, shape + 2 - ndim, view, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++)
        values[i] = is_integer ? (double)integers[i] : (double)floats[i];
    return count;
}

static void every_type_and_view_is_read_as_pytorch_has_it(void **state)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"again", 1, 2}, {"bf16", 1, 3}, {"f16", 1, 3},
                   {"f32", 2, 3},   {"f64", 2, 2},  {"first", 1, 2},
                   {"i64", 1, 2},   {"last", 1, 2}, {"parameter", 1, 2}};
    struct dt_error err;
    struct dt_map map;
    (void)state;
    struct dt_safetensors *st = open_file("good.bin", &err);
    if (!st)
        fail_msg("%s", err.text);
    assert_int_equal(dt_safetensors_count(st), 12);
    read_source("good.txt", &map);
    char *text = strndup(map.data, map.bytes);
    dt_map_fini(&map);
    for (size_t t = 0; t < sizeof(tensors) / sizeof(tensors[0]); t++) {
        double values[8];
        char begin[32];
        snprintf(begin, sizeof(begin), "%s ", tensors[t].name);
        const char *line = strstr(text, begin);
        assert_non_null(line);
        char *at = (char *)(uintptr_t)line + strlen(begin);
        size_t n = read_values(st, tensors[t].name, tensors[t].rows,
                               tensors[t].columns, values);
        for (size_t i = 0; i < n; i++)
            if ((float)strtod(at, &at) != (float)values[i])
                fail_msg("%s[%zu] is %g", tensors[t].name, i, values[i]);
    }
    assert_int_equal(dt_safetensors_equal(st, "again", "last", &err), 1);
    free(text);
    dt_safetensors_close(st);
}

static void whatever_is_no_dictionary_of_tensors_is_refused(void **state)
{
    static const struct {
        const char *file, *text;
    } cases[] = {
        {"evil.bin", "posix.system is not part of a dictionary of tensors; it "
                     "was not called"},
        {"module.bin", "torch.nn.modules.linear.Linear is not part of a "
                       "dictionary of tensors; it was not called"},
        {"transposed.bin", "data.pkl: \"w\" is not in the order of its shape: "
                           "save its contiguous()"},
        {"nested.bin",
         "data.pkl: \"model\" is a dictionary: expected a tensor"},
        {"number.bin", "data.pkl: \"epoch\" is a number: expected a tensor"},
        {"list.bin", "operation 0x5d, which torch.save of a dictionary of "
                     "tensors does not need"},
        {"old.bin", "the format of PyTorch before 1.6: let PyTorch write it "
                    "again, torch.save(torch.load(FILE), FILE)"},
        {"packed.bin", "data.pkl is compressed or encrypted: torch.save does "
                       "neither"},
        {"good.txt", "not a file of torch.save"},
    };
    static const char few[] = "x";
    (void)state;
    unlink("/tmp/evil");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_error err;
        struct dt_safetensors *st = open_file(cases[i].file, &err);
        assert_null(st);
        assert_int_equal(err.status, EX_DATAERR);
        if (strncmp(err.text, scratch_root, strlen(scratch_root)) != 0 ||
            !strstr(err.text, cases[i].text))
            fail_msg("%s: %s", cases[i].file, err.text);
    }
    assert_int_equal(access("/tmp/evil", F_OK), -1);
    for (size_t n = 0; n < sizeof(few); n++) {
        struct dt_error err;
        scratch_write("pytorch_model.bin", few, n);
        assert_null(dt_safetensors_open_model(scratch_root, &err));
        assert_non_null(
            strstr(err.text, n ? "pytorch_model.bin: not a file of torch.save"
                               : "pytorch_model.bin: empty"));
    }
}

/* Cut anywhere, a file is refused, and nothing outside of it is read. */
static void a_file_that_is_cut_short_is_refused(void **state)
{
    struct dt_map map;
    (void)state;
    read_source("good.bin", &map);
    for (size_t n = 0; n < map.bytes; n += 13) {
        struct dt_error err;
        scratch_write("pytorch_model.bin", map.data, n);
        if (dt_safetensors_open_model(scratch_root, &err))
            fail_msg("%zu bytes are enough", n);
    }
    dt_map_fini(&map);
}

static void shards_are_found_by_their_index(void **state)
{
    static const char good[] = "{\"weight_map\": {\"a\": \"p-1.bin\", \"b\": "
                               "\"p-1.bin\", \"c\": \"p-2.bin\"}}";
    static const char bad[] = "{\"weight_map\": {\"a\": \"p-1.bin\", \"b\": "
                              "\"p-1.bin\", \"d\": \"p-2.bin\"}}";
    struct dt_error err;
    (void)state;
    unlink(scratch_path("pytorch_model.bin"));
    put("part-1.bin", "p-1.bin");
    put("part-2.bin", "p-2.bin");
    scratch_write(INDEX, good, strlen(good));
    struct dt_safetensors *st = dt_safetensors_open_model(scratch_root, &err);
    if (!st)
        fail_msg("%s", err.text);
    assert_int_equal(dt_safetensors_count(st), 3);
    dt_safetensors_close(st);
    scratch_write(INDEX, bad, strlen(bad));
    assert_null(dt_safetensors_open_model(scratch_root, &err));
    assert_non_null(strstr(err.text, INDEX ": tensor \"d\" is not in p-2.bin"));
    unlink(scratch_path(INDEX));
}

static void safetensors_come_first(void **state)
{
    static const char empty[] = "\x02\0\0\0\0\0\0\0{}";
    struct dt_error err;
    (void)state;
    put("evil.bin", "pytorch_model.bin");
    scratch_write("model.safetensors", empty, sizeof(empty) - 1);
    struct dt_safetensors *st = dt_safetensors_open_model(scratch_root, &err);
    assert_non_null(st);
    assert_int_equal(dt_safetensors_count(st), 0);
    dt_safetensors_close(st);
    unlink(scratch_path("model.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_view_is_read_as_pytorch_has_it),
        cmocka_unit_test(whatever_is_no_dictionary_of_tensors_is_refused),
        cmocka_unit_test(a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(shards_are_found_by_their_index),
        cmocka_unit_test(safetensors_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
