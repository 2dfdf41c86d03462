/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reward.h - scores completions with the functions of reward.functions
 *
 * A function of the file has one channel or more, each with a weight, and a
 * channel is a column of the results. Rules, programs and servers are
 * asked by threads of their own, so that a slow one delays nobody until its
 * values are collected, and every request has a deadline. Nothing here is a
 * collective: who calls, and who is told the values, is up to the algorithm.
 */
#ifndef DT_REWARD_REWARD_H
#define DT_REWARD_REWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "conf/conf.h"
#include "data/example.h"
#include "ops/ops.h"

/* A completion to score. Texts need not be valid UTF-8 and have no NUL at the
 * end; programs see U+FFFD for bytes that are not a character.
 */
struct dt_reward_sample {
    uint64_t prompt; /* number in the stream of prompts */
    uint32_t copy;   /* which of its completions */
    const char *prompt_text, *completion_text;
    size_t prompt_bytes, completion_bytes;
    const json_t *messages; /* the prompt as a list of them, or NULL */
    const json_t *columns;  /* other keys of the line, an object; or NULL */
    const json_t *images;   /* of the prompt, in their order: [{"sha256": of the
                               file, "path": if the line names one}, ..]; NULL:
                               it has none */
    const int32_t *ids;     /* of the completion, with the token that ends it */
    size_t count;
    bool truncated; /* it was cut at the length limit */
};

struct dt_reward_column {
    char *name; /* of the function, or function/channel */
    double weight;
    size_t index; /* among the columns of all functions in the file */
};

/* What a text has at most for a reward model, as a plan has it. */
struct dt_reward_room {
    size_t longest; /* in its own tokens */
    size_t patches, pictures;
};

struct dt_reward_options {
    int where;                  /* enum dt_conf_where: only these functions */
    const struct dt_exec *exec; /* device and stream of models; NULL: none */
    enum dt_dtype dtype;        /* in which models compute */
    const struct dt_reward_room *rooms;     /* of models, by the number of their
                                               function in the file; NULL:
                                               they find it out */
    const struct dt_example_images *images; /* whose store has the files of
                                               images; NULL: none has any */
};

/* Number of the columns of all functions in the file, wherever they run. */
size_t dt_reward_columns(const struct dt_conf *conf);

/* Prepares the functions that options->where names: compiles patterns, starts
 * programs and waits for them to be ready, loads models. It keeps `conf`. NULL
 * and err, which names the function: EX_CONFIG, a pattern; EX_UNAVAILABLE, a
 * program that does not start, with its last line; EX_OSERR.
 */
struct dt_rewards *dt_rewards_open(const struct dt_conf *conf,
                                   const struct dt_reward_options *options,
                                   struct dt_error *err);

/* Ends programs with their process groups at once, also in the middle of a
 * request. NULL is fine.
 */
void dt_rewards_close(struct dt_rewards *rewards);

/* The columns that these functions have, in the order of the file; none if no
 * function runs at this place. Valid until dt_rewards_close.
 */
const struct dt_reward_column *dt_rewards_columns(
    const struct dt_rewards *rewards, size_t *count);

/* Whether a function here is a model: then dt_rewards_collect works on the
 * device, with the stream of the options.
 */
bool dt_rewards_is_model(const struct dt_rewards *rewards);

/* Queues samples of optimizer step `step` and returns at once; everything that
 * is needed is copied. May be called several times before dt_rewards_collect,
 * by the same thread. -1: EX_OSERR.
 */
int dt_rewards_submit(struct dt_rewards *rewards, long step,
                      const struct dt_reward_sample *samples, size_t count,
                      struct dt_error *err);

/* Waits for the values(rows, columns) of all samples since the last call, in
 * the order in which they were submitted; `rows` is their number. NaN: this
 * function has no reward for the sample. It returns within the time limits of
 * all calls that are queued. -1: EX_UNAVAILABLE, a program did not answer;
 * EX_PROTOCOL, it answered wrongly; EX_DATAERR, a sample lacks a column; with
 * the name of the function and the first bad reply. Nothing can be submitted
 * after a failure.
 */
int dt_rewards_collect(struct dt_rewards *rewards, double *values, size_t rows,
                       struct dt_error *err);

#endif /* DT_REWARD_REWARD_H */
