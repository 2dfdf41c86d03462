/* SPDX-License-Identifier: Apache-2.0 */
/* wandb_run.c - encodes a RunRecord: wandb/proto/wandb_internal.proto */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/sink.h"
#include "report/wandb_run.h"

enum {
    RECORD_RUN = 17,
    RUN_ID = 1,
    RUN_ENTITY = 2,
    RUN_PROJECT = 3,
    RUN_CONFIG = 4,
    RUN_GROUP = 6,
    RUN_NAME = 8,
    RUN_NOTES = 9,
    RUN_TAG = 10,
    RUN_HOST = 13,
    RUN_START = 17,
    CONFIG_UPDATE = 1,
    ITEM_KEY = 1,
    ITEM_JSON = 16,
    TIME_SECONDS = 1,
    TIME_NANOS = 2,
};

void dt_wandb_time(struct dt_protobuf *record, uint32_t field, double wall)
{
    const size_t time = dt_protobuf_begin(record, field);
    const double seconds = floor(wall);
    dt_protobuf_varint(record, TIME_SECONDS, (uint64_t)(int64_t)seconds);
    dt_protobuf_varint(record, TIME_NANOS, (uint64_t)((wall - seconds) * 1e9));
    dt_protobuf_end(record, time);
}

/* The configuration as objects in objects: optimizer.lr is a key of optimizer.
 * NULL: out of memory.
 */
static json_t *nested_config(const json_t *config)
{
    const char *key;
    json_t *node, *root = json_object();
    json_object_foreach((json_t *)config, key, node)
    {
        json_t *in = root;
        const char *name = key, *dot;
        for (; in && (dot = strchr(name, '.')); name = dot + 1) {
            char section[64];
            snprintf(section, sizeof(section), "%.*s", (int)(dot - name), name);
            if (!json_is_object(json_object_get(in, section)))
                json_object_set_new(in, section, json_object());
            in = json_object_get(in, section);
        }
        if (!in || json_object_set(in, name, node) < 0) {
            json_decref(root);
            return NULL;
        }
    }
    return root;
}

static int put_item(struct dt_protobuf *record, const char *key,
                    const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return -1;
    const size_t item = dt_protobuf_begin(record, CONFIG_UPDATE);
    dt_protobuf_string(record, ITEM_KEY, key);
    dt_protobuf_string(record, ITEM_JSON, text);
    dt_protobuf_end(record, item);
    free(text);
    return 0;
}

/* The sections of the configuration, and what else is known of the run. */
static int put_config(struct dt_protobuf *record, const json_t *run)
{
    static const char *const facts[] = {"algorithm", "model",   "data", "world",
                                        "devices",   "program", "job"};
    int rc = 0;
    const char *key;
    json_t *node;
    json_t *sections = nested_config(json_object_get(run, "config"));
    json_t *about = json_object();
    const size_t config = dt_protobuf_begin(record, RUN_CONFIG);
    json_object_foreach(sections, key, node) rc |= put_item(record, key, node);
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
        if ((node = json_object_get(run, facts[i])) && about)
            rc |= json_object_set(about, facts[i], node);
    rc |= !sections || !about ? -1 : put_item(record, "disttrain", about);
    dt_protobuf_end(record, config);
    json_decref(sections);
    json_decref(about);
    return rc;
}

/* Text of logging.wandb, of the environment, or `fallback`, which may be NULL.
 */
static const char *find_text(const json_t *run, const char *key,
                             const char *variable, const char *fallback)
{
    const char *text = dt_sink_setting_text(run, key);
    if (!text)
        text = getenv(variable);
    return text && *text ? text : fallback;
}

static void put_text(struct dt_protobuf *record, uint32_t field,
                     const char *text)
{
    if (text)
        dt_protobuf_string(record, field, text);
}

/* Tags are a list in the configuration and have commas between in the
 * environment.
 */
static void put_tags(struct dt_protobuf *record, const json_t *run)
{
    const json_t *tags = dt_sink_setting(run, "logging.wandb.tags");
    size_t i, n;
    json_t *tag;
    json_array_foreach((json_t *)tags, i, tag)
        put_text(record, RUN_TAG, json_string_value(tag));
    const char *text = tags ? NULL : getenv("WANDB_TAGS");
    for (; text && *text; text += n + strspn(text + n, ",")) {
        n = strcspn(text, ",");
        if (n > 0)
            dt_protobuf_bytes(record, RUN_TAG, text, n);
    }
}

int dt_wandb_run(struct dt_protobuf *record, const json_t *run, const char *id,
                 double start, struct dt_error *err)
{
    char host[256] = "host";
    const char *first = json_string_value(json_object_get(run, "run_id"));
    const char *name = json_string_value(json_object_get(run, "name"));
    const size_t message = dt_protobuf_begin(record, RECORD_RUN);
    gethostname(host, sizeof(host) - 1);
    dt_protobuf_string(record, RUN_ID, id);
    put_text(record, RUN_ENTITY,
             find_text(run, "logging.wandb.entity", "WANDB_ENTITY", NULL));
    put_text(
        record, RUN_PROJECT,
        find_text(run, "logging.wandb.project", "WANDB_PROJECT", "disttrain"));
    const int rc = put_config(record, run);
    put_text(record, RUN_GROUP,
             find_text(run, "logging.wandb.group", "WANDB_RUN_GROUP",
                       first && strcmp(first, id) != 0 ? first : NULL));
    put_text(record, RUN_NAME,
             find_text(run, "logging.wandb.name", "WANDB_NAME", name));
    put_text(record, RUN_NOTES,
             find_text(run, "logging.wandb.notes", "WANDB_NOTES", NULL));
    put_tags(record, run);
    dt_protobuf_string(record, RUN_HOST, host);
    dt_wandb_time(record, RUN_START, start);
    dt_protobuf_end(record, message);
    return rc == 0 ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}
