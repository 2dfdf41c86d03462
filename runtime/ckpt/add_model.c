/* SPDX-License-Identifier: Apache-2.0 */
/* add_model.c - writes the weights of a model as one file or as shards */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "ckpt/checkpoint_impl.h"

/* The end of the shard that starts at tensor `first`, and its size in *bytes.
 * A shard takes as many tensors as fit into max_bytes, and at least one.
 */
static size_t shard_end(const struct dt_ckpt_tensor *tensors, size_t count,
                        size_t first, size_t max_bytes, size_t *bytes)
{
    size_t i = first;
    for (*bytes = 0; i < count; i++) {
        size_t more = tensors[i].view.count * dt_dtype_bytes(tensors[i].stored);
        if (i > first && *bytes + more > max_bytes)
            break;
        *bytes += more;
    }
    return i;
}

/* Maps the tensors first .. end - 1 to `file` in the index. */
static int list_tensors(json_t *map, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t first,
                        size_t end)
{
    for (size_t i = first; i < end; i++)
        if (json_object_set_new(map, tensors[i].name, json_string(file)) < 0)
            return -1;
    return 0;
}

static int add_index(struct dt_ckpt_writer *writer, json_t *map, size_t bytes,
                     struct dt_error *err)
{
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size",
                             (json_int_t)bytes, "weight_map", map);
    char *text =
        root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    int rc = text ? dt_ckpt_add_text(writer, "model.safetensors.index.json",
                                     text, err)
                  : dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    free(text);
    json_decref(root);
    return rc;
}

/* Writes file k, or fetches its tensors if another rank writes it, or if
 * nothing can be written any more (`rc` is -1).
 */
static int add_file(struct dt_ckpt_writer *writer, size_t k, int world, int rc,
                    const char *file, const struct dt_ckpt_tensor *tensors,
                    size_t count, const struct dt_ckpt_source *source,
                    struct dt_error *err)
{
    if (rc == 0 && k % (size_t)world == (size_t)writer->rank)
        return dt_ckpt_add_tensors(writer, file, tensors, count, source, err);
    if (!source)
        return rc;
    struct dt_error *first = rc < 0 ? NULL : err;
    return dt_safetensors_fetch(tensors, count, source, first) < 0 ? -1 : rc;
}

static int add_shards(struct dt_ckpt_writer *writer, int world,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, size_t shards,
                      const struct dt_ckpt_source *source, struct dt_error *err)
{
    char file[64];
    size_t first = 0, total = 0, bytes;
    json_t *map = json_object();
    int rc = map ? 0 : dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    for (size_t k = 0; k < shards; k++) {
        size_t end = shard_end(tensors, count, first, max_bytes, &bytes);
        snprintf(file, sizeof(file), "model-%05zu-of-%05zu.safetensors", k + 1,
                 shards);
        rc = add_file(writer, k, world, rc, file, tensors + first, end - first,
                      source, err);
        if (rc == 0 && list_tensors(map, file, tensors, first, end) < 0)
            rc = dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
        first = end;
        total += bytes;
    }
    if (rc == 0 && writer->rank == 0)
        rc = add_index(writer, map, total, err);
    json_decref(map);
    return rc;
}

int dt_ckpt_add_shared(struct dt_ckpt_writer *writer, int world,
                       const char *file, const struct dt_ckpt_tensor *tensors,
                       size_t count, const struct dt_ckpt_source *source,
                       struct dt_error *err)
{
    return add_file(writer, 0, world, 0, file, tensors, count, source, err);
}

int dt_ckpt_add_model(struct dt_ckpt_writer *writer, int world,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, const struct dt_ckpt_source *source,
                      struct dt_error *err)
{
    size_t shards = 0, bytes;
    for (size_t first = 0; first < count; shards++)
        first = shard_end(tensors, count, first, max_bytes, &bytes);
    if (shards > 1)
        return add_shards(writer, world, tensors, count, max_bytes, shards,
                          source, err);
    return dt_ckpt_add_shared(writer, world, "model.safetensors", tensors,
                              count, source, err);
}
