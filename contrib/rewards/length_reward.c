/* SPDX-License-Identifier: Apache-2.0 */
/*
 * length_reward.c - a reward program in C: short completions are better
 *
 * cc -o length_reward length_reward.c -ljansson
 *
 *     reward:
 *       functions:
 *         - {type: command, command: [./length_reward]}
 *
 * Copy it and change score(); disttrain.yaml(5) describes the protocol.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static double score(const json_t *sample)
{
    const json_t *ids = json_object_get(sample, "completion_ids");
    return 1.0 / (1.0 + (double)json_array_size(ids));
}

/* Writes the answer to a request. */
static void answer(const char *line)
{
    json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
    json_t *rewards = json_array(), *sample;
    size_t i;
    json_array_foreach(json_object_get(request, "samples"), i, sample)
        json_array_append_new(rewards, json_real(score(sample)));
    json_t *reply = json_pack(
        "{s:O, s:o}", "id", json_object_get(request, "id"), "rewards", rewards);
    json_dumpf(reply, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(reply);
    json_decref(request);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    if (getline(&line, &room, stdin) > 0) { /* the greeting */
        puts("{\"ready\":true,\"abi\":1}");
        fflush(stdout);
    }
    while (getline(&line, &room, stdin) > 0)
        answer(line);
    free(line);
    return 0;
}
