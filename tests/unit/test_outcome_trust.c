/* SPDX-License-Identifier: Apache-2.0 */
/* test_outcome_trust.c - whose words about a step are believed */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/outcome.h"

#define EXIT(code) ((code) << 8)

/* Anybody may print a line that begins with our name: a warning of the plugin,
 * a wrapper around the program.
 */
static void a_line_with_our_name_hides_no_failure(void **state)
{
    static const struct {
        const char *line; /* the last one of rank 0, which Slurm ends */
        int status;       /* of rank 3, which fails */
        bool told;
    } cases[] = {
        {"disttrain: warning: this step has no MPI\n", EXIT(3), false},
        {"disttrain: warning: this step has no MPI\n", EXIT(66), false},
        {"disttrain: hello from my wrapper\n", EXIT(1), false},
        {"disttrain: rank 0 of 8 on n1 failed: text\n", EXIT(1), false},
        {"disttrain: rank 0 of 2 on n1 failed: text\n", EXIT(66), false},
        {"disttrain: rank 1 of 8 on n1 failed: text\n", EXIT(66), false},
        {"disttrain: rank 0 of 8 on n1 failed: text\n", EXIT(66), true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        struct dt_outcome *o = step();
        start_all(o);
        say(o, 0, 101500, cases[i].line);
        record(o, 102000, "exit", 3, 102000, cases[i].status);
        record(o, 102100, "exit", 0, 102100, SIGTERM);
        dt_outcome_report(o, out);
        fclose(out);
        assert_int_equal(cases[i].told, text[0] == '\0');
        free(text);
        dt_outcome_destroy(o);
    }
    /* of one rank the runtime says less, and so does launch.command */
    static const int ends[] = {EXIT(73), EXIT(127), EXIT(1), EXIT(2)};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct dt_outcome_ending ending;
        struct dt_outcome *o = step();
        say(o, 3, 101500, "disttrain: run.output_dir is not empty\n");
        record(o, 102000, "exit", 3, 102000, ends[i]);
        assert_true(dt_outcome_ending(o, &ending));
        assert_int_equal(!strcmp(ending.text, "run.output_dir is not empty"),
                         i < 2);
        dt_outcome_destroy(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_with_our_name_hides_no_failure),
    };
    return cmocka_run_group_tests_name("trust", tests, NULL, NULL);
}
