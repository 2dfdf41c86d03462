/* SPDX-License-Identifier: Apache-2.0 */
/* run_facts.c - facts of run.json, checked */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "history/history_impl.h"

enum {
    NODES_MAX = 65536,
    DEVICES_MAX = 1 << 20,
    WORDS_MAX = 4096,
    STARTS_MAX = 4096,
    SETTINGS_MAX = 4096,
    DUMP = JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS |
           JSON_REAL_PRECISION(9),
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    return dt_json_number(json_object_get(object, key));
}

/* Allocates room for the items of a list in *items. Returns the number to read.
 */
static size_t list_room(const json_t *list, size_t max, size_t item_bytes,
                        void *items)
{
    size_t count = json_array_size(list);
    count = count < max ? count : max;
    void *room = count > 0 ? calloc(count, item_bytes) : NULL;
    memcpy(items, &room, sizeof(room));
    return room ? count : 0;
}

/* Reads strings; "" in place of other values. */
static size_t read_words(const json_t *list, size_t max, const char ***words)
{
    const size_t count = list_room(list, max, sizeof(**words), words);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        (*words)[i] = text ? text : "";
    }
    return count;
}

static void read_nodes(struct dt_history_facts *facts, const json_t *list)
{
    facts->node_count =
        list_room(list, NODES_MAX, sizeof(*facts->nodes), &facts->nodes);
    for (size_t i = 0; i < facts->node_count; i++) {
        const json_t *node = json_array_get(list, i);
        const char *host = text_of(node, "host");
        facts->nodes[i].host = host ? host : "?";
        facts->nodes[i].ranks = json_array_size(json_object_get(node, "ranks"));
    }
}

static void read_starts(struct dt_history_facts *facts, const json_t *list)
{
    facts->start_count =
        list_room(list, STARTS_MAX, sizeof(*facts->starts), &facts->starts);
    for (size_t i = 0; i < facts->start_count; i++) {
        const json_t *start = json_array_get(list, i);
        facts->starts[i] = (struct dt_history_start){
            .wall = number_of(start, "wall"),
            .step = (long)json_integer_value(json_object_get(start, "step")),
            .job = text_of(start, "job")};
    }
}

static bool is_given(const json_t *given, const char *key)
{
    size_t i;
    json_t *item;
    json_array_foreach(
        given, i, item) if (json_is_string(item) &&
                            !strcmp(json_string_value(item), key)) return true;
    return false;
}

static int read_settings(struct dt_run_facts *facts, struct dt_error *err)
{
    const char *key;
    json_t *value, *config = json_object_get(facts->json, "config");
    const json_t *given = json_object_get(facts->json, "given");
    size_t size = json_object_size(config), n = 0;
    size = size < SETTINGS_MAX ? size : SETTINGS_MAX;
    if (size == 0)
        return 0;
    facts->facts.settings = calloc(size, sizeof(*facts->facts.settings));
    facts->texts = calloc(size, sizeof(*facts->texts));
    if (!facts->facts.settings || !facts->texts)
        return dt_error_set(err, EX_OSERR, "out of memory");
    json_object_foreach(config, key, value)
    {
        const char *text = json_string_value(value);
        if (n == size)
            break;
        if (!text && !(text = facts->texts[n] = json_dumps(value, DUMP)))
            return dt_error_set(err, EX_OSERR, "out of memory");
        facts->facts.settings[n++] =
            (struct dt_history_setting){key, text, is_given(given, key)};
        facts->facts.setting_count = n;
    }
    return 0;
}

/* Joins the texts of a list with commas; NULL: there are none. The caller frees
 * the text.
 */
static char *join_texts(const json_t *list)
{
    char *text = NULL;
    size_t size, i;
    const json_t *value;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    json_array_foreach((json_t *)list, i, value)
    {
        if (json_is_string(value))
            fprintf(out, "%s%s", ftell(out) > 0 ? ", " : "",
                    json_string_value(value));
    }
    if (fclose(out) == 0 && size > 0)
        return text;
    free(text);
    return NULL;
}

static void read_texts(struct dt_history_facts *facts, const json_t *json)
{
    const json_t *model = json_object_get(json, "model");
    facts->name = text_of(json, "name");
    facts->run_id = text_of(json, "run_id");
    facts->job = text_of(json, "job");
    facts->algorithm = text_of(json, "algorithm");
    facts->output_dir = text_of(json, "output_dir");
    facts->program = text_of(json, "program");
    facts->config_path = text_of(json, "config_path");
    facts->config_hash = text_of(json, "config_hash");
    facts->status = text_of(json, "status");
    facts->verdict = text_of(json, "verdict");
    facts->resume = text_of(json, "resume");
    facts->family = text_of(model, "family");
    facts->data_hash = text_of(json_object_get(json, "data"), "hash");
    facts->peak_name = text_of(json, "peak_name");
}

static void read_numbers(struct dt_history_facts *facts, const json_t *json)
{
    const json_t *model = json_object_get(json, "model");
    facts->parameters = number_of(model, "parameters");
    facts->layers = number_of(model, "layers");
    facts->width = number_of(model, "width");
    facts->rows = number_of(json_object_get(json, "data"), "rows");
    facts->total_steps = number_of(json, "total_steps");
    facts->world = number_of(json, "world");
    facts->ended = number_of(json, "ended");
    facts->flops_per_token = number_of(json, "flops_per_token");
    facts->peak_flops = number_of(json, "peak_flops");
}

int dt_run_facts_read(struct dt_run_facts *facts, const char *path,
                      const char *text, struct dt_error *err)
{
    struct dt_error why;
    *facts = (struct dt_run_facts){0};
    json_t *json = facts->json = dt_json_parse(path, text, &why);
    if (!json || !json_is_object(json)) {
        snprintf(facts->problem, sizeof(facts->problem), "%s",
                 json ? "" : why.text);
        if (json)
            snprintf(facts->problem, sizeof(facts->problem),
                     "%s: expected an object, found %s", path,
                     dt_json_type_name(json_typeof(json)));
        facts->facts.problem = facts->problem;
        json_decref(json);
        json = facts->json = NULL;
    }
    facts->facts.json = json;
    read_texts(&facts->facts, json);
    read_numbers(&facts->facts, json);
    facts->train_data =
        join_texts(json_object_get(json_object_get(json, "data"), "train"));
    facts->facts.train_data = facts->train_data;
    read_nodes(&facts->facts, json_object_get(json, "nodes"));
    read_starts(&facts->facts, json_object_get(json, "starts"));
    facts->facts.device_count = read_words(json_object_get(json, "devices"),
                                           DEVICES_MAX, &facts->facts.devices);
    facts->facts.argc = read_words(json_object_get(json, "argv"), WORDS_MAX,
                                   &facts->facts.argv);
    return read_settings(facts, err);
}

int dt_run_facts_name(struct dt_run_facts *facts, const char *dir,
                      struct dt_error *err)
{
    if (facts->facts.name && *facts->facts.name)
        return 0;
    size_t end = strlen(dir), begin;
    for (;;) {
        while (end > 1 && dir[end - 1] == '/')
            end--;
        for (begin = end; begin > 0 && dir[begin - 1] != '/';)
            begin--;
        if (begin == 0 || end - begin != 4 ||
            strncmp(dir + begin, "logs", 4) != 0)
            break;
        end = begin;
    }
    facts->name = strndup(dir + begin, end - begin);
    if (!facts->name)
        return dt_error_set(err, EX_OSERR, "out of memory");
    facts->facts.name = facts->name;
    return 0;
}

void dt_run_facts_fini(struct dt_run_facts *facts)
{
    for (size_t i = 0; facts->texts && i < facts->facts.setting_count; i++)
        free(facts->texts[i]);
    free(facts->texts);
    free(facts->name);
    free(facts->train_data);
    free(facts->facts.nodes);
    free(facts->facts.devices);
    free(facts->facts.argv);
    free(facts->facts.starts);
    free(facts->facts.settings);
    json_decref(facts->json);
    *facts = (struct dt_run_facts){0};
}
