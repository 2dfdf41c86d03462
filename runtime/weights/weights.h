/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the weights of a model from a directory, and into one */
#ifndef DT_ALGO_WEIGHTS_H
#define DT_ALGO_WEIGHTS_H

#include <limits.h>

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "tensor/layout.h"

/* Where a checkpoint keeps the optimizer's tensors, among them, with a prefix
 * to their names, the fp32 weights of a run whose model file is of another
 * type.
 */
#define DT_OPTIM_FILE "optim-rank-00000-of-00001.safetensors"
#define DT_OPTIM_MASTER "master/"

/* The model that `dir` means: itself, or the newest checkpoint of the run whose
 * output_dir it is. `found` is without symbolic links: `latest` may move on.
 * -1: EX_NOINPUT.
 */
int dt_weights_find(const char *dir, char found[PATH_MAX],
                    struct dt_error *err);

/* Reads the model in `dir` (dt_safetensors_open_model) into the flat buffer
 * `weights` of F32, BF16 or F16. The names in the files may lack the prefix of
 * the layout's ("transformer.", "model."); masks and frequencies that old files
 * carry are skipped, and so is a head that the layout has not, if it equals the
 * embedding, the first parameter. -1: EX_NOINPUT, EX_IOERR, or EX_DATAERR with
 * every tensor that is missing, unexpected or of another shape by name, and
 * nothing is read then; or with the first that is not finite.
 */
int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err);

/* Whether dt_weights_load will find what it needs in `dir`, from names and
 * shapes alone. -1: as there.
 */
int dt_weights_check(const char *dir, const struct dt_layout *layout,
                     struct dt_error *err);

/* What the embedding is stored as in `dir`: F32, BF16 or F16. -1: EX_NOINPUT,
 * EX_DATAERR.
 */
int dt_weights_dtype(const char *dir, const struct dt_layout *layout,
                     enum dt_dtype *dtype, struct dt_error *err);

/* As dt_weights_load, from the fp32 weights that the checkpoint `dir` has
 * beside its model: 1, or 0 if it has none.
 */
int dt_weights_load_master(const char *dir, const struct dt_layout *layout,
                           struct dt_view weights, struct dt_error *err);

/* Parameter i of a flat buffer as a tensor with a name of the caller's. */
struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        struct dt_view flat, size_t i,
                                        const char *name);

/* The parameters of flats(count) as count * param_count tensors, to read
 * or to write as `stored`, those of flats[i] with prefixes[i] before their
 * names. NULL and err: EX_OSERR. Release with dt_weights_free_list, which takes
 * NULL.
 */
struct dt_ckpt_tensor *dt_weights_list(const struct dt_layout *layout,
                                       const struct dt_view *flats,
                                       const char *const *prefixes,
                                       size_t count, enum dt_dtype stored,
                                       struct dt_error *err);
void dt_weights_free_list(struct dt_ckpt_tensor *tensors, size_t count);

/* A model directory of Hugging Face to be. */
struct dt_weights_files {
    const char *config; /* the text of config.json */
    const struct dt_layout *layout;
    struct dt_view weights; /* flat */
    enum dt_dtype stored;
    size_t max_shard_bytes;
    const char *source; /* a directory whose tokenizer files, chat template and
                           generation settings are copied, or NULL */
};

/* Adds all its files. -1: as dt_ckpt_add_*. */
int dt_weights_save(struct dt_ckpt_writer *writer,
                    const struct dt_weights_files *files, struct dt_error *err);

#endif /* DT_ALGO_WEIGHTS_H */
