/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_data.c - the rows that a configuration's data section means */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/data.h"
#include "tests/unit/scratch.h"

enum { VOCAB = 300, ROW = 64 };

/* Loads a configuration whose data section has these lines. */
static struct dt_conf *load(const char *data, const char *more)
{
    char text[2048];
    struct dt_conf_problems problems, warnings;
    int n = snprintf(text, sizeof(text),
                     "algorithm: sft\nmodel: {n_embd: 96, vocab_size: %d}\n"
                     "training: {per_device_batch_size: 2}\n%s\n"
                     "data: {cache_dir: cache, %s}\n",
                     VOCAB, more, data);
    struct dt_conf *conf = dt_conf_load(
        scratch_write("t.yaml", text, (size_t)n), &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.count ? problems.text[0] : "");
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

static void open_data(struct dt_run_data *data, const struct dt_conf *conf)
{
    struct dt_error err;
    *data = (struct dt_run_data){0};
    if (dt_run_data_open(data, conf, VOCAB, false, &err) < 0)
        fail_msg("%s", err.text);
}

struct row {
    int32_t inputs[ROW], targets[ROW], starts[ROW];
};

static struct row read_row(const struct dt_rows *rows, size_t i)
{
    struct row row = {0};
    size_t count = 0;
    struct dt_error err;
    if (dt_rows_read(rows, i, ROW, row.inputs, row.targets, row.starts, &count,
                     &err) < 0)
        fail_msg("%s", err.text);
    return row;
}

static void check_same_rows(const struct dt_rows *a, const struct dt_rows *b)
{
    assert_int_equal(dt_rows_count(a), dt_rows_count(b));
    for (size_t i = 0; i < dt_rows_count(a); i++) {
        struct row x = read_row(a, i), y = read_row(b, i);
        assert_memory_equal(&x, &y, sizeof(x));
    }
}

/* Lines of JSON are examples under any name, packed as data.packing says. */
static void test_lines_of_any_name(void **state)
{
    static const char lines[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"
                                "{\"text\": \"three\"}\n";
    static const char *const names[] = {"a.ndjson", "a.txt", "lines"};
    static const char *const packings[] = {"none", "bfd", "wrapped"};
    static const size_t rows[] = {3, 2, 1};
    (void)state;
    scratch_write("a.jsonl", lines, sizeof(lines) - 1);
    for (size_t p = 0; p < 3; p++) {
        struct dt_run_data wanted, data;
        char section[128];
        snprintf(section, sizeof(section),
                 "train: a.jsonl, max_length: 10, packing: %s", packings[p]);
        struct dt_conf *conf = load(section, "");
        open_data(&wanted, conf);
        assert_int_equal(dt_rows_count(wanted.train), rows[p]);
        dt_conf_destroy(conf);
        for (size_t i = 0; i < 3; i++) {
            scratch_write(names[i], lines, sizeof(lines) - 1);
            snprintf(section, sizeof(section),
                     "train: %s, max_length: 10, packing: %s", names[i],
                     packings[p]);
            conf = load(section, "");
            assert_false(dt_run_is_stream(conf));
            assert_int_equal(dt_run_packs(conf), p == 1);
            open_data(&data, conf);
            assert_true(data.hash == wanted.hash);
            check_same_rows(data.train, wanted.train);
            dt_run_data_fini(&data);
            dt_conf_destroy(conf);
        }
        dt_run_data_fini(&wanted);
    }
}

/* Without a shuffle, wrapped text is the files as they are, and a run that is
 * gone on with another order is one on other data.
 */
static void test_wrapped_in_order(void **state)
{
    static const char lines[] = "{\"text\": \"abc\"}\n{\"text\": \"de\"}\n"
                                "{\"text\": \"fghi\"}\n{\"text\": \"j\"}\n";
    static const char wanted[] = "abc$de$fghi$";
    struct dt_run_data data, mixed;
    (void)state;
    scratch_write("w.jsonl", lines, sizeof(lines) - 1);
    struct dt_conf *conf = load(
        "train: w.jsonl, max_length: 4, packing: wrapped, shuffle: false", "");
    open_data(&data, conf);
    assert_int_equal(dt_rows_count(data.train), 3);
    for (size_t i = 0; i < 12; i++) {
        struct row row = read_row(data.train, i / 4);
        char c =
            (char)(row.inputs[i % 4] == DT_BYTE_EOT ? '$' : row.inputs[i % 4]);
        assert_int_equal(c, wanted[i]);
    }
    assert_int_equal(dt_rows_stats(data.train).tail, 1);
    dt_conf_destroy(conf);
    conf = load("train: w.jsonl, max_length: 4, packing: wrapped", "");
    open_data(&mixed, conf);
    assert_true(mixed.hash != data.hash);
    dt_run_data_fini(&mixed);
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

/* Text beside lines of JSON is a part of the wrapped text, whole. */
static void test_mixed_kinds(void **state)
{
    static const char wanted[] = "one$a text that is longer than a row";
    struct dt_run_data data;
    (void)state;
    scratch_write("m.jsonl", "{\"text\": \"one\"}\n", 16);
    scratch_write("m.txt", wanted + 4, sizeof(wanted) - 5);
    struct dt_conf *conf = load("train: [m.jsonl, m.txt], max_length: 4, "
                                "packing: wrapped, shuffle: false",
                                "");
    open_data(&data, conf);
    assert_int_equal(dt_rows_count(data.train), 9);
    for (size_t i = 0; i < 36; i++) {
        int32_t id = read_row(data.train, i / 4).inputs[i % 4];
        assert_int_equal(id == DT_BYTE_EOT ? '$' : id, wanted[i]);
    }
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_any_name),
        cmocka_unit_test(test_wrapped_in_order),
        cmocka_unit_test(test_mixed_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
