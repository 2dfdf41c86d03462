/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the hardware of a benchmark, and a random model on it */
#include "config.h"

#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "tests/unit/random_weights.h"
#include "weights/weights.h"

void machine_must(bool done, const struct dt_error *err)
{
    if (done)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

struct dt_exec machine_open(const char *device)
{
    const struct dt_backend_options options = {0};
    struct dt_error err;
    const struct dt_backend *backend =
        dt_backend_open(device, &options, NULL, 0, &err);

    machine_must(backend, &err);
    struct dt_exec exec = {backend->device, backend->ops, NULL};
    machine_must(exec.device->stream_create(&exec.stream, &err) == 0, &err);
    return exec;
}

struct dt_view machine_memory(const struct dt_exec *exec, size_t count,
                              enum dt_dtype dtype, const char *what)
{
    struct dt_error err;
    struct dt_buffer *buf = dt_buffer_create(
        exec->device, count * dt_dtype_bytes(dtype), what, &err);

    machine_must(buf, &err);
    return dt_view_of(buf, dtype);
}

struct dt_view machine_weights(const struct dt_exec *exec,
                               const struct dt_model_config *config,
                               const struct dt_layout *layout)
{
    struct dt_view weights =
        machine_memory(exec, layout->count, DT_F32, "weights");
    struct dt_host_copy mirror;
    struct dt_error err;

    machine_must(dt_host_copy_open(&mirror, exec, weights, false, &err) == 0,
                 &err);
    random_weights(config, layout, mirror.here, 1);
    machine_must(dt_host_copy_publish(&mirror, &err) == 0, &err);
    dt_host_copy_close(&mirror);
    return weights;
}

bool machine_type(const char *name, enum dt_dtype *type)
{
    static const char *const names[] = {
        [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16"};

    for (int t = DT_F32; t <= DT_F16; t++)
        if (!strcmp(names[t], name)) {
            *type = t;
            return true;
        }
    return false;
}
