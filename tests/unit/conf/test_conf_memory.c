/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_conf_memory.c - the n-th allocation fails, for n = 1, 2, ..., and
 * nothing leaks
 */
#include "config.h"

#include <errno.h>

#include "tests/unit/conf_pair.h"

#ifndef SANITIZER /* which has an allocator of its own */
static const char good_text[] =
    LEAST "learning_rate: 1e-3\n"
          "optimizer: {lr: 0.001, betas: [0.9, 0.95]}\n"
          "run: {name: x, output_dir: ~/out}\n"
          "data.eval: [train.txt, \"${DT_NOT_SET:-train.txt}\"]\n"
          "bf16: false\n"
          "use_ddp: true\n"
          "mode: train\n"
          "env: {A: x, XLA_B: y}\n"
          "zero_optimization: {stage: 0}\n"
          "deepspeed: ds.json\n";

static const char rewards_text[] =
    "reward.functions:\n"
    "  - {type: exact, extract: 'a(b)', weight: 2}\n"
    "  - {type: command, command: [/bin/true, -x], channels: {a: 1, b: 2},\n"
    "     config: {a: [1, x, {b: null}]}}\n"
    "  - {type: format, tags: [a, b]}\n";

static const char bad_text[] = "algoritm: sft\n"
                               "lr: [fast\n, 1]\n"
                               "seed: -1\n";

/* The allocator of glibc, behind ours. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *old);

static long left; /* allocations until one fails; 0: none fails */
static long live; /* allocations that are not freed */

static bool fails(void)
{
    return left > 0 && --left == 0;
}

void *malloc(size_t bytes)
{
    void *new = fails() ? NULL : __libc_malloc(bytes);
    live += new != NULL;
    return new;
}

void *calloc(size_t count, size_t bytes)
{
    void *new = fails() ? NULL : __libc_calloc(count, bytes);
    live += new != NULL;
    return new;
}

void *realloc(void *old, size_t bytes)
{
    void *new = fails() ? NULL : __libc_realloc(old, bytes);
    live += new && !old;
    return new;
}

void free(void *old)
{
    live -= old != NULL;
    __libc_free(old);
}

/* Loads `text`, its n-th allocation failing. False if it needs fewer. */
static bool load_failing(const char *text, long n, struct dt_conf **conf)
{
    struct dt_conf_problems problems, warnings;
    left = n;
    *conf =
        dt_conf_load_text("t.yaml", text, strlen(text), &problems, &warnings);
    bool failed = left == 0;
    left = 0;
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return failed;
}

static void a_good_file_leaks_nothing_when_memory_fails(void **state)
{
    struct dt_conf *whole, *conf;
    long n = 1;
    (void)state;
    setenv("HOME", "/", 1);
    write_file(
        "ds.json",
        "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-3,\n"
        "\"betas\": \"auto\"}}, \"steps_per_print\": 2e6,\n"
        "\"fp16\": {\"enabled\": true}}");
    load_failing(good_text, 0, &whole);
    assert_non_null(whole);
    long before = live;
    for (; load_failing(good_text, n, &conf); n++) {
        /* What is lost without an error can only be a warning. */
        if (conf)
            assert_true(conf->fingerprint == whole->fingerprint);
        dt_conf_destroy(conf);
        assert_int_equal(live, before);
    }
    assert_true(n > 100);
    assert_non_null(conf);
    dt_conf_destroy(conf);
    dt_conf_destroy(whole);
}

static void reward_functions_leak_nothing_when_memory_fails(void **state)
{
    struct dt_conf *conf;
    long n = 1;
    (void)state;
    long before = live;
    for (; load_failing(rewards_text, n, &conf); n++) {
        if (conf)
            assert_int_equal(conf->reward.count, 3);
        dt_conf_destroy(conf);
        assert_int_equal(live, before);
    }
    assert_true(n > 100);
    assert_non_null(conf);
    dt_conf_destroy(conf);
}

static void a_bad_file_leaks_nothing_when_memory_fails(void **state)
{
    struct dt_conf *conf;
    long n = 1;
    (void)state;
    long before = live;
    for (; load_failing(bad_text, n, &conf); n++) {
        assert_null(conf);
        assert_int_equal(live, before);
    }
    assert_true(n > 50);
    assert_null(conf);
}
#else
static void reward_functions_leak_nothing_when_memory_fails(void **state)
{
    (void)state;
    skip();
}

static void a_good_file_leaks_nothing_when_memory_fails(void **state)
{
    (void)state;
    skip();
}

static void a_bad_file_leaks_nothing_when_memory_fails(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_leaks_nothing_when_memory_fails),
        cmocka_unit_test(reward_functions_leak_nothing_when_memory_fails),
        cmocka_unit_test(a_bad_file_leaks_nothing_when_memory_fails),
    };
    return cmocka_run_group_tests_name("conf memory", tests, enter_directory,
                                       leave_pair);
}
