/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_scene.h - a step without Slurm: a process a keeper, each with its
 * worker in a process group of its own
 */
#ifndef TESTS_UNIT_KEEPER_SCENE_H
#define TESTS_UNIT_KEEPER_SCENE_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "base/proc.h"
#include "keeper/keeper.h"
#include "tests/unit/scratch.h"

enum { SCENE_MOST = 8 };

struct scene {
    int size, started;
    int ranks_per_node; /* 0: 2 */
    int in_turn;        /* tasks are dealt to so many nodes; 0: one by one */
    char port[16];
    char *argv[3];
    struct dt_keeper_options options;
    char said[256]; /* the file that all processes write to, */
    int pipe;       /* or a pipe; 0: none */
    pid_t pids[SCENE_MOST];
    int statuses[SCENE_MOST]; /* as from waitpid */
    char text[1 << 16];       /* that they have said */
};

static inline unsigned scene_free_port(void)
{
    unsigned port = 0;
    int fd = dt_net_listen(NULL, &port, NULL);
    assert_true(fd >= 0);
    close(fd);
    return port;
}

/* Workers run a script; $W is the directory of this test, and LIFE how often
 * they were started again.
 */
static inline void scene_script(struct scene *s, const char *script)
{
    static char program[256];
    static int count;
    char name[32], text[4096];
    snprintf(name, sizeof(name), "script%d", count++);
    int n = snprintf(text, sizeof(text),
                     "#!/bin/sh\nLIFE=$TORCHELASTIC_RESTART_COUNT\n"
                     "R=$SLURM_PROCID\nexport R\n%s\n",
                     script);
    snprintf(program, sizeof(program), "%s",
             scratch_write(name, text, (size_t)n));
    assert_int_equal(chmod(program, 0755), 0);
    s->argv[0] = program;
}

/* A step of `size` tasks. */
static inline void scene_open(struct scene *s, int size, const char *script)
{
    static int count;
    char name[32];
    *s = (struct scene){
        .size = size,
        .options = {.max_restarts = 3,
                    .spent = "the allowed restarts are used up",
                    .timeout_ms = 60000,
                    .beat_ms = 1000,
                    .outage_s = 15,
                    .secret = "5ec7e7"},
    };
    scene_script(s, script);
    snprintf(name, sizeof(name), "said%d", count++);
    snprintf(s->said, sizeof(s->said), "%s", scratch_write(name, "", 0));
    snprintf(s->port, sizeof(s->port), "%u", scene_free_port());
    setenv("W", scratch_root, 1);
    /* orphans of processes that end come here, so that none is missed */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static inline void scene_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static inline int scene_count_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* The process of a task; ends with 99 if descriptors are left, other than the
 * link to the leader.
 */
static inline void scene_task(const struct scene *s, int rank)
{
    struct dt_error err;
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* a check in the background ignores it, */
    signal(SIGHUP, SIG_DFL); /* and one below nohup that */
    int fd = s->pipe ? fcntl(s->pipe, F_DUPFD_CLOEXEC, 3)
                     : open(s->said, O_WRONLY | O_APPEND | O_CLOEXEC);
    dup2(fd, STDERR_FILENO);
    dup2(fd, STDOUT_FILENO);
    scene_set("SLURM_PROCID", rank);
    scene_set("SLURM_STEP_NUM_TASKS", s->size);
    const int each = s->ranks_per_node ? s->ranks_per_node : 2;
    const int on = s->in_turn ? rank % s->in_turn : rank / each;
    char node[16];
    snprintf(node, sizeof(node), "n%d", on + 1);
    setenv("SLURMD_NODENAME", node, 1);
    scene_set("SLURM_NODEID", on);
    scene_set("RANK", rank);
    scene_set("WORLD_SIZE", s->size);
    scene_set("LOCAL_RANK", rank % each);
    scene_set("LOCAL_WORLD_SIZE", each);
    scene_set("NODE_RANK", rank / each);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", s->port, 1);
    const int files = scene_count_files();
    int status = dt_keeper_run(&s->options, &err);
    if (status < 0) {
        fprintf(stderr, "%s\n", err.text);
        status = err.status;
    }
    _exit(scene_count_files() > files + 1 ? 99 : status);
}

static inline void scene_start_rank(struct scene *s, int rank)
{
    s->options.argv = s->argv;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        scene_task(s, rank);
    assert_true(pid > 0);
    setpgid(pid, pid);
    s->pids[s->started++] = pid;
}

static inline void scene_start(struct scene *s)
{
    for (int r = 0; r < s->size; r++)
        scene_start_rank(s, r);
}

static inline const char *scene_read(struct scene *s)
{
    FILE *file = fopen(s->said, "r");
    assert_non_null(file);
    s->text[fread(s->text, 1, sizeof(s->text) - 1, file)] = '\0';
    fclose(file);
    return s->text;
}

/* Waits until they have said `text` `count` times. */
static inline void scene_await(struct scene *s, const char *text, size_t count)
{
    for (int i = 0; i < 6000; i++) {
        size_t found = 0;
        for (const char *at = scene_read(s); (at = strstr(at, text)); at++)
            found++;
        if (found >= count)
            return;
        dt_clock_sleep(0.01);
    }
    fail_msg("nobody has said %s, but: %s", text, scene_read(s));
}

/* A signal to all of a task, as Slurm sends it. */
static inline void scene_signal(struct scene *s, int signal)
{
    for (int i = 0; i < s->started; i++)
        assert_int_equal(kill(-s->pids[i], signal), 0);
}

static inline void scene_join(struct scene *s, int i)
{
    assert_int_equal(waitpid(s->pids[i], &s->statuses[i], 0), s->pids[i]);
}

/* Waits for all tasks; nothing that they have started may be left. */
static inline void scene_end(struct scene *s)
{
    for (int i = 0; i < s->started; i++)
        if (s->pids[i] > 0)
            scene_join(s, i);
    scene_read(s);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static inline void scene_expect(const struct scene *s, int i, int status)
{
    if (s->statuses[i] != status)
        fail_msg("task %d ended with %#x, not %#x: %s", i, s->statuses[i],
                 status, s->text);
}

#endif /* TESTS_UNIT_KEEPER_SCENE_H */
