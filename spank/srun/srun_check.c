/* SPDX-License-Identifier: Apache-2.0 */
/* srun_check.c - runs `RUNTIME check --contract FILE` and parses its answer */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract.h"
#include "spank/srun/srun_check.h"
#include "spank/srun/srun_child.h"

/* Reads to the end of fd into text[DT_CONTRACT_BYTES + 1] and terminates it. A
 * full buffer means that the answer is too long: the last byte is needed for
 * the terminator.
 */
static int read_answer(int fd, int64_t deadline, char *text,
                       struct dt_error *err)
{
    size_t used = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - dtspank_now_ms();
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready == 0)
            return dt_error_set(err, EX_UNAVAILABLE, "no answer in time");
        ssize_t n = ready < 0
                        ? -1
                        : read(fd, text + used, DT_CONTRACT_BYTES + 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_error_set(err, EX_IOERR, "read: %s", strerror(errno));
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > DT_CONTRACT_BYTES)
            return dt_error_set(err, EX_PROTOCOL,
                                "the answer is longer than %d bytes",
                                DT_CONTRACT_BYTES);
    }
    text[used] = '\0';
    if (strlen(text) != used)
        return dt_error_set(err, EX_PROTOCOL, "the answer has a NUL byte");
    return 0;
}

/* A batch script may be on a node that lacks the runtime. */
static int refuse_runtime(int error, struct dt_error *err)
{
    char host[HOST_NAME_MAX + 1] = "?";
    gethostname(host, sizeof(host) - 1);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "%s (runtime= in plugstack.conf): install disttrain "
                        "on %s",
                        strerror(error), host);
}

/* Runs argv to its end, with its stdout in text and its wait status in *status.
 */
static int run_child(char *const argv[], int deadline_ms, char *text,
                     int *status, struct dt_error *err)
{
    int64_t deadline = dtspank_now_ms() + deadline_ms;
    int fd[2];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return dt_error_set(err, EX_OSERR, "pipe: %s", strerror(errno));
    int rc = dtspank_child_spawn(argv, fd[1], &pid);
    close(fd[1]);
    if (rc != 0) {
        close(fd[0]);
        return refuse_runtime(rc, err);
    }
    rc = read_answer(fd[0], deadline, text, err);
    close(fd[0]);
    if (rc == 0)
        return dtspank_child_wait(pid, deadline, status, err);
    dtspank_child_kill(pid);
    return rc;
}

/* Undoes \\ and \n in place. Returns false on any other escape. */
static bool unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char c = *from;
        if (c == '\\') {
            from++;
            if (*from != '\\' && *from != 'n')
                return false;
            c = *from == 'n' ? '\n' : '\\';
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether text is NAME=... with a NAME that is valid in a shell. */
static bool is_assignment(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz_0123456789");
    return len > 0 && strchr("0123456789", text[0]) == NULL && text[len] == '=';
}

static bool is_runs(const char *text)
{
    return strcmp(text, "train") == 0 || strcmp(text, "command") == 0 ||
           strcmp(text, "nothing") == 0;
}

/* Parses a line after the first; both lists of contract have room for it. */
static bool parse_line(char *line, struct dtspank_contract *contract)
{
    if (!unescape(line))
        return false;
    if (starts_with(line, DT_CONTRACT_CONFIG "/") && !contract->config) {
        contract->config = line + strlen(DT_CONTRACT_CONFIG);
        return true;
    }
    if (starts_with(line, DT_CONTRACT_RUNS) && !contract->runs) {
        contract->runs = line + strlen(DT_CONTRACT_RUNS);
        return is_runs(contract->runs);
    }
    if (starts_with(line, DT_CONTRACT_SRUN)) {
        line += strlen(DT_CONTRACT_SRUN);
        contract->srun[contract->srun_count++] = line;
    } else if (starts_with(line, DT_CONTRACT_ENV)) {
        line += strlen(DT_CONTRACT_ENV);
        contract->env[contract->env_count++] = line;
    } else {
        return false;
    }
    return is_assignment(line);
}

int dtspank_contract_parse(char *text, struct dtspank_contract *contract,
                           struct dt_error *err)
{
    *contract = (struct dtspank_contract){.text = text};
    size_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    contract->env = calloc(lines + 1, sizeof(*contract->env));
    contract->srun = calloc(lines + 1, sizeof(*contract->srun));
    if (!contract->env || !contract->srun)
        return dt_error_set(err, EX_OSERR, "out of memory");

    char *rest = text;
    char *line = strsep(&rest, "\n");
    if (strcmp(line, DT_CONTRACT_VERSION_LINE) != 0)
        return dt_error_set(err, EX_PROTOCOL,
                            "expected \"%s\", got \"%.64s\": plugin and "
                            "runtime are not of the same release",
                            DT_CONTRACT_VERSION_LINE, line);
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (!rest && line[0] == '\0')
            break;
        if (!rest || !parse_line(line, contract))
            return dt_error_set(err, EX_PROTOCOL, "unexpected line \"%.64s\"",
                                line);
    }
    if (!contract->config || !contract->runs)
        return dt_error_set(err, EX_PROTOCOL, "no line \"%s...\"",
                            contract->config ? DT_CONTRACT_RUNS
                                             : DT_CONTRACT_CONFIG "/");
    return 0;
}

void dtspank_contract_fini(struct dtspank_contract *contract)
{
    free(contract->env);
    free(contract->srun);
    free(contract->text);
    *contract = (struct dtspank_contract){0};
}

/* Makes the argv of the check; the caller frees the array. NULL: out of memory.
 */
static char **check_argv(const char *runtime, const char *file,
                         const struct dtspank_overrides *overrides,
                         char **words, const char *script)
{
    enum { OTHERS = 8 };
    size_t count = 0;
    size_t sets = overrides ? overrides->count : 0;
    size_t used = 0;
    while (words && words[count])
        count++;
    const char **argv = calloc(OTHERS + 2 * sets + count, sizeof(*argv));
    if (!argv)
        return NULL;
    argv[used++] = runtime;
    argv[used++] = "check";
    argv[used++] = "--contract";
    if (script) {
        argv[used++] = "--allocation";
        argv[used++] = script;
    }
    for (size_t i = 0; i < sets; i++) {
        argv[used++] = "--set";
        argv[used++] = overrides->text[i];
    }
    argv[used++] = file;
    argv[used++] = "--";
    for (size_t i = 0; i < count; i++)
        argv[used++] = words[i];
    return (char **)argv;
}

int dtspank_check_run(const char *runtime, const char *file,
                      const struct dtspank_overrides *overrides, char **words,
                      const char *script, int deadline_ms,
                      struct dtspank_contract *contract, struct dt_error *err)
{
    int status = 0;
    *contract = (struct dtspank_contract){0};
    char **argv = check_argv(runtime, file, overrides, words, script);
    char *text = malloc(DT_CONTRACT_BYTES + 1);
    int rc = argv && text ? run_child(argv, deadline_ms, text, &status, err)
                          : dt_error_set(err, EX_OSERR, "out of memory");
    free(argv);
    if (rc == 0 && WIFSIGNALED(status))
        rc = dt_error_set(err, EX_SOFTWARE, "killed by signal %d",
                          WTERMSIG(status));
    if (rc != 0) {
        free(text);
        return dt_error_prefix(err, "%s check", runtime);
    }
    if (WEXITSTATUS(status) != 0) {
        free(text);
        return dt_error_set(err, EX_CONFIG, "%s: nothing is submitted", file);
    }
    if (dtspank_contract_parse(text, contract, err) != 0) {
        dtspank_contract_fini(contract);
        return dt_error_prefix(err, "%s check", runtime);
    }
    return 0;
}
