/* SPDX-License-Identifier: Apache-2.0 */
/* submit_scene.h - the plugin in srun or sbatch, with a runtime that accepts
 * every config that is not called bad
 */
#ifndef TESTS_UNIT_SPANK_SUBMIT_SCENE_H
#define TESTS_UNIT_SPANK_SUBMIT_SCENE_H

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/srun/submit.h"
#include "tests/unit/spank/spank_stub.h"

static char runtime_arg[] = "runtime=/tmp/test_spank_submit.XXXXXX";
static char *const runtime = runtime_arg + sizeof("runtime=") - 1;

/* A runtime that accepts every config that is not called bad, and goes by its
 * name otherwise, too.
 */
static inline int setup(void **state)
{
    (void)state;
    int fd = mkstemp(runtime);
    if (fd < 0)
        return -1;
    dprintf(
        fd,
        "#!/bin/sh\n"
        "[ \"$2 $3\" != '--outlives mute' ] || exec head -c 2000000 /dev/zero\n"
        "[ \"$2\" != --outlives ] || case \"$*\" in\n"
        "*launch.spares=1*|*' outlives --') exit 0;; *) exit 1; esac\n"
        "runs=train; [ \"$3\" != --allocation ] || shift 2\n"
        "sets=; while [ \"$3\" = --set ]; do\n"
        "sets=${sets:+$sets }$4; shift 2; done\n"
        "case $3 in *bad*) exit 78;; *nothing* | /dev/null)\n"
        "runs=nothing; esac\n"
        "echo DISTTRAIN_CONTRACT=3; echo RUNS=$runs\n"
        "echo CONFIG=/abs/$3\n"
        "case $3 in *nodes*) echo SRUN SLURM_JOB_NUM_NODES=2; esac\n"
        "case $3 in *outlives*) echo SRUN SLURM_DISTTRAIN_OUTLIVES=1; esac\n"
        "case $3 in *outlives*|*kept*) echo SRUN SLURM_DISTTRAIN_KEPT=1; esac\n"
        "case $sets in *name*) sets=; esac\n"
        "shift 4; echo \"SRUN SLURM_DISTTRAIN_FRAMEWORKS=${sets:+$sets }$*\"\n"
        "echo ENV FOO=1; echo 'ENV BAR=a b'\n");
    return fchmod(fd, 0700) == 0 ? close(fd) : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    return unlink(runtime);
}

/* The plugin keeps state for the life of srun: one process for each case. */
static inline void run_case(spank_context_t context, int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *av[] = {runtime_arg};
        stub_reset();
        stub.context = context;
        optind = 0; /* as if there were a command behind the options */
        int line = dtspank_submit_init(NULL, 1, av) == 0 &&
                           dtspank_submit_prepare() == 0
                       ? body()
                       : __LINE__;
        if (line != 0)
            fprintf(stderr, "%s:%d, said: %s\n", __FILE__, line, stub.said);
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition))                                                      \
            return __LINE__;                                                   \
    } while (0)

static inline int is_set(const char *name, const char *value)
{
    const char *now = getenv(name);
    return value ? now && strcmp(now, value) == 0 : !now;
}

#endif /* TESTS_UNIT_SPANK_SUBMIT_SCENE_H */
