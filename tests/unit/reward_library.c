/* SPDX-License-Identifier: Apache-2.0 */
/* reward_library.c - a library that gives rewards, as its configuration says */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reward/disttrain_reward.h"

int disttrain_reward_abi(void)
{
    return LIBRARY_ABI;
}

int disttrain_reward_open(const char *config, void **state, char *error,
                          size_t error_bytes)
{
    printf("the library is loaded\n"); /* not an answer */
    fflush(stdout);
    *state = strstr(config, "refuse") ? NULL : strdup(config);
    if (*state)
        return 0;
    snprintf(error, error_bytes, "no\nmodel");
    return 1;
}

/* The bytes of each prompt, completion and columns, its ids and whether it is
 * cut, as the digits of a number.
 */
static double describe(const struct disttrain_reward_batch *batch, uint64_t i)
{
    double sum = 0;
    for (uint64_t t = 0; t < batch->id_count[i]; t++)
        sum += batch->ids[i][t];
    return (double)batch->index[i] * 1e5 +
           (double)batch->prompt_bytes[i] * 1e4 +
           (double)batch->completion_bytes[i] * 1e3 +
           (double)strlen(batch->columns[i]) * 1e1 + batch->truncated[i] +
           sum / 100 + (double)batch->step / 1e4;
}

int disttrain_reward_score(void *state,
                           const struct disttrain_reward_batch *batch,
                           double *rewards, char *error, size_t error_bytes)
{
    const char *config = state;
    for (uint64_t i = 0; i < batch->count; i++)
        rewards[i] = describe(batch, i);
    if (strstr(config, "crash")) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has a handler */
        raise(SIGSEGV);
    }
    if (strstr(config, "hang"))
        pause();
    if (strstr(config, "exit"))
        exit(6);
    if (strstr(config, "infinite"))
        rewards[batch->count - 1] = INFINITY;
    if (strstr(config, "none"))
        rewards[0] = NAN;
    if (!strstr(config, "fail"))
        return 0;
    snprintf(error, error_bytes, "cannot judge");
    return 1;
}

void disttrain_reward_close(void *state)
{
    free(state);
}
