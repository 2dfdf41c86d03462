/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - lines of JSON to and from programs that give rewards
 *
 * A program reads and writes one object a line, in UTF-8:
 *
 *   first line to it  {"disttrain_reward":1,"run":..,"name":..,
 *                      "channels":[..],"config":{..}}
 *   its answer        {"ready":true,"abi":1}
 *   a request         {"id":n,"step":s,"samples":[{"index":..,"copy":..,
 *                      "prompt":text or messages,"completion":..,
 *                      "completion_ids":[..],"truncated":..,"columns":{..}}]}
 *   its answer        {"id":n,"rewards":[number or null, ..]} or
 *                     {"id":n,"channels":{"name":[..], ..}} or
 *                     {"error":"why"}
 */
#ifndef DT_REWARD_PROTOCOL_H
#define DT_REWARD_PROTOCOL_H

#include "reward/impl.h"

enum { DT_REWARD_ABI = 1 };

/* The lines for a program, each with LF, malloc'ed. NULL: out of memory. */
char *dt_reward_hello(const struct dt_conf_reward *conf, const char *run);
char *dt_reward_request(const struct dt_reward_part *part, json_int_t id);

/* Checks the answer to the first line. -1: EX_PROTOCOL with the answer;
 * EX_UNAVAILABLE with the program's own words.
 */
int dt_reward_ready(const char *line, size_t bytes, struct dt_error *err);

/* The expected contents of an answer to a request. */
struct dt_reward_form {
    json_int_t id;
    size_t count;                        /* samples */
    const struct dt_conf_list *channels; /* their names; none: "rewards" */
};

/* Reads the values(count, channels) of an answer; null becomes NaN. -1: as
 * dt_reward_ready.
 */
int dt_reward_reply(const char *line, size_t bytes,
                    const struct dt_reward_form *form, double *values,
                    struct dt_error *err);

/* The same for servers that were made for OpenRLHF: {"query","prompts",
 * "labels"}, three lists: query has prompts with their completions, and labels
 * has the values of `column`, or null. malloc'ed; NULL: out of memory.
 */
char *dt_reward_queries(const struct dt_reward_part *part, const char *column);

/* Its answer: {"rewards":[..]}; other keys are left out. */
int dt_reward_openrlhf(const char *text, size_t bytes, size_t count,
                       double *values, struct dt_error *err);

#endif /* DT_REWARD_PROTOCOL_H */
