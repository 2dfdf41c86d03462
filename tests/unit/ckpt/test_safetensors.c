/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - written files read back; every malformed one is told */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "tests/unit/tensor_read.h"
#include "tests/unit/scratch.h"
#include "tensor/tensor.h"

#define AS(type) (type), false, 0 /* the end of a tensor to write */

static struct dt_view view_of(void *data, size_t count, enum dt_dtype dtype,
                              struct dt_buffer *buf)
{
    *buf = (struct dt_buffer){data, count * dt_dtype_bytes(dtype), &dt_cpu};
    return dt_view_of(buf, dtype);
}

/* A file of a length word, a header and `bytes` bytes 0, 1, 2 .. of data. */
static const char *put(const char *header, size_t bytes)
{
    static unsigned char file[1 << 16];
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < bytes; i++)
        file[8 + length + i] = (unsigned char)i;
    return scratch_write("x.safetensors", file, 8 + length + bytes);
}

static void expect_bad(const char *path, const char *text)
{
    struct dt_error err = {0};
    struct dt_safetensors *file = dt_safetensors_open(path, &err);
    dt_safetensors_close(file);
    if (file || !strstr(err.text, text) ||
        strncmp(err.text, path, strlen(path)) != 0)
        fail_msg("expected \"%s\", got \"%s\"", text, err.text);
}

#define T(fields) "{\"a\":{" fields "}}"
#define F32_2 "\"dtype\":\"F32\",\"shape\":[2]"

static const struct {
    const char *header;
    size_t bytes;
    const char *text;
} bad_headers[] = {
    {"", 0, "header does not begin with '{'"},
    {" {}", 0, "header does not begin with '{'"},
    {"[]", 0, "header does not begin with '{'"},
    {"{", 0, "header byte 1: string or '}' expected near end of file"},
    {"{}x", 0, "header byte 3: end of file expected near 'x'"},
    {"{\"\xff\":1}", 0, "unable to decode byte 0xff"},
    {"{\"a\\u0000b\":1}", 0, "NUL byte in object key"},
    {"{\"__metadata__\":1}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"format\":1}}", 0,
     "__metadata__: \"format\" is not a string"},
    {"{\"a\":1}", 0, "tensor \"a\": not an object"},
    {"{\"a\\nb\":1}", 0, "tensor \"a?b\": not an object"},
    {T("\"shape\":[]"), 0, "tensor \"a\": no dtype"},
    {T("\"dtype\":\"F31\""), 0, "tensor \"a\": unknown dtype \"F31\""},
    {T("\"dtype\":\"F32\""), 0, "tensor \"a\": no shape"},
    {T("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1]"), 0,
     "tensor \"a\": 9 dimensions, at most 8 are supported"},
    {T("\"dtype\":\"F32\",\"shape\":[-1]"), 0,
     "tensor \"a\": dimension 0 is not an integer >= 0"},
    {T("\"dtype\":\"F32\",\"shape\":[2, 1.5]"), 0,
     "tensor \"a\": dimension 1 is not an integer >= 0"},
    {T("\"dtype\":\"F32\",\"shape\":[99999999999999999999]"), 0,
     "too big integer"},
    {T("\"dtype\":\"F32\",\"shape\":[4611686018427387904]"), 0,
     "tensor \"a\": the product of its shape overflows"},
    {T("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296]"), 0,
     "tensor \"a\": the product of its shape overflows"},
    {T("\"dtype\":\"F4\",\"shape\":[3]"), 0,
     "tensor \"a\": 12 bits are not a whole number of bytes"},
    {T(F32_2), 8, "tensor \"a\": data_offsets are not two ascending"},
    {T(F32_2 ",\"data_offsets\":[0,8,8]"), 8, "data_offsets are not two"},
    {T(F32_2 ",\"data_offsets\":[0,\"8\"]"), 8, "data_offsets are not two"},
    {T(F32_2 ",\"data_offsets\":[-8,0]"), 8, "data_offsets are not two"},
    {T(F32_2 ",\"data_offsets\":[8,0]"), 8, "data_offsets are not two"},
    {T(F32_2 ",\"data_offsets\":[0,4]"), 8,
     "data_offsets span 4 bytes, its shape and dtype take 8"},
    {T(F32_2 ",\"data_offsets\":[4,12]"), 12,
     "tensor \"a\": begins at 4, after a hole; the data before it that ends "
     "at 0"},
    {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},"
     "\"b\":{" F32_2 ",\"data_offsets\":[4,12]}}",
     12,
     "tensor \"b\": begins at 4, inside the tensor before it that ends at 8"},
    {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},"
     "\"a\":{" F32_2 ",\"data_offsets\":[8,16]}}",
     16, "duplicate object key"},
    {T(F32_2 ",\"data_offsets\":[0,8]"), 7,
     "cut short: tensors take 8 bytes, the file has 7"},
    {T(F32_2 ",\"data_offsets\":[0,8]"), 9,
     "bytes after the last one: tensors take 8 bytes, the file has 9"},
    {T(F32_2 ",\"data_offsets\":[9223372036854775800,9223372036854775807]"), 8,
     "data_offsets span 7 bytes"},
};

static void a_malformed_header_is_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_headers) / sizeof(*bad_headers); i++)
        expect_bad(put(bad_headers[i].header, bad_headers[i].bytes),
                   bad_headers[i].text);
}

static void a_header_of_impossible_length_is_refused(void **state)
{
    uint64_t file[2] = {0};
    (void)state;
    expect_bad(scratch_write("x.safetensors", "1234567", 7),
               "7 bytes, shorter than the header length");
    file[0] = 9;
    expect_bad(scratch_write("x.safetensors", file, 16),
               "cut short: header of 9 bytes in a file of 16");
    file[0] = 100000001;
    expect_bad(scratch_write("x.safetensors", file, 16),
               "header of 100000001 bytes, at most 100000000 are allowed");
    file[0] = UINT64_MAX;
    expect_bad(scratch_write("x.safetensors", file, 16),
               "header of 18446744073709551615 bytes, at most");
    expect_bad(scratch_path("missing"), "cannot open: No such file");
    expect_bad(scratch_path(""), "not a regular file");
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    expect_bad(scratch_path("fifo"), "not a regular file");
}

static void rare_but_legal_headers_are_accepted(void **state)
{
    static const char *headers[] = {
        "{}",
        "{}       ",
        "{\"__metadata__\":{}}",
        "{\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
        "{\"b\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]},"
        "\"z\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[0,0]},"
        "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[1,1]}}",
    };
    static const size_t bytes[] = {0, 0, 0, 1, 1}, counts[] = {0, 0, 0, 1, 3};
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        struct dt_safetensors *file =
            dt_safetensors_open(put(headers[i], bytes[i]), &err);
        if (!file)
            fail_msg("%s: %s", headers[i], err.text);
        assert_int_equal(dt_safetensors_count(file), counts[i]);
        dt_safetensors_close(file);
    }
    dt_safetensors_close(NULL);
}

static void tensors_of_another_shape_or_type_are_refused(void **state)
{
    struct dt_error err;
    struct dt_buffer buf;
    float data[6];
    const size_t shape[] = {2, 3}, swapped[] = {3, 2};
    (void)state;
    struct dt_safetensors *file =
        dt_safetensors_open(put("{\"w\":{\"dtype\":\"I64\",\"shape\":[2,3],"
                                "\"data_offsets\":[0,48]}}",
                                48),
                            &err);
    assert_non_null(file);
    struct dt_view view = view_of(data, 6, DT_F32, &buf);
    assert_int_equal(tensor_read(file, "v", 2, shape, view, &err), -1);
    assert_non_null(strstr(err.text, "x.safetensors: no tensor \"v\""));
    assert_int_equal(tensor_read(file, "w", 2, swapped, view, &err), -1);
    assert_non_null(
        strstr(err.text, "tensor \"w\" is [2, 3], expected [3, 2]"));
    assert_int_equal(tensor_read(file, "w", 1, shape, view, &err), -1);
    assert_non_null(strstr(err.text, "tensor \"w\" is [2, 3], expected [2]"));
    assert_int_equal(tensor_read(file, "w", 2, shape, view, &err), -1);
    assert_non_null(strstr(
        err.text, "tensor \"w\" is I64, expected F32, BF16, F16 or F64"));
    assert_int_equal(dt_safetensors_check(file, "w", 2, shape, DT_BF16, &err),
                     -1);
    assert_non_null(strstr(
        err.text, "tensor \"w\" is I64, expected F32, BF16, F16 or F64"));
    view = view_of(data, 6, DT_I32, &buf);
    assert_int_equal(tensor_read(file, "w", 2, shape, view, &err), -1);
    assert_non_null(strstr(err.text, "tensor \"w\" is I64, expected I32"));
    dt_safetensors_close(file);
}

/* A file that shrinks under us is an error, not a signal: within its last page,
 * where zeros would be read, and by whole pages, in several threads at once.
 */
static void a_file_that_shrinks_is_a_read_error(void **state)
{
    enum { N = 1 << 20 };
    static const size_t lengths[] = {N * 4, N * 2, 0};
    struct dt_error err;
    struct dt_buffer buf;
    const char *path = scratch_path("shrinks.safetensors");
    float *data = calloc(N, sizeof(*data));
    struct dt_ckpt_tensor tensor = {
        "a", 1, {N}, view_of(data, N, DT_F32, &buf), AS(DT_F32)};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        assert_int_equal(
            dt_safetensors_write(path, &tensor, 1, NULL, &(uint64_t){0}, &err),
            0);
        struct dt_safetensors *file = dt_safetensors_open(path, &err);
        assert_non_null(file);
        assert_int_equal(truncate(path, (off_t)lengths[i]), 0);
        assert_int_equal(
            tensor_read(file, "a", 1, tensor.shape, tensor.view, &err), -1);
        assert_int_equal(err.status, EX_IOERR);
        assert_non_null(strstr(err.text, "shrinks.safetensors: changed its "
                                         "size while it was read, or its disk "
                                         "has failed"));
        dt_safetensors_close(file);
    }
    free(data);
}

static void sixteen_bit_floats_are_widened_exactly(void **state)
{
    static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x0400,
                                    0x7bff, 0x7c00, 0xfc00, 0x8000, 0x7e00};
    static const float half_value[] = {1.0f,     -2.0f,    0x1p-24f, 0x3ffp-24f,
                                       0x1p-14f, 65504.0f, INFINITY, -INFINITY,
                                       -0.0f,    NAN};
    static const uint16_t brain[] = {0x3f80, 0xc000, 0x0001, 0x7f80, 0x7fc0};
    static const float brain_value[] = {1.0f, -2.0f, 0x1p-133f, INFINITY, NAN};
    char file_text[256];
    struct dt_error err;
    struct dt_buffer buf;
    float out[10];
    const size_t ten[] = {10}, five[] = {5};
    (void)state;
    int n = snprintf(file_text + 8, 200,
                     "{\"b\":{\"dtype\":\"BF16\",\"shape\":[5],"
                     "\"data_offsets\":[20,30]},\"h\":{\"dtype\":\"F16\","
                     "\"shape\":[10],\"data_offsets\":[0,20]}}");
    uint64_t length = (uint64_t)n;
    memcpy(file_text, &length, 8);
    memcpy(file_text + 8 + n, half, 20);
    memcpy(file_text + 28 + n, brain, 10);
    struct dt_safetensors *file = dt_safetensors_open(
        scratch_write("w.safetensors", file_text, 38 + (size_t)n), &err);
    assert_non_null(file);
    assert_int_equal(
        tensor_read(file, "h", 1, ten, view_of(out, 10, DT_F32, &buf), &err),
        0);
    assert_memory_equal(out, half_value, 9 * sizeof(float));
    assert_true(isnan(out[9]));
    assert_int_equal(
        tensor_read(file, "b", 1, five, view_of(out, 5, DT_F32, &buf), &err),
        0);
    assert_memory_equal(out, brain_value, 4 * sizeof(float));
    assert_true(isnan(out[4]));
    uint16_t same[5];
    assert_int_equal(
        tensor_read(file, "b", 1, five, view_of(same, 5, DT_BF16, &buf), &err),
        0);
    assert_memory_equal(same, brain, sizeof(brain));
    dt_safetensors_close(file);
}

/* Every float type into every other, written as one and read as another, in
 * tensors of several pieces.
 */
static void every_float_type_reads_as_every_other(void **state)
{
    enum { N = 1 << 20 | 12345 };
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    float *in = calloc(N, sizeof(*in)), *out = calloc(N, sizeof(*out));
    struct dt_buffer in_buf, half_buf, out_buf;
    struct dt_error err;
    const char *path = scratch_path("floats.safetensors");
    (void)state;
    for (size_t i = 0; i < N; i++) /* exact in each: 8 bits of mantissa */
        in[i] = (float)(i % 511 - 255.0) * (i & 512 ? 0x1p-8f : 0x1p-14f);
    for (size_t k = 0; k < 27; k++) {
        enum dt_dtype view = types[k % 3], stored = types[k / 3 % 3];
        void *half = calloc(N, 4);
        struct dt_ckpt_tensor tensor = {
            "w", 1, {N}, view_of(half, N, view, &half_buf), AS(stored)};
        dt_convert(half, view, in, DT_F32, N);
        assert_int_equal(
            dt_safetensors_write(path, &tensor, 1, NULL, &(uint64_t){0}, &err),
            0);
        memset(half, 0xff, N * 4);
        struct dt_safetensors *file = dt_safetensors_open(path, &err);
        enum dt_dtype found;
        assert_int_equal(dt_safetensors_dtype(file, "w", &found), 0);
        assert_int_equal(found, stored);
        assert_int_equal(dt_safetensors_dtype(file, "v", &found), -1);
        struct dt_view to = view_of(half, N, types[k / 9], &half_buf);
        if (tensor_read(file, "w", 1, tensor.shape, to, &err) < 0)
            fail_msg("%s", err.text);
        dt_convert(out, DT_F32, half, types[k / 9], N);
        assert_memory_equal(view_of(out, N, DT_F32, &out_buf).buf->data,
                            view_of(in, N, DT_F32, &in_buf).buf->data, N * 4);
        dt_safetensors_close(file);
        free(half);
    }
    free(in);
    free(out);
}

/* What does not fit into the narrower type is rounded, and the data of a file
 * may begin at any byte.
 */
static void values_are_rounded_to_a_narrower_type(void **state)
{
    static const float values[] = {1.00390625f, 1.01171875f, 65519.0f,
                                   1e38f,       -0x1p-25f,   NAN};
    static const uint16_t brain[] = {0x3f80, 0x3f82, 0x4780,
                                     0x7e96, 0xb300, 0x7fc0};
    static const uint16_t half[] = {0x3c04, 0x3c0c, 0x7bff,
                                    0x7c00, 0x8000, 0x7e00};
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}";
    char text[256];
    uint64_t length = strlen(header);
    uint16_t out[6];
    const size_t shape[] = {6};
    struct dt_buffer buf;
    struct dt_error err;
    (void)state;
    for (size_t blanks = 0; blanks < 4; blanks++) {
        uint64_t n = length + blanks;
        memset(text, ' ', sizeof(text));
        memcpy(text, &n, 8);
        memcpy(text + 8, header, length);
        memcpy(text + 8 + n, values, sizeof(values));
        struct dt_safetensors *file = dt_safetensors_open(
            scratch_write("r.safetensors", text, 32 + n), &err);
        assert_non_null(file);
        assert_int_equal(tensor_read(file, "w", 1, shape,
                                     view_of(out, 6, DT_BF16, &buf), &err),
                         0);
        assert_memory_equal(out, brain, sizeof(brain));
        assert_int_equal(tensor_read(file, "w", 1, shape,
                                     view_of(out, 6, DT_F16, &buf), &err),
                         0);
        assert_memory_equal(out, half, sizeof(half));
        dt_safetensors_close(file);
    }
}

static void written_tensors_are_read_back_unchanged(void **state)
{
    int32_t ids[3] = {1, -2, 3};
    int64_t wide[1] = {INT64_MIN};
    uint16_t brain[2] = {0x3f80, 0xbf80};
    float a[6] = {0, 1, 2, 3, 4, 5}, b[6], none[1], scalar[1] = {7.0f};
    struct dt_buffer bufs[7];
    struct dt_ckpt_tensor tensors[] = {
        {"brain", 1, {2}, view_of(brain, 2, DT_BF16, &bufs[0]), AS(DT_BF16)},
        {"ids", 1, {3}, view_of(ids, 3, DT_I32, &bufs[1]), AS(DT_I32)},
        {"b \"quoted\"",
         2,
         {2, 3},
         view_of(a, 6, DT_F32, &bufs[2]),
         AS(DT_F32)},
        {"a", 0, {0}, view_of(scalar, 1, DT_F32, &bufs[3]), AS(DT_F32)},
        {"empty", 2, {0, 4}, view_of(none, 0, DT_F32, &bufs[4]), AS(DT_F32)},
        {"wide", 1, {1}, view_of(wide, 1, DT_I64, &bufs[5]), AS(DT_I64)},
    };
    const char *path = scratch_path("round.safetensors");
    struct dt_error err;
    struct dt_map map;
    uint64_t xxh3;
    (void)state;
    assert_int_equal(dt_safetensors_write(path, tensors, 6, NULL, &xxh3, &err),
                     0);
    assert_int_equal(dt_map_init(&map, path, &err), 0);
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"wide\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
        "\"b \\\"quoted\\\"\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[12,36]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],"
        "\"data_offsets\":[36,36]},"
        "\"ids\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[36,48]},"
        "\"brain\":{\"dtype\":\"BF16\",\"shape\":[2],"
        "\"data_offsets\":[48,52]}}";
    assert_memory_equal((const char *)map.data + 8, header, strlen(header));
    uint64_t length;
    memcpy(&length, map.data, 8);
    assert_int_equal(length, (strlen(header) + 7) / 8 * 8);
    assert_true(xxh3 == XXH3_64bits(map.data, map.bytes));
    dt_map_fini(&map);

    struct dt_safetensors *file = dt_safetensors_open(path, &err);
    assert_non_null(file);
    assert_int_equal(dt_safetensors_count(file), 6);
    assert_string_equal(dt_safetensors_name(file, 0), "a");
    assert_string_equal(dt_safetensors_name(file, 5), "wide");
    assert_int_equal(tensor_read(file, "b \"quoted\"", 2, tensors[2].shape,
                                 view_of(b, 6, DT_F32, &bufs[6]), &err),
                     0);
    assert_memory_equal(a, b, sizeof(a));
    assert_int_equal(
        tensor_read(file, "a", 0, NULL, view_of(b, 1, DT_F32, &bufs[6]), &err),
        0);
    assert_true(b[0] == 7.0f);
    dt_safetensors_close(file);
}

static void equal_tensors_agree_in_shape_type_and_data(void **state)
{
    float a[6] = {0, 1, 2, 3, 4, 5}, b[6] = {0, 1, 2, 3, 4, 6};
    struct dt_buffer bufs[2];
    struct dt_view va = view_of(a, 6, DT_F32, &bufs[0]);
    struct dt_ckpt_tensor tensors[] = {
        {"a", 2, {2, 3}, va, AS(DT_F32)},
        {"same", 2, {2, 3}, va, AS(DT_F32)},
        {"other", 2, {2, 3}, view_of(b, 6, DT_F32, &bufs[1]), AS(DT_F32)},
        {"shape", 2, {3, 2}, va, AS(DT_F32)},
        {"dtype", 2, {2, 3}, va, AS(DT_BF16)},
    };
    static const int expected[] = {1, 1, 0, 0, 0};
    const char *path = scratch_path("equal.safetensors");
    struct dt_error err;
    (void)state;
    assert_int_equal(
        dt_safetensors_write(path, tensors, 5, NULL, &(uint64_t){0}, &err), 0);
    struct dt_safetensors *file = dt_safetensors_open(path, &err);
    assert_non_null(file);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(dt_safetensors_equal(file, "a", tensors[i].name, &err),
                         expected[i]);
    assert_int_equal(dt_safetensors_equal(file, "a", "b", &err), -1);
    assert_non_null(strstr(err.text, "no tensor \"b\""));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(dt_safetensors_equal(file, "a", "same", &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    dt_safetensors_close(file);
}

static void a_failed_write_leaves_no_file_behind(void **state)
{
    struct dt_error err;
    uint64_t xxh3;
    (void)state;
    assert_int_equal(dt_safetensors_write(scratch_path("no/such"), NULL, 0,
                                          NULL, &xxh3, &err),
                     -1);
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "no/such: cannot create: No such file"));
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(symlink("/dev/full", scratch_path("full")), 0);
    assert_int_equal(
        dt_safetensors_write(scratch_path("full"), NULL, 0, NULL, &xxh3, &err),
        -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, "full: cannot write: No space left"));
    assert_int_not_equal(access(scratch_path("full"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_malformed_header_is_refused_with_the_reason),
        cmocka_unit_test(a_header_of_impossible_length_is_refused),
        cmocka_unit_test(rare_but_legal_headers_are_accepted),
        cmocka_unit_test(tensors_of_another_shape_or_type_are_refused),
        cmocka_unit_test(a_file_that_shrinks_is_a_read_error),
        cmocka_unit_test(sixteen_bit_floats_are_widened_exactly),
        cmocka_unit_test(every_float_type_reads_as_every_other),
        cmocka_unit_test(values_are_rounded_to_a_narrower_type),
        cmocka_unit_test(written_tensors_are_read_back_unchanged),
        cmocka_unit_test(equal_tensors_agree_in_shape_type_and_data),
        cmocka_unit_test(a_failed_write_leaves_no_file_behind),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
