/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_argv.c - srun's command line is found and completed in place */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "spank/srun/srun_impl.h"

enum {
    WORDS_MAX = 16,
};

/* Splits "srun -n2 ..." at single blanks; "''" is the empty word. */
static int split(char *line, char **argv)
{
    int argc = 0;
    for (char *word; (word = strsep(&line, " ")) != NULL;)
        argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    argv[argc] = NULL;
    return argc;
}

/* What is srun's, and what the runtime is told of it. */
static void the_option_and_words_of_srun_are_found(void **state)
{
    static const struct {
        const char *line;
        int option;
        const char *value;
        bool has_command;
        bool sure;
        const char *words;
    } cases[] = {
        {"srun", 0, NULL, false, true, ""},
        {"srun --disttrain=c -n2", 1, "c", false, true, "-n2"},
        {"srun -n 2 --disttrain c prog", 3, "c", true, true, "-n 2 -- prog"},
        {"srun --disttr c -N2", 0, NULL, false, false, "--disttr c -N2"},
        {"srun --disttrain-set a=1 --disttrain=c -l", 3, "c", false, true,
         "-l"},
        {"srun --disttrain-s=a=1 x --disttrain-set=b=2", 0, NULL, true, true,
         "-- x --disttrain-set=b=2"},
        {"srun --disttrain=", 1, "", false, true, ""},
        {"srun --disttrain=a=b", 1, "a=b", false, true, ""},
        {"srun --disttrain=a -l --disttrain=b x", 1, "b", true, true,
         "-l -- x"},
        {"srun --disttrain", 1, NULL, false, true, ""},
        {"srun --disttrain -x", 1, "-x", false, true, ""},
        {"srun --dist=cyclic prog", 0, NULL, true, true,
         "--dist=cyclic -- prog"},
        {"srun --disttrainer=c prog", 0, NULL, true, true,
         "--disttrainer=c -- prog"},
        {"srun prog --disttrain=x", 0, NULL, true, true,
         "-- prog --disttrain=x"},
        {"srun --disttrain=c prog --disttrain=x", 1, "c", true, true,
         "-- prog --disttrain=x"},
        {"srun -n1 -- prog --disttrain=x", 0, NULL, true, true,
         "-n1 -- prog --disttrain=x"},
        {"srun --disttrain=c --", 1, "c", false, true, ""},
        {"srun --exclusive prog --disttrain=x", 0, NULL, true, true,
         "--exclusive -- prog --disttrain=x"},
        {"srun -n1 : -n 2 --disttrain=c", 5, "c", false, true, "-n1 : -n 2"},
        {"srun -n1 a : -n2 --disttrain=c b", 0, NULL, true, true,
         "-n1 -- a : -n2 --disttrain=c"},
        {"srun --wait 5 --disttrain=c x", 3, "c", true, false, "--wait 5 -- x"},
        {"srun -W 5 --disttrain=c x", 3, "c", true, true, "-W 5 -- x"},
        {"sbatch -W --disttrain=c x", 2, "c", true, true, "-W -- x"},
        {"/bin/sbatch --wait x --disttrain=c", 0, NULL, true, true,
         "--wait -- x --disttrain=c"},
        {"sbatch -QW -n2 --disttrain=c x", 3, "c", true, true, "-QW -n2 -- x"},
        {"srun --no-such --disttrain=c -l", 2, "c", false, true,
         "--no-such -l"},
        {"srun --no-such : --disttrain=c", 3, "c", false, true, "--no-such :"},
        {"srun --no-such prog --disttrain=x", 3, "x", false, false,
         "--no-such prog"},
        {"srun -l --no-such", 0, NULL, false, true, "-l --no-such"},
        {"srun -n", 0, NULL, false, true, "-n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[128];
        char joined[128] = "";
        char *argv[WORDS_MAX];
        char *words[WORDS_MAX];
        struct dtspank_argv found;
        snprintf(line, sizeof(line), "%s", cases[i].line);
        int argc = split(line, argv);
        dtspank_argv_scan(argc, argv, &found, words);
        assert_int_equal(found.option, cases[i].option);
        if (cases[i].value)
            assert_string_equal(found.value, cases[i].value);
        else
            assert_null(found.value);
        assert_int_equal(found.has_command, cases[i].has_command);
        assert_int_equal(found.sure, cases[i].sure);
        for (char **w = words; *w; w++) {
            strcat(joined, w > words ? " " : "");
            strcat(joined, *w);
        }
        assert_string_equal(joined, cases[i].words);
    }
}

static void a_program_is_named_by_its_last_component(void **state)
{
    char *argv[] = {"disttrain", "-n2", "/opt/bin/disttrain", NULL};
    (void)state;
    assert_true(dtspank_argv_names(3, argv, "/usr/bin/disttrain"));
    assert_false(dtspank_argv_names(2, argv, "/usr/bin/disttrain"));
}

/* The command line before and after; nothing grows. */
static void the_runtime_takes_the_place_of_the_option(void **state)
{
    static const struct {
        const char *before;
        const char *mpi;
        const char *after;
    } cases[] = {
        {"srun --disttrain=c", NULL, "srun RUN"},
        {"srun --disttrain=c -n2 -N2", NULL, "srun -n2 -N2 RUN"},
        {"srun -n2 --disttrain=c --", NULL, "srun -n2 -- RUN"},
        {"srun --disttrain c", NULL, "srun --disttrain=c RUN"},
        {"srun -n 4 --disttrain c -N2", NULL,
         "srun -n 4 --disttrain=c -N2 RUN"},
        {"srun --disttrain=c -n1 : -n2", NULL, "srun -n1 : -n2 RUN"},
        {"srun -n 4 --disttrain=c", "--mpi=pmix", "srun --mpi=pmix -n4 RUN"},
        {"srun --ntasks 4 -N 2 --disttrain=c", "--mpi=pmix",
         "srun --mpi=pmix --ntasks=4 -N 2 RUN"},
        {"srun --disttrain c -n 4", "--mpi=pmix", "srun --mpi=pmix -n 4 RUN"},
        {"srun --comment '' -n 4 --disttrain=c", "--mpi=pmix",
         "srun --mpi=pmix --comment '' -n4 RUN"},
        {"srun -n 4 --disttrain=c --mpi=none", "--mpi=pmix",
         "srun --mpi=pmix -n4 --mpi=none RUN"},
        {"srun --disttrain=c -n4", "--mpi=pmix", "srun -n4 RUN"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char before[128];
        char after[128];
        char *argv[WORDS_MAX];
        char *want[WORDS_MAX];
        char *words[WORDS_MAX];
        struct dtspank_argv found;
        snprintf(before, sizeof(before), "%s", cases[i].before);
        snprintf(after, sizeof(after), "%s", cases[i].after);
        int argc = split(before, argv);
        int left = split(after, want);
        dtspank_argv_scan(argc, argv, &found, words);
        assert_int_equal(dtspank_argv_place(argc, argv, found.option, "RUN",
                                            (char *)cases[i].mpi, NULL),
                         0);
        assert_int_equal(left, argc);
        for (int w = 0; w < argc; w++)
            assert_string_equal(argv[w], want[w]);
        assert_null(argv[argc]);
        for (int w = 0; w < argc; w++) /* merged words are new */
            if ((argv[w] < before || argv[w] >= before + sizeof(before)) &&
                strpbrk(argv[w], "0123456789c") && argv[w] != cases[i].mpi)
                free(argv[w]);
    }
}

static void multi_prog_without_a_file_is_refused(void **state)
{
    char *argv[] = {"srun", "--multi-prog", "--disttrain=c", NULL};
    struct dt_error err;
    (void)state;
    assert_int_equal(dtspank_argv_place(3, argv, 2, "RUN", NULL, &err), -1);
    assert_string_equal(err.text, "--multi-prog needs its file as the command");
}

static void the_command_begins_after_the_options_of_srun(void **state)
{
    static const struct {
        const char *line;
        int command;
    } cases[] = {
        {"srun", 1},
        {"srun prog -o x", 1},
        {"srun -n2 prog", 2},
        {"srun -n 2 prog -n 3", 3},
        {"srun -lun 2 prog", 3},
        {"srun -lun2 prog", 2},
        {"srun -K prog", 2},
        {"srun -K0 prog", 2},
        {"srun -lu prog", 2},
        {"srun --label --nodes 2 prog", 4},
        {"srun --nodes=2 --exclusive --overl prog", 4},
        {"srun --disttrain c prog", 3},
        {"srun --disttrain=c -n 2", 4},
        {"srun --disttrain=c -- prog", 2},
        {"srun --container-image x prog", 3},
        {"srun --nodes", 2},
        {"srun - x", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[128];
        char *argv[WORDS_MAX];
        snprintf(line, sizeof(line), "%s", cases[i].line);
        int argc = split(line, argv);
        assert_int_equal(dtspank_argv_command(argc, argv), cases[i].command);
    }
}

static void an_option_is_found_in_any_spelling(void **state)
{
    static const struct {
        const char *line;
        bool has;
    } cases[] = {
        {"srun -o f prog", true},        {"srun -of prog", true},
        {"srun -lo f prog", true},       {"srun --output f prog", true},
        {"srun --output=f prog", true},  {"srun --outp=f prog", true},
        {"srun -Jo prog", false},        {"srun -J o prog", false},
        {"srun -J -o prog", false},      {"srun prog -o f", false},
        {"srun prog --output f", false}, {"srun --open-mode=append x", false},
        {"srun -- -o x", false},         {"srun --overlap -n 2", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[128];
        char *argv[WORDS_MAX];
        snprintf(line, sizeof(line), "%s", cases[i].line);
        int argc = split(line, argv);
        int end = dtspank_argv_command(argc, argv);
        assert_int_equal(dtspank_argv_has(end, argv, 'o', "output"),
                         cases[i].has);
    }
    char *argv[] = {"srun", "-lu", "--lab", NULL};
    assert_true(dtspank_argv_has(2, argv, 'l', "label"));
    assert_true(dtspank_argv_has(2, argv, 'u', "unbuffered"));
    assert_false(dtspank_argv_has(2, argv, 'O', "overcommit"));
    assert_false(dtspank_argv_has(2, argv, '\0', "pty"));
    argv[1] = "-n2";
    assert_true(dtspank_argv_has(3, argv, 'l', "label"));
}

static void a_word_may_stand_where_a_value_was_forgotten(void **state)
{
    static const struct {
        const char *line, *value;
        bool may;
    } cases[] = {
        {"srun --disttrain python3 t.py", "python3", true},
        {"srun --disttrain ./t.sh", "./t.sh", true},
        {"srun --disttrain python3 t.py", "other", false},
        {"srun --disttrain c.yaml t.py", "c.yaml", false},
        {"srun --disttrain=python3 t.py", "python3", false},
        {"srun --disttrain", "python3", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[128], *argv[WORDS_MAX], *words[WORDS_MAX];
        struct dtspank_argv found;
        snprintf(line, sizeof(line), "%s", cases[i].line);
        dtspank_argv_scan(split(line, argv), argv, &found, words);
        assert_int_equal(dtspank_argv_took_word(&found, cases[i].value),
                         cases[i].may);
    }
}

static void sbatch_reads_its_script_from_a_file(void **state)
{
    char *named[] = {"/usr/bin/sbatch", "-N2", "job.sh", "--wrap=x", NULL};
    char *wrapped[] = {"sbatch", "-N2", "--wrap=x", NULL};
    char *other[] = {"salloc", "-N2", "sh", NULL};
    char input[64];
    (void)state;
    assert_string_equal(dtspank_argv_script(4, named, 2), "job.sh");
    assert_string_equal(dtspank_argv_script(3, wrapped, 3), "");
    assert_string_equal(dtspank_argv_script(3, other, 2), "");
    snprintf(input, sizeof(input), "/proc/%d/fd/0", (int)getpid());
    assert_string_equal(dtspank_argv_script(2, named, 2), input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_option_and_words_of_srun_are_found),
        cmocka_unit_test(a_program_is_named_by_its_last_component),
        cmocka_unit_test(the_runtime_takes_the_place_of_the_option),
        cmocka_unit_test(multi_prog_without_a_file_is_refused),
        cmocka_unit_test(the_command_begins_after_the_options_of_srun),
        cmocka_unit_test(an_option_is_found_in_any_spelling),
        cmocka_unit_test(a_word_may_stand_where_a_value_was_forgotten),
        cmocka_unit_test(sbatch_reads_its_script_from_a_file),
    };
    return cmocka_run_group_tests_name("spank_argv", tests, NULL, NULL);
}
