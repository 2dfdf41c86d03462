/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.h - models in other formats, and how to convert them */
#ifndef DT_BASE_FOREIGN_H
#define DT_BASE_FOREIGN_H

#include <stddef.h>

#include "base/error.h"

/* For a directory without the files of a model that we read: -1 and
 * EX_DATAERR, with advice, if names of other files tell its format; 0 if they
 * do not, or it cannot be listed.
 */
int dt_foreign_dir(const char *dir, struct dt_error *err);

/* The same for one with config.json, without weights that we read: also if they
 * only have other names, or no index.
 */
int dt_foreign_weights(const char *dir, struct dt_error *err);

/* The same for an adapter without adapter_model.safetensors. */
int dt_foreign_adapter(const char *dir, struct dt_error *err);

/* The same for a regular file where such a directory is expected; its first
 * bytes tell, too.
 */
int dt_foreign_file(const char *path, struct dt_error *err);

/* The same for one without tokenizer.json, and other tokenizers. */
int dt_foreign_tokenizer(const char *dir, struct dt_error *err);

/* For data[bytes) that the file `path` begins with: -1 and EX_DATAERR if that
 * is a pointer, which git-lfs leaves in place of a file.
 */
int dt_foreign_pointer(const char *path, const void *data, size_t bytes,
                       struct dt_error *err);

#endif /* DT_BASE_FOREIGN_H */
