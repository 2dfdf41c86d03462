/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - how long OpenMP threads that wait keep their CPUs busy */
#include "config.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/spin.h"

#define MARK "DISTTRAIN_SPIN" /* in the environment of the second execution */

static const struct {
    const char *name;
    const char *value; /* NULL: only users set it */
} variables[] = {
    {"OMP_WAIT_POLICY", NULL},
    {"GOMP_SPINCOUNT", "1000"}, /* rounds of a loop, some 10 us */
    {"KMP_BLOCKTIME", "1"},     /* of LLVM's OpenMP, in ms */
};

enum { VARIABLES = sizeof(variables) / sizeof(variables[0]) };

static bool is_chosen_by_user(void)
{
    for (int i = 0; i < VARIABLES; i++)
        if (getenv(variables[i].name))
            return true;
    return false;
}

static void remove_ours(void)
{
    for (int i = 0; i < VARIABLES; i++)
        if (variables[i].value)
            unsetenv(variables[i].name);
    unsetenv(MARK);
}

bool dt_cmd_spin_limit(void)
{
    if (getenv(MARK)) {
        omp_get_max_threads(); /* LLVM's reads its variables now */
        remove_ours();
        return false;
    }
    if (is_chosen_by_user() || omp_get_max_threads() < 2)
        return false;
    for (int i = 0; i < VARIABLES; i++)
        if (variables[i].value)
            setenv(variables[i].name, variables[i].value, 1);
    return setenv(MARK, "1", 1) == 0;
}

void dt_cmd_spin_restart(char **argv)
{
    char path[PATH_MAX]; /* the real one, whose last part ps shows */
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n > 0) {
        path[n] = '\0';
        execv(path, argv);
    }
    remove_ours();
}
