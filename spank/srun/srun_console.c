/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_console.c - puts `RUNTIME console` between srun and its stdout and
 * stderr
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "base/str.h"
#include "base/terminal.h"
#include "contract/contract.h"
#include "spank/hostlist.h"
#include "spank/srun/srun_impl.h"

enum {
    FINISH_MS = 10 * 1000,
    BLOCKED_MS = 600 * 1000,
    LOWEST_FD = 10, /* above the descriptors that the console gets */
    READ = 0,
    WRITE = 1,
};

static struct {
    const char *labels; /* as in the contract; NULL: no console */
    char token[DT_TOKEN_BYTES];
    char progress[DT_TOKEN_BYTES]; /* "": no bar is drawn */
    char keepers[DT_TOKEN_BYTES];  /* "": the step has none */
    int verdict; /* 1 + the status that keepers give their step; 0: none */
    int run;     /* how the run has ended; 0: well, or it is not known */
    pid_t srun;
    pid_t pid;    /* 0: not started */
    bool lost;    /* some output may have been lost */
    int facts;    /* the console's stdin */
    int saved[2]; /* srun's own stdout and stderr */
} console;

struct option {
    char letter;
    const char *name;
};

static bool has_any(char **argv, int command, const struct option *options,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dtspank_argv_has(command, argv, options[i].letter, options[i].name))
            return true;
    return false;
}

/* Whether the step is of a kind that a console cannot follow, or belongs to a
 * heterogeneous job, which has labels of its own.
 */
static bool is_unsupported(int argc, char **argv, int command)
{
    static const struct option options[] = {
        {'\0', "interactive"}, {'\0', "het-group"}, {'\0', "async"}};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], ":") == 0)
            return true;
    return has_any(argv, command, options, sizeof(options) / sizeof(*options));
}

/* Whether the tasks' output goes to files or to a terminal, so that srun's
 * stderr has only srun's own messages.
 */
static bool writes_elsewhere(char **argv, int command)
{
    static const struct option options[] = {
        {'o', "output"}, {'e', "error"}, {'\0', "pty"}};
    return getenv("SLURM_STDOUTMODE") || getenv("SLURM_STDERRMODE") ||
           has_any(argv, command, options, sizeof(options) / sizeof(*options));
}

void dtspank_console_prepare(int argc, char **argv)
{
    int command = dtspank_argv_command(argc, argv);
    if (argc == 0 || is_unsupported(argc, argv, command))
        return;
    if (writes_elsewhere(argv, command)) {
        console.labels = "apart";
        return;
    }
    /* srun ends whatever it labels with a newline, which would break the lines
     * of tasks whose output is unbuffered.
     */
    if (getenv("SLURM_LABELIO") ||
        dtspank_argv_has(command, argv, 'l', "label"))
        console.labels = "keep";
    else if (getenv("SLURM_UNBUFFEREDIO") ||
             dtspank_argv_has(command, argv, 'u', "unbuffered"))
        console.labels = "none";
    else if (setenv("SLURM_LABELIO", "1", 1) == 0)
        console.labels = "strip";
}

bool dtspank_console_follows(void)
{
    return console.labels && strcmp(console.labels, "apart") != 0;
}

static void write_node(FILE *out, const char *host, const uint32_t *tids,
                       int tasks)
{
    fprintf(out, DT_CONSOLE_NODE "%s", host);
    for (int i = 0; i < tasks; i++) {
        int first = i;
        while (i + 1 < tasks && tids[i + 1] == tids[i] + 1)
            i++;
        fprintf(out, "%c%" PRIu32 "-%" PRIu32, first == 0 ? ' ' : ',',
                tids[first], tids[i]);
    }
    fputc('\n', out);
}

/* Writes the nodes and their tasks; nodes whose name is not known are left out.
 */
static void write_nodes(FILE *out, const slurm_step_layout_t *layout)
{
    uint32_t count = layout->node_cnt;
    char **hosts = calloc(count, sizeof(*hosts));
    if (!hosts)
        return;
    dtspank_hostlist_expand(layout->node_list, count, hosts);
    for (uint32_t node = 0; node < count; node++) {
        if (hosts[node] && layout->tasks[node] > 0)
            write_node(out, hosts[node], layout->tids[node],
                       layout->tasks[node]);
        free(hosts[node]);
    }
    free(hosts);
}

static bool is_apart(void)
{
    return strcmp(console.labels, "apart") == 0;
}

/* The tokens of this step's records. Returns 0, or -1 and errno. */
static int make_tokens(void)
{
    if (!is_apart() && dt_footer_possible() &&
        dtspank_token_make(console.progress) != 0)
        return -1;
    if (getenv(DT_ENV_KEPT) && dtspank_token_make(console.keepers) != 0)
        return -1;
    return dtspank_token_make(console.token);
}

/* Returns a file in memory with the facts for the console, positioned at its
 * start; -1 and errno on failure. Both sides append to it later.
 */
static int write_facts(const struct dtspank_console_step *step)
{
    const slurm_step_layout_t *layout = step->layout;
    int fd = memfd_create("disttrain", MFD_CLOEXEC);
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    FILE *out = copy < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (copy >= 0)
            close(copy);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    fprintf(out,
            DT_CONSOLE_VERSION_LINE
            "\n" DT_CONSOLE_LABELS "%s\n" DT_CONSOLE_TASKS "%" PRIu32
            "\n" DT_CONSOLE_STEP "%" PRIu32 ".%" PRIu32 "\n" DT_CONSOLE_TOKEN
            "%s\n",
            console.labels, step->tasks, step->job, step->step, console.token);
    if (console.progress[0])
        fprintf(out, DT_CONSOLE_PROGRESS "%s\n", console.progress);
    if (console.keepers[0])
        fprintf(out, DT_CONSOLE_KEEPERS "%s\n", console.keepers);
    if (layout)
        write_nodes(out, layout);
    if (fclose(out) != 0 || lseek(copy, 0, SEEK_SET) < 0 ||
        fcntl(copy, F_SETFL, O_APPEND) < 0) {
        close(copy);
        return -1;
    }
    return copy;
}

/* Makes a pipe whose descriptors are above those that the console gets. */
static int make_pipe(int fd[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fd[i] = fcntl(low[i], F_DUPFD_CLOEXEC, LOWEST_FD);
        close(low[i]);
    }
    return fd[READ] < 0 || fd[WRITE] < 0 ? -1 : 0;
}

/* Returns srun's environment without the rank of the batch script, so that
 * neither the console nor its children are taken for a rank of the step, and
 * without `env:`, which is for ranks and may be secret. The caller frees the
 * array; NULL: out of memory.
 */
static char **copy_environ(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    for (size_t i = 0, kept = 0; copy && i < count; i++)
        if (!dt_str_after(environ[i], "SLURM_PROCID=") &&
            !dt_str_after(environ[i], DT_ENV_CARRY))
            copy[kept++] = environ[i];
    return copy;
}

/* The console ends when srun does. The signals that a terminal sends to both
 * stay blocked, so that they do not end it.
 */
static int spawn_console(const char *runtime, int facts, int out, int err,
                         pid_t *pid)
{
    char *const argv[] = {(char *)runtime, "console", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t all;
    char **env = copy_environ();
    if (!env)
        return ENOMEM;
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, facts, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, DT_CONSOLE_OUT_FD);
    posix_spawn_file_actions_adddup2(&files, err, DT_CONSOLE_ERR_FD);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &all);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(pid, runtime, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    free(env);
    return rc;
}

/* Whether somebody reads srun's output; otherwise the console has to wait. */
static bool has_reader(void)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (poll(&p, 1, 0) == 0)
            return false;
    }
    return true;
}

/* How long the console may take to end, with a reader and without one. There is
 * no reader at a pager, for example, where srun alone would wait forever.
 */
static int64_t finish_timeout_ms(bool reader)
{
    const char *asked = getenv("DISTTRAIN_CONSOLE_TIMEOUT"); /* for tests */
    if (asked)
        return atoi(asked) * INT64_C(1000);
    return reader ? FINISH_MS : BLOCKED_MS;
}

/* Waits for the console's end and stores its wait status. If it does not end,
 * kills it and returns false.
 */
static bool wait_for_end(int *status)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    int64_t since = dtspank_now_ms();
    bool before = true;
    for (;;) {
        pid_t got = waitpid(console.pid, status, WNOHANG);
        if (got == console.pid || (got < 0 && errno != EINTR))
            return got == console.pid;
        int64_t now = dtspank_now_ms();
        bool reader = has_reader();
        if (reader != before)
            since = now;
        before = reader;
        if (now - since > finish_timeout_ms(reader))
            break;
        nanosleep(&nap, NULL);
    }
    slurm_error("disttrain: %s: the last of the output is lost",
                before ? "the console did not end"
                       : "nothing reads the output of srun");
    dtspank_child_kill(console.pid);
    return false;
}

/* Tells the console srun's exit status, after the other facts, which it may not
 * have read yet.
 */
static void tell_status(int status)
{
    char line[sizeof(DT_CONSOLE_STATUS) + 16];
    int bytes = snprintf(line, sizeof(line), DT_CONSOLE_STATUS "%d\n", status);
    if (pwrite(console.facts, line, (size_t)bytes, 0) != bytes) /* appends */
        slurm_error("disttrain: cannot tell the console srun's status: %s",
                    strerror(errno));
}

/* Lost output must not look like success. Of a step of keepers srun says
 * nothing certain, and they do: it fails for a worker that was replaced after
 * it had run out of memory, and for a lost node.
 */
static void finish_at_exit(int status, void *unused)
{
    int end = status & 0xff;
    (void)unused;
    if (getpid() != console.srun)
        return;
    dtspank_console_finish(&end);
    if (console.lost && end == 0)
        end = EX_IOERR;
    if (end != (status & 0xff))
        exit(end); /* with glibc the remaining handlers still run */
}

/* Starts the console and redirects srun's output to it. Returns 0 or an errno;
 * on failure the output stays as it was.
 */
static int start_console(const char *runtime, int facts, int out[2], int err[2])
{
    console.saved[0] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, LOWEST_FD);
    console.saved[1] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, LOWEST_FD);
    int rc = errno;
    console.srun = getpid();
    if (console.saved[0] >= 0 && console.saved[1] >= 0)
        rc = on_exit(finish_at_exit, NULL) == 0
                 ? spawn_console(runtime, facts, out[READ], err[READ],
                                 &console.pid)
                 : ENOMEM;
    if (rc == 0) {
        fflush(stdout);
        if (!is_apart())
            dup2(out[WRITE], STDOUT_FILENO);
        dup2(err[WRITE], STDERR_FILENO);
        console.facts = facts;
        return 0;
    }
    console.pid = 0;
    for (int i = 0; i < 2; i++)
        if (console.saved[i] >= 0)
            close(console.saved[i]);
    return rc;
}

/* Tells the tasks through the environment, which srun passes to slurmstepd. */
static void tell_tasks(void)
{
    char value[DT_TOKEN_BYTES + sizeof(" label")];
    bool adds_labels = strcmp(console.labels, "strip") == 0;
    snprintf(value, sizeof(value), "%s%s", console.token,
             adds_labels ? " label" : "");
    setenv(DT_ENV_CONSOLE, value, 1);
    if (console.progress[0])
        setenv(DT_ENV_PROGRESS, console.progress, 1);
    if (console.keepers[0])
        setenv(DT_ENV_KEPT, console.keepers, 1);
    const char *node = getenv("SLURMD_NODENAME");
    if (getenv(DT_ENV_OUTLIVES) && node)
        setenv(DT_ENV_SRUN_NODE, node, 1);
}

/* Nobody follows the keepers. */
static void forget_keepers(void)
{
    unsetenv(DT_ENV_KEPT);
    unsetenv(DT_ENV_OUTLIVES);
}

void dtspank_console_start(const char *runtime,
                           const struct dtspank_console_step *step)
{
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    if (!dtspank_console_follows())
        forget_keepers();
    if (!console.labels)
        return;
    int facts = make_tokens() == 0 ? write_facts(step) : -1;
    int rc = errno;
    if (facts >= 0 && make_pipe(out) == 0 && make_pipe(err) == 0)
        rc = start_console(runtime, facts, out, err);
    else if (facts >= 0)
        rc = errno;
    const int fds[] = {rc == 0 ? -1 : facts, out[READ], out[WRITE], err[READ],
                       err[WRITE]};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (rc != 0)
        slurm_error("disttrain: failures will not be reported, because the "
                    "console cannot be started: %s",
                    strerror(rc));
    else if (!is_apart())
        tell_tasks();
    if (rc != 0)
        forget_keepers();
}

/* What the console has written behind a key, below the facts; NULL: nothing. */
static const char *find_value(const char *facts, const char *key)
{
    char start[32];
    snprintf(start, sizeof(start), "\n%s", key);
    const char *line = strstr(facts, start);
    return line ? line + strlen(start) : NULL;
}

/* Reads the verdict of keepers, and how the run has ended. */
static void read_end(void)
{
    char text[4096];
    struct stat file;
    const off_t most = (off_t)sizeof(text) - 1;
    if (fstat(console.facts, &file) < 0)
        return;
    const off_t from = file.st_size > most ? file.st_size - most : 0;
    const ssize_t n = pread(console.facts, text, (size_t)most, from);
    text[n > 0 ? n : 0] = '\0';
    const char *verdict = find_value(text, DT_CONSOLE_VERDICT);
    const char *run = find_value(text, DT_CONSOLE_RUN);
    if (verdict)
        console.verdict = 1 + atoi(verdict);
    if (run)
        console.run = atoi(run);
}

/* Tells the console srun's exit status and waits for its end. */
static void end_console(int srun_status)
{
    int status = 0;
    tell_status(srun_status);
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2; i++) {
        dup2(console.saved[i], STDOUT_FILENO + i);
        close(console.saved[i]);
    }
    bool ended = wait_for_end(&status);
    read_end();
    close(console.facts);
    console.pid = 0;
    console.lost = !ended || status != 0;
    bool told = WIFEXITED(status) && WEXITSTATUS(status) == EX_IOERR;
    if (ended && console.lost && !told)
        slurm_error("disttrain: the console has failed, with wait status %d: "
                    "some output may be lost",
                    status);
}

int dtspank_console_finish(int *srun_status)
{
    if (console.pid != 0)
        end_console(*srun_status);
    if (console.verdict > 0)
        *srun_status = console.verdict - 1;
    return console.run;
}
