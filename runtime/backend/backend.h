/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - one kind of hardware: its device, its math, its collectives
 *
 * `cpu` is built in. `cuda` is the module disttrain-cuda.so, which is opened
 * when it is asked for: nothing else needs a library of CUDA. A module has one
 * symbol, dt_backend_module, and shares no state with the program.
 */
#ifndef DT_BACKEND_BACKEND_H
#define DT_BACKEND_BACKEND_H

#include <stdbool.h>

#include "base/error.h"
#include "comm/comm.h"
#include "device/device.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_backend_options {
    int local_rank;     /* which GPU, if more than one is visible */
    bool deterministic; /* the same bits in every run */
    bool tf32;          /* products of fp32 may round their factors */
    enum dt_attention_kind attention;
};

/* Two structs that were compiled apart must be of one version. */
enum { DT_BACKEND_VERSION = 1 };

struct dt_backend {
    unsigned version;
    const char *name; /* "cpu", "cuda" */
    /* Makes the hardware ready; once, before device and ops are used. -1:
     * EX_UNAVAILABLE, with the part that is missing.
     */
    int (*open)(const struct dt_backend_options *options, struct dt_error *err);
    /* Several lines "name: value\n" about libraries, driver and GPUs, for
     * `disttrain info`: each is there, or why not. open is not needed.
     */
    void (*describe)(char *text, size_t bytes);
    const struct dt_device *device;
    const struct dt_ops *ops;
    /* As dt_comm_create, for a world of two and more. */
    struct dt_comm *(*connect)(const struct dt_comm_world *world,
                               const struct dt_comm_options *options,
                               struct dt_error *err);
};

/* The symbol of a module. */
#define DT_BACKEND_SYMBOL "dt_backend_module"
/* Its type. */
extern const struct dt_backend dt_backend_module
    __attribute__((visibility("default")));

/* The backend "cpu" or "cuda", opened; or with "auto" cuda where there is a
 * GPU, else cpu, and why is left in note ("" for nothing to say), which may be
 * NULL. NULL and err: EX_CONFIG, with the reason why there is no cuda.
 */
const struct dt_backend *dt_backend_open(
    const char *name, const struct dt_backend_options *options, char *note,
    size_t note_bytes, struct dt_error *err);

/* The cuda module without opening the hardware; NULL and err if there is none.
 */
const struct dt_backend *dt_backend_load(struct dt_error *err);

/* Every rank calls it before it connects, whatever its file says of the device,
 * and fails unless it has the device of rank 0. -1: EX_CONFIG naming the two,
 * or as the functions of `world`.
 */
int dt_backend_agree(const struct dt_backend *backend,
                     const struct dt_comm_world *world, int timeout_ms,
                     struct dt_error *err);

/* A communicator for views of this backend: "self" for a world of one. As
 * dt_comm_create.
 */
struct dt_comm *dt_backend_connect(const struct dt_backend *backend,
                                   const struct dt_comm_world *world,
                                   const struct dt_comm_options *options,
                                   struct dt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DT_BACKEND_BACKEND_H */
