/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - reads the weights of a model from a directory, and writes them */
#ifndef DT_WEIGHTS_WEIGHTS_H
#define DT_WEIGHTS_WEIGHTS_H

#include <limits.h>

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "tensor/layout.h"

/* The file of a checkpoint with the optimizer's tensors. If the model file has
 * another dtype, it also holds the fp32 weights, with this prefix to the names.
 */
#define DT_OPTIM_FILE "optim-rank-00000-of-00001.safetensors"
#define DT_OPTIM_MASTER "master/"

/* Finds the model that `dir` names: `dir` itself, or the newest checkpoint if
 * it is the output_dir of a run. *found has no symbolic links, since `latest`
 * may change while the model is read. -1: EX_NOINPUT.
 */
int dt_weights_find(const char *dir, char found[PATH_MAX],
                    struct dt_error *err);

/* Reads the model in `dir` (dt_safetensors_open_model) into the flat buffer
 * `weights` of F32, BF16 or F16. The names in the files may lack the prefix of
 * the layout ("transformer.", "model."). Masks and frequencies in old files are
 * skipped; so is a head that the layout lacks, if it equals the embedding,
 * which is the first parameter. -1: EX_NOINPUT, EX_IOERR, EX_DATAERR: names the
 * tensors that are missing, unexpected or of another shape, before anything is
 * read, or the first that is not finite.
 */
int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err);

/* Checks by names and shapes alone that dt_weights_load will find all it needs
 * in `dir`. -1: as dt_weights_load.
 */
int dt_weights_check(const char *dir, const struct dt_layout *layout,
                     struct dt_error *err);

/* The dtype in which the model in `dir` stores its embedding: F32, BF16 or F16.
 * -1: EX_NOINPUT, EX_DATAERR.
 */
int dt_weights_dtype(const char *dir, const struct dt_layout *layout,
                     enum dt_dtype *dtype, struct dt_error *err);

/* Reads the fp32 weights that a checkpoint has in DT_OPTIM_FILE. Returns 1, or
 * 0 if it has none. -1: EX_NOINPUT, EX_DATAERR, EX_IOERR, EX_OSERR.
 */
int dt_weights_load_master(const char *dir, const struct dt_layout *layout,
                           struct dt_view weights, struct dt_error *err);

/* Parameter i of a flat buffer as a tensor; the caller owns `name`. */
struct dt_ckpt_tensor dt_weights_tensor(const struct dt_layout *layout,
                                        struct dt_view flat, size_t i,
                                        const char *name);

/* The parameters of flats(count) as count * param_count tensors, to read, or to
 * write as `stored`. The names of those in flats[i] get the prefix prefixes[i].
 * Release with dt_weights_free_list, which accepts NULL. NULL and err:
 * EX_OSERR.
 */
struct dt_ckpt_tensor *dt_weights_list(const struct dt_layout *layout,
                                       const struct dt_view *flats,
                                       const char *const *prefixes,
                                       size_t count, enum dt_dtype stored,
                                       struct dt_error *err);
void dt_weights_free_list(struct dt_ckpt_tensor *tensors, size_t count);

/* The content of a Hugging Face model directory to write. */
struct dt_weights_files {
    const char *config; /* the text of config.json */
    const struct dt_layout *layout;
    struct dt_view weights; /* the flat buffer */
    enum dt_dtype stored;
    size_t max_shard_bytes;
    const char *source; /* a directory whose tokenizer files, chat template and
                           generation settings are copied, or NULL */
};

/* Adds all files of the model directory. -1: as dt_ckpt_add_*. */
int dt_weights_save(struct dt_ckpt_writer *writer,
                    const struct dt_weights_files *files, struct dt_error *err);

#endif /* DT_WEIGHTS_WEIGHTS_H */
