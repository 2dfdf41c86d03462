/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - runs before a subcommand: threads that spin less, launch.command */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "contract/contract.h"

/* --- threads --- */

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
    execv(DT_PROC_SELF, argv);
    remove_ours();
}

/* --- launch.command --- */

enum {
    CANNOT_RUN = 126, /* the exit statuses of shells */
    NOT_FOUND = 127,
};

/* Splits text, one word per line, into an argv to be freed; NULL: out of
 * memory.
 */
static char **split_words(char *text)
{
    size_t count = 1;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        count++;
    char **words = calloc(count + 1, sizeof(*words));
    for (size_t i = 0; words && i < count; i++) {
        words[i] = strsep(&text, "\n");
        dt_escape_undo(words[i]);
    }
    return words;
}

static int report_failure(const char *program)
{
    int cause = errno;
    char host[HOST_NAME_MAX + 1] = "";
    const char *path = getenv("PATH");
    gethostname(host, sizeof(host) - 1);
    if (cause == ENOENT && !strchr(program, '/'))
        fprintf(stderr,
                "disttrain: launch.command: %s is not on %s, where PATH is %s; "
                "give its path, or set PATH in env:\n",
                program, host, path ? path : "not set");
    else
        fprintf(stderr, "disttrain: launch.command: cannot run %s on %s: %s\n",
                program, host, strerror(cause));
    return cause == ENOENT ? NOT_FOUND : CANNOT_RUN;
}

int dt_cmd_command(void)
{
    const char *command = getenv(DT_ENV_COMMAND);
    const char *keeper = getenv(DT_ENV_KEEPER);
    char *text = strdup(command ? command : "");
    char **words = text ? split_words(text) : NULL;
    int status = EX_OSERR;
    if (words) {
        unsetenv(DT_ENV_COMMAND);
        if (keeper) {
            status = dt_keep_command(words, atol(keeper), DT_KEEP_SPENT);
        } else {
            execvp(words[0], words);
            status = report_failure(words[0]);
        }
    } else {
        fputs("disttrain: launch.command: out of memory\n", stderr);
    }
    free(words);
    free(text);
    return status;
}
