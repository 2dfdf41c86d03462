/* SPDX-License-Identifier: Apache-2.0 */
/* nodes_scene.h - a step that outlives its nodes, of one or two tasks each */
#ifndef TESTS_UNIT_KEEPER_NODES_SCENE_H
#define TESTS_UNIT_KEEPER_NODES_SCENE_H

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/count.h"
#include "tests/unit/keeper/keeper_scene.h"

enum { UNAVAILABLE = EX_UNAVAILABLE << 8 };

static struct scene scene;

static const char once[] =
    "echo life $LIFE: $SLURM_PROCID is $RANK of $WORLD_SIZE, $LOCAL_RANK of "
    "$LOCAL_WORLD_SIZE on $NODE_RANK, $MASTER_ADDR. ${DISTTRAIN_EPOCH#* }.\n"
    "[ $LIFE = ${LAST:-1} ] || exec sleep 1000";

/* A step of nodes of one task, or of two. */
static inline void open_step(int size, int each, int spares, long least)
{
    scene_open(&scene, size, once);
    scene.ranks_per_node = each;
    scene.options.replaces = true;
    scene.options.spares = spares;
    scene.options.least = least;
    scene.options.beat_ms = 3600 * 1000; /* an end is seen by its socket */
    scene.options.outage_s = 5 * 3600;
}

static inline void use_directory(const char *name)
{
    static char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s%s%s", name[0] == '/' ? "" : scratch_root,
             name[0] == '/' ? "" : "/", name);
    scene.options.dir = dir;
}

static inline void start_step(int ranks)
{
    scene_start(&scene);
    scene_await(&scene, "life 0: ", (size_t)ranks);
}

static inline void lose(int task)
{
    assert_int_equal(kill(scene.pids[task], SIGKILL), 0);
}

/* Waits for all, of which these were killed. */
static inline void end_step(void)
{
    for (int i = 0; i < scene.started; i++)
        if (scene.pids[i] > 0)
            scene_join(&scene, i);
    while (waitpid(-1, NULL, 0) > 0) /* workers die with their keepers */
        ;
    scene_read(&scene);
}

static inline void has(const char *text, size_t count)
{
    if (count_of(scene.text, text) != count)
        fail_msg("not %zu times '%s' in: %s", count, text, scene.text);
}

static inline void expect(const int *statuses)
{
    for (int i = 0; i < scene.size; i++)
        scene_expect(&scene, i, statuses[i]);
}

#endif /* TESTS_UNIT_KEEPER_NODES_SCENE_H */
