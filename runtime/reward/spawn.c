/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.c - starts a program in a process group of its own */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reward/process.h"

/* Memory of the child, made before it exists: it must not allocate. */
struct plan {
    const struct dt_process_options *options;
    char **path; /* candidates for the program, ends with NULL */
    char **env;
    int in, out, err; /* its ends of the pipes */
    pid_t parent;
    volatile int failed; /* errno of the child */
};

/* Variables that tell a rank its place: a library of the program that finds
 * them would wait for the other ranks.
 */
static bool is_place(const char *variable)
{
    static const char *const names[] = {
        "RANK=",         "WORLD_SIZE=", "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=",
        "NODE_RANK=",    "GROUP_RANK=", "MASTER_ADDR=", "MASTER_PORT=",
        "PMIX_",         "PMI_",        "OMPI_",        "SLURM_PROCID=",
        "SLURM_LOCALID="};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static size_t count_of(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Whether `list` has the variable of "NAME=value", too. */
static bool has_variable(char *const *list, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;
    for (; list && *list; list++)
        if (strncmp(*list, variable, n) == 0)
            return true;
    return false;
}

/* The environment of the child; its strings are ours. NULL: out of memory. */
static char **make_env(const struct dt_process_options *options)
{
    static const char devices[] = "CUDA_VISIBLE_DEVICES=";
    size_t n = count_of(environ), more = count_of(options->secrets), kept = 0;
    char **env = calloc(n + more + 2, sizeof(*env));
    for (size_t i = 0; env && i < n; i++)
        if (!is_place(environ[i]) &&
            !has_variable(options->secrets, environ[i]) &&
            (options->gpu ||
             strncmp(environ[i], devices, strlen(devices)) != 0))
            env[kept++] = environ[i];
    for (size_t i = 0; env && i < more; i++)
        env[kept++] = options->secrets[i];
    if (env && !options->gpu)
        env[kept] = (char *)devices;
    return env;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

/* Where `name` may be: itself if it has a slash, or in each folder of PATH. */
static char **make_paths(const char *name)
{
    const char *path = getenv("PATH");
    size_t count = 1, n = 0;
    path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path; *p; p++)
        count += *p == ':';
    char **paths = calloc(count + 1, sizeof(*paths));
    if (paths && strchr(name, '/')) {
        paths[0] = strdup(name);
        return paths;
    }
    while (paths && n < count) {
        size_t length = strcspn(path, ":");
        if (asprintf(&paths[n], "%.*s/%s", length ? (int)length : 1,
                     length ? path : ".", name) < 0) {
            paths[n] = NULL;
            break;
        }
        path += length + 1;
        n++;
    }
    return paths;
}

static void set_limit(int what, rlim_t most)
{
    struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
    setrlimit(what, &limit);
}

/* In the child, which has our memory until exec: system calls only. */
static void become(struct plan *plan)
{
    const struct dt_process_options *options = plan->options;
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent)
        _exit(127);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(plan->in, 0) < 0 || dup2(plan->out, 1) < 0 ||
        dup2(plan->err, 2) < 0 || chdir(options->directory) < 0) {
        plan->failed = errno;
        _exit(127);
    }
    close_range(3, UINT_MAX, 0);
    if (options->memory_mb > 0)
        set_limit(RLIMIT_AS, (rlim_t)options->memory_mb << 20);
    if (options->cpu_s > 0)
        set_limit(RLIMIT_CPU, (rlim_t)options->cpu_s);
    int why = ENOENT;
    for (char **p = plan->path; *p && why == ENOENT; p++) {
        execve(*p, options->argv, plan->env);
        why = errno == ENOTDIR ? ENOENT : errno;
    }
    plan->failed = why;
    _exit(127);
}

/* Uses vfork, since a rank may have much memory: no pages are copied, and the
 * thread waits until the program runs. The pid, or -1 and errno.
 */
static pid_t __attribute__((noinline)) launch(struct plan *plan)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        become(plan);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return pid;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

/* Pipes whose end at `ours` does not block. */
static bool open_pipe(int pair[2], int ours)
{
    return pipe2(pair, O_CLOEXEC) == 0 &&
           fcntl(pair[ours], F_SETFL, O_NONBLOCK) == 0;
}

/* With it a program's end is seen at once, even while one of its children still
 * holds its pipes open. -1: an old kernel.
 */
static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int dt_process_start(struct dt_process *process,
                     const struct dt_process_options *options,
                     struct dt_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, said[2] = {-1, -1};
    struct plan plan = {.options = options,
                        .path = make_paths(options->argv[0]),
                        .env = make_env(options),
                        .parent = getpid()};
    bool good = plan.path && plan.path[0] && plan.env && open_pipe(in, 1) &&
                open_pipe(out, 0) && open_pipe(said, 0);
    plan.in = in[0];
    plan.out = out[1];
    plan.err = said[1];
    pid_t pid = good ? launch(&plan) : -1;
    int why = pid < 0 ? errno : plan.failed;
    free_list(plan.path);
    free(plan.env);
    if (pid > 0 && plan.failed)
        waitpid(pid, NULL, 0);
    if (pid > 0 && !plan.failed) {
        close(in[0]);
        close(out[1]);
        close(said[1]);
        *process = (struct dt_process){.options = *options,
                                       .pid = pid,
                                       .in = in[1],
                                       .out = out[0],
                                       .err = said[0],
                                       .end = open_pidfd(pid)};
        return 0;
    }
    close_pair(in);
    close_pair(out);
    close_pair(said);
    return dt_error_set(err, pid > 0 ? EX_UNAVAILABLE : EX_OSERR,
                        "%s: cannot be started in %s: %s", options->argv[0],
                        options->directory, strerror(why));
}
