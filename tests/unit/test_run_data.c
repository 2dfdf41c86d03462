/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_data.c - the rows that a configuration's data section means */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/run.h"
#include "tests/unit/scratch.h"
#include "tests/unit/world.h"

enum { VOCAB = 300, ROW = 64 };

/* Loads a configuration whose data section has these lines. */
static struct dt_conf *load(const char *data, const char *more)
{
    char text[2048];
    struct dt_conf_problems problems, warnings;
    int n =
        snprintf(text, sizeof(text),
                 "algorithm: sft\nmodel: {n_embd: 96, vocab_size: %d}\n"
                 "training: {per_device_batch_size: 2}\n%s\n"
                 "data: {%s%s}\n",
                 VOCAB, more,
                 strstr(data, "cache_dir") ? "" : "cache_dir: cache, ", data);
    struct dt_conf *conf = dt_conf_load(
        scratch_write("t.yaml", text, (size_t)n), &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.count ? problems.text[0] : "");
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
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
    write_text("m.jsonl", "{\"text\": \"one\"}\n");
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

/* Ids 0, 1, 2, ... as a token file, so that a token is its own place. */
static void write_ids(const char *name, uint16_t count)
{
    uint16_t ids[VOCAB];
    for (uint16_t i = 0; i < count; i++)
        ids[i] = i;
    scratch_write(name, ids, count * sizeof(ids[0]));
}

/* What is held out of a stream is nobody's input or target in training. */
static void test_split_of_a_stream(void **state)
{
    static const char *const splits[] = {"0.1", "0.25", "0.5"};
    static const int32_t held_out[] = {29, 72, 145}; /* of 291 */
    (void)state;
    write_ids("ids.bin", 291);
    for (size_t s = 0; s < 3; s++) {
        struct dt_run_data data;
        char section[128];
        int32_t last = -1, first = VOCAB, most = -1;
        snprintf(section, sizeof(section),
                 "train: ids.bin, max_length: 8, validation_split: %s",
                 splits[s]);
        struct dt_conf *conf = load(section, "");
        open_data(&data, conf);
        assert_int_equal(dt_rows_count(data.train),
                         (291 - held_out[s] - 1) / 8);
        assert_int_equal(dt_rows_count(data.eval), (held_out[s] - 1) / 8);
        for (size_t i = 0; i < dt_rows_count(data.train); i++) {
            struct row row = read_row(data.train, i);
            for (size_t t = 0; t < 8; t++) {
                assert_int_equal(row.inputs[t], 8 * i + t);
                last = row.targets[t] > last ? row.targets[t] : last;
            }
        }
        for (size_t i = 0; i < dt_rows_count(data.eval); i++) {
            struct row row = read_row(data.eval, i);
            for (size_t t = 0; t < 8; t++) {
                first = row.inputs[t] < first ? row.inputs[t] : first;
                most = row.targets[t] > most ? row.targets[t] : most;
            }
        }
        assert_true(last < 291 - held_out[s]);
        assert_int_equal(first, 291 - held_out[s]);
        assert_true(most < 291);
        dt_run_data_fini(&data);
        dt_conf_destroy(conf);
    }
}

/* The first ids of 16 rows in the order in which a run learns them. */
static void learnt_order(const char *data, const char *more, int32_t order[16])
{
    struct dt_conf *conf = load(data, more);
    struct dt_run run = {
        .conf = *conf, .exec = dt_exec_cpu(), .world = 1, .B = 2, .T = 8};
    struct dt_batch batch;
    open_data(&run.data, conf);
    struct dt_loader *loader = dt_run_loader(&run, true, NULL);
    assert_non_null(loader);
    for (size_t i = 0; i < 16; i += 2) {
        assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
        order[i] = batch.inputs[0];
        order[i + 1] = batch.inputs[batch.T];
    }
    dt_loader_destroy(loader);
    dt_run_data_fini(&run.data);
    dt_conf_destroy(conf);
}

/* The order of data depends on run.data_seed, which is run.seed unless it is
 * given: other weights and dropout on data in the same order.
 */
static void test_seeds(void **state)
{
    char lines[64 * 20] = "";
    static const char *const data[] = {
        "train: ids.bin, max_length: 8",
        "train: [{path: s.jsonl, weight: 0.5}], max_length: 8",
        "train: s.jsonl, max_length: 8, packing: wrapped",
        "train: ids.bin, max_length: 8, shuffle: false",
    };
    (void)state;
    write_ids("ids.bin", 291);
    for (int i = 0; i < 64; i++)
        sprintf(lines + strlen(lines), "{\"text\": \"%c%03d\"}\n",
                '$' + i + (i >= '\\' - '$'), i);
    write_text("s.jsonl", lines);
    for (size_t i = 0; i < 4; i++) {
        int32_t one[16], two[16], other[16], derived[16];
        bool shuffled = i < 3;
        learnt_order(data[i], "run: {seed: 1, data_seed: 5}", one);
        learnt_order(data[i], "run: {seed: 2, data_seed: 5}", two);
        learnt_order(data[i], "run: {seed: 1, data_seed: 6}", other);
        learnt_order(data[i], "run: {seed: 5}", derived);
        assert_memory_equal(one, two, sizeof(one));
        assert_memory_equal(one, derived, sizeof(one));
        assert_int_equal(memcmp(one, other, sizeof(one)) != 0, shuffled);
    }
}

/* The rows themselves, too: which examples a weight chooses, and how they are
 * wrapped.
 */
static void test_seed_of_rows(void **state)
{
    static const char *const data[] = {
        "train: [{path: s.jsonl, weight: 0.5}], max_length: 8, shuffle: false",
        "train: s.jsonl, max_length: 8, packing: wrapped",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_conf *confs[] = {load(data[i], "run: {seed: 1}"),
                                   load(data[i], "run: {seed: 2}")};
        struct dt_run_data runs[2];
        size_t equal = 0;
        for (size_t k = 0; k < 2; k++)
            open_data(&runs[k], confs[k]);
        size_t count = dt_rows_count(runs[0].train);
        assert_int_equal(dt_rows_count(runs[1].train), count);
        for (size_t r = 0; r < count; r++) {
            struct row a = read_row(runs[0].train, r);
            struct row b = read_row(runs[1].train, r);
            equal += memcmp(&a, &b, sizeof(a)) == 0;
        }
        assert_true(equal < count / 2);
        for (size_t k = 0; k < 2; k++) {
            dt_run_data_fini(&runs[k]);
            dt_conf_destroy(confs[k]);
        }
    }
}

static size_t lines_in(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t lines = 0;
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static size_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Whatever fails to open leaves no descriptor, mapping or memory behind. */
static void test_failed_opens(void **state)
{
    enum { WARM = 8, ROUNDS = 40, LEAST_BYTES = 16 };
    static const struct {
        const char *data, *text;
    } cases[] = {
        {"train: [good.txt, late.txt], max_length: 8", "not UTF-8 text"},
        {"train: good.txt, eval: late.txt, max_length: 8", "not UTF-8 text"},
        {"train: good.txt, max_length: 999", "hold no sample of 999 + 1"},
        {"train: good.txt, max_length: 8, validation_split: 0.001",
         "held-out data"},
        {"train: [ids.bin, large.bin], max_length: 8", "token id 999"},
        {"train: ids.bin, eval: large.bin, max_length: 8", "token id 999"},
        {"train: [good.jsonl, bad.jsonl], max_length: 8", "lines of "},
        {"train: good.jsonl, eval: bad.jsonl, max_length: 8", "lines of "},
        {"train: good.jsonl, max_length: 8, validation_split: 0.1",
         "no example in this share"},
        {"train: good.jsonl, max_length: 8, packing: wrapped", "none is left"},
        {"train: good.jsonl, max_length: 1", "examples need at least 2"},
        {"train: good.jsonl, max_length: 8, cache_dir: good.txt/x",
         "no place for the tokens"},
        {"train: [good.jsonl, chat.jsonl], max_length: 8", "chat template"},
    };
    static const uint16_t large[] = {1, 999};
    char late[5001];
    (void)state;
    memset(late, 'a', sizeof(late));
    late[5000] = '\xff';
    scratch_write("late.txt", late, sizeof(late));
    scratch_write("good.txt", late, 100);
    write_ids("ids.bin", 100);
    scratch_write("large.bin", large, sizeof(large));
    write_text("good.jsonl", "{\"text\": \"abc\"}\n");
    write_text("bad.jsonl", "{\"text\": 1}\n");
    write_text("chat.jsonl", "{\"messages\": [{\"role\": \"user\", "
                             "\"content\": \"\"}]}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load(cases[i].data, "");
        size_t files = 0, maps = 0, bytes = 0;
        for (int n = 0; n < WARM + ROUNDS; n++) {
            struct dt_run_data data = {0};
            struct dt_error err = {0};
            assert_int_equal(dt_run_data_open(&data, conf, VOCAB, false, &err),
                             -1);
            dt_run_data_fini(&data);
            if (!strstr(err.text, cases[i].text))
                fail_msg("expected \"%s\", got \"%s\"", cases[i].text,
                         err.text);
            if (n == WARM - 1) { /* what is kept for good is there by now */
                files = open_files();
                maps = lines_in("/proc/self/maps");
                bytes = mallinfo2().uordblks;
            }
        }
        assert_int_equal(open_files(), files);
        assert_int_equal(lines_in("/proc/self/maps"), maps);
        size_t now = mallinfo2().uordblks; /* free ones are kept for later */
        if (now >= bytes + ROUNDS * LEAST_BYTES)
            fail_msg("%s: %zu bytes are kept", cases[i].data, now - bytes);
        dt_conf_destroy(conf);
    }
}

/* Rank r's own configuration, and how its start ends. */
struct start {
    struct dt_conf *conf[2];
    struct dt_error err[2];
    int result[2];
};

static int start_rank(const struct dt_comm_world *world, void *arg)
{
    struct start *start = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_run run = {0};
    int rank = world->rank;
    struct dt_comm *comm =
        dt_comm_create("gloo", world, &options, &start->err[rank]);
    if (!comm)
        return -1;
    start->result[rank] =
        dt_run_init(&run, start->conf[rank], &exec, comm, 1, &start->err[rank]);
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    return 0;
}

/* Two ranks with these lines; `wanted`: what both say, or NULL. */
static void check_start(const char *const data[2], const char *const more[2],
                        const char *wanted)
{
    struct start start = {0};
    char host[64] = "", text[512];
    for (int rank = 0; rank < 2; rank++)
        start.conf[rank] = load(data[rank], more[rank]);
    gethostname(host, sizeof(host) - 1);
    world_threads(2, start_rank, &start);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(start.result[rank], wanted ? -1 : 0);
        snprintf(text, sizeof(text),
                 "%s: rank 1 on %s does not see the same %s as rank 0 on %s: "
                 "are all files on a shared file system?",
                 start.conf[rank]->file, host, wanted ? wanted : "", host);
        if (wanted)
            assert_string_equal(start.err[rank].text, text);
        dt_conf_destroy(start.conf[rank]);
    }
}

/* Files that differ from node to node are noticed before the first step. */
static void test_ranks_that_differ(void **state)
{
    static const char *const usual[] = {
        "run: {output_dir: o, overwrite: true}",
        "run: {output_dir: o, overwrite: true}"};
    static const char *const seeds[] = {
        "run: {output_dir: o, overwrite: true}",
        "run: {output_dir: o, overwrite: true, seed: 43}"};
    const char *lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    (void)state;
#ifdef HAVE_GLOO
    scratch_write("0.txt", "abcdefghij", 10);
    scratch_write("1.txt", "abcdefghiJ", 10);
    scratch_write("same.txt", "abcdefghij", 10);
    write_text("0.jsonl", lines);
    scratch_write("1.jsonl", lines, strlen(lines) / 2);
#define ROWS "max_length: 4, "
    check_start(
        (const char *const[]){ROWS "train: 0.txt", ROWS "train: same.txt"},
        usual, NULL);
    check_start((const char *const[]){ROWS "train: 0.txt", ROWS "train: 1.txt"},
                usual, "data.train");
    check_start(
        (const char *const[]){ROWS "train: 0.jsonl", ROWS "train: 1.jsonl"},
        usual, "data.train");
    check_start((const char *const[]){ROWS "train: 0.txt, eval: 0.txt",
                                      ROWS "train: 0.txt, eval: 1.txt"},
                usual, "data.eval");
    check_start((const char *const[]){ROWS "train: 0.jsonl, eval: 0.jsonl",
                                      ROWS "train: 0.jsonl, eval: 1.jsonl"},
                usual, "data.eval");
    check_start((const char *const[]){ROWS "train: 0.txt", ROWS "train: 0.txt"},
                seeds, "configuration");
#else
    (void)usual, (void)seeds, (void)lines, (void)check_start;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_any_name),
        cmocka_unit_test(test_wrapped_in_order),
        cmocka_unit_test(test_mixed_kinds),
        cmocka_unit_test(test_split_of_a_stream),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_seed_of_rows),
        cmocka_unit_test(test_failed_opens),
        cmocka_unit_test(test_ranks_that_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
