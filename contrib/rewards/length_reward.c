/* SPDX-License-Identifier: Apache-2.0 */
/*
 * length_reward.c - a reward function in C: short completions are better
 *
 * cc -shared -fPIC -o length_reward.so length_reward.c
 *
 *     reward:
 *       functions:
 *         - {type: library, path: length_reward.so}
 */
#include <disttrain_reward.h>

int disttrain_reward_abi(void)
{
    return DISTTRAIN_REWARD_ABI;
}

int disttrain_reward_open(const char *config, void **state, char *error,
                          size_t error_bytes)
{
    (void)config;
    (void)error;
    (void)error_bytes;
    *state = NULL;
    return 0;
}

int disttrain_reward_score(void *state,
                           const struct disttrain_reward_batch *batch,
                           double *rewards, char *error, size_t error_bytes)
{
    (void)state;
    (void)error;
    (void)error_bytes;
    for (uint64_t i = 0; i < batch->count; i++)
        rewards[i] = 1.0 / (1.0 + (double)batch->id_count[i]);
    return 0;
}

void disttrain_reward_close(void *state)
{
    (void)state;
}
