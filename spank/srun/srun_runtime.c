/* SPDX-License-Identifier: Apache-2.0 */
/* srun_runtime.c - runs `RUNTIME check` and `RUNTIME doctor`, with a deadline
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "contract/contract.h"
#include "spank/srun/srun_impl.h"

enum {
    REAP_MS = 1000,
    PREFLIGHT_MS = 60000, /* the doctor has its own, shorter deadlines */
};

int64_t dtspank_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Starts argv with no input, its stdout on out_fd, its stderr ours unless it is
 * to be quiet, and default signal handling: srun has blocked or caught most
 * signals by now. Returns 0 or an errno.
 */
static int spawn_child(char *const argv[], int out_fd, bool quiet, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    if (quiet)
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null",
                                         O_WRONLY, 0);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* A process in state D ignores SIGKILL. */
void dtspank_child_kill(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const int64_t deadline = dtspank_now_ms() + REAP_MS;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, WNOHANG) == 0 && dtspank_now_ms() < deadline)
        nanosleep(&nap, NULL);
}

/* Waits until the child has ended and stores its wait status. Kills a child
 * that does not end before the deadline, and returns -1.
 */
static int wait_for_child(pid_t pid, int64_t deadline, int *status,
                          struct dt_error *err)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if (got < 0 && errno != EINTR)
            return dt_error_set(err, EX_OSERR, "waitpid: %s", strerror(errno));
        if (dtspank_now_ms() > deadline) {
            dtspank_child_kill(pid);
            return dt_error_set(err, EX_UNAVAILABLE, "it did not end");
        }
        nanosleep(&nap, NULL);
    }
}

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

/* Runs argv to its end, quietly or not, with its stdout in text and its wait
 * status in *status.
 */
static int run_child(char *const argv[], bool quiet, int deadline_ms,
                     char *text, int *status, struct dt_error *err)
{
    int64_t deadline = dtspank_now_ms() + deadline_ms;
    int fd[2];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return dt_error_set(err, EX_OSERR, "pipe: %s", strerror(errno));
    int rc = spawn_child(argv, fd[1], quiet, &pid);
    close(fd[1]);
    if (rc != 0) {
        close(fd[0]);
        return refuse_runtime(rc, err);
    }
    rc = read_answer(fd[0], deadline, text, err);
    close(fd[0]);
    if (rc == 0)
        return wait_for_child(pid, deadline, status, err);
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
    const char *value;
    if (!unescape(line))
        return false;
    if ((value = dt_str_after(line, DT_CONTRACT_CONFIG)) && value[0] == '/' &&
        !contract->config) {
        contract->config = value;
        return true;
    }
    if ((value = dt_str_after(line, DT_CONTRACT_RUNS)) && !contract->runs) {
        contract->runs = value;
        return is_runs(value);
    }
    if ((value = dt_str_after(line, DT_CONTRACT_SRUN)))
        contract->srun[contract->srun_count++] = (char *)value;
    else if ((value = dt_str_after(line, DT_CONTRACT_ENV)))
        contract->env[contract->env_count++] = (char *)value;
    return value && is_assignment(value);
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

/* Makes the argv of the check for this question; the caller frees the array.
 * NULL: out of memory.
 */
static char **check_argv(const char *runtime, const char *question,
                         const char *file,
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
    argv[used++] = question;
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
    char **argv =
        check_argv(runtime, "--contract", file, overrides, words, script);
    char *text = malloc(DT_CONTRACT_BYTES + 1);
    int rc = argv && text
                 ? run_child(argv, false, deadline_ms, text, &status, err)
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

int dtspank_check_outlives(const char *runtime, const char *file,
                           const struct dtspank_overrides *overrides,
                           int deadline_ms)
{
    struct dt_error err;
    int status = 0;
    char **argv =
        check_argv(runtime, "--outlives", file, overrides, NULL, NULL);
    char *text = malloc(DT_CONTRACT_BYTES + 1);
    const int rc = argv && text
                       ? run_child(argv, true, deadline_ms, text, &status, &err)
                       : -1;
    free(argv);
    free(text);
    return rc == 0 ? status == 0 : -1;
}

/* `job` is "JOB.STEP". */
static int ask_doctor(const char *runtime, const char *job,
                      struct dt_error *err)
{
    char *const argv[] = {(char *)runtime, "doctor",    "--brief",
                          "--job",         (char *)job, NULL};
    int64_t deadline = dtspank_now_ms() + PREFLIGHT_MS;
    int status = 0;
    pid_t pid;
    int rc = spawn_child(argv, STDERR_FILENO, false, &pid);
    if (rc != 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: %s", runtime,
                            strerror(rc));
    if (wait_for_child(pid, deadline, &status, err) != 0)
        return dt_error_prefix(err, "%s doctor", runtime);
    if (WIFSIGNALED(status))
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s doctor: killed by signal %d", runtime,
                            WTERMSIG(status));
    if (WEXITSTATUS(status) == EX_UNAVAILABLE)
        return dt_error_set(err, EX_UNAVAILABLE, "a node is not fit");
    if (WEXITSTATUS(status) != 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s doctor: exit status %d",
                            runtime, WEXITSTATUS(status));
    return 0;
}

int dtspank_preflight_run(const char *runtime, uint32_t job, uint32_t step,
                          struct dt_error *err)
{
    char id[32];
    snprintf(id, sizeof(id), "%u.%u", job, step);
    if (ask_doctor(runtime, id, err) == 0)
        return 0;
    return dt_error_prefix(err, "preflight: no task is started");
}

void dtspank_refuse_tasks(void)
{
    setenv(DT_ENV_PREFLIGHT, DT_PREFLIGHT_FAILED, 1);
}
