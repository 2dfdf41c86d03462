/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - random numbers, strings, files */
#include "config.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/str.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/dt-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return dt_file_remove_tree(dir, NULL);
}

static const char *in_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Known answer of Philox4x32-10 for the zero counter and key, from the
 * authors' kat_vectors: here purpose 0 gives the all-zero counter.
 */
static void philox_gives_the_known_answer(void **state)
{
    static const uint32_t want[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                    0x9b00dbd8};
    uint32_t got[4];
    (void)state;
    dt_rng_block(0, (enum dt_rng_purpose)0, 0, got);
    assert_memory_equal(got, want, sizeof(want));
}

static void uniform_numbers_fill_the_unit_interval(void **state)
{
    double sum = 0;
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        float u = dt_rng_uniform(42, DT_RNG_INIT, i);
        assert_true(u >= 0.0f && u < 1.0f);
        sum += u;
    }
    assert_true(sum > 4900 && sum < 5100);
}

/* Every part of the key changes the draw. */
static void draws_of_completions_are_keyed(void **state)
{
    const double first = dt_rng_draw(42, 7, 1, 3);
    double sum = 0;
    (void)state;
    assert_true(dt_rng_draw(42, 7, 1, 3) == first);
    assert_true(dt_rng_draw(43, 7, 1, 3) != first);
    assert_true(dt_rng_draw(42, 8, 1, 3) != first);
    assert_true(dt_rng_draw(42, 7 + (1ull << 32), 1, 3) != first);
    assert_true(dt_rng_draw(42, 7, 2, 3) != first);
    assert_true(dt_rng_draw(42, 7, 1, 4) != first);
    for (uint32_t i = 0; i < 10000; i++) {
        double u = dt_rng_draw(42, i, i % 8, i % 100);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4900 && sum < 5100);
}

static void normals_have_the_right_spread_and_fixed_places(void **state)
{
    enum { N = 100000 };
    static float all[N], part[100];
    double sum = 0, squares = 0;
    (void)state;
    dt_rng_normals(all, N, 2.0f, 42, DT_RNG_INIT, 0);
    for (size_t i = 0; i < N; i++) {
        sum += all[i];
        squares += all[i] * all[i];
    }
    assert_true(sum / N < 0.04 && sum / N > -0.04);
    assert_true(squares / N < 4.08 && squares / N > 3.92);
    for (size_t first = 0; first < 8; first++) { /* any part is the same */
        dt_rng_normals(part, 97, 2.0f, 42, DT_RNG_INIT, first);
        assert_memory_equal(part, all + first, 97 * sizeof(float));
    }
}

static void each_epoch_visits_every_row_in_another_order(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 5, 64, 65, 1000, 4097};
    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        uint64_t n = counts[c], moved = 0;
        unsigned char *seen = calloc(n, 1);
        assert_non_null(seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = dt_rng_permute(7, 3, i, n);
            assert_true(j < n);
            assert_int_equal(seen[j]++, 0);
            moved += j != i;
        }
        assert_true(n < 64 || moved > n * 9 / 10);
        free(seen);
    }
    uint64_t equal = 0;
    for (uint64_t i = 0; i < 1000; i++)
        equal += dt_rng_permute(7, 3, i, 1000) == dt_rng_permute(7, 4, i, 1000);
    assert_true(equal < 20); /* another epoch, another order */
}

/* Checkpoints name rows by these numbers: no version may draw others. */
static void every_version_draws_the_same_order(void **state)
{
    static const uint64_t order[] = {406, 888, 525, 700, 892, 81, 89, 774};
    static const uint64_t late[] = {146, 643, 504, 955};
    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(dt_rng_permute(0x123456789abcdef0, 3, i, 1000),
                         order[i]);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(dt_rng_permute(7, ((uint64_t)1 << 40) + 3, i, 1000),
                         late[i]);
}

static void normals_are_box_muller_of_their_blocks(void **state)
{
    enum { BLOCKS = 4096 };
    (void)state;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        uint32_t w[4];
        float got[4];
        dt_rng_block(9, DT_RNG_INIT, block, w);
        dt_rng_normals(got, 4, 1.0f, 9, DT_RNG_INIT, 4 * block);
        for (int i = 0; i < 4; i++) {
            double u = ((w[i / 2 * 2] >> 8) + 1.0) * 0x1p-24;
            double angle = 2 * M_PI * (w[i / 2 * 2 + 1] >> 8) * 0x1p-24;
            double want = sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
            assert_true(fabs(got[i] - want) < 4e-6);
        }
    }
}

static void a_misspelled_name_finds_the_nearest_known_one(void **state)
{
    static const char *const names[] = {"max_steps", "max_length", "lr"};
    (void)state;
    assert_true(dt_str_ends_with("a.bin", ".bin"));
    assert_true(dt_str_ends_with(".bin", ".bin"));
    assert_false(dt_str_ends_with("a.bin2", ".bin"));
    assert_false(dt_str_ends_with("bin", ".bin"));
    assert_int_equal(dt_str_distance("abc", "acb"), 1);
    assert_int_equal(dt_str_distance("", "abc"), 3);
    assert_int_equal(dt_str_distance("LR", "lr"), 0);
    assert_string_equal(dt_str_nearest("max_step", names, 3), "max_steps");
    assert_string_equal(dt_str_nearest("rl", names, 3), "lr");
    assert_null(dt_str_nearest("epochs", names, 3));
    assert_null(dt_str_nearest("xyz", names, 3));
    assert_null(dt_str_nearest("lxy", names, 3)); /* two of three letters */
}

static void check_range(const char *text, bool good, uint32_t first,
                        uint32_t last, const char *rest)
{
    uint32_t from = 0, to = 0;
    assert_int_equal(dt_str_next_range(&text, &from, &to), good);
    if (!good)
        return;
    assert_int_equal(from, first);
    assert_int_equal(to, last);
    assert_string_equal(text, rest);
}

static void only_well_formed_ranges_are_read(void **state)
{
    (void)state;
    check_range("0,4-7", true, 0, 0, "4-7");
    check_range("4-7", true, 4, 7, "");
    check_range("5-5,9", true, 5, 5, "9");
    check_range("4294967295", true, UINT32_MAX, UINT32_MAX, "");
    check_range("4294967296", false, 0, 0, "");
    check_range("18446744073709551616", false, 0, 0, "");
    check_range("7-4", false, 0, 0, "");
    check_range("4-", false, 0, 0, "");
    check_range("4,", false, 0, 0, "");
    check_range("4x", false, 0, 0, "");
    check_range("", false, 0, 0, "");
}

static void only_regular_text_within_the_limit_is_read(void **state)
{
    struct dt_error err;
    (void)state;
    write_bytes(in_dir("text"), "hello\n", 6);
    char *text = dt_file_read(in_dir("text"), 6, &err);
    assert_non_null(text);
    assert_string_equal(text, "hello\n");
    free(text);

    assert_null(dt_file_read(in_dir("text"), 5, &err));
    assert_non_null(strstr(err.text, "/text: 6 bytes; at most 5 are read"));
    assert_int_equal(err.status, EX_DATAERR);
    write_bytes(in_dir("zero"), "a\0b", 3);
    assert_null(dt_file_read(in_dir("zero"), 9, &err));
    assert_non_null(strstr(err.text, "it holds a zero byte"));
    assert_null(dt_file_read(in_dir("none"), 9, &err));
    assert_non_null(strstr(err.text, "/none: cannot open: No such file"));
    assert_int_equal(err.status, EX_NOINPUT);
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_null(dt_file_read(in_dir("fifo"), 9, &err));
    assert_non_null(strstr(err.text, "/fifo: not a regular file"));
    write_bytes(in_dir("empty"), "", 0);
    text = dt_file_read(in_dir("empty"), 9, &err);
    assert_non_null(text);
    assert_string_equal(text, "");
    free(text);
}

static void trees_are_made_and_removed_without_following_links(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_file_mkdirs(in_dir("a/b/c"), &err), 0);
    assert_int_equal(dt_file_mkdirs(in_dir("a/b/c"), &err), 0);
    write_bytes(in_dir("a/file"), "x", 1);
    assert_int_equal(dt_file_mkdirs(in_dir("a/file/d"), &err), -1);
    assert_non_null(strstr(err.text, "a/file: not a directory"));
    write_bytes(in_dir("kept"), "x", 1);
    assert_int_equal(symlink("../kept", in_dir("a/link")), 0);
    assert_int_equal(dt_file_remove_tree(in_dir("a"), &err), 0);
    assert_int_equal(access(in_dir("a"), F_OK), -1);
    assert_int_equal(access(in_dir("kept"), F_OK), 0);
    assert_int_equal(dt_file_remove_tree(in_dir("a"), &err), 0);
}

static int count_lines(const char *path)
{
    char line[4096];
    int count = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        count++;
    fclose(f);
    return count;
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

/* Neither what is read nor what is refused or removed stays open or mapped. */
static void nothing_read_refused_or_removed_stays_open(void **state)
{
    int descriptors = count_descriptors(), maps;
    struct dt_error err;
    (void)state;
    write_bytes(in_dir("zero"), "a\0b", 3);
    write_bytes(in_dir("text"), "abc", 3);
    assert_null(dt_file_read(in_dir("zero"), 9, &err));
    maps = count_lines("/proc/self/maps");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(dt_file_mkdirs(in_dir("a/b/c"), &err), 0);
        free(dt_file_read(in_dir("text"), 9, &err));
        assert_null(dt_file_read(in_dir("text"), 2, &err));
        assert_null(dt_file_read(in_dir("zero"), 9, &err));
        assert_null(dt_file_read(in_dir("a"), 9, &err));
        assert_int_equal(dt_file_sync_dir(in_dir("a"), &err), 0);
        assert_int_equal(dt_file_remove_tree(in_dir("a"), &err), 0);
    }
    assert_int_equal(count_descriptors(), descriptors);
    assert_int_equal(count_lines("/proc/self/maps"), maps);
}

static void read_byte(void *ctx)
{
    memcpy(ctx, *(const char **)ctx, 1);
}

/* What is mapped and not there is a result in a guarded read, and anywhere else
 * the end of the process, also after one.
 */
static void only_a_guarded_read_survives_a_truncated_file(void **state)
{
    struct dt_map map;
    struct dt_error err;
    union {
        const char *at;
        char byte;
    } ctx;
    const char *path = in_dir("guard");
    struct sigaction before;
    (void)state;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    write_bytes(path, "abc", 3);
    assert_int_equal(dt_map_init(&map, path, &err), 0);
    ctx.at = map.data;
    assert_int_equal(dt_guard_run(read_byte, &ctx), 0);
    assert_int_equal(ctx.byte, 'a');
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 2; i++) {
        ctx.at = map.data;
        assert_int_equal(dt_guard_run(read_byte, &ctx), -1);
    }
    struct sigaction now;
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == before.sa_handler); /* as it was */
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        ctx.at = map.data;
        dt_guard_run(read_byte, &ctx);
        ctx.at = map.data;
        read_byte(&ctx);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    dt_map_fini(&map);
}

static void json_types_are_named_with_their_article(void **state)
{
    (void)state;
    assert_string_equal(dt_json_type_name(JSON_OBJECT), "an object");
    assert_string_equal(dt_json_type_name(JSON_ARRAY), "an array");
    assert_string_equal(dt_json_type_name(JSON_STRING), "a string");
    assert_string_equal(dt_json_type_name(JSON_INTEGER), "an integer");
    assert_string_equal(dt_json_type_name(JSON_REAL), "a number");
    assert_string_equal(dt_json_type_name(JSON_NULL), "null");
    assert_string_equal(dt_json_type_name(JSON_FALSE), "a boolean");
}

/* "limit" of an object, as it was read. */
static const char *json_limit(const char *text)
{
    static char shown[DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    json_t *root = dt_json_parse("f", text, &err);
    const json_t *limit = json_object_get(root, "limit");
    if (!root)
        snprintf(shown, sizeof(shown), "%s", err.text);
    else if (json_is_integer(limit))
        snprintf(shown, sizeof(shown), "%lld",
                 (long long)json_integer_value(limit));
    else if (json_is_real(limit))
        snprintf(shown, sizeof(shown), "real %g", json_real_value(limit));
    else
        snprintf(shown, sizeof(shown), "%s", json_string_value(limit));
    json_decref(root);
    return shown;
}

static void json_may_hold_huge_integers_and_zero_characters(void **state)
{
    static const struct {
        const char *text, *limit;
    } cases[] = {
        {"{\"limit\": 1000000000000000019884624838656}", "real 1e+30"},
        {"{\"limit\": -9223372036854775809}", "real -9.22337e+18"},
        {"{\"limit\": 9223372036854775807, \"n\": 9223372036854775808}",
         "9223372036854775807"},
        {"{\"n\": [99999999999999999999], \"limit\": 3}", "3"},
        {"{\"n\": 99999999999999999999, \"limit\": 0.12345678901234567890}",
         "real 0.123457"},
        {"{\"n\": 99999999999999999999, \"limit\": 99999999999999999999.5}",
         "real 1e+20"},
        {"{\"n\": 99999999999999999999, \"limit\": "
         "\"\\\"9999999999999999999\"}",
         "\"9999999999999999999"},
        {"{\"99999999999999999999\": 99999999999999999999, \"limit\": \"\"}",
         ""},
        {"{\"n\": 99999999999999999999,\n \"limit\": x}",
         "f:2:11: invalid token near 'x'"},
        {"{\"a\\u0000\": \"\\\\u0000\", \"limit\": \"\\u0000\"}", ""},
        {"{\"\\u0000\": {\"\\u0000\" : 1}, \"limit\": 1}", "1"},
        {"{\"\\u0000\": 1, \"\\u0000\": 2}",
         "f:1:22: duplicate object key near '\"\\uFDD0\"'"},
        {"\xef\xbb\xbf{\"limit\": 1}",
         "f: begins with a byte order mark, which JSON has not: `sed -i "
         "'1s/^\\xef\\xbb\\xbf//' FILE` removes it"},
        {"{\"n\": 1e999}", "f:1:11: real number overflow near '1e999'"},
        {"{\"n\": 1, \"n\": 2}", "f:1:12: duplicate object key near '\"n\"'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(json_limit(cases[i].text), cases[i].limit);
}

static void a_sleep_lasts_as_long_as_asked(void **state)
{
    double start = dt_clock_now();
    (void)state;
    dt_clock_sleep(0.02);
    assert_true(dt_clock_now() - start >= 0.02);
}

/* Three bytes, or the one or two that padding leaves. */
static void base64_is_written_and_read_with_its_padding(void **state)
{
    static const struct {
        const char *text, *bytes;
        ptrdiff_t count;
    } cases[] = {
        {"", "", 0},
        {"TWFu", "Man", 3},
        {"TWE=", "Ma", 2},
        {"TQ==", "M", 1},
        {"TWFuTQ==", "ManM", 4},
        {"+/+/", "\xfb\xff\xbf", 3},
        {"TWF", NULL, -1},
        {"TW=u", NULL, -1},
        {"T===", NULL, -1},
        {"TQ==TWFu", NULL, -1},
        {"TW F", NULL, -1},
        {"====", NULL, -1},
        {"TW-_", NULL, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[8];
        assert_int_equal(
            dt_base64_decode(cases[i].text, strlen(cases[i].text), out),
            cases[i].count);
        if (cases[i].count < 0)
            continue;
        assert_memory_equal(out, cases[i].bytes, (size_t)cases[i].count);
        char text[12];
        dt_base64_encode(cases[i].bytes, (size_t)cases[i].count, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_types_are_named_with_their_article),
        cmocka_unit_test(philox_gives_the_known_answer),
        cmocka_unit_test(uniform_numbers_fill_the_unit_interval),
        cmocka_unit_test(draws_of_completions_are_keyed),
        cmocka_unit_test(normals_have_the_right_spread_and_fixed_places),
        cmocka_unit_test(each_epoch_visits_every_row_in_another_order),
        cmocka_unit_test(a_misspelled_name_finds_the_nearest_known_one),
        cmocka_unit_test(only_regular_text_within_the_limit_is_read),
        cmocka_unit_test(trees_are_made_and_removed_without_following_links),
        cmocka_unit_test(only_a_guarded_read_survives_a_truncated_file),
        cmocka_unit_test(a_sleep_lasts_as_long_as_asked),
        cmocka_unit_test(every_version_draws_the_same_order),
        cmocka_unit_test(only_well_formed_ranges_are_read),
        cmocka_unit_test(normals_are_box_muller_of_their_blocks),
        cmocka_unit_test(nothing_read_refused_or_removed_stays_open),
        cmocka_unit_test(json_may_hold_huge_integers_and_zero_characters),
        cmocka_unit_test(base64_is_written_and_read_with_its_padding),
    };
    return cmocka_run_group_tests_name("base", tests, make_dir, remove_dir);
}
