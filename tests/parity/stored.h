/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - losses that a reference library stored, and ours; after cmocka.h
 */
#ifndef TESTS_PARITY_STORED_H
#define TESTS_PARITY_STORED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* The content of a file beside this one. The caller releases it. */
static inline json_t *stored_load(const char *name)
{
    char path[4096];
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */

    snprintf(path, sizeof(path), "%s/tests/parity/%s", srcdir ? srcdir : ".",
             name);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static inline double stored_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value))
        fail_msg("%s: no number", key);
    return json_number_value(value);
}

static inline int stored_index(const char *word, const char *const *words,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    fail_msg("%s: unknown", word);
    return -1;
}

/* Asserts that `what` of the case `label` is what was stored. */
static inline void stored_check(const json_t *label, const char *what,
                                double got, double want)
{
    if (fabs(got - want) <= 1e-6 * (1.0 + fabs(want)))
        return;
    char *text = json_dumps(label, JSON_COMPACT);
    fail_msg("%.300s: %s is %.12g, should be %.12g", text, what, got, want);
}

#endif /* TESTS_PARITY_STORED_H */
