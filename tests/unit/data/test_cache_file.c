/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache_file.c - one file of a cache: its stamp, and what is summed */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/cache.h"
#include "tests/unit/disk.h"
#include "tests/unit/scratch.h"

static const uint64_t one_offset[] = {0, 1};
static const uint32_t one_token[] = {7};
static const struct dt_cache one = {.counts.lines = 1,
                                    .count = 1,
                                    .token_count = 1,
                                    .offsets = one_offset,
                                    .tokens = one_token,
                                    .notes = ""};

/* The key of a file that is as it was is in its cache. */
static void only_the_same_stamp_finds_the_key(void **state)
{
    char path[512];
    struct dt_error err;
    uint64_t key = 0;
    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("stamped"));
    assert_false(dt_cache_key(path, 5, &key));
    assert_int_equal(dt_cache_write(path, scratch_path("temporary"), 3, 5, &one,
                                    1, false, 0, &err),
                     0);
    assert_false(dt_cache_key(path, 6, &key));
    assert_true(dt_cache_key(path, 5, &key));
    assert_int_equal(key, 3);
    assert_int_equal(dt_cache_write(path, scratch_path("temporary"), 3, 0, &one,
                                    1, false, 0, &err),
                     0);
    assert_false(dt_cache_key(path, 0, &key));
}

/* Another token at `at` is noticed. */
static void check_noticed(const struct dt_cache *cache, size_t at)
{
    struct dt_cache read;
    struct dt_error err;
    char path[512];
    snprintf(path, sizeof(path), "%s", scratch_path("samples"));
    assert_int_equal(dt_cache_write(path, scratch_path("temporary"), 3, 0,
                                    cache, 1, false, 0, &err),
                     0);
    assert_int_equal(dt_cache_open(&read, path, 3, &err), 0);
    off_t place =
        (const char *)(read.tokens + at) - (const char *)read.map.data;
    dt_cache_close(&read);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, place), 1);
    close(fd);
    assert_int_equal(dt_cache_open(&read, path, 3, &err), -1);
    assert_non_null(strstr(err.text, "samples: damaged"));
}

/* All of up to a million tokens is summed; of more, the ends and samples. */
static void damage_to_a_summed_token_is_noticed(void **state)
{
    static const size_t sizes[] = {16384, 3 * 16384 - 1, 64 * 16384 - 1,
                                   1 << 21};
    uint32_t *tokens = calloc(1 << 21, sizeof(*tokens));
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        const uint64_t offsets[] = {0, sizes[s]};
        struct dt_cache cache = {.counts.lines = 1,
                                 .count = 1,
                                 .token_count = sizes[s],
                                 .offsets = offsets,
                                 .tokens = tokens,
                                 .notes = ""};
        for (size_t i = 0; i <= 10; i += s < 3 ? 1 : 10)
            check_noticed(&cache, (sizes[s] - 1) * i / 10);
    }
    free(tokens);
}

/* Between the samples of a cache, a block is found to be damaged when it
 * is used, and not again.
 */
static void damage_to_a_block_is_noticed_when_it_is_used(void **state)
{
    enum { SIZE = 8 * DT_CACHE_BLOCK_TOKENS };
    uint32_t *tokens = calloc(SIZE, sizeof(*tokens));
    const uint64_t offsets[] = {0, SIZE};
    const struct dt_cache cache = {.counts.lines = 1,
                                   .count = 1,
                                   .token_count = SIZE,
                                   .offsets = offsets,
                                   .tokens = tokens,
                                   .notes = ""};
    const size_t at = DT_CACHE_BLOCK_TOKENS + 20000; /* no sample has it */
    char path[512], wanted[1024];
    struct dt_cache read;
    struct dt_error err;
    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("blocks"));
    assert_int_equal(dt_cache_write(path, scratch_path("temporary"), 3, 0,
                                    &cache, 1, false, 0, &err),
                     0);
    assert_int_equal(dt_cache_open(&read, path, 3, &err), 0);
    assert_int_equal(dt_cache_check(&read, 0, SIZE, &err), 0);
    const char *block = (const char *)(read.tokens + DT_CACHE_BLOCK_TOKENS);
    const size_t from = (size_t)(block - (const char *)read.map.data);
    int fd = open(path, O_WRONLY);
    assert_int_equal(
        pwrite(fd, "x", 1,
               (const char *)(read.tokens + at) - (const char *)read.map.data),
        1);
    close(fd);
    assert_int_equal(dt_cache_check(&read, 0, SIZE, &err), 0);
    dt_cache_close(&read);
    assert_int_equal(dt_cache_open(&read, path, 3, &err), 0);
    assert_int_equal(dt_cache_check(&read, 0, DT_CACHE_BLOCK_TOKENS, &err), 0);
    assert_int_equal(dt_cache_check(&read, DT_CACHE_BLOCK_TOKENS - 1, 2, &err),
                     -1);
    snprintf(wanted, sizeof(wanted),
             "%s: damaged: block 2 of 8, at byte %zu, has another checksum: "
             "remove the file, which is made again, and look at the disk that "
             "it is on",
             path, from);
    assert_string_equal(err.text, wanted);
    assert_int_equal(err.status, EX_DATAERR);
    assert_int_equal(dt_cache_check(&read, SIZE - 1, 1, &err), 0);
    dt_cache_close(&read);
    free(tokens);
}

/* Blocks that parts begin and end in have the sums of the whole. */
static void blocks_are_summed_over_parts(void **state)
{
    enum { PART = DT_CACHE_BLOCK_TOKENS / 2 + 7, PARTS = 5 };
    uint32_t *tokens = calloc(PART, sizeof(*tokens));
    const uint64_t offsets[] = {0, PART};
    struct dt_cache parts[PARTS], read;
    struct dt_error err;
    char path[512];
    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("joined"));
    for (uint32_t i = 0; i < PART; i++)
        tokens[i] = i;
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct dt_cache){.counts.lines = 1,
                                     .count = 1,
                                     .token_count = PART,
                                     .offsets = offsets,
                                     .tokens = tokens,
                                     .notes = ""};
    assert_int_equal(dt_cache_write(path, scratch_path("temporary"), 3, 0,
                                    parts, PARTS, false, 0, &err),
                     0);
    assert_int_equal(dt_cache_open(&read, path, 3, &err), 0);
    assert_int_equal(read.token_count, PARTS * PART);
    assert_int_equal(dt_cache_check(&read, 0, PARTS * PART, &err), 0);
    assert_int_equal(read.tokens[4 * PART + 3], 3);
    dt_cache_close(&read);
    free(tokens);
}

static void a_cache_is_synced_before_it_takes_its_place(void **state)
{
    struct dt_error err;
    (void)state;
    disk_record();
    assert_int_equal(dt_cache_write(scratch_path("synced"),
                                    scratch_path("temporary"), 3, 0, &one, 1,
                                    false, 0, &err),
                     0);
    assert_string_equal(disk_recorded(), "fsync temporary\n"
                                         "rename temporary synced\n");
}

static void a_cache_that_the_disk_refuses_leaves_the_old_one(void **state)
{
    static const struct {
        const char *call, *name;
        int error;
    } cases[] = {
        {"write", "temporary", ENOSPC},
        {"fsync", "temporary", EIO},
        {"close", "temporary", EDQUOT},
        {"rename", "old", ESTALE},
    };
    char path[512], temporary[512];
    struct dt_error err;
    struct dt_cache read;
    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("old"));
    snprintf(temporary, sizeof(temporary), "%s", scratch_path("temporary"));
    assert_int_equal(
        dt_cache_write(path, temporary, 3, 0, &one, 1, false, 0, &err), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        disk_refuse(cases[i].call, cases[i].name, cases[i].error);
        int rc = dt_cache_write(path, temporary, 4, 0, &one, 1, false, 0, &err);
        disk_refuse(NULL, NULL, 0);
        if (rc != -1 || !strstr(err.text, strerror(cases[i].error)))
            fail_msg("%s: %d %s", cases[i].call, rc, err.text);
        assert_int_equal(err.status, EX_IOERR);
        assert_int_equal(access(temporary, F_OK), -1);
        assert_int_equal(dt_cache_open(&read, path, 3, &err), 0);
        dt_cache_close(&read);
    }
}

static void a_cache_that_cannot_be_placed_leaves_nothing(void **state)
{
    const char *folder = scratch_path("folder");
    const char *temporary = scratch_path("temporary");
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_file_mkdirs(folder, NULL), 0);
    assert_int_equal(
        dt_cache_write(folder, temporary, 3, 0, &one, 1, false, 1, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, "folder: cannot write: Is a directory"));
    assert_int_equal(access(temporary, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_same_stamp_finds_the_key),
        cmocka_unit_test(damage_to_a_summed_token_is_noticed),
        cmocka_unit_test(damage_to_a_block_is_noticed_when_it_is_used),
        cmocka_unit_test(blocks_are_summed_over_parts),
        cmocka_unit_test(a_cache_is_synced_before_it_takes_its_place),
        cmocka_unit_test(a_cache_that_the_disk_refuses_leaves_the_old_one),
        cmocka_unit_test(a_cache_that_cannot_be_placed_leaves_nothing),
    };
    return cmocka_run_group_tests_name("cache_file", tests, NULL, NULL);
}
