/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.h - a model and its tokenizer as a file for llama.cpp */
#ifndef DT_WEIGHTS_GGUF_MODEL_H
#define DT_WEIGHTS_GGUF_MODEL_H

#include "model/model.h"
#include "tensor/layout.h"
#include "weights/gguf.h"

/* Writes `path` with weights of F32, the flat buffer, as `type`: vectors and
 * positions stay F32, and with Q8_0 matrices whose rows are no multiple of 32
 * are F16, as convert_hf_to_gguf.py of llama.cpp has it. The tokenizer is that
 * of `dir`; without a tokenizer.json the file has none. -1: EX_DATAERR, the
 * model or its tokenizer has no counterpart in llama.cpp; EX_CANTCREAT,
 * EX_IOERR, EX_OSERR.
 */
int dt_gguf_write_model(const char *path, const char *dir,
                        const struct dt_model_config *config,
                        const struct dt_layout *layout, struct dt_view weights,
                        enum dt_gguf_type type, struct dt_error *err);

/* gguf_tokens.c: the values of the tokenizer in `dir`, for a model of so many
 * tokens. -1: as above.
 */
int dt_gguf_put_tokenizer(struct dt_gguf *gguf, const char *dir,
                          const struct dt_model_config *config,
                          struct dt_error *err);

#endif /* DT_WEIGHTS_GGUF_MODEL_H */
