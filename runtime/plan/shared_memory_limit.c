/* SPDX-License-Identifier: Apache-2.0 */
/* shared_memory_limit.c - the least memory of all ranks, with which all plan */
#include "config.h"

#include <stdint.h>

#include "plan/plan.h"
#include "run/run.h"

/* Bytes that NCCL takes when messages are first sent to all peers, which is how
 * gradients in bf16 travel: a channel to each of 7 peers and more.
 */
static const size_t NCCL_MESSAGES = (size_t)3 << 29;

static bool has_gpu_peers(const struct dt_spec *spec)
{
    return spec->world > 1 && !spec->exec.device->is_host;
}

int dt_plan_least_memory(const struct dt_spec *spec, struct dt_comm *comm,
                         size_t *left, struct dt_error *err)
{
    const struct dt_device *device = spec->exec.device;
    double missing;
    if (has_gpu_peers(spec) && dt_comm_barrier(comm, err) < 0)
        return -1;
    *left = device->available_bytes();
    if (!has_gpu_peers(spec))
        return 0;
    missing = -(double)*left;
    if (dt_comm_reduce_scalars(comm, &missing, 1, DT_MAX, err) < 0)
        return -1;
    *left = missing <= -0x1p63 ? SIZE_MAX : (size_t)-missing;
    return 0;
}

size_t dt_plan_plannable(const struct dt_spec *spec, size_t left)
{
    if (!has_gpu_peers(spec) || !spec->conf.precision.reduce_bf16)
        return left;
    return left > NCCL_MESSAGES ? left - NCCL_MESSAGES : 0;
}
