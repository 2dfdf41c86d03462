/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_adapter.c - the tensors of an adapter: names, shapes, first values, and
 * PEFT's adapter_config.json
 */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/str.h"
#include "model/model_adapter.h"

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
                              "E124 \"%s\": expected a list of names; a "
                              "regular expression is not supported",
                              key);
}

static int take_targets(struct dt_adapter *adapter, const json_t *root,
                        struct dt_error *err)
{
    const char *text =
        json_string_value(json_object_get(root, "target_modules"));
    adapter->all_linear = text && !strcmp(text, "all-linear");
    return adapter->all_linear
               ? 0
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
                       struct dt_error *err)
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
        take_targets(adapter, root, err) < 0 ||
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
    *adapter = (struct dt_adapter){.stored = true};
    if (snprintf(path, sizeof(path), "%s/" DT_ADAPTER_CONFIG_FILE, dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    char *text = dt_file_read(path, MAX_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    if (!root)
        return -1;
    int rc = json_is_object(root)
                 ? take_values(adapter, root, err)
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
    static const char prefix[] = "base_model.model.", end[] = ".lora_A.weight";
    json_t *list = json_array();
    if (adapter->targets.count > 0) {
        json_decref(list);
        return list_names(&adapter->targets);
    }
    for (size_t i = 0; list && i < layout->param_count; i++) {
        const char *name = layout->params[i].name;
        if (dt_str_ends_with(name, end))
            json_array_append_new(list, json_stringn(name + sizeof(prefix) - 1,
                                                     strlen(name) -
                                                         (sizeof(prefix) - 1) -
                                                         (sizeof(end) - 1)));
    }
    return list;
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
        "init_lora_weights", 1, "target_modules", list_targets(adapter, layout),
        "modules_to_save", saved);
    char *text =
        root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(root);
    if (!text)
        dt_error_set(err, EX_OSERR, "out of memory");
    return text;
}

#define PREFIX "base_model.model."
#define WEIGHT ".weight"
#define PAIR_A ".lora_A.weight"
#define PAIR_B ".lora_B.weight"

enum { NAME_BYTES = 160, SHOWN = 8 };

int dt_adapter_add_name(struct dt_adapter_names *names, const char *text,
                        struct dt_error *err)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->text[i], text))
            return 0;
    char **more =
        reallocarray(names->text, names->count + 1, sizeof(*names->text));
    if (more)
        names->text = more;
    if (!more || !(more[names->count] = strdup(text)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    names->count++;
    return 0;
}

void dt_adapter_clear_names(struct dt_adapter_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->text[i]);
    free(names->text);
    *names = (struct dt_adapter_names){0};
}

void dt_adapter_fini(struct dt_adapter *adapter)
{
    dt_adapter_clear_names(&adapter->targets);
    dt_adapter_clear_names(&adapter->saved);
    free(adapter->base);
    *adapter = (struct dt_adapter){0};
}

float dt_adapter_scale(const struct dt_adapter *adapter)
{
    double r = (double)adapter->r;
    return (float)(adapter->alpha / (adapter->rslora ? sqrt(r) : r));
}

/* --- which modules --- */

/* The bytes of a parameter's name that name its module. */
static size_t module_bytes(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

/* Whether a module is called `end`, or that after a dot. */
static bool fits(const char *name, const char *end)
{
    size_t bytes = module_bytes(name), n = strlen(end);
    return n <= bytes && !strncmp(name + bytes - n, end, n) &&
           (n == bytes || name[bytes - n - 1] == '.');
}

/* PEFT saves modules by the end of their names, without a dot. */
static bool is_saved(const char *name, const char *end)
{
    size_t bytes = module_bytes(name), n = strlen(end);
    return n <= bytes && !strncmp(name + bytes - n, end, n);
}

static bool is_any_saved(const char *name, const struct dt_adapter_names *ends)
{
    for (size_t i = 0; i < ends->count; i++)
        if (is_saved(name, ends->text[i]))
            return true;
    return false;
}

static bool fits_any(const char *name, const struct dt_adapter_names *ends)
{
    for (size_t i = 0; i < ends->count; i++)
        if (fits(name, ends->text[i]))
            return true;
    return false;
}

/* The weights of linear layers are the matrices of blocks. */
static bool is_linear(const struct dt_layout *model, size_t i)
{
    const struct dt_param *param = &model->params[i];
    return param->ndim == 2 && model->units[param->unit].kind == DT_UNIT_BLOCK;
}

static bool is_default(const char *name)
{
    return fits(name, "c_attn") || fits(name, "q_proj") || fits(name, "v_proj");
}

static bool has_pair(const struct dt_adapter *adapter,
                     const struct dt_layout *model, size_t i)
{
    const char *name = model->params[i].name;
    if (!is_linear(model, i) || is_any_saved(name, &adapter->saved))
        return false;
    if (adapter->all_linear)
        return true;
    return adapter->targets.count > 0 ? fits_any(name, &adapter->targets)
                                      : is_default(name);
}

/* --- modules that cannot be trained --- */

/* Writes the ends of the names of linear layers: "q_proj, k_proj". */
static void list_linear(const struct dt_layout *model, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < model->param_count && model->params[i].unit < 2;
         i++) {
        const char *name = model->params[i].name;
        const int bytes = (int)module_bytes(name);
        if (!is_linear(model, i) || used >= room)
            continue;
        const char *end = name + bytes;
        while (end > name && end[-1] != '.')
            end--;
        const int n = bytes - (int)(end - name);
        char one[NAME_BYTES];
        snprintf(one, sizeof(one), "%.*s", n, end);
        if (!strstr(text, one))
            used += (size_t)snprintf(text + used, room - used, "%s%s",
                                     used > 0 ? ", " : "", one);
    }
}

static int check_target(const struct dt_layout *model, const char *end,
                        bool stored, struct dt_error *err)
{
    char known[256];
    bool other = false;
    for (size_t i = 0; i < model->param_count; i++) {
        if (fits(model->params[i].name, end) && is_linear(model, i))
            return 0;
        other |= fits(model->params[i].name, end);
    }
    if (stored && !other)
        return 0;
    list_linear(model, known, sizeof(known));
    if (other)
        return dt_error_set(err, EX_CONFIG,
                            "E124 target_modules: %s is no linear layer of a "
                            "block, and only these get a low-rank pair (%s); "
                            "modules_to_save trains it as a whole",
                            end, known);
    return dt_error_set(err, EX_CONFIG,
                        "E124 target_modules: no module is called %s; linear "
                        "layers of this model are %s",
                        end, known);
}

/* Why the parameter i cannot be trained in a copy, or NULL. */
static const char *unfit_copy(const struct dt_layout *model, size_t i)
{
    const struct dt_param *param = &model->params[i];
    const size_t first = model->units[param->unit].first_param;
    const bool next_joined =
        i + 1 < model->param_count && model->params[i + 1].joined;
    if (param->joined || next_joined)
        return "is multiplied together with its neighbors: name it in "
               "target_modules";
    if (dt_layout_is_tied(model, param->unit) && i == first)
        return "is the head, too (tie_word_embeddings)";
    if (model->units[param->unit].kind == DT_UNIT_EMBEDDING && i > first)
        return "learned positions stay as they are";
    return NULL;
}

static int check_saved(const struct dt_layout *model, const char *end,
                       bool stored, struct dt_error *err)
{
    bool found = false;
    for (size_t i = 0; i < model->param_count; i++) {
        const bool saved = is_saved(model->params[i].name, end);
        const char *why = saved ? unfit_copy(model, i) : NULL;
        if (why)
            return dt_error_set(err, EX_CONFIG, "E124 modules_to_save: %s %s",
                                end, why);
        found |= saved;
    }
    return found || stored
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "E124 modules_to_save: no module is called %s",
                              end);
}

static int check_names(const struct dt_adapter *adapter,
                       const struct dt_layout *model, struct dt_error *err)
{
    for (size_t i = 0; i < adapter->targets.count; i++)
        if (check_target(model, adapter->targets.text[i], adapter->stored,
                         err) < 0)
            return -1;
    for (size_t i = 0; i < adapter->saved.count; i++)
        if (check_saved(model, adapter->saved.text[i], adapter->stored, err) <
            0)
            return -1;
    return 0;
}

/* --- the layout --- */

struct dt_adapter_sizes dt_adapter_sizes_of(
    const struct dt_model_config *config, const struct dt_param *w, size_t r)
{
    const bool in_out = dt_model_in_out(config);
    return (struct dt_adapter_sizes){
        .R = r, .C = w->shape[in_out ? 0 : 1], .OC = w->shape[in_out ? 1 : 0]};
}

static int add_pair(struct dt_layout *layout, const struct dt_param *w,
                    struct dt_adapter_sizes sizes, struct dt_error *err)
{
    const int bytes = (int)module_bytes(w->name);
    const size_t a[] = {sizes.R, sizes.C}, b[] = {sizes.OC, sizes.R};
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), PREFIX "%.*s" PAIR_A, bytes, w->name);
    if (dt_layout_add_param(layout, name, true, 2, a, err) < 0)
        return -1;
    snprintf(name, sizeof(name), PREFIX "%.*s" PAIR_B, bytes, w->name);
    return dt_layout_add_param(layout, name, true, 2, b, err);
}

static int add_copy(struct dt_layout *layout, const struct dt_param *w,
                    struct dt_error *err)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), PREFIX "%s", w->name);
    return dt_layout_add_param(layout, name, w->decay, w->ndim, w->shape, err);
}

/* Adds the adapter's parameters of unit u. */
static int add_unit(struct dt_layout *layout, const struct dt_adapter *adapter,
                    const struct dt_model_config *config,
                    const struct dt_layout *model, size_t u,
                    struct dt_error *err)
{
    const struct dt_unit *unit = &model->units[u];
    if (dt_layout_add_unit(layout, unit->kind, unit->part, err) < 0)
        return -1;
    for (size_t i = unit->first_param;
         i < unit->first_param + unit->param_count; i++) {
        const struct dt_param *w = &model->params[i];
        int rc = 0;
        if (is_any_saved(w->name, &adapter->saved))
            rc = add_copy(layout, w, err);
        else if (has_pair(adapter, model, i))
            rc = add_pair(layout, w, dt_adapter_sizes_of(config, w, adapter->r),
                          err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

struct dt_layout *dt_adapter_layout(const struct dt_adapter *adapter,
                                    const struct dt_model_config *config,
                                    const struct dt_layout *model, int world,
                                    struct dt_error *err)
{
    struct dt_layout *layout = NULL;
    int rc = check_names(adapter, model, err);
    if (rc == 0 && !(layout = dt_layout_create(err)))
        rc = -1;
    for (size_t u = 0; u < model->unit_count && rc == 0; u++)
        rc = add_unit(layout, adapter, config, model, u, err);
    if (rc == 0 && layout->param_count == 0)
        rc = dt_error_set(err, EX_CONFIG,
                          "E124 target_modules: required for a model without "
                          "c_attn, q_proj and v_proj");
    if (rc == 0) {
        dt_layout_finish(layout, world);
        return layout;
    }
    dt_layout_destroy(layout);
    return NULL;
}

const char *dt_adapter_copied(const char *name)
{
    if (dt_str_ends_with(name, PAIR_A) || dt_str_ends_with(name, PAIR_B) ||
        strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0)
        return NULL;
    return name + sizeof(PREFIX) - 1;
}

void dt_adapter_find(const struct dt_layout *layout,
                     const struct dt_layout *model,
                     struct dt_adapter_place *places)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const char *own = model->params[i].name;
        const int bytes = (int)module_bytes(own);
        char name[NAME_BYTES];
        snprintf(name, sizeof(name), PREFIX "%.*s" PAIR_A, bytes, own);
        places[i].a =
            model->params[i].ndim == 2 ? dt_layout_find(layout, name) : -1;
        places[i].b = places[i].a < 0 ? -1 : places[i].a + 1;
        snprintf(name, sizeof(name), PREFIX "%s", own);
        places[i].copy = dt_layout_find(layout, name);
    }
}

void dt_adapter_init_unit(const struct dt_layout *layout, size_t u,
                          struct dt_view weights, uint64_t seed)
{
    const struct dt_unit *unit = &layout->units[u];
    uint64_t first = 0; /* elements before the parameter, without padding */
    for (size_t i = 0; i < unit->first_param; i++)
        first += layout->params[i].count;
    for (size_t i = 0; i < unit->param_count; i++) {
        const struct dt_param *param = &layout->params[unit->first_param + i];
        float *w = dt_view_f32(
            dt_view_slice(weights, param->offset - unit->offset, param->count));
        const float bound = 1.0f / sqrtf((float)param->shape[1]);
        if (dt_str_ends_with(param->name, PAIR_B))
            memset(w, 0, param->count * sizeof(*w));
        if (dt_str_ends_with(param->name, PAIR_A))
#pragma omp parallel for
            for (size_t j = 0; j < param->count; j++)
                w[j] = bound *
                       (2 * dt_rng_uniform(seed, DT_RNG_INIT, first + j) - 1);
        first += param->count;
    }
}
