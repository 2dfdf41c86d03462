/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_pickle.h - the tensors that a pickle of torch.save describes; for ckpt/
 * only
 *
 * A pickle is a program. Of its operations those are known that torch.save
 * writes for a dictionary of tensors, and of the functions that it may call the
 * few that make one: they are recognized by name and build values here. No
 * other is ever called; whatever else is in a pickle is refused by name.
 */
#ifndef DT_CKPT_TORCH_PICKLE_H
#define DT_CKPT_TORCH_PICKLE_H

#include <stdint.h>

#include "base/error.h"

enum {
    PICKLE_MAX_DIMS = 8,
};

/* A tensor: a part of a storage, in order of its shape. */
struct pickle_tensor {
    const char *name; /* not NUL-terminated: in the pickle's bytes */
    size_t name_bytes;
    const char *dtype;   /* in the words of safetensors: "F32" */
    const char *storage; /* the name of the member data/..., as `name` */
    size_t storage_bytes;
    uint64_t first; /* elements of the storage before it */
    int ndim;
    uint64_t shape[PICKLE_MAX_DIMS];
};

/* Calls add(ctx) for each tensor of the dictionary in `bytes`. -1: that of
 * add(); EX_DATAERR with the byte and what is there, without the file's name;
 * EX_OSERR.
 */
int pickle_read(const void *bytes, size_t count,
                int (*add)(void *ctx, const struct pickle_tensor *tensor,
                           struct dt_error *err),
                void *ctx, struct dt_error *err);

#endif /* DT_CKPT_TORCH_PICKLE_H */
