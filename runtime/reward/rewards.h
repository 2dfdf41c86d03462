/* SPDX-License-Identifier: Apache-2.0 */
/* rewards.h - the functions of a run, their threads and queued calls */
#ifndef DT_REWARD_REWARDS_H
#define DT_REWARD_REWARDS_H

#include <stdatomic.h>

#include "reward/impl.h"

/* The samples that one call of a function scores, and where its values go. */
struct dt_reward_task {
    struct dt_reward_task *next;   /* in the queue of its function */
    struct dt_reward_task *behind; /* in the list of all */
    struct dt_reward_function *function;
    struct dt_reward_part part;
    size_t row;      /* of its first sample, among all that are queued */
    double values[]; /* (part.count, channels) */
};

struct dt_reward_function {
    const struct dt_conf_reward *conf;
    const struct dt_reward_kind *kind;
    size_t channels, first; /* its columns among those that run here */
    struct dt_reward_lane *lane;
    size_t lane_count;
    struct dt_reward_task *head, *tail; /* not begun */
    size_t left;                        /* not done */
    size_t failed;                      /* samples without a value */
    size_t step_failed, recent_failed;  /* as in dt_rewards */
};

struct dt_rewards {
    const struct dt_conf *conf;
    char *directory; /* of the file */
    struct dt_reward_function *function;
    size_t function_count;
    struct dt_reward_column *column;
    size_t column_count;
    int stop_fd;

    pthread_mutex_t
        mutex; /* of everything below and of the functions' queues */
    pthread_cond_t work, done;
    atomic_bool stop;
    size_t opening; /* lanes that are not ready */
    bool has_failed;
    struct dt_error failure;
    struct dt_reward_task *tasks; /* all, newest first */
    struct dt_reward_batch **batch;
    size_t batch_count, rows;
    long step;                     /* whose samples were collected last */
    size_t step_rows, recent_rows; /* samples of it, and of the last steps */
};

/* Starts the lanes of all functions and waits until they are ready. -1: as
 * dt_rewards_open; dt_reward_lanes_stop is needed in any case.
 */
int dt_reward_lanes_start(struct dt_rewards *rewards,
                          const struct dt_reward_options *options,
                          struct dt_error *err);

/* Scores the queued calls of functions that the caller's thread runs. */
void dt_reward_lanes_run(struct dt_rewards *rewards);

/* Ends all lanes. False: one hangs in code that cannot be ended, and still uses
 * memory of `rewards`.
 */
bool dt_reward_lanes_stop(struct dt_rewards *rewards);

#endif /* DT_REWARD_REWARDS_H */
