/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disttrain_reward.h - what a library that scores completions has
 *
 * A shared object with these four functions is a reward function of type
 * library. Compile it with `cc -shared -fPIC`; nothing of disttrain is linked.
 * It is called by one thread, in a process of its own unless in_process is
 * true, and its stderr goes to the log of the run.
 */
#ifndef DISTTRAIN_REWARD_H
#define DISTTRAIN_REWARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DISTTRAIN_REWARD_ABI 1

/* Completions to score. Texts are UTF-8 with a NUL behind their bytes. All of
 * it is valid until the call returns. Later versions add fields at the end:
 * struct_size says which there are.
 */
struct disttrain_reward_batch {
    uint32_t struct_size; /* bytes of this struct */
    uint32_t reserved;
    uint64_t count;            /* N, of every array below */
    int64_t step;              /* of the optimizer */
    const uint64_t *index;     /* (N) number of the prompt in the run */
    const char *const *prompt; /* (N) text, or messages as JSON */
    const uint64_t *prompt_bytes;
    const char *const *completion; /* (N) */
    const uint64_t *completion_bytes;
    const int32_t *const *ids; /* (N) token ids of each completion */
    const uint64_t *id_count;
    const uint8_t *truncated;   /* (N) 1: cut at the length limit */
    const char *const *columns; /* (N) the other keys of the line, as JSON */
};

/* Returns DISTTRAIN_REWARD_ABI. */
int disttrain_reward_abi(void);

/* Prepares. `config` is the section config of the function as JSON, "{}" if
 * there is none. *state is handed to the other calls. 0; or another value, with
 * what is wrong in error(error_bytes), a text with a NUL at its end, and then
 * close is not called.
 */
int disttrain_reward_open(const char *config, void **state, char *error,
                          size_t error_bytes);

/* Fills rewards(N): a finite number, or NaN where there is no reward. 0, or as
 * above.
 */
int disttrain_reward_score(void *state,
                           const struct disttrain_reward_batch *batch,
                           double *rewards, char *error, size_t error_bytes);

/* Releases what open has prepared. */
void disttrain_reward_close(void *state);

#ifdef __cplusplus
}
#endif

#endif /* DISTTRAIN_REWARD_H */
