/* SPDX-License-Identifier: Apache-2.0 */
/* model_adapter.c - the tensors of an adapter: names, shapes, first values */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "model/model_adapter.h"

#define PREFIX "base_model.model."
#define WEIGHT ".weight"
#define PAIR_A ".lora_A.weight"
#define PAIR_B ".lora_B.weight"

bool dt_adapter_module(const char *name, char module[DT_ADAPTER_NAME_BYTES])
{
    const size_t bytes = strlen(name), before = strlen(PREFIX);
    if (strncmp(name, PREFIX, before) != 0 || !dt_str_ends_with(name, PAIR_A) ||
        bytes >= DT_ADAPTER_NAME_BYTES)
        return false;
    snprintf(module, DT_ADAPTER_NAME_BYTES, "%.*s",
             (int)(bytes - before - strlen(PAIR_A)), name + before);
    return true;
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
 * projectors, but not a matrix that is a parameter by itself.
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
    return param->ndim == 2 && dt_str_ends_with(param->name, WEIGHT) &&
           within[unit->part];
}

static bool is_default(const char *name)
{
    return fits(name, "c_attn") || fits(name, "q_proj") || fits(name, "v_proj");
}

/* Whether the weight of a module is called so in another spelling. */
static bool is_alike(const char *name, const char *module)
{
    char weight[DT_ADAPTER_NAME_BYTES];
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
        char one[DT_ADAPTER_NAME_BYTES];
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
    char own[DT_ADAPTER_NAME_BYTES];
    snprintf(own, sizeof(own), PREFIX "%.*s" PAIR_A, bytes, name);
    if (dt_layout_add_param(layout, own, true, 2, a, err) < 0)
        return -1;
    snprintf(own, sizeof(own), PREFIX "%.*s" PAIR_B, bytes, name);
    return dt_layout_add_param(layout, own, true, 2, b, err);
}

static int add_copy(struct dt_layout *layout, const char *name,
                    const struct dt_param *w, struct dt_error *err)
{
    char own[DT_ADAPTER_NAME_BYTES];
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
        char module[DT_ADAPTER_NAME_BYTES];
        char weight[DT_ADAPTER_NAME_BYTES + sizeof(WEIGHT)];
        const char *name = layout->params[j].name;
        const int copied = dt_adapter_copied(model, name);
        if (copied >= 0)
            places[copied].copy = (int)j;
        if (!dt_adapter_module(name, module))
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
