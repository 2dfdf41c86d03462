/* SPDX-License-Identifier: Apache-2.0 */
/* weights_save.c - writes model directories, and checkpoints as such */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "ckpt/ckpt.h"
#include "model/model.h"
#include "model/model_adapter.h"
#include "weights/adapter_file.h"
#include "weights/parts.h"
#include "weights/weights.h"

enum {
    COPY_MAX_BYTES = 64 << 20, /* largest file that is copied */
};

static size_t count_tensors(const struct dt_weights_files *files)
{
    return files->param_count > 0 ? files->param_count
                                  : files->layout->param_count;
}

static size_t count_carried(const struct dt_weights_files *files)
{
    return files->carried ? files->carried->count : 0;
}

/* The tensors of the model, to be written as `stored`, and those that are
 * carried; NULL: out of memory.
 */
static struct dt_ckpt_tensor *list_tensors(const struct dt_weights_files *files)
{
    const struct dt_layout *layout = files->layout;
    const size_t count = count_tensors(files), more = count_carried(files);
    struct dt_ckpt_tensor *tensors = calloc(count + more, sizeof(*tensors));
    for (size_t i = 0; tensors && i < more; i++)
        tensors[count + i] = files->carried->tensors[i];
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

/* A template whose name needs no quotes. */
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

/* Whether a text, or that there is none, stands in place of a copy. */
static bool is_text(const struct dt_weights_files *files, const char *name)
{
    const struct dt_weights_text *text = files->texts;
    while (text && text->name && strcmp(text->name, name) != 0)
        text++;
    return text && text->name;
}

/* Copies the files of the tokenizer, the chat templates, the generation
 * settings and what makes pictures of images.
 */
static int add_copies(struct dt_ckpt_writer *writer,
                      const struct dt_weights_files *files,
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
        "preprocessor_config.json",
        "processor_config.json",
        "video_preprocessor_config.json",
        "chat_template.json",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!is_text(files, names[i]) &&
            dt_ckpt_add_copy(writer, names[i], files->tokenizer, COPY_MAX_BYTES,
                             err) < 0)
            return -1;
    return add_templates(writer, files->tokenizer, err);
}

static int add_texts(struct dt_ckpt_writer *writer,
                     const struct dt_weights_files *files, struct dt_error *err)
{
    const char *name = files->adapter ? DT_ADAPTER_CONFIG_FILE : "config.json";
    const char *text = files->adapter ? files->adapter : files->config;
    if (dt_ckpt_add_text(writer, name, text, err) < 0)
        return -1;
    for (const struct dt_weights_text *t = files->texts; t && t->name; t++)
        if (t->text && dt_ckpt_add_text(writer, t->name, t->text, err) < 0)
            return -1;
    return files->tokenizer ? add_copies(writer, files, err) : 0;
}

/* The source of the parameters, and the first tensor that every rank has. */
struct fetch {
    const struct dt_ckpt_source *source;
    const struct dt_ckpt_tensor *carried;
};

static int fetch_tensor(void *ctx, const struct dt_ckpt_tensor *tensor,
                        struct dt_view *view, struct dt_error *err)
{
    const struct fetch *fetch = ctx;
    if (tensor < fetch->carried)
        return fetch->source->fetch(fetch->source->ctx, tensor, view, err);
    *view = tensor->view;
    return 0;
}

/* The weights, which all ranks fetch together. */
static int add_weights(struct dt_ckpt_writer *writer,
                       const struct dt_weights_files *files,
                       const struct dt_ckpt_tensor *tensors,
                       struct dt_error *err)
{
    const int world = files->source ? files->world : 1;
    const size_t count = count_tensors(files) + count_carried(files);
    struct fetch fetch = {files->source, tensors + count_tensors(files)};
    const struct dt_ckpt_source all = {.fetch = fetch_tensor, .ctx = &fetch};
    const struct dt_ckpt_source *source = files->source ? &all : NULL;
    return files->adapter
               ? dt_ckpt_add_shared(writer, world, DT_ADAPTER_FILE, tensors,
                                    count, source, err)
               : dt_ckpt_add_model(writer, world, tensors, count,
                                   files->max_shard_bytes, source, err);
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

/* --- export --- */

static int find_source(struct dt_export *export, struct dt_error *err)
{
    if (dt_weights_find(export->from, export->found, err) < 0)
        return -1;
    if (dt_weights_has_file(export->found, "checksums.txt"))
        return dt_ckpt_verify(export->found, NULL, err);
    return 0;
}

/* Whether --overwrite may remove a directory: it has only regular files, and
 * they are those of a model, not of a checkpoint.
 */
static bool is_model(const char *path, DIR *dir)
{
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
             !S_ISREG(st.st_mode)))
            return false;
    }
    return dt_weights_has_file(path, "config.json") &&
           !dt_weights_has_file(path, "trainer_state.json");
}

static bool is_empty(DIR *dir)
{
    size_t count = 0;
    while (readdir(dir))
        count++;
    rewinddir(dir);
    return count <= 2; /* only . and .. */
}

static int check_target(const struct dt_export *export, struct dt_error *err)
{
    const char *path = export->to;
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT)
        return 0;
    if (!dir)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot open: %s", path,
                            strerror(errno));
    bool empty = is_empty(dir), model = is_model(path, dir);
    closedir(dir);
    if (!empty && !export->overwrite)
        return dt_error_set(err, EX_CANTCREAT,
                            "%s: not empty; --overwrite replaces a model "
                            "there",
                            path);
    if (!empty && !model)
        return dt_error_set(err, EX_CANTCREAT,
                            "%s: holds more than the files of a model, so it "
                            "is not overwritten",
                            path);
    return 0;
}

static int load_weights(const struct dt_export *export,
                        const struct dt_model_config *config,
                        const struct dt_layout *layout, struct dt_view weights,
                        struct dt_error *err)
{
    struct dt_parts *parts = NULL;
    if (!export->merge && dt_parts_open(export->found, layout, &parts, err) < 0)
        return -1;
    int have = parts ? dt_parts_have_some(parts, DT_OWNED_MASTER, err) : 0;
    int rc = have < 0 ? -1 : 0;
    if (have == 0 || have == 2) /* of 2, all that was frozen */
        rc =
            dt_weights_load_merged(export->found, config, layout, weights, err);
    if (have > 0 && rc == 0)
        rc = dt_parts_read(parts, DT_OWNED_MASTER,
                           (struct dt_range){0, layout->count}, weights, err);
    dt_parts_close(parts);
    return rc;
}

/* An adapter need not have a tokenizer of its own. */
static const char *tokenizer_dir(const struct dt_export *export)
{
    return dt_weights_has_file(export->found, "tokenizer.json") ? export->found
                                                                : export->base;
}

/* Writes score.weight, the last parameter, as a file of its own. */
static int add_head(struct dt_ckpt_writer *writer,
                    const struct dt_layout *layout, struct dt_view weights,
                    struct dt_error *err)
{
    const size_t last = layout->param_count - 1;
    struct dt_ckpt_tensor tensor =
        dt_weights_tensor(layout, last, layout->params[last].name);
    tensor.view = dt_layout_param(layout, weights, last);
    tensor.stored = weights.dtype;
    return dt_ckpt_add_tensors(writer, DT_VALUE_HEAD_FILE, &tensor, 1, NULL,
                               err);
}

static int write_model(const struct dt_export *export,
                       const struct dt_model_config *config,
                       const struct dt_layout *layout, struct dt_view weights,
                       const struct dt_carried *carried, struct dt_error *err)
{
    const bool apart = dt_model_head_apart(config);
    char *text = dt_model_config_format(config, weights.dtype, err);
    if (!text)
        return -1;
    const struct dt_weights_files files = {
        .config = text,
        .layout = layout,
        .param_count = layout->param_count - apart,
        .carried = carried,
        .weights = weights,
        .stored = weights.dtype,
        .max_shard_bytes = export->max_shard_bytes,
        .tokenizer = tokenizer_dir(export)};
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin_dir(export->to, export->overwrite, err);
    int rc = writer ? dt_weights_save(writer, &files, err) : -1;
    if (rc == 0 && apart)
        rc = add_head(writer, layout, weights, err);
    if (rc == 0)
        rc = dt_ckpt_commit(writer, err);
    else
        dt_ckpt_abandon(writer);
    free(text);
    return rc;
}

static int convert_checkpoint(struct dt_export *export,
                              const struct dt_model_config *config,
                              const struct dt_layout *layout,
                              struct dt_error *err)
{
    if (export->same_dtype &&
        dt_weights_dtype(export->base, layout, &export->dtype, err) < 0)
        return -1;
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * dt_dtype_bytes(export->dtype), "weights", err);
    if (!buf)
        return -1;
    struct dt_view weights = dt_view_of(buf, export->dtype);
    struct dt_carried carried = {0};
    int rc = load_weights(export, config, layout, weights, err);
    if (rc == 0)
        rc = dt_carried_load(&carried, export->base, layout, err);
    if (rc == 0)
        rc = write_model(export, config, layout, weights, &carried, err);
    dt_carried_fini(&carried);
    export->param_count = layout->param_total;
    dt_buffer_destroy(buf);
    return rc;
}

/* An adapter needs `merge`, as the result is a model. */
static int check_merge(struct dt_export *export, struct dt_error *err)
{
    if (dt_weights_base(export->found, export->base, err) < 0)
        return -1;
    const bool adapter = strcmp(export->found, export->base) != 0;
    if (adapter && !export->merge)
        return dt_error_set(err, EX_DATAERR,
                            "%s: an adapter, whose files PEFT reads as they "
                            "are; --merge writes the model with it",
                            export->found);
    if (!adapter && export->merge)
        return dt_error_set(err, EX_DATAERR,
                            "%s: --merge is for adapters, and this is a model",
                            export->found);
    return 0;
}

int dt_export(struct dt_export *export, struct dt_error *err)
{
    struct dt_model_config config = {0};
    struct dt_layout *layout = NULL;
    int rc = -1;
    if (find_source(export, err) == 0 && check_target(export, err) == 0 &&
        check_merge(export, err) == 0 &&
        dt_weights_config(export->found, &config, err) == 0)
        layout = dt_model_layout(&config, 1, err);
    if (layout)
        rc = convert_checkpoint(export, &config, layout, err);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    return rc;
}
