/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorboard_text.c - writes what TensorBoard's pages "Text" and "HParams"
 * read
 *
 * Fields: tensorboard/compat/proto/{summary,tensor}.proto and
 * tensorboard/plugins/hparams/{plugin_data,api}.proto.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "report/event_file.h"
#include "report/sink.h"
#include "report/tensorboard_text.h"

enum {
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    DTYPE_FLOAT = 1,
    DTYPE_STRING = 7,
};

/* HParamsPluginData and below. */
enum {
    HPARAMS_EXPERIMENT = 2,
    HPARAMS_SESSION_START = 3,
    EXPERIMENT_HPARAM = 4,
    EXPERIMENT_METRIC = 5,
    HPARAM_NAME = 1,
    HPARAM_TYPE = 4,
    TYPE_STRING = 1,
    TYPE_BOOL = 2,
    TYPE_FLOAT64 = 3,
    METRIC_NAME = 1,
    NAME_TAG = 2,
    SESSION_HPARAM = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NUMBER = 2,
    VALUE_STRING = 3,
    VALUE_BOOL = 4,
};

/* Begins the metadata of a value, whose content is appended then. */
static size_t begin_metadata(struct dt_protobuf *event, const char *plugin,
                             size_t *inner)
{
    const size_t metadata = dt_protobuf_begin(event, DT_VALUE_METADATA);
    *inner = dt_protobuf_begin(event, METADATA_PLUGIN);
    dt_protobuf_string(event, PLUGIN_NAME, plugin);
    return metadata;
}

/* The lines of a text, indented by four blanks: code in Markdown, in which
 * nothing has a meaning.
 */
static char *config_text(const json_t *config)
{
    char *text = NULL, *value;
    size_t bytes = 0;
    const char *key;
    json_t *node;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    json_object_foreach((json_t *)config, key, node)
    {
        value = json_dumps(node, JSON_ENCODE_ANY);
        fprintf(out, "    %s: %s\n", key, value ? value : "null");
        free(value);
    }
    return fclose(out) == 0 ? text : (free(text), NULL);
}

static void put_text(struct dt_protobuf *event, const char *tag,
                     const char *text)
{
    size_t plugin, metadata, tensor, shape, dim;
    const size_t value = dt_protobuf_begin(event, DT_SUMMARY_VALUE);
    dt_protobuf_string(event, DT_VALUE_TAG, tag);
    tensor = dt_protobuf_begin(event, DT_VALUE_TENSOR);
    dt_protobuf_varint(event, TENSOR_DTYPE, DTYPE_STRING);
    shape = dt_protobuf_begin(event, TENSOR_SHAPE);
    dim = dt_protobuf_begin(event, SHAPE_DIM);
    dt_protobuf_varint(event, DIM_SIZE, 1);
    dt_protobuf_end(event, dim);
    dt_protobuf_end(event, shape);
    dt_protobuf_string(event, TENSOR_STRING, text);
    dt_protobuf_end(event, tensor);
    metadata = begin_metadata(event, "text", &plugin);
    dt_protobuf_end(event, plugin);
    dt_protobuf_end(event, metadata);
    dt_protobuf_end(event, value);
}

/* The keys that the file gives; those of the defaults are the same in most
 * runs. NULL: all of them.
 */
static bool is_given(const json_t *given, const char *key)
{
    size_t i;
    json_t *name;
    json_array_foreach(
        (json_t *)given, i,
        name) if (json_is_string(name) &&
                  !strcmp(json_string_value(name), key)) return true;
    return !json_is_array(given);
}

static int hparam_type(const json_t *node)
{
    return json_is_number(node)    ? TYPE_FLOAT64
           : json_is_boolean(node) ? TYPE_BOOL
           : json_is_string(node)  ? TYPE_STRING
                                   : 0;
}

static void put_experiment(struct dt_protobuf *event, const json_t *run)
{
    static const char *const metrics[] = {"train/loss", "eval/loss"};
    const json_t *given = json_object_get(run, "given");
    const char *key;
    json_t *node;
    const size_t experiment = dt_protobuf_begin(event, HPARAMS_EXPERIMENT);
    json_object_foreach(json_object_get(run, "config"), key, node)
    {
        if (!hparam_type(node) || !is_given(given, key))
            continue;
        const size_t hparam = dt_protobuf_begin(event, EXPERIMENT_HPARAM);
        dt_protobuf_string(event, HPARAM_NAME, key);
        dt_protobuf_varint(event, HPARAM_TYPE, (uint64_t)hparam_type(node));
        dt_protobuf_end(event, hparam);
    }
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const size_t metric = dt_protobuf_begin(event, EXPERIMENT_METRIC);
        const size_t name = dt_protobuf_begin(event, METRIC_NAME);
        dt_protobuf_string(event, NAME_TAG, metrics[i]);
        dt_protobuf_end(event, name);
        dt_protobuf_end(event, metric);
    }
    dt_protobuf_end(event, experiment);
}

static void put_session(struct dt_protobuf *event, const json_t *run)
{
    const json_t *given = json_object_get(run, "given");
    const char *key;
    json_t *node;
    const size_t session = dt_protobuf_begin(event, HPARAMS_SESSION_START);
    json_object_foreach(json_object_get(run, "config"), key, node)
    {
        const int type = hparam_type(node);
        if (!type || !is_given(given, key))
            continue;
        const size_t entry = dt_protobuf_begin(event, SESSION_HPARAM);
        dt_protobuf_string(event, ENTRY_KEY, key);
        const size_t value = dt_protobuf_begin(event, ENTRY_VALUE);
        if (type == TYPE_FLOAT64)
            dt_protobuf_double(event, VALUE_NUMBER, json_number_value(node));
        else if (type == TYPE_BOOL)
            dt_protobuf_varint(event, VALUE_BOOL, json_is_true(node));
        else
            dt_protobuf_string(event, VALUE_STRING, json_string_value(node));
        dt_protobuf_end(event, value);
        dt_protobuf_end(event, entry);
    }
    dt_protobuf_end(event, session);
}

/* What the page reads is in the metadata; the tensor has no element. */
static void put_hparams(struct dt_protobuf *event, const char *tag,
                        void (*put)(struct dt_protobuf *, const json_t *),
                        const json_t *run)
{
    size_t plugin, metadata, content, tensor, shape, dim;
    const size_t value = dt_protobuf_begin(event, DT_SUMMARY_VALUE);
    dt_protobuf_string(event, DT_VALUE_TAG, tag);
    tensor = dt_protobuf_begin(event, DT_VALUE_TENSOR);
    dt_protobuf_varint(event, TENSOR_DTYPE, DTYPE_FLOAT);
    shape = dt_protobuf_begin(event, TENSOR_SHAPE);
    dim = dt_protobuf_begin(event, SHAPE_DIM);
    dt_protobuf_end(event, dim);
    dt_protobuf_end(event, shape);
    dt_protobuf_end(event, tensor);
    metadata = begin_metadata(event, "hparams", &plugin);
    content = dt_protobuf_begin(event, PLUGIN_CONTENT);
    put(event, run);
    dt_protobuf_end(event, content);
    dt_protobuf_end(event, plugin);
    dt_protobuf_end(event, metadata);
    dt_protobuf_end(event, value);
}

int dt_tensorboard_config(struct dt_protobuf *event, const json_t *run,
                          struct dt_error *err)
{
    char *text = config_text(json_object_get(run, "config"));
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    const size_t summary = dt_protobuf_begin(event, DT_EVENT_SUMMARY);
    put_text(event, "disttrain/config/text_summary", text);
    put_hparams(event, "_hparams_/experiment", put_experiment, run);
    put_hparams(event, "_hparams_/session_start_info", put_session, run);
    dt_protobuf_end(event, summary);
    free(text);
    return 0;
}
