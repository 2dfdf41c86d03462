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
#include "ckpt/safetensors.h"
#include "model/model_adapter.h"

#define PREFIX "base_model.model."
#define WEIGHT ".weight"
#define PAIR_A ".lora_A.weight"
#define PAIR_B ".lora_B.weight"

enum { MAX_BYTES = 1 << 20, MAX_RANK = 1 << 16, NAME_BYTES = 192 };

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

/* The module that a tensor of an adapter's file belongs to, if that is A of a
 * pair.
 */
static bool find_module(const char *name, char module[NAME_BYTES])
{
    const size_t bytes = strlen(name), before = strlen(PREFIX);
    if (strncmp(name, PREFIX, before) != 0 || !dt_str_ends_with(name, PAIR_A) ||
        bytes >= NAME_BYTES)
        return false;
    snprintf(module, NAME_BYTES, "%.*s", (int)(bytes - before - strlen(PAIR_A)),
             name + before);
    return true;
}

/* The modules that have a pair in the file: what an expression has fit. */
static int take_modules(struct dt_adapter *adapter, const char *dir,
                        struct dt_error *err)
{
    char path[PATH_MAX], module[NAME_BYTES];
    if (snprintf(path, sizeof(path), "%s/" DT_ADAPTER_FILE, dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    struct dt_safetensors *st = dt_safetensors_open(path, err);
    int rc = st ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < dt_safetensors_count(st); i++)
        if (find_module(dt_safetensors_name(st, i), module))
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
    char module[NAME_BYTES];
    json_t *list = json_array();
    if (adapter->targets.count > 0) {
        json_decref(list);
        return list_names(&adapter->targets);
    }
    for (size_t i = 0; list && i < layout->param_count; i++)
        if (find_module(layout->params[i].name, module))
            json_array_append_new(list, json_string(module));
    return list;
}

/* A name as an expression, its first number apart: those of blocks differ in
 * it. Returns the number, "" if there is none, and where it belongs.
 */
static size_t split_module(const char *module, char plain[2 * NAME_BYTES],
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
    char module[NAME_BYTES], plain[2 * NAME_BYTES], other[2 * NAME_BYTES];
    char number[16], others[16];
    if (!find_module(layout->params[i].name, module))
        return false;
    const size_t at = split_module(module, plain, number);
    for (size_t k = 0; k < i; k++)
        if (find_module(layout->params[k].name, module) &&
            split_module(module, other, others) == at && !strcmp(plain, other))
            return false;
    fprintf(out, "%s%.*s", more ? "|" : "", (int)at, plain);
    if (number[0])
        fprintf(out, "(?:%s", number);
    for (size_t k = i + 1; number[0] && k < layout->param_count; k++)
        if (find_module(layout->params[k].name, module) &&
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

/* PEFT saves modules by the end of their names, without a dot, and all that is
 * in them.
 */
static bool is_saved(const char *name, const char *end)
{
    const size_t n = strlen(end);
    for (const char *dot = name; (dot = strchr(dot, '.')); dot++)
        if (n <= (size_t)(dot - name) && !strncmp(dot - n, end, n))
            return true;
    return false;
}

static bool is_any_saved(const char *name, const struct dt_adapter_names *ends)
{
    for (size_t i = 0; i < ends->count; i++)
        if (is_saved(name, ends->text[i]))
            return true;
    return false;
}

/* The names that PEFT sees, which are those in memory. */
struct modules {
    const struct dt_adapter *adapter;
    const struct dt_model_config *config;
    const struct dt_layout *model;
};

/* Whether parameter i is the weight of a linear layer: those of blocks, and of
 * the projector.
 */
static bool is_linear(const struct modules *m, size_t i)
{
    const struct dt_param *param = &m->model->params[i];
    const struct dt_unit *unit = &m->model->units[param->unit];
    const bool within[DT_PARTS] = {
        [DT_PART_LANGUAGE] = unit->kind == DT_UNIT_BLOCK,
        [DT_PART_PROJECTOR] = m->adapter->projector,
        [DT_PART_VISION] = unit->kind == DT_UNIT_BLOCK && m->adapter->vision,
    };
    return param->ndim == 2 && within[unit->part];
}

static bool is_default(const char *name)
{
    return fits(name, "c_attn") || fits(name, "q_proj") || fits(name, "v_proj");
}

/* Whether the weight of a module is called so in another spelling. */
static bool is_alike(const char *name, const char *module)
{
    char weight[NAME_BYTES];
    snprintf(weight, sizeof(weight), "%s" WEIGHT, module);
    return dt_model_names_alike(name, weight);
}

/* Whether module `name` is one of these, or ends as one of them. */
static bool fits_any(const char *name, const struct dt_adapter_names *ends)
{
    for (size_t i = 0; i < ends->count; i++)
        if (fits(name, ends->text[i]) || is_alike(name, ends->text[i]))
            return true;
    return false;
}

static bool has_pair(const struct modules *m, size_t i)
{
    const struct dt_adapter *adapter = m->adapter;
    char name[DT_NAME_BYTES];
    dt_model_memory_name(m->config, m->model->params[i].name, name);
    if (!is_linear(m, i) || is_any_saved(name, &adapter->saved))
        return false;
    if (adapter->all_linear)
        return true;
    return adapter->targets.count > 0 ? fits_any(name, &adapter->targets)
                                      : is_default(name);
}

/* --- modules that cannot be trained --- */

/* Writes the ends of the names of linear layers: "q_proj, k_proj". */
static void list_linear(const struct modules *m, char *text, size_t room)
{
    const struct dt_layout *model = m->model;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < model->param_count; i++) {
        const char *name = model->params[i].name;
        const int bytes = (int)module_bytes(name);
        if (!is_linear(m, i) || used >= room)
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

static int check_target(const struct modules *m, const char *end,
                        struct dt_error *err)
{
    char known[256], name[DT_NAME_BYTES];
    const struct dt_unit *unit = NULL; /* of a module that has no pair */
    for (size_t i = 0; i < m->model->param_count; i++) {
        dt_model_memory_name(m->config, m->model->params[i].name, name);
        if (!fits(name, end) && !is_alike(name, end))
            continue;
        if (is_linear(m, i))
            return 0;
        unit = &m->model->units[m->model->params[i].unit];
    }
    if (m->adapter->stored && !unit)
        return 0;
    list_linear(m, known, sizeof(known));
    if (unit && unit->part != DT_PART_LANGUAGE)
        return dt_error_set(err, EX_CONFIG,
                            "E124 target_modules: %s is a module of the %s "
                            "part, and only those of the language model get a "
                            "low-rank pair (%s)",
                            end, dt_model_part_name(unit->part), known);
    if (unit)
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

static int check_saved(const struct modules *m, const char *end,
                       struct dt_error *err)
{
    bool found = false;
    for (size_t i = 0; i < m->model->param_count; i++) {
        char name[DT_NAME_BYTES];
        dt_model_memory_name(m->config, m->model->params[i].name, name);
        const bool saved = is_saved(name, end);
        const char *why = saved ? unfit_copy(m->model, i) : NULL;
        if (why)
            return dt_error_set(err, EX_CONFIG, "E124 modules_to_save: %s %s",
                                end, why);
        found |= saved;
    }
    return found || m->adapter->stored
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "E124 modules_to_save: no module is called %s",
                              end);
}

static int check_names(const struct modules *m, struct dt_error *err)
{
    const struct dt_adapter *adapter = m->adapter;
    for (size_t i = 0; i < adapter->targets.count; i++)
        if (check_target(m, adapter->targets.text[i], err) < 0)
            return -1;
    for (size_t i = 0; i < adapter->saved.count; i++)
        if (check_saved(m, adapter->saved.text[i], err) < 0)
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

/* Adds the pair of a weight, which is called `name` in memory. */
static int add_pair(struct dt_layout *layout, const char *name,
                    struct dt_adapter_sizes sizes, struct dt_error *err)
{
    const int bytes = (int)module_bytes(name);
    const size_t a[] = {sizes.R, sizes.C}, b[] = {sizes.OC, sizes.R};
    char own[NAME_BYTES];
    snprintf(own, sizeof(own), PREFIX "%.*s" PAIR_A, bytes, name);
    if (dt_layout_add_param(layout, own, true, 2, a, err) < 0)
        return -1;
    snprintf(own, sizeof(own), PREFIX "%.*s" PAIR_B, bytes, name);
    return dt_layout_add_param(layout, own, true, 2, b, err);
}

static int add_copy(struct dt_layout *layout, const char *name,
                    const struct dt_param *w, struct dt_error *err)
{
    char own[NAME_BYTES];
    snprintf(own, sizeof(own), PREFIX "%s", name);
    return dt_layout_add_param(layout, own, w->decay, w->ndim, w->shape, err);
}

/* Adds the adapter's parameters of unit u. */
static int add_unit(struct dt_layout *layout, const struct modules *m, size_t u,
                    struct dt_error *err)
{
    const struct dt_adapter *adapter = m->adapter;
    const struct dt_unit *unit = &m->model->units[u];
    if (dt_layout_add_unit(layout, unit->kind, unit->part, err) < 0)
        return -1;
    for (size_t i = unit->first_param;
         i < unit->first_param + unit->param_count; i++) {
        const struct dt_param *w = &m->model->params[i];
        char name[DT_NAME_BYTES];
        int rc = 0;
        dt_model_memory_name(m->config, w->name, name);
        if (is_any_saved(name, &adapter->saved))
            rc = add_copy(layout, name, w, err);
        else if (has_pair(m, i))
            rc = add_pair(layout, name,
                          dt_adapter_sizes_of(m->config, w, adapter->r), err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Adds the units, and what PEFT has of layers that are not computed. */
static int add_units(struct dt_layout *layout, const struct modules *m,
                     struct dt_error *err)
{
    for (size_t u = 0; u < m->model->unit_count; u++)
        if (add_unit(layout, m, u, err) < 0)
            return -1;
    for (size_t i = 0; i < m->model->carried_count; i++)
        if (dt_layout_carry(layout, m->model->carried[i], err) < 0)
            return -1;
    return layout->param_count > 0
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "E124 target_modules: required for a model "
                              "without c_attn, q_proj and v_proj");
}

struct dt_layout *dt_adapter_layout(const struct dt_adapter *adapter,
                                    const struct dt_model_config *config,
                                    const struct dt_layout *model, int world,
                                    struct dt_error *err)
{
    const struct modules m = {adapter, config, model};
    struct dt_layout *layout =
        check_names(&m, err) < 0 ? NULL : dt_layout_create(err);
    if (layout && add_units(layout, &m, err) == 0) {
        dt_layout_finish(layout, world);
        return layout;
    }
    dt_layout_destroy(layout);
    return NULL;
}

/* The parameter of the model that is called so in some spelling, or -1. */
static int find_param(const struct dt_layout *model, const char *name)
{
    const int same = dt_layout_find(model, name);
    for (size_t i = 0; same < 0 && i < model->param_count; i++)
        if (dt_model_names_alike(model->params[i].name, name))
            return (int)i;
    return same;
}

int dt_adapter_copied(const struct dt_layout *model, const char *name)
{
    const size_t before = strlen(PREFIX);
    if (dt_str_ends_with(name, PAIR_A) || dt_str_ends_with(name, PAIR_B) ||
        strncmp(name, PREFIX, before) != 0)
        return -1;
    return find_param(model, name + before);
}

void dt_adapter_find(const struct dt_layout *layout,
                     const struct dt_layout *model,
                     struct dt_adapter_place *places)
{
    for (size_t i = 0; i < model->param_count; i++)
        places[i] = (struct dt_adapter_place){-1, -1, -1};
    for (size_t j = 0; j < layout->param_count; j++) {
        char module[NAME_BYTES], weight[NAME_BYTES + sizeof(WEIGHT)];
        const char *name = layout->params[j].name;
        const int copied = dt_adapter_copied(model, name);
        if (copied >= 0)
            places[copied].copy = (int)j;
        if (!find_module(name, module))
            continue;
        snprintf(weight, sizeof(weight), "%s" WEIGHT, module);
        const int i = find_param(model, weight);
        if (i >= 0) {
            places[i].a = (int)j;
            places[i].b = (int)j + 1;
        }
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
