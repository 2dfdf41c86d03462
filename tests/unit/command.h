/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - runs a subcommand and captures its output and status */
#ifndef DT_TESTS_UNIT_COMMAND_H
#define DT_TESTS_UNIT_COMMAND_H

#include <stdio.h>
#include <string.h>
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

/* Runs a subcommand in a child process. Returns the exit status and fills `out`
 * and `errors`. Writes files to the current directory.
 */
static inline int run_command(int (*command)(int argc, char **argv), int argc,
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

/* The same with the words of `args`. */
static inline int run_words(int (*command)(int argc, char **argv),
                            const char *args)
{
    char words[256], *argv[16] = {"command"};
    int argc = 1;
    snprintf(words, sizeof(words), "%s", args);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    return run_command(command, argc, argv);
}

/* The same in this process, since OpenMP has no threads in a child. */
static inline int run_command_here(int (*command)(int argc, char **argv),
                                   int argc, char **argv)
{
    int saved[] = {dup(1), dup(2)};
    fflush(NULL);
    for (int fd = 1; fd <= 2; fd++) {
        FILE *file = fopen(fd == 1 ? "out" : "errors", "w");
        assert_non_null(file);
        dup2(fileno(file), fd);
        fclose(file);
    }
    int status = command(argc, argv);
    fflush(NULL);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    read_back("out", out, sizeof(out));
    read_back("errors", errors, sizeof(errors));
    return status;
}

#endif /* DT_TESTS_UNIT_COMMAND_H */
