/* SPDX-License-Identifier: Apache-2.0 */
/* weights_save.c - writes model directories */
#include "config.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/model_adapter.h"
#include "weights/weights.h"

enum {
    COPY_MAX_BYTES = 64 << 20, /* largest file that is copied */
};

struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        size_t i, const char *name)
{
    const struct dt_param *param = &layout->params[i];
    struct dt_ckpt_tensor tensor = {.name = name, .ndim = param->ndim};
    memcpy(tensor.shape, param->shape, sizeof(param->shape));
    return tensor;
}

static size_t count_tensors(const struct dt_weights_files *files)
{
    return files->param_count > 0 ? files->param_count
                                  : files->layout->param_count;
}

/* The tensors of the model, to be written as `stored`; NULL: out of memory. */
static struct dt_ckpt_tensor *list_tensors(const struct dt_weights_files *files)
{
    const struct dt_layout *layout = files->layout;
    const size_t count = count_tensors(files);
    struct dt_ckpt_tensor *tensors = calloc(count, sizeof(*tensors));
    for (size_t i = 0; tensors && i < count; i++) {
        const struct dt_param *param = &layout->params[i];
        tensors[i] = dt_weights_tensor(layout, i, param->name);
        tensors[i].stored = files->stored;
        tensors[i].view = files->source
                              ? (struct dt_view){.count = param->count,
                                                 .dtype = files->weights.dtype}
                              : dt_layout_param(layout, files->weights, i);
    }
    return tensors;
}

/* A template with a name that needs no quotes. */
static int is_template(const struct dirent *entry)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *name = entry->d_name;
    return name[0] != '.' && !name[strspn(name, letters)] &&
           dt_str_ends_with(name, ".jinja");
}

/* Copies the chat templates that have a name, into a folder of their own. */
static int add_templates(struct dt_ckpt_writer *writer, const char *source,
                         struct dt_error *err)
{
    static const char folder[] = "additional_chat_templates";
    struct dirent **entries = NULL;
    char before[64], inside[128], *dir = NULL;
    int rc = 0;
    if (asprintf(&dir, "%s/%s", source, folder) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int n = scandir(dir, &entries, is_template, alphasort);
    if (n > 0) {
        snprintf(before, sizeof(before), "%s", dt_ckpt_folder(writer));
        snprintf(inside, sizeof(inside), "%s%s", before, folder);
        before[strcspn(before, "/")] = '\0';
        rc = dt_ckpt_enter(writer, inside, err);
    }
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = dt_ckpt_add_copy(writer, entries[i]->d_name, dir,
                                  COPY_MAX_BYTES, err);
        free(entries[i]);
    }
    if (n > 0 && rc == 0)
        rc = dt_ckpt_enter(writer, before, err);
    free(entries);
    free(dir);
    return rc;
}

/* Copies the files of the tokenizer, the chat templates and the generation
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
        "spiece.model",
        "chat_template.jinja",
        "generation_config.json",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (dt_ckpt_add_copy(writer, names[i], source, COPY_MAX_BYTES, err) < 0)
            return -1;
    return add_templates(writer, source, err);
}

static int add_texts(struct dt_ckpt_writer *writer,
                     const struct dt_weights_files *files, struct dt_error *err)
{
    const char *name = files->adapter ? DT_ADAPTER_CONFIG_FILE : "config.json";
    const char *text = files->adapter ? files->adapter : files->config;
    if (dt_ckpt_add_text(writer, name, text, err) < 0)
        return -1;
    return files->tokenizer ? add_copies(writer, files->tokenizer, err) : 0;
}

/* The weights, which all ranks fetch together. */
static int add_weights(struct dt_ckpt_writer *writer,
                       const struct dt_weights_files *files,
                       const struct dt_ckpt_tensor *tensors,
                       struct dt_error *err)
{
    const int world = files->source ? files->world : 1;
    const size_t count = count_tensors(files);
    return files->adapter
               ? dt_ckpt_add_shared(writer, world, DT_ADAPTER_FILE, tensors,
                                    count, files->source, err)
               : dt_ckpt_add_model(writer, world, tensors, count,
                                   files->max_shard_bytes, files->source, err);
}

int dt_weights_save(struct dt_ckpt_writer *writer,
                    const struct dt_weights_files *files, struct dt_error *err)
{
    struct dt_error late;
    struct dt_ckpt_tensor *tensors = list_tensors(files);
    if (!tensors)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (files->tensors)
        *files->tensors = tensors;
    int rc = files->rank == 0 ? add_texts(writer, files, err) : 0;
    /* after a failure, too: ranks fetch together */
    if (add_weights(writer, files, tensors, rc < 0 ? &late : err) < 0)
        rc = -1;
    free(tensors);
    return rc;
}
