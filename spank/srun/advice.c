/* SPDX-License-Identifier: Apache-2.0 */
/* advice.c - warns about a launcher inside the launcher */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "base/launcher.h"
#include "spank/srun/advice.h"
#include "spank/srun/argv.h"

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

/* Writes the command line without the launcher, for MPI programs with what
 * tells them their ranks.
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
