/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h - lets ranks work together until one fails, and records the errors */
#ifndef DT_TESTS_COMM_SCENE_H
#define DT_TESTS_COMM_SCENE_H

#include "rank.h"

/* Seconds that separate "at once" from a timeout, even on a busy machine. */
enum { IN_TIME = 15, PATIENCE_MS = 60000 };

/* What one rank has seen. */
struct seen {
    bool connected;
    int rc;
    struct dt_error first, later; /* of the failing call, and of the next */
    double failed_after, destroy_took;
};

struct actor {
    struct rank rank;
    struct seen *seen, *all; /* all: of every rank */
    int odd;
    struct dt_buffer *pending; /* of an operation that act leaves unfinished */
};

struct scene {
    void (*prepare)(int rank); /* sets the environment; may be NULL */
    void (*act)(struct actor *a);
    int timeout_ms;
    int odd;           /* the rank that differs from the others */
    struct seen *seen; /* [WORLD_MAX], in shared memory */
};

/* Reduces `count` floats and waits for them. Returns 0, or -1 with the error in
 * a->seen.
 */
int reduce(struct actor *a, size_t count);

/* An act: the odd rank does not answer until all the others have given up. */
void act_hung(struct actor *a);

/* An act: rank 0 fails by itself, once all are connected; the others wait for
 * it in a reduction.
 */
void act_abandon(struct actor *a);

/* Runs the scene with `size` ranks. Asserts that all of them end by themselves,
 * except `killed` (-1: none). Sets scene->seen.
 */
void play(struct scene *scene, int size, int killed);

/* Asserts that the text of err contains `text`. */
void assert_text(const struct dt_error *err, const char *text);

/* Asserts that a rank failed in time because of a lost rank, with `text` after
 * the name of the backend.
 */
void assert_seen(const struct seen *seen, const char *text);

#endif /* DT_TESTS_COMM_SCENE_H */
