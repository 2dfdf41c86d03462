/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.c - completes the command line of srun in place, and warns of a launcher
 * in it
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "base/launcher.h"
#include "base/str.h"
#include "spank/srun/srun_impl.h"

#define OPTION "--disttrain" /* no abbreviation: it could mean the next one */
#define SET_OPTION "--disttrain-set"

static bool is_option(const char *word)
{
    return strcspn(word, "=") == strlen(OPTION) &&
           strncmp(word, OPTION, strlen(OPTION)) == 0;
}

static bool is_set_option(const char *word)
{
    size_t len = strcspn(word, "=");
    return len > strlen(OPTION) && len <= strlen(SET_OPTION) &&
           strncmp(word, SET_OPTION, len) == 0;
}

static void remove_words(int *argc, char **argv, int at, int count)
{
    memmove(argv + at, argv + at + count,
            sizeof(*argv) * (size_t)(*argc - at - count));
    *argc -= count;
}

/* Joins the word at `at` and the value after it: "-n" "4" to "-n4", "--x" "4"
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

/* Returns the index of the first option whose value is a separate word. In a
 * command line without a command, a word that does not begin with "-" must be
 * the value of the option before it. -1: none.
 */
static int find_separate_value(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (argv[i][0] != '-' && argv[i][0] != '\0' && argv[i][0] != ':' &&
            argv[i - 1][0] == '-')
            return i - 1;
    return -1;
}

bool dtspank_argv_names(int argc, char **argv, const char *path)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(dt_str_base_name(argv[i]), dt_str_base_name(path)) == 0)
            return true;
    return false;
}

/* The options of srun, 22.05 to 26.05, that do not take the next word as a
 * value: options without a value, and options whose value must be in the same
 * word.
 */
static const char *const alone[] = {
    "async",
    "bcast",
    "bell",
    "compress",
    "consolidate-segments",
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
    "parsable",
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
    "spread-segments",
    "stepmgr",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait-for-children",
    "whole",
    "x11",
};
#define ALONE "EHOQVXZhlsuv"   /* short ones without a value, */
#define ALONE_SBATCH "W" ALONE /* also that to wait for the job, */
#define SAME_WORD "IKk"        /* or with one in the same word */

static bool is_sbatch(char **argv)
{
    return strcmp(dt_str_base_name(argv[0]), "sbatch") == 0;
}

/* The length of the word of short options, up to the first that may have a
 * value.
 */
static size_t skip_alone(char **argv, const char *word)
{
    return 1 + strspn(word + 1, is_sbatch(argv) ? ALONE_SBATCH : ALONE);
}

/* Whether the long option `word` (without "--") can stand for `name`. */
static bool abbreviates(const char *word, const char *name)
{
    size_t len = strcspn(word, "=");
    return len > 0 && strncmp(word, name, len) == 0;
}

static bool stands_alone(char **argv, const char *name)
{
    if (strcmp(name, "wait") == 0) /* no abbreviation */
        return is_sbatch(argv);
    for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++)
        if (abbreviates(name, alone[i]))
            return true;
    return false;
}

/* Whether the value of the option argv[i] is the next word. For a long option
 * that is not in the table, such as one of another plugin, this is a guess:
 * *sure becomes false, unless the next word is an option or ":" and so cannot
 * be the value.
 */
static bool takes_next(char **argv, int i, bool *sure)
{
    const char *word = argv[i];
    const char *next = argv[i + 1];
    if (word[1] != '-') {
        size_t last = skip_alone(argv, word);
        return word[last] != '\0' && strchr(SAME_WORD, word[last]) == NULL &&
               word[last + 1] == '\0';
    }
    if (strchr(word, '=') || stands_alone(argv, word + 2))
        return false;
    if (is_option(word) || is_set_option(word))
        return true;
    if (!next || next[0] == '-' || strcmp(next, ":") == 0)
        return false;
    *sure = false;
    return true;
}

static int find_command(int argc, char **argv, bool *sure)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") != 0 &&
           strcmp(argv[i], "-") != 0 &&
           (argv[i][0] == '-' || strcmp(argv[i], ":") == 0))
        i += takes_next(argv, i, sure) ? 2 : 1;
    return i < argc ? i : argc;
}

int dtspank_argv_command(int argc, char **argv)
{
    bool sure;
    return find_command(argc, argv, &sure);
}

const char *dtspank_argv_script(int argc, char **argv, int command)
{
    static char input[32];
    if (argc == 0 || !is_sbatch(argv))
        return "";
    if (command < argc)
        return argv[command];
    if (dtspank_argv_has(command, argv, '\0', "wrap"))
        return "";
    snprintf(input, sizeof(input), "/proc/%d/fd/0", (int)getpid());
    return input;
}

/* Adds the command that begins at argv[end], or after a "--" there, and NULL.
 * Returns whether there is one.
 */
static bool add_command(int argc, char **argv, int end, char **words)
{
    int begin = end + (end < argc && strcmp(argv[end], "--") == 0);
    int count = 0;
    if (begin < argc)
        words[count++] = "--";
    for (int i = begin; i < argc && count <= DTSPANK_COMMAND_WORDS; i++)
        words[count++] = argv[i];
    words[count] = NULL;
    return begin < argc;
}

void dtspank_argv_exact(int argc, char **argv, int end, char **words)
{
    end -= strcmp(argv[end - 1], "--") == 0;
    for (int i = 1; i < end; i++)
        words[i - 1] = argv[i];
    add_command(argc, argv, end, words + end - 1);
}

void dtspank_argv_scan(int argc, char **argv, struct dtspank_argv *found,
                       char **words)
{
    *found = (struct dtspank_argv){.sure = true};
    int end = find_command(argc, argv, &found->sure);
    int count = 0;
    bool sure;
    for (int i = 1, taken; i < end; i += taken) {
        taken = takes_next(argv, i, &sure) ? 2 : 1;
        if (is_option(argv[i])) {
            const char *equals = strchr(argv[i], '=');
            found->value = equals ? equals + 1 : argv[i + 1];
            found->next_word = !equals;
            found->option = found->option > 0 ? found->option : i;
            continue;
        }
        if (is_set_option(argv[i]))
            continue;
        for (int w = 0; w < taken && i + w < end; w++)
            words[count++] = argv[i + w];
    }
    found->has_command = add_command(argc, argv, end, words + count);
}

const char *dtspank_argv_next_set(int argc, char **argv, int *at)
{
    bool sure;
    int end = find_command(argc, argv, &sure);
    while (*at < end) {
        int i = *at;
        *at += takes_next(argv, i, &sure) ? 2 : 1;
        if (is_set_option(argv[i])) {
            const char *equals = strchr(argv[i], '=');
            return equals ? equals + 1 : argv[i + 1];
        }
    }
    return NULL;
}

bool dtspank_argv_took_word(const struct dtspank_argv *found, const char *value)
{
    const char *dot = strrchr(value, '.');
    return found->next_word && found->value &&
           strcmp(found->value, value) == 0 &&
           (!dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0 &&
                     strcmp(dot, ".json") != 0));
}

bool dtspank_argv_has(int end, char **argv, char letter, const char *name)
{
    bool sure;
    for (int i = 1; i < end; i += takes_next(argv, i, &sure) ? 2 : 1) {
        if (argv[i][1] == '-' && abbreviates(argv[i] + 2, name))
            return true;
        size_t len = skip_alone(argv, argv[i]);
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

/* Writes a word, quoted for a shell if necessary. */
static void write_word(const char *word, FILE *out)
{
    bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
                                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_-+=:,./@%")];
    if (!plain)
        putc('\'', out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
    if (!plain)
        putc('\'', out);
    putc(' ', out);
}

static void write_words(char **argv, int first, int end, FILE *out)
{
    for (int i = first; i < end; i++)
        write_word(argv[i], out);
}

/* Whether srun has been told of MPI. By now it has set the variable itself. */
static bool has_mpi(char **argv, int command)
{
    const char *type = getenv("SLURM_MPI_TYPE");
    return (type && strcmp(type, "none") != 0) ||
           dtspank_argv_has(command, argv, '\0', "mpi");
}

/* Writes the command line without the launcher; for MPI programs with the
 * option that gives them their ranks.
 */
static void write_line(int argc, char **argv, int command,
                       const struct dt_launcher *launcher, FILE *out)
{
    int program = command + (int)launcher->program;
    bool at_dashes = strcmp(argv[command - 1], "--") == 0;
    bool adds_mpi = launcher->mpi && !has_mpi(argv, command);
    write_words(argv, 0, command - at_dashes, out);
    if (adds_mpi)
        fputs("--mpi=pmix ", out);
    write_words(argv, command - at_dashes, command + (int)launcher->first, out);
    fputs(program < argc ? launcher->python : "PROGRAM ARGUMENT... ", out);
    write_words(argv, program, argc, out);
}

void dtspank_advice_launcher(int argc, char **argv, int command, uint32_t tasks,
                             uint32_t nodes)
{
    struct dt_launcher launcher;
    char *line = NULL;
    size_t bytes;
    if (command < 1 || command >= argc || tasks <= nodes ||
        !dt_launcher_find((const char *const *)argv + command,
                          (size_t)(argc - command), &launcher))
        return;
    FILE *out = open_memstream(&line, &bytes);
    if (!out)
        return;
    write_line(argc, argv, command, &launcher, out);
    if (fclose(out) == 0 && bytes > 0) {
        line[bytes - 1] = '\0';
        slurm_spank_log("disttrain: warning: %s %s, %u of them%s: every task "
                        "is a rank already; write: %s",
                        launcher.name, launcher.does, (unsigned)tasks,
                        launcher.also, line);
    }
    free(line);
}
