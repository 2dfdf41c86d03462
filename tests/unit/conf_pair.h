/* SPDX-License-Identifier: Apache-2.0 */
/* conf_pair.h - helpers for tests of a YAML file and its DeepSpeed file */
#ifndef DT_TESTS_UNIT_CONF_PAIR_H
#define DT_TESTS_UNIT_CONF_PAIR_H

#include "tests/unit/conf.h"

#define BF16 "\"bf16\": {\"enabled\": true}"

/* A YAML file of LEAST and these lines, the DeepSpeed file, and what is said of
 * them.
 */
struct pair {
    const char *lines, *json, *problems, *warnings;
};

static inline int leave_pair(void **state)
{
    unlink("ds.json");
    rmdir("sub");
    return leave_directory(state);
}

/* Removes the warning of DeepSpeed's defaults, which has a test of its own. */
static inline void drop_defaults(char *warnings)
{
    char *line = strstr(warnings, "DeepSpeed has other defaults");
    while (line && line > warnings && line[-1] != '\n')
        line--;
    if (line)
        memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n')));
}

static inline struct dt_conf *load_pair(const struct pair *pair,
                                        char **problems, char **warnings)
{
    char text[1024];
    write_file("ds.json", pair->json);
    snprintf(text, sizeof(text), LEAST "%s", pair->lines);
    struct dt_conf *conf = load_text(text, problems, warnings);
    drop_defaults(*warnings);
    return conf;
}

static inline void check_pairs(const struct pair *pairs, size_t count)
{
    int bad = 0;
    for (size_t i = 0; i < count; i++) {
        char *problems, *warnings;
        struct dt_conf *conf = load_pair(&pairs[i], &problems, &warnings);
        if (strcmp(problems, pairs[i].problems) != 0 ||
            strcmp(warnings, pairs[i].warnings) != 0) {
            fprintf(stderr, "case %zu\n%s%s\nwanted:\n%s%s\ngot:\n%s%s\n", i,
                    pairs[i].lines, pairs[i].json, pairs[i].problems,
                    pairs[i].warnings, problems, warnings);
            bad++;
        }
        assert_int_equal(conf == NULL, problems[0] != '\0');
        dt_conf_destroy(conf);
        free(problems);
        free(warnings);
    }
    assert_int_equal(bad, 0);
}

#define CHECK_PAIRS(pairs)                                                     \
    check_pairs(pairs, sizeof(pairs) / sizeof((pairs)[0]))

/* Loads a pair that must be good and without warnings. */
static inline struct dt_conf *load_good_pair(const char *lines,
                                             const char *json)
{
    const struct pair pair = {lines, json, "", ""};
    char *problems, *warnings;
    struct dt_conf *conf = load_pair(&pair, &problems, &warnings);
    assert_string_equal(problems, "");
    assert_string_equal(warnings, "");
    free(problems);
    free(warnings);
    return conf;
}

#endif /* DT_TESTS_UNIT_CONF_PAIR_H */
