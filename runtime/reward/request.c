/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - writes the lines that a program reads */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reward/protocol.h"

/* The object as a line with LF; releases it. NULL: out of memory. */
static char *line_of(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t n = text ? strlen(text) : 0;
    char *line = text ? realloc(text, n + 2) : NULL;
    json_decref(root);
    if (!line) {
        free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}

char *dt_reward_hello(const struct dt_conf_reward *conf, const char *run)
{
    json_t *channels = json_array(), *config = NULL;
    bool good = channels != NULL;
    for (size_t i = 0; i < conf->channels.count; i++)
        if (json_array_append_new(channels,
                                  json_string(conf->channels.text[i])) < 0)
            good = false;
    config = conf->config ? json_loads(conf->config, 0, NULL) : json_object();
    json_t *root = json_pack("{s:i, s:s, s:s, s:o, s:o}", "disttrain_reward",
                             DT_REWARD_ABI, "run", run, "name", conf->name,
                             "channels", channels, "config", config);
    if (!root || !good) {
        json_decref(root);
        return NULL;
    }
    return line_of(root);
}

static json_t *ids_of(const struct dt_reward_sample *sample)
{
    json_t *ids = json_array();
    for (size_t i = 0; ids && i < sample->count; i++) {
        if (json_array_append_new(ids, json_integer(sample->ids[i])) < 0) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

/* A sample as JSON. It refers to the messages and columns of the sample, which
 * other threads read, too: jansson counts references atomically.
 */
static json_t *sample_of(const struct dt_reward_sample *sample)
{
    json_t *prompt = sample->messages ? json_incref((json_t *)sample->messages)
                                      : json_stringn(sample->prompt_text,
                                                     sample->prompt_bytes);
    json_t *columns = sample->columns ? json_incref((json_t *)sample->columns)
                                      : json_object();
    json_t *completion =
        json_stringn(sample->completion_text, sample->completion_bytes);
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:b, s:o}", "index",
                     (json_int_t)sample->prompt, "copy",
                     (json_int_t)sample->copy, "prompt", prompt, "completion",
                     completion, "completion_ids", ids_of(sample), "truncated",
                     sample->truncated, "columns", columns);
}

char *dt_reward_request(const struct dt_reward_part *part, json_int_t id)
{
    json_t *samples = json_array();
    bool good = samples != NULL;
    for (size_t i = 0; i < part->count && good; i++)
        good = json_array_append_new(samples,
                                     sample_of(dt_reward_at(part, i))) == 0;
    json_t *root = json_pack("{s:I, s:I, s:o}", "id", id, "step",
                             (json_int_t)part->batch->step, "samples", samples);
    if (!root || !good) {
        json_decref(root);
        return NULL;
    }
    return line_of(root);
}

/* The text of a prompt: messages as JSON. NULL: out of memory. */
static char *prompt_of(const struct dt_reward_sample *sample)
{
    return sample->messages ? json_dumps(sample->messages, 0)
                            : strdup(sample->prompt_text);
}

/* Appends a sample to the three lists. */
static int add_query(json_t *root, const struct dt_reward_sample *sample,
                     const char *column)
{
    json_t *label =
        sample->columns ? json_object_get(sample->columns, column) : NULL;
    char *prompt = prompt_of(sample), *query = NULL;
    if (!prompt ||
        asprintf(&query, "%s%s", prompt, sample->completion_text) < 0) {
        free(prompt);
        return -1;
    }
    int rc = json_array_append_new(json_object_get(root, "query"),
                                   json_string(query)) |
             json_array_append_new(json_object_get(root, "prompts"),
                                   json_string(prompt)) |
             json_array_append_new(json_object_get(root, "labels"),
                                   label ? json_deep_copy(label) : json_null());
    free(prompt);
    free(query);
    return rc;
}

char *dt_reward_queries(const struct dt_reward_part *part, const char *column)
{
    json_t *root =
        json_pack("{s:[], s:[], s:[]}", "query", "prompts", "labels");
    int rc = root ? 0 : -1;
    for (size_t i = 0; i < part->count && rc == 0; i++)
        rc = add_query(root, dt_reward_at(part, i), column);
    if (rc < 0) {
        json_decref(root);
        return NULL;
    }
    return line_of(root);
}
