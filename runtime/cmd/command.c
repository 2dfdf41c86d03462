/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - runs launch.command of the configuration in a step */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "base/escape.h"
#include "contract/contract.h"

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
    char *text = strdup(command ? command : "");
    char **words = text ? split_words(text) : NULL;
    int status = EX_OSERR;
    if (words) {
        unsetenv(DT_ENV_COMMAND);
        execvp(words[0], words);
        status = report_failure(words[0]);
    } else {
        fputs("disttrain: launch.command: out of memory\n", stderr);
    }
    free(words);
    free(text);
    return status;
}
