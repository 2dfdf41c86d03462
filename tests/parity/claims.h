/* SPDX-License-Identifier: Apache-2.0 */
/* claims.h - a test of each claim and each variant of a file; after cmocka.h */
#ifndef TESTS_PARITY_CLAIMS_H
#define TESTS_PARITY_CLAIMS_H

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

struct claim {
    const char *name;
    void (*run)(void **state); /* *state: the name of the variant */
};

#define CLAIM(test)                                                            \
    {                                                                          \
#test, test                                                            \
    }

/* Runs the tests, or those that match DT_TEST_ONLY, as the group `group`;
 * returns the exit status of the program. `variants` is an object with a member
 * for each.
 */
static inline int claims_run(const char *group, const json_t *variants,
                             const struct claim *claims, size_t claim_count)
{
    enum { MOST_TESTS = 256 };
    static struct CMUnitTest tests[MOST_TESTS];
    static char names[MOST_TESTS][128];
    const char *name;
    json_t *variant;
    size_t count = 0;

    json_object_foreach((json_t *)variants, name, variant)
    {
        for (size_t i = 0; i < claim_count; i++, count++) {
            if (count == MOST_TESTS)
                return EXIT_FAILURE;
            snprintf(names[count], sizeof(names[count]), "%s: %s",
                     claims[i].name, name);
            tests[count] = (struct CMUnitTest){.name = names[count],
                                               .test_func = claims[i].run,
                                               .initial_state = (void *)name};
        }
    }
    if (count == 0)
        return EXIT_FAILURE;
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL);
}

#endif /* TESTS_PARITY_CLAIMS_H */
