/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launcher.h - programs that start ranks by themselves, such as torchrun
 *
 * Under srun, which starts every rank already, they multiply the ranks. A
 * function of the words alone and libc only: the plugin asks for the command
 * of srun, and the configuration for launch.command.
 */
#ifndef DT_BASE_LAUNCHER_H
#define DT_BASE_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

struct dt_launcher {
    const char *name;   /* such as "torchrun" */
    const char *does;   /* "starts ranks of its own in every task" */
    const char *also;   /* ", and ...", or "" */
    bool mpi;           /* it starts an MPI program */
    size_t first;       /* its own first word, after env or the like */
    size_t program;     /* the first word that it would start; the number of
                           all words if that cannot be told */
    const char *python; /* the prefix of that word: "", "python3 " or
                           "python3 -m " */
};

/* Whether the command `words` starts a launcher: by its name, through python,
 * as a module of python, or after env, nice, nohup or uv run. Fills found if
 * so.
 */
bool dt_launcher_find(const char *const *words, size_t count,
                      struct dt_launcher *found);

#endif /* DT_BASE_LAUNCHER_H */
