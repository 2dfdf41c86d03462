/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - matching the tensors of a file with the parameters of a model */
#include "config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/weights.h"
#include "ckpt/ckpt.h"

#define PREFIX "transformer."
#define HEAD "lm_head.weight"
#define EMBEDDING PREFIX "wte.weight"

enum { NAMES_SHOWN = 4 }; /* of those missing or unexpected */

/* Index of the parameter that tensor `name` holds, or -1. */
static int find_param(const struct dt_layout *layout, const char *name)
{
    size_t n = strlen(PREFIX);
    for (size_t i = 0; i < layout->param_count; i++) {
        const char *own = layout->params[i].name;
        if (!strcmp(own, name) ||
            (!strncmp(own, PREFIX, n) && !strcmp(own + n, name)))
            return (int)i;
    }
    return -1;
}

/* Old files carry the causal masks of attention. */
static bool is_mask(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

/* Names that share a complaint; the first few are told. */
struct names {
    char text[512];
    size_t count;
};

static void add_name(struct names *names, const char *name)
{
    size_t used = strlen(names->text);
    if (names->count++ < NAMES_SHOWN)
        snprintf(names->text + used, sizeof(names->text) - used, "%s%.100s",
                 used ? ", " : "", name);
    for (char *p = names->text + used; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?'; /* names come from the file */
}

static void complain(struct dt_error *problems, const char *path,
                     const char *what, const struct names *names)
{
    if (names->count > NAMES_SHOWN)
        dt_error_add(problems, EX_DATAERR, "%s: %s %s and %zu more", path, what,
                     names->text, names->count - NAMES_SHOWN);
    else if (names->count > 0)
        dt_error_add(problems, EX_DATAERR, "%s: %s %s", path, what,
                     names->text);
}

/* A head in the file, though the model ties it to the embedding: fine if both
 * are the same.
 */
static int check_tied(const struct dt_safetensors *file, const char *path,
                      const struct dt_layout *layout, struct dt_view weights,
                      struct dt_error *err)
{
    const struct dt_param *wte =
        &layout->params[dt_layout_find(layout, EMBEDDING)];
    size_t bytes = wte->count * sizeof(float);
    struct dt_buffer *head = dt_buffer_create(bytes, HEAD, err);
    if (!head)
        return -1;
    int result = dt_safetensors_read(file, HEAD, wte->ndim, wte->shape,
                                     dt_view_of(head, DT_F32), err);
    const float *embedding =
        dt_view_f32(dt_view_slice(weights, wte->offset, wte->count));
    if (result == 0 && memcmp(head->data, embedding, bytes))
        result = dt_error_set(err, EX_DATAERR,
                              "%s: " HEAD " differs from " EMBEDDING
                              ", but config.json ties them",
                              path);
    dt_buffer_destroy(head);
    return result;
}

/* Reads every tensor; found(param_count) says which were there. */
static int read_tensors(const struct dt_safetensors *file, const char *path,
                        const struct dt_layout *layout, struct dt_view weights,
                        bool *found, struct dt_error *err)
{
    struct dt_error problems = {0}, unread = {0}, one;
    struct names missing = {0}, unexpected = {0};
    bool extra_head = false;
    for (size_t t = 0; t < dt_safetensors_count(file); t++) {
        const char *name = dt_safetensors_name(file, t);
        int i = find_param(layout, name);
        if (i >= 0 && !found[i]) {
            const struct dt_param *param = &layout->params[i];
            found[i] = true;
            if (dt_safetensors_read(file, name, param->ndim, param->shape,
                                    dt_layout_param(layout, weights, (size_t)i),
                                    &one) < 0)
                dt_error_add(&unread, one.status, "%s", one.text);
        } else if (i < 0 && !strcmp(name, HEAD)) {
            extra_head = true;
        } else if (!is_mask(name)) {
            add_name(&unexpected, name);
        }
    }
    for (size_t i = 0; i < layout->param_count; i++)
        if (!found[i])
            add_name(&missing, layout->params[i].name);
    complain(&problems, path, "missing", &missing);
    complain(&problems, path, "unexpected", &unexpected);
    if (unread.text[0])
        dt_error_add(&problems, unread.status, "%s", unread.text);
    if (problems.text[0])
        return dt_error_set(err, problems.status, "%s", problems.text);
    return extra_head ? check_tied(file, path, layout, weights, err) : 0;
}

int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/model.safetensors", dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    struct dt_safetensors *file = dt_safetensors_open(path, err);
    if (!file)
        return -1;
    bool *found = calloc(layout->param_count, sizeof(*found));
    int result = found ? read_tensors(file, path, layout, weights, found, err)
                       : dt_error_set(err, EX_OSERR, "out of memory");
    free(found);
    dt_safetensors_close(file);
    return result;
}
