/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_file.c - reads and writes PEFT's adapter_config.json */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "ckpt/safetensors.h"
#include "weights/adapter_file.h"

enum { MAX_BYTES = 1 << 20, MAX_RANK = 1 << 16 };

/* Keys that do not change the computation, or that weights in a file no longer
 * depend on. Others that are not read have to be null, false or empty.
 */
static const char *const ignored[] = {
    "auto_mapping",      "revision",          "inference_mode",
    "task_type",         "peft_version",      "megatron_core",
    "runtime_config",    "qalora_group_size", "fan_in_fan_out",
    "init_lora_weights",
};

static const char *const read_keys[] = {
    "peft_type",
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "target_modules",
    "modules_to_save",
    "bias",
};

static bool is_listed(const char *key, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], key))
            return true;
    return false;
}

static bool is_neutral(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           ((json_is_object(value) || json_is_array(value)) &&
            json_object_size(value) == 0 && json_array_size(value) == 0);
}

static int check_keys(const json_t *root, struct dt_error *err)
{
    const size_t n_ignored = sizeof(ignored) / sizeof(ignored[0]);
    const size_t n_read = sizeof(read_keys) / sizeof(read_keys[0]);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        if (!is_listed(key, ignored, n_ignored) &&
            !is_listed(key, read_keys, n_read) && !is_neutral(value))
            return dt_error_set(err, EX_DATAERR,
                                "E124 \"%.64s\" is not supported, only null, "
                                "false or an empty value",
                                key);
    }
    return 0;
}

/* --- values --- */

static int take_number(const json_t *root, const char *key, double least,
                       double most, double *value, struct dt_error *err)
{
    const json_t *found = json_object_get(root, key);
    if (!found)
        return 0;
    *value = json_number_value(found);
    return json_is_number(found) && *value >= least && *value <= most
               ? 0
               : dt_error_set(err, EX_DATAERR,
                              "\"%s\": expected a number from %g to %g", key,
                              least, most);
}

static int take_word(const json_t *root, const char *key, const char *word,
                     struct dt_error *err)
{
    const json_t *found = json_object_get(root, key);
    const char *text = json_string_value(found);
    if (!found || (text && !strcmp(text, word)))
        return 0;
    return dt_error_set(
        err, EX_DATAERR, "E124 \"%s\": %.32s is not supported, only %s", key,
        text ? text : dt_json_type_name(json_typeof(found)), word);
}

static int take_names(const json_t *root, const char *key,
                      struct dt_adapter_names *names, struct dt_error *err)
{
    const json_t *list = json_object_get(root, key);
    if (!list || json_is_null(list))
        return 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name)
            return dt_error_set(err, EX_DATAERR, "\"%s\": expected names", key);
        if (dt_adapter_add_name(names, name, err) < 0)
            return -1;
    }
    return json_is_array(list)
               ? 0
               : dt_error_set(err, EX_DATAERR,
                              "E124 \"%s\": expected a list of names", key);
}

/* The modules that have a pair in the file: what an expression has fit. */
static int take_modules(struct dt_adapter *adapter, const char *dir,
                        struct dt_error *err)
{
    char path[PATH_MAX], module[DT_ADAPTER_NAME_BYTES];
    if (snprintf(path, sizeof(path), "%s/" DT_ADAPTER_FILE, dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    struct dt_safetensors *st = dt_safetensors_open(path, err);
    int rc = st ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < dt_safetensors_count(st); i++)
        if (dt_adapter_module(dt_safetensors_name(st, i), module))
            rc = dt_adapter_add_name(&adapter->targets, module, err);
    dt_safetensors_close(st);
    return rc;
}

static int take_targets(struct dt_adapter *adapter, const json_t *root,
                        const char *dir, struct dt_error *err)
{
    const char *text =
        json_string_value(json_object_get(root, "target_modules"));
    adapter->all_linear = text && !strcmp(text, "all-linear");
    if (adapter->all_linear)
        return 0;
    return text ? take_modules(adapter, dir, err)
                : take_names(root, "target_modules", &adapter->targets, err);
}

static int take_base(struct dt_adapter *adapter, const json_t *root,
                     struct dt_error *err)
{
    const char *base =
        json_string_value(json_object_get(root, "base_model_name_or_path"));
    if (base && !(adapter->base = strdup(base)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

/* Initializations that change the frozen weights too belong to other ones than
 * those of the base.
 */
static int check_init(const json_t *root, struct dt_error *err)
{
    static const char *const plain[] = {"gaussian", "orthogonal", "eva"};
    const char *text =
        json_string_value(json_object_get(root, "init_lora_weights"));
    if (!text || is_listed(text, plain, 3))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "E124 \"init_lora_weights\": %.32s changes the base "
                        "model, too, and is not supported",
                        text);
}

static int take_values(struct dt_adapter *adapter, const json_t *root,
                       const char *dir, struct dt_error *err)
{
    double r = 8;
    adapter->alpha = 8;
    if (take_word(root, "peft_type", "LORA", err) < 0 ||
        take_word(root, "bias", "none", err) < 0 || check_keys(root, err) < 0 ||
        check_init(root, err) < 0 ||
        take_number(root, "r", 1, MAX_RANK, &r, err) < 0 ||
        take_number(root, "lora_alpha", 0, 1e9, &adapter->alpha, err) < 0 ||
        take_number(root, "lora_dropout", 0, 0.999, &adapter->dropout, err) <
            0 ||
        take_targets(adapter, root, dir, err) < 0 ||
        take_names(root, "modules_to_save", &adapter->saved, err) < 0 ||
        take_base(adapter, root, err) < 0)
        return -1;
    adapter->r = (size_t)r;
    const char *task = json_string_value(json_object_get(root, "task_type"));
    adapter->scores = task && !strcmp(task, "SEQ_CLS");
    adapter->rslora = json_is_true(json_object_get(root, "use_rslora"));
    return (double)adapter->r == r ? 0
                                   : dt_error_set(err, EX_DATAERR,
                                                  "\"r\": expected a whole "
                                                  "number");
}

int dt_adapter_load(struct dt_adapter *adapter, const char *dir,
                    struct dt_error *err)
{
    char path[PATH_MAX];
    *adapter = (struct dt_adapter){
        .stored = true, .vision = true, .projector = true}; /* as PEFT does */
    if (snprintf(path, sizeof(path), "%s/" DT_ADAPTER_CONFIG_FILE, dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    char *text = dt_file_read(path, MAX_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    if (!root)
        return -1;
    int rc = json_is_object(root)
                 ? take_values(adapter, root, dir, err)
                 : dt_error_set(err, EX_DATAERR, "expected an object");
    json_decref(root);
    return rc < 0 ? dt_error_prefix(err, "%s", path) : 0;
}

/* --- writing --- */

static json_t *list_names(const struct dt_adapter_names *names)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < names->count; i++)
        json_array_append_new(list, json_string(names->text[i]));
    return list;
}

/* The names of all modules that have a pair. */
static json_t *list_targets(const struct dt_adapter *adapter,
                            const struct dt_layout *layout)
{
    char module[DT_ADAPTER_NAME_BYTES];
    json_t *list = json_array();
    if (adapter->targets.count > 0) {
        json_decref(list);
        return list_names(&adapter->targets);
    }
    for (size_t i = 0; list && i < layout->param_count; i++)
        if (dt_adapter_module(layout->params[i].name, module))
            json_array_append_new(list, json_string(module));
    return list;
}

/* A name as an expression, its first number apart: those of blocks differ in
 * it. Returns the number, "" if there is none, and where it belongs.
 */
static size_t split_module(const char *module,
                           char plain[2 * DT_ADAPTER_NAME_BYTES],
                           char number[16])
{
    size_t n = 0, at = 0;
    number[0] = '\0';
    for (const char *p = module; *p; p++) {
        const size_t digits = strspn(p, "0123456789");
        if (!number[0] && digits > 0 && digits < 16 && p > module &&
            p[-1] == '.' && (p[digits] == '.' || !p[digits])) {
            snprintf(number, 16, "%.*s", (int)digits, p);
            p += digits - 1;
            at = n;
            continue;
        }
        if (*p == '.')
            plain[n++] = '\\';
        plain[n++] = *p;
    }
    plain[n] = '\0';
    return at;
}

/* Parameter i of an adapter as the beginning of an alternative: modules that
 * differ in a number alone are one. false: it is another parameter, or is in an
 * alternative already.
 */
static bool print_modules(FILE *out, const struct dt_layout *layout, size_t i,
                          bool more)
{
    char module[DT_ADAPTER_NAME_BYTES], plain[2 * DT_ADAPTER_NAME_BYTES],
        other[2 * DT_ADAPTER_NAME_BYTES];
    char number[16], others[16];
    if (!dt_adapter_module(layout->params[i].name, module))
        return false;
    const size_t at = split_module(module, plain, number);
    for (size_t k = 0; k < i; k++)
        if (dt_adapter_module(layout->params[k].name, module) &&
            split_module(module, other, others) == at && !strcmp(plain, other))
            return false;
    fprintf(out, "%s%.*s", more ? "|" : "", (int)at, plain);
    if (number[0])
        fprintf(out, "(?:%s", number);
    for (size_t k = i + 1; number[0] && k < layout->param_count; k++)
        if (dt_adapter_module(layout->params[k].name, module) &&
            split_module(module, other, others) == at && !strcmp(plain, other))
            fprintf(out, "|%s", others);
    fprintf(out, "%s%s", number[0] ? ")" : "", plain + at);
    return true;
}

/* An expression that fits the names of all modules that have a pair. */
static json_t *print_targets(const struct dt_layout *layout)
{
    char *text = NULL;
    size_t bytes = 0;
    bool more = false;
    FILE *out = open_memstream(&text, &bytes);
    for (size_t i = 0; out && i < layout->param_count; i++)
        more |= print_modules(out, layout, i, more);
    json_t *value = out && fclose(out) == 0 ? json_string(text) : NULL;
    free(text);
    return value;
}

char *dt_adapter_format(const struct dt_adapter *adapter,
                        const struct dt_model_config *config,
                        const struct dt_layout *layout, struct dt_error *err)
{
    json_t *saved =
        adapter->saved.count > 0 ? list_names(&adapter->saved) : json_null();
    json_t *root = json_pack(
        "{s:s, s:s?, s:s, s:I, s:f, s:f, s:b, s:s, s:b, s:b, s:b, s:o?, s:o?}",
        "peft_type", "LORA", "base_model_name_or_path", adapter->base,
        "task_type", config->scores ? "SEQ_CLS" : "CAUSAL_LM", "r",
        (json_int_t)adapter->r, "lora_alpha", adapter->alpha, "lora_dropout",
        adapter->dropout, "use_rslora", adapter->rslora, "bias", "none",
        "fan_in_fan_out", dt_model_in_out(config), "inference_mode", 1,
        "init_lora_weights", 1, "target_modules",
        config->vision ? print_targets(layout) : list_targets(adapter, layout),
        "modules_to_save", saved);
    char *text =
        root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(root);
    if (!text)
        dt_error_set(err, EX_OSERR, "out of memory");
    return text;
}
