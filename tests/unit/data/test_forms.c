/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_forms.c - the same rows in every form have the same tokens
 *
 * The files are in forms/, and forms/make_forms.py wrote them.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/codec.h"
#include "data/jsonl.h"
#include "data/forms/forms.h"
#include "data/prompts.h"
#include "tests/unit/data/examples_file.h"

static const char *source(const char *name)
{
    static char paths[2][600];
    static unsigned next;
    const char *root = getenv("DT_SRCDIR");
    char *path = paths[next++ % 2];
    snprintf(path, sizeof(paths[0]), "%s/tests/unit/data/forms/%s",
             root ? root : ".", name);
    return path;
}

/* The same rows as in the .jsonl file. */
static const struct {
    const char *lines, *file;
} forms[] = {
    {"alpaca.jsonl", "alpaca.json"},
    {"alpaca.jsonl", "alpaca.line.json"},
    {"alpaca.jsonl", "alpaca.csv"},
    {"alpaca.jsonl", "alpaca.index.csv"},
    {"alpaca.jsonl", "alpaca.tsv"},
    {"alpaca.jsonl", "alpaca.csv.gz"},
    {"alpaca.jsonl", "alpaca.jsonl.gz"},
    {"alpaca.jsonl", "alpaca.jsonl.zst"},
    {"pairs.jsonl", "pairs.json"},
    {"pairs.jsonl", "pairs.csv"},
    {"pairs.jsonl", "pairs.index.csv"},
    {"pairs.jsonl", "pairs.tsv"},
    {"pairs.jsonl", "pairs.csv.gz"},
    {"pairs.jsonl", "pairs.jsonl.zst"},
    {"chats.jsonl", "chats.json"},
    {"chats.jsonl", "chats.line.json"},
    {"chats.jsonl", "chats.jsonl.gz"},
    {"chats.jsonl", "chats.jsonl.zst"},
    {"ids.jsonl", "ids.json"},
    {"ids.jsonl", "ids.jsonl.gz"},
    {"alpaca.jsonl", "alpaca.snappy.parquet"},
    {"alpaca.jsonl", "alpaca.gzip.parquet"},
    {"alpaca.jsonl", "alpaca.zstd.parquet"},
    {"alpaca.jsonl", "alpaca.v2.parquet"},
    {"alpaca.jsonl", "alpaca.plain.parquet"},
    {"alpaca.jsonl", "alpaca.arrow"},
    {"chats.jsonl", "chats.snappy.parquet"},
    {"chats.jsonl", "chats.gzip.parquet"},
    {"chats.jsonl", "chats.zstd.parquet"},
    {"chats.jsonl", "chats.v2.parquet"},
    {"chats.jsonl", "chats.plain.parquet"},
    {"chats.jsonl", "chats.arrow"},
    {"ids.jsonl", "ids.snappy.parquet"},
    {"ids.jsonl", "ids.gzip.parquet"},
    {"ids.jsonl", "ids.zstd.parquet"},
    {"ids.jsonl", "ids.v2.parquet"},
    {"ids.jsonl", "ids.plain.parquet"},
    {"ids.jsonl", "ids.arrow"},
};

static bool is_built(const char *name)
{
    return strstr(name, ".gz")    ? dt_codec_is_built(DT_CODEC_GZIP)
           : strstr(name, ".zst") ? dt_codec_is_built(DT_CODEC_ZSTD)
                                  : true;
}

static void compare_examples(const struct dt_examples *a,
                             const struct dt_examples *b, const char *file)
{
    if (dt_examples_count(a) != dt_examples_count(b))
        fail_msg("%s: %zu examples, not %zu", file, dt_examples_count(b),
                 dt_examples_count(a));
    for (size_t i = 0; i < dt_examples_count(a); i++) {
        size_t n, m;
        const uint32_t *wanted = dt_example(a, i, &n);
        const uint32_t *got = dt_example(b, i, &m);
        if (n != m || memcmp(wanted, got, n * sizeof(*got)) != 0)
            fail_msg("%s: example %zu differs", file, i);
    }
}

static void every_form_has_the_tokens_of_the_lines(void **state)
{
    struct dt_example_options options = usual();
    (void)state;
    options.cache_dir = scratch_path("cache");
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (!is_built(forms[i].file))
            continue;
        options.format = strncmp(forms[i].file, "pairs", 5) == 0
                             ? DT_FORMAT_PREFERENCE
                             : DT_FORMAT_AUTO;
        struct dt_examples *a = open_good(source(forms[i].lines), &options);
        struct dt_examples *b = open_good(source(forms[i].file), &options);
        compare_examples(a, b, forms[i].file);
        dt_examples_close(b);
        b = open_good(source(forms[i].file), &options);
        if (made)
            fail_msg("%s: its cache is made twice", forms[i].file);
        compare_examples(a, b, forms[i].file);
        dt_examples_close(a);
        dt_examples_close(b);
    }
}

static struct dt_prompts *open_prompts(const char *name)
{
    struct dt_prompts_options options = {
        .lines = usual(), .max_length = 1000, .vocab_size = 300};
    struct dt_error err;
    const char *path = source(name);
    struct dt_prompts *prompts =
        dt_prompts_open(&path, 1, tokenizer, &options, &err);
    if (!prompts)
        fail_msg("%s", err.text);
    return prompts;
}

static void prompts_are_read_from_every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (!is_built(forms[i].file) ||
            (strncmp(forms[i].file, "alpaca", 6) != 0 &&
             strncmp(forms[i].file, "pairs", 5) != 0))
            continue;
        struct dt_prompts *a = open_prompts(forms[i].lines);
        struct dt_prompts *b = open_prompts(forms[i].file);
        assert_int_equal(dt_prompts_stats(a).count, dt_prompts_stats(b).count);
        for (size_t p = 0; p < dt_prompts_stats(a).count; p++) {
            size_t n, m;
            const int32_t *wanted = dt_prompts_ids(a, p, &n);
            const int32_t *got = dt_prompts_ids(b, p, &m);
            if (n != m || memcmp(wanted, got, n * sizeof(*got)) != 0)
                fail_msg("%s: prompt %zu differs", forms[i].file, p);
        }
        dt_prompts_close(a);
        dt_prompts_close(b);
    }
}

/* --- tables --- */

static const struct {
    const char *name, *bytes, *lines;
} good[] = {
    {"a.csv", "a,b\n1,\"2\"\n", "\n{\"a\":\"1\",\"b\":\"2\"}\n"},
    {"a.csv",
     "\xef\xbb\xbf"
     "a\r\n\r\n1\r\n",
     "\n\n{\"a\":\"1\"}\n"},
    {"a.csv", "a,b\n\"x\ny\",\n3,4",
     "\n{\"a\":\"x\\u000ay\",\"b\":null}\n\n{\"a\":\"3\",\"b\":\"4\"}\n"},
    {"a.csv", "a\n\"\"\"q\"\"\"\n", "\n{\"a\":\"\\\"q\\\"\"}\n"},
    {"a.csv", "a\nx\"y\\\n", "\n{\"a\":\"x\\\"y\\\\\"}\n"},
    {"a.csv", ",a\n7,x\n", "\n{\"a\":\"x\"}\n"},
    {"a.csv", "a,b\n1,2\r3,4\r",
     "\n{\"a\":\"1\",\"b\":\"2\"}\n{\"a\":\"3\",\"b\":\"4\"}\n"},
    {"a.tsv", "a\tb\n1,2\t\"\t\"\n", "\n{\"a\":\"1,2\",\"b\":\"\\u0009\"}\n"},
    {"a.json", "[]", ""},
    {"a.json", "\xef\xbb\xbf [ {\"a\":\"]}\\\"\\\\\"} ,\n{\n\"b\":[1,\n{}]}]\n",
     "{\"a\":\"]}\\\"\\\\\"}\n{ \"b\":[1, {}]}\n"},
    {"a.jsonl", "{}\n\n{}", "{}\n\n{}"},
};

static const struct {
    const char *name, *bytes, *text;
} bad[] = {
    {"a.csv", "a,b\n1\n", ":2: 1 fields, but the first line names 2 columns"},
    {"a.csv", "a,b\n\"1\n\",2\n1,2,3\n",
     ":4: 3 fields, but the first line names 2 columns"},
    {"a.csv", "a\n1\n\"2\n3\n",
     ":3: the quote that begins a field here is not closed"},
    {"a.csv", "a\n\"1\"2\n",
     ":2: text behind the quote that closes a field: "
     "a quote within is written twice"},
    {"a.csv", "a,b,a\n", ":1: two columns of the name a"},
    {"a.csv", "\n\n", ":1: empty: expected the names of columns"},
    {"a.csv", ",\n1,2\n", ":1: expected the names of columns"},
    {"a.csv", "text;x\na;b\n",
     ":1: names of columns separated by semicolons, expected commas"},
    {"a.tsv", "a,b\n",
     ":1: names of columns separated by commas, expected tabs"},
    {"a.json", "[1]", ": row 1: line 1: expected an object in the JSON array"},
    {"a.json", "[{},\n {\"a\": 1}\n {}]",
     ": row 3: line 3: expected , or ] behind an object"},
    {"a.json", "[{}, ]",
     ": row 2: line 1: expected an object in the JSON array"},
    {"a.json", "[{}] {}",
     ": row 2: line 1: the file goes on behind its JSON array"},
    {"a.json", "[{}, {\"a",
     ": row 2: line 1: the file ends within its JSON array"},
    {"a.json", "[{\"a\n\"}]",
     ": row 1: line 2: a line break in a string: expected \\n"},
};

static int read_lines(const char *name, const char *bytes, uint64_t most,
                      struct dt_map *lines, struct dt_error *err)
{
    const char *path = scratch_write(name, bytes, strlen(bytes));
    struct dt_found found;
    return dt_kind_find(path, DT_ASKED_LINES, &found, err) < 0
               ? -1
               : dt_lines_read(lines, path, &found, NULL, most, NULL, NULL,
                               err);
}

static void rows_become_lines_with_the_numbers_of_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct dt_map lines;
        struct dt_error err;
        if (read_lines(good[i].name, good[i].bytes, 0, &lines, &err) < 0)
            fail_msg("%zu: %s", i, err.text);
        if (lines.bytes != strlen(good[i].lines) ||
            (lines.bytes > 0 &&
             memcmp(lines.data, good[i].lines, lines.bytes) != 0))
            fail_msg("%zu: got %.*s", i, (int)lines.bytes,
                     (const char *)lines.data);
        dt_map_fini(&lines);
    }
}

static void a_malformed_file_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_map lines;
        struct dt_error err;
        int rc = read_lines(bad[i].name, bad[i].bytes, 0, &lines, &err);
        const char *text =
            rc < 0 ? err.text + strlen(scratch_path(bad[i].name)) : "none";
        if (rc == 0 || err.status != EX_DATAERR ||
            strcmp(text, bad[i].text) != 0)
            fail_msg("%zu: expected \"%s\", got \"%s\"", i, bad[i].text, text);
    }
}

static void as_many_rows_are_read_as_wanted(void **state)
{
    static const char *const texts[][2] = {
        {"a.csv", "a\n\"\n\n\n\"\n2\n3\n"},
        {"a.json", "[{\"a\":1}, {}, {}]"},
        {"a.jsonl", "{}\n{}\n{}\n"},
    };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct dt_map lines;
        struct dt_error err;
        size_t rows = 0;
        assert_int_equal(read_lines(texts[i][0], texts[i][1], 1, &lines, &err),
                         0);
        for (size_t k = 0; k < lines.bytes; k++)
            rows += ((const char *)lines.data)[k] == '{';
        assert_int_equal(rows, 1);
        dt_map_fini(&lines);
    }
}

/* --- columns --- */

static void read_file(const char *name, struct dt_map *lines)
{
    struct dt_found found;
    struct dt_error err;
    if (dt_kind_find(source(name), DT_ASKED_AUTO, &found, &err) < 0 ||
        dt_lines_read(lines, source(name), &found, NULL, 0, NULL, NULL, &err) <
            0)
        fail_msg("%s", err.text);
}

/* Compares lines as JSON: keys may be in another order. */
static void compare_lines(const struct dt_map *a, const struct dt_map *b,
                          const char *name)
{
    size_t at[2] = {0}, n, m;
    uint64_t number[2] = {0};
    const char *wanted, *got;
    while (
        (wanted = dt_jsonl_next(a->data, a->bytes, &at[0], &number[0], &n))) {
        got = dt_jsonl_next(b->data, b->bytes, &at[1], &number[1], &m);
        json_t *x = json_loadb(wanted, n, JSON_DECODE_INT_AS_REAL, NULL);
        json_t *y =
            got ? json_loadb(got, m, JSON_DECODE_INT_AS_REAL, NULL) : NULL;
        if (!x || !json_equal(x, y))
            fail_msg("%s: row %d: %.*s", name, (int)number[1], got ? (int)m : 4,
                     got ? got : "none");
        json_decref(x);
        json_decref(y);
    }
    assert_null(dt_jsonl_next(b->data, b->bytes, &at[1], &number[1], &m));
}

static void expect_rows(const char *lines, const char *file)
{
    struct dt_map wanted, got;
    read_file(lines, &wanted);
    read_file(file, &got);
    compare_lines(&wanted, &got, file);
    dt_map_fini(&got);
    dt_map_fini(&wanted);
}

static void every_type_of_a_column_becomes_its_json(void **state)
{
    (void)state;
    expect_rows("types.jsonl", "types.parquet");
    if (dt_codec_is_built(DT_CODEC_ZSTD))
        expect_rows("types.jsonl", "types.arrow");
}

static void texts_of_a_json_column_are_values(void **state)
{
    (void)state;
    expect_rows("json.jsonl", "json.parquet");
    expect_rows("json.jsonl", "json.arrow");
}

static void tool_conversations_are_read_as_datasets_keeps_them(void **state)
{
    (void)state;
    expect_rows("tools.jsonl", "tools.parquet"); /* messages are JSON */
    expect_rows("tools.jsonl", "tools.arrow");
    expect_rows("calls.jsonl", "calls.parquet"); /* arguments are */
    expect_rows("calls.jsonl", "calls.arrow");
}

static void the_shards_of_a_saved_dataset_are_its_rows(void **state)
{
    struct dt_map all, shards[2], both = {0};
    (void)state;
    read_file("alpaca.jsonl", &all);
    read_file("alpaca.saved/data-00000-of-00002.arrow", &shards[0]);
    read_file("alpaca.saved/data-00001-of-00002.arrow", &shards[1]);
    both.bytes = shards[0].bytes + shards[1].bytes;
    char *text = malloc(both.bytes);
    memcpy(text, shards[0].data, shards[0].bytes);
    memcpy(text + shards[0].bytes, shards[1].data, shards[1].bytes);
    both.data = text;
    compare_lines(&all, &both, "alpaca.saved");
    free(text);
    dt_map_fini(&shards[0]);
    dt_map_fini(&shards[1]);
    dt_map_fini(&all);
}

/* Keeps bytes under a name that says how many there are. */
static int keep_bytes(void *ctx, const void *data, size_t bytes,
                      char name[DT_LINES_NAME], struct dt_error *err)
{
    const size_t *most = ctx;
    (void)data;
    snprintf(name, DT_LINES_NAME, "%zu", bytes);
    if (bytes <= *most)
        return 0;
    dt_error_set(err, *most ? EX_DATAERR : EX_IOERR, "\"%zu\" are many", bytes);
    return *most ? 1 : -1;
}

/* The value of a column of bytes in a row, as JSON; free() it. */
static char *value_of(const char *file, int row, size_t most)
{
    const struct dt_lines_keep keep = {keep_bytes, &most};
    struct dt_found found;
    struct dt_map lines;
    struct dt_error err;
    size_t at = 0, n;
    uint64_t number = 0;
    assert_int_equal(dt_kind_find(source(file), DT_ASKED_AUTO, &found, &err),
                     0);
    if (dt_lines_read(&lines, source(file), &found, NULL, 0, &keep, NULL,
                      &err) < 0)
        return strdup(strstr(err.text, ": row"));
    const char *line = NULL;
    for (int i = 0; i <= row; i++)
        line = dt_jsonl_next(lines.data, lines.bytes, &at, &number, &n);
    json_t *json = json_loadb(line, n, JSON_DECODE_INT_AS_REAL, NULL);
    char *value = json_dumps(json_object_get(json, "bytes"), JSON_ENCODE_ANY);
    json_decref(json);
    dt_map_fini(&lines);
    return value;
}

static void expect_bytes(int row, size_t most, const char *wanted)
{
    static const char *const files[] = {"types.parquet", "types.arrow"};
    for (int i = 0; i < (dt_codec_is_built(DT_CODEC_ZSTD) ? 2 : 1); i++) {
        char *value = value_of(files[i], row, most);
        assert_string_equal(value, wanted);
        free(value);
    }
}

/* The column has "\xff", null and "". */
static void bytes_of_columns_are_kept_under_a_name(void **state)
{
    (void)state;
    expect_bytes(0, 1, "{\"image\": \"1\"}");
    expect_bytes(1, 1, "null");
    expect_bytes(2, 1, "{\"image\": \"0\"}");
    expect_bytes(0, 0, ": row 1: \"1\" are many");
}

/* A file of columns that is cut anywhere, or that has any byte changed, is an
 * error or rows, and never a crash.
 */
static void damaged_columns_are_refused_or_read(void **state)
{
    size_t most = 1;
    const struct dt_lines_keep keep = {keep_bytes, &most};
    static const char *const names[] = {"types.parquet", "types.arrow",
                                        "alpaca.v2.parquet", "ids.arrow",
                                        "json.arrow"};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct dt_map file, lines;
        struct dt_found found;
        struct dt_error err;
        assert_int_equal(dt_map_init(&file, source(names[i]), &err), 0);
        char *bytes = malloc(file.bytes);
        memcpy(bytes, file.data, file.bytes);
        assert_int_equal(
            dt_kind_find(source(names[i]), DT_ASKED_AUTO, &found, &err), 0);
        for (size_t k = 0; k < file.bytes; k += 7) {
            bytes[k] ^= 0x55;
            const char *path = scratch_write("damaged", bytes, file.bytes);
            bytes[k] ^= 0x55;
            err.text[0] = '\0';
            if (dt_lines_read(&lines, path, &found, NULL, 1000, &keep, NULL,
                              &err) < 0)
                assert_true(err.text[0]);
            dt_map_fini(&lines);
        }
        for (size_t k = 8; k + 8 < file.bytes; k += 31) {
            const char *path = scratch_write("damaged", bytes, k);
            if (dt_lines_read(&lines, path, &found, NULL, 0, NULL, NULL,
                              &err) == 0 &&
                found.form == DT_FORM_PARQUET)
                fail_msg("%s: %zu bytes are enough", names[i], k);
            dt_map_fini(&lines);
        }
        free(bytes);
        dt_map_fini(&file);
    }
}

static void columns_that_are_not_read_are_refused_by_name(void **state)
{
    static const char *const files[][2] = {
        {"delta.parquet", ": column text: encoding 7 of Parquet, of which "
                          "plain and dictionaries are read: pandas writes "
                          "them"},
        {"brotli.parquet", ": column text: compressed with brotli (codec 4 of "
                           "Parquet), which is not read: write it with "
                           "compression=\"zstd\""},
        {"lz4.arrow", ": an Arrow file compressed with lz4, which is not "
                      "read: write it with compression=\"zstd\""},
        {"dictionary.arrow", ": column text: dictionary-encoded, which is not "
                             "read: write it as plain strings"},
    };
    struct dt_example_options options = usual();
    (void)state;
    options.cache_dir = scratch_path("cache");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct dt_error err = {0};
        const char *path = source(files[i][0]);
        assert_null(open_file(path, &options, &err));
        if (strncmp(err.text, path, strlen(path)) != 0 ||
            strcmp(err.text + strlen(path), files[i][1]) != 0)
            fail_msg("%s", err.text);
    }
}

/* --- errors of rows --- */

static void a_bad_row_is_named_by_its_line_or_row(void **state)
{
    static const char *const rows[][3] = {
        {"bad.csv", "text,id\n\"a\nb\",1\n,2\n",
         ":4: text: expected a string, got null"},
        {"bad.json", "[{\"text\":\"a\"}, {\"text\":3}]",
         ": row 2: text: expected a string, got a number"},
    };
    struct dt_example_options options = usual();
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_error err = {0};
        const char *path =
            scratch_write(rows[i][0], rows[i][1], strlen(rows[i][1]));
        assert_null(open_file(path, &options, &err));
        if (!strstr(err.text, rows[i][2]))
            fail_msg("%s", err.text);
    }
}

static void a_file_that_is_cut_short_is_refused(void **state)
{
    static const char *const names[] = {"alpaca.jsonl.gz", "alpaca.jsonl.zst"};
    struct dt_example_options options = usual();
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_map map;
        struct dt_error err;
        if (!is_built(names[i]))
            continue;
        assert_int_equal(dt_map_init(&map, source(names[i]), &err), 0);
        const char *path = scratch_write("cut", map.data, map.bytes - 3);
        dt_map_fini(&map);
        assert_null(open_file(path, &options, &err));
        assert_int_equal(err.status, EX_DATAERR);
        if (!strstr(err.text, "cut short: its "))
            fail_msg("%s", err.text);
    }
}

static void damaged_packed_data_are_refused(void **state)
{
    static const char gzip[] = "\x1f\x8b\x08\0\0\0\0\0\0\xff\xff\xff\xff\xff";
    struct dt_example_options options = usual();
    struct dt_error err;
    (void)state;
    if (!dt_codec_is_built(DT_CODEC_GZIP))
        skip();
    assert_null(open_file(scratch_write("damaged", gzip, sizeof(gzip) - 1),
                          &options, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "/damaged: damaged gzip data: "));
}

/* Puts a block of Zstandard at `to`: as many bytes of one value. */
static size_t put_run(unsigned char *to, size_t bytes, bool last, char value)
{
    const size_t header = bytes << 3 | 1 << 1 | last;
    to[0] = (unsigned char)header;
    to[1] = (unsigned char)(header >> 8);
    to[2] = (unsigned char)(header >> 16);
    to[3] = (unsigned char)value;
    return 4;
}

/* Two lines as a file of Zstandard, a few kB: the first one is empty, and the
 * second one has a byte of `begin` and 2 GiB of blanks.
 */
static const char *write_long_line(const char *name, char begin)
{
    enum { BLOCK = 1 << 17, BLOCKS = 1 << 14 };
    static unsigned char file[6 + 4 * (BLOCKS + 2)] = {0x28, 0xb5, 0x2f,
                                                       0xfd, 0,    0x38};
    size_t n = 6;
    n += put_run(file + n, 1, false, '\n');
    n += put_run(file + n, 1, false, begin);
    for (size_t i = 1; i <= BLOCKS; i++)
        n += put_run(file + n, BLOCK, i == BLOCKS, ' ');
    return scratch_write(name, file, n);
}

/* Before it is written: no file may have more than 300 MiB meanwhile. */
static void a_line_that_unpacks_to_2_gib_is_refused(void **state)
{
    struct dt_example_options options = usual();
    struct rlimit usual_limit, limit;
    struct dt_error err;
    (void)state;
    if (!dt_codec_is_built(DT_CODEC_ZSTD))
        skip();
    const char *path = write_long_line("long.jsonl.zst", '{');
    getrlimit(RLIMIT_FSIZE, &usual_limit);
    limit = usual_limit;
    limit.rlim_cur = 300 << 20;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_null(open_file(path, &options, &err));
    setrlimit(RLIMIT_FSIZE, &usual_limit);
    assert_int_equal(err.status, EX_DATAERR);
    if (!strstr(err.text, "/long.jsonl.zst:2: a line of more than 256 MiB: is "
                          "a line break missing?"))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    (void)state;
    tokenizer = bytes_tokenizer("tokenizer", NULL, "</s>", CHATML);
    return tokenizer ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_has_the_tokens_of_the_lines),
        cmocka_unit_test(prompts_are_read_from_every_form),
        cmocka_unit_test(rows_become_lines_with_the_numbers_of_the_file),
        cmocka_unit_test(a_malformed_file_is_refused_with_its_place),
        cmocka_unit_test(as_many_rows_are_read_as_wanted),
        cmocka_unit_test(every_type_of_a_column_becomes_its_json),
        cmocka_unit_test(texts_of_a_json_column_are_values),
        cmocka_unit_test(tool_conversations_are_read_as_datasets_keeps_them),
        cmocka_unit_test(the_shards_of_a_saved_dataset_are_its_rows),
        cmocka_unit_test(bytes_of_columns_are_kept_under_a_name),
        cmocka_unit_test(damaged_columns_are_refused_or_read),
        cmocka_unit_test(columns_that_are_not_read_are_refused_by_name),
        cmocka_unit_test(a_bad_row_is_named_by_its_line_or_row),
        cmocka_unit_test(a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(damaged_packed_data_are_refused),
        cmocka_unit_test(a_line_that_unpacks_to_2_gib_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
