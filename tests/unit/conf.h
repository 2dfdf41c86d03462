/* SPDX-License-Identifier: Apache-2.0 */
/* conf.h - helpers that the tests of configurations share */
#ifndef DT_TESTS_UNIT_CONF_H
#define DT_TESTS_UNIT_CONF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf_impl.h"

/* The smallest valid configuration, of four lines; tests add lines from 5 on.
 */
#define LEAST                                                                  \
    "algorithm: sft\n"                                                         \
    "data.train: train.txt\n"                                                  \
    "model.n_embd: 96\n"                                                       \
    "training.per_device_batch_size: 2\n"

static char test_directory[] = "/tmp/disttrain-conf-XXXXXX";

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

/* Tests run in a directory of their own, with a data file and a folder. */
static int enter_directory(void **state)
{
    (void)state;
    if (!mkdtemp(test_directory) || chdir(test_directory) < 0)
        return -1;
    write_file("train.txt", "hello\n");
    write_file("train.jsonl", "{\"text\": \"hello\"}\n");
    write_file("tokens.bin", "ab");
    return 0;
}

static int leave_directory(void **state)
{
    (void)state;
    unlink("train.txt");
    unlink("train.jsonl");
    unlink("tokens.bin");
    unlink("t.yaml");
    return chdir("/") < 0 || rmdir(test_directory) < 0 ? -1 : 0;
}

/* The lines of a list, each with \n, malloc'ed. */
static char *joined(const struct dt_conf_problems *list)
{
    size_t bytes = 1;
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->text[i]) + 1;
    char *text = calloc(1, bytes), *end = text;
    for (size_t i = 0; i < list->count; i++)
        end += sprintf(end, "%s\n", list->text[i]);
    return text;
}

/* Loads `text` as t.yaml; the caller frees *problems and *warnings, and
 * destroys the configuration.
 */
static inline struct dt_conf *load_text(const char *text, char **problems,
                                        char **warnings)
{
    struct dt_conf_problems found, warned;
    struct dt_conf *conf =
        dt_conf_load_text("t.yaml", text, strlen(text), &found, &warned);
    *problems = joined(&found);
    *warnings = joined(&warned);
    dt_conf_problems_fini(&found);
    dt_conf_problems_fini(&warned);
    return conf;
}

struct broken {
    const char *text, *problems;
};

/* Checks that each case fails with exactly these problems, in this order. */
static inline void check_all(const struct broken *cases, size_t count)
{
    int bad = 0;
    for (size_t i = 0; i < count; i++) {
        char *problems, *warnings;
        struct dt_conf *conf = load_text(cases[i].text, &problems, &warnings);
        if (conf || strcmp(problems, cases[i].problems) != 0) {
            fprintf(stderr, "case %zu\n%s\nwanted:\n%s\ngot:\n%s\n", i,
                    cases[i].text, cases[i].problems, problems);
            bad++;
        }
        dt_conf_destroy(conf);
        free(problems);
        free(warnings);
    }
    assert_int_equal(bad, 0);
}

#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

/* Loads a text that must be valid and give exactly these warnings. */
static inline struct dt_conf *load_good(const char *text, const char *warned)
{
    char *problems, *warnings;
    struct dt_conf *conf = load_text(text, &problems, &warnings);
    assert_string_equal(problems, "");
    assert_string_equal(warnings, warned);
    assert_non_null(conf);
    free(problems);
    free(warnings);
    return conf;
}

/* Loads LEAST and these lines, which must be valid and give no warning. */
static inline struct dt_conf *load_more(const char *lines)
{
    char text[1024];
    snprintf(text, sizeof(text), LEAST "%s", lines);
    return load_good(text, "");
}

#endif /* DT_TESTS_UNIT_CONF_H */
