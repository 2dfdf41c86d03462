/* SPDX-License-Identifier: Apache-2.0 */
/* weights_save.c - writes flat buffers as tensors and model directories */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weights.h"

enum {
    COPY_MAX_BYTES = 64 << 20, /* largest file that is copied */
};

struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        struct dt_view flat, size_t i,
                                        const char *name)
{
    const struct dt_param *param = &layout->params[i];
    struct dt_ckpt_tensor tensor = {.name = name,
                                    .ndim = param->ndim,
                                    .view = dt_layout_param(layout, flat, i)};
    memcpy(tensor.shape, param->shape, sizeof(param->shape));
    return tensor;
}

void dt_weights_free_list(struct dt_ckpt_tensor *tensors, size_t count)
{
    for (size_t i = 0; tensors && i < count; i++)
        free((char *)(uintptr_t)tensors[i].name);
    free(tensors);
}

struct dt_ckpt_tensor *dt_weights_list(const struct dt_layout *layout,
                                       const struct dt_view *flats,
                                       const char *const *prefixes,
                                       size_t count, enum dt_dtype stored,
                                       struct dt_error *err)
{
    size_t n = layout->param_count;
    struct dt_ckpt_tensor *tensors = calloc(n * count, sizeof(*tensors));
    for (size_t i = 0; tensors && i < n * count; i++) {
        char *name;
        if (asprintf(&name, "%s%s", prefixes[i / n],
                     layout->params[i % n].name) < 0) {
            dt_weights_free_list(tensors, i);
            tensors = NULL;
            break;
        }
        tensors[i] = dt_weights_tensor(layout, flats[i / n], i % n, name);
        tensors[i].stored = stored;
    }
    if (!tensors)
        dt_error_set(err, EX_OSERR, "out of memory");
    return tensors;
}

/* Copies the files of the tokenizer, the chat template and the generation
 * settings.
 */
static int add_copies(struct dt_ckpt_writer *writer, const char *source,
                      struct dt_error *err)
{
    static const char *const names[] = {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "generation_config.json",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (dt_ckpt_add_copy(writer, names[i], source, COPY_MAX_BYTES, err) < 0)
            return -1;
    return 0;
}

int dt_weights_save(struct dt_ckpt_writer *writer,
                    const struct dt_weights_files *files, struct dt_error *err)
{
    size_t count = files->layout->param_count;
    if (dt_ckpt_add_text(writer, "config.json", files->config, err) < 0 ||
        (files->source && add_copies(writer, files->source, err) < 0))
        return -1;
    struct dt_ckpt_tensor *tensors =
        dt_weights_list(files->layout, &files->weights,
                        (const char *const[]){""}, 1, files->stored, err);
    int rc = tensors ? dt_ckpt_add_model(writer, tensors, count,
                                         files->max_shard_bytes, err)
                     : -1;
    dt_weights_free_list(tensors, count);
    return rc;
}
