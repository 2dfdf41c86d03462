/* SPDX-License-Identifier: Apache-2.0 */
/* advice.c - warns about a launcher inside the launcher */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "base/launcher.h"
#include "spank/srun/advice.h"

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

/* Writes the command line without the launcher. */
static void write_line(int argc, char **argv, int command,
                       const struct dt_launcher *launcher, FILE *out)
{
    int program = command + (int)launcher->program;
    for (int i = 0; i < command; i++)
        write_word(argv[i], out);
    fputs(program < argc ? launcher->python : "PROGRAM ARGUMENT... ", out);
    for (int i = program; i < argc; i++)
        write_word(argv[i], out);
}

void dtspank_advice_launcher(int argc, char **argv, int command, uint32_t tasks,
                             uint32_t nodes)
{
    struct dt_launcher launcher;
    char *line = NULL;
    size_t bytes;
    if (command >= argc || tasks <= nodes ||
        !dt_launcher_find((const char *const *)argv + command,
                          (size_t)(argc - command), &launcher))
        return;
    FILE *out = open_memstream(&line, &bytes);
    if (!out)
        return;
    write_line(argc, argv, command, &launcher, out);
    if (fclose(out) == 0 && bytes > 0) {
        line[bytes - 1] = '\0';
        slurm_spank_log("disttrain: warning: %s %s, %u of them: every task is "
                        "a rank already; write: %s",
                        launcher.name, launcher.does, (unsigned)tasks, line);
    }
    free(line);
}
