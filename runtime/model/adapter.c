/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.c - names, shapes and first values of what an adapter trains */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "model/adapter.h"

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
    return param->ndim == 2 && param->unit > 0 &&
           param->unit + 1 < model->unit_count;
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

/* --- what cannot be trained --- */

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
    const bool next_joined =
        i + 1 < model->param_count && model->params[i + 1].joined;
    if (param->joined || next_joined)
        return "is multiplied together with its neighbors: name it in "
               "target_modules";
    if (i == 0 && model->tied)
        return "is the head, too (tie_word_embeddings)";
    if (param->unit == 0 && i > 0)
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

/* Adds what the adapter has of unit u. */
static int add_unit(struct dt_layout *layout, const struct dt_adapter *adapter,
                    const struct dt_model_config *config,
                    const struct dt_layout *model, size_t u,
                    struct dt_error *err)
{
    const struct dt_unit *unit = &model->units[u];
    if (dt_layout_add_unit(layout, err) < 0)
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
