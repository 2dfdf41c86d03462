/* SPDX-License-Identifier: Apache-2.0 */
/* argv.c - completing srun's command line in place */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/argv.h"

#define OPTION "--disttrain"
#define SHORTEST "--distt" /* "--dist" could be --distribution as well */

static bool is_option(const char *word)
{
    size_t len = strcspn(word, "=");
    return len >= strlen(SHORTEST) && len <= strlen(OPTION) &&
           strncmp(word, OPTION, len) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void remove_words(int *argc, char **argv, int at, int count)
{
    memmove(argv + at, argv + at + count,
            sizeof(*argv) * (size_t)(*argc - at - count));
    *argc -= count;
}

/* Joins the word at `at` and the value behind it: "-n" "4" to "-n4", "--x" "4"
 * to "--x=4".
 */
static int merge_words(int *argc, char **argv, int at, struct dt_error *err)
{
    bool is_long = strncmp(argv[at], "--", 2) == 0;
    char *word = NULL;
    if (asprintf(&word, "%s%s%s", argv[at], is_long ? "=" : "", argv[at + 1]) <
        0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    argv[at] = word;
    remove_words(argc, argv, at + 1, 1);
    return 0;
}

/* The first option that has its value as a separate word. In a command line
 * without a command, a word that does not begin with "-" can be nothing else
 * than the value of the one before it. -1: none.
 */
static int find_separate_value(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (argv[i][0] != '-' && argv[i][0] != '\0' && argv[i][0] != ':' &&
            argv[i - 1][0] == '-')
            return i - 1;
    return -1;
}

int dtspank_argv_find(int argc, char **argv, const char **value)
{
    for (int i = 1; i < argc; i++) {
        if (!is_option(argv[i]))
            continue;
        const char *equals = strchr(argv[i], '=');
        *value = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
        return *value ? i : -1;
    }
    return -1;
}

bool dtspank_argv_only_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool end_of_options = strcmp(argv[i], "--") == 0;
        if (end_of_options && i < argc - 1)
            return false;
        if (strcmp(argv[i], ":") != 0 &&
            (argv[i][0] != '-' || argv[i][1] == '\0'))
            return false;
    }
    return true;
}

bool dtspank_argv_names(int argc, char **argv, const char *path)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(base_name(argv[i]), base_name(path)) == 0)
            return true;
    return false;
}

/* srun's options, 22.05 to 26.05, that do not have the next word as a value:
 * those without one, and those whose value has to be in the same word.
 */
static const char *const alone[] = {
    "async",
    "bcast",
    "bell",
    "compress",
    "contiguous",
    "debugger-test",
    "disable-status",
    "exact",
    "exclusive",
    "external-launcher",
    "help",
    "hold",
    "immediate",
    "interactive",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-bell",
    "no-kill",
    "no-requeue",
    "oom-kill-step",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "requeue",
    "resv-ports",
    "send-libs",
    "share",
    "spread-job",
    "stepmgr",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "whole",
    "x11",
};
#define ALONE "EHOQVXZhlsuv" /* short ones without a value ... */
#define SAME_WORD "IKk"      /* ... or with one in the same word */

/* Whether the long option `word` (without "--") can stand for `name`. */
static bool abbreviates(const char *word, const char *name)
{
    size_t len = strcspn(word, "=");
    return len > 0 && strncmp(word, name, len) == 0;
}

/* Whether the value of this option is the next word. */
static bool takes_next(const char *word)
{
    if (word[1] != '-') {
        size_t i = 1 + strspn(word + 1, ALONE);
        return word[i] != '\0' && strchr(SAME_WORD, word[i]) == NULL &&
               word[i + 1] == '\0';
    }
    if (strchr(word, '='))
        return false;
    for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++)
        if (abbreviates(word + 2, alone[i]))
            return false;
    return true;
}

int dtspank_argv_command(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' &&
           strcmp(argv[i], "--") != 0)
        i += takes_next(argv[i]) ? 2 : 1;
    return i < argc ? i : argc;
}

bool dtspank_argv_has(int end, char **argv, char letter, const char *name)
{
    for (int i = 1; i < end; i += takes_next(argv[i]) ? 2 : 1) {
        if (argv[i][1] == '-' && abbreviates(argv[i] + 2, name))
            return true;
        size_t len = 1 + strspn(argv[i] + 1, ALONE);
        if (argv[i][1] != '-' && letter &&
            (argv[i][len] == letter || memchr(argv[i] + 1, letter, len - 1)))
            return true;
    }
    return false;
}

int dtspank_argv_place(int argc, char **argv, int option, char *command,
                       char *first_option, struct dt_error *err)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--multi-prog") == 0)
            return dt_error_set(err, EX_USAGE,
                                "--multi-prog needs its file as the command");

    bool two_words = strchr(argv[option], '=') == NULL;
    int left = argc;
    if (two_words && !first_option) {
        if (merge_words(&left, argv, option, err) != 0)
            return -1;
    } else {
        remove_words(&left, argv, option, two_words ? 2 : 1);
    }
    if (first_option && left == argc - 1) {
        int at = find_separate_value(left, argv);
        if (at > 0 && merge_words(&left, argv, at, err) != 0)
            return -1;
    }
    if (first_option && left == argc - 2) {
        memmove(argv + 2, argv + 1, sizeof(*argv) * (size_t)(left - 1));
        argv[1] = first_option;
    }
    argv[argc - 1] = command;
    return 0;
}
