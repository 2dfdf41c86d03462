/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - matches the tensors of files with the parameters of a model */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/str.h"
#include "tensor/convert.h"
#include "weights/tensor_names.h"
#include "weights/weights.h"

#define HEAD "lm_head.weight"

enum { MISFITS_SHOWN = 4 };

/* Which tensor fills which parameter, and the names that have no counterpart.
 * The strings are owned by the files and by the layout.
 */
struct match {
    struct dt_safetensors *st;
    const struct dt_layout *layout;
    const char **sources; /* (param_count) tensor of each parameter, or NULL */
    const char **missing, **unexpected;
    size_t missing_count, unexpected_count;
    bool tied_head; /* the files have a head that the layout has not */
};

/* Opens the files in dir; match_fini also after -1. */
static int match_init(struct match *m, const char *dir,
                      const struct dt_layout *layout, struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_open_model(dir, err);
    *m = (struct match){.st = st, .layout = layout};
    if (!st)
        return -1;
    m->sources = calloc(layout->param_count, sizeof(*m->sources));
    m->missing = calloc(layout->param_count, sizeof(*m->missing));
    m->unexpected =
        calloc(dt_safetensors_count(st) + 1, sizeof(*m->unexpected));
    if (m->sources && m->missing && m->unexpected)
        return 0;
    return dt_error_set(err, EX_OSERR, "out of memory");
}

static void match_fini(struct match *m)
{
    free(m->sources);
    free(m->missing);
    free(m->unexpected);
    dt_safetensors_close(m->st);
}

/* The index of the parameter that tensor `name` holds, or -1. Files of a model
 * saved without its head lack the first word of the names.
 */
static int find_param(const struct dt_layout *layout, const char *name)
{
    const char *first = layout->params[0].name;
    size_t prefix = strcspn(first, ".") + 1;
    for (size_t i = 0; i < layout->param_count; i++) {
        const char *own = layout->params[i].name;
        if (!strcmp(own, name) ||
            (!strncmp(own, first, prefix) && !strcmp(own + prefix, name)))
            return (int)i;
    }
    return -1;
}

/* Whether a tensor is not a parameter: old files also hold the causal masks of
 * attention and the frequencies of RoPE.
 */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias",
                                       ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (dt_str_ends_with(name, ends[i]))
            return true;
    return false;
}

static void match_names(struct match *m)
{
    for (size_t t = 0; t < dt_safetensors_count(m->st); t++) {
        const char *name = dt_safetensors_name(m->st, t);
        int i = find_param(m->layout, name);
        if (i >= 0 && !m->sources[i])
            m->sources[i] = name;
        else if (i < 0 && !strcmp(name, HEAD))
            m->tied_head = true;
        else if (!is_buffer(name))
            m->unexpected[m->unexpected_count++] = name;
    }
    for (size_t i = 0; i < m->layout->param_count; i++)
        if (!m->sources[i])
            m->missing[m->missing_count++] = m->layout->params[i].name;
}

static void complain(struct dt_error *problems, const char *what,
                     const char **names, size_t count)
{
    char text[DT_ERROR_TEXT_BYTES / 2];
    dt_tensor_names_print(text, sizeof(text), names, count);
    if (count > 0)
        dt_error_add(problems, EX_DATAERR, "%s %s", what, text);
}

static void check_shapes(const struct match *m, enum dt_dtype dtype,
                         struct dt_error *problems)
{
    struct dt_error one;
    size_t count = 0;
    for (size_t i = 0; i < m->layout->param_count; i++) {
        const struct dt_param *param = &m->layout->params[i];
        if (m->sources[i] &&
            dt_safetensors_check(m->st, m->sources[i], param->ndim,
                                 param->shape, dtype, &one) < 0 &&
            count++ < MISFITS_SHOWN)
            dt_error_add(problems, EX_DATAERR, "%s", one.text);
    }
    if (count > MISFITS_SHOWN)
        dt_error_add(problems, EX_DATAERR, "%zu more tensors do not fit",
                     count - MISFITS_SHOWN);
}

/* Checks a head in the files of a model that ties it to the embedding: both
 * must be equal.
 */
static int check_tied(const struct match *m, const char *dir,
                      struct dt_error *err)
{
    int equal = dt_safetensors_equal(m->st, HEAD, m->sources[0], err);
    if (equal == 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: " HEAD
                            " differs from %s, but config.json ties them",
                            dir, m->layout->params[0].name);
    return equal < 0 ? -1 : 0;
}

static int check(struct match *m, const char *dir, enum dt_dtype dtype,
                 struct dt_error *err)
{
    struct dt_error problems = {0};
    match_names(m);
    complain(&problems, "missing", m->missing, m->missing_count);
    complain(&problems, "unexpected", m->unexpected, m->unexpected_count);
    check_shapes(m, dtype, &problems);
    return problems.text[0]
               ? dt_error_set(err, EX_DATAERR, "%s: %s", dir, problems.text)
               : 0;
}

static int read_tensors(const struct match *m, struct dt_view weights,
                        struct dt_error *err)
{
    size_t n = m->layout->param_count;
    struct dt_ckpt_tensor *tensors = calloc(n, sizeof(*tensors));
    if (!tensors)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < n; i++) {
        tensors[i] = dt_weights_tensor(m->layout, weights, i, m->sources[i]);
        tensors[i].finite = true;
    }
    int rc = dt_safetensors_read_all(m->st, tensors, n, err);
    free(tensors);
    return rc;
}

int dt_weights_find(const char *dir, char found[PATH_MAX], struct dt_error *err)
{
    static const char *const below[] = {"", "/checkpoints/latest"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        int n = snprintf(path, sizeof(path), "%s%s/config.json", dir, below[i]);
        if (n >= (int)sizeof(path) || access(path, F_OK) < 0)
            continue;
        *strrchr(path, '/') = '\0';
        if (realpath(path, found))
            return 0;
    }
    if (dt_foreign_dir(dir, err) < 0)
        return -1;
    return dt_error_set(err, EX_NOINPUT,
                        "%s: neither a model nor the run.output_dir of a run: "
                        "there is no config.json and no checkpoints/latest",
                        dir);
}

int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err)
{
    struct match match;
    int rc = match_init(&match, dir, layout, err);
    if (rc == 0)
        rc = check(&match, dir, weights.dtype, err);
    if (rc == 0 && match.tied_head)
        rc = check_tied(&match, dir, err);
    if (rc == 0)
        rc = read_tensors(&match, weights, err);
    match_fini(&match);
    return rc;
}

int dt_weights_check(const char *dir, const struct dt_layout *layout,
                     struct dt_error *err)
{
    struct match match;
    int rc = match_init(&match, dir, layout, err);
    if (rc == 0)
        rc = check(&match, dir, DT_F32, err);
    match_fini(&match);
    return rc;
}

int dt_weights_dtype(const char *dir, const struct dt_layout *layout,
                     enum dt_dtype *dtype, struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_open_model(dir, err);
    if (!st)
        return -1;
    bool found = false;
    for (size_t t = 0; t < dt_safetensors_count(st) && !found; t++) {
        const char *name = dt_safetensors_name(st, t);
        found = find_param(layout, name) == 0 &&
                dt_safetensors_dtype(st, name, dtype) == 0 &&
                dt_dtype_is_float(*dtype);
    }
    dt_safetensors_close(st);
    return found ? 0
                 : dt_error_set(err, EX_DATAERR,
                                "%s: no tensor %s of F32, BF16 or F16", dir,
                                layout->params[0].name);
}

/* Reads the fp32 weights. Returns 1, or 0 if there are none, which the first
 * one decides; if it is there, all must be.
 */
static int read_masters(const struct dt_safetensors *st,
                        const struct dt_layout *layout, struct dt_view weights,
                        struct dt_error *err)
{
    enum dt_dtype dtype;
    struct dt_ckpt_tensor *tensors =
        dt_weights_list(layout, &weights,
                        (const char *const[]){DT_OPTIM_MASTER}, 1, DT_F32, err);
    if (!tensors)
        return -1;
    for (size_t i = 0; i < layout->param_count; i++)
        tensors[i].finite = true;
    int rc = dt_safetensors_dtype(st, tensors[0].name, &dtype) == 0;
    if (rc &&
        dt_safetensors_read_all(st, tensors, layout->param_count, err) < 0)
        rc = -1;
    dt_weights_free_list(tensors, layout->param_count);
    return rc;
}

int dt_weights_load_master(const char *dir, const struct dt_layout *layout,
                           struct dt_view weights, struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/" DT_OPTIM_FILE, dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    struct dt_safetensors *st = dt_safetensors_open(path, err);
    int rc = st ? read_masters(st, layout, weights, err) : -1;
    dt_safetensors_close(st);
    return rc;
}
