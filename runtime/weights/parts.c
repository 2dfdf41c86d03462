/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - writes and reads the parts of a checkpoint that ranks own */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "model/model_adapter.h"
#include "weights/parts.h"
#include "weights/weights.h"

/* Prefixes of the parameters' names. */
static const char *const prefixes[DT_PARTS_KINDS] = {
    [DT_OWNED_MASTER] = "master/",
    [DT_OWNED_M] = "m/",
    [DT_OWNED_V] = "v/",
    [DT_PARTS_REFERENCE] = "reference/",
};

void dt_parts_name(char name[DT_PARTS_NAME_BYTES], int rank, int world)
{
    snprintf(name, DT_PARTS_NAME_BYTES, "optim-rank-%05d-of-%05d.safetensors",
             rank, world);
}

/* --- to write --- */

void dt_parts_free_list(struct dt_ckpt_tensor *tensors, size_t count)
{
    for (size_t i = 0; tensors && i < count; i++)
        free((char *)(uintptr_t)tensors[i].name);
    free(tensors);
}

/* The elements `range` of parameter i as a tensor; its name is malloc'ed, and
 * NULL if memory is out.
 */
static struct dt_ckpt_tensor make_tensor(const struct dt_layout *layout,
                                         int kind, size_t i,
                                         struct dt_range range)
{
    const struct dt_param *param = &layout->params[i];
    size_t first = range.first - param->offset;
    struct dt_ckpt_tensor tensor = dt_weights_tensor(layout, i, NULL);
    char *name;
    bool whole = range.count == param->count;
    int n = whole ? asprintf(&name, "%s%s", prefixes[kind], param->name)
                  : asprintf(&name, "%s%s[%zu:%zu]", prefixes[kind],
                             param->name, first, first + range.count);
    tensor.name = n < 0 ? NULL : name;
    if (!whole) {
        tensor.ndim = 1;
        tensor.shape[0] = range.count;
    }
    return tensor;
}

struct dt_ckpt_tensor *dt_parts_list(const struct dt_layout *layout, int part,
                                     int world, int first, int end,
                                     const struct dt_view *parts, size_t *count,
                                     struct dt_error *err)
{
    size_t most = layout->param_count * DT_PARTS_KINDS, n = 0;
    struct dt_ckpt_tensor *tensors = calloc(most, sizeof(*tensors));
    bool full = !tensors;
    for (int kind = first; kind < end && !full; kind++)
        for (size_t i = 0; i < layout->param_count && !full; i++) {
            size_t u = layout->params[i].unit;
            struct dt_range own = dt_layout_part(layout, u, part, world);
            struct dt_range range = dt_layout_overlap(layout, i, own);
            if (range.count == 0)
                continue;
            tensors[n] = make_tensor(layout, kind, i, range);
            tensors[n].view =
                dt_view_slice(parts[(size_t)kind * layout->unit_count + u],
                              range.first - own.first, range.count);
            tensors[n].stored = tensors[n].view.dtype;
            full = !tensors[n++].name;
        }
    *count = n;
    if (!full)
        return tensors;
    dt_parts_free_list(tensors, n);
    dt_error_set(err, EX_OSERR, "out of memory");
    return NULL;
}

/* --- to read --- */

/* A tensor of the files: elements of a parameter. */
struct piece {
    const char *name; /* owned by the files */
    int kind;
    size_t param;
    struct dt_range range; /* of the flat buffer */
};

struct dt_parts {
    char *dir; /* for messages */
    const struct dt_layout *layout;
    struct dt_safetensors *st;
    struct piece *pieces;
    size_t count;
};

void dt_parts_close(struct dt_parts *parts)
{
    if (!parts)
        return;
    dt_safetensors_close(parts->st);
    free(parts->pieces);
    free(parts->dir);
    free(parts);
}

/* Parses "prefix/name" or "prefix/name[first:end]". False: it is neither, or
 * no parameter has that name or that many elements.
 */
static bool parse_piece(const struct dt_layout *layout, const char *text,
                        struct piece *piece)
{
    int kind = 0;
    while (kind < DT_PARTS_KINDS &&
           strncmp(text, prefixes[kind], strlen(prefixes[kind])) != 0)
        kind++;
    if (kind == DT_PARTS_KINDS)
        return false;
    char name[DT_ADAPTER_NAME_BYTES];
    const char *rest = text + strlen(prefixes[kind]);
    const char *bracket = strchr(rest, '[');
    const size_t length = bracket ? (size_t)(bracket - rest) : strlen(rest);
    if (length >= sizeof(name))
        return false;
    memcpy(name, rest, length);
    name[length] = '\0';
    const int i = dt_weights_param(layout, name);
    if (i < 0)
        return false;
    const struct dt_param *param = &layout->params[i];
    size_t first = 0, end = param->count;
    int used = 0;
    if (bracket && (sscanf(bracket, "[%zu:%zu]%n", &first, &end, &used) != 2 ||
                    used == 0 || bracket[used]))
        return false;
    *piece = (struct piece){
        text, kind, (size_t)i, {param->offset + first, end - first}};
    return first < end && end <= param->count;
}

static int parse_pieces(struct dt_parts *parts, struct dt_error *err)
{
    size_t count = dt_safetensors_count(parts->st);
    parts->pieces = calloc(count + 1, sizeof(*parts->pieces));
    if (!parts->pieces)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const char *name = dt_safetensors_name(parts->st, i);
        if (!parse_piece(parts->layout, name, &parts->pieces[i]))
            return dt_error_set(err, EX_DATAERR,
                                "%s: the optimizer's tensor %s belongs to no "
                                "parameter of this model",
                                parts->dir, name);
    }
    parts->count = count;
    return 0;
}

static int is_part(const struct dirent *entry)
{
    int rank, world, used = 0;
    sscanf(entry->d_name, "optim-rank-%d-of-%d.safetensors%n", &rank, &world,
           &used);
    return used > 0 && !entry->d_name[used];
}

/* Checks that the files are those of all ranks of one world. */
static int check_names(const char *dir, struct dirent **entries, int count,
                       struct dt_error *err)
{
    char name[DT_PARTS_NAME_BYTES];
    int rank, world = 0;
    sscanf(entries[0]->d_name, "optim-rank-%d-of-%d", &rank, &world);
    for (int i = 0; i < world || i < count; i++) {
        dt_parts_name(name, i, world);
        if (i >= count || strcmp(entries[i]->d_name, name) != 0)
            return dt_error_set(err, EX_DATAERR,
                                "%s: expected %s: the optimizer's files are "
                                "not those of all ranks of one run",
                                dir, name);
    }
    return 0;
}

static struct dt_safetensors *open_files(const char *dir,
                                         struct dirent **entries, int count,
                                         struct dt_error *err)
{
    struct dt_safetensors *st = NULL;
    char **names = calloc((size_t)count, sizeof(*names));
    for (int i = 0; names && i < count; i++)
        names[i] = entries[i]->d_name;
    if (!names)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (check_names(dir, entries, count, err) == 0)
        st = dt_safetensors_open_set(dir, names, (size_t)count, err);
    free(names);
    return st;
}

/* The files of all ranks in `dir`, in order; free_files. -1: EX_NOINPUT if
 * there is no `dir`, EX_IOERR.
 */
static int list_files(const char *dir, struct dirent ***entries,
                      struct dt_error *err)
{
    int count = scandir(dir, entries, is_part, alphasort);
    if (count < 0)
        return dt_error_set(err,
                            dt_file_is_missing(errno) ? EX_NOINPUT : EX_IOERR,
                            "%s: cannot read: %s", dir, strerror(errno));
    return count;
}

static void free_files(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    if (count >= 0)
        free(entries);
}

int dt_parts_exist(const char *dir, struct dt_error *err)
{
    struct dirent **entries;
    int count = list_files(dir, &entries, err);
    free_files(entries, count);
    return count < 0 ? -1 : count > 0;
}

/* Opens these files; NULL and err. */
static struct dt_parts *open_parts(const char *dir,
                                   const struct dt_layout *layout,
                                   struct dirent **entries, int count,
                                   struct dt_error *err)
{
    struct dt_parts *parts = calloc(1, sizeof(*parts));
    char *name = strdup(dir);
    if (!parts || !name) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(name);
        free(parts);
        return NULL;
    }
    parts->dir = name;
    parts->layout = layout;
    parts->st = open_files(dir, entries, count, err);
    if (parts->st && parse_pieces(parts, err) == 0)
        return parts;
    dt_parts_close(parts);
    return NULL;
}

int dt_parts_open(const char *dir, const struct dt_layout *layout,
                  struct dt_parts **parts, struct dt_error *err)
{
    struct dirent **entries;
    int count = list_files(dir, &entries, err);
    *parts = count > 0 ? open_parts(dir, layout, entries, count, err) : NULL;
    free_files(entries, count);
    return count < 0 || (count > 0 && !*parts) ? -1 : 0;
}

/* Parameters of which files have all elements of a kind, or none; the first one
 * of which they have not all, and the first of which they have some.
 */
struct found {
    size_t whole, none;
    size_t not_whole, partial;
};

static int find_params(const struct dt_parts *parts, int kind,
                       struct found *found, struct dt_error *err)
{
    const struct dt_layout *layout = parts->layout;
    size_t *have = calloc(layout->param_count + 1, sizeof(*have));
    *found = (struct found){0};
    if (!have)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < parts->count; i++)
        if (parts->pieces[i].kind == kind)
            have[parts->pieces[i].param] += parts->pieces[i].range.count;
    for (size_t i = layout->param_count; i-- > 0;) {
        const bool whole = have[i] == layout->params[i].count;
        found->whole += whole;
        found->none += have[i] == 0;
        if (!whole)
            found->not_whole = i;
        if (!whole && have[i] > 0)
            found->partial = i;
    }
    free(have);
    return 0;
}

static int refuse_param(const struct dt_parts *parts, int kind, size_t i,
                        struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "%s: the optimizer's files do not have %s%s once "
                        "and as a whole",
                        parts->dir, prefixes[kind],
                        parts->layout->params[i].name);
}

int dt_parts_have(const struct dt_parts *parts, int kind, struct dt_error *err)
{
    struct found found;
    if (find_params(parts, kind, &found, err) < 0)
        return -1;
    if (found.none == parts->layout->param_count)
        return 0;
    return found.whole == parts->layout->param_count
               ? 1
               : refuse_param(parts, kind, found.not_whole, err);
}

int dt_parts_have_some(const struct dt_parts *parts, int kind,
                       struct dt_error *err)
{
    struct found found;
    if (find_params(parts, kind, &found, err) < 0)
        return -1;
    if (found.whole + found.none < parts->layout->param_count)
        return refuse_param(parts, kind, found.partial, err);
    return found.whole == 0 ? 0 : found.none == 0 ? 1 : 2;
}

/* The elements that `piece` and `range` share, as a tensor to read into `to`;
 * its view has count 0 if there are none.
 */
static struct dt_ckpt_tensor piece_tensor(const struct dt_parts *parts,
                                          const struct piece *piece,
                                          struct dt_range range,
                                          struct dt_view to)
{
    const struct dt_param *param = &parts->layout->params[piece->param];
    struct dt_ckpt_tensor tensor =
        dt_weights_tensor(parts->layout, piece->param, piece->name);
    size_t first = piece->range.first, end = first + piece->range.count;
    if (first < range.first)
        first = range.first;
    if (end > range.first + range.count)
        end = range.first + range.count;
    if (first >= end)
        return (struct dt_ckpt_tensor){0};
    if (piece->range.count != param->count) {
        tensor.ndim = 1;
        tensor.shape[0] = piece->range.count;
    }
    tensor.first = first - piece->range.first;
    tensor.view = dt_view_slice(to, first - range.first, end - first);
    tensor.finite = true; /* else every step would be skipped */
    return tensor;
}

int dt_parts_read(const struct dt_parts *parts, int kind, struct dt_range range,
                  struct dt_view to, struct dt_error *err)
{
    size_t count = 0;
    struct dt_ckpt_tensor *tensors = calloc(parts->count + 1, sizeof(*tensors));
    if (!tensors)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->pieces[i].kind != kind)
            continue;
        tensors[count] = piece_tensor(parts, &parts->pieces[i], range, to);
        count += tensors[count].view.count > 0;
    }
    int rc = dt_safetensors_read_all(parts->st, tensors, count, err);
    free(tensors);
    return rc;
}
