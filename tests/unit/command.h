/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - a subcommand run in a child: what it prints, how it ends */
#ifndef DT_TESTS_UNIT_COMMAND_H
#define DT_TESTS_UNIT_COMMAND_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char out[1 << 20], errors[1 << 16];

static void read_back(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

/* Returns the exit status, and fills out and errors. Writes in the present
 * directory.
 */
static int run_command(int (*command)(int argc, char **argv), int argc,
                       char **argv)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("out", "w", stdout) || !freopen("errors", "w", stderr))
            _exit(99);
        status = command(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    read_back("out", out, sizeof(out));
    read_back("errors", errors, sizeof(errors));
    return WEXITSTATUS(status);
}

#endif /* DT_TESTS_UNIT_COMMAND_H */
