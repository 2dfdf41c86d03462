/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - matches the tensors of files with the parameters of a model */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/str.h"
#include "ckpt/safetensors.h"
#include "model/model_adapter.h"
#include "tensor/tensor.h"
#include "weights/adapter_file.h"
#include "weights/weights.h"

/* --- rows of an embedding or a head that no file has yet ---
 *
 * They are the mean of the rows that there are, in which a new token has no
 * preference of its own. transformers draws them from a normal distribution
 * with this mean and 1e-9 times the covariance of the rows: about 3e-5 of their
 * deviation, which is left out here, so that every rank has the same bits.
 */

enum { GROWN_MAX = 2 }; /* the embedding, and a head of its own */

struct grown {
    size_t param; /* of the layout */
    float *mean;  /* of a row, once it is known; freed by the owner */
};

enum { ROWS = 1024 }; /* read at a time */

/* The entry of parameter i, or NULL. */
static const struct grown *find_grown(const struct grown *grown, size_t count,
                                      size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (grown[k].param == i)
            return &grown[k];
    return NULL;
}

/* Where the new rows of the parameter begin in the flat buffer. */
static size_t begin_of_new(const struct grown *grown,
                           const struct dt_layout *layout)
{
    const struct dt_param *param = &layout->params[grown->param];
    return param->offset + layout->stored_rows * param->shape[1];
}

/* The part of `part`, elements of the parameter, that files have. */
static struct dt_range stored_part(const struct grown *grown,
                                   const struct dt_layout *layout,
                                   struct dt_range part)
{
    const size_t end = begin_of_new(grown, layout);
    if (part.first >= end)
        return (struct dt_range){part.first, 0};
    if (part.count > end - part.first)
        part.count = end - part.first;
    return part;
}

/* Adds rows [first, first + count) of the file to sums. */
static int add_rows(const struct dt_safetensors *st,
                    struct dt_ckpt_tensor tensor, size_t first, size_t count,
                    struct dt_view rows, double *sums, struct dt_error *err)
{
    const size_t columns = tensor.shape[1];
    tensor.first = first * columns;
    tensor.view = dt_view_slice(rows, 0, count * columns);
    if (dt_safetensors_read_all(st, &tensor, 1, err) < 0)
        return -1;
    const float *from = dt_view_data(tensor.view);
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < columns; c++)
            sums[c] += (double)from[r * columns + c];
    return 0;
}

static int compute_mean(struct grown *grown, const struct dt_safetensors *st,
                        const char *source, const struct dt_layout *layout,
                        struct dt_error *err)
{
    const size_t columns = layout->params[grown->param].shape[1];
    const size_t all = layout->stored_rows;
    struct dt_ckpt_tensor tensor = {
        .name = source, .ndim = 2, .shape = {all, columns}, .finite = true};
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, ROWS * columns * sizeof(float), "rows", err);
    double *sums = calloc(columns, sizeof(*sums));
    float *mean = calloc(columns, sizeof(*mean));
    int rc = buf ? 0 : -1;
    if (rc == 0 && (!sums || !mean))
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t r = 0; rc == 0 && r < all; r += ROWS)
        rc = add_rows(st, tensor, r, all - r < ROWS ? all - r : ROWS,
                      dt_view_of(buf, DT_F32), sums, err);
    for (size_t c = 0; rc == 0 && c < columns; c++)
        mean[c] = (float)(sums[c] / (double)all);
    dt_buffer_destroy(buf);
    free(sums);
    if (rc == 0)
        grown->mean = mean;
    else
        free(mean);
    return rc;
}

/* Writes the new rows that are in `range` of the flat buffer to `to`, the view
 * of that range. -1: as dt_safetensors_read_all, EX_OSERR.
 */
static int fill_grown(struct grown *grown, const struct dt_safetensors *st,
                      const char *source, const struct dt_layout *layout,
                      struct dt_range range, struct dt_view to,
                      struct dt_error *err)
{
    const struct dt_param *param = &layout->params[grown->param];
    const size_t columns = param->shape[1];
    const size_t begin = begin_of_new(grown, layout);
    struct dt_range part = dt_layout_overlap(layout, grown->param, range);
    const size_t end = part.first + part.count;
    size_t at = part.first > begin ? part.first : begin;
    if (part.count == 0 || at >= end)
        return 0;
    if (!grown->mean && compute_mean(grown, st, source, layout, err) < 0)
        return -1;
    while (at < end) { /* one row, or its elements in the range */
        const size_t column = (at - param->offset) % columns;
        size_t n = columns - column;
        n = n < end - at ? n : end - at;
        dt_convert(dt_view_data(dt_view_slice(to, at - range.first, n)),
                   to.dtype, grown->mean + column, DT_F32, n);
        at += n;
    }
    return 0;
}

/* --- the host's view of a buffer of the device --- */

int dt_host_copy_open(struct dt_host_copy *copy, const struct dt_exec *exec,
                      struct dt_view view, bool fetch, struct dt_error *err)
{
    size_t bytes = view.count * dt_dtype_bytes(view.dtype);
    *copy = (struct dt_host_copy){exec, view, view};
    if (exec->device->is_host)
        return 0;
    copy->here = (struct dt_view){.count = view.count, .dtype = view.dtype};
    copy->here.buf = dt_buffer_create(&dt_cpu, bytes, "a copy", err);
    if (!copy->here.buf)
        return -1;
    if (!fetch)
        return 0;
    if (exec->device->copy(exec->stream, copy->here.buf->data,
                           dt_view_data(view), bytes, err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

int dt_host_copy_publish(const struct dt_host_copy *copy, struct dt_error *err)
{
    const struct dt_exec *exec = copy->exec;
    if (exec->device->is_host)
        return 0;
    return exec->device->copy(exec->stream, dt_view_data(copy->there),
                              copy->here.buf->data, copy->here.buf->bytes, err);
}

void dt_host_copy_close(struct dt_host_copy *copy)
{
    if (copy->exec && !copy->exec->device->is_host)
        dt_buffer_destroy(copy->here.buf);
}

/* --- the files of a model --- */

#define HEAD "lm_head.weight"
#define SCORE "score.weight"

enum { MISFITS_SHOWN = 4 };

/* Another tensor of a parameter, in another spelling. */
struct twin {
    size_t param;
    const char *name;
};

/* Which tensor fills which parameter, and the names that have no counterpart.
 * These strings are owned by the files and by the layout.
 */
struct dt_weights {
    char *dir; /* for messages */
    struct dt_safetensors *st;
    const struct dt_layout *layout;
    const char **sources; /* (param_count) tensor of each parameter, or NULL */
    const char **missing, **unexpected;
    size_t missing_count, unexpected_count;
    const char *head;   /* a head that the layout has not, or NULL */
    struct twin *twins; /* parameters that the files have twice */
    size_t twin_count;
    bool trunk;                        /* SCORE may be missing */
    struct dt_safetensors *value_head; /* a file with SCORE alone, or NULL */
    struct grown *grown; /* (GROWN_MAX) parameters with more rows */
    size_t grown_count;
};

int dt_weights_param(const struct dt_layout *layout, const char *name)
{
    const int same = dt_layout_find(layout, name);
    if (same >= 0)
        return same;
    for (size_t i = 0; i < layout->param_count; i++)
        if (dt_model_names_alike(layout->params[i].name, name))
            return (int)i;
    return -1;
}

/* Whether a tensor is not a parameter: old files also hold the causal masks of
 * attention, the frequencies of RoPE and numbers of positions.
 */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias",
                                       ".rotary_emb.inv_freq",
                                       ".embeddings.position_ids"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (dt_str_ends_with(name, ends[i]))
            return true;
    return false;
}

/* Whether the head is the token embedding. */
static bool is_tied(const struct dt_layout *layout)
{
    return dt_layout_is_tied(layout, layout->tied_unit);
}

static bool is_head(const char *name)
{
    return dt_model_names_alike(name, HEAD);
}

/* Takes a tensor as that of parameter i: the one that is called as in the
 * layout, if there are two.
 */
static void take_source(struct dt_weights *m, size_t i, const char *name)
{
    const char *other = m->sources[i];
    const bool same = !strcmp(name, m->layout->params[i].name);
    if (!other || same)
        m->sources[i] = name;
    if (other)
        m->twins[m->twin_count++] = (struct twin){i, same ? other : name};
}

static void match_names(struct dt_weights *m)
{
    const size_t embedding =
        is_tied(m->layout) ? dt_layout_embedding(m->layout) : 0;
    for (size_t t = 0; t < dt_safetensors_count(m->st); t++) {
        const char *name = dt_safetensors_name(m->st, t);
        int i = dt_weights_param(m->layout, name);
        if (i >= 0)
            take_source(m, (size_t)i, name);
        else if (is_head(name))
            m->head = name;
        else if (!is_buffer(name) && !dt_carried_is(m->layout, name))
            m->unexpected[m->unexpected_count++] = name;
    }
    /* either name of tied weights will do */
    if (m->head && is_tied(m->layout) && !m->sources[embedding]) {
        m->sources[embedding] = m->head;
        m->head = NULL;
    }
    for (size_t i = 0; i < m->layout->param_count; i++) {
        const char *name = m->layout->params[i].name;
        if (!m->sources[i] && !(m->trunk && !strcmp(name, SCORE)))
            m->missing[m->missing_count++] = name;
    }
}

static void complain(struct dt_error *problems, const char *what,
                     const char **names, size_t count)
{
    char text[DT_ERROR_TEXT_BYTES / 2];
    dt_tensor_names_print(text, sizeof(text), names, count);
    if (count > 0)
        dt_error_add(problems, EX_DATAERR, "%s %s", what, text);
}

/* Whether a file has the rows that parameter i had before it grew. */
static bool is_grown(struct dt_weights *w, size_t i)
{
    const struct dt_param *param = &w->layout->params[i];
    const size_t shape[] = {w->layout->stored_rows, param->shape[1]};
    if (w->layout->stored_rows == 0 || w->grown_count == GROWN_MAX)
        return false;
    const size_t embedding = dt_layout_embedding(w->layout);
    if ((i != embedding && !is_head(param->name)) || param->ndim != 2 ||
        param->shape[0] != w->layout->params[embedding].shape[0] ||
        dt_safetensors_check(w->st, w->sources[i], 2, shape, DT_F32, NULL) < 0)
        return false;
    w->grown[w->grown_count++] = (struct grown){.param = i};
    return true;
}

static void check_shapes(struct dt_weights *m, struct dt_error *problems)
{
    struct dt_error one;
    size_t count = 0;
    for (size_t i = 0; i < m->layout->param_count; i++) {
        const struct dt_param *param = &m->layout->params[i];
        if (m->sources[i] &&
            dt_safetensors_check(m->st, m->sources[i], param->ndim,
                                 param->shape, DT_F32, &one) < 0 &&
            !is_grown(m, i) && count++ < MISFITS_SHOWN)
            dt_error_add(problems, EX_DATAERR, "%s", one.text);
    }
    if (count > MISFITS_SHOWN)
        dt_error_add(problems, EX_DATAERR, "%zu more tensors do not fit",
                     count - MISFITS_SHOWN);
}

static int check_names(struct dt_weights *w, const char *dir,
                       struct dt_error *err)
{
    struct dt_error problems = {0};
    match_names(w);
    complain(&problems, "missing", w->missing, w->missing_count);
    if (w->missing_count == 1 && is_head(w->missing[0]))
        dt_error_add(&problems, EX_DATAERR,
                     "the model was saved without its head: save it from "
                     "AutoModelForCausalLM, or write \"tie_word_embeddings\": "
                     "true in config.json if its head is its embedding");
    complain(&problems, "unexpected", w->unexpected, w->unexpected_count);
    check_shapes(w, &problems);
    return problems.text[0]
               ? dt_error_set(err, EX_DATAERR, "%s: %s", dir, problems.text)
               : 0;
}

int dt_weights_find(const char *dir, char found[PATH_MAX], struct dt_error *err)
{
    static const char *const files[] = {
        "/config.json",
        "/" DT_ADAPTER_CONFIG_FILE,
        "/checkpoints/best/config.json",
        "/checkpoints/best/" DT_ADAPTER_CONFIG_FILE,
        "/checkpoints/latest/config.json",
        "/checkpoints/latest/" DT_ADAPTER_CONFIG_FILE,
    };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int n = snprintf(path, sizeof(path), "%s%s", dir, files[i]);
        int there = n < (int)sizeof(path) ? dt_file_exists(path, err) : 0;
        if (there < 0)
            return -1;
        if (there == 0)
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

void dt_weights_close(struct dt_weights *w)
{
    if (!w)
        return;
    free(w->sources);
    free(w->missing);
    free(w->unexpected);
    free(w->twins);
    free(w->dir);
    for (size_t i = 0; i < w->grown_count; i++)
        free(w->grown[i].mean);
    free(w->grown);
    dt_safetensors_close(w->value_head);
    dt_safetensors_close(w->st);
    free(w);
}

/* Takes `st`, the open files in `dir`; NULL: err is set. */
static struct dt_weights *match_files(const char *dir,
                                      struct dt_safetensors *st,
                                      const struct dt_layout *layout,
                                      bool trunk, struct dt_error *err)
{
    struct dt_weights *w = st ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        if (st)
            dt_error_set(err, EX_OSERR, "out of memory");
        dt_safetensors_close(st);
        return NULL;
    }
    *w = (struct dt_weights){
        .dir = strdup(dir),
        .st = st,
        .layout = layout,
        .trunk = trunk,
        .sources = calloc(layout->param_count, sizeof(*w->sources)),
        .missing = calloc(layout->param_count, sizeof(*w->missing)),
        .unexpected =
            calloc(dt_safetensors_count(st) + 1, sizeof(*w->unexpected)),
        .twins = calloc(dt_safetensors_count(st) + 1, sizeof(*w->twins)),
        .grown = calloc(GROWN_MAX, sizeof(*w->grown)),
    };
    if (!w->dir || !w->sources || !w->missing || !w->unexpected || !w->twins ||
        !w->grown)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (check_names(w, dir, err) == 0)
        return w;
    dt_weights_close(w);
    return NULL;
}

/* Takes SCORE, which is parameter `head`, from the file of a head by itself. */
static int open_head(struct dt_weights *w, int head, const char *path,
                     struct dt_error *err)
{
    const struct dt_param *param = &w->layout->params[head];
    w->sources[head] = SCORE;
    w->value_head = dt_safetensors_open(path, err);
    if (!w->value_head)
        return -1;
    return dt_safetensors_check(w->value_head, SCORE, param->ndim, param->shape,
                                DT_F32, err) < 0
               ? dt_error_prefix(err, "%s", path)
               : 0;
}

static struct dt_weights *open_files(const char *dir,
                                     const struct dt_layout *layout, bool trunk,
                                     struct dt_error *err)
{
    const int head = dt_layout_find(layout, SCORE);
    char path[PATH_MAX + sizeof(DT_VALUE_HEAD_FILE)];
    snprintf(path, sizeof(path), "%s/" DT_VALUE_HEAD_FILE, dir);
    const int apart = head >= 0 ? dt_file_exists(path, err) : 0;
    if (apart < 0)
        return NULL;
    struct dt_weights *w = match_files(dir, dt_safetensors_open_model(dir, err),
                                       layout, trunk || apart, err);
    if (!w || !apart || w->sources[head] || open_head(w, head, path, err) == 0)
        return w;
    dt_weights_close(w);
    return NULL;
}

/* Whether files have a tensor. */
static bool has_tensor(const void *files, const char *name)
{
    enum dt_dtype dtype;
    return dt_safetensors_dtype(files, name, &dtype) == 0;
}

bool dt_weights_spell(const char *dir, struct dt_model_config *config)
{
    struct dt_safetensors *st;
    if (!config->vision) /* it has one spelling */
        return true;
    st = dt_safetensors_open_model(dir, NULL);
    if (st)
        dt_model_config_spell(config, has_tensor, st);
    dt_safetensors_close(st);
    return st;
}

struct dt_weights *dt_weights_open_adapter(const char *dir,
                                           const struct dt_layout *layout,
                                           struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/" DT_ADAPTER_FILE, dir) >=
        (int)sizeof(path)) {
        dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
        return NULL;
    }
    int found = dt_file_exists(path, err);
    if (found < 0 || (!found && dt_foreign_adapter(dir, err) < 0))
        return NULL;
    return match_files(dir, dt_safetensors_open(path, err), layout, false, err);
}

struct dt_weights *dt_weights_open(const char *dir,
                                   const struct dt_layout *layout,
                                   struct dt_error *err)
{
    return open_files(dir, layout, false, err);
}

struct dt_weights *dt_weights_open_trunk(const char *dir,
                                         const struct dt_layout *layout,
                                         bool *scores, struct dt_error *err)
{
    struct dt_weights *w = open_files(dir, layout, true, err);
    int head = dt_layout_find(layout, SCORE);
    *scores = w && head >= 0 && w->sources[head];
    return w;
}

/* Checks the head of a file against the embedding that is the head, too. */
static int check_head(const struct dt_weights *w, struct dt_error *err)
{
    if (!w->head || !is_tied(w->layout))
        return 0;
    const size_t embedding = dt_layout_embedding(w->layout);
    int equal =
        dt_safetensors_equal(w->st, w->head, w->sources[embedding], err);
    if (equal == 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: %s differs from %s, but config.json ties "
                            "them: write \"tie_word_embeddings\": false there "
                            "if the model has a head of its own, or save the "
                            "model without %s if its head is its embedding",
                            w->dir, w->head, w->sources[embedding], w->head);
    return equal < 0 ? -1 : 0;
}

int dt_weights_check_twins(const struct dt_weights *w, struct dt_error *err)
{
    for (size_t i = 0; i < w->twin_count; i++) {
        const char *name = w->twins[i].name;
        const char *source = w->sources[w->twins[i].param];
        int equal = dt_safetensors_equal(w->st, name, source, err);
        if (equal == 0)
            return dt_error_set(err, EX_DATAERR,
                                "%s: %s differs from %s, which is the same "
                                "parameter in another spelling: remove the "
                                "one that is wrong",
                                w->dir, name, source);
        if (equal < 0)
            return -1;
    }
    return check_head(w, err);
}

struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        size_t i, const char *name)
{
    const struct dt_param *param = &layout->params[i];
    struct dt_ckpt_tensor tensor = {.name = name, .ndim = param->ndim};
    memcpy(tensor.shape, param->shape, sizeof(param->shape));
    return tensor;
}

/* Lists the elements of the range that file `st` has, as tensors to be read
 * into `to`. Returns how many tensors.
 */
static size_t list_sources(const struct dt_weights *w,
                           const struct dt_safetensors *st,
                           struct dt_range range, struct dt_view to,
                           struct dt_ckpt_tensor *tensors)
{
    size_t count = 0;
    for (size_t i = 0; i < w->layout->param_count; i++) {
        const char *source = w->sources[i];
        struct dt_range part = dt_layout_overlap(w->layout, i, range);
        bool beside = w->value_head && source && !strcmp(source, SCORE);
        if (part.count == 0 || !source || beside != (st == w->value_head))
            continue;
        const struct grown *grown = find_grown(w->grown, w->grown_count, i);
        if (grown) /* the rest has no source */
            part = stored_part(grown, w->layout, part);
        if (part.count == 0)
            continue;
        struct dt_ckpt_tensor *tensor = &tensors[count++];
        *tensor = dt_weights_tensor(w->layout, i, source);
        if (grown)
            tensor->shape[0] = w->layout->stored_rows;
        tensor->view = dt_view_slice(to, part.first - range.first, part.count);
        tensor->first = part.first - w->layout->params[i].offset;
        tensor->finite = true;
    }
    return count;
}

int dt_weights_read(const struct dt_weights *w, struct dt_range range,
                    struct dt_view to, struct dt_error *err)
{
    struct dt_safetensors *const files[] = {w->st, w->value_head};
    struct dt_ckpt_tensor *tensors =
        calloc(w->layout->param_count, sizeof(*tensors));
    int rc = 0;
    if (!tensors)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t f = 0; f < 2 && files[f] && rc == 0; f++) {
        size_t count = list_sources(w, files[f], range, to, tensors);
        rc = dt_safetensors_read_all(files[f], tensors, count, err);
    }
    free(tensors);
    for (size_t i = 0; i < w->grown_count && rc == 0; i++)
        rc = fill_grown(&w->grown[i], w->st, w->sources[w->grown[i].param],
                        w->layout, range, to, err);
    return rc;
}

int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view to, struct dt_error *err)
{
    struct dt_weights *w = dt_weights_open(dir, layout, err);
    int rc =
        w && dt_weights_check_twins(w, err) == 0
            ? dt_weights_read(w, (struct dt_range){0, layout->count}, to, err)
            : -1;
    dt_weights_close(w);
    return rc;
}

int dt_weights_dtype(const char *dir, const struct dt_layout *layout,
                     enum dt_dtype *dtype, struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_open_model(dir, err);
    if (!st)
        return -1;
    const size_t embedding = dt_layout_embedding(layout);
    bool found = false;
    for (size_t t = 0; t < dt_safetensors_count(st) && !found; t++) {
        const char *name = dt_safetensors_name(st, t);
        if ((dt_weights_param(layout, name) != (int)embedding &&
             !(is_tied(layout) && is_head(name))) ||
            dt_safetensors_dtype(st, name, dtype) < 0)
            continue;
        if (*dtype == DT_F64)
            *dtype = DT_F32; /* the type it is read as */
        found = dt_dtype_is_float(*dtype);
    }
    dt_safetensors_close(st);
    return found ? 0
                 : dt_error_set(err, EX_DATAERR,
                                "%s: no tensor %s of F32, BF16, F16 or F64",
                                dir, layout->params[embedding].name);
}
