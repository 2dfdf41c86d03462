/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_record.c - writes records for the console of srun, and starts the watch
 * that writes those of nodes that do not connect
 */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contract/contract.h"
#include "spank/hostlist.h"
#include "spank/task/task_impl.h"

enum {
    RECORD_BYTES = HOST_NAME_MAX + DT_TOKEN_BYTES + 128,
    WORDS_BEFORE = 8, /* of the command line of the watch, before the hosts */
};

/* Gets the token of the step's records; without a console, and for a token that
 * is not of hexadecimal digits, it is "" and the result false.
 *
 * A client without our plugin may send anything as the token, which slurmstepd
 * writes to its log as root: only digits are taken, and no line of its own.
 */
static bool get_token(spank_t spank, char token[DT_TOKEN_BYTES])
{
    const char *console = dtspank_task_getenv(spank, DT_ENV_CONSOLE);
    size_t n = console ? strspn(console, "0123456789abcdef") : 0;
    bool good = n > 0 && n < DT_TOKEN_BYTES &&
                (console[n] == '\0' || console[n] == ' ');
    snprintf(token, DT_TOKEN_BYTES, "%.*s", good ? (int)n : 0,
             good ? console : "");
    return good;
}

/* Of the step in this slurmstepd, for when it is root. */
static char kept_token[DT_TOKEN_BYTES];

void dtspank_record_keep(spank_t spank)
{
    get_token(spank, kept_token);
}

/* Writes "TOKEN VERB RANK HOST SECONDS.mmm" with the current time. */
static void format_record(const char *token, char text[RECORD_BYTES],
                          const char *verb, uint32_t rank)
{
    char host[HOST_NAME_MAX + 1] = "?";
    struct timespec now;
    gethostname(host, sizeof(host) - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, RECORD_BYTES, DT_RECORD "%s %s %" PRIu32 " %s %jd.%03ld",
             token, verb, rank, host, (intmax_t)now.tv_sec,
             now.tv_nsec / 1000000);
}

int dtspank_record_start(spank_t spank, struct dt_error *err)
{
    char text[RECORD_BYTES], token[DT_TOKEN_BYTES];
    uint32_t rank;
    (void)err;
    if (!get_token(spank, token))
        return 0;
    const char *console = dtspank_task_getenv(spank, DT_ENV_CONSOLE);
    bool adds_labels = strstr(console, " label") != NULL;
    if (dtspank_task_number(spank, "SLURM_PROCID", &rank)) {
        format_record(token, text, "start", rank);
        dprintf(STDERR_FILENO, "%s\n", text);
    }
    if (adds_labels)
        spank_unsetenv(spank, "SLURM_LABELIO");
    return 0;
}

int dtspank_record_hide(spank_t spank, struct dt_error *err)
{
    (void)err;
    spank_unsetenv(spank, DT_ENV_CONSOLE);
    return 0;
}

bool dtspank_record_is_kept(void)
{
    return kept_token[0] != '\0';
}

void dtspank_record_log(uint32_t rank, const char *verb, int number)
{
    char text[RECORD_BYTES];
    format_record(kept_token, text, verb, rank);
    slurm_spank_log("%s %d", text, number);
}

struct command {
    char pidfd[16];
    char ports[2][16];
    char **argv;
};

static int fill_command(spank_t spank, const char *runtime, int pidfd,
                        uint32_t nodes, struct command *c)
{
    const char *list = dtspank_task_getenv(spank, "SLURM_STEP_NODELIST");
    const char *own = dtspank_task_getenv(spank, "SLURMD_NODENAME");
    const char *timeout =
        dtspank_task_getenv(spank, "DISTTRAIN_CONSOLE_TIMEOUT");
    uint32_t master = 0;
    uint32_t jax = 0;
    dtspank_task_number(spank, "MASTER_PORT", &master);
    dtspank_task_number(spank, "JAX_COORDINATOR_PORT", &jax);
    if (!list || !own || (master == 0 && jax == 0))
        return -1;
    snprintf(c->pidfd, sizeof(c->pidfd), "%d", pidfd);
    snprintf(c->ports[0], sizeof(c->ports[0]), "%u", (unsigned)master);
    snprintf(c->ports[1], sizeof(c->ports[1]), "%u", (unsigned)jax);
    char *const words[WORDS_BEFORE] = {(char *)runtime,
                                       "console",
                                       "--watch",
                                       c->pidfd,
                                       (char *)(timeout ? timeout : "30"),
                                       c->ports[0],
                                       c->ports[1],
                                       (char *)own};
    memcpy(c->argv, words, sizeof(words));
    return dtspank_hostlist_expand(list, nodes, c->argv + WORDS_BEFORE);
}

/* The watch outlives rank 0 by a moment. If it then held the rank's output,
 * slurmstepd would send the end of it late, could lose it by closing its
 * connection, and srun would kill the step. So its stderr is an O_PATH
 * descriptor of the rank's, and all other descriptors of slurmstepd are closed.
 */
static bool leave_output(int pidfd)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int path = open("/proc/self/fd/2", O_PATH | O_CLOEXEC);
    if (null < 0 || path < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(path, STDERR_FILENO) < 0)
        return false;
    if (pidfd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)pidfd - 1, 0);
    return close_range((unsigned)pidfd + 1, UINT_MAX, 0) == 0 &&
           fcntl(pidfd, F_SETFD, 0) == 0;
}

/* Runs in a child of the task that exits at once, so that the task never finds
 * a child that it has not started. The token comes through stdin: others could
 * read it from a command line or an environment.
 */
static void run_watch(int pidfd, int token, char *const *argv)
{
    char *const no_env[] = {NULL};
    if (dup2(token, STDIN_FILENO) < 0 || !leave_output(pidfd) || fork() != 0)
        _exit(0);
    setsid();
    execve(argv[0], argv, no_env);
    _exit(0);
}

/* Returns a pipe from which the token can be read, followed by EOF; -1: none.
 */
static int open_token(spank_t spank)
{
    char token[DT_TOKEN_BYTES];
    int fd[2];
    if (!get_token(spank, token) || pipe2(fd, O_CLOEXEC) != 0)
        return -1;
    dprintf(fd[1], "%s\n", token);
    close(fd[1]);
    return fd[0];
}

void dtspank_watch_start(spank_t spank, const char *runtime)
{
    uint32_t rank;
    uint32_t nodes;
    if (!dtspank_task_number(spank, "SLURM_PROCID", &rank) || rank != 0 ||
        !dtspank_task_number(spank, "SLURM_STEP_NUM_NODES", &nodes) ||
        nodes < 2)
        return;
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int token = open_token(spank);
    struct command command = {
        .argv = calloc((size_t)WORDS_BEFORE + nodes + 1, sizeof(char *))};
    if (pidfd >= 0 && token >= 0 && command.argv &&
        fill_command(spank, runtime, pidfd, nodes, &command) == 0) {
        pid_t child = fork();
        if (child == 0)
            run_watch(pidfd, token, command.argv);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    for (uint32_t i = 0; command.argv && i < nodes; i++)
        free(command.argv[WORDS_BEFORE + i]);
    free(command.argv);
    if (token >= 0)
        close(token);
    if (pidfd >= 0)
        close(pidfd);
}
