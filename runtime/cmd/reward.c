/* SPDX-License-Identifier: Apache-2.0 */
/* reward.c - `disttrain reward`: rewards for programs that are not ours */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "reward/serve.h"

static const char help[] =
    "usage: disttrain reward serve FILE --listen unix:PATH [--set "
    "KEY=VALUE]...\n"
    "       disttrain reward host LIBRARY\n\n"
    "serve scores completions for other programs with reward.functions of a\n"
    "configuration, over a socket, until SIGTERM or SIGINT, or until a "
    "function\n"
    "fails. host answers on stdin and stdout with a library of type library:\n"
    "what a run starts for it, and a way to try one by hand.\n\n"
    "  --listen unix:PATH  the socket, which only this user may open\n"
    "  --set KEY=VALUE     take this value, whatever FILE says\n"
    "  --help              this text\n";

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static bool must_stop(void)
{
    return stopped != 0;
}

/* A socket is left behind by a server that was killed: nobody answers there. */
static bool is_stale(const struct sockaddr_un *address)
{
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool stale =
        lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) && fd >= 0 &&
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
        errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return stale;
}

/* The listening socket, or -1. */
static int open_socket(const char *path, struct dt_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct sockaddr *any = (const struct sockaddr *)&address;
    if (strlen(path) >= sizeof(address.sun_path)) {
        dt_error_set(err, EX_USAGE, "%s: longer than %zu bytes", path,
                     sizeof(address.sun_path) - 1);
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(077);
    int rc = fd < 0 ? -1 : bind(fd, any, sizeof(address));
    if (rc < 0 && fd >= 0 && errno == EADDRINUSE && is_stale(&address) &&
        unlink(path) == 0)
        rc = bind(fd, any, sizeof(address));
    int why = errno;
    umask(before);
    if (rc == 0 && listen(fd, 16) == 0)
        return fd;
    dt_error_set(err, EX_CANTCREAT, "%s: %s", path, strerror(rc ? why : errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int fail(const struct dt_error *err)
{
    fprintf(stderr, "disttrain reward: %s\n", err->text);
    return err->status;
}

/* Serves what `conf` has on a socket. */
static int serve(const struct dt_conf *conf, const char *file, const char *path)
{
    const struct dt_exec exec = dt_exec_cpu();
    const struct dt_reward_options options = {
        .where = DT_REWARD_ANYWHERE, .exec = &exec, .dtype = DT_F32};
    const struct sigaction action = {.sa_handler = on_signal};
    struct dt_error err;
    if (conf->reward.count == 0) {
        fprintf(stderr, "%s:1:1: reward.functions: required here\n", file);
        return EX_CONFIG;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int fd = open_socket(path, &err);
    if (fd < 0)
        return fail(&err);
    struct dt_rewards *rewards = dt_rewards_open(conf, &options, &err);
    int rc = rewards ? 0 : -1;
    if (rc == 0) {
        dt_log(DT_LOG_INFO, "reward", "serving on unix:%s", path);
        rc = dt_reward_serve(rewards, fd, must_stop, &err);
    }
    dt_rewards_close(rewards);
    close(fd);
    unlink(path);
    return rc < 0 ? fail(&err) : 0;
}

static int run_serve(const char *file, const char *listen)
{
    static const char prefix[] = "unix:";
    if (!listen || strncmp(listen, prefix, strlen(prefix)) != 0)
        return dt_cmd_usage_error("reward", "serve: expected --listen "
                                            "unix:PATH");
    struct dt_conf *conf = dt_cmd_load_rewards("reward", file);
    int rc = conf ? serve(conf, file, listen + strlen(prefix)) : EX_CONFIG;
    dt_conf_destroy(conf);
    return rc;
}

/* What the library prints would be taken for answers: it goes to stderr. */
static int run_host(const char *name)
{
    struct dt_error err;
    char path[PATH_MAX]; /* with a slash: not one of the system's libraries */
    if (!realpath(name, path)) {
        dt_error_set(&err, EX_NOINPUT, "%s: %s", name, strerror(errno));
        return fail(&err);
    }
    int fd = dup(STDOUT_FILENO);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        dt_error_set(&err, EX_OSERR, "stdout: %s", strerror(errno));
        return fail(&err);
    }
    int rc = dt_reward_host(path, stdin, out, &err);
    fclose(out);
    return rc < 0 ? fail(&err) : 0;
}

int dt_cmd_reward(int argc, char **argv)
{
    static const struct option table[] = {
        {"help", no_argument, NULL, 'h'},
        {"listen", required_argument, NULL, 'l'},
        DT_CMD_SET_OPTION,
        {0}};
    struct dt_cmd_line line = {"reward", help, table, .status = DT_CMD_RUN};
    const char *listen = NULL;
    while (dt_cmd_next_option(&line, argc, argv) == 'l')
        listen = optarg;
    if (line.status != DT_CMD_RUN)
        return line.status;
    const char *what = optind < argc ? argv[optind] : "";
    bool good = optind + 2 == argc;
    if (good && strcmp(what, "serve") == 0)
        return run_serve(argv[optind + 1], listen);
    if (good && strcmp(what, "host") == 0 && !listen)
        return run_host(argv[optind + 1]);
    return dt_cmd_usage_error("reward", "expected serve FILE --listen "
                                        "unix:PATH, or host LIBRARY");
}
