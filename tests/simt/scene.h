/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h - what ranks with emulated GPUs do together, and what each has seen
 */
#ifndef DT_TESTS_SCENE_H
#define DT_TESTS_SCENE_H

#include <stdbool.h>

#include "backend/backend.h"
#include "../unit/world.h"

/* Seconds that tell "at once" from a time-out, also on a busy machine. */
enum { IN_TIME = 15, PATIENCE_MS = 60000 };

/* What one rank has seen. */
struct seen {
    bool connected;
    int rc;
    struct dt_error first, later; /* of the failing call, and of the next */
    double failed_after, destroy_took;
};

struct rank {
    const struct dt_device *device;
    struct dt_stream *stream;
    struct dt_event *event;
    struct dt_comm *comm;
    struct seen *seen, *all; /* all: of every rank */
    int odd;
};

struct scene {
    void (*prepare)(int rank); /* the environment; NULL: nothing */
    void (*act)(struct rank *r);
    int timeout_ms;
    int odd;           /* the rank that does something else than the others */
    struct seen *seen; /* [WORLD_MAX], in shared memory */
};

/* Reduces `count` floats and waits for them; keeps what went wrong in r->seen.
 * Returns 0 or -1.
 */
int reduce(struct rank *r, size_t count);

/* Runs the scene with `size` ranks, each in a process. Asserts that all of them
 * end by themselves, except `killed` (-1: none). Sets scene->seen.
 */
void play(struct scene *scene, int size, int killed);

/* Asserts that the text of err contains `text`. */
void assert_text(const struct dt_error *err, const char *text);

/* Asserts that a rank failed in time, because of a lost rank, with `text`. */
void assert_seen(const struct seen *seen, const char *text);

#endif /* DT_TESTS_SCENE_H */
