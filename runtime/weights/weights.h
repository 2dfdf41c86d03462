/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - reads the weights of a model from a directory, and writes them */
#ifndef DT_WEIGHTS_WEIGHTS_H
#define DT_WEIGHTS_WEIGHTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"

/* Finds the model or the adapter that `dir` names: `dir` itself, or the best
 * or newest checkpoint if it is the output_dir of a run. *found has no symbolic
 * links, since `latest` may change while the model is read. -1: EX_NOINPUT;
 * EX_IOERR, it cannot be looked at.
 */
int dt_weights_find(const char *dir, char found[PATH_MAX],
                    struct dt_error *err);

struct dt_weights; /* the open files of a model */

/* Opens the model in `dir` (dt_safetensors_open_model). The names in the files
 * may have another spelling than those of the layout (dt_model_names_alike).
 * Masks and frequencies in old files are skipped; so are a head over the
 * vocabulary that the layout lacks, and tensors that are carried. NULL and err:
 * EX_NOINPUT, EX_IOERR, EX_DATAERR naming the tensors that are missing,
 * unexpected or of another shape.
 */
struct dt_weights *dt_weights_open(const char *dir,
                                   const struct dt_layout *layout,
                                   struct dt_error *err);
void dt_weights_close(struct dt_weights *weights); /* NULL is fine */

/* The file of a score.weight that is not among the others: other programs read
 * the model in the same directory as if there were none.
 */
#define DT_VALUE_HEAD_FILE "value_head.safetensors"

/* The same for a model whose score.weight may be missing, because a reward
 * model begins from a language model: *scores is whether the files have it. If
 * not, reading leaves it as it is.
 */
struct dt_weights *dt_weights_open_trunk(const char *dir,
                                         const struct dt_layout *layout,
                                         bool *scores, struct dt_error *err);

/* The same for the adapter in `dir` (model/model_adapter.h), with its layout.
 */
struct dt_weights *dt_weights_open_adapter(const char *dir,
                                           const struct dt_layout *layout,
                                           struct dt_error *err);

/* Checks that what the files have twice is equal: a head that the layout ties
 * to the embedding, and parameters in two spellings. -1: EX_DATAERR, EX_IOERR.
 */
int dt_weights_check_twins(const struct dt_weights *weights,
                           struct dt_error *err);

/* Reads the elements `range` of the flat buffer into the view of as many F32,
 * BF16 or F16; padding stays as it is. Rows that the layout has and the files
 * lack (stored_rows) become the mean of the others. -1: EX_IOERR, EX_DATAERR
 * naming the first tensor that is not finite.
 */
int dt_weights_read(const struct dt_weights *weights, struct dt_range range,
                    struct dt_view to, struct dt_error *err);

/* The directory of the model for `dir`, which dt_weights_find has found:
 * itself, or the directory of the model that an adapter names. -1: EX_DATAERR,
 * an adapter that names no directory with a model.
 */
int dt_weights_base(const char *dir, char base[PATH_MAX], struct dt_error *err);

/* Reads the whole flat buffer `to`. -1: as above. */
int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view to, struct dt_error *err);

/* The config of the model for `dir`, which dt_weights_find has found; for an
 * adapter, that of the model it names, with the head for which it was trained.
 * -1: as dt_weights_base, dt_model_config_load. dt_model_config_fini in any
 * case.
 */
int dt_weights_config(const char *dir, struct dt_model_config *config,
                      struct dt_error *err);

/* The same as dt_weights_load for such a model; an adapter is merged into its
 * weights.
 */
int dt_weights_load_merged(const char *dir,
                           const struct dt_model_config *config,
                           const struct dt_layout *layout, struct dt_view to,
                           struct dt_error *err);

/* The index of the parameter that is called `name` in any spelling, or -1. */
int dt_weights_param(const struct dt_layout *layout, const char *name);

/* Lets the config have the spelling of the names in `dir`. false: there are no
 * weights.
 */
bool dt_weights_spell(const char *dir, struct dt_model_config *config);

/* Tensors that nothing is computed with, as files have them. */
struct dt_carried {
    struct dt_ckpt_tensor *tensors;
    size_t count;
};

/* Whether the model of the layout has such a tensor. */
bool dt_carried_is(const struct dt_layout *layout, const char *name);

/* Reads those of the model in `dir` into memory; files need not have them.
 * dt_carried_fini. -1: as dt_weights_open.
 */
int dt_carried_load(struct dt_carried *carried, const char *dir,
                    const struct dt_layout *layout, struct dt_error *err);
void dt_carried_fini(struct dt_carried *carried);

/* The dtype in which the model in `dir` stores its embedding: F32, which stands
 * for F64, too, BF16 or F16. -1: EX_NOINPUT, EX_DATAERR.
 */
int dt_weights_dtype(const char *dir, const struct dt_layout *layout,
                     enum dt_dtype *dtype, struct dt_error *err);

/* Whether <dir>/<name> is there. */
bool dt_weights_has_file(const char *dir, const char *name);

/* Parameter i as a tensor called `name`, without a view. */
struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        size_t i, const char *name);

/* A file of text that is written in place of a copy; NULL: no such file. */
struct dt_weights_text {
    const char *name, *text;
};

/* The content of a Hugging Face model directory to write, or of PEFT's
 * directory of an adapter.
 */
struct dt_weights_files {
    const char *config;  /* the text of config.json, or ... */
    const char *adapter; /* ... of adapter_config.json */
    const struct dt_layout *layout;
    size_t param_count; /* number of parameters to write; 0: all */
    const struct dt_carried *carried; /* written after them; NULL: none */
    struct dt_view weights; /* the flat buffer, or only its type if there is a
                               source */
    enum dt_dtype stored;
    size_t max_shard_bytes;
    const char *tokenizer; /* a directory whose tokenizer files, chat template
                              and generation settings are copied, or NULL */
    const struct dt_weights_text *texts; /* up to a name of NULL; NULL: none */
    /* For several ranks, which all make the call; NULL: rank 0 of 1. */
    const struct dt_ckpt_source *source;
    const struct dt_ckpt_tensor **tensors; /* set to the array of tensors that
                                              the source gets, in the order of
                                              layout->params */
    int rank, world;
};

/* Adds all files of the model directory. -1: as dt_ckpt_add_*. */
int dt_weights_save(struct dt_ckpt_writer *writer,
                    const struct dt_weights_files *files, struct dt_error *err);

/* ---- the host's view of a buffer of the device ---- */

/* Host memory for a view: the view itself if it is in host memory, else a copy
 * of the same size.
 */
struct dt_host_copy {
    const struct dt_exec *exec;
    struct dt_view there, here; /* on the device; on the host */
};

/* Opens a host copy of `view`. With `fetch`, waits for the stream and copies
 * the content; else a copy starts with zeros. -1: EX_OSERR, or the device
 * failed. The caller calls dt_host_copy_close in any case.
 */
int dt_host_copy_open(struct dt_host_copy *copy, const struct dt_exec *exec,
                      struct dt_view view, bool fetch, struct dt_error *err);

/* Copies changes by the host to the device, in stream order. -1: the device
 * failed.
 */
int dt_host_copy_publish(const struct dt_host_copy *copy, struct dt_error *err);

/* Frees the copy. */
void dt_host_copy_close(struct dt_host_copy *copy);

/* ---- Hugging Face directories ---- */

struct dt_export {
    const char *from; /* a checkpoint, a run.output_dir (for its newest one), or
                         any Hugging Face directory with weights */
    const char *to;
    bool same_dtype;     /* use the dtype of `from`, and set `dtype` to it */
    enum dt_dtype dtype; /* F32, BF16 or F16 */
    size_t max_shard_bytes;
    bool merge;     /* `from` is an adapter: writes its model, with the adapter
                       merged into the weights */
    bool overwrite; /* replace `to` if it is a model directory */

    char found[PATH_MAX]; /* set to the checkpoint that was read */
    char base[PATH_MAX];  /* set to that of the model: the same, unless it is an
                             adapter */
    size_t param_count;   /* set to the number of parameters written */
};

/* Writes the weights, config.json and the other files of the model, but nothing
 * about the training. If a checkpoint also has fp32 weights, those are used.
 * `to` is whole afterwards, or unchanged on failure. -1: EX_NOINPUT, EX_DATAERR
 * (also a damaged checkpoint), EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_export(struct dt_export *export, struct dt_error *err);

/* ---- tensor_names.c ---- */

/* Sorts names(count) and writes them to text(room), separated by commas. Names
 * that differ only in a layer number are merged: "h.0-3,5.ln_1.bias". After the
 * first few it says "and 7 more". Control characters become '?'.
 */
void dt_tensor_names_print(char *text, size_t room, const char **names,
                           size_t count);

#endif /* DT_WEIGHTS_WEIGHTS_H */
