/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - loads all weights of a model, an adapter merged into them
 *
 * A weight w(out, in) with a pair A, B becomes w + scale B A, in fp32, rounded
 * once; GPT-2's w(in, out) gets the transpose. A module that was trained as a
 * whole replaces that of the model.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "model/model_adapter.h"
#include "tensor/tensor.h"
#include "weights/adapter_file.h"
#include "weights/weights.h"

bool dt_weights_has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", dir, name) <
               (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* An adapter has no config.json of a model. */
static bool is_adapter(const char *dir)
{
    return !dt_weights_has_file(dir, "config.json") &&
           dt_weights_has_file(dir, DT_ADAPTER_CONFIG_FILE);
}

int dt_weights_base(const char *dir, char base[PATH_MAX], struct dt_error *err)
{
    struct dt_adapter adapter;
    int rc = 0;
    if (!is_adapter(dir)) {
        snprintf(base, PATH_MAX, "%s", dir);
        return 0;
    }
    rc = dt_adapter_load(&adapter, dir, err);
    if (rc == 0 && !adapter.base)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s: an adapter, and its " DT_ADAPTER_CONFIG_FILE
                          " does not say of which model: write that model's "
                          "directory there as base_model_name_or_path",
                          dir);
    else if (rc == 0 && (!dt_file_find_dir(dir, adapter.base, base) ||
                         !dt_weights_has_file(base, "config.json")))
        rc = dt_error_set(err, EX_DATAERR,
                          "%s: an adapter beside the model %.200s, which is "
                          "not here: write its directory as "
                          "base_model_name_or_path in " DT_ADAPTER_CONFIG_FILE,
                          dir, adapter.base);
    dt_adapter_fini(&adapter);
    return rc;
}

/* --- merging --- */

/* The flat buffer and the adapter that is merged into it. */
struct merge {
    const struct dt_layout *model, *layout;
    const struct dt_weights *frozen, *trained;
    const struct dt_model_config *config;
    size_t r;
    float scale;
};

/* All of parameter i of a layout, fp32, malloc'ed. NULL: err. */
static float *read_param(const struct dt_weights *weights,
                         const struct dt_layout *layout, size_t i,
                         struct dt_error *err)
{
    const struct dt_param *param = &layout->params[i];
    float *data = malloc(param->count * sizeof(*data));
    struct dt_buffer buf = {data, param->count * sizeof(*data), &dt_cpu};
    if (!data) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    if (dt_weights_read(weights, (struct dt_range){param->offset, param->count},
                        dt_view_of(&buf, DT_F32), err) == 0)
        return data;
    free(data);
    return NULL;
}

/* w += scale b a; w(OC, C), or w(C, OC) if it is transposed */
static void add_product(float *w, const float *a, const float *b,
                        struct dt_adapter_sizes sizes, bool transposed,
                        float scale)
{
    const size_t C = sizes.C, OC = sizes.OC, R = sizes.R;
#pragma omp parallel for
    for (size_t o = 0; o < OC; o++) {
        for (size_t c = 0; c < C; c++) {
            float sum = 0;
            for (size_t r = 0; r < R; r++)
                sum += b[o * R + r] * a[r * C + c];
            w[transposed ? c * OC + o : o * C + c] += scale * sum;
        }
    }
}

/* Parameter i of the model, with its pair, into `to`. */
static int merge_pair(const struct merge *m, size_t i,
                      struct dt_adapter_place place, struct dt_view to,
                      struct dt_error *err)
{
    const struct dt_param *param = &m->model->params[i];
    float *w = read_param(m->frozen, m->model, i, err);
    float *a =
        w ? read_param(m->trained, m->layout, (size_t)place.a, err) : NULL;
    float *b =
        a ? read_param(m->trained, m->layout, (size_t)place.b, err) : NULL;
    if (b) {
        add_product(w, a, b, dt_adapter_sizes_of(m->config, param, m->r),
                    dt_model_in_out(m->config), m->scale);
        dt_convert(dt_view_data(to), to.dtype, w, DT_F32, param->count);
    }
    free(w);
    free(a);
    free(b);
    return b ? 0 : -1;
}

static int merge_all(const struct merge *m, struct dt_view to,
                     struct dt_error *err)
{
    struct dt_adapter_place *places =
        calloc(m->model->param_count, sizeof(*places));
    int rc = places ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    if (places)
        dt_adapter_find(m->layout, m->model, places);
    for (size_t i = 0; i < m->model->param_count && rc == 0; i++) {
        struct dt_view param = dt_layout_param(m->model, to, i);
        if (places[i].a >= 0) {
            rc = merge_pair(m, i, places[i], param, err);
        } else if (places[i].copy >= 0) {
            const struct dt_param *copy = &m->layout->params[places[i].copy];
            rc = dt_weights_read(m->trained,
                                 (struct dt_range){copy->offset, copy->count},
                                 param, err);
        }
    }
    free(places);
    return rc;
}

static int merge_adapter(const char *dir, const struct dt_weights *frozen,
                         const struct dt_model_config *config,
                         const struct dt_layout *model, struct dt_view to,
                         struct dt_error *err)
{
    struct dt_adapter adapter;
    struct dt_layout *layout = NULL;
    struct dt_weights *trained = NULL;
    int rc = dt_adapter_load(&adapter, dir, err);
    if (rc == 0)
        layout = dt_adapter_layout(&adapter, config, model, 1, err);
    if (layout)
        trained = dt_weights_open_adapter(dir, layout, err);
    if (trained) {
        const struct merge merge = {.model = model,
                                    .layout = layout,
                                    .frozen = frozen,
                                    .trained = trained,
                                    .config = config,
                                    .r = adapter.r,
                                    .scale = dt_adapter_scale(&adapter)};
        rc = merge_all(&merge, to, err);
    } else {
        rc = -1;
    }
    dt_weights_close(trained);
    dt_layout_destroy(layout);
    dt_adapter_fini(&adapter);
    return rc;
}

int dt_weights_config(const char *dir, struct dt_model_config *config,
                      struct dt_error *err)
{
    struct dt_adapter adapter;
    char base[PATH_MAX];
    *config = (struct dt_model_config){0};
    if (dt_weights_base(dir, base, err) < 0 ||
        dt_model_config_load(config, base, err) < 0)
        return -1;
    dt_weights_spell(base, config);
    if (!is_adapter(dir))
        return 0;
    int rc = dt_adapter_load(&adapter, dir, err);
    config->scores |= adapter.scores;
    dt_adapter_fini(&adapter);
    return rc;
}

int dt_weights_load_merged(const char *dir,
                           const struct dt_model_config *config,
                           const struct dt_layout *layout, struct dt_view to,
                           struct dt_error *err)
{
    char base[PATH_MAX];
    bool scores;
    if (!is_adapter(dir))
        return dt_weights_load(dir, layout, to, err);
    if (dt_weights_base(dir, base, err) < 0)
        return -1;
    struct dt_weights *w =
        config->scores ? dt_weights_open_trunk(base, layout, &scores, err)
                       : dt_weights_open(base, layout, err);
    int rc =
        w && dt_weights_check_twins(w, err) == 0
            ? dt_weights_read(w, (struct dt_range){0, layout->count}, to, err)
            : -1;
    if (rc == 0)
        rc = merge_adapter(dir, w, config, layout, to, err);
    dt_weights_close(w);
    return rc;
}
